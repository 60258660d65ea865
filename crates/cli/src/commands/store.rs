//! `divvy store`: checks, copies and compacts a data folder without a server, or beside it where that is safe.
//!
//! A copy, be it a backup or a restored folder, is made under another name, `TARGET.partial`, and gets its own when it is
//! whole. One that was broken off is taken up again: the objects that it has are not copied again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use divvy_objects::{Checked, Copied, back_up, copy_blobs, copy_folder};
use divvy_store::sqlite::{CheckReport, backup, check, compact};
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
        Store::Check { deep, folder: args } => run_check(folder(&args)?, deep, context).await,
        Store::Backup { target, since, folder: args } => {
            let copy = Copy { source: folder(&args)?, target, since };
            let shown = copy.target.display().to_string();
            let copied = copy.run(context).await?;
            tell_backup(&shown, copied, context)
        }
        Store::Restore { backup, folder: args } => {
            let data = args.data.unwrap_or_else(|| context.settings.data.value.clone());
            let source = folder(&DataFolder { data: Some(backup) })?;
            run_restore(Copy { source, target: data, since: None }, context).await
        }
        Store::Compact(args) => run_compact(folder(&args)?, context).await,
    }
}

async fn run_check(folder: PathBuf, deep: bool, context: &Context) -> Result<Code> {
    let output = &context.output;
    let bar = bar(context);
    let shared = bar.clone();
    let work = move || look_over(&folder, deep, &shared);
    let found = tokio::task::spawn_blocking(work).await?;
    bar.finish_and_clear();
    let (report, objects) = found?;
    for file in &report.files {
        if output.is_json() {
            output.object(&json!({
                "file": file.path, "tasks": file.tasks, "open": file.open, "problems": file.problems,
            }))?;
            continue;
        }
        let verdict = verdict(&file.problems);
        let tasks = words::count(file.tasks, "task");
        output.data(format_args!(
            "{verdict}  {}  {tasks}, {} open",
            file.path.display(),
            file.open
        ))?;
        file.problems.iter().try_for_each(|problem| output.data(format_args!("  {problem}")))?;
    }
    tell_objects(&objects, deep, context)?;
    if report.is_sound() && objects.problems.is_empty() {
        return Ok(Code::Done);
    }
    output.note("restore a backup; what is sound in the file can still be read with sqlite3");
    Ok(Code::Failed)
}

fn look_over(folder: &Path, deep: bool, bar: &ProgressBar) -> Result<(CheckReport, Checked)> {
    let report = check(folder).map_err(store_failure)?;
    let objects = divvy_objects::check(&folder.join(OBJECTS), deep, &mut |blobs| {
        bar.set_position(blobs);
    });
    Ok((report, objects.map_err(object_failure)?.unwrap_or_default()))
}

fn tell_objects(objects: &Checked, deep: bool, context: &Context) -> Result<()> {
    let (output, Checked { blobs, records, problems, .. }) = (&context.output, objects);
    if output.is_json() {
        return output.object(&json!({
            "objects": blobs, "object_bytes": objects.blob_bytes, "records": records, "deep": deep,
            "problems": problems, "problem_count": objects.problem_count,
        }));
    }
    let verdict = verdict(problems);
    let (blobs, records) = (words::count(*blobs, "object"), words::count(*records, "record"));
    let read = if deep { "" } else { ", objects not read (--deep reads them)" };
    output.data(format_args!("{verdict}  {OBJECTS}  {blobs}, {records}{read}"))?;
    problems.iter().try_for_each(|problem| output.data(format_args!("  {problem}")))?;
    Ok(())
}

fn verdict(problems: &[String]) -> &'static str {
    if problems.is_empty() { "sound" } else { "DAMAGED" }
}

fn tell_backup(shown: &str, copied: Copied, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        let (files, bytes) = (copied.files, copied.bytes);
        output.object(&json!({ "backup": shown, "object_files": files, "object_bytes": bytes }))?;
    } else {
        output.data(shown)?;
        let files = words::count(copied.files, "object");
        output.note(format_args!("tasks and {files}, {}", words::bytes(copied.bytes)));
        output.note(format_args!("bring it back with: divvy store restore {shown} --data DIR"));
    }
    Ok(Code::Done)
}

