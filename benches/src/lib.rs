//! What the micro-benchmarks share. `BENCHMARKING.md` says what each number means.

mod tasks;

pub use tasks::tasks;
