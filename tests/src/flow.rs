//! A place for dataflow: a server, workers that may read the folder of the inputs, and what a person types there.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::api::Api;
use crate::process::{Process, divvy, free_port, serve, serve_with};

/// A server and the folder in which people stand who use it.
pub struct Place {
    server: Process,
    port: u16,
    /// Its API.
    pub api: Api,
    folder: TempDir,
}

impl Place {
    /// A server with a worker.
    pub fn up() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "up", "--json", "--workers", "1", "--no-video"]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--data"]);
        command.arg(folder.path().join("data")).current_dir(folder.path());
        let server = serve_with(command.stderr(Stdio::null()))?;
        Ok(Self { server, port, api: Api::on(port), folder })
    }

    /// A server alone.
    pub fn without_workers() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let server = serve(&folder.path().join("data"), port)?;
        Ok(Self { server, port, api: Api::on(port), folder })
    }

    /// A worker with one slot that runs commands.
    pub fn worker(&self, name: &str) -> Result<Process> {
        let mut command = divvy()?;
        command.args(["work", "--server", self.api.url(), "--name", name]);
        command.args(["--no-video", "--no-crawl", "--slots", "cpu=1", "--flow-commands"]);
        command.arg("--flows").arg(self.path().join("data/flows"));
        command.arg("--flow-read").arg(self.path());
        Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Kills the server.
    pub fn kill_server(&mut self) -> Result<()> {
        self.server.kill_nine()
    }

    /// The server comes back, without workers of its own.
    pub fn serve_again(&mut self) -> Result<()> {
        self.server = serve(&self.folder.path().join("data"), self.port)?;
        Ok(())
    }

    /// The folder of inputs; the server's data is in `data`.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes an input.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.path().join(name), text)?)
    }

    /// A command of a person who stands in the folder.
    pub fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = divvy()?;
        command.args(["--server", self.api.url()]).args(arguments).current_dir(self.path());
        Ok(command)
    }

    /// What a command that works says.
    pub fn good(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments)?.output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What a command that does not work says, wherever.
    pub fn bad(&self, arguments: &[&str]) -> Result<String> {
        let Output { status, stdout, stderr } = self.command(arguments)?.output()?;
        let told = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        ensure!(!status.success(), "{arguments:?} worked: {told}");
        Ok(told)
    }
}
