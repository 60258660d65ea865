//! A divvy server, a cluster on it, and the processes that a test may kill. All of them end with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const SQL: &str = env!("CARGO_BIN_EXE_divvy-sql");

/// A server and, once it is brought up, a cluster.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    port: u16,
    server: Process,
    cluster: Option<Process>,
}

/// A process that is killed and reaped at the end.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Kills it as a crash would.
    pub(crate) fn crash(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }

    /// What it says and how it ends.
    pub(crate) fn end(self) -> Output {
        let mut process = self;
        let read = |from: Option<Box<dyn std::io::Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut from) = from {
                    from.read_to_end(&mut bytes).unwrap();
                }
                bytes
            })
        };
        let out = read(process.0.stdout.take().map(|from| Box::new(from) as _));
        let err = read(process.0.stderr.take().map(|from| Box::new(from) as _));
        let status = until("a process ends", || process.0.try_wait().unwrap());
        Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    /// A server without a cluster.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let server = serve(folder.path(), port);
        Self { folder, port, server, cluster: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Brings a cluster of two executors up; gives its address.
    pub(crate) fn up(&mut self) -> String {
        let (process, address) = self.another_up();
        self.cluster = Some(process);
        address
    }

    /// The same, without keeping it.
    pub(crate) fn another_up(&self) -> (Process, String) {
        let work = self.path("work");
        fs::create_dir_all(&work).unwrap();
        let mut process =
            self.sql(&["up", "--executors", "2", "--cores", "1", "--work", work.to_str().unwrap()]);
        let stdout = process.0.stdout.take().unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(stdout).read_line(&mut line);
            let _ = tell.send(line);
        });
        let address = told.recv_timeout(PATIENCE).expect("the cluster is ready in time");
        assert!(address.starts_with("df://127.0.0.1:"), "{address:?}: {}", said(process));
        (process, address.trim().to_owned())
    }

    pub(crate) fn cluster(&mut self) -> &mut Process {
        self.cluster.as_mut().expect("the cluster is up")
    }

    /// Begins a command of `divvy-sql` at this server.
    pub(crate) fn sql(&self, words: &[&str]) -> Process {
        let mut command = Command::new(SQL);
        command.args(words).env("DIVVY_SERVER", self.url()).env_remove("DIVVY_TOKEN");
        command.current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Process(command.spawn().unwrap())
    }

    /// Runs a command to its end: exit code, stdout, stderr.
    pub(crate) fn run(&self, words: &[&str]) -> (i32, String, String) {
        told(self.sql(words).end())
    }

    /// The process ids of a role, by how many the cluster has.
    pub(crate) fn pids(&mut self, role: &str) -> Vec<i32> {
        let parent = self.cluster().0.id();
        children(parent).into_iter().filter(|pid| is_role(*pid, role)).collect()
    }

    /// Kills the server and starts it again on the same folder.
    pub(crate) fn crash_server(&mut self) {
        self.server.crash();
        self.server = serve(self.folder.path(), self.port);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The task of a query as the server shows it; nothing before it is there.
    pub(crate) fn query(&self) -> Option<Value> {
        let list = self.divvy(&["task", "list", "--kind", "sql.query", "--json"]);
        let newest: Value = serde_json::from_str(list.lines().next()?).ok()?;
        let shown = self.divvy(&["task", "show", newest["id"].as_str()?, "--json"]);
        serde_json::from_str(&shown).ok()
    }

    /// How many processes the server keeps alive.
    pub(crate) fn kept(&self) -> usize {
        let words =
            ["task", "list", "--tag", "sql:main", "--state", "ready,running,scheduled", "--json"];
        self.divvy(&words).lines().count()
    }

    fn divvy(&self, words: &[&str]) -> String {
        let mut command = Command::new(divvy());
        command.args(words).args(["--server", &self.url()]).current_dir(self.folder.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Waits until an executor has written a part of a result, and gives its process.
    pub(crate) fn busy_executor(&mut self) -> i32 {
        until("an executor has written a part", || {
            let mut folders = fs::read_dir(self.path("work")).unwrap().flatten();
            let busy = folders.find(|folder| has_file(&folder.path()))?;
            let name = busy.file_name().into_string().unwrap();
            self.pids("executor")
                .into_iter()
                .find(|pid| words_of(*pid).iter().any(|word| word.ends_with(&name)))
        })
    }
}

/// Waits for something to be there.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Kills a process as a crash would.
pub(crate) fn crash(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next())
        .is_some_and(|state| state != 'Z')
}

pub(crate) fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The processes that this one has started.
fn children(parent: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect()
}

fn is_role(pid: i32, role: &str) -> bool {
    words_of(pid).get(1).is_some_and(|word| word == role)
}

fn words_of(pid: i32) -> Vec<String> {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').map(str::to_owned).collect()
}

fn has_file(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_file(&entry.path()),
        Ok(_) => entry.metadata().is_ok_and(|meta| meta.len() > 0),
        Err(_) => false,
    })
}

fn said(process: Process) -> String {
    let mut process = process;
    process.crash();
    told(process.end()).2
}

fn serve(folder: &Path, port: u16) -> Process {
    let mut command = Command::new(divvy());
    command
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(folder.join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(command.spawn().expect("DIVVY names the binary `divvy`"));
    until("the server listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    process
}

fn divvy() -> PathBuf {
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/divvy");
    std::env::var_os("DIVVY").map_or_else(usual, PathBuf::from)
}

/// A port below those of outgoing connections, so that a server that was killed gets it again.
fn free_port() -> u16 {
    let start = 10_000 + (std::process::id() % 9_000) as u16;
    (start..20_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}
