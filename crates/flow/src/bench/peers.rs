//! Engines that do the same work, where they are installed as modules of Python.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::trial::{Bench, Cost};

const SCRIPT: &str = include_str!("peers.py");
/// Module, and what people call it.
const ENGINES: [(&str, &str); 2] = [("duckdb", "DuckDB"), ("pyspark", "Spark, local")];

/// What each of them costs for this work on this file.
pub(super) fn run(bench: &Bench<'_>, work: &str, path: &Path) -> Result<Vec<Cost>> {
    let script = bench.folder().join("peers.py");
    std::fs::write(&script, SCRIPT)?;
    let mut costs = Vec::new();
    for (module, by) in ENGINES {
        if bench.args.alone || !is_installed(module) {
            continue;
        }
        let mut command = Command::new("python3");
        command.arg(&script).args([module, work]).arg(path).current_dir(bench.folder());
        costs.extend(bench.other(by, &mut command)?);
    }
    Ok(costs)
}

fn is_installed(module: &str) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import {module}")]).stdin(Stdio::null());
    python.output().is_ok_and(|tried| tried.status.success())
}
