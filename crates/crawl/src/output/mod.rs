//! What a shard leaves behind: JSONL, WARC with its index, a graph of links.
//!
//! Every file is only ever appended to. [`Writer::commit`] says how long each is; the shard keeps that with its state, and
//! a writer that is opened again cuts what lies behind it. So output and state never part, whenever the process ends.
//!
//! Writing is synchronous, since packing a WARC record costs more than any other step of a page: a shard gives the
//! writer a thread of its own.

mod record;
mod warc;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use record::{LinkRecord, Record};
pub use warc::Exchange;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One JSON object per page: `pages.jsonl`.
    Jsonl,
    /// Requests and responses as they were: `pages-NNNNN.warc.gz`, with `pages-NNNNN.cdx` beside it.
    Warc,
    /// One line per link, `from<TAB>to`: `links.tsv`.
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
                Err("the format `parquet` is not there yet; write jsonl and convert it".to_owned())
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
    /// The folder, which is made if it is missing.
    pub folder: PathBuf,
    /// Which of them.
    pub formats: Vec<Format>,
    /// Who crawls, for the first record of each WARC file: the user agent.
    pub agent: String,
    /// Bytes after which a WARC file is followed by the next one.
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

/// Writes what was fetched.
#[derive(Debug)]
pub struct Writer {
    options: Options,
}

impl Writer {
    /// Opens the files, cut to what was committed; files of the folder that `lengths` does not know are removed.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or lacks what was committed.
    pub fn open(options: Options, lengths: &Lengths) -> Result<Self, OutputError> {
        let _ = lengths;
        Ok(Self { options })
    }

    /// Writes one page; `exchange` is what went over the wire, if there is something to archive.
    ///
    /// # Errors
    ///
    /// If a file cannot be written or a header cannot be archived; the page is then in none of the outputs or in some,
    /// and the next [`commit`](Self::commit) decides.
    pub fn write(
        &mut self,
        record: &Record<'_>,
        exchange: Option<&Exchange<'_>>,
    ) -> Result<(), OutputError> {
        unimplemented!("{:?} {record:?} {exchange:?}", self.options)
    }

    /// Hands everything to the system, and to the disk if `sync`; how long the files then are.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn commit(&mut self, sync: bool) -> Result<Lengths, OutputError> {
        unimplemented!("{sync}")
    }

    /// Where it writes.
    pub fn folder(&self) -> &Path {
        &self.options.folder
    }
}
