//! The flags that say which tasks are meant, the same for lists, bulk verbs and dead letters.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Command, Id};
use divvy_types::{ErrorClass, Name, Select, TaskState, WorkflowId};

use crate::output::words;
use crate::values::{Moment, Span, one_of};

/// Only tasks that fit all of these.
#[derive(Args, Debug)]
#[group(id = "select", multiple = true)]
#[command(next_help_heading = "Filters")]
pub(crate) struct SelectArgs {
    /// Of this kind; a trailing * stands for any end
    #[arg(long)]
    kind: Option<Name>,
    /// Of this queue
    #[arg(long)]
    queue: Option<Name>,
    /// Of this workflow, by its id or the end of it; may be repeated
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Vec<String>,
    /// Of workflows with this name; a trailing * stands for any end
    #[arg(long, value_name = "NAME")]
    workflow_name: Option<Name>,
    /// With this tag
    #[arg(long)]
    tag: Option<Name>,
    /// Run by this worker, now or last
    #[arg(long, value_name = "NAME")]
    worker: Option<Name>,
    /// Whose last error contains this text, or is of the group with it
    #[arg(long, value_name = "TEXT")]
    error: Option<Name>,
    /// Whose last error is of this class
    #[arg(long, value_parser = one_of::<ErrorClass>(&["failed", "timeout", "crashed", "worker_lost", "cancelled"]))]
    class: Option<ErrorClass>,
    /// Submitted at this time or later: a time, or a span back from now
    #[arg(long, value_name = "TIME|SPAN")]
    since: Option<Moment>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME|SPAN")]
    until: Option<Moment>,
    /// Ended at this time or later
    #[arg(long, value_name = "TIME|SPAN")]
    ended_since: Option<Moment>,
    /// Ended before this time
    #[arg(long, value_name = "TIME|SPAN")]
    ended_until: Option<Moment>,
    /// Ended so long ago, or submitted if they are open
    #[arg(long, value_name = "SPAN")]
    older_than: Option<Span>,
}

/// Reads a state. What runs is leased, and so is what a worker has and has not begun.
pub(crate) fn state() -> impl TypedValueParser<Value = TaskState> {
    let words = TaskState::ALL.into_iter().map(TaskState::as_str).chain(["running"]);
    PossibleValuesParser::new(words).try_map(|word| word.parse::<TaskState>())
}

/// The names of all of them, for groups of flags of which one must be given: a group cannot contain another.
pub(crate) fn filters() -> Vec<Id> {
    let all = SelectArgs::augment_args(Command::new("filters"));
    all.get_arguments().map(|flag| flag.get_id().clone()).collect()
}

impl SelectArgs {
    /// The filter, in these states or in any; `workflow` are those that were named.
    pub(crate) fn select(&self, state: &[TaskState], workflow: Vec<WorkflowId>) -> Select {
        let now = words::now();
        let back = |moment: Option<Moment>| moment.map(|moment| moment.back_from(now));
        Select {
            state: state.to_vec(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            workflow,
            workflow_name: self.workflow_name.clone(),
            tag: self.tag.clone(),
            worker: self.worker.clone(),
            error: self.error.clone(),
            class: self.class,
            since: back(self.since),
            until: back(self.until),
            ended_since: back(self.ended_since),
            ended_until: back(self.ended_until),
            older_than_ms: self.older_than.map(Span::as_ms),
            older_than: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::Timestamp;

    use super::*;
    use crate::args::definition;
    use crate::workloads::Workloads;

    fn parses(line: &str) -> bool {
        let words = std::iter::once("divvy").chain(line.split(' '));
        definition(&Workloads::new(Vec::new())).try_get_matches_from(words).is_ok()
    }

    #[test]
    fn a_verb_on_many_needs_ids_or_a_filter_and_takes_not_both() {
        for line in [
            "task list",
            "task list --worker w --since 2h --error boom --workflow-name nightly*",
            "task cancel --kind a --until 2030-01-31T12:00:00Z",
            "task cancel 1b0c9d8e",
            "task retry --all",
            "task retry --state cancelled",
            "dead list --class timeout",
            "dead drop --worker w --ended-since 1d --yes",
            "dead replay 1b0c9d8e",
        ] {
            assert!(parses(line), "{line}");
        }
        for line in [
            "task cancel",
            "task cancel 1b0c9d8e --kind a",
            "task cancel --all --tag a",
            "task retry 1b0c9d8e --all",
            "dead drop",
            "dead drop 1b0c9d8e --error boom",
            "dead drop --all --class timeout",
            "dead drop --class late",
            "task list --since yesterday",
        ] {
            assert!(!parses(line), "{line}");
        }
    }

    #[test]
    fn a_span_is_one_back_from_now() {
        let now = Timestamp(7_200_000_000);
        let back = |text: &str| text.parse::<Moment>().unwrap().back_from(now);
        assert_eq!(back("1h"), Timestamp(3_600_000_000));
        assert_eq!(back("3h"), Timestamp(0));
        assert_eq!(back("1970-01-01T00:00:01Z"), Timestamp(1_000_000));
    }
}
