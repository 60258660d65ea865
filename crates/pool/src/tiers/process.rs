//! A program as a task: bytes to its stdin, its stdout is the value, the end of its stderr is kept.
//!
//! - A program runs without a shell, in a process group of its own, with a clean environment: [`ENVIRONMENT_KEPT`] and
//!   what the caller adds.
//! - When the program ends, whatever it left behind in its group is killed; the same happens to all of the group when
//!   the caller gives up waiting.
//! - With a [`Keeper`] nothing outlives its task, whatever group it went to and however this process ends. Without one, a
//!   process that left the group lives on; it is not waited for: what it holds open is read for [`PIPES_MAX`] more.
//! - A program that is asked to stop gets SIGTERM, and may take its time: who gives up waiting kills it.
//! - What is read from it is bounded: too much stdout is an error, of stderr the end is kept.
//!
//! Does not judge exit codes: the caller gets the status. How many programs run at once, and how many arguments they
//! get, is decided by the tier, and not for those who call [`Program::run`].

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{Semaphore, watch};

use super::keeper::{self, Keeper};

/// What of the caller's environment a program gets.
pub const ENVIRONMENT_KEPT: [&str; 4] = ["PATH", "HOME", "LANG", "TZ"];
/// The most arguments.
pub const ARGS_MAX: usize = 256;
/// The most bytes of stdout if nothing else is said.
pub const STDOUT_BYTES_MAX: usize = 1 << 20;
/// How many bytes of the end of stderr are kept.
pub const STDERR_BYTES_MAX: usize = 64 << 10;
/// How long what a program wrote is still read after its end.
pub const PIPES_MAX: Duration = Duration::from_secs(1);

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A path, or a name to look for in `PATH`.
    pub program: OsString,
    /// Its arguments, as they are: there is no shell.
    pub args: Vec<OsString>,
    /// What is added to its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder that it starts in; the caller's if nothing is said.
    pub folder: Option<PathBuf>,
    /// What it reads on stdin: JSON or any bytes.
    pub input: Vec<u8>,
    /// The most bytes that it may write to stdout.
    pub stdout_bytes_max: usize,
    /// Who looks after it; nobody if nothing is said.
    pub keeper: Option<Keeper>,
}

impl Program {
    /// A program without arguments and input.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            folder: None,
            input: Vec::new(),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            keeper: None,
        }
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets what it reads on stdin.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Adds a variable to its environment.
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Starts the program on `runtime`, which must have its I/O and time enabled, and waits for its end.
    ///
    /// When `stop` is ready the program and all that it started get SIGTERM. If this future is dropped, they are
    /// killed. What `log` makes of stderr becomes part of the output; it has to read on to the end.
    pub async fn run<L: Future>(
        self,
        runtime: &Runtime,
        stop: impl Future<Output = ()>,
        log: impl FnOnce(Pipe<ChildStderr>) -> L,
    ) -> Result<Output<L::Output>, ProcessError> {
        let name = || self.program.to_string_lossy().into_owned();
        let started = self.start(runtime);
        let mut child =
            started.map_err(|source| ProcessError::Start { program: name(), source })?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        let leader = leader.expect("a child that was not waited for has an id");
        let group = Group {
            id: Pid::from_raw(leader),
            kept: self.keeper.is_some(),
            ended: AtomicBool::new(false),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("all three were asked to be pipes")
        };
        let (ended, end) = watch::channel(());
        let late = || late(end.clone(), runtime.clone());
        let waiting = async {
            let status = wait_or_stop(&mut child, &group, stop).await;
            // Whatever the program left behind would hold the pipes open.
            group.end();
            drop(ended);
            status
        };
        let feeding = async {
            tokio::select! {
                () = feed(stdin, &self.input) => {}
                () = late() => {}
            }
        };
        let (status, (), stdout, stderr) = tokio::join!(
            waiting,
            feeding,
            read(Pipe::new(stdout, late()), self.stdout_bytes_max, &group),
            log(Pipe::new(stderr, late()))
        );
        match (status, stdout) {
            (Ok(status), Ok(Some(stdout))) => Ok(Output { status, stdout, stderr }),
            (_, Ok(None)) => {
                let bytes_max = self.stdout_bytes_max;
                Err(ProcessError::TooMuchOutput { program: name(), bytes_max })
            }
            (Err(source), _) | (_, Err(source)) => {
                Err(ProcessError::Lost { program: name(), source })
            }
        }
    }

    fn start(&self, runtime: &Runtime) -> Result<Child, std::io::Error> {
        // The pipes are watched by this runtime, whoever polls.
        let _on_runtime = runtime.enter();
        let mut command = match &self.keeper {
            None => Command::new(&self.program),
            Some(keeper) => {
                let mut command = Command::new(&keeper.program);
                command.args(keeper.arguments(&self.program));
                command
            }
        };
        command.args(&self.args).env_clear().process_group(0);
        let kept = ENVIRONMENT_KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(kept);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
}

