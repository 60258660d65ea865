//! Chores of the repository: `cargo xtask tidy` checks the rules that the compiler does not know.
//!
//! Only reads arguments and turns the answer into an exit code: 0 when all is well, 1 when a rule is broken, 2 when
//! the check itself could not run.

mod tidy;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;

const USAGE: &str = "usage: cargo xtask tidy [--verbose]

  tidy        check layers, purity, weight, sizes, docs, words, lint exceptions, texts and links
  --verbose   also note files that are getting long";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            // Nothing is left to tell a caller whose standard error is closed.
            let _ = writeln!(std::io::stderr(), "xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Vec<String>) -> anyhow::Result<bool> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["tidy"] => tidy::run(false),
        ["tidy", "--verbose"] => tidy::run(true),
        ["help" | "--help" | "-h"] => {
            writeln!(std::io::stdout(), "{USAGE}")?;
            Ok(true)
        }
        _ => bail!("unknown arguments `{}`\n{USAGE}", arguments.join(" ")),
    }
}
