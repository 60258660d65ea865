//! What a shard leaves behind: JSONL, WARC with its index, a graph of links.
//!
//! Every file is only ever appended to. [`Writer::commit`] and then [`Unsynced::sync`] say how long each is; the shard keeps
//! that with its state, and a writer that is opened again cuts what lies behind it. So output and state never part, whenever
//! the process ends or the power fails.
//!
//! Packing a WARC record costs more than any other step of a page, so it is apart from writing: [`Prepared`] can be made
//! on any thread.
//!
//! Reading order: `record` (a page as JSON), `warc` and `cdx` (a page as it was on the wire), `prepared` (all bytes of a
//! page), `writer` (the files), `file` (one of them).

mod cdx;
mod file;
mod prepared;
mod record;
mod warc;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use prepared::Prepared;
pub use record::{Record, digest};
pub use warc::Exchange;
pub use writer::{Unsynced, Writer};

/// Bytes after which a WARC file is usually followed by the next one.
pub const WARC_BYTES_MAX: u64 = 1 << 30;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object per page: `pages.jsonl`.
    Jsonl,
    /// Requests and responses as they were: `pages-NNNNN.warc.gz`, with `pages-NNNNN.cdx` beside it.
    Warc,
    /// One line per link, from, a tab, to: `links.tsv`.
    Graph,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "jsonl" => Ok(Self::Jsonl),
            "warc" => Ok(Self::Warc),
            "graph" => Ok(Self::Graph),
            "parquet" => {
                Err("the format `parquet` is made of jsonl in the end: divvy crawl export --format parquet".to_owned())
            }
            _ => Err(format!("the format `{text}` is not known; it is one of jsonl, warc, graph")),
        }
    }
}

/// How long each file of a folder is as far as the state of the shard knows it.
pub type Lengths = BTreeMap<String, u64>;

/// How outputs are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder, which is made if it is missing. All files in it that are named like outputs belong to the writer.
    pub folder: PathBuf,
    /// Which of them.
    pub formats: Vec<Format>,
    /// Who crawls, for the first record of each WARC file: the user agent.
    pub agent: String,
    /// Bytes after which a WARC file is followed by the next one, see [`WARC_BYTES_MAX`].
    pub warc_bytes_max: u64,
}

/// Why something was not written.
#[derive(Debug, Error)]
pub enum OutputError {
    /// A file cannot be written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is shorter than what was committed: somebody else changed it.
    #[error("{} has {found} bytes, but {committed} were committed; restore the file or start a new crawl", path.display())]
    Short {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: u64,
        /// What it had.
        committed: u64,
    },
    /// A header holds a line break, with which a page could forge records.
    #[error("the header `{0}` holds a line break and is not written")]
    LineBreak(String),
}
