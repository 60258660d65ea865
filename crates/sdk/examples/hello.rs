//! Shows the shortest road: a task, its handler, a worker, and a client that waits for the result.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example hello`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::Shutdown;
use divvy::prelude::*;

#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl Task for Greet {
    const KIND: &'static str = "example.greet";
    type Output = String;
}

async fn greet(task: Greet) -> Outcome<String> {
    Ok(format!("hello, {}", task.name))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A worker is mostly a process of its own, which ends by a signal; here it shares ours.
    let shutdown = Shutdown::new();
    let worker = tokio::spawn(Worker::new("hello-worker").on(greet).run_until(shutdown.clone()));

    let client = Client::connect_env().await?;
    let handle = client.submit(Greet { name: "world".into() }).await?;
    println!("{}", handle.wait().await?);

    shutdown.drain();
    worker.await??;
    Ok(())
}
