//! What an aggregation is told besides its files.

use std::path::Path;

use divvy_kernels::aggregate::Query;
use divvy_kernels::aggregate::divide::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::SpecError;

/// A partition is divided over several reducers when it has this much more than its fair share, and so many bytes.
const SKEW: f64 = 2.0;
const SKEW_BYTES_MIN: u64 = 4 << 20;

/// What is asked of which rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AggregateOptions")]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Columns that make a group; none makes all rows one.
    pub group_by: Vec<String>,
    /// What is asked of each, such as `count, sum(x), p99(x)`.
    pub agg: String,
    /// Whether answers may be approximate.
    pub approx: bool,
    /// What the files are; by their names unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// What parts the fields of CSV, one letter: a comma, or a tab in `.tsv` files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    /// The names of the columns of CSV files that have no header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// What the result is written as.
    pub output: OutputFormat,
    /// How many times its fair share a partition must have to be divided over several reducers; 0 never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew: Option<f64>,
    /// Bytes that it must have besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew_bytes: Option<u64>,
}

/// What files are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[schemars(rename = "AggregateFormat")]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Fields parted by a letter, with a header.
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Parquet, which workers with DuckDB read.
    Parquet,
}

/// What a result is written as.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[schemars(rename = "AggregateOutput")]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Fields parted by commas; the first part has a header.
    #[default]
    Csv,
    /// A JSON object per line.
    Jsonl,
}

impl Options {
    /// What is asked.
    ///
    /// # Errors
    /// Names the word that cannot be understood.
    pub(super) fn query(&self) -> Result<Query, SpecError> {
        if self.delimiter.is_some_and(|letter| !letter.is_ascii() || "\"\r\n".contains(letter)) {
            return Err(SpecError::new("delimiter", "must be one ASCII letter, and no quote"));
        }
        Query::parse(&self.group_by, &self.agg, self.approx)
            .map_err(|error| SpecError::new("agg", format!("cannot be read: {error}")))
    }

    /// What a file is, and what parts its fields.
    ///
    /// # Errors
    /// If its name does not say, or it is something that cannot be read.
    pub(super) fn format_of(&self, path: &Path) -> Result<(Format, u8), SpecError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let bare = [".gz", ".gzip", ".zst", ".zstd"]
            .iter()
            .find_map(|packed| name.strip_suffix(packed))
            .unwrap_or(&name);
        let extension = bare.rsplit('.').next().unwrap_or_default();
        let shown = path.display();
        let format = self.format.or(match extension {
            "csv" | "tsv" | "txt" => Some(Format::Csv),
            "jsonl" | "ndjson" | "json" => Some(Format::Jsonl),
            "parquet" => Some(Format::Parquet),
            _ => None,
        });
        let Some(format) = format else {
            let problem = format!(
                "has {shown}, whose name does not say what it is; add --format csv, jsonl or parquet"
            );
            return Err(SpecError::new("inputs", problem));
        };
        if format == Format::Parquet && bare.len() < name.len() {
            let problem =
                format!("has {shown}, a Parquet file that is packed once more; unpack it");
            return Err(SpecError::new("inputs", problem));
        }
        let usual = if extension == "tsv" { b'\t' } else { b',' };
        let given = self.delimiter.and_then(|letter| u8::try_from(letter).ok());
        Ok((format, given.unwrap_or(usual)))
    }

    /// Whether a file is Parquet.
    pub(super) fn is_parquet(&self, path: &Path) -> bool {
        matches!(self.format_of(path), Ok((Format::Parquet, _)))
    }

    /// When a partition is divided; never if there is no rule.
    pub(super) fn skew(&self) -> Option<Rule> {
        let skew = self.skew.unwrap_or(SKEW);
        let bytes = self.skew_bytes.unwrap_or(SKEW_BYTES_MIN);
        (skew > 0.0).then_some(Rule { times: skew.max(1.0), bytes })
    }
}
