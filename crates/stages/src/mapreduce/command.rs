//! Commands that map, combine and reduce, in the manner of Hadoop streaming: lines on standard input, lines on standard
//! output, of which the part up to the first tab is the key.
//!
//! - A command is given to `sh -c`, in a process group of its own and with a clean environment: `PATH`, `HOME`, `LANG`, `TZ`
//!   and `DIVVY_FLOW_JOB`, `DIVVY_FLOW_STAGE`, `DIVVY_FLOW_PART`. Only workers that were started with `--flow-commands` run any.
//! - A mapper gets the lines of its part; a combiner and a reducer get `key<tab>value`, sorted by key.
//! - Exit code 0 is success, whether all input was read or not; any other ends the job with the last lines of standard error.
//! - A line `reporter:counter:GROUP,NAME,N` on standard error adds to a counter of the job.
//! - When the part ends, however it ends, the rest of the group is killed.
//!
//! Three threads serve the three pipes. Whoever runs the command never waits for one of them alone, so no pipe that is
//! full can stop another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy_kernels::aggregate::Records;
use divvy_kernels::aggregate::hash::partition;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::job::{PartError, PartIo, Report};

/// Bytes that are read from a command at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of one line of output at most.
const LINE_BYTES_MAX: usize = 64 << 20;
/// What is kept of standard error.
const ERROR_LINES: usize = 10;
const ERROR_LINE_BYTES: u64 = 1 << 10;
/// How often it is looked whether the part shall stop.
const LOOK: Duration = Duration::from_millis(200);
/// How often nothing may be heard of a command that has ended.
const QUIET_MAX: u32 = 5;
/// Counters that one part may make.
pub(super) const COUNTERS_MAX: usize = 1_000;
const COUNTER: &str = "reporter:counter:";

/// A command that runs.
pub(super) struct Running<'i> {
    io: &'i PartIo<'i>,
    command: String,
    child: Child,
    feeder: Option<SyncSender<Vec<u8>>>,
    events: Receiver<Event>,
    /// Whether its output has ended.
    is_silent: bool,
    /// Whether it has ended and its group was killed.
    is_over: bool,
    /// Empty until standard error has ended.
    errors_ended: Receiver<()>,
    errors: Arc<Mutex<Errors>>,
}

enum Event {
    /// There is room for more input.
    Room,
    /// Whole lines.
    Output(Vec<u8>),
    /// The output ended, or cannot be read.
    Ended(Option<String>),
}

/// What a command said on standard error.
#[derive(Default)]
struct Errors {
    last: Vec<String>,
    counters: BTreeMap<String, u64>,
}

impl<'i> Running<'i> {
    /// Starts a command, if this worker may.
    pub(super) fn start(io: &'i PartIo<'i>, command: &str) -> Result<Self, PartError> {
        io.may_run(command)?;
        let part = io.part();
        let mut child = Command::new("/bin/sh");
        child.args(["-c", command]).env_clear().process_group(0);
        for name in ["PATH", "HOME", "LANG", "TZ"] {
            if let Some(value) = std::env::var_os(name) {
                child.env(name, value);
            }
        }
        child
            .env("DIVVY_FLOW_JOB", &part.job)
            .env("DIVVY_FLOW_STAGE", &part.name)
            .env("DIVVY_FLOW_PART", part.part.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let trouble = |what: &str| PartError::Trouble(format!("cannot start `{command}`: {what}"));
        let mut child = child.spawn().map_err(|error| trouble(&error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(trouble("it has no pipes"));
        };
        let (feeder, input) = sync_channel::<Vec<u8>>(1);
        let (tell, events) = sync_channel(4);
        let room = tell.clone();
        std::thread::spawn(move || {
            for bytes in input {
                // A command that reads no further has what it wants.
                if stdin.write_all(&bytes).is_err() || room.send(Event::Room).is_err() {
                    break;
                }
            }
        });
        std::thread::spawn(move || {
            let ended = lines(stdout, &tell).err();
            let _ = tell.send(Event::Ended(ended));
        });
        let errors = Arc::new(Mutex::new(Errors::default()));
        let (tell_end, errors_ended) = sync_channel(1);
        let heard = Arc::clone(&errors);
        std::thread::spawn(move || {
            listen_to_errors(stderr, &heard);
            let _ = tell_end.send(());
        });
        Ok(Self {
            io,
            command: command.to_owned(),
            child,
            feeder: Some(feeder),
            events,
            is_silent: false,
            is_over: false,
            errors_ended,
            errors,
        })
    }

    /// Gives it input, and hands what it has written so far to `take`.
    pub(super) fn feed(
        &mut self,
        mut bytes: Vec<u8>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        loop {
            let Some(feeder) = &self.feeder else { return Ok(()) };
            match feeder.try_send(bytes) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(_)) => {
                    self.feeder = None;
                    return Ok(());
                }
                Err(TrySendError::Full(back)) => bytes = back,
            }
            if self.is_silent {
                // It has what it wants; how it ended is told in the end.
                self.feeder = None;
                return Ok(());
            }
            self.wait(take)?;
        }
    }

    /// Ends its input, hands the rest of what it writes to `take`, and waits for its end.
    pub(super) fn finish(
        mut self,
        report: &mut Report,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        self.feeder = None;
        let mut quiet = 0;
        while !self.is_silent && quiet < QUIET_MAX {
            // A process that left the group may hold the output open after the command has ended.
            let ended = self.child.try_wait().is_ok_and(|ended| ended.is_some());
            quiet = if self.wait(take)? || !ended { 0 } else { quiet + 1 };
        }
        self.end(report)
    }

