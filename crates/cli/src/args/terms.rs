//! What may be said about a task on the command line, wherever tasks are described: `submit` and `schedule set`.
//!
//! Decides how flags become [`Terms`]. Does not know what is for a single task only: ids, dependencies, points in time.

use clap::{Args, Command, Id};
use divvy_types::{Matching, Name, Terms};

use crate::values::{Names, Span, one_of};

/// What a task is given, where it waits and how it runs.
#[derive(Args, Debug)]
pub(crate) struct TermsArgs {
    /// A field of the payload: k=text or k:=json
    #[arg(long = "arg", short, value_name = "K=V", conflicts_with = "payload")]
    pub(crate) args: Vec<String>,
    /// The payload: JSON, - for stdin, or @FILE
    #[arg(long, value_name = "JSON|-|@FILE")]
    pub(crate) payload: Option<String>,
    /// The queue [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<Name>,
    /// 1 to 5; 5 goes first [default: 3]
    #[arg(long, value_name = "1-5", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: Option<u8>,
    /// How long one attempt may take, such as 10m
    #[arg(long, value_name = "SPAN")]
    timeout: Option<Span>,
    /// Attempts after the first [default: 5]
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// What the worker must have: gpu, region=eu, 'gpu>=2'
    #[arg(long, value_name = "a,b")]
    needs: Option<Names>,
    /// If no worker has it: exact, best_fit (wait) or fallback
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    #[arg(value_parser = one_of::<Matching>(&["exact", "best_fit", "fallback"]))]
    matching: Option<Matching>,
    /// Whose share of the queue it uses
    #[arg(long, value_name = "KEY")]
    fair_key: Option<Name>,
    /// A limit that it runs under; may be repeated
    #[arg(long = "limit", value_name = "NAME[/KEY]")]
    limits: Vec<Name>,
    /// Run it where tasks with the same key ran
    #[arg(long, value_name = "KEY")]
    affinity: Option<Name>,
    /// How large it is, in any unit: makes estimates better
    #[arg(long, value_name = "N")]
    cost_hint: Option<u64>,
    /// A label to find it by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<Name>,
}

/// The names of all of them, for flags that cannot stand beside any.
pub(crate) fn flags() -> Vec<Id> {
    let all = TermsArgs::augment_args(Command::new("terms"));
    all.get_arguments().map(|flag| flag.get_id().clone()).collect()
}

impl TermsArgs {
    /// The terms that the flags give.
    pub(crate) fn terms(&self) -> Terms {
        let mut terms = Terms {
            needs: self.needs.as_ref().map(|needs| needs.0.clone()).unwrap_or_default(),
            matching: self.matching,
            timeout_ms: self.timeout.map(|timeout| timeout.as_ms()),
            limits: self.limits.clone(),
            fair_key: self.fair_key.clone(),
            affinity: self.affinity.clone(),
            cost_hint: self.cost_hint,
            tags: self.tags.clone(),
            ..Terms::default()
        };
        if let Some(retries) = self.retries {
            terms.retry.limit = retries;
        }
        terms
    }
}
