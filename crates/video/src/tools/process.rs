//! Runs a program under the launcher: its limits, its output, its end.
//!
//! The launcher's standard input is the lifeline: as long as this side holds it the program runs, and when it is closed,
//! by an order to stop, by a drop or by the death of the worker, the launcher ends the program with everything that came
//! of it. So there is one way to stop, and it needs nobody's care.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use super::progress::Meter;
use super::sandbox::{self, Level, Orders, Report};
use super::watchdog::Pulse;
use super::{Finished, Invocation, RunError, Said, arguments};
use crate::room::Room;

/// What a program may print, if that is not progress.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How much is kept of the end of what a program complains about.
const COMPLAINT_BYTES_MAX: usize = 8 << 10;
/// Room for the launcher's report behind the complaints.
const REPORT_BYTES_MAX: usize = 256;
/// How long the launcher has to end a program: the grace that it gives, and some more.
const END_WITHIN: Duration = Duration::from_secs(6);
const READ_BYTES: usize = 16 << 10;

/// How programs are started here.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    /// The program, and its first arguments, that calls [`sandbox::enter`].
    pub(super) command: Vec<OsString>,
    /// Where `bwrap` is.
    pub(super) bwrap: Option<PathBuf>,
    /// How programs are confined.
    pub(super) level: Level,
}

/// Why a program was stopped before its end.
enum Stop {
    Cancelled,
    NoRoom,
    Limit(String),
}

