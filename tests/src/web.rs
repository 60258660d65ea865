//! The demo web as a process, and workers that crawl it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::api::Api;
use crate::process::{Process, divvy};

/// The demo web, and what it says of itself.
pub struct Web {
    _process: Process,
    told: Value,
}

impl Web {
    /// Starts a web on any port; `more` are flags of `divvy crawl demo`.
    pub fn start(more: &[&str]) -> Result<Self> {
        let mut command = divvy()?;
        command.args(["--json", "crawl", "demo", "--port", "0"]).args(more);
        let mut process = Process::start(command.stdout(Stdio::piped()))?;
        let stdout = process.output().context("no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let told = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
        Ok(Self { _process: process, told })
    }

    /// Its `url`, and what a crawl needs to reach it: `resolve` and `allow_private`.
    pub fn text(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap_or_default()
    }
}

/// A worker that crawls for a server with this data folder.
pub fn worker(api: &Api, data: &Path, name: &str) -> Result<Process> {
    let mut command = divvy()?;
    command.args(["work", "--server", api.url(), "--name", name, "--no-video", "--allow-private"]);
    command.arg("--crawls").arg(data.join("crawls")).args(["--slots", "async=3"]);
    Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}
