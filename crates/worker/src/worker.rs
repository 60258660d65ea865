//! The worker as a whole: connects, reconnects for ever, and ends cleanly.
//!
//! Decides when to connect again (exponential backoff with jitter) and what a shutdown does in which order: take no
//! more and give back what waits; let what runs finish; stop it when that takes too long; wait for the answers; close.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use divvy_guard::backoff::{Backoff, Jitter};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::options::THREADS_MAX;
use crate::run::Runners;
use crate::session::{Connector, SessionEnd};
use crate::shutdown::Wish;
use crate::state::State;
use crate::{Error, Options, Registry, Shutdown, Tier};

/// The first wait before another try to connect.
const RECONNECT_FIRST: Duration = Duration::from_millis(50);
/// The longest wait before another try to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an attempt that was asked to stop has, unless told otherwise.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long the last reports may wait for their answers.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(5);
/// How long the server may take to close a connection that this side has closed.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Worker {
    options: Options,
    registry: Registry,
    stop_grace: Duration,
}

/// What a worker did from start to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Attempts that finished their task.
    pub finished: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Tasks given back.
    pub released: u64,
    /// Reports that the server refused because their token was not valid any more.
    pub refused: u64,
    /// Reports that the server had not answered when the worker ended.
    pub unanswered: u64,
}

impl Worker {
    /// A worker with these options and handlers, all checked.
    pub fn new(options: Options, registry: Registry) -> Result<Self, Error> {
        options.validate()?;
        registry.validate()?;
        for tier in Tier::ALL.into_iter().filter(|tier| registry.uses(*tier)) {
            let slots = options.slots.of(tier);
            let problem = if slots == 0 {
                let kind = registry.kinds().find(|kind| registry.tier(kind) == Some(tier));
                let kind = kind.map_or("", |kind| kind.as_str());
                format!("of tier {tier} are 0, but kind `{kind}` runs on it")
            } else if slots > THREADS_MAX && matches!(tier, Tier::Blocking | Tier::Cpu) {
                format!(
                    "of tier {tier} are {slots}, at most {THREADS_MAX}, because each is a thread; start more workers"
                )
            } else {
                continue;
            };
            return Err(Error::option("slots", problem));
        }
        crate::session::check_target(&options)?;
        Ok(Self { options, registry, stop_grace: STOP_GRACE })
    }

    /// Gives attempts that were asked to stop this long to end by themselves, instead of 10 seconds.
    #[must_use]
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Works until `shutdown` asks to end, the server asks to drain, or the server refuses this worker.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<Summary, Error>> {
        // A future without a box is compiled by the crate that awaits it, with that crate's optimisation.
        self.work_until(shutdown).boxed()
    }

    async fn work_until(self, shutdown: Shutdown) -> Result<Summary, Error> {
        let runners = Runners::new(&self.options, self.registry, self.stop_grace)?;
        let connector = Connector::new(&self.options, &runners)?;
        let _abandon = AbandonOnDrop(Arc::clone(&runners));
        let mut connection = std::pin::pin!(stay_connected(&connector, &runners, &shutdown));
        tokio::select! {
            refused = &mut connection => {
                runners.hold.drain();
                runners.stop_all();
                wait_until(&runners, Instant::now() + self.stop_grace * 2, |state| state.running_count() == 0).await;
                refused?;
            }
            () = end_when_asked(&runners, &shutdown, self.options.drain_timeout, self.stop_grace) => {}
        }
        runners.hold.close();
        let unanswered = runners.hold.lock().held_count() as u64;
        if runners.hold.lock().beat_every.is_some() {
            // The server closes its side when it saw the end of ours; what it says then does not matter.
            let _ = tokio::time::timeout(CLOSE_MAX, connection).await;
        }
        let summary = Summary { unanswered, ..runners.hold.lock().summary };
        let Summary { finished, failed, released, refused, .. } = summary;
        tracing::info!(finished, failed, released, refused, unanswered, "worker ended");
        Ok(summary)
    }
}

/// Stops what runs when the worker's future is dropped instead of shut down.
struct AbandonOnDrop(Arc<Runners>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.hold.drain();
        self.0.stop_all();
        self.0.hold.close();
    }
}

