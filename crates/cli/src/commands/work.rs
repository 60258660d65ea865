//! `divvy work`: a worker with the built-in kinds and the programs that it may run.

use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::Result;
use clap::ArgMatches;
use divvy_types::Name;
use divvy_worker::builtin::{Builtins, ExecProgram, Keeper, register};
use divvy_worker::{Options, Registry, Shutdown, Slots, Summary, Worker};
use divvy_workload::{WorkerContext, WorkerPart};
use serde_json::json;

use super::Context;
use crate::args::service::{Work, WorkerFlags};
use crate::config::Settings;
use crate::entry::KEEPER;
use crate::exit::{Code, Failure};
use crate::supervise;
use crate::values::{Prefetch, Program, ProgramLimits, SlotCounts};

/// Works until a signal, or until the server or the parent ends it.
pub(super) async fn run(args: Work, matches: &ArgMatches, context: &Context) -> Result<Code> {
    let shutdown = Shutdown::on_signals().map_err(failure)?;
    let settings = &context.settings;
    let choice = Choice::new(&args.worker, settings);
    let name = args.name.as_deref().map_or_else(default_name, Name::from);
    let target = settings.target()?;
    let mut options = Options::new(name.clone(), target.clone());
    options.queues = choice.queues.clone();
    options.capabilities = choice.capabilities.clone();
    options.slots = slots(choice.slots);
    options.prefetch = choice.prefetch.map(|prefetch| prefetch.0);
    options.drain_timeout = choice.drain_timeout;
    let builtins = choice.builtins()?;
    options.capabilities.extend(builtins.capabilities());
    let mut registry = registry(&builtins)?;
    if !builtins.programs.is_empty() {
        // Programs run as the same user: this keeps the memory of the worker, which holds the token, from them.
        let _ = nix::sys::prctl::set_dumpable(false);
    }
    if args.stop_with_stdin {
        stop_with_stdin(shutdown.clone());
    }
    let theirs = WorkerContext {
        matches,
        sources: &settings.sources,
        target,
        objects: args.objects.clone(),
        allow_private: choice.allow_private,
        shutdown: &shutdown,
    };
    // To try out the tools of this machine takes seconds. Who is asked to end meanwhile need not know the result.
    let parts = tokio::select! {
        parts = parts(context, &theirs) => parts?,
        () = shutdown.asked() => return tell(context, &name, &Summary::default()),
    };
    for mut part in parts {
        options.capabilities.extend(part.capabilities.into_iter().map(Name::from));
        if args.kinds.is_none() {
            leave_without_slots(&mut part.registry, &options.slots);
        }
        registry.merge(part.registry);
    }
    if let Some(kinds) = &args.kinds {
        keep_kinds(&mut registry, &kinds.0)?;
    }
    tracing::info!("worker {name} works for {}", settings.server.value);
    let worker = Worker::new(options, registry).map_err(failure)?;
    tell(context, &name, &worker.run(shutdown).await.map_err(failure)?)
}

/// What the workloads bring to this worker.
async fn parts(context: &Context, theirs: &WorkerContext<'_>) -> Result<Vec<WorkerPart>> {
    let mut parts = Vec::new();
    for workload in context.workloads.iter() {
        parts.extend(workload.worker(theirs).await?);
    }
    Ok(parts)
}

/// What the worker did, now that it ends.
fn tell(context: &Context, name: &Name, summary: &Summary) -> Result<Code> {
    if context.output.is_json() {
        context.output.object(&json!({
            "worker": name, "finished": summary.finished, "failed": summary.failed, "released": summary.released,
            "refused": summary.refused, "unanswered": summary.unanswered,
        }))?;
    } else {
        let (finished, failed, released) = (summary.finished, summary.failed, summary.released);
        tracing::info!(
            "worker {name} stopped: {finished} finished, {failed} failed, {released} given back"
        );
    }
    Ok(Code::Done)
}

/// What a worker shall be, flags over settings.
pub(super) struct Choice {
    pub(super) queues: Vec<Name>,
    pub(super) capabilities: Vec<Name>,
    pub(super) slots: SlotCounts,
    pub(super) prefetch: Option<Prefetch>,
    pub(super) programs: Vec<Program>,
    pub(super) program_args: Vec<Name>,
    pub(super) program_limits: ProgramLimits,
    pub(super) allow_private: bool,
    pub(super) allow_addresses: Vec<IpAddr>,
    pub(super) drain_timeout: Duration,
}

impl Choice {
    /// The built-in kinds of such a worker, checked. A program that cannot be run is told here.
    pub(super) fn check(&self) -> Result<()> {
        registry(&self.builtins()?).map(drop)
    }

    fn builtins(&self) -> Result<Builtins> {
        for name in &self.program_args {
            if !self.programs.iter().any(|program| program.name == *name) {
                let problem = format!("exec-args names `{name}`, which is no program of --exec");
                return Err(Failure::usage(problem)
                    .cure(format!("add --exec {name}=PROGRAM"))
                    .into());
            }
        }
        let programs = self.programs.iter().map(|program| self.exec_program(program)).collect();
        let keeper = Keeper {
            // The file behind this process, even if another one has taken its name since.
            program: "/proc/self/exe".into(),
            args: vec![KEEPER.into()],
            limits: self.program_limits.0,
        };
        Ok(Builtins {
            programs,
            keeper: Some(keeper),
            allow_private: self.allow_private,
            allow_addresses: self.allow_addresses.clone(),
        })
    }

