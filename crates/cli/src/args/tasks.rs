//! The nouns that a server keeps: tasks, queues, workers, dead letters.

use clap::{Args, Subcommand};
use divvy_types::TaskState;
use divvy_types::settings::Rate;

use super::bulk::{CANCEL_EXAMPLES, REPRIORITISE_EXAMPLES, RETRY_EXAMPLES, TaskSelection};
use super::select::{SelectArgs, filters, state};
use crate::args::scheduling::{
    REBALANCE_EXAMPLES, Rebalance, SET_QUEUE_EXAMPLES, SetQueue, WorkerStatus,
};
use crate::values::Span;

pub(crate) const TASK_EXAMPLES: &str = "\
Examples:
  divvy task list --state ready,leased
  divvy task show 1b0c9d8e
  divvy task cancel 1b0c9d8e --reason 'not needed any more'
  divvy task cancel --queue mail --dry-run
  divvy task retry --kind http --yes";
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  divvy task list --state dead --kind 'video.*'
  divvy task list --worker encoder-1 --ended-since 1h --error timeout
  divvy task list --all --json | jq .kind";
pub(crate) const SHOW_EXAMPLES: &str = "Example:\n  divvy task show 1b0c9d8e --json";
pub(crate) const KIND_EXAMPLES: &str = "\
Examples:
  divvy kind list
  divvy kind list -q";

pub(crate) const QUEUE_EXAMPLES: &str = "\
Examples:
  divvy queue list
  divvy queue pause mail
  divvy queue set reports --weight 3
  divvy queue rebalance --dry-run";
pub(crate) const WORKER_EXAMPLES: &str = "\
Examples:
  divvy worker list
  divvy worker status encoder-1     how it does, kind by kind
  divvy worker pause encoder-1      it ends what it runs and takes no more
  divvy worker resume encoder-1
  divvy worker drain encoder-1      the same, and it leaves";
pub(crate) const DEAD_EXAMPLES: &str = "\
Examples:
  divvy dead list                             groups of alike errors
  divvy dead replay --kind http --dry-run
  divvy dead replay --kind http --error 'status 503' --yes
  divvy dead drop --all --yes";
pub(crate) const REPLAY_EXAMPLES: &str = "\
Examples:
  divvy dead replay 1b0c9d8e 2c1d0e9f
  divvy dead replay 1b0c9d8e --payload '{\"url\": \"https://example.org/\"}'
  divvy dead replay --kind http --class timeout --dry-run
  divvy dead replay --error 'status 503' --rate 10/s --yes";
pub(crate) const DROP_EXAMPLES: &str = "\
Examples:
  divvy dead drop 1b0c9d8e 2c1d0e9f
  divvy dead drop --kind http --dry-run
  divvy dead drop --all --yes";
pub(crate) const WAIT_EXAMPLES: &str = "\
Examples:
  divvy wait 1b0c9d8e 2c1d0e9f --timeout 10m
  divvy submit sleep -a ms:=50 -q | xargs divvy wait";
pub(crate) const EXPLAIN_EXAMPLES: &str = "Example:\n  divvy explain 1b0c9d8e";
pub(crate) const LOGS_EXAMPLES: &str = "\
Examples:
  divvy logs 1b0c9d8e
  divvy logs -f 1b0c9d8e     until the task is final";

pub(crate) const EVENTS_EXAMPLES: &str = "\
Examples:
  divvy events
  divvy events --state dead,cancelled
  divvy events --kind 'video.*' --json | jq .state";

/// Which changes.
#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Only of these tasks, by id or the end of it
    #[arg(value_name = "ID")]
    pub(crate) tasks: Vec<String>,
    /// Only into these states
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = state())]
    pub(crate) state: Vec<TaskState>,
    /// Only of this kind; a trailing * stands for any end
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only of this workflow, by its id or the end of it
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,
}

/// Verbs of tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// List tasks, newest first
    #[command(visible_alias = "ls", after_help = LIST_EXAMPLES)]
    List(TaskList),
    /// Show a task whole
    #[command(after_help = SHOW_EXAMPLES)]
    Show(OneTask),
    /// Stop tasks or keep them from running
    #[command(after_help = CANCEL_EXAMPLES, override_usage = "divvy task cancel [OPTIONS] <ID…|--all|FILTER>")]
    Cancel(CancelTasks),
    /// Run dead, cancelled or scheduled tasks now
    #[command(after_help = RETRY_EXAMPLES, override_usage = "divvy task retry [OPTIONS] <ID…|--all|FILTER>")]
    Retry(TaskSelection),
    /// Give tasks that wait another priority
    #[command(after_help = REPRIORITISE_EXAMPLES, override_usage = "divvy task reprioritise [OPTIONS] --priority <N> <ID…|--all|FILTER>")]
    Reprioritise(ReprioritiseTasks),
}

