//! Shows what a handler can say when it did not work: retry, retry after, snooze, dead.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example failures`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::prelude::*;
use divvy::types::RetryPolicy;
use divvy::{Shutdown, WaitError};

#[derive(Serialize, Deserialize)]
struct Parse {
    text: String,
}

impl Task for Parse {
    const KIND: &'static str = "example.parse";
    type Output = i64;
    fn options() -> TaskOptions {
        let retry = RetryPolicy {
            limit: 2,
            base_ms: 10,
            cap_ms: 100,
            jitter_percent: 20,
            ..RetryPolicy::default()
        };
        TaskOptions::new().retry(retry).timeout(Duration::from_secs(5))
    }
}

async fn parse(task: Parse, attempt: Attempt, log: Log) -> Outcome<i64> {
    log.line(format!("attempt {}", attempt.number));
    match (task.text.as_str(), attempt.number) {
        // No retry can help: straight to the dead letters.
        ("", _) => Err(Failure::dead("there is nothing to parse")),
        // The other side says when to come back; counts as an attempt.
        ("busy", 1) => {
            Err(Failure::retry_after(Duration::from_millis(20)).because("the parser is busy"))
        }
        ("busy", _) => Ok(1),
        // Any error: a retry by the task's policy.
        (text, _) => Ok(text.parse()?),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(Worker::new("failures-worker").on(parse).run_until(shutdown.clone()));
    let client = Client::connect_env().await?;
    for text in ["42", "", "busy", "x"] {
        let handle = client.submit(Parse { text: text.into() }).await?;
        match handle.wait().await {
            Ok(number) => println!(
                "{text:?} is {number} after {} attempts",
                handle.detail().await?.summary.attempts
            ),
            Err(WaitError::Dead { error, .. }) => println!("{text:?} is dead: {error}"),
            Err(other) => return Err(other.into()),
        }
    }
    shutdown.drain();
    worker.await??;
    Ok(())
}
