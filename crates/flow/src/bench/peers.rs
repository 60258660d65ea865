//! Engines that do the same work, where they are installed as modules of Python; DuckDB also as our own provider.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use divvy_workload::provider;

use super::trial::{Bench, Cost};
use crate::duckdb::READY;

const SCRIPT: &str = include_str!("peers.py");
/// Module, and what people call it.
const ENGINES: [(&str, &str); 2] = [("duckdb", "DuckDB"), ("pyspark", "Spark, local")];

/// What each of them costs for this work on this file.
pub(super) fn run(bench: &Bench<'_>, work: &str, path: &Path) -> Result<Vec<Cost>> {
    let script = bench.folder().join("peers.py");
    std::fs::write(&script, SCRIPT)?;
    let mut costs = Vec::new();
    for (module, by) in ENGINES {
        let Some(python) = python_with(module).filter(|_| !bench.args.alone) else {
            continue;
        };
        let mut command = Command::new(python);
        command.arg(&script).args([module, work]).arg(path).current_dir(bench.folder());
        costs.extend(bench.other(by, &mut command)?);
    }
    Ok(costs)
}

/// An interpreter that has this module: that of the system, or that of the provider.
fn python_with(module: &str) -> Option<PathBuf> {
    let provided = READY.command(&provider::folder(READY.name)).0;
    let has_it = |python: &PathBuf| {
        let mut python = Command::new(python);
        python.args(["-c", &format!("import {module}")]).stdin(Stdio::null());
        python.output().is_ok_and(|tried| tried.status.success())
    };
    [PathBuf::from("python3"), provided].into_iter().find(has_it)
}
