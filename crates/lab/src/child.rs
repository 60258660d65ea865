//! Decides which program experiments start when they need a process of their own, and what that process does.
//!
//! The lab is a library, so it has no program to start. The program that hosts it names one with [`provide`], usually
//! itself, and hands over to [`run`] when it is started with the one argument [`COMMAND`]. The process reads its work as
//! JSON from its input, does it, and writes the result as JSON.

use std::io::{Error as IoError, Read, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use divvy_pool::tiers::Program;

use crate::experiment::Error;
use crate::experiments::three_tier;

/// The argument with which the program is started.
pub const COMMAND: &str = "lab-child";

/// The most bytes of work that are read.
const INPUT_BYTES_MAX: u64 = 1 << 20;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program that understands [`COMMAND`]. Only the first name counts.
pub fn provide(program: impl Into<PathBuf>) {
    PROGRAM.get_or_init(|| program.into());
}

/// Does the work of a child process.
///
/// # Errors
/// When the work cannot be read or makes no sense, or the result cannot be written.
pub fn run(input: impl Read, mut output: impl Write) -> Result<(), IoError> {
    let work: Vec<String> = serde_json::from_reader(input.take(INPUT_BYTES_MAX))?;
    let result = three_tier::parse(&work)?;
    serde_json::to_writer(&mut output, &result)?;
    output.flush()
}

/// The program, with its argument.
pub(crate) fn program() -> Result<Program, Error> {
    let program = PROGRAM.get().ok_or_else(|| {
        IoError::other("no program for child processes is known; name one with child::provide")
    })?;
    Ok(Program::new(program).args([COMMAND]))
}
