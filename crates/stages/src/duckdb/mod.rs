//! DuckDB reads columns of Parquet files for parts; how it is installed and run is in [`divvy_workload::provider::duckdb`].

mod run;

pub use divvy_workload::provider::duckdb::{CAPABILITY, Duckdb, READY, install, is_installed};
pub(crate) use run::rows;

/// What to do where nobody has it.
pub const CURE: &str =
    "on a machine with a worker: divvy flow provider install duckdb, then start the worker again";