    fn exec_program(&self, program: &Program) -> ExecProgram {
        let (first, rest) = program.words.split_first().expect("a program has at least one word");
        ExecProgram {
            name: program.name.clone(),
            program: first.clone(),
            args: rest.to_vec(),
            more_args: self.program_args.contains(&program.name),
        }
    }

    /// Flags over settings.
    pub(super) fn new(flags: &WorkerFlags, settings: &Settings) -> Self {
        let names = |flag: &Option<crate::values::Names>, setting: &crate::values::Names| {
            flag.clone().unwrap_or_else(|| setting.clone()).0
        };
        let programs =
            if flags.exec.is_empty() { settings.exec.value.0.clone() } else { flags.exec.clone() };
        Self {
            queues: names(&flags.queues, &settings.queues.value),
            capabilities: names(&flags.caps, &settings.capabilities.value),
            slots: flags.slots.unwrap_or(settings.slots.value),
            prefetch: flags.prefetch.or(settings.prefetch.value),
            programs,
            program_args: names(&flags.exec_args, &settings.exec_args.value),
            program_limits: flags.exec_limits.unwrap_or(settings.exec_limits.value),
            allow_private: flags.allow_private || settings.allow_private.value,
            allow_addresses: match &flags.allow_address {
                Some(addresses) => addresses.0.clone(),
                None => settings.allow_address.value.0.clone(),
            },
            drain_timeout: flags.drain_timeout.unwrap_or(settings.drain_timeout.value).0,
        }
    }
}

fn slots(counts: SlotCounts) -> Slots {
    let default = Slots::default();
    Slots {
        async_: counts.async_.unwrap_or(default.async_),
        blocking: counts.blocking.unwrap_or(default.blocking),
        cpu: counts.cpu.unwrap_or(default.cpu),
        process: counts.process.unwrap_or(default.process),
    }
}

/// The kinds that a worker with these serves.
fn registry(builtins: &Builtins) -> Result<Registry> {
    let mut registry = Registry::new();
    register(&mut registry, builtins).map_err(failure)?;
    Ok(registry)
}

/// Leaves out the kinds of a workload that this worker has no slots for: nobody has asked it for them by name.
fn leave_without_slots(registry: &mut Registry, slots: &Slots) {
    let has_slots = |kind: &Name| registry.tier(kind).is_some_and(|tier| slots.of(tier) > 0);
    let (kept, left): (Vec<Name>, Vec<Name>) = registry.kinds().cloned().partition(has_slots);
    if left.is_empty() {
        return;
    }
    tracing::info!("has no slots for {}, which other workers may run", left.join(", "));
    registry.keep_only(&kept);
}

/// Leaves only kinds that were asked for. One that is not known here may be known to other workers of the same pool, so
/// only a worker that is left with none cannot work; it may be able to when programs or settings have changed.
fn keep_kinds(registry: &mut Registry, kinds: &[Name]) -> Result<()> {
    let known: Vec<String> = registry.kinds().map(ToString::to_string).collect();
    let unknown = registry.keep_only(kinds).join(", ");
    if registry.kinds().len() == 0 {
        let problem = format!("this worker runs none of the kinds {unknown}");
        let cure = format!(
            "give a program with --exec KIND=PROGRAM, or name some of these: {}",
            known.join(", ")
        );
        return Err(Failure::new(Code::Failed, problem).cure(cure).into());
    }
    if !unknown.is_empty() {
        tracing::warn!("this worker does not run the kinds {unknown}, which are left out");
    }
    Ok(())
}

fn default_name() -> Name {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "worker" } else { host.trim() };
    Name::from(format!("{host}-{}", std::process::id()))
}

/// Stops when standard input ends, and leaves when it says so. A thread of its own, because nothing can interrupt a read.
fn stop_with_stdin(shutdown: Shutdown) {
    std::thread::spawn(move || {
        // An error is an end as well.
        for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
            if byte == supervise::LEAVE {
                tracing::info!("not needed any more: takes no more tasks and finishes what runs");
                shutdown.leave();
            }
        }
        if !shutdown.is_asked() {
            tracing::warn!("the parent process is gone: stops");
        }
        shutdown.now();
    });
}

fn failure(error: divvy_worker::Error) -> Failure {
    let code = match &error {
        divvy_worker::Error::Refused { .. } => Code::Refused,
        divvy_worker::Error::System { .. } => Code::Failed,
        _ => Code::Usage,
    };
    let failure = Failure::new(code, error.to_string());
    match &error {
        divvy_worker::Error::Refused { code, .. }
            if matches!(code.as_str(), "unauthorized" | "scope_missing") =>
        {
            failure.cure("pass it with --token or DIVVY_TOKEN")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use divvy_worker::Tier;

    use super::*;

    #[test]
    fn kinds_without_slots_are_left_to_other_workers() {
        let mut registry = registry(&Builtins::default()).unwrap();
        let of_async = |registry: &Registry| {
            let is_async = |kind: &&Name| registry.tier(kind) == Some(Tier::Async);
            (registry.kinds().filter(is_async).count(), registry.kinds().len())
        };
        let before = of_async(&registry);
        leave_without_slots(&mut registry, &Slots::default());
        assert_eq!(of_async(&registry), before);
        leave_without_slots(&mut registry, &Slots { async_: 0, ..Slots::default() });
        assert_eq!(of_async(&registry), (0, before.1 - before.0));
        assert!(before.0 > 0);
    }
}
