//! Speech recognition and content scan: separate programs that speak JSON lines.
//!
//! Decides who does it on this machine, what such a program may read, and how long it may take. What is said between
//! them is in `protocol`, what is heard of it before the end in `live`; the programs that come with this one are in
//! `ready`; who was chosen for what, and what follows if that one does not work, in `seat`. A provider is asked who
//! it is when the worker starts, and runs confined like every other tool.

mod live;
mod protocol;
mod ready;
mod seat;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use divvy::extract::Cancel;
use serde::{Deserialize, Serialize};

use divvy_workload::provider::{folder, readable};
pub use protocol::{About, Frame, Segment};
pub use ready::{READY, install, named};
pub(super) use seat::Providers;
pub(crate) use seat::UNUSABLE;

use super::{Finished, Invocation, Limits, RunError, Tools};
use crate::results::Score;
use live::Live;
use protocol::{Answers, Request};

/// What a provider may take besides what its work is worth.
const START: Duration = Duration::from_secs(300);
/// What a picture may take.
const FRAME: Duration = Duration::from_secs(5);
/// What a second of sound may take, in seconds.
const SOUND_FACTOR: u32 = 5;
/// How long it may say nothing while it uses no processor; ten times as long while it uses one.
const STALL: Duration = Duration::from_secs(120);
/// Memory of a provider: its model and what it is run by.
const MEMORY_BYTES: u64 = 8 << 30;

/// Who does it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Choice {
    /// Nobody: the part is skipped, and said to be.
    #[default]
    Nobody,
    /// A ready-made one that was installed, such as `whisper` or `open_nsfw`.
    Ready(String),
    /// A program with arguments.
    Exec(Vec<String>),
}

impl From<Choice> for String {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Nobody => "none".to_owned(),
            Choice::Ready(name) => name,
            Choice::Exec(words) => format!("exec:{}", words.join(" ")),
        }
    }
}

impl TryFrom<String> for Choice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("exec:") {
            _ if text == "none" => Ok(Self::Nobody),
            Some(command) if !command.trim().is_empty() => {
                Ok(Self::Exec(command.split_whitespace().map(str::to_owned).collect()))
            }
            None if !text.is_empty() => Ok(Self::Ready(text.to_owned())),
            _ => Err(format!(
                "`{text}` is no provider; give `none`, the name of one that is installed, or exec:PROGRAM"
            )),
        }
    }
}

/// A provider that has said who it is.
#[derive(Clone, Debug)]
pub struct Provider {
    command: Command,
    about: About,
}

/// How a provider is run.
#[derive(Clone, Debug)]
struct Command {
    program: PathBuf,
    arguments: Vec<OsString>,
    readable: Vec<PathBuf>,
    stall: Duration,
}

/// What is to be done for a request.
struct Errand<'a> {
    request: Request<'a>,
    /// The folder that it works in.
    work: &'a Path,
    /// What it may read besides.
    source: Option<&'a Path>,
    limit: Duration,
    /// How much there is to do: milliseconds of sound, or frames.
    total: u64,
}

/// Why a provider does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// No such ready-made provider.
    #[error("there is none of this name; give `none`, {known}, or exec:PROGRAM")]
    Unknown {
        /// Which there are.
        known: String,
    },
    /// A ready-made one that is not installed.
    #[error(
        "it is not installed in {folder}, or not in this version; divvy video provider install {name}"
    )]
    NotInstalled {
        /// Its name.
        name: String,
        /// Where it should be.
        folder: String,
    },
    /// A program that is not there.
    #[error("there is no program `{program}`; give its path, or put it on the path")]
    NoProgram {
        /// The program.
        program: String,
    },
    /// It is not the one that the worker offers any more.
    #[error(
        "it calls itself {now}, but was {then} when the worker started; start the worker again"
    )]
    Changed {
        /// Who it is.
        now: String,
        /// Who it was.
        then: String,
    },
    /// It did not answer as it should.
    #[error("{problem}{words}")]
    Answer {
        /// What is wrong with its answer.
        problem: String,
        /// The end of what it complained about, if it did.
        words: String,
    },
    /// It did not run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What a provider found, and what that cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<T> {
    /// Who found it, as it says itself.
    pub about: About,
    /// What was found.
    pub items: Vec<T>,
    /// Time on processors.
    pub cpu: Duration,
    /// Time on the clock.
    pub wall: Duration,
}

impl Provider {
    /// Finds a provider and asks it who it is.
    ///
    /// # Errors
    /// If it is not there or does not answer, with the cure.
    pub async fn open(tools: &Tools, choice: &Choice) -> Result<Option<Self>, ProviderError> {
        let (program, arguments) = match choice {
            Choice::Nobody => return Ok(None),
            Choice::Ready(name) => ready(name, &folder(name))?,
            Choice::Exec(words) => exec(words)?,
        };
        Self::of(tools, program, arguments).await.map(Some)
    }

    /// A ready-made provider that is installed in this folder.
    ///
    /// # Errors
    /// The same as of [`Provider::open`].
    pub async fn in_folder(
        tools: &Tools,
        name: &str,
        folder: &Path,
    ) -> Result<Self, ProviderError> {
        let (program, arguments) = ready(name, folder)?;
        Self::of(tools, program, arguments).await
    }

