//! `divvy doctor`: one line per check, each with its cure. Exit code 1 if a check found a fault.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use divvy::Target;
use divvy_types::Timestamp;
use divvy_workload::{Finding, Grade};
use nix::sys::resource::{Resource, getrlimit};
use serde_json::{Value, json};

use super::Context;
use crate::args::local::Doctor;
use crate::exit::{Code, Failure, explained};
use crate::output::words;
use crate::values::Workers;

/// Open files that a server with many workers needs at least.
const FILES_WANTED: u64 = 4_096;
/// How often the disk is timed.
const SYNC_ROUNDS: usize = 8;
/// A disk slower than this makes every task slow.
const SYNC_MS_SLOW: u128 = 50;
/// No sane clock shows an earlier time than the first release.
const EARLIEST: &str = "2025-01-01T00:00:00Z";

/// Checks everything.
pub(super) async fn run(args: &Doctor, context: &Context) -> Result<Code> {
    let data = args.data.clone().unwrap_or_else(|| context.settings.data.value.clone());
    let stats = match context.api() {
        Ok(api) => {
            let reply = api.get(&["stats"], &[]).await;
            reply.and_then(|reply| reply.value()).map_err(|error| explained(error.into()))
        }
        Err(error) => Err(error),
    };
    let mut findings = vec![
        server(&stats, context),
        port(stats.is_ok(), context),
        tokio::task::spawn_blocking(move || disk(&data)).await?,
        clock(),
        files(),
        cores(context),
    ];
    let target = context.settings.target();
    let server = || Target::new(context.settings.server.value.as_str());
    let theirs = context.for_workload_at(target.unwrap_or_else(|_| server()));
    for workload in context.workloads.iter() {
        findings.extend(workload.check(&theirs).await);
    }
    findings.push(program("python3", "only for workers that are written in it"));
    let output = &context.output;
    for finding in &findings {
        let word = match finding.grade {
            Grade::Good => "ok",
            Grade::Note => "note",
            Grade::Fault => "FAULT",
        };
        if output.is_json() {
            let grade = word.to_lowercase();
            let (check, text, cure) = (finding.check, &finding.text, &finding.cure);
            output
                .object(&json!({ "check": check, "grade": grade, "text": text, "cure": cure }))?;
            continue;
        }
        let cure = finding.cure.as_ref().map(|cure| format!("; {cure}")).unwrap_or_default();
        output.data(format_args!("{word:<6} {:<8} {}{cure}", finding.check, finding.text))?;
    }
    let faulty = findings.iter().any(|finding| finding.grade == Grade::Fault);
    Ok(if faulty { Code::Failed } else { Code::Done })
}

fn server(stats: &Result<Value>, context: &Context) -> Finding {
    let server = &context.settings.server.value;
    match stats {
        Err(error) => match error.downcast_ref::<Failure>() {
            // A server that answers and does not let us in is not one that has to be started.
            Some(Failure { code: Code::Refused | Code::Usage, message, cure, .. }) => {
                let finding = Finding::new("server", Grade::Fault, message.clone());
                match cure {
                    Some(cure) => finding.cure(cure.clone()),
                    None => finding,
                }
            }
            _ => Finding::new("server", Grade::Note, error.to_string())
                .cure("start one with `divvy up`"),
        },
        Ok(stats) => {
            let (theirs, ours) =
                (stats["version"].as_str().unwrap_or("?"), env!("CARGO_PKG_VERSION"));
            if theirs == ours {
                return Finding::new(
                    "server",
                    Grade::Good,
                    format!("{server} answers, version {theirs}"),
                );
            }
            let text = format!("{server} has version {theirs}, this is {ours}");
            Finding::new("server", Grade::Fault, text).cure("run the same version on both sides")
        }
    }
}

fn port(ours: bool, context: &Context) -> Finding {
    let address = context.settings.listen.value;
    if ours && context.settings.server.value.ends_with(&address.to_string()) {
        return Finding::new("port", Grade::Good, format!("{address} is our server's"));
    }
    match TcpListener::bind(address) {
        Ok(_) => Finding::new("port", Grade::Good, format!("{address} is free")),
        Err(error) => {
            Finding::new("port", Grade::Fault, format!("{address} cannot be used: {error}"))
                .cure("stop what listens there, or choose another with --listen")
        }
    }
}

/// Whether the folder can be written, and how long the disk takes to make a little data durable.
fn disk(folder: &Path) -> Finding {
    let existing = folder.ancestors().find(|path| path.is_dir() && !path.as_os_str().is_empty());
    let place = existing.map_or_else(|| PathBuf::from("."), Path::to_owned);
    match time_sync(&place) {
        Err(error) => {
            let text = format!("{} cannot be written: {error}", place.display());
            Finding::new("data", Grade::Fault, text)
                .cure("change its owner, or give another folder with --data")
        }
        Ok(micros) => {
            let text = format!(
                "{} is writable, a sync takes {:.1} ms",
                place.display(),
                micros as f64 / 1_000.0
            );
            if micros / 1_000 < SYNC_MS_SLOW {
                return Finding::new("data", Grade::Good, text);
            }
            Finding::new("data", Grade::Note, text)
                .cure("every task waits for a sync: use a faster disk")
        }
    }
}

/// The median of some syncs, in microseconds.
fn time_sync(folder: &Path) -> std::io::Result<u128> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(SYNC_ROUNDS);
    for _ in 0..SYNC_ROUNDS {
        file.write_all(&[7; 4_096])?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed().as_micros());
    }
    times.sort_unstable();
    Ok(times[SYNC_ROUNDS / 2])
}

fn clock() -> Finding {
    let now = words::now();
    let earliest: Timestamp = EARLIEST.parse().expect("the earliest time is a time");
    if now >= earliest {
        return Finding::new("clock", Grade::Good, format!("{now}"));
    }
    Finding::new("clock", Grade::Fault, format!("shows {now}, which is past"))
        .cure("set it, such as with NTP")
}

fn files() -> Finding {
    // A server raises the limit by itself, as far as it may.
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) if hard >= FILES_WANTED => {
            Finding::new("files", Grade::Good, format!("{hard} may be open"))
        }
        Ok((_, hard)) => {
            let cure = "for many workers let it have more: LimitNOFILE of systemd, or ulimit -Hn";
            Finding::new("files", Grade::Note, format!("only {hard} may be open")).cure(cure)
        }
        Err(error) => {
            Finding::new("files", Grade::Note, format!("the limit cannot be read: {error}"))
        }
    }
}

fn cores(context: &Context) -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let asked = context.settings.workers.value;
    let workers = asked.most(cores);
    let computing = u64::from(workers) * u64::from(context.settings.slots.value.cpu.unwrap_or(1));
    let text = format!(
        "{cores}; `divvy up` starts {}{} for {} at once",
        if asked == Workers::Auto { "up to " } else { "" },
        words::count(workers.into(), "worker"),
        words::count(computing, "computing task")
    );
    if computing <= 2 * cores as u64 {
        return Finding::new("cores", Grade::Good, text);
    }
    Finding::new("cores", Grade::Note, text)
        .cure("more than the cores can do: lower work.slots.cpu or up.workers")
}

fn program(name: &'static str, use_of_it: &str) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file()) {
        Some(found) => Finding::new(name, Grade::Good, found.display().to_string()),
        None => Finding::new(name, Grade::Note, format!("is not in PATH; {use_of_it}")),
    }
}
