//! Workflows: what can be typed about them once they run. `divvy run` starts one.

use clap::{Args, Subcommand};
use divvy_types::Name;
use divvy_types::view::WorkflowState;

use crate::values::one_of;

pub(crate) const WORKFLOW_EXAMPLES: &str = "\
Examples:
  divvy workflow list
  divvy workflow list --state failed --name 'nightly*'
  divvy workflow show 1b0c9d8e
  divvy workflow resume 1b0c9d8e --wait      retry what failed, and continue
  divvy workflow cancel 1b0c9d8e --reason 'wrong input'";

/// Verbs of workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// List workflows, newest first
    #[command(visible_alias = "ls", after_help = WORKFLOW_EXAMPLES)]
    List(WorkflowList),
    /// Show how a workflow stands
    #[command(after_help = WORKFLOW_EXAMPLES)]
    Show(OneWorkflow),
    /// Cancel all its tasks that have not ended
    #[command(after_help = WORKFLOW_EXAMPLES)]
    Cancel(CancelWorkflow),
    /// Retry what failed, and continue
    #[command(after_help = WORKFLOW_EXAMPLES)]
    Resume(ResumeWorkflow),
}

/// Which workflows to list.
#[derive(Args, Debug)]
pub(crate) struct WorkflowList {
    /// Only in these states: open, succeeded, failed
    #[arg(long, value_name = "STATE,…", value_delimiter = ',',
        value_parser = one_of::<WorkflowState>(&["open", "succeeded", "failed"]))]
    pub(crate) state: Vec<WorkflowState>,
    /// Only with this name; a trailing * stands for any end
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Start after this page cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// One workflow.
#[derive(Args, Debug)]
pub(crate) struct OneWorkflow {
    /// The id, or the end of it as lists show it
    pub(crate) id: String,
}

/// A workflow to cancel.
#[derive(Args, Debug)]
pub(crate) struct CancelWorkflow {
    #[command(flatten)]
    pub(crate) workflow: OneWorkflow,
    /// Why
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Wait until all tasks are final
    #[arg(long, short)]
    pub(crate) wait: bool,
}

/// A workflow to resume.
#[derive(Args, Debug)]
pub(crate) struct ResumeWorkflow {
    #[command(flatten)]
    pub(crate) workflow: OneWorkflow,
    /// Put back what people cancelled too
    #[arg(long)]
    pub(crate) include_cancelled: bool,
    /// Wait until all tasks are final
    #[arg(long, short)]
    pub(crate) wait: bool,
}
