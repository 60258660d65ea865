//! A test bench: handlers and workflows run on the real engine and scheduler, with a store in memory and a clock that
//! only the test moves. No server, no port, no sleeping.
//!
//! [`Bench::run`] submits a task and runs whatever can run *now*: a retry or a delay waits until the test moves the
//! clock with [`Bench::advance`], or lets it jump from deadline to deadline with [`Bench::drain`].
//!
//! ```
//! use divvy::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Halve(u32);
//! impl Task for Halve {
//!     const KIND: &'static str = "halve";
//!     type Output = u32;
//! }
//!
//! async fn halve(Halve(number): Halve) -> Outcome<u32> {
//!     if number % 2 == 1 { return Err(Failure::dead("odd")); }
//!     Ok(number / 2)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let mut bench = divvy::testing::bench(Worker::new("test").on(halve));
//! assert_eq!(bench.run(Halve(8)).await.output::<u32>(), 4);
//! bench.run(Halve(7)).await.assert_dead("odd");
//! # }
//! ```
//!
//! Attempts run one after another. An attempt's `timeout` is measured on tokio's clock, so a test that wants to see
//! one without waiting uses `#[tokio::test(start_paused = true)]`.

mod bench;
mod drive;
mod ran;

pub use bench::{Bench, BenchRun, bench};
pub use ran::Ran;
