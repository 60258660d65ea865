//! `divvy up`: a server in this process and workers beside it, until Ctrl-C.
//!
//! `auto` workers are a pool of processes, named `local`, from one to as many as there are cores: one is always there, so
//! that the first task does not wait for a start. A pool of that name in the settings takes its place. Each takes one
//! computing task at once, and as many child processes as let all workers together fill the cores without crowding them;
//! tasks that mostly wait are many per worker. `--slots` changes that for each worker.

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ArgMatches;
use divvy::{Client, Target};
use divvy_types::pools::{Goal, Pace, Policy, Pool};
use divvy_types::{Name, Scope};
use divvy_workload::{Prepared, SampleContext, UpContext};
use serde_json::json;

use super::Context;
use super::serve::StopSignals;
use super::work::Choice;
use crate::args::service::Up;
use crate::exit::{Code, Failure};
use crate::logging::LogFormat;
use crate::service::{OBJECTS, Plan, Service, reachable};
use crate::values::{Addresses, SlotCounts, Span, Workers};
use crate::workloads::{PRIMES, Workloads};
use crate::{config, logging, sample, supervise};

/// What the pool of `--workers auto` is called.
const AUTO_POOL: Name = Name::const_new("local");

/// The local workers that were asked for.
#[derive(Clone, Copy)]
enum Crew {
    /// As many as the work needs.
    Auto { least: u32, most: u32 },
    /// This many.
    Staying(u32),
}

impl Crew {
    fn new(asked: Workers, args: &Up, auto: &Pool) -> Self {
        match asked {
            Workers::Auto => Self::Auto { least: auto.min, most: auto.max },
            // A sample without anyone to work on it would wait for ever.
            Workers::Count(count) if args.sample.is_some() => Self::Staying(count.max(1)),
            Workers::Count(count) => Self::Staying(count),
        }
    }

    fn staying(self) -> u32 {
        if let Self::Staying(count) = self { count } else { 0 }
    }

    fn least(self) -> u32 {
        let (Self::Auto { least, .. } | Self::Staying(least)) = self;
        least
    }

    fn most(self) -> u32 {
        let (Self::Auto { most, .. } | Self::Staying(most)) = self;
        most
    }
}

impl fmt::Display for Crew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto { least, most } => write!(f, "auto ({least} to {most})"),
            Self::Staying(1) => f.write_str("1 local process"),
            Self::Staying(count) => write!(f, "{count} local processes"),
        }
    }
}

/// The pool of `--workers auto`. Processes cost nothing but memory and start at once, so it grows as soon as something
/// waits and shrinks after a while without need.
fn auto_pool(most: u32) -> Pool {
    let goal = Goal::Start { share: 0.95, within: Duration::from_secs(1) };
    let down = Pace { step: None, cool_down_sec: 5.0, window_sec: 60.0 };
    Pool { min: 1, max: most, goal, policy: Policy::Queue, down, ..Pool::default() }
}

/// Slots of one local worker of so many.
fn local_slots(workers: u32, cores: usize) -> SlotCounts {
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    let process = cores.div_ceil(workers.max(1));
    SlotCounts { process: Some(process), ..supervise::slots_of(1) }
}

