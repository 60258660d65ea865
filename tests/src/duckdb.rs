//! DuckDB, as the provider that `scripts/providers` has installed for this user.

use std::path::PathBuf;

use anyhow::{Result, ensure};

/// The interpreter of the provider, which has DuckDB.
pub fn python() -> Result<PathBuf> {
    let data = std::env::var_os("XDG_DATA_HOME").filter(|value| !value.is_empty());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".local/share");
    let folder = data.map_or_else(home, PathBuf::from).join("divvy/providers/duckdb");
    ensure!(
        folder.join("installed").exists(),
        "duckdb is missing in {}: run `make test`, or divvy flow provider install duckdb",
        folder.display()
    );
    Ok(folder.join("venv/bin/python"))
}
