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
use crate::values::{
    Addresses, Names, Prefetch, ProgramLimits, Programs, SlotCounts, Span, Workers,
};
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
    pub(crate) tls_cert: Setting<Option<PathBuf>>,
    pub(crate) tls_key: Setting<Option<PathBuf>>,
    pub(crate) otlp: Setting<Option<String>>,
    pub(crate) lease: Setting<Span>,
    pub(crate) grace: Setting<Span>,
    pub(crate) retention_days: Setting<u32>,
    pub(crate) workers: Setting<Workers>,
    pub(crate) queues: Setting<Names>,
    pub(crate) capabilities: Setting<Names>,
    pub(crate) slots: Setting<SlotCounts>,
    pub(crate) prefetch: Setting<Option<Prefetch>>,
    pub(crate) exec: Setting<Programs>,
    pub(crate) exec_args: Setting<Names>,
    pub(crate) exec_limits: Setting<ProgramLimits>,
    pub(crate) allow_private: Setting<bool>,
    pub(crate) allow_address: Setting<Addresses>,
    pub(crate) drain_timeout: Setting<Span>,
    /// What the file says about scheduling.
    pub(crate) scheduling: FileSections,
    /// The settings of the workloads, as text.
    theirs: Vec<Row>,
    /// The server and the token that the file names, whatever comes before it.
    of_file: (Option<String>, Option<String>),
    /// Where settings come from, for those who read their own.
    pub(crate) sources: Sources,
}

impl Settings {
    /// The settings of this run.
    pub(crate) fn load(flags: &GlobalFlags, workloads: &Workloads) -> Result<Self> {
        Self::resolve(flags, Self::sources(flags)?, workloads)
    }

    /// The same for a command that only asks a server, and what is wrong with the file apart from that.
    pub(crate) fn load_for_client(
        flags: &GlobalFlags,
        workloads: &Workloads,
    ) -> Result<(Self, Option<anyhow::Error>)> {
        Self::resolve_for_client(flags, Self::sources(flags)?, workloads)
    }

    fn sources(flags: &GlobalFlags) -> Result<Sources> {
        let current = std::env::current_dir()
            .map_err(|e| Failure::usage(format!("the current folder is gone: {e}")))?;
        let path = match &flags.config {
            Some(path) => Some(path.clone()),
            None => file::find(&current),
        };
        if let (Some(path), None) = (&path, &flags.config) {
            file::check_owner(path)?;
        }
        let text =
            path.map(|path| Ok::<_, anyhow::Error>((file::text(&path)?, path))).transpose()?;
        Ok(Sources::of_process(text.map(|(text, path)| (path, text))))
    }

    /// The settings from these sources.
    fn resolve(flags: &GlobalFlags, from: Sources, workloads: &Workloads) -> Result<Self> {
        let file = file::read(&from, workloads)?;
        let theirs = workloads.settings(&from)?;
        Self::lay_over(flags, from, file, theirs)
    }

    /// The same for a command that only asks a server: how to reach it must be right, and what is wrong with the rest
    /// of the file comes back beside it.
    fn resolve_for_client(
        flags: &GlobalFlags,
        from: Sources,
        workloads: &Workloads,
    ) -> Result<(Self, Option<anyhow::Error>)> {
        let wrong = match Self::resolve(flags, from.clone(), workloads) {
            Ok(settings) => return Ok((settings, None)),
            Err(error) => error,
        };
        match file::read_for_client(&from) {
            Ok(file) => Ok((Self::lay_over(flags, from, file, Vec::new())?, Some(wrong))),
            // Without what the file says, a command might go to another server than the one that is meant.
            Err(_) => Err(wrong),
        }
    }

