//! Settings and where each comes from: flags > `DIVVY_*` > the nearest `divvy.yaml` upwards > defaults.
//!
//! Flags of a command are applied by that command; this module knows the other three layers and the global flags.

pub(crate) mod file;
pub(crate) mod template;
pub(crate) mod video;

use std::borrow::Cow;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use divvy::Target;
use divvy_server::FileSections;
use serde_json::Value;

use crate::exit::Failure;
use crate::output::Color;
use crate::values::{Names, Prefetch, Programs, SlotCounts, Span, Workers};
use file::ConfigFile;
use video::VideoSettings;

/// Where a server listens unless told otherwise.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7171";
/// Where a server keeps its data unless told otherwise: beside the work, as a folder that can be seen.
pub(crate) const DATA_DEFAULT: &str = "divvy-data";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag on the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Environment(&'static str),
    /// The file.
    File(PathBuf),
    /// Nobody said anything.
    Default,
}

impl Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// The flags that every command has, and whether the environment gave them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalFlags {
    /// `--server`.
    pub(crate) server: Option<String>,
    /// `--token`.
    pub(crate) token: Option<String>,
    /// `--ca`.
    pub(crate) ca: Option<PathBuf>,
    /// `--color`.
    pub(crate) color: Option<Color>,
    /// `--config`.
    pub(crate) config: Option<PathBuf>,
}

/// Every setting.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    pub(crate) server: Setting<String>,
    pub(crate) token: Setting<Option<String>>,
    pub(crate) ca: Setting<Option<PathBuf>>,
    pub(crate) color: Setting<Color>,
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) data: Setting<PathBuf>,
    pub(crate) allowed_hosts: Setting<Names>,
    pub(crate) lease: Setting<Span>,
    pub(crate) retention_days: Setting<u32>,
    pub(crate) workers: Setting<Workers>,
    pub(crate) queues: Setting<Names>,
    pub(crate) capabilities: Setting<Names>,
    pub(crate) slots: Setting<SlotCounts>,
    pub(crate) prefetch: Setting<Option<Prefetch>>,
    pub(crate) exec: Setting<Programs>,
    pub(crate) allow_private: Setting<bool>,
    pub(crate) drain_timeout: Setting<Span>,
    /// What workers do about videos.
    pub(crate) video: VideoSettings,
    /// What the file says about scheduling.
    pub(crate) scheduling: FileSections,
}

