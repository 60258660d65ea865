//! `divvy.yaml`: its fields, how it is found, and errors that name the line and the word that was probably meant.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use divvy_server::{AlertOptions, FileSections, Sink};
use divvy_types::Name;
use divvy_types::pools::Pool;
use divvy_types::settings::{
    KindSettings, Limit, LoadBalancing, Ordering, PoisonAfter, QueueSettings,
};
use divvy_workload::Sources;
use serde::Deserialize;

use crate::exit::Failure;
use crate::output::Color;
use crate::values::{
    Addresses, Names, Prefetch, ProgramLimits, Programs, SlotCounts, Span, Workers,
};
use crate::workloads::Workloads;
use crate::yaml;

/// The name that is looked for in the current folder and those above it.
pub(crate) const FILE_NAME: &str = "divvy.yaml";
/// A file larger than this is no configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file. Every field is optional; an unknown one is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConfigFile {
    /// The server that commands talk to. Default `http://127.0.0.1:7171`.
    pub(crate) server: Option<String>,
    /// The bearer token: what a server asks for and what clients send. Better kept in `DIVVY_TOKEN`. Default none.
    pub(crate) token: Option<String>,
    /// A PEM file with the only authorities to trust at `https://`, relative to this file. Default this machine's.
    pub(crate) ca: Option<PathBuf>,
    /// When to use colours. Default `auto`.
    pub(crate) color: Option<Color>,
    /// The server itself.
    pub(crate) serve: Serve,
    /// What `divvy up` adds to it.
    pub(crate) up: Up,
    /// Workers.
    pub(crate) work: Work,
    /// How tasks get to workers and move between them. Read again while the server runs, like all that follow.
    pub(crate) load_balancing: Option<LoadBalancing>,
    /// Whose turn it is.
    pub(crate) ordering: Option<Ordering>,
    /// Limits by name.
    pub(crate) limits: Option<BTreeMap<Name, Limit>>,
    /// What is special about queues.
    pub(crate) queues: Option<BTreeMap<Name, QueueSettings>>,
    /// What is special about kinds.
    pub(crate) kinds: Option<BTreeMap<Name, KindSettings>>,
    /// Pools of workers that grow and shrink.
    pub(crate) pools: Option<BTreeMap<Name, Pool>>,
    /// A task whose worker went away so many times is a dead letter. Default 3.
    pub(crate) poison_after: Option<PoisonAfter>,
    /// The rules about the health of the server, and who is told when one is broken.
    pub(crate) alerts: Option<AlertOptions>,
}

impl ConfigFile {
    /// What it says about scheduling.
    pub(crate) fn sections(self) -> FileSections {
        let Self { load_balancing, ordering, limits, queues, kinds, pools, .. } = self;
        let (poison_after, alerts) = (self.poison_after, self.alerts);
        FileSections {
            load_balancing,
            ordering,
            limits,
            queues,
            kinds,
            pools,
            poison_after,
            alerts,
        }
    }
}

/// The server itself.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Serve {
    /// The address to listen on. Default `127.0.0.1:7171`; another than loopback needs a token.
    pub(crate) listen: Option<SocketAddr>,
    /// The data folder, relative to this file. Default `divvy-data`.
    pub(crate) data: Option<PathBuf>,
    /// Names under which browsers may reach the server besides loopback. Default none.
    pub(crate) allowed_hosts: Option<Names>,
    /// The PEM file of the certificate with which the server speaks TLS, relative to this file. Default none.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The PEM file of its private key, relative to this file. Default none.
    pub(crate) tls_key: Option<PathBuf>,
    /// The collector of OpenTelemetry that traces are sent to, over OTLP/HTTP. Default none.
    pub(crate) otlp: Option<String>,
    /// Silence of a worker for this long loses its tasks. Default `30s`.
    pub(crate) lease: Option<Span>,
    /// A worker whose connection broke keeps its tasks for this long, at most for the lease. Default `10s`.
    pub(crate) grace: Option<Span>,
    /// Days that finished tasks are kept. Default 7.
    pub(crate) retention_days: Option<u32>,
}