/// Connects again and again, until this side closes the connection or the server refuses this worker.
async fn stay_connected(
    connector: &Connector,
    runners: &Arc<Runners>,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    let backoff = reconnection();
    let mut random = fastrand::Rng::with_seed(RandomState::new().hash_one(0u8));
    let mut failures = 0u32;
    let mut told = false;
    loop {
        let up = AtomicBool::new(false);
        let welcomed = || {
            up.store(true, Ordering::Relaxed);
            tracing::info!(server = connector.server(), "connected");
        };
        let drained = || {
            tracing::info!("the server asks to drain: takes no more tasks and finishes what runs");
            shutdown.drain();
        };
        let problem = match connector.session(runners, welcomed, drained).await {
            SessionEnd::Refused(error) => return Err(error),
            SessionEnd::Lost(problem) => problem,
        };
        if up.into_inner() {
            (failures, told) = (0, false);
        }
        if runners.hold.link_down() {
            return Ok(());
        }
        if !std::mem::replace(&mut told, true) {
            tracing::warn!(
                server = connector.server(),
                "no connection: {problem}; tries again until it is back"
            );
        } else {
            tracing::debug!(server = connector.server(), "no connection: {problem}");
        }
        failures = failures.saturating_add(1);
        sleep(backoff.wait(failures, &mut random)).await;
    }
}

/// Waits for a wish to end, then carries it out up to the closing of the connection.
async fn end_when_asked(
    runners: &Arc<Runners>,
    shutdown: &Shutdown,
    drain_timeout: Duration,
    grace: Duration,
) {
    let mut wish = shutdown.subscribe();
    wished(&mut wish, Wish::Leave).await;
    runners.hold.drain();
    let is_free = |state: &State| state.running_count() == 0;
    let asked_further = tokio::select! {
        () = wait_for(runners, is_free) => false,
        () = wished(&mut wish, Wish::Drain) => true,
    };
    let in_time = !asked_further || {
        let drained = wait_until(runners, Instant::now() + drain_timeout, is_free);
        tokio::select! {
            in_time = drained => in_time,
            () = wished(&mut wish, Wish::Now) => false,
        }
    };
    if !in_time {
        tracing::warn!("stops what still runs and gives it back");
        runners.stop_all();
        wait_until(runners, Instant::now() + grace * 2, |state| state.running_count() == 0).await;
    }
    wait_until(runners, Instant::now() + LAST_ANSWERS_MAX, |state| state.held_count() == 0).await;
}

async fn wished(wish: &mut watch::Receiver<Wish>, at_least: Wish) {
    if wish.wait_for(|wish| *wish >= at_least).await.is_err() {
        // Nobody is left to ask.
        std::future::pending::<()>().await;
    }
}

/// Waits until the state is as wished, or until `deadline`; says which.
async fn wait_until(
    runners: &Runners,
    deadline: Instant,
    reached: impl Fn(&State) -> bool,
) -> bool {
    let in_time = timeout_at(deadline, wait_for(runners, &reached)).await.is_ok();
    in_time || reached(&runners.hold.lock())
}

/// Waits until the state is as wished.
async fn wait_for(runners: &Runners, reached: impl Fn(&State) -> bool) {
    loop {
        let mut settled = std::pin::pin!(runners.hold.settled.notified());
        // A change between the look and the wait must not be missed.
        settled.as_mut().enable();
        if reached(&runners.hold.lock()) {
            return;
        }
        settled.await;
    }
}

/// The waits between tries to connect: half of each is random, so that workers do not come back all at once.
fn reconnection() -> Backoff {
    Backoff::new(RECONNECT_FIRST, 2.0, RECONNECT_MAX, Jitter::Equal)
        .expect("the first wait is shorter than the longest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_to_reconnect_grow_and_differ_between_workers() {
        let waits = |seed| -> Vec<Duration> {
            let mut random = fastrand::Rng::with_seed(seed);
            (1..=9).map(|failures| reconnection().wait(failures, &mut random)).collect()
        };
        for (wait, whole_ms) in waits(1).iter().zip([50, 100, 200, 400, 800, 1_600, 3_200, 5_000]) {
            let whole = Duration::from_millis(whole_ms);
            assert!(*wait >= whole / 2 && *wait <= whole, "{wait:?} of {whole:?}");
        }
        assert!(waits(1).iter().zip(waits(2)).all(|(one, other)| *one != other));
    }
}
