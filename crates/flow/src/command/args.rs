//! What can be typed after `divvy flow`. A kind of job adds a line to [`Verb`] and one to [`super::run`].

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use divvy_workload::console::values::Size;
use divvy_workload::provider::command::ProviderVerb;

use super::aggregate::AggregateArgs;
use super::generate::GenArgs;
use super::graph::GraphArgs;
use super::mapreduce::MapReduceArgs;
use super::providers;
use super::sort::SortArgs;
use super::stream::StreamArgs;
use crate::job::{NewJob, OnError};

const EXAMPLES: &str = "\
Examples:
  divvy flow list                             all jobs
  divvy flow status ID --wait                 watch one until it has ended
  divvy flow output ID | head                 its result, or that of a stream so far
  divvy flow stop ID                          end a stream, and keep its result
  divvy flow explain ID                       what each stage does, and how evenly";

/// MapReduce, aggregation, sort, graphs and streams as durable work.
#[derive(Debug, Parser)]
#[command(name = "flow", after_help = EXAMPLES)]
pub(crate) struct FlowCommand {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Map lines to pairs, group them by key, reduce each group
    #[command(name = "mapreduce")]
    MapReduce(MapReduceArgs),
    /// Group rows and say something about each group: counts, sums, quantiles
    Aggregate(AggregateArgs),
    /// Sort files that are larger than memory
    Sort(SortArgs),
    /// Find ranks, components, degrees or distances in a large graph
    Graph(GraphArgs),
    /// Put events that come out of order into windows
    Stream(StreamArgs),
    /// Make data to try jobs out with
    Gen(GenArgs),
    /// List all jobs, latest first
    List,
    /// Show how far a job is: stages with rows, bytes and skew
    Status(Status),
    /// Print the result of a job, or what a stream has said so far
    Output(Fetch),
    /// End a stream with what it has read; its result is kept
    Stop(One),
    /// Cancel a job; what it has written so far is swept
    Cancel(One),
    /// Remove a job that has ended, with its result
    Remove(One),
    /// Tell how a job is done, stage by stage
    Explain(One),
    /// What reads Parquet
    #[command(subcommand, after_help = providers::EXAMPLES)]
    Provider(ProviderVerb),
}

/// One job.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// The job, or the beginning of its id
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// How a job is shown.
#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The job, or the beginning of its id [default: the latest]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Wait until it has ended, with live figures
    #[arg(long)]
    pub(crate) wait: bool,
    /// Write the timeline of its parts to this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) timeline: Option<PathBuf>,
}

/// Where the result of a job goes.
#[derive(Args, Debug)]
pub(crate) struct Fetch {
    /// The job, or the beginning of its id [default: the latest]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Fetch all files into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// What every kind of job understands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Job")]
pub(crate) struct Common {
    /// What people call it [default: its kind]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Wait until it has ended, with live figures
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait, then fetch the result into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Wait, then write the timeline of its parts to this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) timeline: Option<PathBuf>,
    /// What becomes of rows that are wrong
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) on_error: OnError,
    /// Memory of one part
    #[arg(long, default_value = "256MB")]
    pub(crate) memory: Size,
    /// Bytes of one part of the input
    #[arg(long, default_value = "64MB")]
    pub(crate) split: Size,
    /// Into how many partitions keys are divided [default: by the size of the
    /// input]
    #[arg(long)]
    pub(crate) partitions: Option<u32>,
}

impl Common {
    /// A job of this kind with what was said here; inputs and options are for the kind to add.
    pub(crate) fn job(&self, kind: &str) -> NewJob {
        NewJob {
            name: self.name.clone(),
            on_error: self.on_error,
            memory_bytes: self.memory.0,
            split_bytes: self.split.0,
            partitions: self.partitions,
            ..NewJob::new(kind)
        }
    }
}
