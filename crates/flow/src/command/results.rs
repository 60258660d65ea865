//! Fetches what a job made: the files of its result, and the timeline of its parts.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use divvy::api::Api;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::Output;
use divvy_workload::console::output::words::{bytes, count};
use tokio::fs;
use tokio::io::AsyncWriteExt as _;
use xxhash_rust::xxh3::Xxh3;

use crate::jobs::state::Manifest;

/// Writes the files of the result and the manifest into a folder, and checks them on the way.
pub(super) async fn fetch(api: &Api, id: &str, folder: &Path, output: &Output) -> Result<()> {
    let reply = api.get(&["flows", id, "output"], &[]).await?;
    let text = reply.text().to_owned();
    let manifest: Manifest = reply.parse()?;
    fs::create_dir_all(folder)
        .await
        .with_context(|| format!("cannot make {}", folder.display()))?;
    for file in &manifest.files {
        let path = folder.join(&file.name);
        let context = || format!("cannot write {}", path.display());
        let mut into = fs::File::create(&path).await.with_context(context)?;
        let mut answer = api.stream(&["flows", id, "output", &file.name], &[]).await?;
        let mut hash = Xxh3::new();
        while let Some(chunk) = answer.chunk().await? {
            hash.update(&chunk);
            into.write_all(&chunk).await.with_context(context)?;
        }
        into.flush().await.with_context(context)?;
        // Of a stream that goes on the server has no hash: it reads what was written, and does not look at it.
        if !file.xxh3.is_empty() && format!("{:016x}", hash.digest()) != file.xxh3 {
            let text = format!("{} did not arrive whole", path.display());
            return Err(Failure::new(Code::Failed, text).cure("fetch it again").into());
        }
    }
    let path = folder.join("manifest.json");
    fs::write(&path, text).await.with_context(|| format!("cannot write {}", path.display()))?;
    output.note(format_args!(
        "{}, {} in {}, in {}",
        count(manifest.rows, "row"),
        bytes(manifest.bytes),
        count(manifest.files.len() as u64, "file"),
        folder.display()
    ));
    Ok(())
}

/// Writes the parts of the result to standard output, one after the other. Files beside them, such as late events, are only
/// fetched.
pub(super) async fn print(api: &Api, id: &str) -> Result<()> {
    let manifest: Manifest = api.get(&["flows", id, "output"], &[]).await?.parse()?;
    for file in manifest.files.iter().filter(|file| file.name.starts_with("part-")) {
        let mut answer = api.stream(&["flows", id, "output", &file.name], &[]).await?;
        while let Some(chunk) = answer.chunk().await? {
            match io::stdout().write_all(&chunk) {
                // Who reads has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.context("cannot write the result")?,
            }
        }
    }
    io::stdout().flush().context("cannot write the result")
}

/// Writes the timeline of the parts to a file.
pub(super) async fn timeline(api: &Api, id: &str, file: &Path, output: &Output) -> Result<()> {
    let answer = api.stream(&["flows", id, "timeline"], &[]).await?;
    let picture = answer.bytes().await?;
    fs::write(file, picture).await.with_context(|| format!("cannot write {}", file.display()))?;
    output.note(format_args!("the timeline is in {}", file.display()));
    Ok(())
}
