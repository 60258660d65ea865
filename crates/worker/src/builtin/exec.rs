//! Kinds that run a program: JSON on its stdin, its stdout is the result, its stderr the attempt's log.
//!
//! - A program runs without a shell, in a process group of its own, with a clean environment: `PATH`, `HOME`, `LANG`, `TZ`,
//!   and `DIVVY_TASK_ID`, `DIVVY_ATTEMPT_TOKEN`, `DIVVY_ATTEMPT`, `DIVVY_KIND`, and `DIVVY_RUN_AT` if the task has such a time.
//!   `TRACEPARENT` is the W3C trace context of the attempt, below which the program may hang spans of its own.
//!   If the task has dependencies, `DIVVY_UPSTREAM` is the path of a JSON file with how they ended: a list of
//!   `{"task", "kind", "state", "result", "spawned"}`.
//! - `DIVVY_CHECKPOINT_FILE` is the path of a file that holds what an earlier attempt saved, and whose changes are saved for a
//!   later one: see [`super::exec_checkpoint`].
//! - Exit 0 finishes the task; 75 (`EX_TEMPFAIL`) and others ask for a retry; 65 (`EX_DATAERR`) is dead; a signal is a crash.
//! - A line `divvy:progress 3/10 what it does` on stderr sets the progress instead of going to the log.
//! - When the attempt shall stop the group gets SIGTERM; when the attempt ends, however it ends, the rest of the group gets
//!   SIGKILL. Programs that leave processes behind lose them; with a [`super::Keeper`], wherever these went.
//!
//! Which programs may run is decided by [`super::exec_program`] at start; a task can only name one of them, and add
//! arguments only where that is allowed. A task that came to a worker without its program waits for another one.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;

use divvy_pool::tiers::{ARGS_MAX, Output, Pipe, ProcessError, Program};
use divvy_types::limits::RESULT_BYTES_MAX;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload, need, trace};
use nix::sys::signal::Signal;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::ChildStderr;
use tokio::runtime::Handle;

use super::exec_checkpoint::CheckpointFile;
use super::exec_program::ResolvedProgram;
use super::trial::bad_payload;
use crate::handler::failed;
use crate::{Attempt, BoxFuture, Handler, ProgressReporter};

/// Bytes of one log line; longer ones are broken.
const LINE_BYTES_MAX: u64 = 8 << 10;
/// What a stderr line starts with that tells progress.
const PROGRESS_MARK: &str = "divvy:progress ";
const EX_DATAERR: i32 = 65;
const EX_TEMPFAIL: i32 = 75;

/// After how long a task is tried elsewhere whose program is not here. The server sends it where its program is, so this
/// happens only to tasks that are older than this rule, or that may fall back to another worker.
const ELSEWHERE_MS: u64 = 5_000;

/// Kind `exec`: `{"program": name, "args": […], "input": any JSON}` runs a program of the allow-list.
#[derive(Clone, Debug)]
pub struct Exec {
    programs: Arc<[ResolvedProgram]>,
}

/// A kind of its own for one program of the allow-list: the payload is what stdin gets.
#[derive(Clone, Debug)]
pub struct ExecKind {
    program: ResolvedProgram,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct ExecPayload<'a> {
    program: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

impl Exec {
    pub(crate) fn new(programs: Vec<ResolvedProgram>) -> Self {
        Self { programs: programs.into() }
    }

    fn read(&self, attempt: &Attempt) -> Result<(ResolvedProgram, Vec<u8>), AttemptOutcome> {
        let bad = |problem: String| bad_payload("exec", problem);
        let payload =
            attempt.task.payload.parse::<ExecPayload<'_>>().map_err(|e| bad(e.to_string()))?;
        let found = self.programs.iter().find(|program| program.name == payload.program);
        let mut program = found.cloned().ok_or_else(|| {
            let names: Vec<&str> =
                self.programs.iter().map(|program| program.name.as_str()).collect();
            let problem = format!(
                "program `{}` is not on this worker's list ({})",
                payload.program,
                names.join(", ")
            );
            match need::of_program(&payload.program) {
                Some(_) => {
                    failed(ErrorClass::Failed, FailureVerdict::SnoozeMs(ELSEWHERE_MS), problem)
                }
                None => bad(problem),
            }
        })?;
        if payload.args.len() > ARGS_MAX {
            return Err(bad(format!("args lists {}, at most {ARGS_MAX}", payload.args.len())));
        }
        if !payload.args.is_empty() && !program.more_args {
            return Err(bad(format!(
                "args are given, but program `{0}` takes none from tasks; its worker can allow them: divvy work --exec-args {0}",
                program.name
            )));
        }
        program.args.extend(payload.args);
        let input = payload.input.map_or("null", RawValue::get);
        Ok((program, input.as_bytes().to_vec()))
    }
}

impl Handler for Exec {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        match self.read(&attempt) {
            Ok((program, input)) => Box::pin(run_program(program, input, attempt)),
            Err(outcome) => Box::pin(std::future::ready(outcome)),
        }
    }
}