/// Runs until Ctrl-C, or until the sample is over.
pub(super) async fn run(args: Up, matches: &ArgMatches, context: Context) -> Result<Code> {
    let signals = StopSignals::listen()?;
    let mut plan = Plan::new(&args.server, &context.settings)?;
    // What every worker would stumble over is better told before anything is started.
    let choice = Choice::new(&args.worker, &context.settings);
    choice.check()?;
    let prepared = prepare(&args, matches, &plan, &context).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let asked = args.workers.unwrap_or(context.settings.workers.value);
    let set = context.settings.scheduling.pools.as_ref().and_then(|pools| pools.get(&AUTO_POOL));
    let auto = set.cloned().unwrap_or_else(|| auto_pool(asked.most(cores)));
    let workers = Crew::new(asked, &args, &auto);
    if matches!(workers, Crew::Auto { .. }) {
        plan.scaling.own.insert(AUTO_POOL, auto);
    }
    let service = Service::start(&plan, &context).await?;
    sweep(&plan.data, &context.workloads);
    let url = service.url(reachable(service.address()));
    let flags = prepared.iter().flat_map(|(_, prepared)| prepared.worker_arguments.clone());
    let mut worker_plan = worker_plan(&args, &choice, &plan, &context, &url, flags)?;
    worker_plan.usual_slots = local_slots(workers.most(), cores);
    // Workers need no more than this, and neither do the programs that they run.
    worker_plan.token = Some(service.tokens.lend(Scope::Work));
    if workers.most() > 0
        && let Err(error) = check_certificate(&url, &context).await
    {
        service.stop().await?;
        return Err(error);
    }
    let local = plan.scaling.local.clone();
    let supervisor = supervise::Supervisor::start(worker_plan, workers.staying(), local);
    let mut stack = Stack { service, supervisor, signals, context };
    stack.announce(&plan, &url, workers, &prepared)?;
    let ended = stack.run(&args, matches, &plan, &url, workers.most()).await;
    stack.stop(ended).await
}

/// Lets each workload look at this machine. Flags for the workers, and what to say.
async fn prepare(
    args: &Up,
    matches: &ArgMatches,
    plan: &Plan,
    context: &Context,
) -> Result<Vec<(&'static str, Prepared)>> {
    let theirs = context.for_workload_at(Target::default());
    let mut all = Vec::new();
    for workload in context.workloads.iter() {
        let is_sample = args.sample.as_deref() == Some(workload.name());
        let up = UpContext { matches, context: &theirs, data: &plan.data, is_sample };
        all.push((workload.name(), workload.prepare(&up).await?));
    }
    Ok(all)
}

/// Makes sure that local workers will trust the certificate at the address by which they reach the server.
async fn check_certificate(url: &str, context: &Context) -> Result<()> {
    if !url.starts_with("https:") {
        return Ok(());
    }
    let target = Target { ca: context.settings.ca.value.clone(), ..Target::new(url) };
    match Client::connect(target).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let problem = format!("local workers reach this server as {url}, and cannot: {error}");
            let cure = "let the certificate name that address, as `divvy cert new` does, or start `divvy serve`, and workers elsewhere";
            Err(Failure::new(Code::Refused, problem).cure(cure).into())
        }
    }
}

/// Removes what workers that were killed left behind. None runs now: the data folder is ours.
fn sweep(data: &Path, workloads: &Workloads) {
    let folders = workloads.iter().flat_map(|workload| workload.data_folders().scratch);
    folders.for_each(|folder| empty(&data.join(folder)));
}

fn empty(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("cannot empty {}: {error}", folder.display());
    }
}

/// Everything that runs.
struct Stack {
    service: Service,
    supervisor: supervise::Supervisor,
    signals: StopSignals,
    context: Context,
}

