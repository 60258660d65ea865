//! Shows the test bench: the real engine in memory, without a server, on a clock that the test moves.
//!
//! Needs nothing: `cargo run -p divvy --features testing --example testing`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use divvy::prelude::*;
use divvy::testing::bench;

#[derive(Serialize, Deserialize)]
struct Remind {
    whom: String,
}

impl Task for Remind {
    const KIND: &'static str = "example.remind";
    type Output = String;
}

async fn remind(task: Remind, attempt: Attempt) -> Outcome<String> {
    match (task.whom.as_str(), attempt.number) {
        ("", _) => Err(Failure::dead("nobody to remind")),
        ("late", 1) => Err(Failure::retry("no answer")),
        (whom, _) => Ok(format!("{whom} knows")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut bench = bench(Worker::new("bench").on(remind));

    // What can run now runs now.
    bench.run(Remind { whom: "ada".into() }).await.assert_done();
    bench.run(Remind { whom: String::new() }).await.assert_dead("nobody");

    // A retry waits for its time, which comes when the test says so.
    let late = bench.run(Remind { whom: "late".into() }).await;
    late.assert_retried();
    bench.advance(Duration::from_secs(10)).await;
    println!("{}", bench.task(late.id()).output::<String>());

    // So does a task for next week.
    let week = Duration::from_secs(7 * 86_400);
    bench
        .run_with(Remind { whom: "bob".into() }, |options| options.delay(week))
        .await
        .assert_waiting("");
    let before = bench.now();
    let all = bench.drain().await;
    println!(
        "{} tasks, {} days later",
        all.len(),
        bench.now().since(before).as_secs().div_ceil(86_400)
    );
}
