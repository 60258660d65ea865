//! The files of the repository: what git tracks or would track. What `.gitignore` names is nobody's business here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// One text file.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/` between folders.
    pub(crate) path: String,
    /// What it says; empty for a file that is not text.
    pub(crate) text: String,
    /// How long it is on disk.
    pub(crate) bytes: u64,
}

/// All files.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// By path.
    pub(crate) files: Vec<TextFile>,
}

impl Tree {
    /// Reads every file that git lists under `root`.
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot run git, which lists the files to check; install git")?;
        if !output.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let listing = String::from_utf8(output.stdout)
            .context("a file name is not UTF-8; rename the file")?;
        let paths: BTreeSet<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let full = root.join(path);
            // A tracked file may be gone from the work tree, and a link is checked where it points to.
            let Ok(meta) = full.symlink_metadata() else { continue };
            if !meta.is_file() {
                continue;
            }
            let data = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            let text = String::from_utf8(data).unwrap_or_default();
            files.push(TextFile { path: path.to_owned(), text, bytes: meta.len() });
        }
        Ok(Self { files })
    }

    /// The text of one file, if it is there.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

#[cfg(test)]
impl Tree {
    /// A tree from paths and texts.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
            bytes: text.len() as u64,
        };
        Self { files: files.iter().map(file).collect() }
    }
}
