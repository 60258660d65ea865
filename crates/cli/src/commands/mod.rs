//! What each command does, one file per verb or noun. This file only hands out.

mod bulk;
mod completions;
mod config;
mod dead;
mod doctor;
mod doctor_live;
mod explain;
mod lab;
mod limit;
mod logs;
mod queue;
mod run;
mod schedule;
mod serve;
mod settings;
mod status;
mod store;
pub(crate) mod submit;
mod task;
mod up;
pub(crate) mod video;
mod wait;
mod work;
mod worker;
mod workflow;

use anyhow::{Context as _, Result};
use clap::CommandFactory;
use divvy::Client;
use divvy::api::Api;

use crate::args::local;
use crate::args::scheduling;
use crate::args::{Cli, Command};
use crate::config::Settings;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::{bench, logging, sample};

/// What a command works with.
pub(crate) struct Context {
    /// Where its output goes.
    pub(crate) output: Output,
    /// What is set.
    pub(crate) settings: Settings,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
}

impl Context {
    /// The server to talk to.
    pub(crate) fn api(&self) -> Result<Api> {
        Ok(self.client()?.api().clone())
    }

    /// The same in the words of the SDK.
    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.settings.target())?)
    }
}

/// Runs what was typed.
pub(crate) fn run(cli: Cli) -> Result<Code> {
    let Cli { global, command } = cli;
    let plain = Output::new(global.json, global.quiet, global.color.unwrap_or_default());
    let command = match command {
        None => {
            plain.bytes(Cli::command().render_help().to_string().as_bytes())?;
            return Ok(Code::Done);
        }
        Some(Command::Completions(args)) => return completions::run(&args, &plain),
        Some(Command::SampleStep(step)) => return sample::steps::run(step.step, &plain),
        Some(Command::LabChild) => return lab::child(&plain),
        // Must work beside a file that is broken.
        Some(Command::Config(local::Config::Init { force })) => return config::init(force, &plain),
        Some(Command::Settings(scheduling::Settings::Check { file })) => {
            return settings::check(&file, &plain);
        }
        Some(command) => command,
    };
    let settings = Settings::load(&global.flags())?;
    let output = Output::new(global.json, global.quiet, settings.color.value);
    let service = matches!(command, Command::Up(_) | Command::Serve(_) | Command::Work(_));
    logging::start(service, global.verbose);
    let context = Context { output, settings, verbose: global.verbose };
    // Those that say something about Ctrl-C listen for it themselves.
    let listens = service || matches!(command, Command::Video(_));
    let runtime = runtime(&command).context("cannot start the async runtime")?;
    let ended = runtime.block_on(async {
        if listens {
            return dispatch(command, context).await;
        }
        tokio::select! {
            ended = dispatch(command, context) => ended,
            signal = tokio::signal::ctrl_c() => {
                signal.context("cannot listen for Ctrl-C")?;
                Err(Failure::new(Code::Interrupted, "interrupted").into())
            }
        }
    });
    // Threads that still read or wait for something must not keep the process.
    runtime.shutdown_background();
    ended
}

/// A server gets threads for half of the cores: the engine's loop and the writer have threads of their own, and network
/// threads beyond that only wake each other.
fn runtime(command: &Command) -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if matches!(command, Command::Up(_) | Command::Serve(_)) {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        builder.worker_threads((cores / 2).max(1));
    }
    builder.enable_all().build()
}

async fn dispatch(command: Command, context: Context) -> Result<Code> {
    match command {
        Command::Up(args) => up::run(args, context).await,
        Command::Serve(args) => serve::run(&args, &context).await,
        Command::Work(args) => work::run(args, &context).await,
        Command::Submit(args) => submit::run(args, &context).await,
        Command::Run(args) => run::run(&args, &context).await,
        Command::Wait(args) => wait::run(&args, &context).await,
        Command::Explain(args) => explain::run(&args, &context).await,
        Command::Logs(args) => logs::run(&args, &context).await,
        Command::Task(args) => task::run(args, &context).await,
        Command::Queue(args) => queue::run(args, &context).await,
        Command::Worker(args) => worker::run(args, &context).await,
        Command::Workflow(args) => workflow::run(args, &context).await,
        Command::Limit(args) => limit::run(args, &context).await,
        Command::Dead(args) => dead::run(args, &context).await,
        Command::Schedule(args) => schedule::run(args, &context).await,
        Command::Video(args) => video::run(args, &context).await,
        Command::Status => status::run(&context).await,
        Command::Doctor(args) if args.live => doctor_live::run(&context).await,
        Command::Doctor(args) => doctor::run(&args, &context).await,
        Command::Config(args) => config::run(&args, &context),
        Command::Settings(args) => settings::run(&args, &context).await,
        Command::Store(args) => store::run(args, &context).await,
        Command::Bench(args) => bench::run(args, &context.output).await,
        Command::Lab(args) => lab::run(args, &context).await,
        Command::Completions(_) | Command::SampleStep(_) | Command::LabChild => {
            unreachable!("handled before the settings are read")
        }
    }
}
