//! `divvy crawl export`: what a crawl has found so far, as files. Lines of all shards come together; archives keep the names
//! that their indexes know, in a folder per shard.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use divvy::api::{Api, parse_rows};
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use divvy_workload::console::output::words::bytes;
use serde_json::json;
use tokio::fs::{self, OpenOptions};
use tokio::io::AsyncWriteExt as _;

use crate::web::OutputFile;

/// Writes what a crawl has found.
pub(super) async fn run(api: &Api, id: &str, to: &Path, context: &Context) -> Result<Code> {
    let output = &context.output;
    let page = api.get(&["crawls", id, "output"], &[]).await?.rows()?;
    let files: Vec<OutputFile> = parse_rows(&page.items)?;
    if to == Path::new("-") {
        for file in files.iter().filter(|file| file.name.ends_with(".jsonl")) {
            let mut answer = open(api, id, file).await?;
            while let Some(chunk) = answer.chunk().await? {
                output.foreign(&chunk)?;
            }
        }
        std::io::stdout().flush()?;
        return Ok(Code::Done);
    }
    fs::create_dir_all(to).await.with_context(|| format!("cannot make {}", to.display()))?;
    let (mut total, mut begun) = (0, Vec::new());
    for file in &files {
        let is_lines = file.name.ends_with(".jsonl") || file.name.ends_with(".tsv");
        let path = if is_lines {
            to.join(&file.name)
        } else {
            let folder = to.join(format!("shard-{}", file.shard));
            fs::create_dir_all(&folder).await?;
            folder.join(&file.name)
        };
        // The first shard begins the file anew, the others go on.
        let is_first = !begun.contains(&path);
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(is_first).append(!is_first);
        let mut into = options
            .open(&path)
            .await
            .with_context(|| format!("cannot write {}", path.display()))?;
        begun.push(path);
        let mut answer = open(api, id, file).await?;
        while let Some(chunk) = answer.chunk().await? {
            into.write_all(&chunk).await?;
            total += chunk.len() as u64;
        }
        into.flush().await?;
    }
    begun.dedup();
    if output.is_json() {
        output.object(&json!({ "id": id, "folder": to, "files": begun.len(), "bytes": total }))?;
    } else if !output.is_quiet() {
        output.data(format_args!(
            "{} files, {}, in {}",
            begun.len(),
            bytes(total),
            to.display()
        ))?;
    }
    Ok(Code::Done)
}

async fn open(
    api: &Api,
    id: &str,
    file: &OutputFile,
) -> Result<divvy::api::reqwest::Response, divvy::Error> {
    let path = ["crawls", id, "output", &file.shard.to_string(), &file.name];
    api.stream(&path, &[]).await
}