    /// Variables and flags over the file.
    fn lay_over(
        flags: &GlobalFlags,
        from: Sources,
        file: ConfigFile,
        theirs: Vec<Row>,
    ) -> Result<Self> {
        let scheduling = file.clone().sections();
        let ConfigFile { server, token, ca, color, serve, up, work, .. } = file;
        let of_file = (server.clone(), token.clone());
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
            tls_cert: from.pick_option("DIVVY_TLS_CERT", serve.tls_cert)?,
            tls_key: from.pick_option("DIVVY_TLS_KEY", serve.tls_key)?,
            otlp: from.pick_option("DIVVY_OTLP", serve.otlp)?,
            lease: from.pick("DIVVY_LEASE", serve.lease, Span(Duration::from_secs(30)))?,
            grace: from.pick("DIVVY_GRACE", serve.grace, Span(Duration::from_secs(10)))?,
            retention_days: from.pick("DIVVY_RETENTION_DAYS", serve.retention_days, 7)?,
            workers: from.pick("DIVVY_WORKERS", up.workers, Workers::Auto)?,
            queues: from.pick("DIVVY_QUEUES", work.queues, Names::default())?,
            capabilities: from.pick("DIVVY_CAPS", work.capabilities, Names::default())?,
            slots: from.pick("DIVVY_SLOTS", work.slots, SlotCounts::default())?,
            prefetch: from.pick_option("DIVVY_PREFETCH", work.prefetch)?,
            exec: from.pick("DIVVY_EXEC", work.exec, Programs::default())?,
            exec_args: from.pick("DIVVY_EXEC_ARGS", work.exec_args, Names::default())?,
            exec_limits: from.pick(
                "DIVVY_EXEC_LIMITS",
                work.exec_limits,
                ProgramLimits::default(),
            )?,
            allow_private: from.pick("DIVVY_ALLOW_PRIVATE", work.allow_private, false)?,
            allow_address: from.pick(
                "DIVVY_ALLOW_ADDRESS",
                work.allow_address,
                Addresses::default(),
            )?,
            drain_timeout: from.pick(
                "DIVVY_DRAIN_TIMEOUT",
                work.drain_timeout,
                Span(Duration::from_secs(30)),
            )?,
            theirs,
            of_file,
            file: from.path().map(ToOwned::to_owned),
            scheduling,
            sources: from,
        };
        Ok(settings)
    }

    /// The server that commands and workers talk to.
    ///
    /// # Errors
    /// If the token was not meant for it.
    pub(crate) fn target(&self) -> Result<Target> {
        let (server, ca) = (self.server.value.clone(), self.ca.value.clone());
        Ok(Target { server, token: self.token_for_server()?, ca })
    }

    /// The token for that server. A token goes only to a server that was named where it was given: a file that lies in some
    /// folder must not collect what the environment holds.
    fn token_for_server(&self) -> Result<Option<String>> {
        let (file_server, file_token) = &self.of_file;
        let same =
            |other: &String| other.trim_end_matches('/') == self.server.value.trim_end_matches('/');
        match (&self.server.origin, &self.token.origin) {
            (Origin::File(_), Origin::Environment(_)) if file_token.is_some() => {
                Ok(file_token.clone())
            }
            (Origin::File(path), given @ (Origin::Environment(_) | Origin::Flag(_))) => {
                let (path, server) = (path.display(), &self.server.value);
                let failure = Failure::usage(format!(
                    "{path} names the server {server}, and the token is from {given}: a token goes only to a server that was named with it"
                ));
                let cure =
                    format!("if it is for that server, say so: --server {server}, or DIVVY_SERVER");
                Err(failure.cure(cure).into())
            }
            (Origin::Environment(_) | Origin::Flag(_), Origin::File(_))
                if file_server.as_ref().is_some_and(|other| !same(other)) =>
            {
                Ok(None)
            }
            _ => Ok(self.token.value.clone()),
        }
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
            Row::path("serve.tls_cert", &self.tls_cert),
            Row::path("serve.tls_key", &self.tls_key),
            Row::new("serve.otlp", &self.otlp, |url| url.clone().unwrap_or_default()),
            Row::new("serve.lease", &self.lease, Span::to_string),
            Row::new("serve.grace", &self.grace, Span::to_string),
            Row::new("serve.retention_days", &self.retention_days, u32::to_string),
            Row::new("up.workers", &self.workers, Workers::to_string),
            Row::new("work.queues", &self.queues, Names::to_string),
            Row::new("work.capabilities", &self.capabilities, Names::to_string),
            Row::new("work.slots", &self.slots, SlotCounts::to_string),
            Row::new("work.prefetch", &self.prefetch, ahead),
            Row::new("work.exec", &self.exec, Programs::to_string),
            Row::new("work.exec_args", &self.exec_args, Names::to_string),
            Row::new("work.exec_limits", &self.exec_limits, ProgramLimits::to_string),
            Row::new("work.allow_private", &self.allow_private, bool::to_string),
            Row::new("work.allow_address", &self.allow_address, Addresses::to_string),
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
    fn a_command_that_only_asks_a_server_bears_with_a_wrong_word_for_the_server() {
        let resolve = |yaml: &str| {
            let file = Some(("divvy.yaml".into(), yaml.to_owned()));
            let none = Workloads::new(Vec::new());
            Settings::resolve_for_client(
                &GlobalFlags::default(),
                Sources::new(file, |_| None),
                &none,
            )
        };
        let yaml = "server: http://file:1\nserve: {lissen: x}\nwork: {slots: {cpu: many}}\n";
        let (settings, wrong) = resolve(yaml).unwrap();
        assert_eq!(settings.server.value, "http://file:1");
        assert!(wrong.unwrap().to_string().starts_with("divvy.yaml:2:9: unknown field `lissen`"));
        let (settings, wrong) = resolve("sevrer: http://file:1\n").unwrap();
        assert!(wrong.is_some() && settings.server.origin == Origin::Default);
        assert!(resolve("server: http://file:1\n").unwrap().1.is_none());
        // Where to go is not known.
        for unclear in ["server: [1]\nserve: {lissen: x}\n", "a: b: c\n"] {
            assert!(resolve(unclear).is_err(), "{unclear}");
        }
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
    fn a_token_goes_only_to_a_server_that_was_named_with_it() {
        let flag = |server: Option<&str>, token: Option<&str>| GlobalFlags {
            server: server.map(ToOwned::to_owned),
            token: token.map(ToOwned::to_owned),
            ..GlobalFlags::default()
        };
        let none = flag(None, None);
        let token = |flags: &GlobalFlags, variables: &[(&str, &str)], yaml: &str| {
            let target = resolve(flags, variables, yaml).unwrap().target();
            target.map(|target| target.token).map_err(|error| error.downcast::<Failure>().unwrap())
        };
        let secret = [("DIVVY_TOKEN", "secret")];
        let both = [("DIVVY_TOKEN", "secret"), ("DIVVY_SERVER", "http://env:1")];
        let sent = |text: &str| Some(text.to_owned());
        // A file that names a server gets no token from elsewhere.
        let foreign = "server: http://foreign:1\n";
        let failure = token(&none, &secret, foreign).unwrap_err();
        assert!(failure.message.contains("DIVVY_TOKEN"), "{failure}");
        assert!(failure.cure.unwrap().contains("--server http://foreign:1"));
        assert!(token(&flag(None, Some("typed")), &[], foreign).is_err());
        assert_eq!(token(&none, &[], foreign).unwrap(), None);
        // Whoever names the server too means it.
        assert_eq!(token(&none, &both, foreign).unwrap(), sent("secret"));
        let named = flag(Some("http://foreign:1"), None);
        assert_eq!(token(&named, &secret, foreign).unwrap(), sent("secret"));
        assert_eq!(token(&none, &secret, "").unwrap(), sent("secret"), "the usual server");
        // What the file holds is for the server that it names.
        let whole = "server: http://mine:1\ntoken: own\n";
        assert_eq!(token(&none, &[], whole).unwrap(), sent("own"));
        assert_eq!(token(&none, &secret, whole).unwrap(), sent("own"));
        assert_eq!(token(&flag(Some("http://other:1"), None), &[], whole).unwrap(), None);
        assert_eq!(token(&flag(Some("http://mine:1/"), None), &[], whole).unwrap(), sent("own"));
        assert_eq!(
            token(&flag(Some("http://any:1"), None), &[], "token: own\n").unwrap(),
            sent("own")
        );
    }

    #[test]
    fn a_token_is_not_shown() {
        let settings = resolve(&GlobalFlags::default(), &[("DIVVY_TOKEN", "secret")], "").unwrap();
        assert!(settings.rows().iter().all(|row| !row.value.contains("secret")));
    }
}
