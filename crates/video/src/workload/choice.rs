//! What a worker needs for videos: the tools of this machine, the objects of the server, a place to work.
//!
//! A worker without ffmpeg serves everything else; that is told once, with the cure.

use std::path::{Path, PathBuf};

use crate::studio::{FetchRules, Studio};
use crate::tools::provider::Choice;
use crate::tools::{RunError, ToolOptions, Tools, Trial};
use anyhow::{Context as _, Result};
use clap::Args;
use divvy::Client;
use divvy::objects::{Objects, Reach};
use divvy_workload::confine;
use divvy_workload::console::values::Size;
use divvy_workload::{Scratch, WorkerContext};

use crate::command::local::is_installed;
use crate::command::objects::default_cache;
use crate::workload::settings::VideoSettings;

/// The folder for work in progress in the data folder.
pub(crate) const SCRATCH: &str = "scratch";

/// What workers are told about the tools for videos.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Video")]
pub(crate) struct VideoFlags {
    /// Take no video tasks
    #[arg(long)]
    pub(crate) no_video: bool,
    /// The ffmpeg to use [default: the first in PATH]
    #[arg(long, value_name = "PATH", env = "DIVVY_FFMPEG", hide_env_values = true)]
    pub(crate) ffmpeg: Option<PathBuf>,
    /// Folder for work in progress [default: in the data folder, or the
    /// system's]
    #[arg(long, value_name = "DIR", env = "DIVVY_SCRATCH", hide_env_values = true)]
    pub(crate) scratch: Option<PathBuf>,
    /// Folder for copies of sources [default: ~/.cache/divvy]
    #[arg(long, value_name = "DIR", env = "DIVVY_CACHE", hide_env_values = true)]
    pub(crate) cache: Option<PathBuf>,
    /// How large that may become [default: 20GB]
    #[arg(long, value_name = "SIZE", env = "DIVVY_CACHE_SIZE", hide_env_values = true)]
    pub(crate) cache_size: Option<Size>,
    /// Who writes subtitles: none, whisper or exec:PROGRAM [default: none]
    #[arg(long, value_name = "WHO", env = "DIVVY_SPEECH", hide_env_values = true)]
    pub(crate) speech: Option<Choice>,
    /// Who scans frames: none, open_nsfw or exec:PROGRAM [default: none]
    #[arg(long, value_name = "WHO", env = "DIVVY_SCANNER", hide_env_values = true)]
    pub(crate) scanner: Option<Choice>,
    /// Run ffmpeg even where it cannot be confined
    #[arg(long)]
    pub(crate) allow_unconfined: bool,
    /// What a trial of the tools found out, from the process that started this one
    #[arg(long, hide = true, value_name = "JSON")]
    pub(crate) tools_tried: Option<Trial>,
}

/// What a worker shall do about videos, flags over settings.
#[derive(Clone, Debug)]
pub(crate) struct VideoChoice {
    /// Whether it takes video tasks.
    pub(crate) enabled: bool,
    ffmpeg: Option<PathBuf>,
    scratch: Option<PathBuf>,
    cache: Option<PathBuf>,
    cache_size: Size,
    /// Who recognises speech.
    pub(crate) speech: Choice,
    /// Who scans frames.
    pub(crate) scanner: Choice,
    allow_unconfined: bool,
    tried: Option<Trial>,
}

impl VideoChoice {
    /// Flags over settings.
    pub(crate) fn new(flags: &VideoFlags, settings: &VideoSettings) -> Self {
        let path = |flag: &Option<PathBuf>, setting: &Option<PathBuf>| {
            flag.clone().or_else(|| setting.clone())
        };
        let who = |flag: &Option<Choice>, setting: &Choice| {
            flag.clone().unwrap_or_else(|| setting.clone())
        };
        Self {
            enabled: !flags.no_video && settings.enabled.value,
            ffmpeg: path(&flags.ffmpeg, &settings.ffmpeg.value),
            scratch: path(&flags.scratch, &settings.scratch.value),
            cache: path(&flags.cache, &settings.cache.value),
            cache_size: flags.cache_size.unwrap_or(settings.cache_size.value),
            speech: who(&flags.speech, &settings.speech.value),
            scanner: who(&flags.scanner, &settings.scanner.value),
            allow_unconfined: flags.allow_unconfined || settings.allow_unconfined.value,
            tried: flags.tools_tried.clone(),
        }
    }

    /// The program that makes clips.
    pub(crate) fn ffmpeg(&self) -> &Path {
        self.ffmpeg.as_deref().unwrap_or_else(|| Path::new("ffmpeg"))
    }

    /// Takes the ready-made providers that are installed here, where nothing else was chosen.
    pub(crate) fn use_installed_providers(&mut self) {
        for (choice, name) in [(&mut self.speech, "whisper"), (&mut self.scanner, "open_nsfw")] {
            if *choice == Choice::Nobody && is_installed(name) {
                *choice = Choice::Ready(name.to_owned());
            }
        }
    }

    /// Finds the tools of this machine and tries them out, and remembers what that found for the workers of
    /// [`VideoChoice::arguments`].
    pub(crate) async fn try_out(&mut self) -> Result<Tools, RunError> {
        let tools = self.find().await?;
        self.tried = Some(Trial::of(&tools, &self.options()?));
        Ok(tools)
    }

