//! Shows a fan-out that is known only at run time: a task spawns children, and a later task gets all their results.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example children`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::Shutdown;
use divvy::prelude::*;

#[derive(Serialize, Deserialize)]
struct Split {
    parts: u32,
}
impl Task for Split {
    const KIND: &'static str = "example.split";
    type Output = ();
}

#[derive(Serialize, Deserialize)]
struct Square(u32);
impl Task for Square {
    const KIND: &'static str = "example.square";
    type Output = u32;
}

#[derive(Serialize, Deserialize)]
struct Sum;
impl Task for Sum {
    const KIND: &'static str = "example.sum";
    type Output = u32;
}

// The children come into being in the same commit as this task's finish: all of them, or none and the task runs again.
async fn split(task: Split, spawner: Spawner) -> Outcome<()> {
    for number in 1..=task.parts {
        spawner.spawn(Square(number));
    }
    Ok(())
}

fn square(Square(number): Square) -> Outcome<u32> {
    Ok(number * number)
}

// Waits for `Split` and hence for its children, whose results are here too.
async fn sum(_: Sum, Upstreams(squares): Upstreams<Square>) -> Outcome<u32> {
    Ok(squares.iter().sum())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let worker = Worker::new("children-worker").on(split).on_cpu(square).on(sum);
    let worker = tokio::spawn(worker.run_until(shutdown.clone()));

    let mut workflow = Workflow::new("sum of squares");
    let split = workflow.add(Split { parts: 10 });
    let sum = workflow.after(split, Sum);
    let run = Client::connect_env().await?.start(workflow).await?;
    println!("{}", run.wait().await?.into_success()?);
    println!("the sum is {}", run.task(sum).wait().await?);

    shutdown.drain();
    worker.await??;
    Ok(())
}
