//! `submit` and `run`: the ways in for work.

use clap::Args;
use divvy_types::{Name, OnConflict, Timestamp};

use super::terms::{self, TermsArgs};
use crate::values::{Moment, Span, UniqueKey, one_of};

pub(crate) const SUBMIT_EXAMPLES: &str = "\
Examples:
  divvy submit sleep --arg ms:=500 --wait
  divvy submit http --arg url=https://example.org/ --priority 5
  divvy submit report --payload @report.json --in 5m --retries 3
  echo '{\"n\": 1}' | divvy submit resize --payload - --needs gpu
  divvy submit mail --key welcome-42      the same key is the same task
  divvy submit encode --needs 'gpu>=2' --deadline 30m --limit gpu/acme
  divvy submit report --deadline 30m --strict      refused if it would be late
  divvy submit sync --unique acme:10m --on-conflict replace
  divvy submit mail --from mails.jsonl --key-field to      again: none twice
  divvy submit --whole --from tasks.jsonl --key monday";

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
    #[arg(required_unless_present = "whole", conflicts_with = "whole")]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
    /// Run after this task; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) after: Vec<String>,
    /// Run after this task even if it fails; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) optional_after: Vec<String>,
    /// Make it a task of this workflow, by its id or the end of it
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,
    /// The group of that workflow that it belongs to
    #[arg(long, value_name = "NAME", requires = "workflow")]
    pub(crate) group: Option<Name>,
    /// Run after every task of this group of that workflow; may be repeated
    #[arg(long = "after-group", value_name = "NAME", requires = "workflow")]
    pub(crate) after_groups: Vec<Name>,
    /// Not before this time, in RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "in_")]
    pub(crate) at: Option<Timestamp>,
    /// Not before this span has passed, such as 5m
    #[arg(long = "in", id = "in_", value_name = "SPAN")]
    pub(crate) in_: Option<Span>,
    /// When it should be done: a span such as 30m, or a time
    #[arg(long, value_name = "SPAN|TIME")]
    pub(crate) deadline: Option<Moment>,
    /// Refuse it if it is expected to miss its deadline
    #[arg(long, requires = "deadline")]
    pub(crate) strict: bool,
    /// Only one such task at a time, or within a window
    #[arg(long, value_name = "KEY[:SPAN]")]
    pub(crate) unique: Option<UniqueKey>,
    /// A second one: skip, replace the first, or refuse
    #[arg(long, value_name = "HOW", requires = "unique", hide_possible_values = true)]
    #[arg(value_parser = one_of::<OnConflict>(&["skip", "replace", "refuse"]))]
    pub(crate) on_conflict: Option<OnConflict>,
    /// Idempotency key: the same key is the same task
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Submit this many, for trying
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// A task for each line of this file (- for stdin): JSON payloads
    #[arg(long, value_name = "FILE|-")]
    #[arg(conflicts_with_all = ["args", "payload", "count", "wait", "strict", "after", "optional_after", "workflow"])]
    pub(crate) from: Option<String>,
    /// Each line is a whole task: {"kind": …, "payload": …, …}
    #[arg(long, requires = "from")]
    #[arg(conflicts_with_all = terms::flags(), conflicts_with_all = ["at", "in_", "deadline", "unique"])]
    pub(crate) whole: bool,
    /// The payload's field that makes the key of each line
    #[arg(long, value_name = "FIELD", requires = "from")]
    pub(crate) key_field: Option<String>,
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

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    #[test]
    fn beside_lines_that_are_whole_tasks_no_term_can_be_given() {
        let mut command = Submit::augment_args(Command::new("submit"));
        command.build();
        let whole = command.get_arguments().find(|flag| flag.get_id() == "whole").unwrap();
        let refused = command.get_arg_conflicts_with(whole);
        for flag in terms::flags() {
            assert!(refused.iter().any(|other| *other.get_id() == flag), "{flag}");
        }
    }
}
