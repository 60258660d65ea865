//! How ffmpeg and other programs are run: found and probed at start, in a sandbox, with limits, watched.
//!
//! Reading order: [`sandbox`] (what a program may see), `process` (a run), `watchdog` and `progress` (what is watched),
//! `arguments` (what every ffmpeg gets), `capabilities` (what is tried at start), [`provider`] (speech and scan).

mod arguments;
mod capabilities;
mod process;
mod progress;
pub mod provider;
#[cfg(test)]
pub(crate) mod remembered;
mod trial;
mod watchdog;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::extract::Cancel;

pub use divvy_workload::confine as sandbox;
use sandbox::{Launcher, Level, find_program};
pub use trial::Trial;

/// The launcher that is looked for if none is named.
const LAUNCHER: &str = "divvy-confine";

/// Address space of a program whose caller has no opinion: three rungs of the largest source that is accepted.
const MEMORY_BYTES: u64 = 8 << 30;

/// What the message of [`RunError::Stopped`] has and no other.
pub(crate) const STOPPED: &str = " was stopped: ";

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Files and folders that it may read, besides those of the system.
    pub readable: Vec<PathBuf>,
    /// Its working folder, the only place where it may write.
    pub folder: PathBuf,
    /// What is given to it on standard input.
    pub input: Vec<u8>,
    /// How far it may go.
    pub limits: Limits,
}

/// How far a program may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time on the clock.
    pub wall: Duration,
    /// Time on processors.
    pub cpu: Duration,
    /// Memory, as address space where nothing better is at hand.
    pub memory_bytes: u64,
    /// Time without any progress.
    pub stall: Duration,
}

/// A program that ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What it printed, if that was not taken as progress.
    pub output: Vec<u8>,
    /// The end of what it complained about.
    pub complaints: String,
    /// Time on processors, of its children too.
    pub cpu: Duration,
    /// Time on the clock.
    pub wall: Duration,
}

/// Why a program did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not be started.
    #[error("cannot start {program}: {problem}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        problem: String,
    },
    /// It ended with an error of its own.
    #[error("{program} ended with {status}: {complaints}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit code or signal.
        status: String,
        /// The end of what it complained about.
        complaints: String,
    },
    /// It took too long, or made no progress.
    #[error("{program}{STOPPED}{problem}")]
    Stopped {
        /// The program.
        program: String,
        /// Which limit it met.
        problem: String,
    },
    /// There is too little room on the disk for what it writes.
    #[error("{program} was stopped: the disk of {} is nearly full", place.display())]
    NoRoom {
        /// The program.
        program: String,
        /// Where it wrote.
        place: PathBuf,
    },
    /// A program that is needed is not installed.
    #[error("{program} is not installed: {cure}")]
    Missing {
        /// The program.
        program: String,
        /// How to get it.
        cure: String,
    },
    /// The ffmpeg of this machine does not do what it should.
    #[error(
        "the ffmpeg of this machine does not work: {problem}; install it anew (`apt-get install ffmpeg`)"
    )]
    Broken {
        /// What went wrong in a trial.
        problem: String,
    },
    /// No sandbox works on this machine.
    #[error(
        "no sandbox works here, and media from strangers must not be opened without one ({problem}); \
         install bubblewrap (`apt-get install bubblewrap`), or allow programs to run unconfined"
    )]
    Unconfined {
        /// What was tried, with its result.
        problem: String,
    },
    /// The attempt shall stop.
    #[error("stopped because the task was asked to stop")]
    Cancelled,
}

/// How tools are found and confined.
#[derive(Clone, Debug, Default)]
pub struct ToolOptions {
    /// The ffmpeg to use instead of the first one on the path; its ffprobe is looked for beside it, then on the path.
    pub ffmpeg: Option<PathBuf>,
    /// The program, and its first arguments, that confines itself and then becomes the program that is named behind
    /// the orders; see [`sandbox::enter`]. Without it, `divvy-confine` beside this program or on the path.
    pub launcher: Vec<OsString>,
    /// Whether programs may run without a sandbox where neither bubblewrap nor Landlock works.
    pub allow_unconfined: bool,
    /// Who recognises speech.
    pub speech: provider::Choice,
    /// Who scans frames.
    pub scanner: provider::Choice,
    /// What a trial on this machine found out a moment ago. It is believed if it was of the very same programs.
    pub tried: Option<Trial>,
}

