//! `divvy completions`: a script for a shell, made from the same definition as the help.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::Cli;
use crate::args::local::Completions;
use crate::exit::Code;
use crate::output::Output;

/// Prints the script.
pub(super) fn run(args: &Completions, output: &Output) -> Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "divvy", &mut script);
    output.bytes(&script)?;
    Ok(Code::Done)
}
