//! The first stage of the launcher: starts the second, feeds it, ends it, accounts for it.
//!
//! Standard output belongs to the program. So does standard error, up to the last line, which is the keeper's
//! [`Report`]: by then nothing of the program is alive that could write behind it.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpid};
use serde::{Deserialize, Serialize};

use super::{ConfineError, INPUT_BYTES_MAX, Orders, processes};

/// How long a program has to end by itself once it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How a program ended and what it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Its exit code, if it has one.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Time on processors of everything that it started, in microseconds.
    pub cpu_us: u64,
}

/// Runs the second stage to its end and ends this process.
pub(super) fn keep(orders: Orders, program: &[OsString]) -> Result<Infallible, ConfineError> {
    if orders.input_bytes > INPUT_BYTES_MAX {
        return Err(ConfineError::new("input", format_args!("at most {INPUT_BYTES_MAX} bytes")));
    }
    // Whatever outlives its parent becomes a child of this process, so that it is seen, ended and counted.
    prctl::set_child_subreaper(true)
        .map_err(|error| ConfineError::new("becoming the parent of orphans", error))?;
    let mut child = start_second_stage(&orders, program)?;
    let ended = Arc::new(Ended::default());
    let group = Pid::from_raw(child.id().cast_signed());
    watch_lifeline(orders.input_bytes, child.stdin.take(), group, &ended)?;
    let (code, signal) = wait_for(group, &ended)?;
    end_orphans();
    tell(Report { code, signal, cpu_us: cpu_of_children_us() });
    std::process::exit(0)
}

fn start_second_stage(orders: &Orders, program: &[OsString]) -> Result<Child, ConfineError> {
    let second = Orders { keeper: Some(getpid().as_raw()), ..orders.clone() };
    let second = serde_json::to_string(&second)
        .map_err(|error| ConfineError::new("writing the orders", error))?;
    let input = if orders.input_bytes > 0 { Stdio::piped() } else { Stdio::null() };
    // The file behind this process, even if another one has taken its name since.
    Command::new("/proc/self/exe")
        .args(own_beginning(program.len() + 1))
        .arg(second)
        .args(program)
        .stdin(input)
        .process_group(0)
        .spawn()
        .map_err(|error| ConfineError::new("starting the second stage", error))
}

/// The arguments that make this binary a launcher: all but the last `orders_and_program`.
fn own_beginning(orders_and_program: usize) -> Vec<OsString> {
    let mut all: Vec<OsString> = std::env::args_os().skip(1).collect();
    all.truncate(all.len().saturating_sub(orders_and_program));
    all
}

/// Whether the program has ended. Its process group is only ever signalled under this lock and before the end, while
/// its number cannot belong to anybody else.
#[derive(Default)]
struct Ended {
    yes: Mutex<bool>,
    told: Condvar,
}

impl Ended {
    fn signal(&self, group: Pid, signal: Signal) {
        let ended = self.yes.lock().unwrap_or_else(PoisonError::into_inner);
        if !*ended {
            // It may be a zombie by now, which is what was wanted.
            let _ = killpg(group, signal);
        }
    }

    fn wait(&self, time: Duration) {
        let ended = self.yes.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.told.wait_timeout_while(ended, time, |ended| !*ended);
        drop(wait);
    }
}

/// Gives the program its input, then waits for the end of this process's own: nobody wants the program any more.
fn watch_lifeline(
    input_bytes: u64,
    to_program: Option<ChildStdin>,
    group: Pid,
    ended: &Arc<Ended>,
) -> Result<(), ConfineError> {
    let ended = Arc::clone(ended);
    let watch = move || {
        let mut lifeline = std::io::stdin().lock();
        let mut input = Vec::new();
        let whole = lifeline.by_ref().take(input_bytes).read_to_end(&mut input);
        if whole.is_ok_and(|read| read as u64 == input_bytes) {
            // A program that does not read its input must not keep this thread from seeing the end.
            let give = to_program.map(|to| std::thread::spawn(move || give(to, &input)));
            let _ = std::io::copy(&mut lifeline, &mut std::io::sink());
            drop(give);
        }
        ended.signal(group, Signal::SIGTERM);
        ended.wait(GRACE);
        ended.signal(group, Signal::SIGKILL);
    };
    std::thread::Builder::new()
        .name("lifeline".to_owned())
        .spawn(watch)
        .map(drop)
        .map_err(|error| ConfineError::new("starting a thread", error))
}

/// A program may close its input before it has read everything; that is its own affair.
fn give(mut to: ChildStdin, input: &[u8]) {
    let _ = to.write_all(input);
}

/// Waits for the leader, ends what is left of its group, and says how the leader ended.
fn wait_for(group: Pid, ended: &Ended) -> Result<(Option<i32>, Option<i32>), ConfineError> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while let Err(error) = waitid(Id::Pid(group), look) {
        if error != Errno::EINTR {
            return Err(ConfineError::new("waiting for the program", error));
        }
    }
    ended.signal(group, Signal::SIGKILL);
    *ended.yes.lock().unwrap_or_else(PoisonError::into_inner) = true;
    ended.told.notify_all();
    loop {
        match waitpid(group, None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok((Some(code), None)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok((None, Some(signal as i32))),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(ConfineError::new("waiting for the program", error)),
        }
    }
}

/// Ends and reaps everything that the program left behind, also outside of its group.
fn end_orphans() {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                let own = getpid().as_raw();
                for orphan in processes::all().into_iter().filter(|other| other.parent == own) {
                    let _ = kill(Pid::from_raw(orphan.id), Signal::SIGKILL);
                }
                let _ = waitpid(None, None);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn cpu_of_children_us() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0 };
    let (user, system) = (usage.user_time(), usage.system_time());
    let us = |time: nix::sys::time::TimeVal| {
        time.tv_sec().cast_unsigned() * 1_000_000 + time.tv_usec().cast_unsigned()
    };
    us(user) + us(system)
}

/// Writes the report. Nobody may be reading any more: then nobody misses it.
fn tell(report: Report) {
    let text = serde_json::to_string(&report).unwrap_or_default();
    let mut line = OsStr::new("\n").as_encoded_bytes().to_vec();
    line.extend_from_slice(text.as_bytes());
    line.push(b'\n');
    let _ = std::io::stderr().write_all(&line);
}
