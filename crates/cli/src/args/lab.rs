//! Experiments: which, from which seed, and where their charts and page go.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(crate) const LAB_EXAMPLES: &str = "\
Examples:
  divvy lab list                        what can be tried
  divvy lab run herd                    text and tables
  divvy lab run herd --svg herd.svg     its charts too
  divvy lab run all --html lab.html     one page with everything";

/// Verbs of experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments
    #[command(after_help = LAB_EXAMPLES)]
    List,
    /// Run experiments and say what they show
    #[command(after_help = LAB_EXAMPLES)]
    Run(Run),
}

/// Which experiments, and how.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Names of experiments, or `all`
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
    /// Where all chance comes from: the same number, the same run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// A rough answer in seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also write the charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Also write one page with text, tables and charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
