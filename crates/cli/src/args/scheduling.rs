//! Settings of scheduling on a running server: limits, queues, the whole.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use divvy_types::settings::{FairBy, Rate};

use crate::values::{KeyWeight, one_of};

pub(crate) const LIMIT_EXAMPLES: &str = "\
Examples:
  divvy limit list
  divvy limit set api --rate 10/s --burst 20 --concurrency 4
  divvy limit set encoder --total-concurrency 2
  divvy submit http --limit api/acme     a task that runs under a limit";
pub(crate) const SETTINGS_EXAMPLES: &str = "\
Examples:
  divvy settings show              what holds on the server, and why
  divvy settings check divvy.yaml  before the server reads it";
pub(crate) const SET_QUEUE_EXAMPLES: &str = "\
Examples:
  divvy queue set reports --weight 3
  divvy queue set mail --fair-by time --fair-weight acme=5
  divvy queue set mail --reset";
pub(crate) const REBALANCE_EXAMPLES: &str = "\
Examples:
  divvy queue rebalance --dry-run     what would move, and nothing else
  divvy queue rebalance";

/// Verbs of limits.
#[derive(Debug, Subcommand)]
pub(crate) enum Limit {
    /// List limits and how full they are
    #[command(visible_alias = "ls", after_help = LIMIT_EXAMPLES)]
    List,
    /// Set a limit; what is not given is not limited
    #[command(after_help = LIMIT_EXAMPLES, override_usage = "divvy limit set <NAME> [OPTIONS]")]
    Set(SetLimit),
    /// Remove a limit
    #[command(visible_alias = "rm", after_help = LIMIT_EXAMPLES)]
    Remove(RemoveLimit),
}

/// A limit to remove.
#[derive(Args, Debug)]
pub(crate) struct RemoveLimit {
    /// Its name
    pub(crate) name: String,
    /// Do not ask, even if tasks wait behind it
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// A limit.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["rate", "concurrency", "total_rate", "total_concurrency"]))]
pub(crate) struct SetLimit {
    /// Its name, as tasks give it: NAME or NAME/key
    pub(crate) name: String,
    /// Starts per time and key, such as 10/s, 100/m, 5000/h
    #[arg(long, value_name = "N/s|m|h|d")]
    pub(crate) rate: Option<Rate>,
    /// Starts that may come at once after a pause
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<u32>,
    /// Tasks at once, per key
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<u32>,
    /// Starts per time, over all keys together
    #[arg(long, value_name = "N/s|m|h|d")]
    pub(crate) total_rate: Option<Rate>,
    /// Tasks at once, over all keys together
    #[arg(long, value_name = "N")]
    pub(crate) total_concurrency: Option<u32>,
}

/// Verbs of the settings of a server.
#[derive(Debug, Subcommand)]
pub(crate) enum Settings {
    /// Show what holds on the server, and where it comes from
    #[command(after_help = SETTINGS_EXAMPLES)]
    Show,
    /// Check a file without a server
    #[command(after_help = SETTINGS_EXAMPLES)]
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// What is special about a queue.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["weight", "fair_by", "fair_weights", "reset"]))]
pub(crate) struct SetQueue {
    /// Its name
    pub(crate) name: String,
    /// Its share against other queues with a weight
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<u32>,
    /// What fair keys share: starts, or run time
    #[arg(long, value_name = "tasks|time", value_parser = one_of::<FairBy>(&["tasks", "time"]))]
    #[arg(hide_possible_values = true)]
    pub(crate) fair_by: Option<FairBy>,
    /// The weight of a fair key; may be repeated
    #[arg(long = "fair-weight", value_name = "KEY=N")]
    pub(crate) fair_weights: Vec<KeyWeight>,
    /// Forget what was set before
    #[arg(long)]
    pub(crate) reset: bool,
}

/// How to rebalance.
#[derive(Args, Debug)]
pub(crate) struct Rebalance {
    /// Only say what would move
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Whose status.
#[derive(Args, Debug)]
pub(crate) struct WorkerStatus {
    /// Only this worker, with its skills
    pub(crate) name: Option<String>,
}
