//! Servers and workers as child processes that do not outlive their test.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A child process; killed and reaped when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        Ok(Self { child })
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it writes, if that was asked for; once.
    pub fn output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Asks it to end, as a person would, and waits until it has.
    pub fn terminate(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("a number that no process has")?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::SIGTERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it at once, as a crash would; nothing happens if it has ended.
    pub fn kill_nine(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `divvy` binary that was built with these tests.
pub fn divvy() -> Result<Command> {
    let path = binary()?;
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DIVVY_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Where the `divvy` binary is.
pub fn binary() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("the test is not in a target folder")?;
    let path = profile.join("divvy");
    if !path.exists() {
        bail!("{} is missing; build it first: cargo build -p divvy-cli", path.display());
    }
    Ok(path)
}

/// A port of this machine that is free now, so that a server can come back on the same address after a kill.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A server on a folder and port; returns when it says that it serves.
pub fn serve(data: &Path, port: u16) -> Result<Process> {
    let mut command = divvy()?;
    command.arg("serve").arg("--data").arg(data).args([
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--json",
    ]);
    serve_with(&mut command)
}

/// The same with a command made by the test, which must end in a server started with `--json`.
pub fn serve_with(command: &mut Command) -> Result<Process> {
    let mut process = Process::start(command.stdout(Stdio::piped()))?;
    let stdout = process.child.stdout.take().context("the server has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.is_empty() {
        let status = process.child.wait()?;
        bail!("the server did not start: {status}");
    }
    Ok(process)
}