/// The tools of this machine.
#[derive(Clone, Debug)]
pub struct Tools {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
    build: String,
    capabilities: Vec<String>,
    launcher: Launcher,
    providers: provider::Providers,
}

/// What ffmpeg says while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Frames that it has written.
    pub frames: u64,
    /// How far it is in the output, in microseconds.
    pub out_us: u64,
}

/// What a program says while it runs.
enum Said<'a> {
    /// How far ffmpeg is.
    Step(Step),
    /// What any other program has just printed, cut anywhere.
    Printed(&'a [u8]),
}

impl Tools {
    /// Finds the tools and tries them out, by encoding a few frames in the best sandbox that works here.
    ///
    /// # Errors
    /// If one is missing or does not work, with the cure. A provider that does not work is no such error: see
    /// [`Tools::problems`].
    pub async fn find(options: &ToolOptions) -> Result<Self, RunError> {
        let mut tools = Self::untried(options)?;
        match options.tried.as_ref().filter(|trial| trial.is_of(&tools, options)) {
            Some(trial) => trial.apply(&mut tools),
            None => tools.try_out(options).await?,
        }
        tools.providers = provider::Providers::open(&tools, options).await;
        Ok(tools)
    }

    async fn try_out(&mut self, options: &ToolOptions) -> Result<(), RunError> {
        let allowed = options.allow_unconfined;
        let (level, version) =
            capabilities::choose_level(&self.launcher, &self.ffmpeg, allowed).await?;
        self.launcher.level = level;
        let found = capabilities::explore(self, &version).await?;
        self.build = found.build;
        self.capabilities = found.capabilities;
        Ok(())
    }

    /// Where the programs are; nothing is known of what they can do.
    fn untried(options: &ToolOptions) -> Result<Self, RunError> {
        let ffmpeg = find_ffmpeg(options)?;
        Ok(Self {
            ffprobe: find_ffprobe(&ffmpeg)?,
            ffmpeg,
            build: String::new(),
            capabilities: Vec::new(),
            launcher: Launcher {
                command: find_launcher(options)?,
                bwrap: find_program("bwrap".as_ref()),
                level: Level::None,
            },
            providers: provider::Providers::default(),
        })
    }

    /// The same tools, confined in another way; whether that works here is not tried.
    pub fn confined_by(mut self, level: Level) -> Self {
        self.launcher.level = level;
        self
    }

    /// How programs are confined.
    pub fn sandbox(&self) -> Level {
        self.launcher.level
    }

    /// What a worker with these tools offers, such as `ffmpeg=5.1.9-x264.164r3095`, `encoder.libx264`, `filter.zscale`,
    /// `sandbox=bwrap`, `speech=whisper`.
    pub fn capabilities(&self) -> Vec<String> {
        let mut all = vec![format!("ffmpeg={}", self.build), format!("sandbox={}", self.sandbox())];
        all.extend(self.capabilities.iter().cloned());
        all.extend(self.providers.capabilities());
        all
    }

    /// The build of ffmpeg: the value of the capability `ffmpeg`.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// A run of ffmpeg. What every run gets (no standard input, quiet, progress, and before each `-i` the protocols and
    /// formats that it may be opened with) is added, and inputs by absolute path may be read. An input that is not one
    /// of the usual containers needs its format named with `-f`; a list of files, or pictures by a pattern, needs what
    /// it leads to among [`Invocation::readable`], unless that is in `folder`.
    pub fn ffmpeg(&self, folder: &Path, arguments: Vec<OsString>) -> Invocation {
        let prepared = arguments::ffmpeg(arguments);
        invocation(&self.ffmpeg, folder, prepared.arguments, prepared.readable)
    }

