//! What is known of a group in the end: a cell per word of the query, with bounds where it is approximate, as CSV or JSON.

use datasketches::common::NumStdDev;
use datasketches::frequencies::{ErrorType, FrequentItemsSketch, Row};
use serde_json::{Value as Json, json};

use super::quantile::{WIDTH, of_sorted};
use super::query::{Ask, Measure, Query};
use super::rough::KEPT_MAX;
use super::state::{FREQUENT_SIZE, State, Value};
use super::table::Table;
use crate::text::csv::write_field;

/// The answer for one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The columns of its key.
    pub key: Vec<Vec<u8>>,
    /// A cell per word of the query.
    pub cells: Vec<Cell>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The answer; null if there was nothing.
    pub value: Json,
    /// Between which numbers the exact answer is; only of an approximate one.
    pub bounds: Option<(Json, Json)>,
}

impl Query {
    /// The names of all columns of the result.
    pub fn header(&self) -> Vec<String> {
        let mut names = self.columns()[..self.keys()].to_vec();
        for measure in self.measures() {
            names.push(measure.name.clone());
            if self.is_approximate() && is_bounded(measure.ask) {
                names.extend(["low", "high"].map(|end| format!("{}_{end}", measure.name)));
            }
        }
        names
    }

    /// How far approximate answers may be off, a sentence per sort.
    pub fn error_bounds(&self) -> Vec<String> {
        if !self.is_approximate() {
            return Vec::new();
        }
        let mut told: Vec<String> = Vec::new();
        for measure in self.measures() {
            let name = &measure.name;
            told.extend(match measure.ask {
                Ask::Distinct => Some(format!(
                    "{name}: within 3.3 % with 95 % confidence (HyperLogLog); {name}_low and {name}_high are its bounds in each group"
                )),
                Ask::Common => Some(format!(
                    "{name}: within 3.2 % of how many the two columns have together, with 95 % confidence (theta sketches); {name}_low and {name}_high are its bounds in each group"
                )),
                Ask::Quantile(_) => Some(format!(
                    "{name}: exact in groups of at most {KEPT_MAX} numbers; in larger ones within {:.1} % of the value, always, and mostly much closer (t-digest); {name}_low and {name}_high are its bounds in each group",
                    WIDTH * 100.0
                )),
                Ask::Top(_) => Some(format!(
                    "{name}: each count is within {:.2} % of the group's rows, always; low and high are its bounds",
                    3.5 / FREQUENT_SIZE as f64 * 100.0
                )),
                _ => None,
            });
        }
        told
    }
}

/// Whether an approximate answer is one number with bounds.
fn is_bounded(ask: Ask) -> bool {
    matches!(ask, Ask::Distinct | Ask::Common | Ask::Quantile(_))
}

impl Answer {
    pub(super) fn new(query: &Query, key: Vec<Vec<u8>>, states: &mut [State]) -> Self {
        for state in &mut *states {
            if let State::Numbers(numbers) = state {
                numbers.sort_unstable_by(f64::total_cmp);
            }
        }
        let cells = query.measures().iter().map(|measure| cell_of(measure, states)).collect();
        let key = if query.keys() == 0 { Vec::new() } else { key };
        Self { key, cells }
    }

    /// Appends it as a line of CSV.
    pub fn write_csv(&self, out: &mut Vec<u8>) {
        let mut first = true;
        let mut put = |text: &[u8]| {
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            write_field(text, b',', out);
        };
        self.key.iter().for_each(|column| put(column));
        for cell in &self.cells {
            put(csv_text(&cell.value).as_bytes());
            if let Some((low, high)) = &cell.bounds {
                put(csv_text(low).as_bytes());
                put(csv_text(high).as_bytes());
            }
        }
        out.push(b'\n');
    }

