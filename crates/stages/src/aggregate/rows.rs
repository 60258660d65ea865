//! Rows of a file: which of its columns are wanted, and how a line becomes fields.

use std::io::BufRead as _;

use divvy_kernels::aggregate::Query;
use divvy_kernels::text::Field;
use divvy_kernels::text::csv::{Rows as CsvRows, header};
use divvy_kernels::text::json::Members;

use super::options::{Format, Options};
use crate::input::{Split, open};
use crate::job::{InputFile, PartError, PartIo};

/// Bytes of a header at most.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// How the lines of a file are read.
pub(super) struct Rows {
    how: How,
    /// Whether the first line of the file is a header.
    pub(super) has_header: bool,
}

enum How {
    Csv(CsvRows),
    Json(Members),
}

impl Rows {
    /// For this file, whose header is looked at if it has one.
    pub(super) fn of(
        input: &InputFile,
        options: &Options,
        query: &Query,
        io: &PartIo<'_>,
    ) -> Result<Self, PartError> {
        let format = options.format_of(&input.path);
        let (format, delimiter) = format.map_err(|error| PartError::Broken(error.to_string()))?;
        if format != Format::Csv {
            return Ok(Self { how: How::Json(Members::new(query.columns())), has_header: false });
        }
        let (names, has_header) = match &options.columns {
            Some(names) => (names.clone(), false),
            None => (names_in(input, delimiter, io)?, true),
        };
        let mut wanted = Vec::new();
        for column in query.columns() {
            let Some(place) = names.iter().position(|name| name == column) else {
                let has = names.iter().take(20).cloned().collect::<Vec<_>>().join(", ");
                let why = format!("there is no column `{column}`; the header has {has}");
                return Err(PartError::input(&input.path, 1, why));
            };
            wanted.push(place);
        }
        Ok(Self { how: How::Csv(CsvRows::new(delimiter, names.len(), &wanted)), has_header })
    }

    /// Hands the wanted fields of a line to `take`; what is wrong with the line otherwise.
    #[inline]
    pub(super) fn read<E: std::fmt::Display>(
        &mut self,
        line: &[u8],
        take: impl FnOnce(&[Field<'_>]) -> Result<(), E>,
    ) -> Result<(), String> {
        match &mut self.how {
            How::Csv(rows) => match rows.read(line, take) {
                Ok(taken) => taken.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            How::Json(members) => match members.read(line, take) {
                Ok(taken) => taken.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

fn names_in(input: &InputFile, delimiter: u8, io: &PartIo<'_>) -> Result<Vec<String>, PartError> {
    use std::io::Read as _;
    let whole = Split { file: 0, from: 0, to: u64::MAX };
    let mut line = Vec::new();
    let mut reader = std::io::BufReader::new(open(io, input, whole)?.take(HEADER_BYTES_MAX));
    reader.read_until(b'\n', &mut line).map_err(|error| {
        PartError::input(&input.path, 1, format!("the header cannot be read: {error}"))
    })?;
    let mut line = line.as_slice();
    line = line.strip_suffix(b"\n").unwrap_or(line);
    line = line.strip_suffix(b"\r").unwrap_or(line);
    // Some programs mark UTF-8 so.
    line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    header(line, delimiter).map_err(|error| PartError::input(&input.path, 1, error))
}
