//! Kinds that run a program: JSON on its stdin, its stdout is the result, its stderr the attempt's log.
//!
//! - A program runs without a shell, in a process group of its own, with a clean environment: `PATH`, `HOME`, `LANG`, `TZ`,
//!   and `DIVVY_TASK_ID`, `DIVVY_ATTEMPT_TOKEN`, `DIVVY_ATTEMPT`, `DIVVY_KIND`. If the task has dependencies, `DIVVY_UPSTREAM` is the
//!   path of a JSON file with how they ended: a list of `{"task", "kind", "state", "result", "spawned"}`.
//! - Exit 0 finishes the task; 75 (`EX_TEMPFAIL`) and others ask for a retry; 65 (`EX_DATAERR`) is dead; a signal is a crash.
//! - A line `divvy:progress 3/10 what it does` on stderr sets the progress instead of going to the log.
//! - When the attempt shall stop the group gets SIGTERM; when the attempt ends, however it ends, the rest of the group gets
//!   SIGKILL. Programs that leave processes behind lose them.
//!
//! Which programs may run is decided by [`super::exec_program`] at start; a task can only name one of them.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use divvy_types::limits::RESULT_BYTES_MAX;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::exec_program::ResolvedProgram;
use super::trial::bad_payload;
use crate::handler::failed;
use crate::{Attempt, BoxFuture, Cancel, Handler, ProgressReporter};

/// What of the worker's environment a program gets.
const ENVIRONMENT_KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// Bytes of one log line; longer ones are broken.
const LINE_BYTES_MAX: u64 = 8 << 10;
/// Arguments that a task may give.
const ARGS_MAX: usize = 256;
/// What a stderr line starts with that tells progress.
const PROGRESS_MARK: &str = "divvy:progress ";
const EX_DATAERR: i32 = 65;
const EX_TEMPFAIL: i32 = 75;

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
#[serde(deny_unknown_fields)]
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

    fn read(&self, attempt: &Attempt) -> Result<(ResolvedProgram, Bytes), String> {
        let payload = attempt.task.payload.parse::<ExecPayload<'_>>().map_err(|e| e.to_string())?;
        let found = self.programs.iter().find(|program| program.name == payload.program);
        let mut program = found.cloned().ok_or_else(|| {
            let names: Vec<&str> =
                self.programs.iter().map(|program| program.name.as_str()).collect();
            format!(
                "program `{}` is not on this worker's list ({})",
                payload.program,
                names.join(", ")
            )
        })?;
        if payload.args.len() > ARGS_MAX {
            return Err(format!("args lists {}, at most {ARGS_MAX}", payload.args.len()));
        }
        program.args.extend(payload.args);
        let input = payload.input.map_or("null", RawValue::get);
        Ok((program, Bytes::copy_from_slice(input.as_bytes())))
    }
}

impl Handler for Exec {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        match self.read(&attempt) {
            Ok((program, input)) => Box::pin(run_program(program, input, attempt)),
            Err(problem) => Box::pin(std::future::ready(bad_payload("exec", problem))),
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
        let input = payload
            .json_text()
            .filter(|_| payload.data().is_empty())
            .map(|null| null.as_bytes().to_vec());
        let input = input.map_or_else(|| payload.data().clone(), Bytes::from);
        Box::pin(run_program(self.program.clone(), input, attempt))
    }
}

