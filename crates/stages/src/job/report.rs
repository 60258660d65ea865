//! What a part says when it is done. It travels as the task's result, so it is bounded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AttemptName, OutputFile, PartitionSize};

/// Rows that were left out and are named.
const SKIPS_MAX: usize = 5;
/// Characters of what is said about one.
const WHY_LEN_MAX: usize = 200;
/// Characters of the name of a file.
const NAME_LEN_MAX: usize = 100;
/// Bytes of a report as JSON: below what a task's result may have.
pub(crate) const REPORT_BYTES_MAX: usize = 900 << 10;

/// What a part says when it is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowReport")]
#[serde(default)]
pub struct Report {
    /// Rows that it read.
    pub rows_in: u64,
    /// Bytes that it read.
    pub bytes_in: u64,
    /// Rows that it wrote, to the shuffle or to the result.
    pub rows_out: u64,
    /// Bytes that it wrote.
    pub bytes_out: u64,
    /// Its file in the shuffle, if it wrote one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<String>,
    /// What is in that file, per partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionSize>,
    /// Its files of the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputFile>,
    /// Rows that were left out because they are wrong.
    pub skipped: u64,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_skipped: Vec<Skip>,
    /// Counters by name; those of all parts are added up.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// What the plan of the next stage needs to know: samples, hot keys, convergence. Small.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub extra: Value,
}

/// A row that was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowSkip")]
pub struct Skip {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub why: String,
}

impl Report {
    /// Adds to a counter.
    pub fn count(&mut self, name: &str, by: u64) {
        match self.counters.get_mut(name) {
            Some(count) => *count += by,
            None => drop(self.counters.insert(name.to_owned(), by)),
        }
    }

    /// A row was left out.
    pub fn skip(&mut self, file: &str, line: u64, why: &str) {
        self.skipped += 1;
        if self.first_skipped.len() < SKIPS_MAX {
            let why = why.chars().take(WHY_LEN_MAX).collect();
            self.first_skipped.push(Skip { file: file.to_owned(), line, why });
        }
    }

    /// Whether the files that it names are of this attempt's part, and nothing else's: a report comes from another
    /// machine, and what it names is read and renamed.
    pub fn names_only_its_own(&self, part: u32) -> bool {
        let is_plain = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && name.len() <= NAME_LEN_MAX && name.bytes().all(is_plain)
        };
        let shuffle = self.shuffle.as_deref().map(str::parse::<AttemptName>);
        shuffle.is_none_or(|name| name.is_ok_and(|name| name.part == part))
            && self.outputs.iter().all(|file| {
                // What begins with a dot is swept when the job is done; what ends there is not.
                let (before, after) = (file.until_done.as_str(), file.name.as_str());
                is_plain(before)
                    && before.starts_with(".")
                    && !before.starts_with("..")
                    && is_plain(after)
                    && !after.starts_with('.')
            })
    }

    /// Whether nothing was said.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another part counted; files, partitions and `extra` are not of both.
    pub fn add(&mut self, other: &Self) {
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
        self.skipped += other.skipped;
        let room = SKIPS_MAX.saturating_sub(self.first_skipped.len());
        self.first_skipped.extend(other.first_skipped.iter().take(room).cloned());
        for (name, by) in &other.counters {
            self.count(name, *by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_names_files_of_others_does_not_count() {
        let names = |shuffle: Option<&str>, before: &str, after: &str| {
            let file = OutputFile {
                name: after.to_owned(),
                until_done: before.to_owned(),
                ..OutputFile::default()
            };
            let shuffle = shuffle.map(str::to_owned);
            Report { shuffle, outputs: vec![file], ..Report::default() }.names_only_its_own(3)
        };
        let (before, after) = (".part-00003-0.7", "part-00003");
        assert!(names(Some("3-0.7"), before, after) && names(None, before, after));
        for shuffle in ["4-0.7", "../1/3-0.7", "3-0.7/..", ""] {
            assert!(!names(Some(shuffle), before, after), "{shuffle}");
        }
        for wrong in ["../job.json", "..", "", "part/0", "/etc/passwd", "manifest json"] {
            assert!(!names(None, before, wrong) && !names(None, wrong, after), "{wrong}");
        }
        assert!(!names(None, "part-00003", after), "what another part has published");
        assert!(!names(None, before, ".hidden"));
    }
}