/// What `divvy up` adds to the server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Up {
    /// Local worker processes: `auto` (1 to as many as cores, as needed) or a number. Default `auto`.
    pub(crate) workers: Option<Workers>,
}

/// Workers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Work {
    /// Queues to serve. Default all.
    pub(crate) queues: Option<Names>,
    /// What this worker has, such as `gpu`. Default nothing.
    pub(crate) capabilities: Option<Names>,
    /// Tasks at once, per tier. Default by cores.
    pub(crate) slots: Option<SlotCounts>,
    /// Tasks that each tier takes ahead of its free slots. Default as many as it has slots.
    pub(crate) prefetch: Option<Prefetch>,
    /// Programs that may be run, by kind; a relative path is relative to this file. Default none.
    pub(crate) exec: Option<Programs>,
    /// Programs to which tasks of kind `exec` may give arguments. Default none.
    pub(crate) exec_args: Option<Names>,
    /// What programs may use. Default `files=4096,processes=16384,memory=none`.
    pub(crate) exec_limits: Option<ProgramLimits>,
    /// Whether `http` tasks may call private addresses. Default false.
    pub(crate) allow_private: Option<bool>,
    /// Addresses that `http` tasks may call whatever they are, link-local ones too. Default none.
    pub(crate) allow_address: Option<Addresses>,
    /// How long a stopping worker waits for its tasks. Default `30s`.
    pub(crate) drain_timeout: Option<Span>,
}

/// The nearest file upwards from `folder`.
pub(crate) fn find(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().map(|folder| folder.join(FILE_NAME)).find(|path| path.is_file())
}

/// Refuses a file that was found by itself and that another user could have written: it may name programs to run, and the
/// server that everything is sent to.
pub(crate) fn check_owner(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let unreadable = |error| Failure::usage(format!("{}: {error}", path.display()));
    // A link is as good as what it leads to, and as bad as who made it.
    let link = std::fs::symlink_metadata(path).map_err(unreadable)?;
    let file = std::fs::metadata(path).map_err(unreadable)?;
    let owners = [link.uid(), file.uid()];
    match distrust(owners, file.mode(), nix::unistd::geteuid().as_raw()) {
        None => Ok(()),
        Some(problem) => Err(Failure::usage(format!(
            "{} is not read: {problem}",
            path.display()
        ))
        .cure("name it with --config FILE if you trust it, or name another, such as --config /dev/null")),
    }
}

/// What speaks against a file with these owners and this mode, for this user.
fn distrust(owners: [u32; 2], mode: u32, user: u32) -> Option<String> {
    const WRITABLE_BY_OTHERS: u32 = 0o002;
    let foreign = owners.into_iter().find(|owner| *owner != user && *owner != 0);
    match foreign {
        Some(owner) => Some(format!(
            "it belongs to another user ({owner}), who could change what divvy does here"
        )),
        None if mode & WRITABLE_BY_OTHERS != 0 => {
            Some("every user of this machine may write it".to_owned())
        }
        None => None,
    }
}

/// The text of the file at `path`.
pub(crate) fn text(path: &Path) -> Result<String> {
    yaml::read_text(path, FILE_BYTES_MAX)
}

