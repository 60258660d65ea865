//! Settings and where each comes from: flags > `DIVVY_*` > the nearest `divvy.yaml` upwards > defaults.
//!
//! Flags of a command are applied by that command; this module knows the other three layers and the global flags.

pub(crate) mod file;
pub(crate) mod template;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use divvy::Target;
use divvy_server::FileSections;
use divvy_workload::settings::{Origin, Row, Setting, Sources};
use serde_json::Value;

use crate::exit::Failure;
use crate::output::Color;
use crate::values::{Names, Prefetch, Programs, SlotCounts, Span, Workers};
use crate::workloads::Workloads;
use file::ConfigFile;

/// Where a server listens unless told otherwise.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7171";
/// Where a server keeps its data unless told otherwise: beside the work, as a folder that can be seen.
pub(crate) const DATA_DEFAULT: &str = "divvy-data";

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
    pub(crate) grace: Setting<Span>,
    pub(crate) retention_days: Setting<u32>,
    pub(crate) workers: Setting<Workers>,
    pub(crate) queues: Setting<Names>,
    pub(crate) capabilities: Setting<Names>,
    pub(crate) slots: Setting<SlotCounts>,
    pub(crate) prefetch: Setting<Option<Prefetch>>,
    pub(crate) exec: Setting<Programs>,
    pub(crate) allow_private: Setting<bool>,
    pub(crate) drain_timeout: Setting<Span>,
    /// What the file says about scheduling.
    pub(crate) scheduling: FileSections,
    /// The settings of the workloads, as text.
    theirs: Vec<Row>,
    /// Where settings come from, for those who read their own.
    pub(crate) sources: Sources,
}

impl Settings {
    /// The settings of this run.
    pub(crate) fn load(flags: &GlobalFlags, workloads: &Workloads) -> Result<Self> {
        let current = std::env::current_dir()
            .map_err(|e| Failure::usage(format!("the current folder is gone: {e}")))?;
        let path = match &flags.config {
            Some(path) => Some(path.clone()),
            None => file::find(&current),
        };
        let text =
            path.map(|path| Ok::<_, anyhow::Error>((file::text(&path)?, path))).transpose()?;
        let sources = Sources::of_process(text.map(|(text, path)| (path, text)));
        Self::resolve(flags, sources, workloads)
    }

    /// The settings from these sources.
    fn resolve(flags: &GlobalFlags, from: Sources, workloads: &Workloads) -> Result<Self> {
        let file = file::read(&from, workloads)?;
        let scheduling = file.clone().sections();
        let ConfigFile { server, token, ca, color, serve, up, work, .. } = file;
        let listen_default = LISTEN_DEFAULT.parse().expect("the default address is an address");
        let settings = Self {
            server: over(
                from.pick("DIVVY_SERVER", server, format!("http://{LISTEN_DEFAULT}"))?,
                "--server",
                flags.server.clone(),
            ),
            token: over(
                from.pick_option("DIVVY_TOKEN", token)?,
                "--token",
                flags.token.clone().map(Some),
            ),
            ca: over(from.pick_option("DIVVY_CA", ca)?, "--ca", flags.ca.clone().map(Some)),
            color: over(from.pick("DIVVY_COLOR", color, Color::Auto)?, "--color", flags.color),
            listen: from.pick("DIVVY_LISTEN", serve.listen, listen_default)?,
            data: from.pick("DIVVY_DATA", serve.data, PathBuf::from(DATA_DEFAULT))?,
            allowed_hosts: from.pick(
                "DIVVY_ALLOWED_HOSTS",
                serve.allowed_hosts,
                Names::default(),
            )?,
            lease: from.pick("DIVVY_LEASE", serve.lease, Span(Duration::from_secs(30)))?,
            grace: from.pick("DIVVY_GRACE", serve.grace, Span(Duration::from_secs(10)))?,
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
            theirs: workloads.settings(&from)?,
            file: from.path().map(ToOwned::to_owned),
            scheduling,
            sources: from,
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
            Row::new("server", &self.server, Clone::clone),
            Row::new("token", &self.token, shown),
            Row::path("ca", &self.ca),
            Row::new("color", &self.color, Color::to_string),
            Row::new("serve.listen", &self.listen, SocketAddr::to_string),
            Row::new("serve.data", &self.data, |path| path.display().to_string()),
            Row::new("serve.allowed_hosts", &self.allowed_hosts, Names::to_string),
            Row::new("serve.lease", &self.lease, Span::to_string),
            Row::new("serve.grace", &self.grace, Span::to_string),
            Row::new("serve.retention_days", &self.retention_days, u32::to_string),
            Row::new("up.workers", &self.workers, Workers::to_string),
            Row::new("work.queues", &self.queues, Names::to_string),
            Row::new("work.capabilities", &self.capabilities, Names::to_string),
            Row::new("work.slots", &self.slots, SlotCounts::to_string),
            Row::new("work.prefetch", &self.prefetch, ahead),
            Row::new("work.exec", &self.exec, Programs::to_string),
            Row::new("work.allow_private", &self.allow_private, bool::to_string),
            Row::new("work.drain_timeout", &self.drain_timeout, Span::to_string),
        ];
        rows.extend(self.theirs.iter().cloned());
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
                rows.push(Row { key: key.to_owned().into(), value, origin: origin.clone() });
            });
        }
        rows
    }
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

/// A setting, unless a flag says otherwise. A flag whose value came from its variable keeps that origin.
fn over<T>(setting: Setting<T>, flag: &'static str, value: Option<T>) -> Setting<T> {
    match (value, &setting.origin) {
        (Some(value), Origin::Environment(_)) if !was_typed(flag) => {
            Setting { value, origin: setting.origin }
        }
        (Some(value), _) => Setting { value, origin: Origin::Flag(flag) },
        (None, _) => setting,
    }
}

/// Whether the flag itself is on the command line. The argument parser reads variables as if they were flags.
fn was_typed(flag: &str) -> bool {
    let with_value = format!("{flag}=");
    std::env::args().any(|word| word == flag || word.starts_with(&with_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(flags: &GlobalFlags, variables: &[(&str, &str)], yaml: &str) -> Result<Settings> {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let environment = move |name: &str| {
            variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
        };
        let file = Some(("/project/divvy.yaml".into(), yaml.to_owned()));
        let none = Workloads::new(Vec::new());
        Settings::resolve(flags, Sources::new(file, environment), &none)
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
            let row = rows.iter().find(|row| row.key == key).unwrap();
            (row.value.as_str(), row.origin.clone())
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
        assert!(settings.rows().iter().all(|row| !row.value.contains("secret")));
    }
}
