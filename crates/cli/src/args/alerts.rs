//! Alerts of a server: the rules, silences, and a test of those who are told.

use clap::{ArgGroup, Args, Subcommand};

use crate::values::Span;

pub(crate) const ALERT_EXAMPLES: &str = "\
Examples:
  divvy alert list                        what fires, with the cure
  divvy alert list --all                  every rule and how it stands
  divvy alert silence oldest_wait --for 2h
  divvy alert silence oldest_wait --end
  divvy alert test                        try out who is told

Rules and those who are told stand in divvy.yaml; see divvy config init.";

/// Verbs of alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum Alert {
    /// List alerts that fire or are about to
    #[command(visible_alias = "ls", after_help = ALERT_EXAMPLES)]
    List {
        /// Every rule, those that are well too
        #[arg(long, short)]
        all: bool,
        /// What fired and resolved lately, newest first
        #[arg(long, conflicts_with = "all")]
        history: bool,
    },
    /// Tell nobody of an alert for a while
    #[command(after_help = ALERT_EXAMPLES)]
    Silence(Silence),
    /// Send a test to everybody who is told
    #[command(after_help = ALERT_EXAMPLES)]
    Test,
}

/// Which alert, and for how long.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("how").args(["for", "end"]))]
pub(crate) struct Silence {
    /// The name of the rule
    pub(crate) name: String,
    /// For how long, such as 30m or 2h [default: 1h]
    #[arg(long = "for", id = "for", value_name = "SPAN")]
    pub(crate) span: Option<Span>,
    /// End the silence now
    #[arg(long)]
    pub(crate) end: bool,
}