    /// Finds the tools of this machine and tries them out, unless who started this process has.
    pub(crate) async fn find(&self) -> Result<Tools, RunError> {
        Tools::find(&self.options()?).await
    }

    fn options(&self) -> Result<ToolOptions, RunError> {
        let program = std::env::current_exe().map_err(|error| RunError::Start {
            program: "divvy".to_owned(),
            problem: format!("cannot find its own file: {error}"),
        })?;
        Ok(ToolOptions {
            ffmpeg: self.ffmpeg.clone(),
            launcher: vec![program.into(), confine::WORD.into()],
            allow_unconfined: self.allow_unconfined,
            speech: self.speech.clone(),
            scanner: self.scanner.clone(),
            tried: self.tried.clone(),
        })
    }

    /// The same as flags of a worker of this machine that shares the data folder.
    pub(crate) fn arguments(&self, data: &Path) -> Vec<String> {
        if !self.enabled {
            return vec!["--no-video".to_owned()];
        }
        let text = |path: &Path| path.display().to_string();
        let scratch = self.scratch.clone().unwrap_or_else(|| scratch_of(data));
        let mut words = vec!["--scratch".to_owned(), text(&scratch)];
        for (flag, path) in [("--ffmpeg", &self.ffmpeg), ("--cache", &self.cache)] {
            words.extend(path.iter().flat_map(|path| [flag.to_owned(), text(path)]));
        }
        words.extend(["--cache-size".to_owned(), self.cache_size.to_string()]);
        for (flag, choice) in [("--speech", &self.speech), ("--scanner", &self.scanner)] {
            words.extend([flag.to_owned(), String::from(choice.clone())]);
        }
        words.extend(self.allow_unconfined.then(|| "--allow-unconfined".to_owned()));
        let tried = self.tried.iter().map(Trial::to_argument);
        words.extend(tried.flat_map(|tried| ["--tools-tried".to_owned(), tried]));
        words
    }

    /// A studio for a worker of this server.
    pub(crate) fn studio(
        &self,
        tools: Tools,
        client: Client,
        context: &WorkerContext<'_>,
    ) -> Result<Studio> {
        // Tools run in folders of their own, where a relative path would lead elsewhere.
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).with_context(|| format!("cannot use {}", path.display()))
        };
        let cache = absolute(self.cache.clone().unwrap_or_else(default_cache))?;
        let scratch = absolute(self.scratch.clone().unwrap_or_else(std::env::temp_dir))?;
        std::fs::create_dir_all(&scratch).with_context(|| {
            format!("cannot create {}; name another folder with --scratch", scratch.display())
        })?;
        let folder = context.objects.clone().map(absolute).transpose()?;
        let reach = Reach { folder, cache, cache_bytes: self.cache_size.0 };
        let rules = FetchRules { allow_private: context.allow_private, ..FetchRules::default() };
        let objects = Objects::at_server(&client, reach);
        let place = Scratch::open(&scratch, "video").with_context(|| {
            format!("cannot work in {}; name another folder with --scratch", scratch.display())
        })?;
        Ok(Studio::in_place(objects, tools, place).with_client(client).with_fetch_rules(rules))
    }
}

/// What these tools offer, for people.
pub(crate) fn offer(tools: &Tools) -> String {
    let interesting = ["sandbox=", "speech=", "scan="];
    let mut words = vec![format!("ffmpeg {}", tools.build())];
    let capabilities = tools.capabilities();
    let told = capabilities
        .iter()
        .filter(|text| interesting.iter().any(|start| text.starts_with(start)))
        .map(|text| text.replacen('=', " ", 1));
    words.extend(told);
    words.join(", ")
}

/// Where local workers of a server work unless told otherwise.
pub(crate) fn scratch_of(data: &Path) -> PathBuf {
    data.join(SCRATCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};
    use divvy_workload::Sources;

    fn choice(words: &[&str]) -> VideoChoice {
        let command = VideoFlags::augment_args(Command::new("work"));
        let matches = command.get_matches_from(["work"].iter().chain(words));
        let flags = VideoFlags::from_arg_matches(&matches).unwrap();
        let settings = VideoSettings::read(&Sources::new(None, |_| None)).unwrap();
        VideoChoice::new(&flags, &settings)
    }

    #[test]
    fn local_workers_get_what_was_said_and_a_folder_beside_the_data() {
        let said = ["--ffmpeg", "/opt/ffmpeg", "--speech", "exec:hear it", "--allow-unconfined"];
        let words = choice(&said).arguments(Path::new("d"));
        let again = choice(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(words[..2], ["--scratch", "d/scratch"]);
        assert_eq!(again.ffmpeg(), Path::new("/opt/ffmpeg"));
        assert_eq!(again.speech, Choice::Exec(vec!["hear".into(), "it".into()]));
        assert_eq!((again.scanner, again.allow_unconfined), (Choice::Nobody, true));
        assert_eq!(again.cache_size, Size(20_000_000_000));
        assert_eq!(choice(&["--no-video"]).arguments(Path::new("d")), ["--no-video"]);
    }
}
