//! A few manifests in memory, so that a segment costs one small record and no manifest.
//!
//! A manifest is a blob, so what is kept under its name never goes stale; which manifest a video has is read from its
//! record each time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use divvy::objects::{BlobId, Objects};
use divvy_http::ApiError;

use super::error::{broken, unreadable};
use crate::manifest::{FileEntry, Manifest};

/// Manifests that are kept.
const KEPT_MAX: usize = 16;

/// The files of one manifest by their paths.
#[derive(Debug)]
pub(super) struct Files(HashMap<String, FileEntry>);

/// The manifests that were used last, the latest at the end.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    kept: Mutex<VecDeque<(BlobId, Arc<Files>)>>,
}

impl Files {
    /// The file with this path.
    pub(super) fn get(&self, path: &str) -> Option<&FileEntry> {
        self.0.get(path)
    }
}

impl Manifests {
    /// The files of a manifest.
    pub(super) async fn files(
        &self,
        objects: &Objects,
        id: BlobId,
    ) -> Result<Arc<Files>, ApiError> {
        if let Some(files) = self.find(id) {
            return Ok(files);
        }
        let bytes = objects.get(id).await.map_err(unreadable)?;
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|error| broken(&format_args!("manifest {id} cannot be read: {error}")))?;
        let own = FileEntry {
            path: "manifest.json".to_owned(),
            blob: id,
            offset: 0,
            length: bytes.len() as u64,
        };
        let entries = manifest.files.into_iter().chain([own]);
        let files = Arc::new(Files(entries.map(|file| (file.path.clone(), file)).collect()));
        self.keep(id, files.clone());
        Ok(files)
    }

    fn find(&self, id: BlobId) -> Option<Arc<Files>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(name, _)| *name == id)?;
        let entry = kept.remove(at)?;
        let files = entry.1.clone();
        kept.push_back(entry);
        Some(files)
    }

    fn keep(&self, id: BlobId, files: Arc<Files>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(name, _)| *name != id);
        kept.push_back((id, files));
        while kept.len() > KEPT_MAX {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_that_was_not_used_for_longest_goes_first() {
        let manifests = Manifests::default();
        let id = |n: usize| BlobId::of(&n.to_le_bytes());
        for n in 0..KEPT_MAX {
            manifests.keep(id(n), Arc::new(Files(HashMap::new())));
        }
        assert!(manifests.find(id(0)).is_some());
        manifests.keep(id(KEPT_MAX), Arc::new(Files(HashMap::new())));
        assert!(manifests.find(id(0)).is_some());
        assert!(manifests.find(id(1)).is_none());
        assert!(manifests.find(id(KEPT_MAX)).is_some());
    }
}