/// A setting as text: key, value, origin.
pub(crate) type Row = (Cow<'static, str>, String, Origin);

impl Settings {
    /// The settings of this run.
    pub(crate) fn load(flags: &GlobalFlags) -> Result<Self> {
        let environment = |name: &str| std::env::var(name).ok();
        let current = std::env::current_dir()
            .map_err(|e| Failure::usage(format!("the current folder is gone: {e}")))?;
        let path = match &flags.config {
            Some(path) => Some(path.clone()),
            None => file::find(&current),
        };
        let file = path.as_deref().map(file::read).transpose()?.unwrap_or_default();
        Self::resolve(flags, &environment, path, file)
    }

    /// The settings from these layers.
    fn resolve(
        flags: &GlobalFlags,
        environment: &dyn Fn(&str) -> Option<String>,
        path: Option<PathBuf>,
        file: ConfigFile,
    ) -> Result<Self> {
        let from = Layers { environment, path: path.as_deref() };
        let scheduling = file.clone().sections();
        let ConfigFile { server, token, ca, color, serve, up, work, video, .. } = file;
        let listen_default = LISTEN_DEFAULT.parse().expect("the default address is an address");
        let settings = Self {
            server: from
                .pick("DIVVY_SERVER", server, format!("http://{LISTEN_DEFAULT}"))?
                .over("--server", flags.server.clone()),
            token: from
                .pick_option("DIVVY_TOKEN", token)?
                .over("--token", flags.token.clone().map(Some)),
            ca: from.pick_option("DIVVY_CA", ca)?.over("--ca", flags.ca.clone().map(Some)),
            color: from.pick("DIVVY_COLOR", color, Color::Auto)?.over("--color", flags.color),
            listen: from.pick("DIVVY_LISTEN", serve.listen, listen_default)?,
            data: from.pick("DIVVY_DATA", serve.data, PathBuf::from(DATA_DEFAULT))?,
            allowed_hosts: from.pick(
                "DIVVY_ALLOWED_HOSTS",
                serve.allowed_hosts,
                Names::default(),
            )?,
            lease: from.pick("DIVVY_LEASE", serve.lease, Span(Duration::from_secs(30)))?,
            retention_days: from.pick("DIVVY_RETENTION_DAYS", serve.retention_days, 7)?,
            workers: from.pick("DIVVY_WORKERS", up.workers, Workers::Auto)?,
            queues: from.pick("DIVVY_QUEUES", work.queues, Names::default())?,
            capabilities: from.pick("DIVVY_CAPS", work.capabilities, Names::default())?,
            slots: from.pick("DIVVY_SLOTS", work.slots, SlotCounts::default())?,
            prefetch: from.pick_option("DIVVY_PREFETCH", work.prefetch)?,
            exec: from.pick("DIVVY_EXEC", work.exec, Programs::default())?,
            allow_private: from.pick("DIVVY_ALLOW_PRIVATE", work.allow_private, false)?,
            drain_timeout: from.pick(
                "DIVVY_DRAIN_TIMEOUT",
                work.drain_timeout,
                Span(Duration::from_secs(30)),
            )?,
            video: VideoSettings::resolve(&from, video)?,
            file: path.clone(),
            scheduling,
        };
        Ok(settings)
    }

    /// The server that commands and workers talk to.
    pub(crate) fn target(&self) -> Target {
        let (server, token) = (self.server.value.clone(), self.token.value.clone());
        Target { server, token, ca: self.ca.value.clone() }
    }

    /// Every setting as text: key, value, origin. A token is never shown.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let shown = |token: &Option<String>| {
            if token.is_some() { "(set)".to_owned() } else { String::new() }
        };
        let ahead =
            |prefetch: &Option<Prefetch>| prefetch.map_or_else(String::new, |n| n.to_string());
        let mut rows = vec![
            row("server", &self.server, Clone::clone),
            row("token", &self.token, shown),
            row("ca", &self.ca, |file| {
                file.as_ref().map_or_else(String::new, |file| file.display().to_string())
            }),
            row("color", &self.color, Color::to_string),
            row("serve.listen", &self.listen, SocketAddr::to_string),
            row("serve.data", &self.data, |path| path.display().to_string()),
            row("serve.allowed_hosts", &self.allowed_hosts, Names::to_string),
            row("serve.lease", &self.lease, Span::to_string),
            row("serve.retention_days", &self.retention_days, u32::to_string),
            row("up.workers", &self.workers, Workers::to_string),
            row("work.queues", &self.queues, Names::to_string),
            row("work.capabilities", &self.capabilities, Names::to_string),
            row("work.slots", &self.slots, SlotCounts::to_string),
            row("work.prefetch", &self.prefetch, ahead),
            row("work.exec", &self.exec, Programs::to_string),
            row("work.allow_private", &self.allow_private, bool::to_string),
            row("work.drain_timeout", &self.drain_timeout, Span::to_string),
        ];
        rows.extend(self.video.rows());
        rows.extend(self.scheduling_rows());
        rows
    }

    /// The settings of scheduling that the file and the defaults give a server at its start.
    fn scheduling_rows(&self) -> Vec<Row> {
        let mut settings = divvy_types::Settings::default();
        self.scheduling.lay_over(&mut settings);
        let in_file = self.scheduling.names();
        let Ok(Value::Object(sections)) = serde_json::to_value(&settings) else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        for (name, section) in &sections {
            let origin = match &self.file {
                Some(path) if in_file.contains(&name.as_str()) => Origin::File(path.clone()),
                _ => Origin::Default,
            };
            leaves(name, section, &mut |key, value| {
                rows.push((key.to_owned().into(), value, origin.clone()));
            });
        }
        rows
    }
}

fn row<T>(key: &'static str, setting: &Setting<T>, text: impl Fn(&T) -> String) -> Row {
    (key.into(), text(&setting.value), setting.origin.clone())
}

/// Every value below `value` with its path. A list is one value.
pub(crate) fn leaves(path: &str, value: &Value, each: &mut dyn FnMut(&str, String)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                leaves(&format!("{path}.{name}"), value, each);
            }
        }
        Value::Array(list) => {
            let words: Vec<String> = list.iter().map(word).collect();
            each(path, words.join(","));
        }
        value => each(path, word(value)),
    }
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

