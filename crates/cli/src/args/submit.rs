//! `submit` and `run`: the ways in for work.

use clap::Args;
use divvy_types::{Matching, OnConflict, Timestamp};

use crate::values::{Moment, Names, Span, UniqueKey, one_of};

pub(crate) const SUBMIT_EXAMPLES: &str = "\
Examples:
  divvy submit sleep --arg ms:=500 --wait
  divvy submit http --arg url=https://example.org/ --priority 5
  divvy submit report --payload @report.json --in 5m --retries 3
  echo '{\"n\": 1}' | divvy submit resize --payload - --needs gpu
  divvy submit mail --key welcome-42      the same key is the same task
  divvy submit encode --needs 'gpu>=2' --deadline 30m --limit gpu/acme
  divvy submit report --deadline 30m --strict      refused if it would be late
  divvy submit sync --unique acme:10m --on-conflict replace";

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
    /// What the worker must have: gpu, region=eu, 'gpu>=2'
    #[arg(long, value_name = "a,b")]
    pub(crate) needs: Option<Names>,
    /// If no worker has it: exact, best_fit (wait) or fallback
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    #[arg(value_parser = one_of::<Matching>(&["exact", "best_fit", "fallback"]))]
    pub(crate) matching: Option<Matching>,
    /// When it should be done: a span such as 30m, or a time
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) deadline: Option<Moment>,
    /// Refuse it if it is expected to miss its deadline
    #[arg(long, requires = "deadline")]
    pub(crate) strict: bool,
    /// Whose share of the queue it uses
    #[arg(long, value_name = "KEY")]
    pub(crate) fair_key: Option<String>,
    /// A limit that it runs under; may be repeated
    #[arg(long = "limit", value_name = "NAME[/KEY]")]
    pub(crate) limits: Vec<String>,
    /// Only one such task at a time, or within a window
    #[arg(long, value_name = "KEY[:SPAN]")]
    pub(crate) unique: Option<UniqueKey>,
    /// A second one: skip, replace the first, or refuse
    #[arg(long, value_name = "HOW", requires = "unique", hide_possible_values = true)]
    #[arg(value_parser = one_of::<OnConflict>(&["skip", "replace", "refuse"]))]
    pub(crate) on_conflict: Option<OnConflict>,
    /// Run it where tasks with the same key ran
    #[arg(long, value_name = "KEY")]
    pub(crate) affinity: Option<String>,
    /// How large it is, in any unit: makes estimates better
    #[arg(long, value_name = "N")]
    pub(crate) cost_hint: Option<u64>,
    /// Idempotency key: the same key is the same task
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Submit this many, for trying
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Wait until it is final and print the result
    #[arg(long, short)]
    pub(crate) wait: bool,
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
