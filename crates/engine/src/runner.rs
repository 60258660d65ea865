//! The loop: takes requests in batches, steps the core, and keeps exactly one group at the writer.
//!
//! Runs on a thread of its own with a single-threaded runtime, so that no amount of network work delays it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use divvy_store::Store;
use divvy_types::{Settings, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::clock::Shared;
use crate::core::Core;
use crate::group::{Outlet, Watchers};
use crate::handle::Handle;
use crate::query::Readers;
use crate::request::{Error, Request};
use crate::stats::Stats;
use crate::writer::{Desk, Done, Writer, lock};

/// Requests taken from the channel at once.
const REQUESTS_AT_ONCE: usize = 256;

/// How long the loop sleeps at most while it waits for a time, so that it notices when the clock of the machine is set.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Silence for this long loses a worker's leases, in milliseconds.
    pub lease_ms: u64,
    /// A worker whose connection broke keeps its leases for this long, or for `lease_ms` if that is less.
    pub away_grace_ms: u64,
    /// Ready tasks kept in memory; more wait in the store.
    pub window_tasks: usize,
    /// Payload of ready tasks kept in memory, in bytes.
    pub window_bytes: usize,
    /// Bytes that tasks in memory may take before new ones are refused that could not wait in the store.
    pub open_bytes: usize,
    /// Requests that may wait for the loop; more are told to slow down.
    pub channel: usize,
    /// Changes kept for watchers that are behind.
    pub changes: usize,
    /// Connections for reads of stored tasks.
    pub readers: usize,
    /// Settings to start with, instead of those that the store has.
    pub settings: Option<Settings>,
}

impl Default for Options {
    fn default() -> Self {
        let scheduler = divvy_scheduler::Options::default();
        Self {
            lease_ms: scheduler.lease_ms,
            away_grace_ms: scheduler.away_grace_ms,
            window_tasks: scheduler.window_tasks,
            window_bytes: scheduler.window_bytes,
            open_bytes: scheduler.open_bytes,
            channel: 1_024,
            changes: 16_384,
            readers: 4,
            settings: None,
        }
    }
}

/// A running engine.
pub struct Engine {
    stop: CancellationToken,
    ended: oneshot::Receiver<Result<(), Error>>,
}

/// Asks an engine to stop.
#[derive(Clone, Debug)]
pub struct Stopper(CancellationToken);

impl Stopper {
    /// Asks; [`Engine::join`] tells when it has stopped.
    pub fn stop(&self) {
        self.0.cancel();
    }
}