/// What the file says, without the sections of workloads. Its relative paths are made relative to its folder.
pub(crate) fn read(sources: &Sources, workloads: &Workloads) -> Result<ConfigFile> {
    let mut file: ConfigFile = sources.beside(&workloads.names())?;
    check(&file, sources)?;
    let Serve { data, tls_cert, tls_key, .. } = &mut file.serve;
    for path in [data, tls_cert, tls_key, &mut file.ca].into_iter().flatten() {
        *path = sources.beside_file(path);
    }
    for program in file.work.exec.iter_mut().flat_map(|programs| &mut programs.0) {
        let path = sources.program_beside_file(Path::new(&program.words[0]));
        program.words[0] = path.to_string_lossy().into_owned();
    }
    for sink in file.alerts.iter_mut().flat_map(|alerts| alerts.sinks.values_mut()) {
        if let Sink::Command(command) = sink {
            let path = sources.program_beside_file(Path::new(&command.run[0]));
            command.run[0] = path.to_string_lossy().into_owned();
        }
    }
    Ok(file)
}

/// The fields that a command needs which only asks a server.
const CLIENT_FIELDS: [&str; 4] = ["server", "token", "ca", "color"];

/// What the file says about how to reach the server, whatever else is in it.
pub(crate) fn read_for_client(sources: &Sources) -> Result<ConfigFile> {
    let fields = sources.fields()?;
    let others: Vec<&str> =
        fields.iter().map(String::as_str).filter(|name| !CLIENT_FIELDS.contains(name)).collect();
    let mut file: ConfigFile = sources.beside(&others)?;
    if let Some(path) = &mut file.ca {
        *path = sources.beside_file(path);
    }
    Ok(file)
}

/// What the file at `path` says about scheduling. Sections of workloads are checked too.
pub(crate) fn scheduling(path: &Path, workloads: &Workloads) -> Result<FileSections> {
    let sources = Sources::of_process(Some((path.to_owned(), text(path)?)));
    workloads.settings(&sources)?;
    Ok(read(&sources, workloads)?.sections())
}

