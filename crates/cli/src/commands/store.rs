//! `divvy store`: checks, copies and compacts a data folder without a server, or beside it where that is safe.

use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_objects::{Copied, back_up, copy_folder};
use divvy_store::sqlite::{backup, check, compact};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;

use super::Context;
use crate::args::local::{DataFolder, Store};
use crate::exit::{Code, Failure};
use crate::output::words;
use crate::service::{OBJECTS, TOKENS, store_failure};

/// Does what is asked, off the async threads because all of it reads the disk.
pub(super) async fn run(args: Store, context: &Context) -> Result<Code> {
    let folder = |folder: &DataFolder| -> Result<PathBuf> {
        let path = folder.data.clone().unwrap_or_else(|| context.settings.data.value.clone());
        if path.is_dir() {
            return Ok(path);
        }
        let failure = Failure::new(Code::NotFound, format!("no data folder {}", path.display()));
        Err(failure.cure("name it with --data DIR").into())
    };
    match args {
        Store::Check(args) => run_check(folder(&args)?, context).await,
        Store::Backup { target, folder: args } => run_backup(folder(&args)?, target, context).await,
        Store::Compact(args) => run_compact(folder(&args)?, context).await,
    }
}

async fn run_check(folder: PathBuf, context: &Context) -> Result<Code> {
    let output = &context.output;
    let report =
        tokio::task::spawn_blocking(move || check(&folder)).await?.map_err(store_failure)?;
    for file in &report.files {
        if output.is_json() {
            output.object(&json!({
                "file": file.path, "tasks": file.tasks, "open": file.open, "problems": file.problems,
            }))?;
            continue;
        }
        let verdict = if file.problems.is_empty() { "sound" } else { "DAMAGED" };
        let tasks = words::count(file.tasks, "task");
        output.data(format_args!(
            "{verdict}  {}  {tasks}, {} open",
            file.path.display(),
            file.open
        ))?;
        file.problems.iter().try_for_each(|problem| output.data(format_args!("  {problem}")))?;
    }
    if report.is_sound() {
        return Ok(Code::Done);
    }
    output.note("restore a backup; what is sound in the file can still be read with sqlite3");
    Ok(Code::Failed)
}

async fn run_backup(folder: PathBuf, target: PathBuf, context: &Context) -> Result<Code> {
    let output = &context.output;
    let bar = if output.is_live() {
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
    } else {
        ProgressBar::hidden()
    };
    let (shown, shared) = (target.clone(), bar.clone());
    let workloads = context.workloads.iter();
    let kept: Vec<&str> =
        workloads.flat_map(|workload| workload.data_folders().kept).copied().collect();
    let work = move || copy(&folder, &target, &kept, &shared);
    let outcome = tokio::task::spawn_blocking(work).await?;
    bar.finish_and_clear();
    let copied = outcome?;
    if output.is_json() {
        let (files, bytes) = (copied.files, copied.bytes);
        output.object(&json!({ "backup": shown, "object_files": files, "object_bytes": bytes }))?;
    } else {
        output.data(shown.display())?;
        let files = words::count(copied.files, "object");
        output.note(format_args!("tasks and {files}, {}", words::bytes(copied.bytes)));
        output.note("a server can start on the copy: divvy serve --data <that folder>");
    }
    Ok(Code::Done)
}

/// Copies the tasks, then the objects and what workloads keep, so that whatever the copied tasks name is there.
fn copy(folder: &Path, target: &Path, kept: &[&str], bar: &ProgressBar) -> Result<Copied> {
    backup(folder, target, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    })
    .map_err(store_failure)?;
    let mut tell = |copied: Copied| bar.set_position(copied.files);
    bar.unset_length();
    let objects = back_up(&folder.join(OBJECTS), &target.join(OBJECTS), &mut tell);
    let mut copied = objects.map_err(object_failure)?;
    copy_tokens(&folder.join(TOKENS), &target.join(TOKENS))?;
    for name in kept {
        let more = copy_folder(&folder.join(name), &target.join(name), &mut tell);
        let Copied { files, bytes } = more.map_err(object_failure)?;
        copied = Copied { files: copied.files + files, bytes: copied.bytes + bytes };
    }
    Ok(copied)
}

/// Copies the file of tokens with its mode, if there is one. It is replaced whole, so any moment will do.
fn copy_tokens(from: &Path, to: &Path) -> Result<()> {
    match std::fs::copy(from, to).and_then(|_| std::fs::File::open(to)?.sync_all()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !from.exists() => Ok(()),
        Err(error) => {
            let message = format!("cannot copy {}: {error}", from.display());
            Err(Failure::new(Code::Failed, message).into())
        }
        Ok(()) => Ok(()),
    }
}

/// What went wrong with objects, with its exit code.
fn object_failure(error: divvy_objects::Error) -> anyhow::Error {
    let code = match &error {
        divvy_objects::Error::Full { .. } => Code::Refused,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string()).into()
}

async fn run_compact(folder: PathBuf, context: &Context) -> Result<Code> {
    let output = &context.output;
    let report =
        tokio::task::spawn_blocking(move || compact(&folder)).await?.map_err(store_failure)?;
    if output.is_json() {
        output.object(
            &json!({ "bytes_before": report.bytes_before, "bytes_after": report.bytes_after }),
        )?;
    } else {
        let (before, after) = (words::bytes(report.bytes_before), words::bytes(report.bytes_after));
        output.data(format_args!("{before} before, {after} after"))?;
    }
    Ok(Code::Done)
}
