//! Shows a fan-out and a join: text is split, its parts are counted side by side, the counts are added up.
//!
//! Start a server with `divvy up`, then: `cargo run -p divvy --example workflow`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::Shutdown;
use divvy::prelude::*;

#[derive(Serialize, Deserialize)]
struct Fetch;
impl Task for Fetch {
    const KIND: &'static str = "example.fetch";
    type Output = Vec<String>;
}

#[derive(Serialize, Deserialize)]
struct Count {
    line: usize,
}
impl Task for Count {
    const KIND: &'static str = "example.count";
    type Output = usize;
}

#[derive(Serialize, Deserialize)]
struct Add;
impl Task for Add {
    const KIND: &'static str = "example.add";
    type Output = usize;
}

async fn fetch(_: Fetch) -> Outcome<Vec<String>> {
    Ok(["one", "two words", "and three words"].map(str::to_owned).into())
}

// A plain function on the cpu tier, with the result of the one parent that is a `Fetch`.
fn count(task: Count, Upstream(lines): Upstream<Fetch>) -> Outcome<usize> {
    let line = lines.get(task.line).ok_or_else(|| Failure::dead("no such line"))?;
    Ok(line.split_whitespace().count())
}

// All parents that are a `Count`.
async fn add(_: Add, Upstreams(counts): Upstreams<Count>) -> Outcome<usize> {
    Ok(counts.iter().sum())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shutdown = Shutdown::new();
    let worker = Worker::new("workflow-worker").on(fetch).on_cpu(count).on(add);
    let worker = tokio::spawn(worker.run_until(shutdown.clone()));

    let mut workflow = Workflow::new("count words");
    let fetched = workflow.add(Fetch);
    let counts = [0, 1, 2].map(|line| workflow.after(fetched, Count { line }));
    let sum: Node<usize> = workflow.after(counts, Add);

    let run = Client::connect_env().await?.start(workflow).await?;
    println!("{}", run.wait().await?.into_success()?);
    println!("{} words", run.task(sum).wait().await?);

    shutdown.drain();
    worker.await??;
    Ok(())
}