    /// A run of ffprobe, likewise. Without an `-i` its last argument is the input.
    pub fn ffprobe(&self, folder: &Path, arguments: Vec<OsString>) -> Invocation {
        let prepared = arguments::ffprobe(arguments);
        invocation(&self.ffprobe, folder, prepared.arguments, prepared.readable)
    }

    /// Runs a program to its end, in the sandbox. What ffmpeg says about its progress is told to `progress`, at most
    /// once a second, and the last of it always. When the future is dropped the program is ended.
    ///
    /// # Errors
    /// If it cannot be started, fails, meets a limit, or shall stop.
    pub async fn run(
        &self,
        invocation: Invocation,
        cancel: &Cancel,
        mut progress: impl FnMut(Step) + Send,
    ) -> Result<Finished, RunError> {
        let tell = |said: Said<'_>| {
            if let Said::Step(step) = said {
                progress(step);
            }
        };
        self.launch(invocation, cancel, tell).await
    }

    /// Runs a program that is not ffmpeg; what it prints is told to `printed` at once, besides being in the end.
    async fn run_heard(
        &self,
        invocation: Invocation,
        cancel: &Cancel,
        mut printed: impl FnMut(&[u8]) + Send,
    ) -> Result<Finished, RunError> {
        let tell = |said: Said<'_>| {
            if let Said::Printed(piece) = said {
                printed(piece);
            }
        };
        self.launch(invocation, cancel, tell).await
    }

    async fn launch(
        &self,
        invocation: Invocation,
        cancel: &Cancel,
        mut tell: impl FnMut(Said<'_>) + Send,
    ) -> Result<Finished, RunError> {
        if cancel.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        process::run(&self.launcher, invocation, cancel.cancelled(), &mut tell).await
    }
}

fn find_ffmpeg(options: &ToolOptions) -> Result<PathBuf, RunError> {
    let named = options.ffmpeg.as_deref();
    let wanted = named.unwrap_or_else(|| Path::new("ffmpeg"));
    find_program(wanted).ok_or_else(|| RunError::Missing {
        program: wanted.display().to_string(),
        cure: match named {
            Some(_) => "give the path of a program that can be executed, or none".to_owned(),
            None => "install it with `apt-get install ffmpeg`, or give its path".to_owned(),
        },
    })
}

fn find_ffprobe(ffmpeg: &Path) -> Result<PathBuf, RunError> {
    let beside = ffmpeg.with_file_name("ffprobe");
    let found = find_program(&beside);
    found.or_else(|| find_program("ffprobe".as_ref())).ok_or_else(|| RunError::Missing {
        program: "ffprobe".to_owned(),
        cure: "it comes with ffmpeg: install it with `apt-get install ffmpeg`".to_owned(),
    })
}

/// The launcher that is named, or the one that was built with this library: beside this program, or one folder above
/// (programs that test the library lie in a folder of their own), or on the path.
fn find_launcher(options: &ToolOptions) -> Result<Vec<OsString>, RunError> {
    if !options.launcher.is_empty() {
        return Ok(options.launcher.clone());
    }
    let own = std::env::current_exe().ok();
    let near = own.iter().flat_map(|own| own.ancestors().skip(1).take(2));
    let found = near.map(|folder| folder.join(LAUNCHER)).find_map(|path| find_program(&path));
    let found = found.or_else(|| find_program(LAUNCHER.as_ref()));
    found.map(|path| vec![path.into()]).ok_or_else(|| RunError::Missing {
        program: LAUNCHER.to_owned(),
        cure: "name a launcher, or put this one beside the program".to_owned(),
    })
}

fn invocation(
    program: &Path,
    folder: &Path,
    arguments: Vec<OsString>,
    readable: Vec<PathBuf>,
) -> Invocation {
    let day = Duration::from_secs(86_400);
    let stall = Duration::from_secs(60);
    let limits = Limits { wall: day, cpu: day, memory_bytes: MEMORY_BYTES, stall };
    Invocation {
        program: program.to_owned(),
        arguments,
        readable,
        folder: folder.to_owned(),
        input: Vec::new(),
        limits,
    }
}
