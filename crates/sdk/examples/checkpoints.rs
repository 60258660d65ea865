//! Shows a long task that saves how far it is, so that the next attempt goes on from there, and the terms under which
//! it runs.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example checkpoints`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::Shutdown;
use divvy::prelude::*;
use divvy::types::RetryPolicy;

#[derive(Serialize, Deserialize)]
struct Import {
    pages: u32,
}

/// What an attempt leaves for the next one.
#[derive(Serialize, Deserialize, Default)]
struct Done {
    pages: u32,
    rows: u64,
}

impl Task for Import {
    const KIND: &'static str = "example.import";
    type Output = String;
    fn options() -> TaskOptions {
        let retry = RetryPolicy { base_ms: 10, cap_ms: 100, ..RetryPolicy::default() };
        TaskOptions::new()
            .retry(retry)
            .give_up_on("no such file") // a retry would not find it either
            .deadline(Duration::from_secs(60)) // of equal priority, the one with the least time to spare goes first
            .fair_key("acme") // uses this customer's share of the queue
            .cost_hint(10) // ten pages
    }
}

async fn import(
    task: Import,
    mut checkpoint: Checkpoint<Done>,
    attempt: Attempt,
) -> Outcome<String> {
    let mut done = checkpoint.take().unwrap_or_default();
    let from = done.pages;
    while done.pages < task.pages {
        done.pages += 1;
        done.rows += 100;
        checkpoint.save(&done)?;
        if attempt.number == 1 && done.pages == 7 {
            return Err(Failure::retry("the connection broke"));
        }
    }
    Ok(format!("attempt {} began at page {from}: {} rows in all", attempt.number, done.rows))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let worker = Worker::new("import-worker").on(import).run_until(shutdown.clone());
    let worker = tokio::spawn(worker);
    let client = Client::connect_env().await?;
    println!("{}", client.submit(Import { pages: 10 }).await?.wait().await?);
    shutdown.drain();
    worker.await??;
    Ok(())
}
