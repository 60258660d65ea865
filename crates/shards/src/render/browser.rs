//! The process of a browser: how it is found, what it may do, and that it ends.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::devtools::Pipe;
use super::{Options, RenderError};

/// Names of the browser on the path.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The browser reads commands from descriptor 3 and answers on 4; a shell puts our two pipes there.
const PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// What it does without: everything that is not the page.
const FLAGS: [&str; 20] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-breakpad",
    "--disable-extensions",
    "--disable-sync",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
    "--mute-audio",
    "--no-pings",
    "--blink-settings=imagesEnabled=false",
    // Calls between browsers would find their own way out.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// A browser that runs. It ends when this is dropped, or with this process.
#[derive(Debug)]
pub(super) struct Browser {
    pub(super) pipe: Pipe,
    process: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser without pages.
    pub(super) fn start(options: &Options) -> Result<Self, RenderError> {
        let failed = |error: std::io::Error| RenderError::Start(error.to_string());
        if !options.program.is_file() {
            return Err(failed(std::io::Error::new(
                ErrorKind::NotFound,
                format!("there is no {}", options.program.display()),
            )));
        }
        let profile =
            tempfile::Builder::new().prefix("divvy-browser-").tempdir().map_err(failed)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", PIPES]).arg(&options.program).args(FLAGS);
        // As administrator its sandbox does not start; everybody else has it.
        if Uid::effective().is_root() {
            command.arg("--no-sandbox");
        }
        let mut process = command
            .args(proxy_flags(options))
            .arg(format!("--user-agent={}", options.agent))
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            // It shall know nothing of the crawler's environment.
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (to, from) = pipes.ok_or_else(|| RenderError::Start("it has no pipes".to_owned()))?;
        Ok(Self { pipe: Pipe::new(to, from), process, _profile: profile })
    }

    /// The number of its process, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends it and waits until it has ended.
    pub(super) async fn end(mut self) {
        self.kill();
        let _ = self.process.wait().await;
    }

    /// Waits until it has ended by itself.
    #[cfg(test)]
    pub(super) async fn ended(&mut self) {
        let _ = self.process.wait().await;
    }

    /// Kills it with all its helpers, which are in its group.
    fn kill(&self) {
        if let Some(id) = self.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Everything goes through the proxy, also what is on this machine, and no name is asked for in another way.
fn proxy_flags(options: &Options) -> [String; 3] {
    [
        format!("--proxy-server=http://{}", options.proxy),
        "--proxy-bypass-list=<-loopback>".to_owned(),
        format!("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE {}", options.proxy.ip()),
    ]
}

/// The browser of this machine: what `DIVVY_CHROMIUM` names, or the first of its usual names on the path.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os("DIVVY_CHROMIUM") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let path = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let at =
        |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path));
    NAMES.iter().find_map(|name| at(name))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
