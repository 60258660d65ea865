//! The folder of a job: which file is where.
//!
//! | file | what | written by |
//! |---|---|---|
//! | `job.json` | what was asked for; fixed | the server |
//! | `state.json` | which stage it is at, and how it ended | the driver |
//! | `stop` | that is there if a stream shall end with what it has read | the server |
//! | `stages/N.plan.json` | the parts of stage N; fixed | the driver |
//! | `stages/N.done.json` | what became of them | the driver |
//! | `shuffle/STAGE/PART-TOKEN` | what an attempt wrote for the next stage; see [`super::shuffle`] | the attempt |
//! | `keep/STAGE-PART/` | what a part keeps between attempts, under a lock | the part |
//! | `scratch/STAGE-PART-TOKEN/` | spills of an attempt; removed with it | the attempt |
//! | `out/.part-N-TOKEN` | a part of the result before the job is done | the attempt |
//! | `out/part-N`, `out/manifest.json` | the result | the driver |
//!
//! Knows nothing of what the files mean.

use std::path::{Path, PathBuf};

/// The folder of all jobs in the data folder.
pub const FLOWS: &str = "flows";

/// The folder of one job; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder at this place.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was asked for.
    pub fn job(&self) -> PathBuf {
        self.root.join("job.json")
    }

    /// Which stage it is at.
    pub fn state(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// Is there if a stream shall end with what it has read.
    pub fn stop(&self) -> PathBuf {
        self.root.join("stop")
    }

    /// The parts of a stage.
    pub fn plan(&self, stage: u32) -> PathBuf {
        self.root.join("stages").join(format!("{stage}.plan.json"))
    }

    /// What became of them.
    pub fn done(&self, stage: u32) -> PathBuf {
        self.root.join("stages").join(format!("{stage}.done.json"))
    }

    /// Everything that stages hand to each other.
    pub fn shuffles(&self) -> PathBuf {
        self.root.join("shuffle")
    }

    /// What a stage hands to the next.
    pub fn shuffle(&self, stage: u32) -> PathBuf {
        self.shuffles().join(stage.to_string())
    }

    /// What parts keep between attempts.
    pub fn keeps(&self) -> PathBuf {
        self.root.join("keep")
    }

    /// What a part keeps between attempts.
    pub fn keep(&self, stage: u32, part: u32) -> PathBuf {
        self.keeps().join(format!("{stage}-{part}"))
    }

    /// Spills of all attempts.
    pub fn scratches(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The result.
    pub fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// What is in the result.
    pub fn manifest(&self) -> PathBuf {
        self.out().join("manifest.json")
    }
}
