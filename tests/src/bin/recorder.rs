//! A worker for tests: writes down the start and the end of each attempt, in one file that all recorders append to.
//!
//! Usage: `recorder URL NAME FILE`. Serves the kind `record`, whose payload may set `ms`, the time that it takes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use divvy_types::{AttemptOutcome, Payload};
use divvy_worker::{Attempt, Options, Registry, Shutdown, Worker};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, file] = arguments.as_slice() else {
        anyhow::bail!("usage: recorder URL NAME FILE")
    };
    let file =
        OpenOptions::new().append(true).create(true).open(file).with_context(|| file.clone())?;
    let file = Arc::new(file);
    let mut registry = Registry::new();
    registry.on("record", Arc::new(move |attempt: Attempt| record(Arc::clone(&file), attempt)));
    let mut options = Options::new(name.as_str(), url.as_str());
    options.slots.async_ = 8;
    options.prefetch = Some(8);
    Worker::new(options, registry)?.run(Shutdown::on_signals()?).await?;
    Ok(())
}

async fn record(file: Arc<File>, attempt: Attempt) -> AttemptOutcome {
    write(&file, "start", &attempt);
    let payload: serde_json::Value = attempt.task.payload.parse().unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(payload["ms"].as_u64().unwrap_or(0))).await;
    write(&file, "end", &attempt);
    AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() }
}

/// One short write to a file opened for appending is one whole line, whoever else writes.
fn write(file: &File, event: &str, attempt: &Attempt) {
    let line = format!("{event} {} {}\n", attempt.task.id, attempt.token.0);
    let mut file = file;
    file.write_all(line.as_bytes()).expect("the journal can be written");
}
