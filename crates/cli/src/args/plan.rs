//! Plans: which file, where its inputs come from, and where the page goes.

use std::path::PathBuf;

use clap::Args;

pub(crate) const PLAN_EXAMPLES: &str = "\
Examples:
  divvy plan examples/plan/seed-video.yaml             the cheapest fleet
  divvy plan videos.yaml --html plan.html --days 7     a page with charts
  divvy plan videos.yaml --from-history                arrivals of the server
  divvy plan --calibrate a.mp4 b.mp4                   measure, print stages
  divvy plan videos.yaml --calibrate a.mp4 b.mp4       plan with them
  divvy plan --check clips/*.mp4                       prediction and reality

Exit code 1: nothing meets the goal within the budget, or --check was off;
5: the machine's speed changed during --check, so there is no verdict";

/// How many workers, at what cost, with what risk.
#[derive(Args, Debug)]
pub(crate) struct Plan {
    /// What comes, what is wanted and what workers cost, as YAML
    #[arg(value_name = "FILE", required_unless_present_any = ["calibrate", "check"])]
    pub(crate) file: Option<PathBuf>,
    /// Take arrivals per hour from the server, and where FILE has no stages,
    /// what it has learnt of run times; NAME picks workflows by their name or
    /// tasks by their kind, with * at its end for any rest
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "*")]
    #[arg(conflicts_with = "check")]
    pub(crate) from_history: Option<String>,
    /// Run these files on this machine one by one, and take what their tasks
    /// take as the stages
    #[arg(long, value_name = "SAMPLE", num_args = 1.., conflicts_with = "check")]
    pub(crate) calibrate: Vec<PathBuf>,
    /// Measure these files one by one, let them come at random times, measure
    /// them again, and compare the prediction with what happened
    #[arg(long, value_name = "SAMPLE", num_args = 1.., conflicts_with = "file")]
    pub(crate) check: Vec<PathBuf>,
    /// Slots of the worker that --calibrate and --check start
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,
    /// How busy --check keeps the slots, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(5..=95))]
    pub(crate) busy: u32,
    /// Days to simulate, in place of what FILE says
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<f64>,
    /// Seeds to try the answer with, in place of what FILE says
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<u32>,
    /// Also write one page with text, tables and charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