impl<T> Setting<T> {
    /// This, unless a flag says otherwise. A flag whose value came from its variable keeps that origin.
    fn over(self, flag: &'static str, value: Option<T>) -> Self {
        match (value, &self.origin) {
            (Some(value), Origin::Environment(_)) if !was_typed(flag) => {
                Self { value, origin: self.origin }
            }
            (Some(value), _) => Self { value, origin: Origin::Flag(flag) },
            (None, _) => self,
        }
    }
}

/// Whether the flag itself is on the command line. The argument parser reads variables as if they were flags.
fn was_typed(flag: &str) -> bool {
    let with_value = format!("{flag}=");
    std::env::args().any(|word| word == flag || word.starts_with(&with_value))
}

struct Layers<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    path: Option<&'a std::path::Path>,
}

impl Layers<'_> {
    fn pick<T>(&self, name: &'static str, file: Option<T>, default: T) -> Result<Setting<T>>
    where
        T: FromStr,
        T::Err: Display,
    {
        let picked = self.pick_option(name, file)?;
        Ok(Setting { value: picked.value.unwrap_or(default), origin: picked.origin })
    }

    fn pick_option<T>(&self, name: &'static str, file: Option<T>) -> Result<Setting<Option<T>>>
    where
        T: FromStr,
        T::Err: Display,
    {
        if let Some(text) = (self.environment)(name).filter(|text| !text.is_empty()) {
            let value = text.parse().map_err(|e| {
                Failure::usage(format!("{name}: {e}"))
                    .cure(format!("correct the variable, or remove it: unset {name}"))
            })?;
            return Ok(Setting { value: Some(value), origin: Origin::Environment(name) });
        }
        match (file, self.path) {
            (Some(value), Some(path)) => {
                Ok(Setting { value: Some(value), origin: Origin::File(path.to_owned()) })
            }
            _ => Ok(Setting { value: None, origin: Origin::Default }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: &GlobalFlags, variables: &[(&str, &str)], yaml: &str) -> Result<Settings> {
        let environment = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let path = PathBuf::from("/project/divvy.yaml");
        let file = file::parse(&path, yaml)?;
        Settings::resolve(flags, &environment, Some(path), file)
    }

    #[test]
    fn flags_beat_variables_beat_the_file_beats_defaults() {
        let yaml = "server: http://file:1\nserve: {lease: 10s, retention_days: 3}\n";
        let flags = GlobalFlags { server: Some("http://flag:1".into()), ..GlobalFlags::default() };
        let settings =
            resolve(&flags, &[("DIVVY_SERVER", "http://env:1"), ("DIVVY_LEASE", "20s")], yaml)
                .unwrap();
        assert_eq!(settings.lease.value, Span(Duration::from_secs(20)));
        assert_eq!(settings.lease.origin, Origin::Environment("DIVVY_LEASE"));
        assert_eq!(settings.server.value, "http://flag:1");
        assert_eq!(settings.retention_days.value, 3);
        assert_eq!(settings.retention_days.origin, Origin::File("/project/divvy.yaml".into()));
        assert_eq!(
            (settings.workers.value, &settings.workers.origin),
            (Workers::Auto, &Origin::Default)
        );
    }

    #[test]
    fn a_bad_variable_is_named() {
        let error = resolve(&GlobalFlags::default(), &[("DIVVY_SLOTS", "cpu=x")], "").unwrap_err();
        assert!(error.to_string().starts_with("DIVVY_SLOTS: "), "{error}");
    }

    #[test]
    fn sections_of_scheduling_are_shown_with_their_origin() {
        let yaml = "limits: {api: {rate: 10/s}}\nload_balancing: {strategy: pull}\n";
        let settings = resolve(&GlobalFlags::default(), &[], yaml).unwrap();
        let rows = settings.rows();
        let row = |key: &str| {
            let (_, value, origin) = rows.iter().find(|(name, ..)| name == key).unwrap();
            (value.as_str(), origin.clone())
        };
        let file = Origin::File("/project/divvy.yaml".into());
        assert_eq!(row("limits.api.rate"), ("10/s", file.clone()));
        assert_eq!(row("load_balancing.strategy"), ("pull", file.clone()));
        assert_eq!(row("load_balancing.thresholds.busy_threshold"), ("5", file));
        assert_eq!(row("poison_after"), ("3", Origin::Default));
    }

    #[test]
    fn a_token_is_not_shown() {
        let settings = resolve(&GlobalFlags::default(), &[("DIVVY_TOKEN", "secret")], "").unwrap();
        assert!(settings.rows().iter().all(|(_, value, _)| !value.contains("secret")));
    }
}