    /// Waits for something to happen; whether something did.
    fn wait(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<bool, PartError> {
        let event = self.events.recv_timeout(LOOK);
        self.io.check()?;
        match event {
            Ok(Event::Room) => {}
            Ok(Event::Output(lines)) => take(&lines)?,
            Ok(Event::Ended(None)) | Err(RecvTimeoutError::Disconnected) => self.is_silent = true,
            Ok(Event::Ended(Some(problem))) => {
                let command = format!("`{}`", self.command);
                let stderr = "nothing".to_owned();
                return Err(PartError::Command { command, how: problem, stderr });
            }
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self, report: &mut Report) -> Result<(), PartError> {
        let ended = loop {
            // Its output has ended, so it ends soon; but it may be told to stop meanwhile.
            match self.child.try_wait() {
                Ok(Some(ended)) => break ended,
                Ok(None) => {}
                Err(error) => return Err(PartError::Trouble(format!("{}: {error}", self.command))),
            }
            self.io.check()?;
            std::thread::sleep(Duration::from_millis(1));
        };
        self.kill();
        self.is_over = true;
        let _ = self.errors_ended.recv_timeout(LOOK * QUIET_MAX);
        let errors =
            std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, by) in errors.counters {
            report.count(&name, by);
        }
        if ended.success() {
            return Ok(());
        }
        let how = match (ended.code(), ended.signal()) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "did not end well".to_owned(),
        };
        let stderr =
            if errors.last.is_empty() { "nothing".to_owned() } else { errors.last.join("\n") };
        Err(PartError::Command { command: format!("`{}`", self.command), how, stderr })
    }

    /// Kills what is left of its group.
    fn kill(&self) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // The group may be gone.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill();
            let _ = self.child.wait();
        }
        // The threads end with their pipes.
    }
}

/// Sends whole lines on; at the end also one that does not end.
fn lines(mut from: impl Read, tell: &SyncSender<Event>) -> Result<(), String> {
    let mut held: Vec<u8> = Vec::new();
    loop {
        let start = held.len();
        held.resize(start + CHUNK_BYTES, 0);
        let count = match from.read(&mut held[start..]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(format!("has output that cannot be read: {error}")),
            Ok(0) => {
                held.truncate(start);
                if !held.is_empty() {
                    let _ = tell.send(Event::Output(held));
                }
                return Ok(());
            }
            Ok(count) => count,
        };
        held.truncate(start + count);
        if let Some(end) = memchr::memrchr(b'\n', &held[start..]) {
            let rest = held.split_off(start + end + 1);
            if tell.send(Event::Output(std::mem::replace(&mut held, rest))).is_err() {
                return Ok(());
            }
        } else if held.len() > LINE_BYTES_MAX {
            return Err(format!("wrote a line of more than {LINE_BYTES_MAX} bytes"));
        }
    }
}

fn listen_to_errors(stderr: impl Read, errors: &Mutex<Errors>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(ERROR_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, by)) = text.strip_prefix(COUNTER).and_then(counter) {
            if errors.counters.len() < COUNTERS_MAX || errors.counters.contains_key(&name) {
                *errors.counters.entry(name).or_default() += by;
            }
            continue;
        }
        if errors.last.len() == ERROR_LINES {
            errors.last.remove(0);
        }
        errors.last.push(text.to_owned());
    }
}

/// `GROUP,NAME,N`.
fn counter(text: &str) -> Option<(String, u64)> {
    let (name, by) = text.rsplit_once(',')?;
    Some((name.replace(',', "."), by.trim().parse().ok()?))
}

/// Key and value of a line.
pub(super) fn pair(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'\t', line) {
        Some(tab) => (&line[..tab], &line[tab + 1..]),
        None => (line, b""),
    }
}

/// Calls `take` with every line of some.
pub(super) fn each_line(
    lines: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    lines.split(|byte| *byte == b'\n').try_for_each(&mut take)
}

/// Gathers `key<tab>value` lines and gives them to a command in large pieces.
#[derive(Default)]
pub(super) struct Pairs(Vec<u8>);

impl Pairs {
    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        running: &mut Running<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        self.0.extend_from_slice(key);
        self.0.push(b'\t');
        self.0.extend_from_slice(value);
        self.0.push(b'\n');
        if self.0.len() < CHUNK_BYTES { Ok(()) } else { self.flush(running, take) }
    }

    pub(super) fn flush(
        &mut self,
        running: &mut Running<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        if self.0.is_empty() {
            return Ok(());
        }
        running.feed(std::mem::take(&mut self.0), take)
    }
}

/// The combiner of a job with commands.
pub(super) struct Combiner<'i> {
    pub(super) io: &'i PartIo<'i>,
    pub(super) command: &'i str,
    /// Counters of its runs.
    pub(super) report: RefCell<Report>,
}

impl Combiner<'_> {
    /// What the command makes of these sorted records.
    pub(super) fn combine(&self, records: &Records, partitions: u32) -> Result<Records, PartError> {
        let mut combined = Records::default();
        let mut take = |lines: &[u8]| {
            each_line(lines, |line| {
                let (key, value) = pair(line);
                combined.push(partition(key, partitions), key, value);
                Ok(())
            })
        };
        let mut running = Running::start(self.io, self.command)?;
        let mut pairs = Pairs::default();
        for (_, key, value) in records.iter() {
            pairs.add(key, value, &mut running, &mut take)?;
        }
        pairs.flush(&mut running, &mut take)?;
        running.finish(&mut self.report.borrow_mut(), &mut take)?;
        Ok(combined)
    }
}