impl Launcher {
    /// Runs a program to its end, or until `cancelled` returns.
    pub(super) async fn run(
        &self,
        invocation: Invocation,
        cancelled: impl Future<Output = ()> + Send,
        tell: &mut (dyn FnMut(Said<'_>) + Send),
    ) -> Result<Finished, RunError> {
        let name = name_of(&invocation.program);
        let start = |problem: String| RunError::Start { program: name.clone(), problem };
        let began = Instant::now();
        let limits = invocation.limits;
        let room = Room::at(&invocation.folder);
        let mut launched = self.spawn(&invocation).map_err(start)?;
        let process = launched.id().unwrap_or_default().cast_signed();
        let pulse = Pulse::new();
        let reading = Reading::of(&mut launched, &invocation.arguments);
        let stop = tokio::select! {
            biased;
            () = cancelled => Stop::Cancelled,
            read = reading.all(invocation.input, &pulse, tell) => match read {
                Ok(read) => {
                    let status = launched.wait().await.map_err(|error| start(error.to_string()))?;
                    return self.judge(&name, status, read, began.elapsed(), limits.cpu);
                }
                Err(problem) => Stop::Limit(problem),
            },
            () = tokio::time::sleep(limits.wall) => {
                Stop::Limit(format!("it ran for more than {}", seconds(limits.wall)))
            }
            () = room.ends() => Stop::NoRoom,
            silent = pulse.stops(process, limits.stall) => {
                Stop::Limit(format!("it made no progress for {}", seconds(silent)))
            }
        };
        // The lifeline went with the reading; what is left is to wait until everything is gone.
        if tokio::time::timeout(END_WITHIN, launched.wait()).await.is_err() {
            let _ = launched.kill().await;
        }
        Err(match stop {
            Stop::Cancelled => RunError::Cancelled,
            Stop::NoRoom => RunError::NoRoom { program: name, place: invocation.folder },
            Stop::Limit(problem) => RunError::Stopped { program: name, problem },
        })
    }

    fn spawn(&self, invocation: &Invocation) -> Result<Child, String> {
        let Some((launcher, beginning)) = self.command.split_first() else {
            return Err("there is no launcher".to_owned());
        };
        check_places(invocation)?;
        let program = find_program(&invocation.program)
            .ok_or_else(|| "it is not on the path or cannot be executed".to_owned())?;
        let input_bytes = invocation.input.len() as u64;
        if input_bytes > sandbox::INPUT_BYTES_MAX {
            return Err(format!("its input is larger than {} bytes", sandbox::INPUT_BYTES_MAX));
        }
        let orders = Orders {
            level: self.level,
            bwrap: self.bwrap.clone(),
            folder: invocation.folder.clone(),
            readable: invocation.readable.clone(),
            cpu_s: whole_seconds(invocation.limits.cpu),
            memory_bytes: invocation.limits.memory_bytes,
            input_bytes,
            keeper: None,
        };
        let orders = serde_json::to_string(&orders).map_err(|error| error.to_string())?;
        Command::new(launcher)
            .args(beginning)
            .arg(orders)
            .arg(program)
            .args(&invocation.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal from the terminal is for the worker, which knows what to do about its programs.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("launcher {}: {error}", launcher.display()))
    }

    /// What the end of the launcher means.
    fn judge(
        &self,
        name: &str,
        status: ExitStatus,
        read: Read,
        wall: Duration,
        cpu_limit: Duration,
    ) -> Result<Finished, RunError> {
        let (complaints, report) = read.complaints.split_report();
        let program = name.to_owned();
        let Some(report) = report.filter(|_| status.success()) else {
            let problem = format!("the launcher ended with {status}: {complaints}");
            return Err(RunError::Start { program, problem });
        };
        let cpu = Duration::from_micros(report.cpu_us);
        let (code, signal) = self.end_of(report);
        if code == Some(0) {
            return Ok(Finished { output: read.output, complaints, cpu, wall });
        }
        if code == Some(sandbox::SECOND_STAGE_FAILED) || complaints.starts_with("bwrap: ") {
            return Err(RunError::Start { program, problem: complaints });
        }
        // The kernel counts by ticks and may be early; ffmpeg takes its signal for a wish to end and exits by itself.
        if signal == Some(Signal::SIGXCPU as i32) || cpu >= cpu_limit.mul_f64(0.9) {
            let problem = format!("it used more than {} of processor time", seconds(cpu_limit));
            return Err(RunError::Stopped { program, problem });
        }
        let status = match (code, signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        Err(RunError::Failed { program, status, complaints })
    }

    /// Exit code and signal. Bubblewrap tells a signal as an exit code, as a shell does.
    fn end_of(&self, report: Report) -> (Option<i32>, Option<i32>) {
        match report.code {
            Some(code) if self.level == Level::Bwrap && (129..=192).contains(&code) => {
                (None, Some(code - 128))
            }
            code => (code, report.signal),
        }
    }
}

/// The pipes of a program.
struct Reading {
    input: Option<ChildStdin>,
    output: Option<tokio::process::ChildStdout>,
    complaints: Option<tokio::process::ChildStderr>,
    tells_progress: bool,
}

/// What came out of them.
struct Read {
    output: Vec<u8>,
    complaints: Tail,
}

impl Reading {
    fn of(child: &mut Child, arguments: &[OsString]) -> Self {
        Self {
            input: child.stdin.take(),
            output: child.stdout.take(),
            complaints: child.stderr.take(),
            tells_progress: arguments::tell_progress(arguments),
        }
    }

    /// Gives the input and reads to the end, or until too much was printed. Holds the lifeline all the while.
    async fn all(
        self,
        input: Vec<u8>,
        pulse: &Pulse,
        tell: &mut (dyn FnMut(Said<'_>) + Send),
    ) -> Result<Read, String> {
        let mut lifeline = self.input;
        let give = async {
            if let Some(to) = &mut lifeline {
                // A launcher that is gone says so in its own way.
                let _ = to.write_all(&input).await;
                let _ = to.flush().await;
            }
            Ok(())
        };
        let mut tail = Tail::default();
        let complaints = read_all(self.complaints, |piece| {
            if !self.tells_progress {
                pulse.beat();
            }
            tail.push(piece);
            Ok(())
        });
        let (mut output, mut meter) = (Vec::new(), Meter::default());
        let printed = read_all(self.output, |piece| {
            if self.tells_progress {
                if meter.take(piece, Instant::now(), &mut |step| tell(Said::Step(step))) {
                    pulse.beat();
                }
                return Ok(());
            }
            pulse.beat();
            if output.len() + piece.len() > OUTPUT_BYTES_MAX {
                return Err(format!("it printed more than {OUTPUT_BYTES_MAX} bytes"));
            }
            output.extend_from_slice(piece);
            tell(Said::Printed(piece));
            Ok(())
        });
        tokio::try_join!(give, complaints, printed)?;
        meter.end(&mut |step| tell(Said::Step(step)));
        drop(lifeline);
        Ok(Read { output, complaints: tail })
    }
}

async fn read_all(
    from: Option<impl AsyncRead + Unpin>,
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read =
            from.read(&mut buffer).await.map_err(|error| format!("reading from it: {error}"))?;
        if read == 0 {
            return Ok(());
        }
        take(&buffer[..read])?;
    }
}

/// The end of what was printed.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let surplus = self.bytes.len().saturating_sub(COMPLAINT_BYTES_MAX + REPORT_BYTES_MAX);
        self.cut |= surplus > 0;
        self.bytes.drain(..surplus);
    }

    /// The complaints, and the report behind them.
    fn split_report(&self) -> (String, Option<Report>) {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let line = text.iter().rposition(|byte| *byte == b'\n');
        let (before, last) = line.map_or((&[][..], text), |at| (&text[..at], &text[at + 1..]));
        let report = serde_json::from_slice(last).ok();
        let words = if report.is_some() { before } else { text };
        let words = String::from_utf8_lossy(words).trim().to_owned();
        (if self.cut { format!("…{words}") } else { words }, report)
    }
}

/// Folders and files must be there before a sandbox is built around them.
fn check_places(invocation: &Invocation) -> Result<(), String> {
    if !invocation.folder.is_absolute() || !invocation.folder.is_dir() {
        return Err(format!("{} is not an absolute path of a folder", invocation.folder.display()));
    }
    let missing = |place: &&PathBuf| !place.is_absolute() || !place.exists();
    match invocation.readable.iter().find(missing) {
        Some(place) => Err(format!("{} is not there, or not an absolute path", place.display())),
        None => Ok(()),
    }
}

/// The program at a path, or on the search path if it is a bare name.
pub(super) fn find_program(name: &Path) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
    };
    if name.components().count() > 1 {
        return std::path::absolute(name).ok().filter(executable);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(executable)
}

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// Limits are in whole seconds; a part of one counts as one.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{ToolOptions, processes};

