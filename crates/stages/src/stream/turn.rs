//! A turn of a stream: reads what is there, round by round, keeps it now and then, and ends when nothing is there.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use divvy_kernels::window::{Taken, Watermarks};
use divvy_workload::console::output::words::count;
use divvy_workload::now_ms;
use memchr::memchr;
use serde_json::json;

use super::kept::{Files, Known, LATE};
use super::options::Options;
use super::rows::Rows;
use super::source::{Position, Reader, open_all};
use super::windows::{Results, moment};
use crate::input::line_at;
use crate::job::{Keep, OnError, OutputWriter, PartError, PartIo, Report, Skip, Summary};

/// Between two commits while events come.
const KEEP_EVERY: Duration = Duration::from_secs(2);
/// Lines of results that wait in memory, in bytes.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Between two turns, at least and at most.
const NAP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// Whoever has had no turn for so long has slept; the silence of sources meanwhile says nothing.
const ASLEEP: Duration = Duration::from_secs(15);
/// Lines that were left out and are named.
const SKIPS_NAMED_MAX: usize = 5;

pub(super) fn run(options: &Options, io: &PartIo<'_>) -> Result<Report, PartError> {
    let keep = io.keep()?;
    let mut turn = Turn::open(options, io, &keep)?;
    loop {
        if io.is_stopping() {
            turn.end_sources();
            return turn.finish(io);
        }
        let has_read = turn.round(io)?;
        if turn.has_ended() {
            return turn.finish(io);
        }
        if !has_read {
            turn.keep(io)?;
            turn.note_turn(&keep);
            return Err(turn.later());
        }
        if turn.kept.elapsed() >= KEEP_EVERY {
            turn.keep(io)?;
            turn.note_turn(&keep);
        }
    }
}

struct Turn<'a> {
    options: &'a Options,
    readers: Vec<Reader>,
    rows: Vec<Rows>,
    results: Results,
    files: Files,
    known: Known,
    late: Vec<u8>,
    on_error: OnError,
    kept: Instant,
    /// Whether there is something to keep.
    has_changed: bool,
}

impl<'a> Turn<'a> {
    fn open(options: &'a Options, io: &PartIo<'_>, keep: &Keep) -> Result<Self, PartError> {
        let mut results = Results::new(options)?;
        let (files, known) = Files::open(keep, &mut results)?;
        let now = now_ms();
        let is_new = known.is_none();
        let mut known = known.unwrap_or_else(|| begin(options, now));
        if !is_new && has_slept(keep) {
            known.marks.wake(now);
            known.heard_at_ms = now;
        }
        let readers = open_all(options, &known.positions, io)?;
        let rows = options.sources.iter().map(|_| Rows::new(options, results.query())).collect();
        let (late, kept) = (Vec::new(), Instant::now());
        let on_error = io.spec().on_error;
        Ok(Self {
            options,
            readers,
            rows,
            results,
            files,
            known,
            late,
            on_error,
            kept,
            has_changed: is_new,
        })
    }

    /// Reads a little of each source; says whether there was anything.
    fn round(&mut self, io: &PartIo<'_>) -> Result<bool, PartError> {
        let mut has_read = false;
        for partition in 0..self.readers.len() {
            let now = now_ms();
            has_read |= self.read(partition, now, io)?;
            if self.readers[partition].position.has_ended
                && !self.known.positions[partition].has_ended
            {
                self.known.marks.end(partition);
                self.has_changed = true;
            }
            self.known.positions[partition] = self.readers[partition].position.clone();
            self.advance(now);
        }
        if let Some(after) = self.options.end_after_idle_ms
            && !has_read
            && now_ms().saturating_sub(self.known.heard_at_ms) >= after
        {
            self.end_sources();
        }
        if self.results.waiting() + self.late.len() >= WAITING_BYTES_MAX {
            self.write()?;
        }
        Ok(has_read)
    }

