//! Commands about this machine: settings, data folder, checks, completions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  divvy status || echo 'something is wrong'
  divvy status --watch                 as it changes, until Ctrl-C

Exit code 0 is healthy, 1 degraded, 3 no server.";
pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  divvy doctor
  divvy doctor --live            the health of a running server, with cures
  divvy doctor --json > report.json

Exit code 0 is well, 1 something is wrong.";
pub(crate) const CONFIG_EXAMPLES: &str = "\
Examples:
  divvy config init               write a commented divvy.yaml
  divvy config show --origin      every value and where it comes from
  divvy config check";
pub(crate) const STORE_EXAMPLES: &str = "\
Examples:
  divvy store check --data divvy-data
  divvy store backup monday                  also while a server runs
  divvy store backup tuesday --since monday  only objects that are new
  divvy store restore tuesday --data divvy-data
  divvy store compact";
pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  divvy completions bash > ~/.local/share/bash-completion/completions/divvy
  divvy completions zsh > ~/.zfunc/_divvy
  divvy completions fish > ~/.config/fish/completions/divvy.fish";

/// How to look.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// Look every second: in place on a terminal, else a line per change
    #[arg(long, short)]
    pub(crate) watch: bool,
}

/// What to check.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Check the health of a running server, not this machine
    #[arg(long, conflicts_with = "data")]
    pub(crate) live: bool,
    /// The data folder [default: divvy-data]
    #[arg(long, value_name = "DIR", env = "DIVVY_DATA", hide_env_values = true)]
    pub(crate) data: Option<PathBuf>,
}

/// Verbs of settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting
    #[command(after_help = CONFIG_EXAMPLES)]
    Show {
        /// Also where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// Check the file and the variables
    #[command(after_help = CONFIG_EXAMPLES)]
    Check,
    /// Write a commented divvy.yaml here
    #[command(after_help = CONFIG_EXAMPLES)]
    Init {
        /// Replace a file that is there
        #[arg(long)]
        force: bool,
    },
}

/// Verbs of data folders.
#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Check every file and record; reads only
    #[command(after_help = STORE_EXAMPLES)]
    Check {
        /// Also read every object and compare it with its name
        #[arg(long)]
        deep: bool,
        #[command(flatten)]
        folder: DataFolder,
    },
    /// Copy the data to another folder, also while a server runs
    #[command(after_help = STORE_EXAMPLES)]
    Backup {
        /// The new folder
        #[arg(value_name = "TARGET")]
        target: PathBuf,
        /// An earlier backup, whose objects are not copied again
        #[arg(long, value_name = "EARLIER")]
        since: Option<PathBuf>,
        #[command(flatten)]
        folder: DataFolder,
    },
    /// Make a data folder from a backup
    #[command(after_help = STORE_EXAMPLES)]
    Restore {
        /// The backup
        #[arg(value_name = "BACKUP")]
        backup: PathBuf,
        #[command(flatten)]
        folder: DataFolder,
    },
    /// Give unused space back; the server must be stopped
    #[command(after_help = STORE_EXAMPLES)]
    Compact(DataFolder),
}

/// A data folder.
#[derive(Args, Debug)]
pub(crate) struct DataFolder {
    /// Data folder [default: divvy-data]
    #[arg(long, value_name = "DIR", env = "DIVVY_DATA", hide_env_values = true)]
    pub(crate) data: Option<PathBuf>,
}

/// For which shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Which step of the sample.
#[derive(Args, Debug)]
pub(crate) struct SampleStep {
    /// The step
    pub(crate) step: Step,
}

/// The steps of the sample workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// Cuts the numbers into ranges.
    Split,
    /// Counts the primes of a range.
    Count,
    /// Adds up and checks.
    Sum,
}