impl Engine {
    /// Recovers what is open in the store and starts to work.
    pub fn start(mut store: Box<dyn Store>, options: Options) -> Result<(Handle, Self), Error> {
        let stats = Arc::new(Stats::default());
        let clock = Shared::start(store.last_used());
        let core = Core::recover(store.as_mut(), &options, Arc::clone(&stats), clock.now())?;
        let watchers = Watchers::new(options.changes);
        let (requests, intake) = mpsc::channel(options.channel);
        let readers =
            (0..options.readers.max(1)).map(|_| store.reader()).collect::<Result<Vec<_>, _>>()?;
        let outlet = Arc::new(Mutex::new(Outlet::new(store.reader()?, watchers.clone())));
        let (done, finished) = mpsc::unbounded_channel();
        let start_failed = |e: std::io::Error| Error::Store(format!("cannot start a thread: {e}"));
        let stop = CancellationToken::new();
        let desk = Desk::new(
            store,
            Arc::clone(&outlet),
            Arc::clone(&stats),
            done,
            clock.clone(),
            stop.clone(),
        );
        let writer = Writer::start(desk).map_err(start_failed)?;
        let (end, ended) = oneshot::channel();
        let runner = Runner {
            clock,
            core,
            intake,
            finished,
            outlet,
            writer,
            writer_busy: false,
            watchers: watchers.clone(),
            stop: stop.clone(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(start_failed)?;
        thread::Builder::new()
            .name("divvy-engine".into())
            .spawn(move || {
                let result = runtime.block_on(runner.run());
                // Whoever joins may have gone.
                let _ = end.send(result);
            })
            .map_err(start_failed)?;
        Ok((
            Handle { requests, watchers, readers: Arc::new(Readers::new(readers)), stats },
            Self { stop, ended },
        ))
    }

    /// What asks this engine to stop.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits for the end: after [`Stopper::stop`], or with the error when the store failed.
    pub async fn join(self) -> Result<(), Error> {
        self.ended.await.unwrap_or_else(|_| Err(Error::Store("the engine loop panicked".into())))
    }
}

struct Runner {
    clock: Shared,
    core: Core,
    intake: mpsc::Receiver<Request>,
    finished: mpsc::UnboundedReceiver<Done>,
    outlet: Arc<Mutex<Outlet>>,
    writer: Writer,
    writer_busy: bool,
    watchers: Watchers,
    stop: CancellationToken,
}

impl Runner {
    async fn run(mut self) -> Result<(), Error> {
        let outcome = self.work().await;
        let outcome = match outcome {
            Ok(()) => self.wind_down().await,
            Err(error) => Err(error),
        };
        self.intake.close();
        // If the writer failed, its error is the one to tell.
        self.writer.stop().and(outcome)
    }

    async fn work(&mut self) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(REQUESTS_AT_ONCE);
        loop {
            self.core.tell_arrivals();
            self.hand_over()?;
            let deadline = self.core.next_deadline();
            tokio::select! {
                biased;
                done = self.finished.recv() => match done {
                    Some(done) => self.committed(done)?,
                    None => return Err(Error::Stopping),
                },
                () = self.stop.cancelled() => return Ok(()),
                taken = self.intake.recv_many(&mut batch, REQUESTS_AT_ONCE) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    self.look_for_watchers();
                    for request in batch.drain(..) {
                        let now = self.now();
                        self.core.step(now, request)?;
                    }
                }
                () = sleep_until(&self.clock, deadline) => {
                    self.look_for_watchers();
                    let now = self.now();
                    self.core.pass_time(now)?;
                }
            }
        }
    }

    /// The time, of whose steps the machines have been told.
    fn now(&mut self) -> Timestamp {
        let (now, by_us) = self.clock.now_and_step();
        if by_us > 0 {
            self.core.clock_stepped(now, by_us);
        }
        now
    }

    /// Gives the current group to the writer if that is free.
    fn hand_over(&mut self) -> Result<(), Error> {
        if self.writer_busy {
            self.core.refuse_parked();
            return Ok(());
        }
        let group = self.core.take_group();
        if group.is_empty() {
            return Ok(());
        }
        self.writer_busy = true;
        self.writer.submit(group)
    }

    /// Changes are made up only if someone watches; [`Handle::changes`] says why nobody misses one.
    fn look_for_watchers(&mut self) {
        let Watchers { changes, progress } = &self.watchers;
        self.core.set_watched(changes.receiver_count() > 0, progress.receiver_count() > 0);
    }

    /// Hears that a group is durable, and lets its effects out if the writer did not.
    fn committed(&mut self, done: Done) -> Result<(), Error> {
        self.writer_busy = false;
        self.look_for_watchers();
        let released = match done {
            Done::Released(released) => released,
            Done::Committed(group) => {
                // Held before the next group goes to the writer, whose effects must not overtake these.
                let outlet = Arc::clone(&self.outlet);
                let mut outlet = lock(&outlet);
                self.hand_over()?;
                outlet.release(*group)?
            }
        };
        let now = self.now();
        self.core.released(now, released)
    }

    /// Records what is held, and sees everything through the writer.
    async fn wind_down(&mut self) -> Result<(), Error> {
        self.intake.close();
        while let Some(request) = self.intake.recv().await {
            let now = self.now();
            self.core.step(now, request)?;
        }
        let now = self.now();
        self.core.stop(now)?;
        loop {
            self.hand_over()?;
            if !self.writer_busy {
                return Ok(());
            }
            match self.finished.recv().await {
                Some(done) => self.committed(done)?,
                None => return Err(Error::Stopping),
            }
        }
    }
}

async fn sleep_until(clock: &Shared, deadline: Option<Timestamp>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline.since(clock.now()).min(SLEEP_MAX)).await,
        None => std::future::pending().await,
    }
}
