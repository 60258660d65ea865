//! How a run begins and ends: the words that were typed, the command that they name, and the code of the process.

use std::process::ExitCode;
use std::sync::Arc;

use divvy_workload::Workload;

use crate::args::Line;
use crate::exit::{Code, Failure};
use crate::output::{Color, Output};
use crate::workloads::Workloads;
use crate::{commands, exit};

/// The first word of a process that looks after a program of a worker.
pub(crate) const KEEPER: &str = "keep-program";

/// Does what was typed, with these workloads.
pub fn main(workloads: Vec<Arc<dyn Workload>>) -> ExitCode {
    ExitCode::from(run(&Workloads::new(workloads)) as u8)
}

fn run(workloads: &Workloads) -> Code {
    // Not a command for people: it takes whatever words it is given, and must start at once.
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_deref().is_some_and(|word| word == KEEPER) {
        let Err(error) = divvy_worker::builtin::keep(words);
        Output::new(false, false, Color::Never).say(format_args!("{error}"));
        return Code::Failed;
    }
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