    /// Who it is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Lets it listen to a WAV file of this length with 16 kHz, one channel and 16 bits. How many milliseconds of how
    /// many it has heard is told to `progress`, at most once a second.
    pub async fn transcribe(
        &self,
        tools: &Tools,
        work: &Path,
        sound: (&Path, Duration),
        language: &str,
        cancel: &Cancel,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Found<Segment>, ProviderError> {
        let (file, length) = sound;
        let errand = Errand {
            request: Request::Transcribe { audio: file.to_owned(), language },
            work,
            source: Some(file),
            limit: sound_limit(length),
            total: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
        };
        let (answers, finished) = self.ask(tools, &errand, cancel, progress).await?;
        Ok(found(answers.about, answers.segments, &finished))
    }

    /// Lets it look at pictures in the folder `work`. How many of how many it has seen is told to `progress`, likewise.
    pub async fn scan(
        &self,
        tools: &Tools,
        work: &Path,
        frames: &[Frame],
        cancel: &Cancel,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Found<Score>, ProviderError> {
        let total = frames.len() as u64;
        let (request, limit) = (Request::Scan { frames }, frames_limit(total));
        let errand = Errand { request, work, source: None, limit, total };
        let (answers, finished) = self.ask(tools, &errand, cancel, progress).await?;
        Ok(found(answers.about, answers.scores, &finished))
    }

    async fn of(
        tools: &Tools,
        program: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<Self, ProviderError> {
        let work = tempfile::tempdir().map_err(|error| RunError::Start {
            program: program.display().to_string(),
            problem: error.to_string(),
        })?;
        let readable = readable(&program, &arguments);
        let command = Command { program, arguments, readable, stall: STALL };
        let (request, work) = (Request::Describe, work.path());
        let errand = Errand { request, work, source: None, limit: START, total: 0 };
        let (answers, _) = command.ask(tools, &errand, &Cancel::never(), |_, _| ()).await?;
        let about = answers.about;
        Ok(Self { command, about })
    }

    async fn ask(
        &self,
        tools: &Tools,
        errand: &Errand<'_>,
        cancel: &Cancel,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(Answers, Finished), ProviderError> {
        let (answers, finished) = self.command.ask(tools, errand, cancel, progress).await?;
        // Its result would be recorded under the name of another one.
        if answers.about.identity() != self.about.identity() {
            let (now, then) = (answers.about.to_string(), self.about.to_string());
            return Err(ProviderError::Changed { now, then });
        }
        Ok((answers, finished))
    }
}

/// How long a provider may take for so much sound.
pub(crate) fn sound_limit(length: Duration) -> Duration {
    START.saturating_add(length.saturating_mul(SOUND_FACTOR))
}

/// How long a provider may take for so many pictures.
pub(crate) fn frames_limit(frames: u64) -> Duration {
    START.saturating_add(FRAME.saturating_mul(u32::try_from(frames).unwrap_or(u32::MAX)))
}

impl Command {
    async fn ask(
        &self,
        tools: &Tools,
        errand: &Errand<'_>,
        cancel: &Cancel,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<(Answers, Finished), ProviderError> {
        let Errand { request, work, source, limit, total } = errand;
        let invocation = Invocation {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            readable: self
                .readable
                .iter()
                .map(PathBuf::as_path)
                .chain(*source)
                .map(Into::into)
                .collect(),
            folder: work.to_path_buf(),
            input: request.line(),
            limits: Limits {
                wall: *limit,
                cpu: *limit,
                memory_bytes: MEMORY_BYTES,
                stall: self.stall.min(*limit),
            },
        };
        let mut live = Live::new(request, *total, progress);
        let heard = |piece: &[u8]| live.take(piece, Instant::now());
        let finished = tools.run_heard(invocation, cancel, heard).await?;
        let answers = request.read(&finished.output).map_err(|problem| {
            let words = finished.complaints.trim();
            let words =
                if words.is_empty() { String::new() } else { format!("; it says: {words}") };
            ProviderError::Answer { problem, words }
        })?;
        Ok((answers, finished))
    }
}

fn found<T>(about: About, items: Vec<T>, finished: &Finished) -> Found<T> {
    Found { about, items, cpu: finished.cpu, wall: finished.wall }
}

fn ready(name: &str, folder: &Path) -> Result<(PathBuf, Vec<OsString>), ProviderError> {
    let Some(ready) = named(name) else {
        let known = READY.map(|ready| format!("`{}`", ready.name)).join(", ");
        return Err(ProviderError::Unknown { known });
    };
    if !ready.is_in(folder) {
        let folder = folder.display().to_string();
        return Err(ProviderError::NotInstalled { name: name.to_owned(), folder });
    }
    Ok(ready.command(&std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())))
}

/// The program and its arguments with absolute paths, because it works in another folder.
fn exec(words: &[String]) -> Result<(PathBuf, Vec<OsString>), ProviderError> {
    let absolute = |word: &String| match std::path::absolute(word) {
        Ok(path) if word.contains('/') && path.exists() => path.into_os_string(),
        _ => word.into(),
    };
    let name = words.first().map_or("", String::as_str);
    let places = std::env::var_os("PATH").unwrap_or_default();
    let program = if name.contains('/') {
        std::path::absolute(name).ok().filter(|path| path.is_file())
    } else {
        std::env::split_paths(&places).map(|place| place.join(name)).find(|path| path.is_file())
    };
    let program = program.ok_or_else(|| ProviderError::NoProgram { program: name.to_owned() })?;
    Ok((program, words.iter().skip(1).map(absolute).collect()))
}
