//! The checkpoint of a program is a file: `DIVVY_CHECKPOINT_FILE` names it.
//!
//! At the start it holds what an earlier attempt saved, or is not there. What the program writes to it is saved when
//! it has changed, once per second and after its end; so a program that is asked to stop may still save. The file lies
//! in a folder of its own, which goes away with the attempt: a program writes a new file beside it and renames it, so
//! that nothing half-written is ever saved. JSON is saved as JSON and anything else as bytes.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use divvy_types::Payload;
use divvy_types::limits::CHECKPOINT_BYTES_MAX;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::{Attempt, Checkpointer, ProgressReporter};

/// How often a program's file is looked at while it runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What data is that is not JSON.
const BYTES: &str = "application/octet-stream";

/// The checkpoint file of one attempt.
pub(super) struct CheckpointFile {
    path: PathBuf,
    /// What was there when it was looked at last.
    seen: Option<Stamp>,
    checkpoints: Checkpointer,
    log: ProgressReporter,
    #[expect(dead_code, reason = "held for its drop, which removes the folder")]
    folder: tempfile::TempDir,
}

/// Tells one state of a file from another without reading it.
type Stamp = (u64, u64, SystemTime);

/// What was found in place of the file.
enum Found {
    /// Nothing new.
    Same,
    /// More than may be saved.
    TooLarge(Stamp),
    /// New data.
    New(Stamp, Vec<u8>),
}

impl CheckpointFile {
    /// Makes the folder, with the file in it if an earlier attempt saved something.
    pub(super) async fn new(attempt: &Attempt) -> io::Result<Self> {
        let saved = attempt.resume_point.clone();
        let prepare = move || {
            // What a task saves may be as secret as its payload.
            let private = fs::Permissions::from_mode(0o700);
            let mut folder = tempfile::Builder::new();
            let folder = folder.prefix("divvy-checkpoint-").permissions(private).tempdir()?;
            let path = folder.path().join("checkpoint");
            let mut seen = None;
            if let Some(saved) = saved {
                // JSON `null` may be no bytes at all.
                let text = saved.json_text().filter(|_| saved.data().is_empty());
                fs::write(&path, text.map_or(&saved.data()[..], str::as_bytes))?;
                seen = Some(stamp(&fs::symlink_metadata(&path)?)?);
            }
            Ok::<_, io::Error>((folder, path, seen))
        };
        let (folder, path, seen) = spawn_blocking(prepare).await.map_err(io::Error::other)??;
        let (checkpoints, log) = (attempt.checkpoints(), attempt.progress());
        Ok(Self { path, seen, checkpoints, log, folder })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves what the program writes, for as long as this is waited for.
    pub(super) async fn watch(&mut self) -> Infallible {
        loop {
            sleep(LOOK_EVERY).await;
            self.save().await;
        }
    }

    /// Saves the file if it has changed. What cannot be saved is told in the attempt's log, once for each change.
    pub(super) async fn save(&mut self) {
        let (path, seen) = (self.path.clone(), self.seen);
        let found = spawn_blocking(move || look(&path, seen)).await;
        match found.map_err(io::Error::other).and_then(|found| found) {
            Ok(Found::Same) => {}
            Ok(Found::TooLarge(stamp)) => {
                self.seen = Some(stamp);
                let bytes = stamp.0;
                self.log.log(&format!(
                    "the checkpoint file is {bytes} bytes, at most {CHECKPOINT_BYTES_MAX}: not saved"
                ));
            }
            Ok(Found::New(stamp, data)) => {
                self.seen = Some(stamp);
                let saved = payload(data).and_then(|data| {
                    self.checkpoints.save(data).map_err(|error| error.to_string())
                });
                if let Err(problem) = saved {
                    self.log.log(&format!("the checkpoint file cannot be saved: {problem}"));
                }
            }
            Err(error) => tracing::debug!(%error, "a checkpoint file cannot be read"),
        }
    }
}

fn look(path: &Path, seen: Option<Stamp>) -> io::Result<Found> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Same),
        Err(error) => return Err(error),
    };
    // An empty file says nothing, and opening a pipe would wait for its other end.
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(Found::Same);
    }
    let stamp = stamp(&metadata)?;
    if seen == Some(stamp) {
        return Ok(Found::Same);
    }
    let mut data = Vec::new();
    File::open(path)?.take(CHECKPOINT_BYTES_MAX as u64 + 1).read_to_end(&mut data)?;
    if data.len() > CHECKPOINT_BYTES_MAX {
        return Ok(Found::TooLarge(stamp));
    }
    Ok(Found::New(stamp, data))
}

fn stamp(metadata: &fs::Metadata) -> io::Result<Stamp> {
    Ok((metadata.len(), metadata.ino(), metadata.modified()?))
}

fn payload(data: Vec<u8>) -> Result<Payload, String> {
    match Payload::json(data.clone()) {
        Ok(json) => Ok(json),
        Err(_) => Payload::new(BYTES, data).map_err(|error| error.to_string()),
    }
}
