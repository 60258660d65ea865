//! `divvy video export`: all files of a video in a folder, each checked by the hash of the data that it comes from.
//!
//! A file is a part of a blob, and only a whole blob can be checked, so blobs are fetched whole, one after the other.
//! The folder appears at the end, in one step: what can be seen is complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Component, Path, PathBuf};

use crate::library::VideoView;
use crate::manifest::{FileEntry, Manifest};
use anyhow::{Context as _, Result};
use divvy::objects::BlobId;
use indicatif::ProgressBar;
use serde_json::json;

use super::{resolve, show};
use crate::command::args::Export;
use crate::command::bars;
use divvy::api::Api;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::output::words::bytes;

/// The file that lists all others.
const MANIFEST: &str = "manifest.json";

/// Exports.
pub(super) async fn run(args: &Export, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    check_target(&args.folder, args.force)?;
    let id = resolve(&api, &args.video.id).await?;
    let view: VideoView = api.get(&["videos", &id.0], &[]).await?.parse()?;
    let Some(manifest) = show::manifest(&view, &api).await? else {
        let state = view.video.state.as_str();
        return Err(Failure::refused(format!("video {} is {state}, so it has no files", id.0))
            .cure(format!("divvy video wait {}", id.0))
            .into());
    };
    let parent = parent(&args.folder);
    let cannot = || format!("cannot write to {}", parent.display());
    fs::create_dir_all(&parent).with_context(cannot)?;
    let staged =
        tempfile::Builder::new().prefix(".export-").tempdir_in(&parent).with_context(cannot)?;
    write_all(&manifest, staged.path(), &api, context).await?;
    place(staged, &args.folder)?;
    let (files, total) = sums(&manifest);
    if output.is_json() {
        let folder = &args.folder;
        output.object(&json!({ "id": id.0, "folder": folder, "files": files, "bytes": total }))?;
    } else if output.is_quiet() {
        output.data(&id.0)?;
    } else {
        let folder = args.folder.display();
        output.data(format_args!("{folder}  {files} files, {}, all checked", bytes(total)))?;
        output.note(format_args!("play {}", args.folder.join("master.m3u8").display()));
    }
    Ok(Code::Done)
}

/// Refuses a folder that would lose something.
fn check_target(folder: &Path, force: bool) -> Result<(), Failure> {
    let name = folder.display();
    let taken = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Failure::refused(format!("{name} is a file, expected a folder")));
        }
        Err(error) => return Err(Failure::refused(format!("cannot look into {name}: {error}"))),
    };
    if taken && !force {
        return Err(Failure::refused(format!("{name} is not empty"))
            .cure("name another folder, or replace it with --force"));
    }
    Ok(())
}

