//! How `divvy up` starts: what a workload finds on this machine before anything runs, and the sample that it can show.

use std::path::Path;

use clap::ArgMatches;
use serde_json::Value;

use crate::context::Context;

/// What `divvy up` knows before it starts a server and workers.
#[derive(Debug)]
pub struct UpContext<'a> {
    /// What was typed, with the flags of the workload.
    pub matches: &'a ArgMatches,
    /// Where to print, and what is set.
    pub context: &'a Context,
    /// The data folder.
    pub data: &'a Path,
    /// Whether the sample of this workload was asked for.
    pub is_sample: bool,
}

/// What a workload found, and what its workers are told.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// Flags for the local workers, so that they need not look for the same again.
    pub worker_arguments: Vec<String>,
    /// What people are told about it: a word and a text.
    pub lines: Vec<(&'static str, String)>,
    /// Pages to point people to: a word and the path.
    pub pages: Vec<(&'static str, &'static str)>,
    /// The same for programs, under the name of the workload.
    pub json: Value,
}

/// What a sample works with.
#[derive(Debug)]
pub struct SampleContext<'a> {
    /// What was typed, with the flags of the workload.
    pub matches: &'a ArgMatches,
    /// Where to print, what is set, and the server that was started for it.
    pub context: &'a Context,
    /// The data folder of that server.
    pub data: &'a Path,
}