/// How a program ended and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<Log = Vec<u8>> {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// All that it wrote to stdout.
    pub stdout: Vec<u8>,
    /// The end of what it wrote to stderr, or what the caller of [`Program::run`] made of it.
    pub stderr: Log,
}

/// Why a program has no output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There are too many arguments.
    #[error(
        "program `{program}` has {count} arguments, at most {ARGS_MAX}; give long lists on stdin"
    )]
    Arguments {
        /// Which program.
        program: String,
        /// How many.
        count: usize,
    },
    /// It could not be started.
    #[error("cannot start `{program}`; check that it exists and may be run: {source}")]
    Start {
        /// Which program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It wrote too much, and was killed.
    #[error(
        "`{program}` wrote more than {bytes_max} bytes to stdout; raise stdout_bytes_max, or let it write to a file"
    )]
    TooMuchOutput {
        /// Which program.
        program: String,
        /// What was allowed.
        bytes_max: usize,
    },
    /// It could not be waited for or read from.
    #[error("lost touch with `{program}`: {source}")]
    Lost {
        /// Which program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Runs a program when there is a place for it.
pub(super) async fn run(
    runtime: Runtime,
    places: Arc<Semaphore>,
    program: Program,
) -> Result<Output, ProcessError> {
    if program.args.len() > ARGS_MAX {
        let name = program.program.to_string_lossy().into_owned();
        return Err(ProcessError::Arguments { program: name, count: program.args.len() });
    }
    let _place = places.acquire_owned().await.expect("the semaphore is never closed");
    program.run(&runtime, std::future::pending(), keep_end).await
}

async fn wait_or_stop(
    child: &mut Child,
    group: &Group,
    stop: impl Future<Output = ()>,
) -> Result<ExitStatus, std::io::Error> {
    tokio::select! {
        status = child.wait() => return status,
        () = stop => group.ask_to_stop(),
    }
    child.wait().await
}

async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    // A program that does not read its input closes the pipe, which is its right.
    let _ = stdin.write_all(input).await;
    let _ = stdin.shutdown().await;
}

/// All of stdout; nothing if it is too much.
async fn read(
    stdout: impl AsyncRead + Unpin,
    bytes_max: usize,
    group: &Group,
) -> Result<Option<Vec<u8>>, std::io::Error> {
    let mut bytes = Vec::new();
    stdout.take((bytes_max as u64).saturating_add(1)).read_to_end(&mut bytes).await?;
    if bytes.len() > bytes_max {
        group.kill();
        return Ok(None);
    }
    Ok(Some(bytes))
}

/// The end of stderr.
async fn keep_end(mut stderr: Pipe<ChildStderr>) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match stderr.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => break,
            // Cut now and then, and not at every read.
            Ok(_) if bytes.len() > 2 * STDERR_BYTES_MAX => cut(&mut bytes),
            Ok(_) => {}
        }
    }
    cut(&mut bytes);
    bytes
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.drain(..bytes.len().saturating_sub(STDERR_BYTES_MAX));
}

/// What a program writes. Ends soon after the program, even if another process holds the other end.
pub struct Pipe<R> {
    from: R,
    /// Nothing once it is too late.
    late: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl<R> Pipe<R> {
    fn new(from: R, late: impl Future<Output = ()> + Send + Sync + 'static) -> Self {
        Self { from, late: Some(Box::pin(late)) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Pipe<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), std::io::Error>> {
        let this = self.get_mut();
        match Pin::new(&mut this.from).poll_read(context, bytes) {
            Poll::Pending => {
                if let Some(late) = &mut this.late {
                    ready!(late.as_mut().poll(context));
                    this.late = None;
                }
                // Nothing read is the end, however often it is asked for.
                Poll::Ready(Ok(()))
            }
            ready => ready,
        }
    }
}

impl<R> std::fmt::Debug for Pipe<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").finish_non_exhaustive()
    }
}

/// Waits until the program has ended and what it wrote could have been read.
async fn late(mut end: watch::Receiver<()>, runtime: Runtime) {
    while end.changed().await.is_ok() {}
    let wait = {
        let _on_runtime = runtime.enter();
        tokio::time::sleep(PIPES_MAX)
    };
    wait.await;
}

/// A process group, or a keeper and all that is in its care, that does not outlive this value.
struct Group {
    id: Pid,
    kept: bool,
    /// Set once the group was killed after its leader had ended: from then on the id may become another's.
    ended: AtomicBool,
}

impl Group {
    fn ask_to_stop(&self) {
        self.signal(Signal::SIGTERM);
    }

    fn kill(&self) {
        self.signal(if self.kept { keeper::END } else { Signal::SIGKILL });
    }

    fn signal(&self, signal: Signal) {
        if !self.ended.load(Ordering::Relaxed) {
            // It may be gone already, which is what is wanted.
            let _ = if self.kept { kill(self.id, signal) } else { killpg(self.id, signal) };
        }
    }

    /// The leader has ended. A keeper has left nothing behind, and its id may be another's by now.
    fn end(&self) {
        if !self.kept {
            self.kill();
        }
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        self.ended.store(true, Ordering::Relaxed);
    }
}