    /// Appends it as a line of JSON, with these names.
    pub fn write_json(&self, names: &[String], out: &mut Vec<u8>) {
        let mut values: Vec<Json> = self.key.iter().map(|column| text(column)).collect();
        for cell in &self.cells {
            values.push(cell.value.clone());
            if let Some((low, high)) = &cell.bounds {
                values.extend([low.clone(), high.clone()]);
            }
        }
        out.push(b'{');
        for (at, (name, value)) in names.iter().zip(values).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(Json::from(name.as_str()).to_string().as_bytes());
            out.push(b':');
            out.extend_from_slice(value.to_string().as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }
}

fn csv_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn text(bytes: &[u8]) -> Json {
    Json::from(String::from_utf8_lossy(bytes).into_owned())
}

fn exact(value: Json) -> Cell {
    Cell { value, bounds: None }
}

/// An estimate of a number of texts, and between which numbers it is.
fn estimate(value: f64, low: f64, high: f64) -> Cell {
    let whole = |value: f64| json!(value.max(0.0).round() as u64);
    Cell { value: whole(value), bounds: Some((whole(low), whole(high))) }
}

fn cell_of(measure: &Measure, states: &mut [State]) -> Cell {
    match measure.second {
        None => cell(measure.ask, &mut states[measure.state]),
        Some(second) => common(&states[measure.state], &states[second]),
    }
}

/// How many different texts are in both.
fn common(one: &State, other: &State) -> Cell {
    if let (State::Sample(one), State::Sample(other)) = (one, other) {
        let (value, low, high) = one.common(other);
        return estimate(value, low, high);
    }
    exact(json!(one.common(other)))
}

fn cell(ask: Ask, state: &mut State) -> Cell {
    match (ask, state) {
        (_, State::Count(count)) => exact(json!(*count)),
        (Ask::Average, State::Sum(sum)) => exact(match sum.numbers() {
            0 => Json::Null,
            numbers => json!(sum.float() / numbers as f64),
        }),
        (_, State::Sum(sum)) => exact(match (sum.numbers(), sum.whole()) {
            (0, _) => Json::Null,
            (_, Some(whole)) => match i64::try_from(whole) {
                Ok(whole) => json!(whole),
                // JSON numbers of this size lose digits where they are read.
                Err(_) => json!(whole.to_string()),
            },
            (_, None) => json!(sum.float()),
        }),
        (_, State::Least(value) | State::Most(value)) => exact(match value {
            None => Json::Null,
            Some(Value::Text(bytes)) => text(bytes),
            Some(value @ Value::Number(_)) => {
                let mut written = Vec::new();
                value.write(&mut written);
                serde_json::from_slice(&written).unwrap_or(Json::Null)
            }
        }),
        (Ask::Top(most), State::Counts(table)) => exact(top(table, most)),
        (_, State::Counts(table)) => exact(json!(table.len())),
        (_, State::Different(different)) => exact(json!(different.len())),
        (Ask::Top(most), State::Frequent(sketch)) => exact(frequent(sketch, most)),
        (_, State::Frequent(_)) => exact(Json::Null),
        (_, State::Distinct(registers)) => {
            let union = registers.union();
            let [low, high] =
                [union.lower_bound(NumStdDev::Two), union.upper_bound(NumStdDev::Two)];
            estimate(union.composite_estimate(), low, high)
        }
        (_, State::Sample(_)) => unreachable!("a sample answers only beside another one"),
        (Ask::Quantile(share), State::Numbers(numbers)) => {
            exact(of_sorted(numbers, share).map_or(Json::Null, |value| json!(value)))
        }
        (Ask::Quantile(share), State::Rough(rough)) => match rough.quantile(share) {
            None => Cell { value: Json::Null, bounds: Some((Json::Null, Json::Null)) },
            Some((value, low, high)) => {
                Cell { value: json!(value), bounds: Some((json!(low), json!(high))) }
            }
        },
        (_, State::Numbers(_) | State::Rough(_)) => {
            unreachable!("numbers are kept for quantiles only")
        }
        (_, State::Histogram(buckets)) => exact(
            buckets
                .ranges()
                .iter()
                .map(|(from, to, count)| json!({"from": edge(*from), "to": edge(*to), "count": count}))
                .collect(),
        ),
    }
}

/// The most frequent texts; of equally frequent ones the first in order.
fn top(table: &Table, most: usize) -> Json {
    let mut rows: Vec<(u64, Vec<u8>)> = Vec::with_capacity(table.len());
    table.for_each(|value, count| rows.push((count, value.to_vec())));
    rows.sort_unstable_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let row = |(count, value): &(u64, Vec<u8>)| json!({"value": text(value), "count": count});
    rows.iter().take(most).map(row).collect()
}

/// The same of a sketch, with the bounds of each count.
fn frequent(sketch: &FrequentItemsSketch<String>, most: usize) -> Json {
    let mut rows = sketch.frequent_items(ErrorType::NoFalseNegatives);
    rows.sort_unstable_by(|left, right| {
        (right.estimate(), left.item()).cmp(&(left.estimate(), right.item()))
    });
    let row = |row: &Row<String>| {
        let (low, high) = (row.lower_bound(), row.upper_bound());
        json!({"value": row.item(), "count": row.estimate(), "low": low, "high": high})
    };
    rows.iter().take(most).map(row).collect()
}

/// The power of two that the last number before it stands for.
fn edge(number: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    if bits & FRACTION != FRACTION {
        return number;
    }
    let next = f64::from_bits(bits + 1);
    if next.is_finite() { next } else { number }
}
