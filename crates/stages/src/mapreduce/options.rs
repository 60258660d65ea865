//! What a MapReduce job is told besides its files: a program by name, or commands.

use std::sync::Arc;

use divvy_kernels::aggregate::divide::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::program::{self, Combining, Program};
use crate::job::{Spec, SpecError};

/// Characters of a command.
const COMMAND_LEN_MAX: usize = 10_000;
/// A partition is divided over several reducers when it has this much more than its fair share, and so many bytes.
const SKEW: f64 = 2.0;
const SKEW_BYTES_MIN: u64 = 4 << 20;
/// Bytes of input for which one partition is made, unless the job says how many.
const PARTITION_BYTES: u64 = 128 << 20;
/// Partitions that even a small job of several parts has, so that more than one reducer works.
const PARTITIONS_USUAL: u32 = 4;
const PARTITIONS_USUAL_MAX: u32 = 512;

/// What is to be run, and how keys that are much of all data are treated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MapReduceOptions")]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// A program by its name: `wordcount`, `grep`, `invert`, or one that the workers bring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What the program is told.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub settings: Value,
    /// A command that maps lines to lines of key and value, parted by a tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
    /// A command that makes less of sorted pairs before they travel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combine: Option<String>,
    /// A command that reduces sorted pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce: Option<String>,
    /// Whether the reduce command may be applied to what it has written itself, so that a key can be divided over several
    /// reducers.
    pub mergeable: bool,
    /// How many times its fair share a partition must have to be divided over several reducers; 0 never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew: Option<f64>,
    /// Bytes that it must have besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew_bytes: Option<u64>,
}

/// What runs.
pub(super) enum Work {
    Program(Arc<dyn Program>),
    Commands { map: String, combine: Option<String>, reduce: Option<String>, mergeable: bool },
}

impl Work {
    pub(super) fn combining(&self) -> Combining {
        match self {
            Self::Program(program) => program.combining(),
            Self::Commands { reduce: None, .. } => Combining::MapOnly,
            Self::Commands { mergeable: true, .. } => Combining::Merge,
            Self::Commands { .. } => Combining::All,
        }
    }

    pub(super) fn is_commands(&self) -> bool {
        matches!(self, Self::Commands { .. })
    }
}

impl Options {
    /// What is to be run.
    ///
    /// # Errors
    /// Names the field that makes no sense.
    pub(super) fn work(&self) -> Result<Work, SpecError> {
        let Some(name) = &self.program else { return self.commands() };
        let mixed = [("map", &self.map), ("combine", &self.combine), ("reduce", &self.reduce)];
        if let Some((field, _)) = mixed.iter().find(|(_, command)| command.is_some()) {
            let problem =
                format!("cannot be given together with the program `{name}`; leave one out");
            return Err(SpecError::new(*field, problem));
        }
        program::find(name).map(Work::Program).ok_or_else(|| {
            let problem = format!(
                "`{name}` is not known; use one of {}, or commands: --map CMD --reduce CMD",
                program::names().join(", ")
            );
            SpecError::new("program", problem)
        })
    }

    fn commands(&self) -> Result<Work, SpecError> {
        let Some(map) = self.map.clone() else {
            let problem =
                "is missing; name a program such as wordcount, or give --map CMD --reduce CMD";
            return Err(SpecError::new("program", problem));
        };
        let all = [
            ("map", Some(&map)),
            ("combine", self.combine.as_ref()),
            ("reduce", self.reduce.as_ref()),
        ];
        for (field, command) in all {
            let Some(command) = command else { continue };
            if command.trim().is_empty() || command.len() > COMMAND_LEN_MAX {
                let problem = format!("must have 1 to {COMMAND_LEN_MAX} characters");
                return Err(SpecError::new(field, problem));
            }
        }
        if self.reduce.is_none() && (self.combine.is_some() || self.mergeable) {
            return Err(SpecError::new("combine", "needs a reduce command; add --reduce CMD"));
        }
        let (combine, reduce) = (self.combine.clone(), self.reduce.clone());
        Ok(Work::Commands { map, combine, reduce, mergeable: self.mergeable })
    }

    /// When a partition is divided; never if there is no rule.
    pub(super) fn skew(&self) -> Option<Rule> {
        let skew = self.skew.unwrap_or(SKEW);
        let bytes = self.skew_bytes.unwrap_or(SKEW_BYTES_MIN);
        (skew > 0.0).then_some(Rule { times: skew.max(1.0), bytes })
    }
}

/// Into how many partitions keys are divided.
pub(crate) fn partitions(spec: &Spec, parts: usize) -> u32 {
    spec.partitions.unwrap_or_else(|| {
        let least = PARTITIONS_USUAL.min(u32::try_from(parts).unwrap_or(u32::MAX)).max(1);
        let by_size = u32::try_from(spec.input_bytes() / PARTITION_BYTES).unwrap_or(u32::MAX);
        by_size.clamp(least, PARTITIONS_USUAL_MAX)
    })
}
