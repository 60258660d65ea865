//! The list of files of a video.

use std::collections::BTreeMap;

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;

use crate::manifest::FileEntry;
use crate::results::Fragment;

/// Files that a manifest may list: three rungs and sound of twelve hours in segments of a second.
const FILES_MAX: usize = 400_000;

/// Files by their paths.
#[derive(Debug, Default)]
pub(super) struct Files {
    found: BTreeMap<String, FileEntry>,
    twice: Option<String>,
}

impl Files {
    /// Adds a file that is a whole blob.
    pub(super) fn blob(&mut self, path: &str, blob: Blob) {
        self.add(FileEntry { path: path.to_owned(), blob: blob.id, offset: 0, length: blob.size });
    }

    /// Adds a file that is a part of a blob.
    pub(super) fn part(&mut self, path: &str, blob: BlobId, part: &Fragment) {
        let (offset, length) = (part.offset, part.length);
        self.add(FileEntry { path: path.to_owned(), blob, offset, length });
    }

    /// All of them, in the order of their paths.
    pub(super) fn into_entries(self) -> Outcome<Vec<FileEntry>> {
        if let Some(path) = self.twice {
            return Err(Failure::dead(format_args!("two files would be named {path}")));
        }
        if self.found.len() > FILES_MAX {
            let count = self.found.len();
            return Err(Failure::dead(format_args!(
                "the video would have {count} files, at most {FILES_MAX}; make its segments longer"
            )));
        }
        Ok(self.found.into_values().collect())
    }

    fn add(&mut self, file: FileEntry) {
        let path = file.path.clone();
        if self.found.insert(path.clone(), file).is_some() {
            self.twice = Some(path);
        }
    }
}