fn parent(folder: &Path) -> PathBuf {
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn sums(manifest: &Manifest) -> (usize, u64) {
    (manifest.files.len(), manifest.files.iter().map(|file| file.length).sum())
}

/// Writes every file of the manifest below `folder`.
async fn write_all(manifest: &Manifest, folder: &Path, api: &Api, context: &Context) -> Result<()> {
    let mut blobs: BTreeMap<BlobId, Vec<&FileEntry>> = BTreeMap::new();
    for file in &manifest.files {
        is_inside(&file.path)?;
        blobs.entry(file.blob).or_default().push(file);
    }
    let bar = bars::upload(&context.output, "export", sums(manifest).1);
    for (id, files) in &blobs {
        let mut blob = fetch(*id, folder, api).await?;
        for file in files {
            cut(&mut blob, file, folder, &bar)
                .with_context(|| format!("cannot write {}", file.path))?;
        }
    }
    bar.finish_and_clear();
    let path = folder.join(MANIFEST);
    if !path.exists() {
        let text = serde_json::to_vec_pretty(manifest)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Refuses a path that leads out of the folder, whoever wrote the manifest.
fn is_inside(path: &str) -> Result<(), Failure> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !path.is_empty() && Path::new(path).components().all(plain) {
        return Ok(());
    }
    Err(Failure::new(Code::Failed, format!("the manifest names `{path}`, which leads elsewhere")))
}

/// A whole blob in a file without a name, checked.
async fn fetch(id: BlobId, folder: &Path, api: &Api) -> Result<File> {
    let name = id.to_string();
    let mut response = api.stream(&["blobs", &name], &[]).await?;
    let mut file = tempfile::tempfile_in(folder).context("cannot write a temporary file")?;
    let mut hasher = blake3::Hasher::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| api.lost(&error))? {
        hasher.update(&chunk);
        file.write_all(&chunk).context("cannot write a temporary file")?;
    }
    let found = BlobId(*hasher.finalize().as_bytes());
    if found != id {
        return Err(Failure::new(
            Code::Failed,
            format!("blob {id} is damaged: it hashes to {found}"),
        )
        .cure("try again; if it stays so, the server's disk has lost data")
        .into());
    }
    Ok(file)
}

/// Copies the part of a blob that is this file.
fn cut(blob: &mut File, entry: &FileEntry, folder: &Path, bar: &ProgressBar) -> io::Result<()> {
    let path = folder.join(&entry.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    blob.seek(SeekFrom::Start(entry.offset))?;
    let mut file = File::create(&path)?;
    let written = io::copy(&mut blob.take(entry.length), &mut file)?;
    if written != entry.length {
        let text = format!("its blob ends after {written} of {} bytes", entry.length);
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    file.sync_data()?;
    bar.inc(written);
    Ok(())
}

/// Puts the finished folder in its place; one that is there is replaced.
fn place(staged: tempfile::TempDir, target: &Path) -> Result<()> {
    let cannot = || format!("cannot place the files at {}", target.display());
    // A temporary folder is private; what is placed should be as others that this user makes.
    fs::create_dir_all(target).with_context(cannot)?;
    let permissions = fs::metadata(target).with_context(cannot)?.permissions();
    fs::set_permissions(staged.path(), permissions).with_context(cannot)?;
    let old = tempfile::Builder::new()
        .prefix(".replaced-")
        .tempdir_in(parent(target))
        .with_context(cannot)?;
    fs::rename(target, old.path().join("old")).with_context(cannot)?;
    fs::rename(staged.keep(), target).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, offset: u64, length: u64) -> FileEntry {
        FileEntry { path: path.to_owned(), blob: BlobId::of(b"0123456789"), offset, length }
    }

    #[test]
    fn a_file_is_its_part_of_the_blob_and_a_short_blob_is_told() {
        let place = tempfile::tempdir().unwrap();
        let mut blob = tempfile::tempfile().unwrap();
        blob.write_all(b"0123456789").unwrap();
        let bar = ProgressBar::hidden();
        cut(&mut blob, &entry("v/a.m4s", 2, 3), place.path(), &bar).unwrap();
        assert_eq!(fs::read(place.path().join("v/a.m4s")).unwrap(), b"234");
        let error = cut(&mut blob, &entry("b", 8, 3), place.path(), &bar).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in ["", "/etc/passwd", "../a", "v/../../a", "."] {
            assert!(is_inside(path).is_err(), "{path}");
        }
        assert!(is_inside("v/720p/seg_00001.m4s").is_ok());
    }

    #[test]
    fn a_folder_with_something_in_it_is_replaced_only_by_force_and_whole() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("film");
        assert!(check_target(&target, false).is_ok());
        fs::create_dir(&target).unwrap();
        assert!(check_target(&target, false).is_ok(), "an empty folder may be filled");
        fs::write(target.join("mine"), "x").unwrap();
        assert_eq!(check_target(&target, false).unwrap_err().code, Code::Refused);
        assert!(check_target(&target, true).is_ok());
        assert!(check_target(&target.join("mine"), true).is_err(), "a file is no folder");
        let staged = tempfile::tempdir_in(place.path()).unwrap();
        fs::write(staged.path().join("new"), "y").unwrap();
        super::place(staged, &target).unwrap();
        assert!(target.join("new").is_file() && !target.join("mine").exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "something is left over");
    }
}
