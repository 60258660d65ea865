//! Which tasks a verb is about: some by id, or all that fit a filter.

use clap::Args;
use divvy_types::TaskState;

use super::select::{SelectArgs, filters, state};

pub(crate) const CANCEL_EXAMPLES: &str = "\
Examples:
  divvy task cancel 1b0c9d8e --reason 'wrong input'
  divvy task cancel --queue mail --state ready,scheduled --dry-run
  divvy task cancel --kind 'video.*' --older-than 2d --yes
  divvy task cancel --workflow-name nightly --since 1h --dry-run";
pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  divvy task retry 1b0c9d8e
  divvy task retry --kind http --dry-run                dead ones
  divvy task retry --workflow 1b0c9d8e --state cancelled --yes";

pub(crate) const REPRIORITISE_EXAMPLES: &str = "\
Examples:
  divvy task reprioritise 1b0c9d8e --priority 5
  divvy task reprioritise --queue mail --priority 1 --dry-run
  divvy task reprioritise --kind 'video.*' --state ready --priority 4 --yes";

/// Tasks by id, or by what they are.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["ids", "state", "all"]).args(filters()))]
pub(crate) struct TaskSelection {
    /// These, by id or the end of it
    #[arg(value_name = "ID", conflicts_with_all = ["state", "select", "all"])]
    pub(crate) ids: Vec<String>,
    /// All in these states
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = state())]
    pub(crate) state: Vec<TaskState>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// All of them
    #[arg(long, conflicts_with_all = ["state", "select"])]
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
