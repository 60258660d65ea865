//! One run of DuckDB for a part: what it is asked, its rows as they come, and what its end means.
//!
//! It runs under the launcher of [`divvy_workload::confine`], which ends it when this side lets go, however that happens. Its
//! limits: processor time by the bytes to be read, address space, and time in which it says nothing while it is waited for.
//! Nobody counts the time in which it waits for this side.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use divvy_workload::confine::{Bounds, Complaints, Launcher};
use divvy_workload::provider::DESCRIBE;
use serde::{Deserialize, Serialize};

use super::{Duckdb, Opened};
use crate::input::Split;
use crate::job::{InputFile, PartError, PartIo};

/// Processor time of a run besides what its bytes are worth.
const CPU_START: Duration = Duration::from_secs(300);
/// Processor time of a million bytes.
const CPU_PER_MB: Duration = Duration::from_secs(5);
/// Address space, as of other providers; DuckDB itself is told the part's memory.
const MEMORY_BYTES: u64 = 8 << 30;
/// How long it may say nothing while it is waited for.
const STALL: Duration = Duration::from_secs(120);
/// How often it is looked whether the part shall stop.
const LOOK: Duration = Duration::from_millis(200);
/// How long the launcher has to end it: the grace that it gives, and some more.
const END_WITHIN: Duration = Duration::from_secs(6);
const END_LOOK: Duration = Duration::from_millis(1);
/// Bytes that are read at once, and pieces that wait for this side.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS_MAX: usize = 16;
/// Bytes before the first row.
const HEAD_BYTES_MAX: usize = 4 << 10;
/// The exit code that says that the file is at fault.
const AT_FAULT: i32 = 3;

/// What it is asked for.
#[derive(Serialize)]
struct Request<'a> {
    task: &'static str,
    path: &'a Path,
    from: u64,
    to: u64,
    columns: &'a [String],
    memory_bytes: usize,
    threads: usize,
}

/// What it says before the first row.
#[derive(Deserialize)]
struct Head {
    first_row: Option<u64>,
}

/// Rows of a split as lines of JSON, whose values are text. An error of reading holds a [`PartError`].
pub(crate) struct Rows<'a> {
    io: &'a PartIo<'a>,
    path: PathBuf,
    /// Nothing once it has ended.
    run: Option<Run>,
    piece: Vec<u8>,
    /// How much of the piece was taken.
    taken: usize,
    /// The number of the first row in the file, from 0, if the rows follow each other.
    pub(crate) first_row: Option<u64>,
}

/// Begins to read these columns of the row groups that begin in a split.
///
/// # Errors
/// If this worker cannot, or the file is not what it should be.
pub(crate) fn rows<'a>(
    io: &'a PartIo<'a>,
    input: &InputFile,
    split: Split,
    columns: &[String],
) -> Result<Rows<'a>, PartError> {
    io.may_read(&input.path)?;
    input.expect_unchanged()?;
    let duckdb: Duckdb = io.duckdb()?;
    let source = input.path.canonicalize().map_err(|error| PartError::io(&input.path, &error))?;
    let Split { from, to, .. } = split;
    let (memory_bytes, threads) = (io.memory_bytes(), io.threads());
    let request = Request { task: "rows", path: &source, from, to, columns, memory_bytes, threads };
    let mut line = serde_json::to_vec(&request)
        .map_err(|error| PartError::Broken(format!("{}: {error}", source.display())))?;
    line.push(b'\n');
    let mb =
        u32::try_from(to.min(input.bytes).saturating_sub(from) / 1_000_000).unwrap_or(u32::MAX);
    let cpu = CPU_START.saturating_add(CPU_PER_MB.saturating_mul(mb));
    let mut readable = duckdb.0.readable.clone();
    readable.push(source);
    let run = Run::start(&duckdb.0, &line, io.scratch()?, &readable, cpu);
    let run =
        run.map_err(|problem| PartError::Trouble(format!("cannot start DuckDB: {problem}")))?;
    let (path, run) = (input.path.clone(), Some(run));
    let mut rows = Rows { io, path, run, piece: Vec::new(), taken: 0, first_row: None };
    rows.first_row = rows.head()?;
    Ok(rows)
}

/// What an installed DuckDB says of itself.
///
/// # Errors
/// If it cannot be run so.
pub(super) fn describe(duckdb: &Opened) -> Result<Vec<u8>, String> {
    let work = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let run = Run::start(duckdb, DESCRIBE, work.path(), &duckdb.readable, CPU_START)?;
    let (mut said, began) = (Vec::new(), Instant::now());
    while let Some(piece) = run.next(LOOK) {
        said.extend_from_slice(&piece);
        if said.len() > HEAD_BYTES_MAX || began.elapsed() > STALL {
            return Err("it does not come to its end".to_owned());
        }
    }
    run.end(&duckdb.launcher, CPU_START).map_err(|ended| ended.words).map(|()| said)
}

