//! What a kind of job says about its work: which stage comes next, and how a part of it is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

use super::{JobError, PartError, PartIo, Report, Spec, SpecError};

/// A kind of job, such as `sort`. It keeps no state: all that lasts is in the job's folder.
pub trait Kind: Send + Sync + 'static {
    /// Its name: what `divvy flow` and the API call it.
    fn name(&self) -> &'static str;

    /// Looks at a job before anything of it is submitted.
    ///
    /// # Errors
    /// Names the field that makes no sense, and the cure.
    fn check(&self, spec: &Spec) -> Result<(), SpecError>;

    /// What comes after these stages. Called in the server, so it reads no input and takes no time; the same `done`
    /// gives the same answer.
    ///
    /// # Errors
    /// If the job cannot go on.
    fn next(&self, spec: &Spec, done: &[StageDone]) -> Result<Next, JobError>;

    /// Does a part, on a worker, on a thread of its own.
    ///
    /// # Errors
    /// Says what follows: another attempt, another turn later, or the end of the job.
    fn run(&self, part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError>;

    /// How the job is done, a sentence per line: for `divvy flow explain`, with what is known after these stages.
    fn explain(&self, spec: &Spec, done: &[StageDone]) -> Vec<String>;
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Another stage.
    Stage(Stage),
    /// Nothing: the job is done.
    Finished(Summary),
}

/// A stage: parts that do not wait for each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name; one of [`tasks::STAGES`](super::tasks::STAGES), which is also the kind of its tasks without `flow.`.
    pub name: String,
    /// Its parts, at least one.
    pub parts: Vec<Part>,
    /// Whether a part that takes much longer than the others gets a twin. Only where two attempts at once do no harm.
    pub speculate: bool,
}

/// One part as it is planned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What it is to do, in words of its kind. It travels with the task, so it is small: name files, not data.
    pub work: Value,
    /// Bytes that it will read, as far as is known.
    pub bytes: u64,
    /// Capabilities that its worker needs besides `flow`.
    #[serde(default)]
    pub needs: Vec<String>,
}

impl Part {
    /// A part that is to do this and reads about so many bytes.
    ///
    /// # Panics
    /// If `work` is no JSON, such as a map whose keys are no text.
    pub fn new(work: &impl Serialize, bytes: u64) -> Self {
        let work = serde_json::to_value(work).expect("the work of a part is plain data");
        Self { work, bytes, needs: Vec::new() }
    }
}

/// One part as a worker gets it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartSpec {
    /// The job.
    pub job: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Which stage, from 0.
    pub stage: u32,
    /// The stage's name.
    pub name: String,
    /// Which part of the stage, from 0.
    pub part: u32,
    /// Parts of the stage.
    pub parts: u32,
    /// 0, or 1 for the twin of a part that takes long.
    pub twin: u32,
    /// What it is to do.
    pub work: Value,
    /// Bytes that it will read, as far as is known.
    pub bytes: u64,
}

impl PartSpec {
    /// What it is to do, in the words of its kind.
    ///
    /// # Errors
    /// If another version of this program planned it.
    pub fn work<T: for<'de> Deserialize<'de>>(&self) -> Result<T, PartError> {
        serde_json::from_value(self.work.clone()).map_err(|error| {
            PartError::Broken(format!(
                "part {} of stage `{}` cannot be read ({error}); was the job planned by another version?",
                self.part, self.name
            ))
        })
    }
}

/// A stage whose parts are all done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowStageDone")]
pub struct StageDone {
    /// Its name.
    pub name: String,
    /// When its first task was submitted, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When its last part was done.
    pub ended_at_ms: u64,
    /// What became of its parts, in their order.
    pub parts: Vec<PartDone>,
}

/// A part that is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowPart")]
pub struct PartDone {
    /// Which of its twins won.
    pub twin: u32,
    /// Who did it.
    pub worker: String,
    /// When the attempt began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When it was done.
    pub ended_at_ms: u64,
    /// Attempts that it took.
    pub attempts: u32,
    /// What it said.
    pub report: Report,
}

/// What a job that is done says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowSummary")]
pub struct Summary {
    /// For people: a fact per line.
    pub lines: Vec<String>,
    /// The same for programs.
    #[serde(default)]
    pub data: Value,
}
