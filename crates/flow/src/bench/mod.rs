//! What dataflow jobs cost, on a private server with one worker on two threads: the whole job as people start it, the
//! same work by others where they are installed, and what of it is the task engine, stage by stage.
//!
//! Each kind of job has its trials in a file of its own.

mod aggregate;
mod graph;
mod made;
mod mapreduce;
mod peers;
mod sort;
mod stream;
pub(crate) mod trial;

use std::path::Path;

use anyhow::Result;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::private::Place;
use serde::Serialize;

use trial::{Bench, Outcome};

const EXAMPLES: &str = "\
Examples:
  divvy bench flow --json                     every trial, at a tenth of the full size
  divvy bench flow --scale 1                  the full size: 1 GB of words, 4 GB to sort
  divvy bench flow --only sort";

/// What dataflow jobs cost, against other programs where they are installed.
#[derive(Debug, clap::Parser)]
#[command(name = "flow", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The size of the inputs; 1 is 1 GB of words, 50 M rows, 4 GB of records,
    /// 20 M edges, 10 M events
    #[arg(long, default_value_t = 0.1)]
    pub(crate) scale: f64,
    /// Only this trial
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Leave out other programs
    #[arg(long)]
    pub(crate) alone: bool,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// The figures.
#[derive(Debug, Serialize)]
struct Figures {
    scale: f64,
    trials: Vec<Outcome>,
}

/// Measures and shows the figures.
pub(crate) async fn run(args: &Args, output: &Output) -> Result<()> {
    let folder = args.place.folder()?;
    let trials = trials(folder.path(), args, output).await?;
    let figures = Figures { scale: args.scale, trials };
    if output.is_json() { output.object(&figures) } else { figures.print(output) }
}

/// All trials. A kind more is a line more here. Each kind has a server and a worker of its own, so that the memory of one
/// is not told of the next.
async fn trials(folder: &Path, args: &Args, output: &Output) -> Result<Vec<Outcome>> {
    let bench = || Bench::start(folder, args, output);
    let mut trials = mapreduce::run(&bench().await?).await?;
    trials.extend(aggregate::run(&bench().await?).await?);
    trials.extend(sort::run(&bench().await?).await?);
    trials.extend(graph::run(&bench().await?).await?);
    trials.extend(stream::run(&bench().await?).await?);
    Ok(trials)
}

impl Figures {
    fn print(&self, output: &Output) -> Result<()> {
        let mut table = Table::new(&["TRIAL", "BY", ">SECONDS", ">CPU S", ">PEAK MB", ">TO DIVVY"]);
        for trial in &self.trials {
            for cost in std::iter::once(&trial.divvy).chain(&trial.others) {
                let number =
                    |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.2}"));
                table.row([
                    trial.name.as_str().into(),
                    cost.by.as_str().into(),
                    format!("{:.2}", cost.seconds).into(),
                    number(cost.cpu_s).into(),
                    cost.peak_mb.map_or_else(String::new, |mb| mb.to_string()).into(),
                    format!("{:.2}", cost.seconds / trial.divvy.seconds.max(1e-9)).into(),
                ]);
            }
        }
        table.print(output)?;
        let mut stages = Table::new(&["TRIAL", "STAGE", ">PARTS", ">SECONDS", ">ENGINE", ">SKEW"]);
        for trial in &self.trials {
            for stage in &trial.stages {
                stages.row([
                    trial.name.as_str().into(),
                    stage.name.as_str().into(),
                    stage.parts.to_string().into(),
                    format!("{:.3}", stage.seconds).into(),
                    format!("{:.3}", stage.engine_s).into(),
                    format!("{:.2}", stage.skew).into(),
                ]);
            }
        }
        Ok(stages.print(output)?)
    }
}
