//! `divvy serve`: a server without workers.

use std::io::IsTerminal;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Context;
use crate::args::service::Serve;
use crate::exit::Code;
use crate::service::{Plan, Service};

/// SIGTERM, Ctrl-C and the end of the terminal, which mean the same here.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// Whether there was a terminal at the start.
    terminal: bool,
}

impl StopSignals {
    /// Starts to listen; from now on the signals do not end the process by themselves.
    pub(super) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            terminal: std::io::stdin().is_terminal(),
        })
    }

    /// Waits for the next one. May be dropped while it waits.
    pub(super) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // Someone's SIGHUP asks to read the settings again; only that of a terminal that went away means stop.
                _ = self.hangup.recv() => if self.terminal && !std::io::stdin().is_terminal() {
                    return;
                },
            }
        }
    }
}

/// Serves until a signal.
pub(super) async fn run(args: &Serve, context: &Context) -> Result<Code> {
    let output = &context.output;
    let mut signals = StopSignals::listen()?;
    let plan = Plan::new(&args.server, &context.settings)?;
    let mut service = Service::start(&plan, context).await?;
    let url = service.url(service.address());
    if output.is_json() {
        output.object(&json!({
            "url": url, "address": service.address().to_string(), "data": plan.data, "workers": 0,
            "pid": std::process::id(), "version": env!("CARGO_PKG_VERSION"),
        }))?;
    } else {
        output.data(format_args!("divvy {} serves {url}", env!("CARGO_PKG_VERSION")))?;
        output.data(format_args!("  data     {}", plan.data.display()))?;
        output.data(format_args!("  workers  start some: divvy work --server {url}"))?;
    }
    tokio::select! {
        () = signals.next() => {}
        error = service.broken() => return Err(error),
    }
    output.note("stopping: requests under way finish, open tasks stay in the data folder");
    tokio::select! {
        stopped = service.stop() => stopped.map(|()| Code::Done),
        () = signals.next() => {
            output.note("stopped now");
            Ok(Code::Interrupted)
        }
    }
}