impl ExecKind {
    pub(crate) fn new(program: ResolvedProgram) -> Self {
        Self { program }
    }
}

impl Handler for ExecKind {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        let payload = &attempt.task.payload;
        let null = payload.json_text().filter(|_| payload.data().is_empty());
        let input = null.map_or(&payload.data()[..], str::as_bytes).to_vec();
        Box::pin(run_program(self.program.clone(), input, attempt))
    }
}

async fn run_program(program: ResolvedProgram, input: Vec<u8>, attempt: Attempt) -> AttemptOutcome {
    let cannot = |what: &str, error: std::io::Error| {
        let problem = format!("cannot write {what} into a temporary file: {error}");
        failed(ErrorClass::Failed, FailureVerdict::Retry, problem)
    };
    let upstream = match write_upstream(&attempt).await {
        Ok(upstream) => upstream,
        Err(error) => return cannot("the results of the dependencies", error),
    };
    let mut checkpoint = match CheckpointFile::new(&attempt).await {
        Ok(checkpoint) => checkpoint,
        Err(error) => return cannot("the checkpoint", error),
    };
    let (runtime, cancel) = (Handle::current(), attempt.cancelled());
    let log = |stderr| read_log(stderr, attempt.progress());
    let command = command(program, input, &attempt, upstream.as_deref())
        .variable("DIVVY_CHECKPOINT_FILE", checkpoint.path());
    let ended = tokio::select! {
        ended = command.run(&runtime, cancel.wait(), log) => ended,
        never = checkpoint.watch() => match never {},
    };
    let outcome = match ended {
        Ok(output) => outcome(output),
        Err(error) => outcome_of_error(&error),
    };
    // What a program returns after it was asked to stop does not count, so there may be a later attempt then.
    if !matches!(outcome, AttemptOutcome::Finished { .. }) || attempt.cancelled().is_cancelled() {
        checkpoint.save().await;
    }
    outcome
}

fn command(
    program: ResolvedProgram,
    input: Vec<u8>,
    attempt: &Attempt,
    upstream: Option<&Path>,
) -> Program {
    let mut command = Program::new(program.path)
        .args(program.args)
        .input(input)
        .variable("DIVVY_TASK_ID", attempt.task.id.to_string())
        .variable("DIVVY_ATTEMPT_TOKEN", attempt.token.0.to_string())
        .variable("DIVVY_ATTEMPT", attempt.attempt.to_string())
        .variable("DIVVY_KIND", attempt.task.kind.as_str())
        .variable(
            "TRACEPARENT",
            trace::Context::of_attempt(&attempt.task, attempt.token).to_string(),
        );
    if let Some(run_at) = attempt.task.run_at {
        command = command.variable("DIVVY_RUN_AT", run_at.to_string());
    }
    command.stdout_bytes_max = RESULT_BYTES_MAX;
    command.keeper = program.keeper;
    if let Some(file) = upstream {
        command = command.variable("DIVVY_UPSTREAM", file);
    }
    if attempt.upstream_cut {
        command = command.variable("DIVVY_UPSTREAM_CUT", "1");
    }
    command
}

/// How the dependencies ended, in a file that goes away with the value; nothing without dependencies.
async fn write_upstream(attempt: &Attempt) -> Result<Option<tempfile::TempPath>, std::io::Error> {
    if attempt.upstream.is_empty() {
        return Ok(None);
    }
    let upstream = Arc::clone(&attempt.upstream);
    let write = move || {
        let mut file =
            std::io::BufWriter::new(tempfile::Builder::new().prefix("divvy-upstream-").tempfile()?);
        serde_json::to_writer(&mut file, &*upstream)?;
        file.into_inner()
            .map(|file| Some(file.into_temp_path()))
            .map_err(std::io::IntoInnerError::into_error)
    };
    tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other)?
}