/// A process group that does not outlive this value.
struct Group {
    id: Pid,
    /// Set once the group was killed after its leader had ended: from then on the id may become another's.
    ended: AtomicBool,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if !self.ended.load(Ordering::Relaxed) {
            // The group may be gone already, which is what is wanted.
            let _ = killpg(self.id, signal);
        }
    }

    fn end(&self) {
        self.signal(Signal::SIGKILL);
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

async fn run_program(program: ResolvedProgram, input: Bytes, attempt: Attempt) -> AttemptOutcome {
    let upstream = match write_upstream(&attempt).await {
        Ok(upstream) => upstream,
        Err(error) => {
            let problem = format!(
                "cannot write the results of the dependencies into a temporary file: {error}"
            );
            return failed(ErrorClass::Failed, FailureVerdict::Retry, problem);
        }
    };
    let mut command = command(&program, &attempt);
    command.envs(upstream.as_ref().map(|file| ("DIVVY_UPSTREAM", file)));
    command.envs(attempt.upstream_cut.then_some(("DIVVY_UPSTREAM_CUT", "1")));
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let hopeless =
                [std::io::ErrorKind::InvalidInput, std::io::ErrorKind::ArgumentListTooLong];
            let dead = hopeless.contains(&error.kind());
            let verdict = if dead { FailureVerdict::Dead } else { FailureVerdict::Retry };
            let problem = format!("cannot start {}: {error}", program.path.display());
            return failed(ErrorClass::Failed, verdict, problem);
        }
    };
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let id = leader.expect("a child that was not waited for has an id");
    let group = Group { id, ended: AtomicBool::new(false) };
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        unreachable!("all three were asked to be pipes")
    };
    let cancel = attempt.cancelled();
    let waiting = async {
        let status = wait_or_stop(&mut child, &group, &cancel).await;
        // Whatever the program started and left behind would hold the pipes open.
        group.end();
        status
    };
    let (status, (), stdout, last_line) = tokio::join!(
        waiting,
        feed(stdin, input),
        read_result(stdout, &group),
        read_log(stderr, attempt.progress())
    );
    let status = match status {
        Ok(status) => status,
        Err(error) => {
            let problem = format!("cannot wait for {}: {error}", program.path.display());
            return failed(ErrorClass::Crashed, FailureVerdict::Retry, problem);
        }
    };
    match stdout {
        Ok(stdout) => outcome(status, stdout, &last_line),
        Err(problem) => failed(ErrorClass::Failed, FailureVerdict::Dead, problem),
    }
}

fn command(program: &ResolvedProgram, attempt: &Attempt) -> Command {
    let mut command = Command::new(&program.path);
    command.args(&program.args).env_clear().process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(ENVIRONMENT_KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("DIVVY_TASK_ID", attempt.task.id.to_string());
    command.env("DIVVY_ATTEMPT_TOKEN", attempt.token.0.to_string());
    command.env("DIVVY_ATTEMPT", attempt.attempt.to_string());
    command.env("DIVVY_KIND", attempt.task.kind.as_str());
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

/// Waits for the end; a stop is passed on as SIGTERM. A program that ignores it is killed when this future is dropped.
async fn wait_or_stop(
    child: &mut tokio::process::Child,
    group: &Group,
    cancel: &Cancel,
) -> Result<ExitStatus, std::io::Error> {
    tokio::select! {
        status = child.wait() => return status,
        () = cancel.wait() => group.signal(Signal::SIGTERM),
    }
    child.wait().await
}

async fn feed(mut stdin: ChildStdin, input: Bytes) {
    // A program that does not read its input closes the pipe, which is its right.
    let _ = stdin.write_all(&input).await;
    let _ = stdin.shutdown().await;
}

async fn read_result(stdout: ChildStdout, group: &Group) -> Result<Vec<u8>, String> {
    let mut result = Vec::new();
    let read = stdout.take(RESULT_BYTES_MAX as u64 + 1).read_to_end(&mut result).await;
    if let Err(error) = read {
        return Err(format!("cannot read stdout: {error}"));
    }
    if result.len() > RESULT_BYTES_MAX {
        group.signal(Signal::SIGKILL);
        return Err(format!(
            "stdout is more than {RESULT_BYTES_MAX} bytes; write large results to a file or an object store and print its address"
        ));
    }
    Ok(result)
}

/// Passes stderr on, line by line, and returns the last line that was not empty.
async fn read_log(stderr: ChildStderr, progress: ProgressReporter) -> String {
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

fn outcome(status: ExitStatus, stdout: Vec<u8>, last_line: &str) -> AttemptOutcome {
    let with_line =
        |text: String| if last_line.is_empty() { text } else { format!("{text}: {last_line}") };
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
