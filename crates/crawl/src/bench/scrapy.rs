//! Scrapy on the same web, where it is installed: its own defaults for many hosts, 128 requests at once, for eight seconds.
//! Its time to start is left out.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use divvy_workload::console::output::Output;
use serde::Deserialize;

use super::{Cost, Web};

/// The spider. Names of the web are asked of a resolver of its own.
const SPIDER: &str = include_str!("spider.py");
/// How long it runs.
const SECONDS: u32 = 8;

#[derive(Deserialize)]
struct Told {
    pages: u64,
    seconds: f64,
    cpu_s: f64,
}

/// Runs it; nothing if it is not installed.
pub(super) fn run(folder: &Path, web: &Web, output: &Output) -> Result<Option<Cost>> {
    let has_it = Command::new("python3").args(["-c", "import scrapy"]).output();
    if !has_it.is_ok_and(|tried| tried.status.success()) {
        output.note("scrapy is not installed (python3 -m pip install scrapy): left out");
        return Ok(None);
    }
    output.note("scrapy …");
    let script = folder.join("spider.py");
    std::fs::write(&script, SPIDER)?;
    let address = web.network.split('/').next().unwrap_or_default();
    let ran = Command::new("python3")
        .arg(&script)
        .args([&web.start, address, &SECONDS.to_string()])
        .current_dir(folder)
        .output()
        .context("running scrapy")?;
    let text = String::from_utf8_lossy(&ran.stdout);
    let last = text.lines().last().unwrap_or_default();
    let told: Told = serde_json::from_str(last).with_context(|| {
        format!("scrapy said {last:?}: {}", String::from_utf8_lossy(&ran.stderr))
    })?;
    Ok(Some(Cost::new(told.pages, told.seconds, told.cpu_s)))
}
