//! The keeper of a program: a small process between a worker and a program, so that nothing of the program outlives it.
//!
//! A worker that is killed cannot end what it started, and a program can leave its process group. The keeper can do
//! something about both: the kernel tells it when its worker is gone, and makes it the parent of every process that the
//! program leaves behind.
//!
//! - It starts the program in a process group of its own, under [`Limits`], with its own standard streams.
//! - SIGTERM is passed on to the group. [`END`] ends everything at once, and so does the end of the worker.
//! - When the program has ended, everything that came of it is killed, wherever it went; then the keeper ends in the same
//!   way as the program did.
//! - If the keeper itself is killed, the program dies with it; what the program started does not.
//!
//! Its environment is the program's, which is clean, so that a look at the parent shows no secrets. It does not know
//! tasks. The binary that a worker names as the keeper calls [`keep`].

#![allow(
    unsafe_code,
    reason = "between fork and exec, and for the default action of a signal, std has no safe way"
)]

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, dup2_stdin, dup2_stdout, getpid, getppid};

/// Asks a keeper to end everything at once.
pub(super) const END: Signal = Signal::SIGUSR1;
/// What the kernel sends when the thread that started the keeper is gone, and perhaps the whole worker.
const PARENT_GONE: Signal = Signal::SIGUSR2;
/// The exit code if the program could not be started, as that of a shell.
const NOT_STARTED: i32 = 127;
/// How long the keeper waits for killed processes; one that the kernel cannot end must not hold a slot.
const ORPHANS_MAX: Duration = Duration::from_secs(5);
/// How often it looks whether they are gone.
const ORPHANS_EVERY: Duration = Duration::from_millis(1);

/// The command that becomes a keeper: a binary with arguments after which it calls [`keep`] with the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeper {
    /// The binary.
    pub program: PathBuf,
    /// Its arguments before those that are added here.
    pub args: Vec<OsString>,
    /// What the programs may use.
    pub limits: Limits,
}

impl Keeper {
    /// The arguments of a keeper that runs `program`.
    pub(super) fn arguments(&self, program: &OsStr) -> Vec<OsString> {
        let mut arguments = self.args.clone();
        arguments.push(std::process::id().to_string().into());
        arguments.push(self.limits.to_string().into());
        arguments.push(program.to_owned());
        arguments
    }
}

/// What a program may use; what is not said is as for its worker. As text `files=4096,processes=16384,memory=2147483648`,
/// in which `none` lifts a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files that each of its processes may have open.
    pub files: Option<u64>,
    /// Processes and threads that the user of the worker may have in all; the system administrator has no such limit.
    pub processes: Option<u64>,
    /// Address space of each of its processes, in bytes.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Files that a program may have open, unless told otherwise.
    pub const FILES: u64 = 4_096;
    /// Processes of a worker's user, unless told otherwise: half of what a small machine has numbers for.
    pub const PROCESSES: u64 = 16_384;
}

impl Default for Limits {
    /// No limit on memory: many runtimes reserve far more address space than they ever use.
    fn default() -> Self {
        Self { files: Some(Self::FILES), processes: Some(Self::PROCESSES), memory_bytes: None }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits =
            [("files", self.files), ("processes", self.processes), ("memory", self.memory_bytes)];
        for (place, (name, limit)) in limits.into_iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match limit {
                Some(limit) => write!(f, "{comma}{name}={limit}")?,
                None => write!(f, "{comma}{name}=none")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || {
                format!(
                    "`{part}` is not a limit: expected such as files=4096,processes=16384,memory=2G, or none for a number"
                )
            };
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            let value = match value.trim() {
                "none" => None,
                value => Some(number(value).filter(|number| *number > 0).ok_or_else(wrong)?),
            };
            match name.trim() {
                "files" => limits.files = value,
                "processes" => limits.processes = value,
                "memory" => limits.memory_bytes = value,
                _ => return Err(wrong()),
            }
        }
        Ok(limits)
    }
}

/// A number, with `K`, `M`, `G` or `T` behind it for powers of 1,024.
fn number(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Keeps the program that `arguments` name, and ends this process as the program ended.
///
/// # Errors
/// If the arguments make no sense or the system refuses what a keeper needs. A program that cannot be started is told
/// on standard error, and the exit code is 127.
pub fn keep(arguments: impl IntoIterator<Item = OsString>) -> Result<Infallible, KeepError> {
    let mut arguments = arguments.into_iter();
    let mut text = || arguments.next().and_then(|word| word.into_string().ok());
    let worker = text().and_then(|word| word.parse().ok()).map(Pid::from_raw);
    let limits = text().and_then(|word| word.parse::<Limits>().ok());
    let (Some(worker), Some(limits), Some(program)) = (worker, limits, arguments.next()) else {
        return Err(KeepError("expected a process id, limits and a program".to_owned()));
    };
    let signals = [Signal::SIGTERM, END, PARENT_GONE, Signal::SIGCHLD].into_iter().collect();
    let before = listen(&signals)?;
    prctl::set_pdeathsig(PARENT_GONE).map_err(failed("watching the worker"))?;
    if getppid() != worker {
        return Err(KeepError("the worker is gone".to_owned()));
    }
    // Whatever outlives its parent becomes a child of this process.
    prctl::set_child_subreaper(true).map_err(failed("becoming the parent of orphans"))?;
    let leader = match start(&program, arguments, limits, before) {
        Ok(leader) => leader,
        Err(error) => {
            let name = program.to_string_lossy();
            // Nobody may read it any more: the exit code says it too.
            let _ = writeln!(io::stderr(), "cannot start `{name}`: {error}");
            std::process::exit(NOT_STARTED)
        }
    };
    let_go_of_pipes();
    let status = wait_for(leader, worker, &signals)?;
    end_orphans();
    end_like(status)
}

/// Why there can be no keeper.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep a program: {0}")]
pub struct KeepError(String);

fn failed(doing: &'static str) -> impl Fn(Errno) -> KeepError {
    move |error| KeepError(format!("{doing}: {error}"))
}

/// Has these signals wait until they are asked for; returns what waited before.
fn listen(signals: &SigSet) -> Result<SigSet, KeepError> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours. A worker that ignores ends of children would have them lost here.
    unsafe { nix::sys::signal::sigaction(Signal::SIGCHLD, &default) }
        .map_err(failed("hearing of ends"))?;
    signals.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK).map_err(failed("listening"))
}

