//! Shows a long task that says how far it is and stops when it is asked to.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example progress`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::prelude::*;
use divvy::{Shutdown, WaitError};
use tokio::sync::mpsc;

#[derive(Serialize, Deserialize)]
struct Encode {
    frames: u64,
}

impl Task for Encode {
    const KIND: &'static str = "example.encode";
    type Output = u64;
}

// The state is a channel to `main` here; mostly it is a pool of connections or the like.
async fn encode(
    task: Encode,
    State(half): State<mpsc::Sender<()>>,
    progress: Progress,
    cancel: Cancel,
) -> Outcome<u64> {
    for frame in 0..task.frames {
        progress.set(frame, task.frames);
        if frame == task.frames / 2 {
            progress.message("half of it");
            half.send(()).await?;
            // Work that can be dropped at any moment is guarded; code that computes calls `cancel.check()?`.
            cancel.guard(std::future::pending::<()>()).await?;
        }
    }
    Ok(task.frames)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (half, mut reached) = mpsc::channel::<()>(1);
    let shutdown = Shutdown::new();
    let worker = Worker::new("progress-worker").state(half).on(encode).run_until(shutdown.clone());
    let worker = tokio::spawn(worker);

    let client = Client::connect_env().await?;
    let handle = client.submit(Encode { frames: 100 }).await?;
    reached.recv().await;
    println!("the task is {}", handle.detail().await?.summary.state);

    client.cancel(handle.id(), Some("nobody watches it")).await?;
    match handle.wait().await {
        Err(WaitError::Cancelled { reason, .. }) => println!("cancelled: {reason}"),
        other => println!("it ended otherwise: {other:?}"),
    }
    shutdown.drain();
    worker.await??;
    Ok(())
}
