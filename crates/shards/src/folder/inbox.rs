//! Links on their way to the shard that owns their host: one file per batch, `FROM-SEQ.json`.
//!
//! The sender commits a batch with its number before it writes the file, and writes it again after a crash. The receiver
//! commits (from, number) together with the links, and removes the file then. A number that it knows is dropped. So each
//! batch counts exactly once, whoever is killed when.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use divvy_workload::files::{FolderError, read_json, show_json};
use serde::{Deserialize, Serialize};

use crate::shard::robots::Reply;

/// Files that one look takes in.
const FILES_MAX: usize = 256;
/// The sender that is no shard.
pub const SERVER: u32 = u32::MAX;

/// A link as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Travelling {
    /// The canonical address.
    pub url: String,
    /// Links from a seed.
    pub depth: u8,
    /// Redirects on the way to it.
    #[serde(default)]
    pub hops: u8,
    /// Whether it is a sitemap rather than a page.
    #[serde(default)]
    pub is_sitemap: bool,
    /// What is said of the address, if it is not a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<Word>,
}

/// What shards say of a place to which the robots.txt of a host leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// To the owner of its host: ask there when the turn of the host comes.
    Ask {
        /// The origin whose robots.txt it is.
        of: String,
    },
    /// To the owner of the origin: this came.
    Came {
        /// The origin whose robots.txt it is.
        of: String,
        /// What came.
        reply: Reply,
    },
}

impl Travelling {
    /// An address from which a crawl begins.
    pub fn seed(url: &str) -> Self {
        Self { url: url.to_owned(), depth: 0, hops: 0, is_sitemap: false, word: None }
    }

    /// Whether it may hold a whole file.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.word, Some(Word::Came { .. }))
    }
}

/// A batch that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// Who sent it.
    pub from: u32,
    /// Which of that sender's it is, from 1.
    pub seq: u64,
    path: PathBuf,
}

impl Waiting {
    /// The links in it; nothing if it is gone.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> Result<Vec<Travelling>, FolderError> {
        Ok(read_json(&self.path)?.unwrap_or_default())
    }

    /// Removes it, after its links were committed.
    pub fn remove(&self) {
        // If it stays, its number is known and it is dropped at the next look.
        let _ = fs::remove_file(&self.path);
    }
}

/// Puts a batch into an inbox. The same number again is the same batch.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn send(inbox: &Path, from: u32, seq: u64, links: &[Travelling]) -> Result<(), FolderError> {
    show_json(&inbox.join(format!("{from}-{seq}.json")), &links)
}

/// The batches in an inbox, those of each sender in their order.
///
/// # Errors
/// If the folder cannot be read.
pub fn look(inbox: &Path) -> Result<Vec<Waiting>, FolderError> {
    let failed = |error: io::Error| FolderError::new(inbox, error);
    let mut found = Vec::new();
    let entries = match fs::read_dir(inbox) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let numbers = name.strip_suffix(".json").and_then(|name| name.split_once('-'));
        if let Some((from, seq)) = numbers
            && let (Ok(from), Ok(seq)) = (from.parse(), seq.parse())
        {
            found.push(Waiting { from, seq, path });
        }
    }
    found.sort_unstable();
    found.truncate(FILES_MAX);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_in_the_order_of_their_senders() {
        let place = tempfile::tempdir().unwrap();
        let link = |url: &str| Travelling { depth: 1, ..Travelling::seed(url) };
        for (from, seq) in [(1, 10), (0, 2), (1, 9), (SERVER, 1)] {
            send(place.path(), from, seq, &[link("http://a/")]).unwrap();
        }
        fs::write(place.path().join(".0-3.json.77.part"), b"[").unwrap();
        fs::write(place.path().join("notes.txt"), b"x").unwrap();
        let found = look(place.path()).unwrap();
        let numbers: Vec<_> = found.iter().map(|waiting| (waiting.from, waiting.seq)).collect();
        assert_eq!(numbers, [(0, 2), (1, 9), (1, 10), (SERVER, 1)]);
        assert_eq!(found[0].read().unwrap(), [link("http://a/")]);
        found[0].remove();
        assert_eq!(look(place.path()).unwrap().len(), 3);
        assert_eq!(look(&place.path().join("none")).unwrap(), []);
    }
}
