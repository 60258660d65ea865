//! The child process of experiments as a program of its own, for hosts that are not the `divvy` binary, such as tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some(divvy_lab::child::COMMAND) {
        return ExitCode::from(2);
    }
    match divvy_lab::child::run(std::io::stdin().lock(), std::io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
