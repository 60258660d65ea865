//! `divvy up`: a server in this process and workers beside it, until Ctrl-C.
//!
//! `auto` workers are one process per core but one, because the server needs some of the machine, at least one and at
//! most eight. Each takes one computing task and one child process at once, so that all together keep the cores busy
//! without crowding them; tasks that mostly wait are many per worker. `--slots` changes that for each worker.

use std::io::IsTerminal;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::Context;
use super::serve::StopSignals;
use super::work::Choice;
use crate::args::service::Up;
use crate::exit::Code;
use crate::http::Api;
use crate::service::{Plan, Service};
use crate::values::{Programs, SlotCounts, Span};
use crate::{config, logging, sample, supervise};

/// Slots of one local worker.
const LOCAL_SLOTS: SlotCounts =
    SlotCounts { async_: Some(64), blocking: Some(4), cpu: Some(1), process: Some(1) };

/// Runs until Ctrl-C, or until the sample is over.
pub(super) async fn run(args: Up, context: Context) -> Result<Code> {
    let signals = StopSignals::listen()?;
    let plan = Plan::new(&args.server, &context.settings)?;
    // What every worker would stumble over is better told before anything is started.
    Choice::new(&args.worker, &context.settings).registry()?;
    let service = Service::start(&plan).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = args.workers.unwrap_or(context.settings.workers.value).count(cores);
    // A sample without anyone to work on it would wait for ever.
    let workers = if args.sample { wanted.max(1) } else { wanted };
    let url = format!("http://{}", reachable(service.address()));
    let supervisor = supervise::Supervisor::start(&worker_plan(&args, &context, &url)?, workers);
    let mut stack = Stack { service, supervisor, signals, context };
    stack.announce(&plan, &url, workers)?;
    let ended = stack.run(&args, &url, workers).await;
    stack.stop(ended).await
}

/// Everything that runs.
struct Stack {
    service: Service,
    supervisor: supervise::Supervisor,
    signals: StopSignals,
    context: Context,
}

impl Stack {
    fn announce(&self, plan: &Plan, url: &str, workers: u32) -> Result<()> {
        let output = &self.context.output;
        if output.is_json() {
            return output.object(&json!({
                "url": url, "address": self.service.address().to_string(), "data": plan.data, "workers": workers,
                "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
            }));
        }
        let server = if url.ends_with(config::LISTEN_DEFAULT) {
            String::new()
        } else {
            format!(" --server {url}")
        };
        let processes = if workers == 1 { "local process" } else { "local processes" };
        output.data(format_args!("divvy {} is up: {url}", env!("CARGO_PKG_VERSION")))?;
        output.data(format_args!("  data     {}", plan.data.display()))?;
        output.data(format_args!("  workers  {workers} {processes}"))?;
        output.data(format_args!("  try      divvy{server} submit sleep --arg ms:=500 --wait"))?;
        output.note("Ctrl-C drains and stops; a second Ctrl-C stops now");
        Ok(())
    }

    /// Runs the sample if asked, then until a signal; what the end is if nothing goes wrong at the stop.
    async fn run(&mut self, args: &Up, url: &str, workers: u32) -> Result<Code> {
        if args.sample {
            let api = Api::new(url, self.context.settings.token.value.clone())?;
            let output = self.context.output;
            let outcome = tokio::select! {
                outcome = sample::run(&api, &output, workers) => outcome,
                () = self.signals.next() => return Ok(Code::Done),
                error = self.service.broken() => return Err(error),
                error = self.supervisor.broken() => return Err(error),
            };
            if args.once || outcome.is_err() || !std::io::stdout().is_terminal() {
                return outcome.map(|()| Code::Done);
            }
            self.context.output.note("the server stays up; Ctrl-C stops it");
        }
        tokio::select! {
            () = self.signals.next() => Ok(Code::Done),
            error = self.service.broken() => Err(error),
            error = self.supervisor.broken() => Err(error),
        }
    }

    /// Drains the workers, then stops the server. A second signal stops all of it now.
    async fn stop(self, ended: Result<Code>) -> Result<Code> {
        let Self { service, mut supervisor, mut signals, context } = self;
        let output = &context.output;
        output.note(
            "draining: running tasks finish, the rest waits for the next start; Ctrl-C stops now",
        );
        supervisor.drain();
        let interrupted = tokio::select! {
            () = supervisor.ended() => false,
            () = signals.next() => true,
        };
        if interrupted {
            output.note(
                "stopping now: running tasks are stopped and will run again at the next start",
            );
            supervisor.now();
            supervisor.ended().await;
        }
        let stopped = tokio::select! {
            stopped = service.stop() => stopped,
            () = signals.next() => return Ok(Code::Interrupted),
        };
        // The first thing that went wrong is the one to tell.
        let code = ended?;
        stopped?;
        output.note("stopped");
        Ok(if interrupted { Code::Interrupted } else { code })
    }
}

/// An address that listens on all interfaces is reached over loopback from here.
fn reachable(address: std::net::SocketAddr) -> std::net::SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
        address.set_ip(loopback.parse().expect("loopback is an address"));
    }
    address
}

fn worker_plan(args: &Up, context: &Context, url: &str) -> Result<supervise::Plan> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut choice = Choice::new(&args.worker, &context.settings);
    if args.sample {
        choice.programs.extend(sample::programs(&program.to_string_lossy()));
    }
    let slots = choice.slots.or(LOCAL_SLOTS);
    let mut arguments: Vec<String> =
        ["--server", url, "--config", "/dev/null", "--slots"].map(String::from).to_vec();
    arguments.push(slots.to_string());
    if let Some(prefetch) = choice.prefetch {
        arguments.extend(["--prefetch".to_owned(), prefetch.to_string()]);
    }
    for (flag, names) in [("--queues", &choice.queues), ("--caps", &choice.capabilities)] {
        if !names.is_empty() {
            arguments.extend([flag.to_owned(), names.join(",")]);
        }
    }
    for program in &Programs(choice.programs).0 {
        arguments.extend(["--exec".to_owned(), program.to_text()]);
    }
    if choice.allow_private {
        arguments.push("--allow-private".to_owned());
    }
    arguments.extend(["--drain-timeout".to_owned(), Span(choice.drain_timeout).to_string()]);
    arguments.extend((0..context.verbose).map(|_| "-v".to_owned()));
    let said = context.verbose > 0 || std::env::var_os(logging::VARIABLE).is_some();
    Ok(supervise::Plan {
        program,
        arguments,
        token: context.settings.token.value.clone(),
        log: (!said).then_some("warn"),
    })
}
