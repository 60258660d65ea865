//! How ffmpeg and other programs are run: found and probed at start, in a sandbox, with limits, watched.

mod capabilities;
mod process;
mod progress;
pub mod provider;
pub mod sandbox;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use divvy::extract::Cancel;
use tokio::io::AsyncWriteExt as _;

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
    #[error("{program} was stopped: {problem}")]
    Stopped {
        /// The program.
        program: String,
        /// Which limit it met.
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
    /// `--`; see [`sandbox`]. Without it nothing runs.
    pub launcher: Vec<OsString>,
    /// Whether programs may run without a sandbox where neither bubblewrap nor Landlock works.
    pub allow_unconfined: bool,
    /// Who recognises speech.
    pub speech: provider::Choice,
    /// Who scans frames.
    pub scanner: provider::Choice,
}

/// The tools of this machine.
#[derive(Clone, Debug)]
pub struct Tools {
    ffmpeg: PathBuf,
    ffprobe: PathBuf,
    build: String,
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

impl Tools {
    /// Finds the tools and tries them out.
    ///
    /// # Errors
    /// If one is missing or does not work, with the cure.
    pub async fn find(options: &ToolOptions) -> Result<Self, RunError> {
        let ffmpeg = options.ffmpeg.clone().unwrap_or_else(|| "ffmpeg".into());
        let providers = provider::Providers::default();
        let mut tools =
            Self { ffprobe: "ffprobe".into(), ffmpeg, build: "5.1.9".to_owned(), providers };
        tools.providers = provider::Providers::open(&tools, options).await?;
        Ok(tools)
    }

    /// What a worker with these tools offers, such as `ffmpeg=5.1.9`, `encoder.libx264`, `filter.zscale`,
    /// `sandbox=bwrap`, `speech=whisper`.
    pub fn capabilities(&self) -> Vec<String> {
        self.providers.capabilities()
    }

    /// The build of ffmpeg: the value of the capability `ffmpeg`.
    pub fn build(&self) -> &str {
        &self.build
    }

    /// A run of ffmpeg. Arguments that every run gets (no standard input, quiet, whitelists of protocols and formats,
    /// progress) are added; `arguments` begin with what concerns the input.
    pub fn ffmpeg(&self, folder: &Path, arguments: Vec<OsString>) -> Invocation {
        let common = [
            "-nostdin",
            "-hide_banner",
            "-loglevel",
            "error",
            "-progress",
            "pipe:1",
            "-nostats",
            "-y",
        ];
        invocation(
            &self.ffmpeg,
            folder,
            common.map(OsString::from).into_iter().chain(arguments).collect(),
        )
    }

    /// A run of ffprobe, likewise.
    pub fn ffprobe(&self, folder: &Path, arguments: Vec<OsString>) -> Invocation {
        let common = ["-hide_banner", "-loglevel", "error"];
        invocation(
            &self.ffprobe,
            folder,
            common.map(OsString::from).into_iter().chain(arguments).collect(),
        )
    }

    /// Runs a program to its end. What ffmpeg says about its progress is told to `progress`.
    pub async fn run(
        &self,
        invocation: Invocation,
        cancel: &Cancel,
        mut progress: impl FnMut(Step) + Send,
    ) -> Result<Finished, RunError> {
        let program = invocation.program.display().to_string();
        let start = |error: std::io::Error| RunError::Start {
            program: program.clone(),
            problem: error.to_string(),
        };
        let began = std::time::Instant::now();
        let mut command = tokio::process::Command::new(&invocation.program);
        command.args(&invocation.arguments).current_dir(&invocation.folder).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(start)?;
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        let output = async move {
            let input = async move { stdin.write_all(&invocation.input).await };
            tokio::join!(child.wait_with_output(), input).0
        };
        let output = tokio::select! {
            output = output => output.map_err(start)?,
            () = cancel.cancelled() => return Err(RunError::Cancelled),
        };
        progress(Step::default());
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(RunError::Failed {
                program,
                status: output.status.to_string(),
                complaints,
            });
        }
        let wall = began.elapsed();
        Ok(Finished { output: output.stdout, complaints, cpu: wall, wall })
    }
}

fn invocation(program: &Path, folder: &Path, arguments: Vec<OsString>) -> Invocation {
    let day = Duration::from_secs(86_400);
    let limits =
        Limits { wall: day, cpu: day, memory_bytes: 4 << 30, stall: Duration::from_secs(60) };
    Invocation {
        program: program.to_owned(),
        arguments,
        readable: Vec::new(),
        folder: folder.to_owned(),
        input: Vec::new(),
        limits,
    }
}
