//! Speech recognition and content scan: separate programs that speak JSON lines.
//!
//! Decides who does it on this machine, what such a program may read, and how long it may take. What is said between
//! them is in `protocol`; the programs that come with this one are in `install`. A provider is asked who it is when the
//! worker starts, and runs confined like every other tool.

mod install;
mod protocol;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use divvy::extract::Cancel;
use serde::{Deserialize, Serialize};

pub use install::{InstallError, READY, Ready, folder, install, root};
pub use protocol::{About, Frame, Segment};

use super::{Finished, Invocation, Limits, RunError, ToolOptions, Tools};
use crate::results::Score;
use protocol::{Answers, Request};

/// What a provider may take besides what its work is worth.
const START: Duration = Duration::from_secs(300);
/// What a picture may take.
const FRAME: Duration = Duration::from_secs(5);
/// What a second of sound may take, in seconds.
const SOUND_FACTOR: u32 = 5;
/// Memory of a provider: its model and what it is run by.
const MEMORY_BYTES: u64 = 8 << 30;
/// Links that are followed from a program to what it really is.
const LINKS_MAX: usize = 16;
/// Where the system is, which every program may read anyway.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];

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

/// The providers of this machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Providers {
    speech: Option<Provider>,
    scanner: Option<Provider>,
}

impl Providers {
    /// Opens those that were chosen.
    pub(super) async fn open(tools: &Tools, options: &ToolOptions) -> Result<Self, RunError> {
        let said = |choice: &Choice| {
            let program = format!("the provider `{}`", String::from(choice.clone()));
            move |error: ProviderError| RunError::Start { program, problem: error.to_string() }
        };
        let (speech, scanner) = (&options.speech, &options.scanner);
        Ok(Self {
            speech: Provider::open(tools, speech).await.map_err(said(speech))?,
            scanner: Provider::open(tools, scanner).await.map_err(said(scanner))?,
        })
    }