    #[test]
    fn the_report_is_told_from_the_complaints() {
        let mut tail = Tail::default();
        tail.push(b"first\nsecond without an end");
        tail.push(b"\n{\"code\":3,\"signal\":null,\"cpu_us\":7}\n");
        let (complaints, report) = tail.split_report();
        assert_eq!(complaints, "first\nsecond without an end");
        assert_eq!(report, Some(Report { code: Some(3), signal: None, cpu_us: 7 }));
        let mut tail = Tail::default();
        tail.push(b"no report");
        assert_eq!(tail.split_report(), ("no report".to_owned(), None));
    }

    #[tokio::test]
    async fn an_order_to_stop_ends_the_program_before_the_run_returns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = ToolOptions::default();
        let command = crate::tools::find_launcher(&options).expect("it is built with the tests");
        for level in [Level::Bwrap, Level::Landlock, Level::None] {
            let bwrap = find_program("bwrap".as_ref());
            let launcher = Launcher { command: command.clone(), bwrap, level };
            let script = "echo $$ > running; exec sleep 86000";
            let arguments = vec!["-c".into(), script.into()];
            let shell =
                crate::tools::invocation("bash".as_ref(), folder.path(), arguments, Vec::new());
            let running = folder.path().join("running");
            let begun = async {
                while !running.exists() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            let ended = launcher.run(shell, begun, &mut |_| {}).await;
            assert_eq!(ended, Err(RunError::Cancelled), "{level}");
            let own = std::process::id().cast_signed();
            let left = processes::all().into_iter().filter(|process| process.parent == own);
            assert_eq!(left.count(), 0, "{level}");
            std::fs::remove_file(&running).expect("the program ran");
        }
    }

    #[test]
    fn only_the_end_of_long_complaints_is_kept() {
        let mut tail = Tail::default();
        for number in 0..10_000 {
            tail.push(format!("complaint {number}\n").as_bytes());
        }
        let (complaints, _) = tail.split_report();
        assert!(complaints.len() <= COMPLAINT_BYTES_MAX + REPORT_BYTES_MAX + 3);
        assert!(complaints.starts_with('…') && complaints.ends_with("complaint 9999"));
    }
}
