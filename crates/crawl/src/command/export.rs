//! `divvy crawl export`: what a crawl has found so far, as files. Lines of all shards come together; archives keep the names
//! that their indexes know, in a folder per shard.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use divvy::api::{Api, parse_rows};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::words::bytes;
use divvy_workload::provider::duckdb::Duckdb;
use serde_json::json;
use tokio::fs::{self, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use super::args::ExportFormat;
use super::parquet;
use crate::web::OutputFile;

/// The lines of pages, in each shard.
const LINES: &str = "pages.jsonl";

/// What was written.
#[derive(Default)]
struct Written {
    paths: Vec<PathBuf>,
    bytes: u64,
}

/// Writes what a crawl has found, in these formats or in all in which it was kept.
pub(super) async fn run(
    api: &Api,
    id: &str,
    to: &Path,
    formats: &[ExportFormat],
    context: &Context,
) -> Result<Code> {
    let output = &context.output;
    let wants_parquet = formats.contains(&ExportFormat::Parquet);
    if to == Path::new("-") && formats.iter().any(|format| *format != ExportFormat::Jsonl) {
        let text = "to the output go only JSON lines; name a folder for other formats";
        return Err(Failure::usage(text).into());
    }
    // Found before anything is fetched, for else all of that might be in vain.
    let duckdb = if wants_parquet { Some(parquet::find().await?) } else { None };
    let page = api.get(&["crawls", id, "output"], &[]).await?.rows()?;
    let mut files: Vec<OutputFile> = parse_rows(&page.items)?;
    if to == Path::new("-") {
        files.retain(|file| file.name == LINES);
        for file in &files {
            let mut answer = open(api, id, file).await?;
            while let Some(chunk) = answer.chunk().await? {
                output.foreign(&chunk)?;
            }
        }
        std::io::stdout().flush()?;
        return Ok(Code::Done);
    }
    fs::create_dir_all(to).await.with_context(|| format!("cannot make {}", to.display()))?;
    let mut written = Written::default();
    if let Some(duckdb) = duckdb {
        let lines: Vec<&OutputFile> = files.iter().filter(|file| file.name == LINES).collect();
        make_parquet((api, id), &lines, to, duckdb, &mut written).await?;
    }
    let is_wanted =
        |file: &OutputFile| formats.is_empty() || formats.contains(&kept_as(&file.name));
    files.retain(is_wanted);
    for file in &files {
        let is_lines = file.name.ends_with(".jsonl") || file.name.ends_with(".tsv");
        let path = if is_lines {
            to.join(&file.name)
        } else {
            let folder = to.join(format!("shard-{}", file.shard));
            fs::create_dir_all(&folder).await?;
            folder.join(&file.name)
        };
        fetch(api, id, file, path, &mut written).await?;
    }
    let Written { mut paths, bytes: total } = written;
    paths.sort();
    paths.dedup();
    if output.is_json() {
        output.object(&json!({ "id": id, "folder": to, "files": paths.len(), "bytes": total }))?;
    } else if !output.is_quiet() {
        let (count, total) = (paths.len(), bytes(total));
        output.data(format_args!("{count} files, {total}, in {}", to.display()))?;
    }
    Ok(Code::Done)
}

/// Makes Parquet of all lines. They are joined in the folder itself, which has room for them on the same disk.
async fn make_parquet(
    (api, id): (&Api, &str),
    lines: &[&OutputFile],
    to: &Path,
    duckdb: Duckdb,
    written: &mut Written,
) -> Result<()> {
    if lines.is_empty() {
        let text = "the crawl kept no JSON lines, of which Parquet is made";
        let failure = Failure::new(Code::Failed, text);
        return Err(failure.cure("divvy crawl start --format jsonl keeps them").into());
    }
    let work = tempfile::Builder::new().prefix(".pages-").tempdir_in(to)?;
    let mut joined = Written::default();
    for file in lines {
        fetch(api, id, file, work.path().join(LINES), &mut joined).await?;
    }
    let path = parquet::write(duckdb, work.path().to_owned(), LINES, joined.bytes).await?;
    let made = to.join("pages.parquet");
    fs::rename(&path, &made).await?;
    written.bytes += fs::metadata(&made).await?.len();
    written.paths.push(made);
    Ok(())
}

/// As what a file of a shard was kept.
fn kept_as(name: &str) -> ExportFormat {
    match name.rsplit('.').next() {
        Some("jsonl") => ExportFormat::Jsonl,
        Some("tsv") => ExportFormat::Graph,
        _ => ExportFormat::Warc,
    }
}

/// Writes a file of a shard. The first shard begins a file anew, the others go on.
async fn fetch(
    api: &Api,
    id: &str,
    file: &OutputFile,
    path: PathBuf,
    written: &mut Written,
) -> Result<()> {
    let is_first = !written.paths.contains(&path);
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(is_first).append(!is_first);
    let into = options.open(&path).await;
    let mut into = into.with_context(|| format!("cannot write {}", path.display()))?;
    written.paths.push(path);
    let mut answer = open(api, id, file).await?;
    while let Some(chunk) = answer.chunk().await? {
        into.write_all(&chunk).await?;
        written.bytes += chunk.len() as u64;
    }
    into.flush().await?;
    Ok(())
}

async fn open(
    api: &Api,
    id: &str,
    file: &OutputFile,
) -> Result<divvy::api::reqwest::Response, divvy::Error> {
    let path = ["crawls", id, "output", &file.shard.to_string(), &file.name];
    api.stream(&path, &[]).await
}