fn start(
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
    limits: Limits,
    mask: SigSet,
) -> Result<Pid, io::Error> {
    let keeper = getpid();
    let prepare = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != keeper {
            return Err(io::Error::from(Errno::ESRCH));
        }
        limit(limits)?;
        mask.thread_set_mask()?;
        Ok(())
    };
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    // SAFETY: the closure makes system calls only; it neither allocates nor takes locks.
    unsafe { command.pre_exec(prepare) };
    Ok(Pid::from_raw(command.spawn()?.id().cast_signed()))
}

fn limit(limits: Limits) -> Result<(), io::Error> {
    let limits = [
        (Resource::RLIMIT_NOFILE, limits.files),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_AS, limits.memory_bytes),
        (Resource::RLIMIT_CORE, Some(0)),
    ];
    for (resource, limit) in limits {
        if let Some(limit) = limit {
            let (_, most) = getrlimit(resource)?;
            setrlimit(resource, limit.min(most), limit.min(most))?;
        }
    }
    Ok(())
}

/// The program alone decides when its input is not read and its output is complete.
fn let_go_of_pipes() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        // Nothing depends on it but that the other side hears of a closed pipe sooner.
        let _ = dup2_stdin(&nothing);
        let _ = dup2_stdout(&nothing);
    }
}

/// Waits for the end of the program and kills what is left of its group.
fn wait_for(leader: Pid, worker: Pid, signals: &SigSet) -> Result<WaitStatus, KeepError> {
    loop {
        if has_ended(leader) {
            // The group is killed before its leader is collected: until then its number is nobody else's.
            let _ = killpg(leader, Signal::SIGKILL);
            return waitpid(leader, None).map_err(failed("waiting for the program"));
        }
        match signals.wait().map_err(failed("waiting for signals"))? {
            Signal::SIGTERM => _ = killpg(leader, Signal::SIGTERM),
            END => _ = killpg(leader, Signal::SIGKILL),
            // Another thread of the same worker may have become the parent.
            PARENT_GONE if getppid() != worker => _ = killpg(leader, Signal::SIGKILL),
            _ => {}
        }
    }
}

/// Whether the program has ended; collects every other child on the way, but not the program.
fn has_ended(leader: Pid) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    loop {
        match waitid(Id::All, look).map(|status| status.pid()) {
            Ok(Some(ended)) if ended == leader => return true,
            Ok(Some(orphan)) => _ = waitpid(orphan, None),
            Ok(None) => return false,
            Err(Errno::EINTR) => {}
            Err(_) => return true,
        }
    }
}

/// Kills and collects everything that the program left behind, also outside of its group.
fn end_orphans() {
    let give_up = Instant::now() + ORPHANS_MAX;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() < give_up => {
                children().into_iter().for_each(|child| _ = kill(child, Signal::SIGKILL));
                std::thread::sleep(ORPHANS_EVERY);
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Ok(_) | Err(_) => {}
        }
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = getpid().as_raw();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|id| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The name, in brackets, may hold anything; state and parent follow it.
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
            parent.and_then(|parent| parent.parse().ok()) == Some(own)
        })
        .map(Pid::from_raw)
        .collect()
}

/// Ends this process as the program ended.
fn end_like(status: WaitStatus) -> ! {
    let signal = match status {
        WaitStatus::Exited(_, code) => std::process::exit(code),
        WaitStatus::Signaled(_, signal, _) => signal,
        _ => std::process::exit(NOT_STARTED),
    };
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours. It cannot be set for SIGKILL, and need not be.
    let _ = unsafe { nix::sys::signal::sigaction(signal, &default) };
    let _ = SigSet::from(signal).thread_unblock();
    let _ = raise(signal);
    std::process::exit(128 + signal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_a_text_form() {
        assert_eq!(Limits::default().to_string(), "files=4096,processes=16384,memory=none");
        let some: Limits = "memory=2G, processes=none".parse().unwrap();
        assert_eq!(
            some,
            Limits { files: Some(4_096), processes: None, memory_bytes: Some(2 << 30) }
        );
        assert_eq!(some.to_string().parse(), Ok(some));
        for bad in ["files", "files=", "files=-1", "files=0", "cores=2", "memory=99999999T"] {
            assert!(bad.parse::<Limits>().unwrap_err().contains("is not a limit"), "{bad}");
        }
    }
}
