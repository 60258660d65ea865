//! How many pages a crawl may fetch, shared by its shards without anybody who counts for all.
//!
//! `budget.json` says how many each shard was given so far; a shard takes some more under the lock of the file when it
//! has used up what it has, and gives back what it does not need. What it has used is in its own durable state, so a
//! shard that is killed loses nothing, and the sum is exact.

use std::path::PathBuf;

use divvy_workload::files::{FolderError, read_json, show_json, try_lock};
use serde::{Deserialize, Serialize};

use super::Folder;

/// Pages that a shard is given at once, at most.
const PORTION_MAX: u64 = 256;

/// The budget as one shard sees it.
#[derive(Debug)]
pub struct Budget {
    lock: PathBuf,
    file: PathBuf,
    shard: usize,
    shards: usize,
    max: u64,
    /// What this shard was given in all.
    given: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Book {
    given: Vec<u64>,
}

impl Budget {
    /// The budget of a crawl that may fetch `max` pages in all.
    pub fn new(folder: &Folder, shard: u32, shards: u32, max: u64) -> Self {
        let (lock, file) = (folder.root().join("budget.lock"), folder.root().join("budget.json"));
        Self { lock, file, shard: shard as usize, shards: shards as usize, max, given: 0 }
    }

    /// What may be begun now by a shard that has used so much, those in flight counted. Takes more if there is any; a
    /// book that somebody else holds is looked at another time.
    ///
    /// # Errors
    /// If the files cannot be read or written.
    pub fn allowance(&mut self, used: u64) -> Result<u64, FolderError> {
        if self.given <= used {
            self.change(|given, rest, shards| {
                // A restarted shard may have been given more than it remembers.
                if given <= used {
                    given.max(used) + rest.div_ceil(2 * shards).min(PORTION_MAX).min(rest)
                } else {
                    given
                }
            })?;
        }
        Ok(self.given.saturating_sub(used))
    }

    /// What a shard that has used so much has left, without taking more.
    pub fn left(&self, used: u64) -> u64 {
        self.given.saturating_sub(used)
    }

    /// Gives back what a shard that has used so much does not need now.
    ///
    /// # Errors
    /// If the files cannot be read or written.
    pub fn give_back(&mut self, used: u64) -> Result<(), FolderError> {
        if self.given > used {
            self.change(|_, _, _| used)?;
        }
        Ok(())
    }

    fn change(&mut self, to: impl FnOnce(u64, u64, u64) -> u64) -> Result<(), FolderError> {
        let Some(_lock) = try_lock(&self.lock)? else { return Ok(()) };
        let mut book: Book = read_json(&self.file)?.unwrap_or_default();
        book.given.resize(self.shards, 0);
        let rest = self.max.saturating_sub(book.given.iter().sum());
        let now = to(book.given[self.shard], rest, self.shards as u64);
        if now != book.given[self.shard] {
            book.given[self.shard] = now;
            show_json(&self.file, &book)?;
        }
        self.given = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_the_whole_and_never_to_more() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let mut shards: Vec<Budget> = (0..3).map(|n| Budget::new(&folder, n, 3, 100)).collect();
        let mut used = [0_u64; 3];
        // The third wants nothing but one page, and gives the rest back.
        assert!(shards[2].allowance(0).unwrap() > 1);
        used[2] = 1;
        shards[2].give_back(1).unwrap();
        while let Some(at) = (0..2).find(|at| shards[*at].allowance(used[*at]).unwrap() > 0) {
            used[at] += 1;
            if used[at] % 7 == 0 {
                // Killed and started again: it knows only what it has used.
                shards[at] = Budget::new(&folder, at as u32, 3, 100);
            }
        }
        assert_eq!(used.iter().sum::<u64>(), 100);
        assert_eq!(shards[2].allowance(used[2]).unwrap(), 0);
    }
}