impl Stack {
    fn announce(
        &self,
        plan: &Plan,
        url: &str,
        workers: Crew,
        prepared: &[(&'static str, Prepared)],
    ) -> Result<()> {
        let output = &self.context.output;
        if output.is_json() {
            let mut said = json!({
                "url": url, "address": self.service.address().to_string(), "data": plan.data,
                "workers": workers.least(), "workers_max": workers.most(),
                "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
            });
            for (name, prepared) in prepared {
                said[*name] = prepared.json.clone();
            }
            return output.object(&said);
        }
        let server = if url.ends_with(config::LISTEN_DEFAULT) {
            String::new()
        } else {
            format!(" --server {url}")
        };
        output.data(format_args!("divvy {} is up: {url}", env!("CARGO_PKG_VERSION")))?;
        output.data(format_args!("  data     {}", plan.data.display()))?;
        output.data(format_args!("  workers  {workers}"))?;
        for (_, prepared) in prepared {
            for (word, text) in &prepared.lines {
                output.data(format_args!("  {word:<8} {text}"))?;
            }
            for (word, path) in &prepared.pages {
                output.data(format_args!("  {word:<8} {url}{path}"))?;
            }
        }
        output.data(format_args!("  try      divvy{server} submit sleep --arg ms:=500 --wait"))?;
        output.note("Ctrl-C drains and stops; a second Ctrl-C stops now");
        Ok(())
    }

    /// Runs the sample if asked, then until a signal; what the end is if nothing goes wrong at the stop.
    async fn run(
        &mut self,
        args: &Up,
        matches: &ArgMatches,
        plan: &Plan,
        url: &str,
        workers: u32,
    ) -> Result<Code> {
        if let Some(which) = &args.sample {
            let context = &self.context;
            let token = Some(self.service.tokens.lend([Scope::Submit, Scope::Read]));
            let ca = context.settings.ca.value.clone();
            let theirs = context.for_workload_at(Target { token, ca, ..Target::new(url) });
            let api = theirs.api()?;
            let shown = SampleContext { matches, context: &theirs, data: &plan.data };
            let sample = async {
                match context.workloads.of_sample(which) {
                    Some(workload) => workload.sample(&shown).await,
                    None => sample::primes::run(&api, &context.output, workers).await,
                }
            };
            let outcome = tokio::select! {
                outcome = sample => outcome,
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
        let Self { service, mut supervisor, mut signals, context, .. } = self;
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

fn worker_plan(
    args: &Up,
    choice: &Choice,
    plan: &Plan,
    context: &Context,
    url: &str,
    flags: impl Iterator<Item = String>,
) -> Result<supervise::Plan> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut programs = choice.programs.clone();
    if args.sample.as_deref() == Some(PRIMES) {
        programs.extend(sample::primes::programs(&program.to_string_lossy()));
    }
    let mut arguments: Vec<String> =
        ["--server", url, "--config", "/dev/null"].map(String::from).to_vec();
    if let Some(prefetch) = choice.prefetch {
        arguments.extend(["--prefetch".to_owned(), prefetch.to_string()]);
    }
    for program in &programs {
        arguments.extend(["--exec".to_owned(), program.to_text()]);
    }
    if !choice.program_args.is_empty() {
        arguments.extend(["--exec-args".to_owned(), choice.program_args.join(",")]);
    }
    arguments.extend(["--exec-limits".to_owned(), choice.program_limits.to_string()]);
    if choice.allow_private {
        arguments.push("--allow-private".to_owned());
    }
    if !choice.allow_addresses.is_empty() {
        let addresses = Addresses(choice.allow_addresses.clone()).to_string();
        arguments.extend(["--allow-address".to_owned(), addresses]);
    }
    if let Some(ca) = &context.settings.ca.value {
        arguments.extend(["--ca".to_owned(), ca.display().to_string()]);
    }
    let objects = plan.data.join(OBJECTS).display().to_string();
    arguments.extend(["--objects".to_owned(), objects]);
    arguments.extend(flags);
    arguments.extend(["--drain-timeout".to_owned(), Span(choice.drain_timeout).to_string()]);
    arguments.extend((0..context.verbose).map(|_| "-v".to_owned()));
    if context.log_format == LogFormat::Json {
        arguments.extend(["--log-format".to_owned(), "json".to_owned()]);
    }
    let said = context.verbose > 0 || std::env::var_os(logging::VARIABLE).is_some();
    Ok(supervise::Plan {
        program,
        arguments,
        asked_slots: choice.slots,
        usual_slots: SlotCounts::default(),
        kinds: Vec::new(),
        queues: choice.queues.iter().map(ToString::to_string).collect(),
        capabilities: choice.capabilities.iter().map(ToString::to_string).collect(),
        hidden: context.settings.sources.variables(),
        token: None,
        log: (!said).then_some("warn"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_workers_together_have_a_process_for_each_core() {
        for (cores, workers) in [(1, 1), (2, 1), (2, 4), (7, 3), (8, 7), (64, 8), (4, 0)] {
            let slots = local_slots(workers, cores).process.unwrap() as usize;
            assert!(slots * workers.max(1) as usize >= cores, "{cores} {workers}: {slots}");
            assert!((slots - 1) * (workers.max(1) as usize) < cores, "{cores} {workers}: {slots}");
        }
    }
}
