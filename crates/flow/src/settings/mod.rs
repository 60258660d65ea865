//! The section `flow` of `divvy.yaml`, its variables, and the flags of workers that are laid over it.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use divvy_workload::settings::{Origin, Row, Setting, Sources};
use serde::Deserialize;

/// The name of the section, and of everything else that has the workload's name.
pub(crate) const NAME: &str = "flow";

/// What `divvy config init` writes about it.
pub(crate) const TEMPLATE: &str = "\
# Dataflow jobs (divvy flow).
#flow:
# Whether workers take parts of jobs.
#  enabled: true
# Where a worker finds the server's folder of jobs. Without this: beside the
# server's objects, if the worker was told where those are. A worker that does not
# see that folder gets what it needs from the server, over HTTP.
#  folder: /mnt/divvy-data/flows
# Folders whose files jobs may read: on workers that see the server's folder, and
# through the server on all others. Without this: the folder in which the worker or
# the server was started, unless that is the root.
#  read: [/mnt/logs]
# Where workers that do not see the server's folder of jobs spill and collect what
# they write. Without this: the system's folder for temporary files.
#  scratch: /var/tmp
# Whether jobs may run programs (divvy flow mapreduce --map CMD), with the rights
# of the worker. Whoever may start jobs may run anything then.
#  commands: false
";

/// The section of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    enabled: Option<bool>,
    folder: Option<PathBuf>,
    read: Option<Vec<PathBuf>>,
    scratch: Option<PathBuf>,
    commands: Option<bool>,
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct FlowSettings {
    /// Whether workers take parts.
    pub(crate) enabled: Setting<bool>,
    /// The server's folder of jobs, for workers.
    pub(crate) folder: Setting<Option<PathBuf>>,
    /// Folders whose files jobs may read.
    pub(crate) read: Setting<Vec<PathBuf>>,
    /// Where workers spill that do not see that folder.
    pub(crate) scratch: Setting<Option<PathBuf>>,
    /// Whether jobs may run programs.
    pub(crate) commands: Setting<bool>,
}

/// What workers are told about jobs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Flow")]
pub(crate) struct FlowFlags {
    /// Take no parts of dataflow jobs
    #[arg(long)]
    pub(crate) no_flow: bool,
    /// The server's folder of dataflow jobs [default: beside its objects, if it
    /// is seen from here; else the server is asked for every file]
    #[arg(long, value_name = "DIR", env = "DIVVY_FLOWS", hide_env_values = true)]
    pub(crate) flows: Option<PathBuf>,
    /// A folder whose files dataflow jobs may read; may be repeated
    /// [default: where the worker is started, unless that is the root]
    #[arg(long, value_name = "DIR")]
    pub(crate) flow_read: Vec<PathBuf>,
    /// Where parts of dataflow jobs spill that do not see the server's folder
    /// [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) flow_scratch: Option<PathBuf>,
    /// Let dataflow jobs run programs, with the rights of the worker
    #[arg(long)]
    pub(crate) flow_commands: bool,
}

impl FlowSettings {
    /// From the variables and the file.
    ///
    /// # Errors
    /// If a value makes no sense.
    pub(crate) fn read(from: &Sources) -> Result<Self> {
        let file: Section = from.section(NAME)?;
        let folder = file.folder.map(|path| from.beside_file(&path));
        let scratch = file.scratch.map(|path| from.beside_file(&path));
        let origin = match (&file.read, from.path()) {
            (Some(_), Some(path)) => Origin::File(path.to_owned()),
            _ => Origin::Default,
        };
        let read = file.read.unwrap_or_default();
        let read = read.iter().map(|path| from.beside_file(path)).collect();
        Ok(Self {
            enabled: from.pick("DIVVY_FLOW", file.enabled, true)?,
            folder: from.pick_option("DIVVY_FLOWS", folder)?,
            read: Setting { value: read, origin },
            scratch: from.pick_option("DIVVY_FLOW_SCRATCH", scratch)?,
            commands: from.pick("DIVVY_FLOW_COMMANDS", file.commands, false)?,
        })
    }

    /// As text.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let read = |folders: &Vec<PathBuf>| {
            let texts: Vec<String> =
                folders.iter().map(|path| path.display().to_string()).collect();
            texts.join(",")
        };
        vec![
            Row::new("flow.enabled", &self.enabled, bool::to_string),
            Row::path("flow.folder", &self.folder),
            Row::new("flow.read", &self.read, read),
            Row::path("flow.scratch", &self.scratch),
            Row::new("flow.commands", &self.commands, bool::to_string),
        ]
    }
}

/// The folders that jobs may read, as they really are: those that were named, or else the one in which this was started.
pub(crate) fn readable(named: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders = named.to_vec();
    if folders.is_empty()
        && let Ok(here) = std::env::current_dir()
        && here.parent().is_some()
    {
        folders.push(here);
    }
    folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<FlowSettings> {
        FlowSettings::read(&Sources::new(Some(("/a/divvy.yaml".into(), yaml.into())), |_| None))
    }

    #[test]
    fn paths_are_beside_the_file_and_wrong_fields_are_named() {
        let told = "flow: {folder: f, read: [logs, /mnt], scratch: s, commands: true}";
        let settings = read(told).unwrap();
        assert_eq!(settings.scratch.value, Some("/a/s".into()));
        assert_eq!(settings.folder.value, Some("/a/f".into()));
        assert_eq!(settings.read.value, [PathBuf::from("/a/logs"), "/mnt".into()]);
        assert!(settings.commands.value && settings.enabled.value);
        assert!(read("flow: {foldr: c}").unwrap_err().to_string().contains("folder"));
    }

    #[test]
    fn without_a_word_jobs_read_where_the_worker_stands() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(readable(&[]), [here]);
        let place = tempfile::tempdir().unwrap();
        let real = place.path().canonicalize().unwrap();
        assert_eq!(readable(&[place.path().to_owned(), "/nowhere/at/all".into()]), [real]);
    }
}
