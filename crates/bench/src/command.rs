//! The command: which benchmark, and its figures as text or JSON.

use divvy_console::exit::Code;
use divvy_console::output::Output;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::{backlog, idle, life, lists, patterns, recovery, scheduler};

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// Durable lives of no-op tasks through gRPC, against the bare store and the disk.
    Life(life::Args),
    /// Many idle workers and one task: messages that leave the server, and its CPU while idle.
    Idle(idle::Args),
    /// A large backlog without workers: how fast it is taken, and the server's memory.
    Backlog(backlog::Args),
    /// Restart with a large backlog: time and memory until the server works again.
    Recovery(recovery::Args),
    /// Lists of tasks over a large store: time of a page, by what is asked for.
    Lists(lists::Args),
    /// Tasks spread over threads in five ways: throughput and time to start, against targets.
    Patterns(patterns::Args),
    /// The scheduler alone on one core: task lives per second, over a growing backlog, and memory.
    #[command(after_help = SCHEDULER_EXAMPLES)]
    Scheduler(scheduler::Args),
}

const SCHEDULER_EXAMPLES: &str = "\
Examples:
  divvy bench scheduler --quick                  a rough answer in seconds
  divvy bench scheduler --json                   all sizes, all figures
  divvy bench scheduler --max-waiting 1000000    with less memory";

/// Measures, and prints the figures. In a box, because the code of a future is compiled by who awaits it, and the command
/// line is not optimised.
pub fn run(args: Args, output: &Output) -> BoxFuture<'_, anyhow::Result<Code>> {
    measure(args.which, output).boxed()
}

async fn measure(which: Which, output: &Output) -> anyhow::Result<Code> {
    match which {
        Which::Life(args) => print(output, &life::run(&args, output).await?),
        Which::Idle(args) => print(output, &idle::run(&args, output).await?),
        Which::Backlog(args) => print(output, &backlog::run(&args, output).await?),
        Which::Recovery(args) => print(output, &recovery::run(&args, output)?),
        Which::Lists(args) => {
            let figures = lists::run(&args, output).await?;
            if output.is_json() {
                return print(output, &figures);
            }
            figures.print(output)?;
            Ok(Code::Done)
        }
        Which::Patterns(args) => {
            let figures = patterns::run(&args, output)?;
            if output.is_json() {
                return print(output, &figures);
            }
            figures.table().print(output)?;
            Ok(Code::Done)
        }
        Which::Scheduler(args) => {
            let figures = scheduler::run(&args, output).await?;
            if output.is_json() {
                return print(output, &figures);
            }
            figures.print(output)?;
            Ok(Code::Done)
        }
    }
}

fn print(output: &Output, figures: &impl Serialize) -> anyhow::Result<Code> {
    if output.is_json() {
        output.object(figures)?;
        return Ok(Code::Done);
    }
    if let serde_json::Value::Object(figures) = serde_json::to_value(figures)? {
        for (name, value) in figures {
            output.data(format_args!("{name:<26} {value:>14}"))?;
        }
    }
    Ok(Code::Done)
}