/// Which tasks to list.
#[derive(Args, Debug)]
pub(crate) struct TaskList {
    /// Only these states
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = state())]
    pub(crate) state: Vec<TaskState>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) limit: u32,
    /// Start after this page cursor
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
    /// All pages
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// One task.
#[derive(Args, Debug)]
pub(crate) struct OneTask {
    /// The id, or the end of it as lists show it
    pub(crate) id: String,
}

/// Some tasks.
#[derive(Args, Debug)]
pub(crate) struct ManyTasks {
    /// The ids, or the ends of them as lists show them
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

/// Tasks to cancel.
#[derive(Args, Debug)]
pub(crate) struct CancelTasks {
    #[command(flatten)]
    pub(crate) tasks: TaskSelection,
    /// Why
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

/// Tasks that shall have another priority.
#[derive(Args, Debug)]
pub(crate) struct ReprioritiseTasks {
    #[command(flatten)]
    pub(crate) tasks: TaskSelection,
    /// The new priority, 5 is the highest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(crate) priority: u8,
}

/// Verbs of queues.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// List queues
    #[command(visible_alias = "ls", after_help = QUEUE_EXAMPLES)]
    List,
    /// Show a queue
    #[command(after_help = QUEUE_EXAMPLES)]
    Show(Named),
    /// Grant no more tasks of this queue
    #[command(after_help = QUEUE_EXAMPLES)]
    Pause(Named),
    /// Grant tasks of this queue again
    #[command(after_help = QUEUE_EXAMPLES)]
    Resume(Named),
    /// Set the weight of a queue and of fair keys in it
    #[command(after_help = SET_QUEUE_EXAMPLES, override_usage = "divvy queue set <NAME> [OPTIONS]")]
    Set(SetQueue),
    /// Even the queues of the workers out
    #[command(after_help = REBALANCE_EXAMPLES)]
    Rebalance(Rebalance),
}

/// Verbs of kinds.
#[derive(Debug, Subcommand)]
pub(crate) enum Kind {
    /// List kinds of tasks: who runs them, what waits, how long they take
    #[command(visible_alias = "ls", after_help = KIND_EXAMPLES)]
    List,
}

/// Verbs of workers.
#[derive(Debug, Subcommand)]
pub(crate) enum Worker {
    /// List connected workers
    #[command(visible_alias = "ls", after_help = WORKER_EXAMPLES)]
    List,
    /// Show a worker
    #[command(after_help = WORKER_EXAMPLES)]
    Show(Named),
    /// Show how workers do: queues, success, skills
    #[command(after_help = WORKER_EXAMPLES)]
    Status(WorkerStatus),
    /// Let a worker finish its tasks and take no more until it is resumed
    #[command(after_help = WORKER_EXAMPLES)]
    Pause(Named),
    /// Let a paused worker take tasks again
    #[command(after_help = WORKER_EXAMPLES)]
    Resume(Named),
    /// Let a worker finish its tasks and leave
    #[command(after_help = WORKER_EXAMPLES)]
    Drain(Named),
}

/// A queue or a worker.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Its name
    pub(crate) name: String,
}

/// Verbs of dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List dead letters in groups of alike errors
    #[command(visible_alias = "ls", after_help = DEAD_EXAMPLES)]
    List(DeadList),
    /// Run dead letters again
    #[command(after_help = REPLAY_EXAMPLES, override_usage = "divvy dead replay [OPTIONS] <ID…|--all|FILTER>")]
    Replay(DeadReplay),
    /// Give dead letters up: they become cancelled
    #[command(after_help = DROP_EXAMPLES, override_usage = "divvy dead drop [OPTIONS] <ID…|--all|FILTER>")]
    Drop(DeadSelection),
}

/// Dead letters to run again.
#[derive(Args, Debug)]
pub(crate) struct DeadReplay {
    #[command(flatten)]
    pub(crate) selection: DeadSelection,
    /// Another payload, for one: JSON, - for stdin, or @FILE
    #[arg(long, value_name = "JSON|-|@FILE", requires = "ids")]
    pub(crate) payload: Option<String>,
    /// How fast, such as 10/s or 100/m [default: all at once]
    #[arg(long, value_name = "N/s", conflicts_with = "payload")]
    pub(crate) rate: Option<Rate>,
}

/// Which dead letters to list.
#[derive(Args, Debug)]
pub(crate) struct DeadList {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

/// Which dead letters.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true)
    .args(["ids", "all"]).args(filters()))]
pub(crate) struct DeadSelection {
    /// These, by id or the end of it
    #[arg(value_name = "ID", conflicts_with_all = ["all", "select"])]
    pub(crate) ids: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "select")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Only say how many
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What to wait for.
#[derive(Args, Debug)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) tasks: ManyTasks,
    /// Give up after this span, with exit code 6
    #[arg(long, value_name = "SPAN")]
    pub(crate) timeout: Option<Span>,
}

/// Which log.
#[derive(Args, Debug)]
pub(crate) struct Logs {
    #[command(flatten)]
    pub(crate) task: OneTask,
    /// Go on until the task is final
    #[arg(long, short)]
    pub(crate) follow: bool,
}
