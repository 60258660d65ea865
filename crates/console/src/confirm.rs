//! The question before something that cannot be taken back.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;

use crate::exit::Failure;
use crate::output::Output;
use crate::output::visible::visible;

/// Asks on a terminal; without one nobody could answer.
pub fn confirm(question: &str, output: &Output) -> Result<()> {
    confirm_or(question, "add --yes, or look first with --dry-run", output)
}

/// The same with another cure for those who cannot answer.
pub fn confirm_or(question: &str, cure: &str, output: &Output) -> Result<()> {
    if !io::stdin().is_terminal() || output.is_json() {
        let failure = Failure::refused(format!("{question} nobody is here to answer"));
        return Err(failure.cure(cure).into());
    }
    // If the question cannot be shown, the answer will not come either.
    let _ = write!(io::stderr(), "{} [y/N] ", visible(question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::refused("nothing was done").into())
}
