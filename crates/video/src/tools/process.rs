//! Runs a program under the launcher: its limits, its output, its end.
//!
//! The launcher's standard input is the lifeline: it is held as long as the program is wanted. So there is one way to stop,
//! and it needs nobody's care.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

use super::progress::Meter;
use super::sandbox::{Bounds, Complaints, Launcher};
use super::watchdog::Pulse;
use super::{Finished, Invocation, RunError, Said, arguments};
use crate::room::Room;

/// What a program may print, if that is not progress.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How long the launcher has to end a program: the grace that it gives, and some more.
const END_WITHIN: Duration = Duration::from_secs(6);
const READ_BYTES: usize = 16 << 10;

/// Why a program was stopped before its end.
enum Stop {
    Cancelled,
    NoRoom,
    Limit(String),
}

/// Runs a program to its end, or until `cancelled` returns.
pub(super) async fn run(
    launcher: &Launcher,
    invocation: Invocation,
    cancelled: impl Future<Output = ()> + Send,
    tell: &mut (dyn FnMut(Said<'_>) + Send),
) -> Result<Finished, RunError> {
    let name = name_of(&invocation.program);
    let start = |problem: String| RunError::Start { program: name.clone(), problem };
    let began = Instant::now();
    let limits = invocation.limits;
    let room = Room::at(&invocation.folder);
    let mut launched = spawn(launcher, &invocation).map_err(start)?;
    let process = launched.id().unwrap_or_default().cast_signed();
    let pulse = Pulse::new();
    let reading = Reading::of(&mut launched, &invocation.arguments);
    let stop = tokio::select! {
        biased;
        () = cancelled => Stop::Cancelled,
        read = reading.all(invocation.input, &pulse, tell) => match read {
            Ok(read) => {
                let status = launched.wait().await.map_err(|error| start(error.to_string()))?;
                return judge(launcher, &name, status, read, began.elapsed(), limits.cpu);
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

fn spawn(launcher: &Launcher, invocation: &Invocation) -> Result<Child, String> {
    let bounds = Bounds {
        folder: &invocation.folder,
        readable: &invocation.readable,
        cpu: invocation.limits.cpu,
        memory_bytes: invocation.limits.memory_bytes,
        input_bytes: invocation.input.len() as u64,
    };
    let command = launcher.command(&invocation.program, &invocation.arguments, bounds)?;
    let launcher = command.get_program().to_owned();
    Command::from(command)
        .spawn()
        .map_err(|error| format!("launcher {}: {error}", launcher.display()))
}

/// What the end of the launcher means.
fn judge(
    launcher: &Launcher,
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
    let (code, signal) = launcher.end_of(report);
    if code == Some(0) {
        return Ok(Finished { output: read.output, complaints, cpu, wall });
    }
    if Launcher::was_not_started(code, &complaints) {
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
    complaints: Complaints,
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
        let mut tail = Complaints::default();
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

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolOptions;
    use crate::tools::sandbox::{Level, find_program, processes};

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
            let ended = run(&launcher, shell, begun, &mut |_| {}).await;
            assert_eq!(ended, Err(RunError::Cancelled), "{level}");
            let own = std::process::id().cast_signed();
            let left = processes::all().into_iter().filter(|process| process.parent == own);
            assert_eq!(left.count(), 0, "{level}");
            std::fs::remove_file(&running).expect("the program ran");
        }
    }
}
