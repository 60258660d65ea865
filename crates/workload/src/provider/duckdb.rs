//! DuckDB as an installed provider: reads columns of Parquet files and writes such files, so that this binary need not. The
//! program is `providers/duckdb.py`, whose first lines have the protocol.
//!
//! A worker that finds it installed tries it out once, in the best sandbox that works there, and then offers the capability
//! [`CAPABILITY`]. Without a sandbox it is not used: what comes in files of strangers is read by much code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::run::Run;
use super::{DESCRIBE, InstallError, Ready, folder, install as install_provider, readable};
use crate::confine::{Bounds, Launcher, Level, WORD, find_program};

/// The capability of a worker that reads Parquet.
pub const CAPABILITY: &str = "duckdb";
/// Processor time of a run besides what its bytes are worth.
pub const CPU_START: Duration = Duration::from_secs(300);
/// Processor time of a million bytes.
pub const CPU_PER_MB: Duration = Duration::from_secs(5);
/// The exit code that says that the file is at fault.
pub const AT_FAULT: i32 = 3;
/// Address space, as of other providers; DuckDB itself is told how much of it is for rows.
const MEMORY_BYTES: u64 = 8 << 30;
/// Bytes that it says of itself, how long it may say nothing then, and how often that is looked at.
const WORDS_BYTES_MAX: usize = 4 << 10;
const STALL: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
/// Characters of a version, in a capability.
const VERSION_CHARS_MAX: usize = 32;

/// The program and its packages.
pub const READY: Ready = Ready {
    name: CAPABILITY,
    about: "reads and writes Parquet",
    script: include_str!("../../providers/duckdb.py"),
    requirements: include_str!("../../providers/duckdb.txt"),
};

/// An installed DuckDB that has said who it is. A clone is cheap.
#[derive(Clone, Debug)]
pub struct Duckdb(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    launcher: Launcher,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// What the program itself must read.
    readable: Vec<PathBuf>,
    version: String,
}

/// Who it is.
#[derive(Deserialize)]
struct About {
    provider: String,
    version: String,
}

impl Duckdb {
    /// The one that is installed for this user, if there is one; waits until it has been tried out.
    ///
    /// # Errors
    /// If it does not work here, with the cure.
    pub fn find() -> Result<Option<Self>, String> {
        if !is_installed() {
            return Ok(None);
        }
        let folder = folder(READY.name);
        let own = std::env::current_exe()
            .map_err(|error| format!("this program cannot find its own file: {error}"))?;
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let (program, arguments) = READY.command(&folder);
        Self::open(vec![own.into(), WORD.into()], program, arguments).map(Some)
    }

    /// A program that speaks the protocol, in the best sandbox that works here.
    fn open(
        launcher: Vec<OsString>,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<Self, String> {
        let bwrap = find_program("bwrap".as_ref());
        let readable = readable(&program, &arguments);
        let mut opened = Opened {
            launcher: Launcher { command: launcher, bwrap, level: Level::Bwrap },
            program,
            arguments,
            readable,
            version: String::new(),
        };
        let mut problems = Vec::new();
        for level in [Level::Bwrap, Level::Landlock] {
            opened.launcher.level = level;
            match describe(&opened).and_then(|said| understand(&said)) {
                Ok(version) => {
                    opened.version = version;
                    return Ok(Self(Arc::new(opened)));
                }
                Err(problem) => problems.push(format!("{level}: {problem}")),
            }
        }
        Err(format!(
            "DuckDB is installed but does not run in a sandbox ({}); install bubblewrap \
             (apt-get install bubblewrap), or DuckDB anew: divvy flow provider install duckdb",
            problems.join("; ")
        ))
    }

    /// Runs it for this request, a line of JSON, in the best sandbox that works here. It may write only in this folder, and
    /// reads these files besides what it is made of.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn run(
        &self,
        request: &[u8],
        folder: &Path,
        readable: impl IntoIterator<Item = PathBuf>,
        cpu: Duration,
    ) -> Result<Run, String> {
        let opened = &self.0;
        let readable: Vec<PathBuf> = opened.readable.iter().cloned().chain(readable).collect();
        start(opened, request, folder, &readable, cpu)
    }

    /// What a worker with it offers.
    pub fn capability(&self) -> String {
        format!("{CAPABILITY}={}", self.0.version)
    }

    /// It and its version and sandbox, for people.
    pub fn words(&self) -> String {
        format!("DuckDB {} in the sandbox {}", self.0.version, self.0.launcher.level)
    }
}

/// What an installed DuckDB says of itself.
fn describe(duckdb: &Opened) -> Result<Vec<u8>, String> {
    let work = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let run = start(duckdb, DESCRIBE, work.path(), &duckdb.readable, CPU_START)?;
    let (mut said, began) = (Vec::new(), Instant::now());
    while let Some(piece) = run.next(LOOK) {
        said.extend_from_slice(&piece);
        if said.len() > WORDS_BYTES_MAX || began.elapsed() > STALL {
            return Err("it does not come to its end".to_owned());
        }
    }
    run.end().map_err(|ended| ended.words).map(|()| said)
}

fn start(
    duckdb: &Opened,
    request: &[u8],
    folder: &Path,
    readable: &[PathBuf],
    cpu: Duration,
) -> Result<Run, String> {
    // Links in it would lead out of the sandbox.
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let bounds = Bounds {
        folder: &folder,
        readable,
        cpu,
        memory_bytes: MEMORY_BYTES,
        input_bytes: request.len() as u64,
    };
    Run::start(&duckdb.launcher, (&duckdb.program, &duckdb.arguments), request, bounds)
}

/// Whether it is installed for this user, whole and in this program's version.
pub fn is_installed() -> bool {
    READY.is_in(&folder(READY.name))
}

/// Installs it for this user, unless it is there already, and tries it out.
///
/// # Errors
/// With the cure.
pub async fn install(progress: impl FnMut(&str) + Send) -> Result<String, InstallError> {
    install_provider(&READY, &folder(READY.name), understand, progress).await
}

/// The version that it says it has.
fn understand(said: &[u8]) -> Result<String, String> {
    let about: About = serde_json::from_slice(said)
        .map_err(|error| format!("it does not say who it is: {error}"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_plain = !about.version.is_empty() && about.version.chars().all(plain);
    if about.provider != READY.name || !is_plain || about.version.len() > VERSION_CHARS_MAX {
        return Err(format!("it calls itself {} {}", about.provider, about.version));
    }
    Ok(about.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_taken_by_its_word_only_if_that_is_plain() {
        let said = |text: &str| understand(text.as_bytes());
        assert_eq!(said(r#"{"provider":"duckdb","version":"2.0.0"}"#), Ok("2.0.0".to_owned()));
        for wrong in [
            r#"{"provider":"ear","version":"2.0.0"}"#,
            r#"{"provider":"duckdb","version":"2 0"}"#,
            r#"{"provider":"duckdb","version":""}"#,
            "Traceback",
        ] {
            assert!(said(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn its_packages_are_pinned_by_version_and_hash() {
        assert!(READY.is_pinned());
    }
}