/// Refuses settings of scheduling that are well-formed and make no sense, with their place.
fn check(file: &ConfigFile, sources: &Sources) -> Result<(), Failure> {
    let mut settings = divvy_types::Settings::default();
    file.clone().sections().lay_over(&mut settings);
    let place = |path: &str| sources.place(path).map(|place| format!("{place}: "));
    let alerts = file.alerts.as_ref().map_or(Ok(()), AlertOptions::check);
    settings.check().and(alerts).map_err(|error| {
        Failure::usage(format!("{}{error}", place(&error.path).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<ConfigFile> {
        let sources = Sources::new(Some(("divvy.yaml".into(), yaml.to_owned())), |_| None);
        read(&sources, &Workloads::new(Vec::new()))
    }

    fn error(yaml: &str) -> Failure {
        parse(yaml).unwrap_err().downcast().unwrap()
    }

    #[test]
    fn an_unknown_field_is_named_with_its_line_and_a_guess() {
        let failure = error("server: http://a:1\nserve:\n  lissen: 127.0.0.1:1\n");
        assert!(failure.message.starts_with("divvy.yaml:3:"), "{failure}");
        assert!(
            failure.message.ends_with("unknown field `lissen`; did you mean `listen`?"),
            "{failure}"
        );
        assert!(failure.cure.unwrap().contains("retention_days"));
    }

    #[test]
    fn wrong_values_are_named_with_their_line() {
        for (yaml, line, word) in [
            ("\nserve:\n  lease: soon\n", 3, "soon"),
            ("work:\n  slots: {cpu: many}\n", 2, "many"),
            ("work:\n  prefetch: 70000\n", 2, "expected 0 to 65536"),
            ("work:\n  exec:\n    resize: \"'open\"\n", 3, "quote"),
            ("up: {workers: [1]}\n", 1, ""),
            ("load_balancing:\n  strategy: hybird\n", 2, "did you mean `hybrid`?"),
            ("load_balancing:\n  thresholds:\n    busy_treshold: 3\n", 3, "`busy_threshold`"),
            (
                "load_balancing:\n  thresholds:\n    busy_threshold: 3\n    idle_threshold: 9\n",
                4,
                "load_balancing.thresholds.idle_threshold is 9, more than busy_threshold (3)",
            ),
            ("limits:\n  api:\n    rate: fast\n", 3, "`fast` is not a rate"),
            ("limits:\n  api: {}\n", 2, "limits.api limits nothing"),
            ("queues:\n  mail:\n    weight: 0\n", 3, "queues.mail.weight is 0"),
            ("pools:\n  p:\n    min: 3\n    max: 2\n", 3, "pools.p.min is 3, more than max (2)"),
            ("pools:\n  p:\n    goal: fast\n", 3, "`fast` is not a goal"),
            ("alerts:\n  rules:\n    clock: {for: 3}\n", 3, "unknown field `for`"),
            (
                "alerts:\n  rules:\n    oldest_weight: {}\n",
                3,
                "alerts.rules.oldest_weight is no rule",
            ),
            ("alerts:\n  sinks:\n    ops: {webhook: {url: ops}}\n", 3, "expected http://"),
            ("alerts:\n  sinks:\n    ops: {command: {run: []}}\n", 3, "command.run is empty"),
            ("\npoison_after: 0\n", 2, "poison_after is 0, expected 1 to 1000"),
            ("a: b: c\n", 1, ""),
        ] {
            let failure = error(yaml);
            assert!(
                failure.message.starts_with(&format!("divvy.yaml:{line}:")),
                "{yaml}: {failure}"
            );
            assert!(failure.message.contains(word), "{yaml}: {failure}");
        }
    }

    #[test]
    fn only_a_file_that_no_other_user_can_write_is_trusted() {
        let me = 1_000;
        for owners in [[me, me], [0, 0], [me, 0], [0, me]] {
            assert_eq!(distrust(owners, 0o100_664, me), None, "{owners:?}");
            assert!(distrust(owners, 0o100_666, me).unwrap().contains("may write"), "{owners:?}");
        }
        for owners in [[1_001, 1_001], [1_001, me], [me, 1_001]] {
            assert!(distrust(owners, 0o100_644, me).unwrap().contains("1001"), "{owners:?}");
        }
        assert!(distrust([me, me], 0o100_644, 0).is_some(), "for root they are others too");
    }

    #[test]
    fn a_file_that_everybody_may_write_is_not_read() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        std::fs::write(&path, "").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(check_owner(&path).is_ok());
        mode(0o666);
        let failure = check_owner(&path).unwrap_err();
        assert!(failure.message.contains("divvy.yaml is not read"), "{failure}");
        assert!(failure.cure.unwrap().contains("--config"));
    }

    #[test]
    fn an_empty_file_and_a_commented_one_say_nothing() {
        for yaml in ["", "# server: http://a:1\n"] {
            assert!(parse(yaml).unwrap().server.is_none());
        }
    }

    #[test]
    fn the_file_of_config_init_is_valid_with_and_without_its_comments() {
        let template = super::super::template::text(&Workloads::new(Vec::new()));
        assert!(parse(&template).is_ok());
        let bare: String = template
            .lines()
            .filter(|line| !line.starts_with("# ") || line.starts_with("#  "))
            .map(|line| line.strip_prefix('#').unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let file = parse(&bare).unwrap();
        assert_eq!(file.server.as_deref(), Some("http://127.0.0.1:7171"));
        assert!(
            file.serve.listen.is_some() && file.serve.data.is_some() && file.serve.lease.is_some()
        );
        assert!(file.work.exec.as_ref().is_some_and(|programs| programs.0.len() == 1));
        assert_eq!(file.clone().sections().names().len(), 8, "every section is in it");
        assert_eq!(file.load_balancing, Some(LoadBalancing::default()), "the values are defaults");
        assert_eq!(file.ordering, Some(Ordering::default()));
        assert_eq!(file.poison_after, Some(PoisonAfter::default()));
        assert!(
            file.work.slots.is_some()
                && file.work.prefetch.is_some()
                && file.up.workers.is_some()
                && file.work.drain_timeout.is_some()
        );
    }
}
