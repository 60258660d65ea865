//! `divvy completions`: a script for a shell, made from the same definition as the help.

use anyhow::Result;

use crate::args::definition;
use crate::args::local::Completions;
use crate::exit::Code;
use crate::output::Output;
use crate::workloads::Workloads;

/// Prints the script.
pub(super) fn run(args: &Completions, output: &Output, workloads: &Workloads) -> Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(workloads), "divvy", &mut script);
    output.bytes(&script)?;
    Ok(Code::Done)
}
