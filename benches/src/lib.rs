//! What the micro-benchmarks share. `BENCHMARKING.md` says what each number means.

pub mod pools;
mod tasks;

pub use tasks::tasks;
