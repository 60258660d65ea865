//! What each command does, one file per verb or noun. This file only hands out.

mod alert;
mod bulk;
mod cert;
mod completions;
mod config;
mod dead;
mod doctor;
mod doctor_live;
mod events;
mod explain;
mod filter;
mod kind;
mod lab;
mod limit;
mod logs;
mod plan;
mod queue;
mod run;
mod scale;
mod schedule;
mod serve;
mod settings;
mod status;
mod store;
pub(crate) mod submit;
mod submit_lines;
mod task;
mod token;
mod up;
mod wait;
mod work;
mod worker;
mod workflow;

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use divvy::api::Api;
use divvy::{Client, Target};
use divvy_workload::Context as WorkloadContext;

use crate::args::local;
use crate::args::scheduling;
use crate::args::{Command, Line, Verb, definition};
use crate::config::Settings;
use crate::exit::Code;
use crate::logging::LogFormat;
use crate::output::Output;
use crate::workloads::Workloads;
use crate::{logging, sample, secrets, top};
pub(crate) use task::waits;

/// What a command works with.
pub(crate) struct Context {
    /// Where its output goes.
    pub(crate) output: Output,
    /// What is set.
    pub(crate) settings: Settings,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    /// How to log.
    pub(crate) log_format: LogFormat,
    /// What others bring.
    pub(crate) workloads: Workloads,
    /// The same for their commands; it also keeps what is told at Ctrl-C.
    theirs: Arc<WorkloadContext>,
}

impl Context {
    /// The server to talk to.
    pub(crate) fn api(&self) -> Result<Api> {
        Ok(self.client()?.api().clone())
    }

    /// The same in the words of the SDK.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.settings.target()?)?)
    }

    /// What a person who presses Ctrl-C from now on is told: what goes on without this command, and how to come back.
    pub(crate) fn leaves_behind(&self, more: &'static str, come_back: String) {
        self.theirs.on_interrupt(more, Some(come_back));
    }

    /// The same for a workload that shall talk to this server.
    pub(crate) fn for_workload_at(&self, target: Target) -> WorkloadContext {
        WorkloadContext::new(self.output, self.settings.sources.clone(), target)
    }
}

/// Runs what was typed.
pub(crate) fn run(line: Line, workloads: &Workloads) -> Result<Code> {
    let Line { global, verb } = line;
    let plain = Output::new(global.json, global.quiet, global.color.unwrap_or_default());
    let verb = match verb {
        None => {
            plain.bytes(definition(workloads).render_help().to_string().as_bytes())?;
            return Ok(Code::Done);
        }
        Some(Verb::Ours(command, matches)) => {
            match without_settings(*command, &plain, workloads)? {
                Early::Ended(code) => return Ok(code),
                Early::NotYet(command) => Verb::Ours(command, matches),
            }
        }
        Some(verb) => verb,
    };
    let (settings, wrong) = if only_asks(&verb) {
        Settings::load_for_client(&global.flags(), workloads)?
    } else {
        (Settings::load(&global.flags(), workloads)?, None)
    };
    let output = Output::new(global.json, global.quiet, settings.color.value);
    if let Some(wrong) = wrong {
        warn(&format!("{wrong}; this command does not need that, and goes on"), &output);
    }
    let reports = is_service(&verb) && !(is_up(&verb) && output.is_live());
    logging::start(reports, global.verbose, global.log_format);
    secrets::hide();
    let workloads = workloads.clone();
    let target = match &verb {
        // Our own commands ask for it when they need it.
        Verb::Ours(..) => Target::default(),
        Verb::Theirs(..) | Verb::Bench(..) => settings.target()?,
    };
    let theirs = WorkloadContext::new(output, settings.sources.clone(), target).into();
    let (verbose, log_format) = (global.verbose, global.log_format);
    let context = Context { output, settings, verbose, log_format, workloads, theirs };
    let runtime = runtime(&verb).context("cannot start the async runtime")?;
    let ended = runtime.block_on(obey(verb, context));
    // Threads that still read or wait for something must not keep the process.
    runtime.shutdown_background();
    ended
}

/// A command that may have ended without settings.
enum Early {
    Ended(Code),
    NotYet(Box<Command>),
}

/// Runs a command that reads no settings, or must work beside a file that is broken.
fn without_settings(command: Command, plain: &Output, workloads: &Workloads) -> Result<Early> {
    let ended = match command {
        Command::Completions(args) => completions::run(&args, plain, workloads),
        Command::SampleStep(step) => sample::steps::run(step.step, plain),
        Command::LabChild => lab::child(plain),
        Command::Cert(args) => cert::run(&args, plain),
        Command::Config(local::Config::Init { force }) => config::init(force, plain, workloads),
        Command::Settings(scheduling::Settings::Check { file }) => {
            settings::check(&file, plain, workloads)
        }
        command => return Ok(Early::NotYet(Box::new(command))),
    };
    ended.map(Early::Ended)
}

fn serves(verb: &Verb) -> bool {
    let serves = |command: &Command| matches!(command, Command::Up(_) | Command::Serve(_));
    matches!(verb, Verb::Ours(command, _) if serves(command))
}

