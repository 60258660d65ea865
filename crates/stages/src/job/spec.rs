//! What a job is asked to do: checked once, when it is started, and fixed from then on.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PartError, SpecError, kinds};

/// Files of one job.
pub const INPUTS_MAX: usize = 100_000;
/// Characters of a name.
const NAME_LEN_MAX: usize = 200;
/// The least memory of a part.
const MEMORY_BYTES_MIN: u64 = 1_000_000;
/// The least and the most bytes of a split.
const SPLIT_BYTES: (u64, u64) = (1_000, 1_000_000_000_000);
/// Partitions of a shuffle.
pub const PARTITIONS_MAX: u32 = 4_096;

/// What becomes of rows that are wrong.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[schemars(rename = "FlowOnError")]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The job fails, with the place of the first.
    #[default]
    Fail,
    /// They are left out and counted.
    Skip,
}

/// A file as it was when the job was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowInput")]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where it is, from the root.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// When it was changed last, in milliseconds since 1970.
    pub modified_ms: u64,
}

impl InputFile {
    /// The file at this path as it is now.
    ///
    /// # Errors
    /// If it cannot be looked at, or is no file.
    pub fn look(path: &Path) -> std::io::Result<Self> {
        let about = std::fs::metadata(path)?;
        if !about.is_file() {
            return Err(std::io::Error::other("is not a file"));
        }
        let since = about.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let modified_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { path: std::path::absolute(path)?, bytes: about.len(), modified_ms })
    }

    /// An error if the file is not the one that it was when the job was started.
    ///
    /// # Errors
    /// Says what changed.
    pub fn expect_unchanged(&self) -> Result<(), PartError> {
        let now = Self::look(&self.path).map_err(|error| PartError::io(&self.path, &error))?;
        if now == *self {
            return Ok(());
        }
        Err(PartError::Broken(format!(
            "{}: has changed since the job was started ({} bytes then, {} now); start the job again",
            self.path.display(),
            self.bytes,
            now.bytes
        )))
    }
}

/// A job to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewFlow")]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What people call it; its kind unless told otherwise.
    #[serde(default)]
    pub name: Option<String>,
    /// The kind of job, such as `sort`.
    pub kind: String,
    /// The files that it reads, in their order.
    #[serde(default)]
    #[schemars(length(max = INPUTS_MAX))]
    pub inputs: Vec<InputFile>,
    /// What becomes of rows that are wrong.
    #[serde(default)]
    pub on_error: OnError,
    /// Memory of one part, in bytes.
    #[serde(default = "usual_memory")]
    pub memory_bytes: u64,
    /// Bytes of one part of the input.
    #[serde(default = "usual_split")]
    pub split_bytes: u64,
    /// Into how many partitions keys are divided; chosen by the size of the input unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = PARTITIONS_MAX))]
    pub partitions: Option<u32>,
    /// What else the kind wants to know.
    #[serde(default)]
    pub options: Value,
}

fn usual_memory() -> u64 {
    256_000_000
}

fn usual_split() -> u64 {
    64_000_000
}

impl NewJob {
    /// A job of this kind, everything else as usual.
    pub fn new(kind: &str) -> Self {
        Self {
            name: None,
            kind: kind.to_owned(),
            inputs: Vec::new(),
            on_error: OnError::default(),
            memory_bytes: usual_memory(),
            split_bytes: usual_split(),
            partitions: None,
            options: Value::Null,
        }
    }

    /// The job, if it makes sense.
    ///
    /// # Errors
    /// Names the field that does not.
    pub fn check(self, id: String, now_ms: u64) -> Result<Spec, SpecError> {
        let Some(kind) = kinds::find(&self.kind) else {
            let names: Vec<&str> = kinds::all().iter().map(|kind| kind.name()).collect();
            return Err(SpecError::new(
                "kind",
                format!("is none; use one of {}", names.join(", ")),
            ));
        };
        if self.inputs.len() > INPUTS_MAX {
            let problem = format!("has {} files, at most {INPUTS_MAX}", self.inputs.len());
            return Err(SpecError::new("inputs", problem));
        }
        for (at, input) in self.inputs.iter().enumerate() {
            if !input.path.is_absolute() {
                let problem = "is not a path from the root; workers stand elsewhere";
                return Err(SpecError::new(format!("inputs[{at}].path"), problem));
            }
        }
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let problem = format!("is {}, at least {MEMORY_BYTES_MIN}", self.memory_bytes);
            return Err(SpecError::new("memory_bytes", problem));
        }
        let (low, high) = SPLIT_BYTES;
        if !(low..=high).contains(&self.split_bytes) {
            let problem = format!("is {}, expected {low} to {high}", self.split_bytes);
            return Err(SpecError::new("split_bytes", problem));
        }
        if self.partitions.is_some_and(|count| !(1..=PARTITIONS_MAX).contains(&count)) {
            let problem = format!("must be 1 to {PARTITIONS_MAX}");
            return Err(SpecError::new("partitions", problem));
        }
        let name = self.name.unwrap_or_else(|| self.kind.clone());
        if name.is_empty() || name.chars().count() > NAME_LEN_MAX {
            let problem = format!("must have 1 to {NAME_LEN_MAX} characters");
            return Err(SpecError::new("name", problem));
        }
        let spec = Spec {
            id,
            name,
            kind: self.kind,
            created_at_ms: now_ms,
            inputs: self.inputs,
            on_error: self.on_error,
            memory_bytes: self.memory_bytes,
            split_bytes: self.split_bytes,
            partitions: self.partitions,
            options: self.options,
        };
        kind.check(&spec)?;
        Ok(spec)
    }
}

/// A job as it was started: `job.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowSpec")]
pub struct Spec {
    /// Its name for programs.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// When it was started, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// The files that it reads, in their order.
    pub inputs: Vec<InputFile>,
    /// What becomes of rows that are wrong.
    pub on_error: OnError,
    /// Memory of one part, in bytes.
    pub memory_bytes: u64,
    /// Bytes of one part of the input.
    pub split_bytes: u64,
    /// Into how many partitions keys are divided, if somebody said so.
    pub partitions: Option<u32>,
    /// What else its kind wants to know.
    pub options: Value,
}

impl Spec {
    /// What its kind wants to know.
    ///
    /// # Errors
    /// Names the field that makes no sense.
    pub fn options<T: for<'de> Deserialize<'de>>(&self) -> Result<T, SpecError> {
        serde_json::from_value(self.options.clone())
            .map_err(|error| SpecError::new("options", format!("cannot be read: {error}")))
    }

    /// Bytes of all input files.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.bytes).sum()
    }
}
