//! How `divvy top` looks at a server.

use clap::Args;

use crate::values::Span;

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  divvy top
  divvy top --once                 plain text, for scripts and logs
  divvy top --server http://10.0.0.5:7171 --every 5s

Keys: 1 to 4 choose a list, p pauses, d drains, r retries, s sorts, ? helps,
q quits.";

/// How to look.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Print what is there now as plain text, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// How often to look [default: 1s]
    #[arg(long, value_name = "SPAN", conflicts_with = "once")]
    pub(crate) every: Option<Span>,
}
