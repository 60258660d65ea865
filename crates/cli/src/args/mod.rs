//! What can be typed: one definition gives parsing, help and completions.
//!
//! Decides form only. Daily verbs stand at the top level, everything else is `noun verb` with singular nouns.

pub(crate) mod access;
pub(crate) mod alerts;
pub(crate) mod bulk;
pub(crate) mod lab;
pub(crate) mod local;
pub(crate) mod plan;
pub(crate) mod scale;
pub(crate) mod schedule;
pub(crate) mod scheduling;
pub(crate) mod select;
pub(crate) mod service;
pub(crate) mod submit;
pub(crate) mod tasks;
pub(crate) mod terms;
pub(crate) mod top;
pub(crate) mod workflows;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use divvy_workload::Workload;

use crate::config::GlobalFlags;
use crate::logging::LogFormat;
use crate::output::Color;
use crate::workloads::Workloads;

/// The subcommand after which those of the workloads stand in the help.
const LAST_OF_TASKS: &str = "schedule";

fn first_steps(workloads: &Workloads) -> String {
    format!(
        "\
First steps:
  divvy up --sample              a server, local workers, and a sample
{}  divvy submit noop --wait       run one durable task
  divvy status                   see how it goes

Exit codes: 0 done, 1 the work failed, 2 usage, 3 no server, 4 not found,
5 refused, 6 timed out, 130 interrupted",
        workloads.examples("")
    )
}

/// The command to use instead of a word that other programs have, after this noun or none.
pub(crate) fn instead(noun: &str, word: &str) -> Option<&'static str> {
    Some(match (noun, word) {
        ("queue", "purge" | "clear" | "drain") => {
            "divvy task cancel --queue NAME --dry-run, then --yes"
        }
        ("queue", "delete" | "remove" | "rm") => {
            "a queue is there while tasks name it; see divvy queue set --help"
        }
        ("dead", "show") => "divvy task show ID",
        ("task", "logs" | "log") => "divvy logs ID",
        ("task", "submit" | "add" | "create") => "divvy submit KIND",
        ("scale", "list" | "ls" | "show") => "divvy scale status",
        (
            "queue" | "kind" | "dead" | "task" | "worker" | "workflow" | "limit" | "schedule"
            | "scale" | "alert",
            _,
        ) => {
            return None;
        }
        (_, "ls" | "list" | "ps" | "jobs" | "tasks") => "divvy task list",
        (_, "watch" | "monitor" | "dashboard") => "divvy top",
        (_, "version") => "divvy --version",
        (_, "start" | "server" | "run-server") => "divvy up",
        (_, "cancel" | "kill" | "stop") => "divvy task cancel ID; a server ends with Ctrl-C",
        (_, "retry") => "divvy task retry ID",
        (_, "show") => "divvy task show ID",
        (_, "enqueue" | "push" | "add") => "divvy submit KIND",
        _ => return None,
    })
}

/// What was typed.
#[derive(Debug)]
pub(crate) struct Line {
    /// Options of every command.
    pub(crate) global: Global,
    /// What to do; nothing asks for help.
    pub(crate) verb: Option<Verb>,
}

/// What to do.
pub(crate) enum Verb {
    /// A command of ours, and what was typed for it: some take flags of workloads too.
    Ours(Box<Command>, ArgMatches),
    /// The subcommand of a workload.
    Theirs(Arc<dyn Workload>, ArgMatches),
    /// The benchmark of a workload.
    Bench(Arc<dyn Workload>, ArgMatches),
}

impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ours(command, _) => command.fmt(f),
            Self::Theirs(workload, matches) | Self::Bench(workload, matches) => {
                write!(f, "{} {matches:?}", workload.name())
            }
        }
    }
}

/// The definition of everything that can be typed.
pub(crate) fn definition(workloads: &Workloads) -> clap::Command {
    let examples = |command: &str, ours: &str, rest: &str| {
        format!("{ours}{}{rest}", workloads.examples(command))
    };
    let line = Cli::command().after_help(first_steps(workloads));
    workloads
        .extend(line, LAST_OF_TASKS)
        .mut_subcommand("up", |up| {
            up.after_help(examples("up", service::UP_EXAMPLES, service::UP_NOTE))
        })
        .mut_subcommand("work", |work| {
            work.after_help(examples("work", service::WORK_EXAMPLES, ""))
        })
}