fn is_service(verb: &Verb) -> bool {
    serves(verb) || matches!(verb, Verb::Ours(command, _) if matches!(**command, Command::Work(_)))
}

/// Whether a command is `up`, which tells a person at a terminal in its own words what it does.
fn is_up(verb: &Verb) -> bool {
    matches!(verb, Verb::Ours(command, _) if matches!(**command, Command::Up(_)))
}

/// Whether a command only looks on, so that Ctrl-C is its usual end and needs no words.
fn watches(verb: &Verb) -> bool {
    let Verb::Ours(command, _) = verb else { return false };
    match &**command {
        Command::Status(args) => args.watch,
        Command::Logs(args) => args.follow,
        Command::Top(args) => !args.once,
        Command::Events(_) => true,
        _ => false,
    }
}

/// Says what is amiss and does not keep the command from its work, in the form that was asked for.
fn warn(text: &str, output: &Output) {
    if output.is_json() {
        output.say(serde_json::json!({ "warning": text }));
    } else {
        output.say(format_args!("warning: {text}"));
    }
}

/// Whether a command only asks a server, so that of the settings it needs just how to reach that.
fn only_asks(verb: &Verb) -> bool {
    let Verb::Ours(command, _) = verb else { return false };
    matches!(
        **command,
        Command::Submit(_)
            | Command::Run(_)
            | Command::Wait(_)
            | Command::Explain(_)
            | Command::Logs(_)
            | Command::Task(_)
            | Command::Queue(_)
            | Command::Kind(_)
            | Command::Worker(_)
            | Command::Workflow(_)
            | Command::Limit(_)
            | Command::Dead(_)
            | Command::Schedule(_)
            | Command::Status(_)
            | Command::Alert(_)
            | Command::Top(_)
            | Command::Events(_)
            | Command::Settings(_)
    )
}

/// A server gets threads for half of the cores: the engine's loop and the writer have threads of their own, and network
/// threads beyond that only wake each other.
fn runtime(verb: &Verb) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if serves(verb) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        builder.worker_threads((cores / 2).max(1));
    }
    builder.enable_all().build()
}

/// Does what is asked until it ends or someone presses Ctrl-C.
async fn obey(verb: Verb, context: Context) -> Result<Code> {
    // Those that drain at Ctrl-C listen for it themselves.
    let drains = is_service(&verb);
    let watches = watches(&verb);
    let (theirs, output) = (context.theirs.clone(), context.output);
    let work = async {
        match verb {
            Verb::Ours(command, matches) => dispatch(*command, &matches, context).await,
            Verb::Theirs(workload, matches) => workload.run(&matches, &theirs).await,
            Verb::Bench(workload, matches) => workload.bench(&matches, &theirs).await,
        }
    };
    tokio::select! {
        ended = work => ended,
        signal = tokio::signal::ctrl_c(), if !drains => {
            signal.context("cannot listen for Ctrl-C")?;
            if !watches {
                return Err(theirs.interrupted().into());
            }
            // The terminal has written ^C; the prompt shall not stand behind it.
            if std::io::stderr().is_terminal() {
                output.say("");
            }
            Ok(Code::Interrupted)
        }
    }
}

async fn dispatch(command: Command, matches: &ArgMatches, context: Context) -> Result<Code> {
    match command {
        Command::Up(args) => up::run(args, matches, context).await,
        Command::Work(args) => work::run(args, matches, &context).await,
        Command::Serve(args) => serve::run(&args, &context).await,
        Command::Submit(args) => submit::run(args, &context).await,
        Command::Run(args) => run::run(&args, &context).await,
        Command::Wait(args) => wait::run(&args, &context).await,
        Command::Explain(args) => explain::run(&args, &context).await,
        Command::Logs(args) => logs::run(&args, &context).await,
        Command::Task(args) => task::run(args, &context).await,
        Command::Queue(args) => queue::run(args, &context).await,
        Command::Kind(args) => kind::run(&args, &context).await,
        Command::Worker(args) => worker::run(args, &context).await,
        Command::Workflow(args) => workflow::run(args, &context).await,
        Command::Limit(args) => limit::run(args, &context).await,
        Command::Scale(args) => scale::run(args, &context).await,
        Command::Dead(args) => dead::run(args, &context).await,
        Command::Schedule(args) => schedule::run(args, &context).await,
        Command::Status(args) => status::run(&args, &context).await,
        Command::Top(args) => top::run(&args, &context).await,
        Command::Alert(args) => alert::run(args, &context).await,
        Command::Events(args) => events::run(&args, &context).await,
        Command::Doctor(args) if args.live => doctor_live::run(&context).await,
        Command::Doctor(args) => doctor::run(&args, &context).await,
        Command::Config(args) => config::run(&args, &context),
        Command::Settings(args) => settings::run(&args, &context).await,
        Command::Store(args) => store::run(args, &context).await,
        Command::Token(args) => token::run(args, &context).await,
        Command::Bench(args) => divvy_bench::run(args, &context.output).await,
        Command::Lab(args) => lab::run(args, &context).await,
        Command::Plan(args) => plan::run(&args, &context).await,
        Command::Cert(_) | Command::Completions(_) | Command::SampleStep(_) | Command::LabChild => {
            unreachable!("handled before the settings are read")
        }
    }
}
