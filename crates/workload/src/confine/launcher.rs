//! The command line of the launcher, and what its report means.
//!
//! Does not run it: one side waits with tokio and keeps all output, another reads rows on a thread of its own. Both hold the
//! launcher's standard input as long as they want the program: when it is closed, by an order to stop, by a drop or by the
//! death of the worker, the launcher ends the program with everything that came of it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::second::FAILED;
use super::{INPUT_BYTES_MAX, Level, Orders, Report};

/// How programs are started here.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, and its first arguments, that calls [`enter`](super::enter).
    pub command: Vec<OsString>,
    /// Where `bwrap` is.
    pub bwrap: Option<PathBuf>,
    /// How programs are confined.
    pub level: Level,
}

/// What one run of a program may see and use.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// Its working folder, the only place where it may write.
    pub folder: &'a Path,
    /// What it may read besides the system.
    pub readable: &'a [PathBuf],
    /// Time on processors.
    pub cpu: Duration,
    /// Address space of each of its processes.
    pub memory_bytes: u64,
    /// How much it is given on standard input, first of all.
    pub input_bytes: u64,
}

impl Launcher {
    /// The command that runs a program, with three pipes.
    ///
    /// # Errors
    /// If a place is not there, or the program is not.
    pub fn command(
        &self,
        program: &Path,
        arguments: &[OsString],
        bounds: Bounds<'_>,
    ) -> Result<Command, String> {
        let Some((launcher, beginning)) = self.command.split_first() else {
            return Err("there is no launcher".to_owned());
        };
        check_places(bounds)?;
        let program = find_program(program)
            .ok_or_else(|| "it is not on the path or cannot be executed".to_owned())?;
        if bounds.input_bytes > INPUT_BYTES_MAX {
            return Err(format!("its input is larger than {INPUT_BYTES_MAX} bytes"));
        }
        let orders = Orders {
            level: self.level,
            bwrap: self.bwrap.clone(),
            folder: bounds.folder.to_owned(),
            readable: bounds.readable.to_vec(),
            cpu_s: whole_seconds(bounds.cpu),
            memory_bytes: bounds.memory_bytes,
            input_bytes: bounds.input_bytes,
            keeper: None,
        };
        let orders = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        let mut command = Command::new(launcher);
        command
            .args(beginning)
            .arg(orders)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal from the terminal is for the worker, which knows what to do about its programs.
            .process_group(0);
        Ok(command)
    }

    /// Exit code and signal of the program. Bubblewrap tells a signal as an exit code, as a shell does.
    pub fn end_of(&self, report: Report) -> (Option<i32>, Option<i32>) {
        match report.code {
            Some(code) if self.level == Level::Bwrap && (129..=192).contains(&code) => {
                (None, Some(code - 128))
            }
            code => (code, report.signal),
        }
    }

    /// Whether a program that ended so was never started.
    pub fn was_not_started(code: Option<i32>, complaints: &str) -> bool {
        code == Some(FAILED) || complaints.starts_with("bwrap: ")
    }
}

/// Folders and files must be there before a sandbox is built around them.
fn check_places(bounds: Bounds<'_>) -> Result<(), String> {
    if !bounds.folder.is_absolute() || !bounds.folder.is_dir() {
        return Err(format!("{} is not an absolute path of a folder", bounds.folder.display()));
    }
    let missing = |place: &&PathBuf| !place.is_absolute() || !place.exists();
    match bounds.readable.iter().find(missing) {
        Some(place) => Err(format!("{} is not there, or not an absolute path", place.display())),
        None => Ok(()),
    }
}

/// The program at a path, or on the search path if it is a bare name.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
    };
    if name.components().count() > 1 {
        return std::path::absolute(name).ok().filter(executable);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(executable)
}

/// Limits are in whole seconds; a part of one counts as one.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}