impl Line {
    /// Reads what was typed.
    ///
    /// # Errors
    /// If it makes no sense, or asks for help or the version.
    pub(crate) fn parse(
        words: impl IntoIterator<Item = OsString>,
        workloads: &Workloads,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let mut definition = definition(workloads);
        let matches = definition.try_get_matches_from_mut(&words).map_err(|error| {
            // A usage line that names what a variable has set looks as if it had to be typed.
            let bare = without_variables(definition.clone());
            bare.try_get_matches_from(&words).err().unwrap_or(error)
        })?;
        let verb =
            Verb::read(&matches, workloads).map_err(|error| error.format(&mut definition))?;
        Ok(Self { global: Global::from_arg_matches(&matches)?, verb })
    }
}

fn without_variables(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    command.mut_subcommands(without_variables)
}

impl Verb {
    fn read(matches: &ArgMatches, workloads: &Workloads) -> Result<Option<Self>, clap::Error> {
        let Some((name, inner)) = matches.subcommand() else { return Ok(None) };
        if let Some(workload) = workloads.of_command(name) {
            return Ok(Some(Self::Theirs(workload.clone(), inner.clone())));
        }
        if name == "bench"
            && let Some((which, inner)) = inner.subcommand()
            && let Some(workload) = workloads.of_bench(which)
        {
            return Ok(Some(Self::Bench(workload.clone(), inner.clone())));
        }
        Ok(Some(Self::Ours(Box::new(Command::from_arg_matches(matches)?), inner.clone())))
    }
}

/// Divides work: durable tasks, priorities, workflows and workers in one binary.
#[derive(Debug, Parser)]
#[command(name = "divvy", version, max_term_width = 80, infer_subcommands = false)]
struct Cli {
    #[command(flatten)]
    _global: Global,
    #[command(subcommand)]
    _command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The server to talk to
    #[arg(long, global = true, value_name = "URL", env = "DIVVY_SERVER", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// The server's bearer token
    #[arg(long, global = true, value_name = "TOKEN", env = "DIVVY_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Trust only the authorities in this PEM file at https://
    #[arg(long, global = true, value_name = "FILE", env = "DIVVY_CA", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Print JSON: one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print ids only, and no notes
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "auto|always|never", hide_possible_values = true)]
    #[arg(env = "DIVVY_COLOR", hide_env_values = true)]
    pub(crate) color: Option<Color>,
    /// Read this file, not the nearest divvy.yaml
    #[arg(long, global = true, value_name = "FILE", env = "DIVVY_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Log more; twice for all (see also DIVVY_LOG)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// How to log: text, or json for one object per line
    #[arg(long, global = true, value_name = "text|json", hide_possible_values = true)]
    #[arg(
        env = "DIVVY_LOG_FORMAT",
        hide_env_values = true,
        default_value = "text",
        hide_default_value = true
    )]
    pub(crate) log_format: LogFormat,
}

impl Global {
    /// What the settings need of these.
    pub(crate) fn flags(&self) -> GlobalFlags {
        GlobalFlags {
            server: self.server.clone(),
            token: self.token.clone(),
            ca: self.ca.clone(),
            color: self.color,
            config: self.config.clone(),
        }
    }
}