    fn read(&mut self, partition: usize, now: u64, io: &PartIo<'_>) -> Result<bool, PartError> {
        let Self { options, readers, rows, results, known, late, on_error, .. } = self;
        let Some(chunk) = readers[partition].next(options.follow)? else { return Ok(false) };
        let rows = &mut rows[partition];
        let has_header = rows.begin(chunk.path)? && chunk.offset == 0;
        let mut latest = i64::MIN;
        let mut at = 0;
        while at < chunk.bytes.len() {
            let rest = &chunk.bytes[at..];
            let length = memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let line = rest[..length].trim_ascii_end();
            let offset = chunk.offset + at as u64;
            at += length;
            if line.is_empty() || (has_header && offset == 0) {
                continue;
            }
            match results.event(rows, line) {
                Ok((time, taken)) => {
                    known.events += 1;
                    if taken == Taken::Late {
                        known.late += 1;
                        late.extend_from_slice(line);
                        late.push(b'\n');
                    }
                    if time > latest {
                        latest = time;
                        known.marks.observe(partition, time, now);
                        results.advance(known.marks.current(now));
                    }
                }
                Err(why) => skip(known, *on_error, chunk.path, offset, why)?,
            }
        }
        known.latest_ms = known.latest_ms.max((latest > i64::MIN).then_some(latest));
        known.bytes += chunk.bytes.len() as u64;
        known.heard_at_ms = now;
        self.has_changed = true;
        let behind: u64 = self.readers.iter().map(Reader::behind).sum();
        io.progress(self.known.bytes, self.known.bytes + behind)?;
        Ok(true)
    }

    /// Closes what the watermark has passed.
    fn advance(&mut self, now: u64) {
        let before = self.results.windows.watermark();
        self.results.advance(self.known.marks.current(now));
        self.has_changed |= self.results.windows.watermark() != before;
    }

    /// Nothing more is read: all windows are closed with what is in them.
    fn end_sources(&mut self) {
        for (partition, position) in self.known.positions.iter_mut().enumerate() {
            position.has_ended = true;
            self.known.marks.end(partition);
        }
        self.advance(now_ms());
    }

    fn has_ended(&self) -> bool {
        self.known.positions.iter().all(|position| position.has_ended)
    }

    fn write(&mut self) -> Result<(), PartError> {
        let (lines, rows) = self.results.take_lines();
        self.known.rows += rows;
        self.files.write(&mut self.known, &lines, &self.late)?;
        self.late.clear();
        Ok(())
    }

    /// Keeps positions, windows and outputs together.
    fn keep(&mut self, io: &PartIo<'_>) -> Result<(), PartError> {
        self.kept = Instant::now();
        io.message(&self.words());
        if !self.has_changed {
            return Ok(());
        }
        self.write()?;
        self.known.commits += 1;
        self.known.kept_at_ms = now_ms();
        self.known.watermark_ms = self.watermark();
        self.known.windows_open = self.results.windows.open() as u64;
        let bytes = self.files.keep(&self.known, &self.results)?;
        self.readers.iter_mut().for_each(Reader::was_kept);
        self.has_changed = false;
        if bytes > io.memory_bytes() {
            return Err(PartError::Broken(format!(
                "open windows hold {} of {} MB; give more with --memory, or take shorter windows, less lateness or \
                 fewer keys",
                count(self.results.windows.states() as u64, "state"),
                bytes / 1_000_000
            )));
        }
        Ok(())
    }

    /// Up to when all events have come; nothing before the first event, and after the last.
    fn watermark(&self) -> Option<i64> {
        let watermark = self.results.windows.watermark();
        (watermark > i64::MIN && watermark < i64::MAX).then_some(watermark)
    }

    fn words(&self) -> String {
        let open = self.results.windows.open();
        let idle = self.known.marks.idle(now_ms());
        let lag = match (self.known.latest_ms, self.watermark()) {
            (Some(latest), Some(watermark)) => {
                format!(
                    "watermark {}, {} ms behind the latest event",
                    moment(watermark),
                    latest - watermark
                )
            }
            _ => "no watermark yet".to_owned(),
        };
        format!(
            "{lag}; {} open; {}, {} late; {} idle",
            count(open as u64, "window"),
            count(self.known.events, "event"),
            self.known.late,
            count(idle as u64, "source")
        )
    }

