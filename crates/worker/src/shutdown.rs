//! How a worker is asked to end. It knows three wishes, leave, drain and now; the worker decides what they mean.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::Error;

/// What was asked for so far; a later one never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    GoOn,
    Leave,
    Drain,
    Now,
}

/// Asks a worker to end; cheap to clone, and every clone asks the same worker.
///
/// [`Shutdown::leave`] takes no more tasks, gives back what has not started and finishes what runs, however long that
/// takes. [`Shutdown::drain`] does the same, up to `drain_timeout`. [`Shutdown::now`] also stops what runs and gives it
/// back. Each may be asked for more than once, and a later one after an earlier.
#[derive(Clone, Debug)]
pub struct Shutdown {
    wish: Arc<watch::Sender<Wish>>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// One that nobody has asked yet.
    pub fn new() -> Self {
        Self { wish: Arc::new(watch::Sender::new(Wish::GoOn)) }
    }

    /// One that follows the process's signals: the first SIGTERM or Ctrl-C drains, the second stops now.
    /// Must be called on a tokio runtime.
    pub fn on_signals() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|source| Error::System {
                what: "cannot listen for signals of the process",
                source,
            })
        };
        let (mut terminate, mut interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let shutdown = Self::new();
        let asked = shutdown.clone();
        tokio::spawn(async move {
            for wish in [Wish::Drain, Wish::Now] {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "Ctrl-C",
                };
                match wish {
                    Wish::Now => tracing::warn!("{name} again: stops what runs and gives it back"),
                    _ => tracing::info!(
                        "{name}: takes no more tasks and finishes what runs; repeat it to stop now"
                    ),
                }
                asked.ask(wish);
            }
        });
        Ok(shutdown)
    }

    /// Take no more tasks, finish what runs however long it takes, then end: for a worker that is not needed any more.
    pub fn leave(&self) {
        self.ask(Wish::Leave);
    }

    /// Take no more tasks, finish what runs, then end.
    pub fn drain(&self) {
        self.ask(Wish::Drain);
    }

    /// Stop what runs, give everything back, then end.
    pub fn now(&self) {
        self.ask(Wish::Now);
    }

    /// Whether any of these was asked for.
    pub fn is_asked(&self) -> bool {
        *self.wish.borrow() > Wish::GoOn
    }

    /// Waits until any of these is asked for.
    pub async fn asked(&self) {
        let mut wish = self.subscribe();
        // It cannot end otherwise: the sender is held here.
        let _ = wish.wait_for(|wish| *wish > Wish::GoOn).await;
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    fn ask(&self, wish: Wish) {
        self.wish.send_if_modified(|present| {
            let further = wish > *present;
            *present = (*present).max(wish);
            further
        });
    }
}
