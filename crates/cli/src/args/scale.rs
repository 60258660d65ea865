//! Pools of workers on a running server.

use clap::{Args, Subcommand};
use divvy_autoscale::POLICY_NAMES;
use divvy_types::pools::{Goal, Policy};

use crate::values::one_of;

pub(crate) const SCALE_EXAMPLES: &str = "\
Examples:
  divvy scale status               every pool: what it has and wants, and why
  divvy scale explain local        how the last decision came about
  divvy scale set local 4          hold 4 workers; `auto` lets the pool decide
  divvy scale simulate local --policy target --max 8";

/// Verbs of pools.
#[derive(Debug, Subcommand)]
pub(crate) enum Scale {
    /// Show pools: what they have and want, and why
    #[command(after_help = SCALE_EXAMPLES)]
    Status {
        /// Only this pool
        pool: Option<String>,
    },
    /// List the changes of a pool, newest first
    #[command(after_help = SCALE_EXAMPLES)]
    History {
        /// Its name
        pool: String,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Say how the last decision of a pool came about
    #[command(after_help = SCALE_EXAMPLES)]
    Explain {
        /// Its name
        pool: String,
    },
    /// Hold a number of workers, or let the pool decide again
    #[command(after_help = SCALE_EXAMPLES)]
    Set {
        /// Its name
        pool: String,
        /// So many, or auto
        #[arg(value_name = "N|auto")]
        workers: Size,
    },
    /// Stop changing the number of workers
    #[command(after_help = SCALE_EXAMPLES)]
    Pause {
        /// Its name
        pool: String,
    },
    /// Go on changing the number of workers
    #[command(after_help = SCALE_EXAMPLES)]
    Resume {
        /// Its name
        pool: String,
    },
    /// Play what arrived again with other settings: what would have been wanted,
    /// who would have worked and what would have waited; changes nothing
    #[command(after_help = SCALE_EXAMPLES)]
    Simulate(Simulate),
}

/// What to try.
#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// Its name
    pub(crate) pool: String,
    /// Another policy
    #[arg(long, value_name = "POLICY", value_parser = one_of::<Policy>(&POLICY_NAMES))]
    pub(crate) policy: Option<Policy>,
    /// Another minimum
    #[arg(long, value_name = "N")]
    pub(crate) min: Option<u32>,
    /// Another maximum
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u32>,
    /// Another goal, such as 'p95 start within 30 s'
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<Goal>,
}

/// A number of workers, or as many as the pool decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) Option<u32>);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        let number = text.parse().map_err(|_| {
            format!("`{text}` is not a number of workers: expected auto, or 0 and up")
        })?;
        Ok(Self(Some(number)))
    }
}