async fn run_restore(copy: Copy, context: &Context) -> Result<Code> {
    let (output, data) = (&context.output, copy.target.display().to_string());
    let copied = copy.run(context).await?;
    if output.is_json() {
        let (files, bytes) = (copied.files, copied.bytes);
        output.object(&json!({ "data": data, "object_files": files, "object_bytes": bytes }))?;
    } else {
        output.data(&data)?;
        output.note(format_args!("start the server on it: divvy serve --data {data}"));
    }
    Ok(Code::Done)
}

/// A copy of a data folder.
struct Copy {
    source: PathBuf,
    target: PathBuf,
    since: Option<PathBuf>,
}

impl Copy {
    async fn run(self, context: &Context) -> Result<Copied> {
        let bar = bar(context);
        let shared = bar.clone();
        let workloads = context.workloads.iter();
        let kept: Vec<&str> =
            workloads.flat_map(|workload| workload.data_folders().kept).copied().collect();
        let work = move || self.make(&kept, &shared);
        let outcome = tokio::task::spawn_blocking(work).await?;
        bar.finish_and_clear();
        outcome
    }

    fn make(&self, kept: &[&str], bar: &ProgressBar) -> Result<Copied> {
        let Self { target, since, .. } = self;
        if std::fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
            let failure = Failure::refused(format!("{} is not empty", target.display()));
            return Err(failure.cure("give a new folder, or move that one away").into());
        }
        if let Some(since) = since.as_deref().filter(|since| !since.join(OBJECTS).is_dir()) {
            let failure = Failure::usage(format!("{} is not a backup", since.display()));
            return Err(failure.cure("give --since the folder of an earlier backup").into());
        }
        let mut name = target.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        clear(&partial)?;
        let copied = self.fill(&partial, kept, bar)?;
        if !check(&partial).map_err(store_failure)?.is_sound() {
            let problem = format!("what was copied from {} is damaged", self.source.display());
            return Err(Failure::new(Code::Failed, problem)
                .cure("divvy store check says where")
                .into());
        }
        std::fs::rename(&partial, target).with_context(|| {
            format!("cannot rename {} to {}", partial.display(), target.display())
        })?;
        Ok(copied)
    }

    /// Copies the objects, then the tasks, then the objects that are new and what workloads keep. So whatever the copied
    /// tasks and records name is there, even if it is removed while this runs.
    fn fill(&self, target: &Path, kept: &[&str], bar: &ProgressBar) -> Result<Copied> {
        let mut tell = |copied: Copied| bar.set_position(copied.files);
        let (from, to) = (self.source.join(OBJECTS), target.join(OBJECTS));
        let earlier = self.since.as_ref().map(|since| since.join(OBJECTS));
        let blobs = copy_blobs(&from, &to, earlier.as_deref(), &mut tell);
        let mut copied = blobs.map_err(object_failure)?;
        backup(&self.source, target, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
        .map_err(store_failure)?;
        bar.unset_length();
        let objects = back_up(&from, &to, earlier.as_deref(), &mut tell);
        copied = copied.and(objects.map_err(object_failure)?);
        copy_tokens(&self.source.join(TOKENS), &target.join(TOKENS))?;
        for name in kept {
            let more = copy_folder(&self.source.join(name), &target.join(name), &mut tell);
            copied = copied.and(more.map_err(object_failure)?);
        }
        Ok(copied)
    }
}

/// Removes what an earlier try left, but for the blobs, which never change.
fn clear(partial: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(partial) else { return Ok(()) };
    let cannot = || format!("cannot clear {}, which an earlier try left", partial.display());
    for entry in entries {
        let path = entry.with_context(cannot)?.path();
        if path.ends_with(OBJECTS) {
            let records = path.join("records");
            if records.exists() {
                std::fs::remove_dir_all(records).with_context(cannot)?;
            }
        } else if path.is_dir() {
            std::fs::remove_dir_all(path).with_context(cannot)?;
        } else {
            std::fs::remove_file(path).with_context(cannot)?;
        }
    }
    Ok(())
}

fn bar(context: &Context) -> ProgressBar {
    if context.output.is_live() {
        ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
    } else {
        ProgressBar::hidden()
    }
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