    /// Notes that there was a turn, so that the next one can tell sleep from silence. Not synced: a hint.
    fn note_turn(&self, keep: &Keep) {
        let _ = std::fs::write(turn_file(keep), b"");
    }

    fn later(&self) -> PartError {
        let silent = Duration::from_millis(now_ms().saturating_sub(self.known.heard_at_ms));
        let after = (silent / 4).clamp(NAP.0, NAP.1);
        PartError::Later { after, why: format!("no events; {}", self.words()) }
    }

    /// The result: what was kept in the end, as files of the job.
    fn finish(mut self, io: &PartIo<'_>) -> Result<Report, PartError> {
        self.advance(now_ms());
        self.has_changed = true;
        self.keep(io)?;
        let known = &self.known;
        let mut report = Report {
            rows_in: known.events,
            bytes_in: known.bytes,
            skipped: known.skipped,
            first_skipped: known.first_skipped.clone(),
            ..Report::default()
        };
        report.count("late events", known.late);
        let (out, late) = self.files.paths();
        copy(out, io.output(0)?, known.rows, io, &mut report)?;
        if known.late > 0 {
            copy(late, io.named_output(LATE)?, known.late, io, &mut report)?;
        }
        let mut lines = vec![format!(
            "{} events, {} lines of results, {} late events",
            known.events, known.rows, known.late
        )];
        if let Some(latest) = known.latest_ms {
            lines.push(format!("the latest event was at {}", moment(latest)));
        }
        let data = json!({
            "events": known.events, "rows": known.rows, "late": known.late, "skipped": known.skipped,
            "latest_ms": known.latest_ms,
        });
        report.extra = json!(Summary { lines, data });
        Ok(report)
    }
}

/// The beginning of a stream.
fn begin(options: &Options, now: u64) -> Known {
    let mut marks = Watermarks::new(options.lateness_ms, options.idle_after_ms);
    for _ in &options.sources {
        marks.join(now);
    }
    Known {
        positions: vec![Position::default(); options.sources.len()],
        marks,
        latest_ms: None,
        events: 0,
        bytes: 0,
        late: 0,
        rows: 0,
        skipped: 0,
        first_skipped: Vec::new(),
        out_bytes: 0,
        late_bytes: 0,
        heard_at_ms: now,
        kept_at_ms: now,
        commits: 0,
        watermark_ms: None,
        windows_open: 0,
    }
}

fn turn_file(keep: &Keep) -> PathBuf {
    keep.path().join("turn")
}

/// Whether the last turn was long ago.
fn has_slept(keep: &Keep) -> bool {
    let last = std::fs::metadata(turn_file(keep)).and_then(|about| about.modified());
    let since = last.ok().and_then(|last| SystemTime::now().duration_since(last).ok());
    since.is_none_or(|since| since > ASLEEP)
}

#[cold]
fn skip(
    known: &mut Known,
    on_error: OnError,
    path: &Path,
    offset: u64,
    why: String,
) -> Result<(), PartError> {
    if on_error == OnError::Fail {
        let why = format!("{why}; correct it, or leave such lines out with --on-error skip");
        return Err(PartError::input(path, line_at(path, offset), why));
    }
    known.skipped += 1;
    if known.first_skipped.len() < SKIPS_NAMED_MAX {
        let (file, line) = (path.display().to_string(), line_at(path, offset));
        known.first_skipped.push(Skip { file, line, why });
    }
    Ok(())
}

/// Copies a file that was kept to the result.
fn copy(
    from: &Path,
    mut to: OutputWriter,
    rows: u64,
    io: &PartIo<'_>,
    report: &mut Report,
) -> Result<(), PartError> {
    let failed = |error: std::io::Error| PartError::io(from, &error);
    let mut file = File::open(from).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            break;
        }
        to.write_all(&buffer[..count]).map_err(failed)?;
        io.check()?;
    }
    to.add_rows(rows);
    io.finish_output(to, report)
}
