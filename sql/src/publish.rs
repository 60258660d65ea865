//! A file that is written once, whoever dies and however often the work is done.
//!
//! 1. An attempt writes the whole result into a file of its own and syncs it.
//! 2. It links that file to the name of the *chosen* result, which belongs to the task. A link does not replace, so the
//!    first attempt that comes so far is chosen, and a second one throws its own away.
//! 3. The chosen result is linked to the name that was asked for. That does not replace either: a file that is there
//!    already is either the chosen one, and all is done, or somebody else's, which is refused.
//! 4. When the server has recorded the end of the task, the name of the chosen result is removed.
//!
//! An attempt that finds a chosen result goes on at step 3 and asks nobody for rows. All names are in the same folder,
//! as hard links must be.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The names under which a result comes into being.
#[derive(Clone, Debug)]
pub(crate) struct Publication {
    /// What was asked for.
    file: PathBuf,
    /// The result that was chosen.
    chosen: PathBuf,
    /// What this attempt writes.
    part: PathBuf,
}

impl Publication {
    /// The names for a file, of the attempt `attempt` of the task `task`.
    pub(crate) fn new(file: &Path, task: &str, attempt: u64) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let beside = |name: String| file.with_file_name(name);
        Self {
            file: file.to_owned(),
            chosen: beside(format!(".{name}.{task}")),
            part: beside(format!(".{name}.{task}.{attempt}")),
        }
    }

    /// Whether an attempt before was chosen.
    pub(crate) fn is_chosen(&self) -> bool {
        self.chosen.exists()
    }

    /// The file that this attempt writes. What attempts before this one began is removed.
    pub(crate) fn begin(&self) -> anyhow::Result<File> {
        self.sweep();
        File::create(&self.part).with_context(|| {
            format!("cannot write beside {}; does its folder exist?", self.file.display())
        })
    }

    /// Makes what was written the chosen result, unless another is.
    pub(crate) fn choose(&self, part: &File) -> anyhow::Result<()> {
        part.sync_all().with_context(|| format!("cannot sync {}", self.part.display()))?;
        let linked = fs::hard_link(&self.part, &self.chosen);
        self.abandon();
        match linked {
            // Another attempt was quicker; it may have removed what this one wrote.
            Err(_) if self.is_chosen() => Ok(()),
            Err(error) => Err(error).with_context(|| {
                format!("cannot link {}; its folder must allow hard links", self.chosen.display())
            }),
            Ok(()) => self.sync_folder(),
        }
    }

    /// Gives the chosen result its name; says how many bytes it has.
    pub(crate) fn publish(&self) -> anyhow::Result<u64> {
        let chosen = self.chosen.metadata().context("the chosen result is gone")?;
        match fs::hard_link(&self.chosen, &self.file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = self.file.symlink_metadata()?;
                if (there.dev(), there.ino()) != (chosen.dev(), chosen.ino()) {
                    self.settle();
                    bail!(
                        "{} exists and is not this result; name another with --out",
                        self.file.display()
                    );
                }
            }
            linked => linked.with_context(|| format!("cannot link {}", self.file.display()))?,
        }
        self.sync_folder()?;
        Ok(chosen.len())
    }

    /// Removes the name of the chosen result, once the end of the task is recorded.
    pub(crate) fn settle(&self) {
        // It may be gone already; and a name too many takes no space.
        let _ = fs::remove_file(&self.chosen);
        self.sweep();
    }

    /// Removes what this attempt wrote.
    pub(crate) fn abandon(&self) {
        // It may never have been made.
        let _ = fs::remove_file(&self.part);
    }

    /// Removes what any attempt of the task has begun.
    fn sweep(&self) {
        let chosen = self.chosen.file_name().unwrap_or_default().to_string_lossy();
        let parts = format!("{chosen}.");
        for entry in fs::read_dir(self.folder()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&parts) {
                // Who wrote it may have removed it meanwhile.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn folder(&self) -> &Path {
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or_else(|| Path::new("."))
    }

    fn sync_folder(&self) -> anyhow::Result<()> {
        let folder = self.folder();
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.with_context(|| format!("cannot sync {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn write(publication: &Publication, text: &str) {
        let mut part = publication.begin().unwrap();
        part.write_all(text.as_bytes()).unwrap();
        publication.choose(&part).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_first_attempt_that_is_whole_is_the_result() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.csv");
        let (first, second) = (Publication::new(&file, "t", 1), Publication::new(&file, "t", 2));
        // The first one is about to be replaced, the second one overtakes it.
        let mut slow = first.begin().unwrap();
        slow.write_all(b"slow").unwrap();
        write(&second, "quick");
        assert_eq!(second.publish().unwrap(), 5);
        first.choose(&slow).unwrap();
        assert_eq!(first.publish().unwrap(), 5);
        // A third one has not looked whether there is a result.
        let third = Publication::new(&file, "t", 3);
        write(&third, "late");
        assert_eq!(third.publish().unwrap(), 5);
        assert_eq!(fs::read_to_string(&file).unwrap(), "quick");
        second.settle();
        assert_eq!(names(folder.path()), ["out.csv"]);
    }

    #[test]
    fn an_attempt_goes_on_where_the_last_one_died() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.csv");
        let died = Publication::new(&file, "t", 1);
        drop(died.begin().unwrap());
        let next = Publication::new(&file, "t", 2);
        assert!(!next.is_chosen(), "half a result is none");
        write(&next, "whole");
        assert_eq!(names(folder.path()), [".out.csv.t"], "what was begun is removed");
        let last = Publication::new(&file, "t", 3);
        assert!(last.is_chosen());
        last.publish().unwrap();
        // And it may die between the link and the report as well.
        let inode = fs::metadata(&file).unwrap().ino();
        Publication::new(&file, "t", 4).publish().unwrap();
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    }

    #[test]
    fn a_file_of_somebody_else_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out.csv");
        fs::write(&file, "mine").unwrap();
        let publication = Publication::new(&file, "t", 1);
        write(&publication, "other");
        let refused = publication.publish().unwrap_err().to_string();
        assert!(refused.contains("exists and is not this result"), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert_eq!(names(folder.path()), ["out.csv"]);
    }
}
