//! Which tasks a verb is about: some by id, or all that fit a filter.

use clap::Args;
use divvy_types::{TaskState, WorkflowId};

use crate::values::Span;

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  divvy task cancel 0198c0de --reason 'wrong input'
  divvy task cancel --queue mail --state ready,scheduled --dry-run
  divvy task cancel --kind 'video.*' --older-than 2d --yes";
pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  divvy task retry 0198c0de
  divvy task retry --kind http --dry-run                dead ones
  divvy task retry --workflow 0198c0de-… --state cancelled --yes";

/// Tasks by id, or by what they are.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["ids", "state", "kind", "queue", "workflow", "tag", "older_than", "all"]))]
pub(crate) struct TaskSelection {
    /// These, by id or start of it
    #[arg(value_name = "ID", conflicts_with_all = ["state", "kind", "queue", "workflow", "tag", "older_than", "all"])]
    pub(crate) ids: Vec<String>,
    /// All in these states
    #[arg(long, value_name = "STATE,…", value_delimiter = ',')]
    pub(crate) state: Vec<TaskState>,
    /// All of this kind; a trailing * stands for any end
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// All of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// All of this workflow
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<WorkflowId>,
    /// All with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// All that ended so long ago, or were submitted if they are open
    #[arg(long, value_name = "SPAN")]
    pub(crate) older_than: Option<Span>,
    /// All of them
    #[arg(long, conflicts_with_all = ["state", "kind", "queue", "workflow", "tag", "older_than"])]
    pub(crate) all: bool,
    /// Treat so many tasks at most
    #[arg(long, value_name = "N", conflicts_with = "ids", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only say how many, and which
    #[arg(long, conflicts_with = "ids")]
    pub(crate) dry_run: bool,
}