    /// What they let a worker offer: `speech=…` and `scan=…`, each with the provider's identity.
    pub(super) fn capabilities(&self) -> Vec<String> {
        let offer = |name: &str, provider: &Option<Provider>| {
            provider.as_ref().map(|provider| format!("{name}={}", provider.about.identity()))
        };
        [offer("speech", &self.speech), offer("scan", &self.scanner)]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl Tools {
    /// Who recognises speech here, if anybody does.
    pub fn speech(&self) -> Option<&Provider> {
        self.providers.speech.as_ref()
    }

    /// Who scans frames here, if anybody does.
    pub fn scanner(&self) -> Option<&Provider> {
        self.providers.scanner.as_ref()
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

    /// Lets it listen to a WAV file of this length with 16 kHz, one channel and 16 bits.
    pub async fn transcribe(
        &self,
        tools: &Tools,
        work: &Path,
        sound: (&Path, Duration),
        language: &str,
        cancel: &Cancel,
    ) -> Result<Found<Segment>, ProviderError> {
        let request = Request::Transcribe { audio: sound.0.to_owned(), language };
        let limit = START + sound.1 * SOUND_FACTOR;
        let (answers, finished) =
            self.command.ask(tools, work, &request, &[sound.0.to_owned()], limit, cancel).await?;
        Ok(found(answers.about, answers.segments, &finished))
    }

    /// Lets it look at pictures in the folder `work`.
    pub async fn scan(
        &self,
        tools: &Tools,
        work: &Path,
        frames: &[Frame],
        cancel: &Cancel,
    ) -> Result<Found<Score>, ProviderError> {
        let limit = START + FRAME * u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let (answers, finished) =
            self.command.ask(tools, work, &Request::Scan { frames }, &[], limit, cancel).await?;
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
        let command = Command { program, arguments, readable };
        let cancel = Cancel::never();
        let asked = command.ask(tools, work.path(), &Request::Describe, &[], START, &cancel);
        let about = asked.await?.0.about;
        Ok(Self { command, about })
    }
}

impl Command {
    async fn ask(
        &self,
        tools: &Tools,
        work: &Path,
        request: &Request<'_>,
        sources: &[PathBuf],
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<(Answers, Finished), ProviderError> {
        let invocation = Invocation {
            program: self.program.clone(),
            arguments: self.arguments.clone(),
            readable: self.readable.iter().chain(sources).cloned().collect(),
            folder: work.to_owned(),
            input: request.line(),
            // It may be silent for as long as it may take: models do not speak while they load.
            limits: Limits { wall: limit, cpu: limit, memory_bytes: MEMORY_BYTES, stall: limit },
        };
        let finished = tools.run(invocation, cancel, |_| ()).await?;
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
    let Some(ready) = Ready::named(name) else {
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

/// What a program must read to run, beside the system: itself and what it is a link to, the installation that it is
/// part of (an interpreter has its library beside it, a virtual environment is a link to one elsewhere), and what its
/// arguments name.
fn readable(program: &Path, arguments: &[OsString]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut at = program.to_owned();
    for _ in 0..LINKS_MAX {
        paths.push(installation(&at).unwrap_or(&at).to_owned());
        let (Ok(target), Some(folder)) = (std::fs::read_link(&at), at.parent()) else { break };
        at = folder.join(target);
    }
    if let Ok(real) = program.canonicalize() {
        paths.push(installation(&real).unwrap_or(&real).to_owned());
    }
    let named = arguments.iter().map(PathBuf::from);
    paths.extend(named.filter(|path| path.is_absolute() && path.exists()));
    paths.retain(|path| !SYSTEM.iter().any(|system| path.starts_with(system)));
    paths.sort();
    paths.dedup();
    paths
}

/// The folder in which a program is installed, if it is `bin/…` beside a `lib`.
fn installation(program: &Path) -> Option<&Path> {
    let folder = program.parent().filter(|folder| folder.ends_with("bin"))?;
    folder.parent().filter(|whole| whole.parent().is_some() && whole.join("lib").is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::tasks::fixtures::options;

    const ABOUT: &str = r#"echo '{"provider":"p","version":"1","model":"m"}'"#;
    const DONE: &str = r#"echo '{"done":true}'"#;

    async fn tools() -> Tools {
        Tools::find(&options()).await.unwrap()
    }

    /// A provider that answers a request for work by running `body`, and its folder.
    async fn provider(tools: &Tools, body: &str) -> (tempfile::TempDir, Provider) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("provider.sh");
        let text = format!(
            "#!/bin/sh\nread request\ncase $request in *describe*) {ABOUT};{DONE};exit;; esac\n{body}\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let choice: Choice = format!("exec:{}", path.display()).parse().unwrap();
        (folder, Provider::open(tools, &choice).await.unwrap().unwrap())
    }

    async fn hear(tools: &Tools, provider: &Provider) -> Result<Found<Segment>, ProviderError> {
        let work = tempfile::tempdir().unwrap();
        let sound = work.path().join("sound.wav");
        std::fs::write(&sound, "RIFF").unwrap();
        let sound = (sound.as_path(), Duration::from_secs(1));
        provider.transcribe(tools, work.path(), sound, "en", &Cancel::never()).await
    }

    #[test]
    fn a_choice_is_written_as_it_is_read() {
        for text in ["none", "whisper", "exec:/opt/ear --model m"] {
            assert_eq!(String::from(text.parse::<Choice>().unwrap()), text);
        }
        for bad in ["", "exec:", "exec: "] {
            assert!(bad.parse::<Choice>().unwrap_err().contains("is no provider"), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_program_of_ones_own_is_asked_and_believed() {
        let tools = tools().await;
        let body = format!(
            r#"{ABOUT}; printf '{{"start_ms":0,"end_ms":900,"text":"%s"}}\n' "$(echo "$request" | tr -d '"' | cut -d, -f3)"; {DONE}"#
        );
        let (_folder, provider) = provider(&tools, &body).await;
        assert_eq!(provider.about().identity(), "p-m-1");
        let heard = hear(&tools, &provider).await.unwrap();
        assert_eq!(heard.items.len(), 1);
        assert_eq!(heard.items[0].text, "language:en}");
    }

    #[tokio::test]
    async fn every_way_to_fail_is_told_with_the_programs_words() {
        let tools = tools().await;
        for (body, reason) in [
            ("echo 'out of memory' >&2; exit 3".to_owned(), "out of memory"),
            (format!("{ABOUT}; echo 'lost the thread' >&2"), "before it was done; it says: lost"),
            (format!("echo hello; {DONE}"), "no answer: hello"),
            (DONE.to_owned(), "does not say who it is"),
            (format!("{ABOUT}; {DONE}; kill -9 $$"), "signal"),
            (
                format!(r#"{ABOUT}; echo '{{"at_ms":0,"label":"x","score":1}}'; {DONE}"#),
                "no answer to",
            ),
            (format!(r#"{ABOUT}; printf '\377\n'; {DONE}"#), "UTF-8"),
        ] {
            let (_folder, provider) = provider(&tools, &body).await;
            let error = hear(&tools, &provider).await.unwrap_err().to_string();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }

    #[tokio::test]
    async fn a_provider_that_is_not_there_is_named_with_the_cure() {
        let tools = tools().await;
        let open = async |text: &str| {
            let choice: Choice = text.parse().unwrap();
            Provider::open(&tools, &choice).await.map(|provider| provider.is_some())
        };
        assert_eq!(open("none").await, Ok(false));
        for (text, reason) in [
            ("vosk", "give `none`, `whisper`, `open_nsfw`, or exec:PROGRAM"),
            ("exec:no-such-program-here", "no program `no-such-program-here`"),
            ("exec:/no/such/program", "no program `/no/such/program`"),
            ("exec:cat", "it said what is no answer"),
        ] {
            let error = open(text).await.unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let place = tempfile::tempdir().unwrap();
        let error = Provider::in_folder(&tools, "whisper", place.path()).await.unwrap_err();
        assert!(error.to_string().ends_with("divvy video provider install whisper"), "{error}");
    }

    #[tokio::test]
    async fn what_tools_offer_names_provider_and_model() {
        let script = format!("{ABOUT}; {DONE}");
        let exec = Choice::Exec(["sh", "-c", &script].map(str::to_owned).to_vec());
        let with_speech = ToolOptions { speech: exec, ..options() };
        let tools = Tools::find(&with_speech).await.unwrap();
        assert!(tools.capabilities().contains(&"speech=p-m-1".to_owned()));
        assert!(tools.speech().is_some() && tools.scanner().is_none());
        let scanner = Choice::Exec(vec!["false".into()]);
        let error = Tools::find(&ToolOptions { scanner, ..options() }).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot start the provider `exec:false`"), "{error}");
    }

    #[test]
    fn a_program_may_read_its_installation_and_what_its_arguments_name() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let make = |path: &str| {
            std::fs::create_dir_all(place.join(path).parent().unwrap()).unwrap();
            std::fs::write(place.join(path), "").unwrap();
        };
        make("python/3.12/bin/python3.12");
        make("python/3.12/lib/library");
        make("venv/lib/packages");
        make("venv/bin/activate");
        make("own/script.py");
        symlink(place.join("python/3.12"), place.join("python/3")).unwrap();
        symlink("python3.12", place.join("python/3.12/bin/python3")).unwrap();
        symlink(place.join("python/3/bin/python3"), place.join("venv/bin/python")).unwrap();
        let script = place.join("own/script.py");
        let arguments = ["-I".into(), script.clone().into_os_string(), "/no/such".into()];
        let found = readable(&place.join("venv/bin/python"), &arguments);
        let expected = ["own/script.py", "python/3", "python/3.12", "venv"];
        assert_eq!(found, expected.map(|path| place.join(path)));
        assert_eq!(readable(&script, &[]), [script]);
        assert!(readable(Path::new("/usr/bin/env"), &[]).is_empty());
    }
}
