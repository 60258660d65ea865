//! Private server and worker processes of a benchmark, ended with it, and what they cost: this very binary, started again
//! on a temporary store, without the settings of whoever measures.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail};

/// Where the temporary store of a benchmark goes.
#[derive(Clone, Debug, clap::Args)]
pub struct Place {
    /// Folder for the temporary store; must be on the disk that is to be measured [default: the system's]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    /// A new folder there, removed when it is dropped.
    ///
    /// # Errors
    /// If there can be none.
    pub fn folder(&self) -> std::io::Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("divvy-bench-");
        match &self.dir {
            Some(dir) => builder.tempdir_in(dir),
            None => builder.tempdir(),
        }
    }
}

/// A figure with as many decimals as people read.
pub fn rounded(value: f64) -> f64 {
    let scale = if value.abs() < 10.0 { 1_000.0 } else { 1.0 };
    (value * scale).round() / scale
}

/// A child process that does not outlive the benchmark.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// A server on a free port of this machine, and its address.
    ///
    /// # Errors
    /// If it does not start.
    pub fn server(data: &Path) -> anyhow::Result<(Self, String)> {
        let mut command = Self::divvy()?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"]).arg(data);
        Self::listening(command)
    }

    /// A server with one local worker that runs so many child processes and so many computations at once, with these flags
    /// besides, and its address.
    ///
    /// # Errors
    /// If it does not start.
    pub fn up(data: &Path, slots: u32, flags: &[OsString]) -> anyhow::Result<(Self, String)> {
        let mut command = Self::divvy()?;
        command.args(["up", "--workers", "1", "--config", "/dev/null"]);
        command.args(["--listen", "127.0.0.1:0", "--json", "--data"]).arg(data);
        command.args(["--slots", &format!("process={slots},cpu={slots}")]);
        command.args(flags);
        // Its start and its end are no news to whoever measures with it.
        let log = std::env::var_os("DIVVY_LOG").unwrap_or_else(|| "error".into());
        command.env("DIVVY_LOG", log);
        Self::listening(command)
    }

    /// Starts what will say its address.
    fn listening(mut command: Command) -> anyhow::Result<(Self, String)> {
        let mut child =
            command.stdout(Stdio::piped()).spawn().context("starting the private server")?;
        let stdout = child.stdout.take().context("the server has no output")?;
        let process = Self(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let started: serde_json::Value = serde_json::from_str(&line)
            .with_context(|| format!("the server said {line:?} instead of its address"))?;
        match started["url"].as_str() {
            Some(url) => Ok((process, url.to_owned())),
            None => bail!("the server did not say its address: {line}"),
        }
    }

    /// A worker with the built-in kinds.
    ///
    /// # Errors
    /// If it does not start.
    pub fn worker(server: &str, slots: u32) -> anyhow::Result<Self> {
        let child = Self::divvy()?
            .args([
                "work",
                "--name",
                "bench",
                "--server",
                server,
                "--slots",
                &format!("async={slots}"),
            ])
            .stdout(Stdio::null())
            .spawn()
            .context("starting the worker process")?;
        Ok(Self(child))
    }

    fn divvy() -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        for (name, _) in std::env::vars_os() {
            // Settings of the caller must not leak into what is measured.
            if name.to_string_lossy().starts_with("DIVVY_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Memory in use, in MiB: now, and at most so far.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn rss_mb(&self) -> anyhow::Result<(u64, u64)> {
        rss_mb(&self.0.id().to_string())
    }

    /// CPU time used so far, in seconds.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu_s(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name in brackets may contain spaces; the figures follow it.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        // Linux reports these in ticks of 10 ms to every process.
        Ok((ticks(11) + ticks(12)) as f64 / 100.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Memory of a process, in MiB: now, and at most so far.
///
/// # Errors
/// If the process is gone.
pub fn rss_mb(pid: &str) -> anyhow::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Ok((field("VmRSS:").unwrap_or(0) >> 10, field("VmHWM:").unwrap_or(0) >> 10))
}
