//! Lines become events: a time, and the columns that the query needs.

use std::path::{Path, PathBuf};

use divvy_kernels::aggregate::Query;
use divvy_kernels::text::{Field, Number, csv, json};
use divvy_kernels::window::TIME_MS_MAX;

use super::options::{Format, Options, TimeUnit};
use super::source::Reader;
use crate::job::PartError;

/// Reads the lines of one source.
pub(super) struct Rows {
    unit: TimeUnit,
    /// The columns of the query, and last the time.
    names: Vec<String>,
    shape: Shape,
}

enum Shape {
    Json(json::Members),
    /// The file whose header is known, and its rows.
    Csv(Option<(PathBuf, csv::Rows)>),
}

impl Rows {
    pub(super) fn new(options: &Options, query: &Query) -> Self {
        let mut names = query.columns().to_vec();
        names.push(options.time.clone());
        let shape = match options.format {
            Format::Jsonl => Shape::Json(json::Members::new(&names)),
            Format::Csv => Shape::Csv(None),
        };
        Self { unit: options.time_unit, names, shape }
    }

    /// Gets ready for lines of this file; says whether its first line is a header.
    pub(super) fn begin(&mut self, path: &Path) -> Result<bool, PartError> {
        let Shape::Csv(known) = &mut self.shape else { return Ok(false) };
        if known.as_ref().is_some_and(|(of, _)| of == path) {
            return Ok(true);
        }
        let header = Reader::header(path).map_err(|error| PartError::io(path, &error))?;
        let Some(header) = header else {
            return Err(PartError::input(path, 1, "the header is longer than 65,536 bytes"));
        };
        check_text(&header).map_err(|why| PartError::input(path, 1, why))?;
        let columns =
            csv::header(&header, b',').map_err(|error| PartError::input(path, 1, error))?;
        let place = |name: &String| {
            columns.iter().position(|column| column == name).ok_or_else(|| {
                let why =
                    format!("the header has no column `{name}`; it has {}", columns.join(", "));
                PartError::input(path, 1, why)
            })
        };
        let wanted: Vec<usize> = self.names.iter().map(place).collect::<Result<_, _>>()?;
        *known = Some((path.to_owned(), csv::Rows::new(b',', columns.len(), &wanted)));
        Ok(true)
    }

    /// Hands the time and the columns of a line to `take`.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    #[inline]
    pub(super) fn read<T>(
        &mut self,
        line: &[u8],
        take: impl FnOnce(i64, &[Field<'_>]) -> Result<T, String>,
    ) -> Result<T, String> {
        let (unit, name) = (self.unit, self.names.last());
        let with_time = |fields: &[Field<'_>]| {
            let (time, columns) = fields.split_last().ok_or_else(String::new)?;
            take(event_time(time, unit, name.map_or("", String::as_str))?, columns)
        };
        match &mut self.shape {
            Shape::Json(members) => {
                members.read(line, with_time).map_err(|error| error.to_string())?
            }
            Shape::Csv(Some((_, rows))) => {
                check_text(line)?;
                rows.read(line, with_time).map_err(|error| error.to_string())?
            }
            Shape::Csv(None) => Err("the header was not read".to_owned()),
        }
    }
}

/// An error if a line is not text. JSON that is not is no JSON.
#[inline]
fn check_text(line: &[u8]) -> Result<(), String> {
    std::str::from_utf8(line)
        .map(drop)
        .map_err(|error| format!("byte {} of the line is not UTF-8", error.valid_up_to() + 1))
}

/// The time of an event in milliseconds since 1970: a number, or a text such as `2026-11-17T10:00:00Z`.
#[inline]
fn event_time(field: &Field<'_>, unit: TimeUnit, name: &str) -> Result<i64, String> {
    let time = match (field.number(), unit) {
        (Some(Number::Whole(ms)), TimeUnit::Ms) => Some(ms),
        (Some(Number::Whole(s)), TimeUnit::S) => s.checked_mul(1_000),
        (Some(Number::Float(value)), unit) => {
            let ms = value * if unit == TimeUnit::S { 1_000.0 } else { 1.0 };
            (ms.is_finite() && ms.abs() <= TIME_MS_MAX as f64).then_some(ms.floor() as i64)
        }
        (None, _) => match field {
            Field::Text(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse::<jiff::Timestamp>().ok())
                .map(|time| time.as_millisecond()),
            Field::Nothing | Field::Number(_) => None,
        },
    };
    time.filter(|time| (-TIME_MS_MAX..=TIME_MS_MAX).contains(time))
        .ok_or_else(|| no_time(field, name))
}

#[cold]
fn no_time(field: &Field<'_>, name: &str) -> String {
    let text = field.text(&mut Vec::new()).to_vec();
    let shown: String = String::from_utf8_lossy(&text).chars().take(60).collect();
    if shown.is_empty() {
        return format!("the event has no time in `{name}`");
    }
    format!(
        "`{name}` is `{shown}`, which is no time; a time is a number since 1970, or such as 2026-11-17T10:00:00Z"
    )
}
