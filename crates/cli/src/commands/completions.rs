//! `divvy completions`: a script for a shell. Those that can ask at each Tab do; for the others it is made from the same
//! definition as the help.

use anyhow::Result;

use crate::args::definition;
use crate::args::local::Completions;
use crate::complete;
use crate::exit::Code;
use crate::output::Output;
use crate::workloads::Workloads;

/// Prints the script.
pub(super) fn run(args: &Completions, output: &Output, workloads: &Workloads) -> Result<Code> {
    if let Some(script) = complete::script(args.shell) {
        output.bytes(script.as_bytes())?;
        return Ok(Code::Done);
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(workloads), "divvy", &mut script);
    output.bytes(&script)?;
    Ok(Code::Done)
}
