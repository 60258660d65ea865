//! Files that go to the objects of a server, and what goes wrong with that in words.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use divvy::objects::{Blob, BlobId, ObjectError, Objects};
use divvy_workload::console::exit::{Code, Failure};

/// Brings a file to the server; `progress` is told how many bytes are there.
pub(crate) async fn upload(
    objects: &Objects,
    path: &Path,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Blob> {
    let uploaded = objects.upload_file(path, |sent, _whole| progress(sent)).await;
    uploaded.map_err(|error| failure(&error).into())
}

/// The blob of a file that the server has already: to hash a file costs less than to send it.
pub(crate) async fn known(objects: &Objects, path: &Path) -> Result<Option<Blob>> {
    let file = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(std::fs::File::open(file)?)?;
        Ok::<_, std::io::Error>(BlobId(*hasher.finalize().as_bytes()))
    });
    let id = hashed.await?.with_context(|| format!("cannot read {}", path.display()))?;
    objects.blob(id).await.map_err(|error| failure(&error).into())
}

/// Where a user's copies of blobs go.
pub(crate) fn default_cache() -> PathBuf {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    given
        .filter(|path| path.is_absolute())
        .or_else(home)
        .unwrap_or_else(std::env::temp_dir)
        .join("divvy")
}

/// A problem with objects, with its exit code.
pub(crate) fn failure(error: &ObjectError) -> Failure {
    let code = match error {
        ObjectError::Server(server) => return Failure::from(server.clone()),
        ObjectError::File { .. } => Code::NotFound,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}
