//! One run of a provider that is given a request and says much: what it says as it comes, and what its end means.
//!
//! It runs under the launcher of [`confine`](crate::confine), which ends it when this side lets go, however that happens. Nobody
//! counts the time in which it waits for this side.

use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::duckdb::AT_FAULT;
use crate::confine::{Bounds, Complaints, Launcher};

/// How long the launcher has to end it: the grace that it gives, and some more.
const END_WITHIN: Duration = Duration::from_secs(6);
const END_LOOK: Duration = Duration::from_millis(1);
/// Bytes that are read at once, of its output and of its complaints, and pieces that wait for this side.
const CHUNK_BYTES: usize = 64 << 10;
const WORDS_BYTES: usize = 4 << 10;
const CHUNKS_MAX: usize = 16;

/// A program that runs under the launcher. It ends when this is dropped.
#[derive(Debug)]
pub struct Run {
    launcher: Launcher,
    cpu: Duration,
    child: Child,
    /// The launcher ends the program when this is closed.
    lifeline: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    complaints: Option<JoinHandle<Complaints>>,
}

/// A program that did not end well.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// What it said of it.
    pub words: String,
}

impl Run {
    /// Starts a program with its arguments, and gives it a request on its standard input.
    pub(super) fn start(
        launcher: &Launcher,
        (program, arguments): (&Path, &[OsString]),
        request: &[u8],
        bounds: Bounds<'_>,
    ) -> Result<Self, String> {
        let cpu = bounds.cpu;
        let mut command = launcher.command(program, arguments, bounds)?;
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
            while let Some(piece) = piece_of(&mut stderr, WORDS_BYTES) {
                complaints.push(&piece);
            }
            complaints
        });
        let (launcher, lifeline, complaints) = (launcher.clone(), Some(lifeline), Some(complaints));
        Ok(Self { launcher, cpu, child, lifeline, pieces, complaints })
    }

    /// What it wrote next; an empty piece if it wrote nothing for so long, nothing if its output has ended.
    pub fn next(&self, within: Duration) -> Option<Vec<u8>> {
        match self.pieces.recv_timeout(within) {
            Ok(piece) => Some(piece),
            Err(RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits for its end, which follows that of its output.
    ///
    /// # Errors
    /// If it did not end well.
    pub fn end(mut self) -> Result<(), Ended> {
        let complaints = self.complaints.take().and_then(|heard| heard.join().ok());
        let status = self.child.wait();
        let (words, report) = complaints.unwrap_or_default().split_report();
        let Some(report) = report.filter(|_| status.is_ok_and(|status| status.success())) else {
            return Err(Ended { code: None, words: format!("the launcher failed: {words}") });
        };
        let (code, signal) = self.launcher.end_of(report);
        if code == Some(0) {
            return Ok(());
        }
        let used = Duration::from_micros(report.cpu_us);
        let last = || words.lines().last().unwrap_or("it says nothing").to_owned();
        let words = match (code, signal) {
            _ if Launcher::was_not_started(code, &words) => words,
            _ if used >= self.cpu => {
                format!("it used more than {} s of processor time", self.cpu.as_secs())
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