/// Everything that `divvy` does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server with local workers
    Up(service::Up),
    /// Start a server without workers
    #[command(after_help = service::SERVE_EXAMPLES)]
    Serve(service::Serve),
    /// Start a worker
    Work(service::Work),
    /// Submit a task
    #[command(after_help = submit::SUBMIT_EXAMPLES)]
    Submit(submit::Submit),
    /// Submit a workflow from a YAML file
    #[command(after_help = submit::RUN_EXAMPLES)]
    Run(submit::Run),
    /// Wait until tasks are final
    #[command(after_help = tasks::WAIT_EXAMPLES)]
    Wait(tasks::Wait),
    /// Say why a task is where it is
    #[command(after_help = tasks::EXPLAIN_EXAMPLES)]
    Explain(tasks::OneTask),
    /// Print the log of a task
    #[command(after_help = tasks::LOGS_EXAMPLES)]
    Logs(tasks::Logs),
    /// Look at tasks and change them
    #[command(alias = "tasks", subcommand, after_help = tasks::TASK_EXAMPLES)]
    Task(tasks::Task),
    /// Look at queues, pause, weigh and rebalance them
    #[command(alias = "queues", subcommand, after_help = tasks::QUEUE_EXAMPLES)]
    Queue(tasks::Queue),
    /// Look at kinds of tasks and who runs them
    #[command(alias = "kinds", subcommand, after_help = tasks::KIND_EXAMPLES)]
    Kind(tasks::Kind),
    /// Look at workers and drain them
    #[command(alias = "workers", subcommand, after_help = tasks::WORKER_EXAMPLES)]
    Worker(tasks::Worker),
    /// Look at workflows, cancel and resume them
    #[command(alias = "workflows", subcommand, after_help = workflows::WORKFLOW_EXAMPLES)]
    Workflow(workflows::Workflow),
    /// Look at limits, set and remove them
    #[command(alias = "limits", subcommand, after_help = scheduling::LIMIT_EXAMPLES)]
    Limit(scheduling::Limit),
    /// Look at pools of workers, set and pause them
    #[command(alias = "pools", subcommand, after_help = scale::SCALE_EXAMPLES)]
    Scale(scale::Scale),
    /// Look at dead letters, replay and drop them
    #[command(subcommand, after_help = tasks::DEAD_EXAMPLES)]
    Dead(tasks::Dead),
    /// Let tasks come by the calendar
    #[command(alias = "schedules", subcommand, after_help = schedule::SCHEDULE_EXAMPLES)]
    Schedule(schedule::Schedule),
    /// Show the health of the server on one screen
    #[command(after_help = local::STATUS_EXAMPLES)]
    Status(local::Status),
    /// Watch the server in a terminal, with keys to act
    #[command(after_help = top::TOP_EXAMPLES)]
    Top(top::Top),
    /// Look at alerts, silence one, try out who is told
    #[command(alias = "alerts", subcommand, after_help = alerts::ALERT_EXAMPLES)]
    Alert(alerts::Alert),
    /// Follow changes of tasks as they happen
    #[command(after_help = tasks::EVENTS_EXAMPLES)]
    Events(tasks::Events),
    /// Check this machine and the server
    #[command(after_help = local::DOCTOR_EXAMPLES)]
    Doctor(local::Doctor),
    /// Show, check and create settings
    #[command(subcommand, after_help = local::CONFIG_EXAMPLES)]
    Config(local::Config),
    /// Show how a server schedules, and check a file for it
    #[command(subcommand, after_help = scheduling::SETTINGS_EXAMPLES)]
    Settings(scheduling::Settings),
    /// Check, back up and compact a data folder
    #[command(subcommand, after_help = local::STORE_EXAMPLES)]
    Store(local::Store),
    /// Make, list and revoke tokens
    #[command(alias = "tokens", subcommand, after_help = access::TOKEN_EXAMPLES)]
    Token(access::Token),
    /// Make certificates for a server that speaks TLS
    #[command(subcommand, after_help = access::CERT_EXAMPLES)]
    Cert(access::Cert),
    /// Measure this machine
    Bench(divvy_bench::Args),
    /// Try out how work is placed, guarded and shared
    #[command(subcommand, after_help = lab::LAB_EXAMPLES)]
    Lab(lab::Lab),
    /// Say how many workers a load needs, at what cost
    #[command(after_help = plan::PLAN_EXAMPLES)]
    Plan(plan::Plan),
    /// Print shell completions
    #[command(after_help = local::COMPLETIONS_EXAMPLES)]
    Completions(local::Completions),
    /// One step of the sample workflow, run as a child process of a worker
    #[command(hide = true)]
    SampleStep(local::SampleStep),
    /// The part of an experiment that runs in a process of its own
    #[command(hide = true)]
    LabChild,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition(&Workloads::new(Vec::new())).debug_assert();
    }
}
