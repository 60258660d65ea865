//! Pages as Parquet, made of their JSON lines by DuckDB: the provider that dataflow installs, run in its sandbox. This binary
//! holds no writer of Parquet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::provider::duckdb::{CPU_PER_MB, CPU_START, Duckdb};
use serde_json::json;

const CURE: &str = "divvy flow provider install duckdb";
/// Each column: its name, its type in the lines, and what is written of it. Where the lines leave out what is false, the
/// column says so.
const COLUMNS: [[&str; 3]; 20] = [
    ["url", "VARCHAR", "url"],
    ["final_url", "VARCHAR", "final_url"],
    ["status", "SMALLINT", "status"],
    ["error", "VARCHAR", "error"],
    ["fetched_at", "TIMESTAMPTZ", "fetched_at"],
    ["redirect", "VARCHAR", "redirect"],
    ["content_type", "VARCHAR", "content_type"],
    ["bytes", "BIGINT", "bytes"],
    ["truncated", "BOOLEAN", "coalesce(truncated, false)"],
    ["rendered", "BOOLEAN", "coalesce(rendered, false)"],
    ["title", "VARCHAR", "title"],
    ["description", "VARCHAR", "description"],
    ["canonical", "VARCHAR", "canonical"],
    ["lang", "VARCHAR", "lang"],
    ["robots", "STRUCT(noindex BOOLEAN, nofollow BOOLEAN)", "robots"],
    ["links", "STRUCT(url VARCHAR, rel VARCHAR)[]", "links"],
    ["digest", "VARCHAR", "digest"],
    ["simhash", "VARCHAR", "simhash"],
    ["depth", "INTEGER", "depth"],
    ["extracted", "MAP(VARCHAR, VARCHAR[])", "extracted"],
];
/// What DuckDB may hold of them, and on how many threads.
const MEMORY_BYTES: u64 = 1 << 30;
const THREADS: u32 = 2;
const LOOK: Duration = Duration::from_secs(1);

/// DuckDB, tried out.
pub(super) async fn find() -> Result<Duckdb> {
    let found = tokio::task::spawn_blocking(Duckdb::find).await?;
    match found.map_err(|problem| Failure::new(Code::Failed, problem))? {
        Some(duckdb) => Ok(duckdb),
        None => {
            let text = "Parquet is written by DuckDB, which is not installed here";
            Err(Failure::new(Code::Failed, text).cure(CURE).into())
        }
    }
}

/// Makes Parquet of the lines in a folder, in that folder.
pub(super) async fn write(
    duckdb: Duckdb,
    folder: PathBuf,
    lines: &str,
    bytes: u64,
) -> Result<PathBuf> {
    let source = folder.canonicalize()?.join(lines);
    let request = json!({
        "task": "write", "path": source, "columns": COLUMNS,
        "memory_bytes": MEMORY_BYTES, "threads": THREADS,
    });
    let mb = u32::try_from(bytes / 1_000_000).unwrap_or(u32::MAX);
    let cpu = CPU_START.saturating_add(CPU_PER_MB.saturating_mul(mb));
    tokio::task::spawn_blocking(move || run(&duckdb, &format!("{request}\n"), &folder, source, cpu))
        .await?
        .map_err(|problem| {
            Failure::new(Code::Failed, format!("DuckDB wrote no Parquet: {problem}")).into()
        })
}

fn run(
    duckdb: &Duckdb,
    request: &str,
    folder: &Path,
    source: PathBuf,
    cpu: Duration,
) -> Result<PathBuf, String> {
    let run = duckdb.run(request.as_bytes(), folder, [source], cpu)?;
    // It says how many rows it wrote, which nobody asks for.
    while run.next(LOOK).is_some() {}
    run.end().map_err(|ended| ended.words)?;
    Ok(folder.join("output.parquet"))
}
