//! The `divvy` binary: arguments, config, output, wiring.
//!
//! Reading order: [`args`] (what can be typed), [`config`] (settings and their origin), [`commands`] (what each does),
//! [`watch`] (waits that are shown). What the reader sees and how a run ends is in `divvy-console`.
//!
//! **Invariant:** nothing here decides about tasks. Commands speak to a server over its public API only; `up` and
//! `serve` start one in this process, and `up` starts workers as processes of their own.

mod args;
mod bench;
mod commands;
mod config;
mod logging;
mod reload;
mod sample;
mod service;
mod supervise;
mod values;
mod video;
mod watch;
#[cfg(test)]
mod whole_way;
mod workflow;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;
pub(crate) use divvy_console::{confirm, exit, output, suggest, yaml};
use exit::{Code, Failure};
use output::{Color, Output};

fn main() -> ExitCode {
    // Not a command for people: it takes whatever words the tools give it, and must start at once.
    if std::env::args_os().nth(1).is_some_and(|word| word == video::worker::LAUNCHER) {
        return ExitCode::from(video::joints::confine(std::env::args_os().skip(2)) as u8);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(refuse(&error) as u8),
    };
    let (json, quiet) = (cli.global.json, cli.global.quiet);
    let color = cli.global.color.unwrap_or(Color::Auto);
    let code = commands::run(cli).unwrap_or_else(|error| {
        if exit::is_broken_pipe(&error) {
            return Code::Done;
        }
        let error = exit::explained(error);
        Output::new(json, quiet, color).failure(&error);
        error.downcast_ref::<Failure>().map_or(Code::Failed, |failure| failure.code)
    });
    ExitCode::from(code as u8)
}

/// Help and version are answers; everything else is a mistake, told as JSON to those who asked for JSON.
fn refuse(error: &clap::Error) -> Code {
    let wants_json = std::env::args().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        let message =
            text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let message = message.trim_start_matches("error: ").to_owned();
        Output::new(true, false, Color::Never).failure(&Failure::usage(message).into());
    } else {
        // Nobody reads it any more: nothing to do about that.
        let _ = error.print();
    }
    if error.use_stderr() { Code::Usage } else { Code::Done }
}
