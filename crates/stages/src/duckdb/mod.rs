//! DuckDB as an installed provider: reads columns of Parquet files, so that this binary need not. The program is
//! `providers/duckdb.py`, whose first lines have the protocol; what is shared with other providers is in
//! [`divvy_workload::provider`].
//!
//! A worker that finds it installed tries it out once, in the best sandbox that works there, and then offers the capability
//! [`CAPABILITY`]. Without a sandbox it is not used: what comes in files of strangers is read by much code.

mod run;

pub(crate) use run::rows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use divvy_workload::confine::{Launcher, Level, WORD, find_program};
use divvy_workload::provider::{self, InstallError, Ready};
use serde::Deserialize;

/// The capability of a worker that reads Parquet.
pub const CAPABILITY: &str = "duckdb";
/// What to do where nobody has it.
pub const CURE: &str =
    "on a machine with a worker: divvy flow provider install duckdb, then start the worker again";
/// Characters of a version, in a capability.
const VERSION_CHARS_MAX: usize = 32;

/// The program and its packages.
pub const READY: Ready = Ready {
    name: CAPABILITY,
    about: "reads Parquet",
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
        let folder = provider::folder(READY.name);
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
        let readable = provider::readable(&program, &arguments);
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
            match run::describe(&opened).and_then(|said| understand(&said)) {
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

    /// What a worker with it offers.
    pub fn capability(&self) -> String {
        format!("{CAPABILITY}={}", self.0.version)
    }

    /// It and its version and sandbox, for people.
    pub fn words(&self) -> String {
        format!("DuckDB {} in the sandbox {}", self.0.version, self.0.launcher.level)
    }
}

/// Whether it is installed for this user, whole and in this program's version.
pub fn is_installed() -> bool {
    READY.is_in(&provider::folder(READY.name))
}

/// Installs it for this user, unless it is there already, and tries it out.
///
/// # Errors
/// With the cure.
pub async fn install(progress: impl FnMut(&str) + Send) -> Result<String, InstallError> {
    provider::install(&READY, &provider::folder(READY.name), understand, progress).await
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
