//! `schedule`: tasks that come by themselves.

use clap::{Args, Subcommand, ValueEnum};
use divvy_types::Timestamp;
use divvy_types::schedule::{CatchUp, Overlap};

use super::tasks::Named;
use super::terms::TermsArgs;
use crate::values::Span;

pub(crate) const SCHEDULE_EXAMPLES: &str = "\
Examples:
  divvy schedule set nightly --cron '0 3 * * *' --kind report
  divvy schedule preview '0 3 * * MON-FRI' --zone Europe/Berlin
  divvy schedule show nightly
  divvy schedule trigger nightly     run it now";
pub(crate) const SET_EXAMPLES: &str = "\
Examples:
  divvy schedule set nightly --cron '0 3 * * *' --zone Europe/Berlin \\
    --kind report --payload '{\"days\": 1}' --catch-up last --overlap skip
  divvy schedule set beat --every 90s --kind noop
  divvy schedule set month-end --cron '0 18 L * *' --kind invoice \\
    --limit api/acme --fair-key acme --deadline 2h

Expressions: minutes hours days months weekdays, with seconds first if there
are six. * */5 1-5 1,3 MON-FRI JAN, L for the last day of a month, FRIL for
its last Friday, FRI#2 for its second. @hourly @daily @weekly @monthly
@yearly.";
/// The one that clap makes is wider than a terminal.
const SET_USAGE: &str = "divvy schedule set <NAME> --kind KIND --cron CRON|--every SPAN [OPTIONS]";
pub(crate) const PREVIEW_EXAMPLES: &str = "\
Examples:
  divvy schedule preview '0 3 * * *' --zone Europe/Berlin
  divvy schedule preview '@every 90m' --count 10
  divvy schedule preview '30 2 * * *' --zone Europe/Berlin \\
    --from 2026-03-28T00:00:00Z";

/// Verbs of schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum Schedule {
    /// Set a schedule, new or again
    #[command(after_help = SET_EXAMPLES, override_usage = SET_USAGE)]
    Set(Box<SetSchedule>),
    /// List schedules
    #[command(visible_alias = "ls", after_help = SCHEDULE_EXAMPLES)]
    List,
    /// Show a schedule and its next ticks
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Show(Named),
    /// Let a schedule rest
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Pause(Named),
    /// Let a schedule tick again; ticks of the rest are not made up for
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Resume(Named),
    /// Forget a schedule; tasks that it submitted stay
    #[command(visible_alias = "rm", after_help = SCHEDULE_EXAMPLES)]
    Remove(Named),
    /// Submit the task of a schedule now
    #[command(after_help = SCHEDULE_EXAMPLES)]
    Trigger(Named),
    /// Say when an expression ticks; needs no server
    #[command(after_help = PREVIEW_EXAMPLES)]
    Preview(Preview),
}

/// A schedule to set.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("when").required(true).args(["cron", "every"]))]
pub(crate) struct SetSchedule {
    /// Its name
    pub(crate) name: String,
    /// When: a cron expression or a macro such as @daily
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) cron: Option<String>,
    /// When: every span, such as 90s
    #[arg(long, value_name = "SPAN")]
    pub(crate) every: Option<String>,
    /// On the clocks of this IANA time zone [default: UTC]
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// The kind of its tasks
    #[arg(long)]
    pub(crate) kind: String,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
    /// When it should be done, after its tick
    #[arg(long, value_name = "SPAN")]
    pub(crate) deadline: Option<Span>,
    /// What becomes of missed ticks [default: skip]
    #[arg(long, value_enum, value_name = "skip|last|all", hide_possible_values = true)]
    pub(crate) catch_up: Option<CatchUpWord>,
    /// A tick while the last task is open [default: allow]
    #[arg(long, value_enum, value_name = "allow|skip", hide_possible_values = true)]
    pub(crate) overlap: Option<OverlapWord>,
    /// No tick before this time, in RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) start: Option<Timestamp>,
    /// No tick after this time, in RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) end: Option<Timestamp>,
    /// Tasks come up to this span after their tick
    #[arg(long, value_name = "SPAN")]
    pub(crate) jitter: Option<Span>,
    /// Set it at rest
    #[arg(long)]
    pub(crate) paused: bool,
}

/// An expression to try.
#[derive(Args, Debug)]
pub(crate) struct Preview {
    /// A cron expression, a macro such as @daily, or '@every 90s'
    pub(crate) expression: String,
    /// On the clocks of this IANA time zone
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) zone: String,
    /// Ticks to show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) count: u32,
    /// Ticks after this time, in RFC 3339 [default: now]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Timestamp>,
}

/// What becomes of missed ticks.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CatchUpWord {
    /// They are dropped.
    Skip,
    /// One task for all of them.
    Last,
    /// One task for each.
    All,
}

/// What becomes of a tick while the last task is open.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverlapWord {
    /// Another task is submitted.
    Allow,
    /// Nothing is submitted.
    Skip,
}

impl From<CatchUpWord> for CatchUp {
    fn from(word: CatchUpWord) -> Self {
        match word {
            CatchUpWord::Skip => Self::Skip,
            CatchUpWord::Last => Self::Last,
            CatchUpWord::All => Self::All,
        }
    }
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Self {
        match word {
            OverlapWord::Allow => Self::Allow,
            OverlapWord::Skip => Self::Skip,
        }
    }
}