/// Passes stderr on, line by line, and returns the last line that was not empty.
async fn read_log(stderr: Pipe<ChildStderr>, progress: ProgressReporter) -> String {
    let mut stderr = BufReader::new(stderr);
    let mut last = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if let Some((done, total, message)) =
            text.strip_prefix(PROGRESS_MARK).and_then(parse_progress)
        {
            progress.set(done, total);
            progress.message(message);
            continue;
        }
        progress.log(text);
        if !text.trim().is_empty() {
            text.clone_into(&mut last);
        }
    }
}

/// `3/10 what it does`, or `3` where the total is not known.
fn parse_progress(text: &str) -> Option<(u64, u64, &str)> {
    let text = text.trim();
    let (numbers, message) = text.split_once(' ').unwrap_or((text, ""));
    let (done, total) = numbers.split_once('/').unwrap_or((numbers, "0"));
    Some((done.parse().ok()?, total.parse().ok()?, message.trim()))
}

/// What the end of a program means. `stderr` is its last line.
fn outcome(Output { status, stdout, stderr }: Output<String>) -> AttemptOutcome {
    let with_line =
        |text: String| if stderr.is_empty() { text } else { format!("{text}: {stderr}") };
    let (class, verdict, text) = match (status.code(), status.signal()) {
        (Some(0), _) => {
            return AttemptOutcome::Finished { result: result_of(stdout), spawned: Vec::new() };
        }
        (Some(EX_TEMPFAIL), _) => {
            (ErrorClass::Failed, FailureVerdict::Retry, "exit status 75 (try again)".to_owned())
        }
        (Some(EX_DATAERR), _) => {
            (ErrorClass::Failed, FailureVerdict::Dead, "exit status 65 (bad data)".to_owned())
        }
        (Some(code), _) => {
            (ErrorClass::Failed, FailureVerdict::Retry, format!("exit status {code}"))
        }
        (None, signal) => {
            let name = signal
                .and_then(|number| Signal::try_from(number).ok())
                .map_or("a signal", Signal::as_str);
            (ErrorClass::Crashed, FailureVerdict::Retry, format!("killed by {name}"))
        }
    };
    failed(class, verdict, with_line(text))
}

/// What it means that there is no end of a program to judge.
fn outcome_of_error(error: &ProcessError) -> AttemptOutcome {
    let (class, verdict, text) = match error {
        ProcessError::Start { source, .. } => {
            let hopeless =
                [std::io::ErrorKind::InvalidInput, std::io::ErrorKind::ArgumentListTooLong];
            let dead = hopeless.contains(&source.kind());
            let verdict = if dead { FailureVerdict::Dead } else { FailureVerdict::Retry };
            (ErrorClass::Failed, verdict, error.to_string())
        }
        ProcessError::Arguments { .. } => {
            (ErrorClass::Failed, FailureVerdict::Dead, error.to_string())
        }
        ProcessError::TooMuchOutput { bytes_max, .. } => {
            let text = format!(
                "stdout is more than {bytes_max} bytes; write large results to a file or an object store and print its address"
            );
            (ErrorClass::Failed, FailureVerdict::Dead, text)
        }
        ProcessError::Lost { .. } => {
            (ErrorClass::Crashed, FailureVerdict::Retry, error.to_string())
        }
    };
    failed(class, verdict, text)
}

/// JSON as it is; other text as a JSON string.
fn result_of(stdout: Vec<u8>) -> Payload {
    let text = stdout.trim_ascii();
    match Payload::json(text.to_vec()) {
        Ok(json) => json,
        Err(_) => Payload::from_value(&String::from_utf8_lossy(text)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_have_numbers_and_words() {
        assert_eq!(parse_progress("3/10 reading pages"), Some((3, 10, "reading pages")));
        assert_eq!(parse_progress(" 3/10 "), Some((3, 10, "")));
        assert_eq!(parse_progress("7"), Some((7, 0, "")));
        assert_eq!(parse_progress("soon"), None);
    }

    #[test]
    fn stdout_is_json_or_a_string() {
        assert_eq!(result_of(b" {\"a\": 1}\n".to_vec()).json_text(), Some("{\"a\": 1}"));
        assert_eq!(result_of(b"hello\n".to_vec()).json_text(), Some("\"hello\""));
        assert_eq!(result_of(b"\n".to_vec()), Payload::null());
    }
}
