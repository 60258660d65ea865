//! SQL on an Apache Ballista cluster that divvy keeps alive.
//!
//! One binary with three roles. As a client it runs queries, on any Ballista cluster (`run --cluster`) or as durable
//! tasks (`run`). As a worker of a divvy server it looks after the processes of a cluster and answers those tasks
//! (`up`, `worker`). As a child of that worker it is a scheduler or an executor of Ballista.
//!
//! Reading order: `args` (what can be typed), `tasks` (what the server is given), `up` and `keep` (a cluster as tasks),
//! `run` and `durable` (a query, at once or as a task), `query` (from SQL to rows), `publish` (a result is written once),
//! `roles` (Ballista itself).
//!
//! **Invariant:** nothing that must outlive a process is kept here; the address of a cluster is in the task of its
//! scheduler, at the divvy server.

mod args;
mod cluster;
mod durable;
mod format;
mod keep;
mod plan;
mod ports;
mod publish;
mod query;
mod roles;
mod run;
mod tables;
mod tasks;
mod up;

use std::process::ExitCode;

use clap::Parser as _;
use divvy_console::exit::{self, Code, Failure};
use divvy_console::output::{Color, Output};
use tracing_subscriber::filter::LevelFilter;

use args::{Command, Line};

/// The variable that says how much is logged: `error`, `warn`, `info` or `debug`.
const LOG_VARIABLE: &str = "DIVVY_SQL_LOG";

fn main() -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // Nobody to read it is no reason to end otherwise.
            let _ = error.print();
            return ExitCode::from(error.exit_code().try_into().unwrap_or(Code::Usage as u8));
        }
    };
    start_log(&line.command);
    let output = Output::new(false, line.quiet, Color::Auto);
    let code = perform(line, &output).unwrap_or_else(|error| {
        if exit::is_broken_pipe(&error) {
            return Code::Done;
        }
        let error = exit::explained(error);
        output.failure(&error);
        error.downcast_ref::<Failure>().map_or(Code::Failed, |failure| failure.code)
    });
    ExitCode::from(code as u8)
}

fn perform(line: Line, output: &Output) -> anyhow::Result<Code> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match line.command {
            Command::Run(ask) => run::run(ask, output).await,
            Command::Up(wish) => up::up(wish, output).await,
            Command::Worker(wish) => up::work(wish, output).await,
            Command::Down(wish) => up::down(wish, output).await,
            Command::Scheduler(role) => roles::scheduler(role).await,
            Command::Executor(role) => roles::executor(role).await,
        }
    });
    // What a library left on a thread must not keep the process.
    runtime.shutdown_background();
    done
}

/// Logs to stderr: warnings of Ballista where it serves, next to nothing where a person waits for rows.
fn start_log(command: &Command) {
    let usual = if command.is_role() { LevelFilter::WARN } else { LevelFilter::OFF };
    let wish = std::env::var(LOG_VARIABLE).ok().and_then(|wish| wish.parse().ok());
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
    // Only a second start in one process could fail, and there is none.
    let _ = lines.with_max_level(wish.unwrap_or(usual)).try_init();
}
