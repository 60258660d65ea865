//! What the tests share: a private folder, the binary in it, and servers that do not outlive their test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The output of a run that must have had this exit code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Every line of stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The error on stderr as JSON.
    #[track_caller]
    pub(crate) fn json_error(&self) -> Value {
        let line = self.stderr.lines().last().unwrap();
        serde_json::from_str::<Value>(line).unwrap()["error"].clone()
    }

    pub(crate) fn line(&self) -> &str {
        self.stdout.trim_end()
    }
}

/// A folder of one test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// The binary, in this folder, with no settings from outside.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_divvy"), args)
    }

    /// A program, in this folder, with no settings from outside.
    pub(crate) fn program(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(name);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DIVVY_") {
                command.env_remove(name);
            }
        }
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        end(self.command(args), "")
    }
}

/// Runs a command to its end, with this on its standard input.
pub(crate) fn end(mut command: Command, input: &str) -> Ended {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = Guarded(command.spawn().unwrap());
    if let Some(mut stdin) = child.0.stdin.take() {
        stdin.write_all(input.as_bytes()).unwrap();
    }
    finish(child)
}

/// A process that does not outlive this value.
pub(crate) struct Guarded(pub(crate) Child);

impl Guarded {
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }

    /// The processes that it has started.
    pub(crate) fn children(&self) -> Vec<i32> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let children = threads.filter_map(|thread| {
            std::fs::read_to_string(thread.ok()?.path().join("children")).ok()
        });
        let texts: Vec<String> = children.collect();
        texts
            .iter()
            .flat_map(|text| text.split_whitespace())
            .map(|pid| pid.parse().unwrap())
            .collect()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Waits for the end of a process, for a bounded time.
pub(crate) fn finish(mut child: Guarded) -> Ended {
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        let mut pipe = pipe?;
        Some(std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        }))
    };
    let stdout = read(child.0.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let stderr = read(child.0.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let status = until("the process ends", || child.0.try_wait().unwrap());
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        thread.map(|t| t.join().unwrap()).unwrap_or_default()
    };
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// Looks until something is there, for a bounded time.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "gave up waiting: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The body of a page.
pub(crate) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.lines().next()?.contains(" 200 ").then(|| body.to_owned())
}

/// A running `divvy up` or `divvy serve`.
pub(crate) struct Server {
    pub(crate) folder: Folder,
    pub(crate) process: Guarded,
    pub(crate) url: String,
    pub(crate) said: Value,
}

impl Server {
    /// A server with one local worker, which takes no videos: to try out ffmpeg takes longer than most tests.
    pub(crate) fn up(args: &[&str]) -> Self {
        Self::up_with_videos(&[&["--no-video"], args].concat())
    }

    /// A server with one local worker.
    pub(crate) fn up_with_videos(args: &[&str]) -> Self {
        Self::start(Folder::new(), &[&["up", "--workers", "1"], args].concat())
    }

    /// A server without workers.
    pub(crate) fn serve(args: &[&str]) -> Self {
        let args: Vec<&str> = ["serve"].iter().chain(args).copied().collect();
        Self::start(Folder::new(), &args)
    }

    /// A server in this folder, on a free port.
    pub(crate) fn start(folder: Folder, args: &[&str]) -> Self {
        Self::start_at(folder, args, "127.0.0.1:0")
    }

    /// A server in this folder, at this address.
    pub(crate) fn start_at(folder: Folder, args: &[&str], address: &str) -> Self {
        let mut command = folder.command(args);
        command.args(["--json", "--listen", address]);
        let mut process = Guarded(command.spawn().unwrap());
        let stdout = process.0.stdout.take().unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = tell.send(line);
        });
        let line = told.recv_timeout(PATIENCE).unwrap();
        if line.is_empty() {
            panic!("the server did not start: {}", finish(process).stderr);
        }
        let said: Value = serde_json::from_str(&line).unwrap();
        Self { folder, process, url: said["url"].as_str().unwrap().to_owned(), said }
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// A command that talks to this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.folder.command(args);
        command.env("DIVVY_SERVER", &self.url);
        command
    }

    /// Runs a command that talks to this server.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        end(self.command(args), "")
    }

    /// The task of this id, as the server tells it.
    pub(crate) fn task(&self, id: &str) -> Value {
        self.run(&["task", "show", id, "--json"]).expect(0).json().remove(0)
    }

    /// Waits until a task is in this state.
    #[track_caller]
    pub(crate) fn wait_for_state(&self, id: &str, state: &str) -> Value {
        until(&format!("task {id} is {state}"), || {
            Some(self.task(id)).filter(|task| task["state"] == state)
        })
    }

    /// The worker processes of an `up`.
    pub(crate) fn worker_pids(&self) -> Vec<i32> {
        self.process.children()
    }

    /// Asks it to stop and waits for the end; the folder stays.
    pub(crate) fn stop(self) -> (Folder, Ended) {
        self.process.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits for the end; the folder stays.
    pub(crate) fn ended(mut self) -> (Folder, Ended) {
        let nothing = Guarded(Command::new("true").spawn().unwrap());
        let process = std::mem::replace(&mut self.process, nothing);
        let folder = std::mem::replace(&mut self.folder, Folder::new());
        (folder, finish(process))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its workers end by themselves when it is gone; that too is tested.
        let _ = self.process.0.kill();
        let _ = self.process.0.wait();
    }
}
