//! Plan files: YAML, with a trace beside it if it names one. What is wrong is told with its place and the cure.

use std::path::Path;

use anyhow::Result;
use divvy_lab::plan::{Plan, Wrong, trace};

use crate::exit::Failure;
use crate::yaml;

/// A larger plan is not one.
const FILE_BYTES_MAX: u64 = 1_000_000;
/// A larger trace has more lines than are read.
const TRACE_BYTES_MAX: u64 = 50_000_000;

/// A plan that was read, and its text for the places of errors.
pub(crate) struct PlanFile {
    pub(crate) plan: Plan,
    name: String,
    yaml: String,
}

impl PlanFile {
    /// Reads a plan, and its trace.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (name, yaml) = (path.display().to_string(), yaml::read_text(path, FILE_BYTES_MAX)?);
        let read = serde_saphyr::from_str(&yaml);
        let plan: Plan = read.map_err(|error| yaml::failure(&name, &yaml, &error, &[]))?;
        let mut file = Self { plan, name, yaml };
        if let Some(beside) = file.plan.arrivals.trace.clone() {
            let folder = path.parent().unwrap_or_else(|| Path::new(""));
            let trace = folder.join(beside);
            let text = yaml::read_text(&trace, TRACE_BYTES_MAX)?;
            let counts = trace::read(&trace.display().to_string(), &text);
            file.plan.arrivals.counts = counts.map_err(Failure::usage)?;
        }
        Ok(file)
    }

    /// A field that makes no sense, with its place in the file.
    pub(crate) fn failure(&self, wrong: &Wrong) -> Failure {
        let place = yaml::place(&self.name, &self.yaml, &wrong.path);
        let message = format!("{place}: {}: {}", wrong.path, wrong.problem);
        Failure::usage(message).cure(wrong.cure.clone())
    }
}
