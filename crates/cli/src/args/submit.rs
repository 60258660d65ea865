//! `submit` and `run`: the ways in for work.

use clap::{Args, ValueEnum};
use divvy_types::{OnConflict, Timestamp};

use crate::values::{Names, Span};

pub(crate) const SUBMIT_EXAMPLES: &str = "\
Examples:
  divvy submit sleep --arg ms:=500 --wait
  divvy submit http --arg url=https://example.org/ --priority 5
  divvy submit report --payload @report.json --in 5m --retries 3
  echo '{\"n\": 1}' | divvy submit resize --payload - --needs gpu
  divvy submit mail --key welcome-42      the same key is the same task
  divvy submit report --unique daily      only one open at a time";

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  divvy run nightly.yaml --wait
  divvy run - < nightly.yaml

A file:
  name: nightly
  tasks:
    fetch: {kind: http, payload: {url: 'https://example.org/'}}
    report: {kind: report, after: [fetch], retries: 3, timeout: 10m}";

/// A task to submit.
#[derive(Args, Debug)]
pub(crate) struct Submit {
    /// The kind, which decides the handler
    pub(crate) kind: String,
    /// A field of the payload: k=text or k:=json
    #[arg(long = "arg", short, value_name = "K=V", conflicts_with = "payload")]
    pub(crate) args: Vec<String>,
    /// The payload: JSON, - for stdin, or @FILE
    #[arg(long, value_name = "JSON|-|@FILE")]
    pub(crate) payload: Option<String>,
    /// The queue [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// 1 to 5; 5 goes first [default: 3]
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// Run after this task; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) after: Vec<String>,
    /// Run after this task even if it fails; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) optional_after: Vec<String>,
    /// Not before this time, in RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "in_")]
    pub(crate) at: Option<Timestamp>,
    /// Not before this span has passed, such as 5m
    #[arg(long = "in", id = "in_", value_name = "SPAN")]
    pub(crate) in_: Option<Span>,
    /// How long one attempt may take, such as 10m
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<Span>,
    /// Attempts after the first [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u32>,
    /// Capabilities that the worker must have
    #[arg(long, value_name = "a,b")]
    pub(crate) needs: Option<Names>,
    /// Idempotency key: the same key is the same task
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Unique key: only one open task may have it
    #[arg(long, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Hold the unique key for this span, even if the task ends sooner
    #[arg(long, value_name = "SPAN", requires = "unique")]
    pub(crate) unique_for: Option<Span>,
    /// What becomes of this task if another has the key [default: skip]
    #[arg(long, value_name = "WHAT", requires = "unique")]
    pub(crate) on_conflict: Option<OnConflictWord>,
    /// Submit this many, for trying
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Wait until it is final and print the result
    #[arg(long, short)]
    pub(crate) wait: bool,
}

/// What becomes of a second task with a unique key.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnConflictWord {
    /// It is not taken
    Skip,
    /// The first is cancelled
    Replace,
    /// It is an error
    Refuse,
}

impl From<OnConflictWord> for OnConflict {
    fn from(word: OnConflictWord) -> Self {
        match word {
            OnConflictWord::Skip => Self::Skip,
            OnConflictWord::Replace => Self::Replace,
            OnConflictWord::Refuse => Self::Refuse,
        }
    }
}

/// A workflow to submit.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The YAML file, or - for stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Wait until all tasks are final
    #[arg(long, short)]
    pub(crate) wait: bool,
    /// Idempotency key: the same key is the same workflow
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}
