//! The command line of divvy: arguments, settings, wiring. A binary is this with a list of workloads.
//!
//! Reading order: [`args`] (what can be typed), [`config`] (settings and their origin), [`commands`] (what each does),
//! [`workloads`] (what others bring). What the reader sees and how a run ends is in
//! `divvy-console`.
//!
//! **Invariant:** nothing here decides about tasks, and nothing here knows a workload by name. Commands speak to a
//! server over its public API only; `up` and `serve` start one in this process, and `up` starts workers as processes of
//! their own.

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
mod watch;
#[cfg(test)]
mod whole_way;
mod workflow;
mod workloads;

use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use divvy_console::{confirm, exit, output, suggest, yaml};
use divvy_workload::Workload;

use args::Line;
use exit::{Code, Failure};
use output::{Color, Output};
use workloads::Workloads;

/// Does what was typed, with these workloads.
pub fn main(workloads: Vec<Arc<dyn Workload>>) -> ExitCode {
    ExitCode::from(run(&Workloads::new(workloads)) as u8)
}

fn run(workloads: &Workloads) -> Code {
    // Not a command for people: it takes whatever words it is given, and must start at once.
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if let Some(workload) = first.and_then(|word| workloads.of_inner_word(&word)) {
        return workload.run_inner(&mut words);
    }
    let line = match Line::parse(std::env::args_os(), workloads) {
        Ok(line) => line,
        Err(error) => return refuse(&error),
    };
    let (json, quiet) = (line.global.json, line.global.quiet);
    let color = line.global.color.unwrap_or(Color::Auto);
    commands::run(line, workloads).unwrap_or_else(|error| {
        if exit::is_broken_pipe(&error) {
            return Code::Done;
        }
        let error = exit::explained(error);
        Output::new(json, quiet, color).failure(&error);
        error.downcast_ref::<Failure>().map_or(Code::Failed, |failure| failure.code)
    })
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