impl Rows<'_> {
    /// Reads the line before the first row.
    fn head(&mut self) -> Result<Option<u64>, PartError> {
        let mut line = Vec::new();
        loop {
            let rest = &self.piece[self.taken..];
            let end = memchr::memchr(b'\n', rest);
            line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            self.taken += end.map_or(rest.len(), |end| end + 1);
            if end.is_some() || line.len() > HEAD_BYTES_MAX {
                break;
            }
            if !self.fill()? {
                break;
            }
        }
        let head: Head = serde_json::from_slice(&line).map_err(|error| {
            PartError::Trouble(format!("{}: DuckDB gives no rows: {error}", self.path.display()))
        })?;
        Ok(head.first_row)
    }

    /// Waits for the next piece; whether there is one.
    fn fill(&mut self) -> Result<bool, PartError> {
        let mut waited = Duration::ZERO;
        loop {
            let Some(run) = &self.run else { return Ok(false) };
            match run.next(LOOK) {
                Some(piece) if piece.is_empty() => waited += LOOK,
                Some(piece) => {
                    (self.piece, self.taken) = (piece, 0);
                    return Ok(true);
                }
                None => {
                    self.end()?;
                    return Ok(false);
                }
            }
            self.io.check()?;
            if waited >= STALL {
                self.run = None;
                let (path, seconds) = (self.path.display(), STALL.as_secs());
                return Err(PartError::Trouble(format!(
                    "{path}: DuckDB said nothing for {seconds} s and was stopped"
                )));
            }
        }
    }

    /// What the end of the run means.
    fn end(&mut self) -> Result<(), PartError> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let (launcher, cpu) = (run.launcher.clone(), run.cpu);
        run.end(&launcher, cpu).map_err(|Ended { code, words }| {
            let path = self.path.display();
            match code {
                Some(AT_FAULT) => PartError::Broken(format!("{path}: {words}")),
                _ => PartError::Trouble(format!("{path}: DuckDB did not read it: {words}")),
            }
        })
    }
}

impl Read for Rows<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.fill().map_err(io::Error::other)? {
            return Ok(0);
        }
        let count = out.len().min(self.piece.len() - self.taken);
        out[..count].copy_from_slice(&self.piece[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

/// A program that runs under the launcher.
struct Run {
    launcher: Launcher,
    cpu: Duration,
    child: Child,
    /// The launcher ends the program when this is closed.
    lifeline: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    complaints: Option<JoinHandle<Complaints>>,
}

/// A program that did not end well.
struct Ended {
    code: Option<i32>,
    words: String,
}

impl Run {
    fn start(
        duckdb: &Opened,
        request: &[u8],
        folder: &Path,
        readable: &[PathBuf],
        cpu: Duration,
    ) -> Result<Self, String> {
        // Links in it would lead out of the sandbox.
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let bounds = Bounds {
            folder: &folder,
            readable,
            cpu,
            memory_bytes: MEMORY_BYTES,
            input_bytes: request.len() as u64,
        };
        let launcher = &duckdb.launcher;
        let mut command = launcher.command(&duckdb.program, &duckdb.arguments, bounds)?;
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut lifeline), Some(mut stdout), Some(mut stderr)) = pipes else {
            return Err("it has no pipes".to_owned());
        };
        // One that is gone already says so in its end.
        let _ = lifeline.write_all(request).and_then(|()| lifeline.flush());
        let (tell, pieces) = sync_channel(CHUNKS_MAX);
        std::thread::spawn(move || {
            while let Some(piece) = piece_of(&mut stdout, CHUNK_BYTES) {
                if tell.send(piece).is_err() {
                    return;
                }
            }
        });
        let complaints = std::thread::spawn(move || {
            let mut complaints = Complaints::default();
            while let Some(piece) = piece_of(&mut stderr, HEAD_BYTES_MAX) {
                complaints.push(&piece);
            }
            complaints
        });
        let (launcher, lifeline, complaints) = (launcher.clone(), Some(lifeline), Some(complaints));
        Ok(Self { launcher, cpu, child, lifeline, pieces, complaints })
    }

    /// What it wrote next; an empty piece if it wrote nothing for so long, nothing if its output has ended.
    fn next(&self, within: Duration) -> Option<Vec<u8>> {
        match self.pieces.recv_timeout(within) {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits for its end, which follows that of its output.
    fn end(mut self, launcher: &Launcher, cpu_limit: Duration) -> Result<(), Ended> {
        let complaints = self.complaints.take().and_then(|heard| heard.join().ok());
        let status = self.child.wait();
        let (words, report) = complaints.unwrap_or_default().split_report();
        let Some(report) = report.filter(|_| status.is_ok_and(|status| status.success())) else {
            return Err(Ended { code: None, words: format!("the launcher failed: {words}") });
        };
        let (code, signal) = launcher.end_of(report);
        if code == Some(0) {
            return Ok(());
        }
        let used = Duration::from_micros(report.cpu_us);
        let last = || words.lines().last().unwrap_or("it says nothing").to_owned();
        let words = match (code, signal) {
            _ if Launcher::was_not_started(code, &words) => words,
            _ if used >= cpu_limit => {
                format!("it used more than {} s of processor time", cpu_limit.as_secs())
            }
            (Some(AT_FAULT), _) => last(),
            (Some(code), _) => format!("it ended with code {code}: {}", last()),
            (None, signal) => {
                format!("it was ended by signal {}: {}", signal.unwrap_or_default(), last())
            }
        };
        Err(Ended { code, words })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.lifeline = None;
        let until = Instant::now() + END_WITHIN;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            // Whoever writes more than anybody reads must be able to end too.
            while self.pieces.try_recv().is_ok() {}
            std::thread::sleep(END_LOOK);
        }
    }
}

/// What can be read next; nothing at the end.
fn piece_of(from: &mut impl Read, bytes: usize) -> Option<Vec<u8>> {
    let mut piece = vec![0; bytes];
    loop {
        match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return None,
            Ok(count) => {
                piece.truncate(count);
                return Some(piece);
            }
        }
    }
}
