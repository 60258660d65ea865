//! Five services in a row, with threads, queues and the guards between them.
//!
//! A service has a fixed number of threads. A request holds one from when it begins until its answer is there, so it
//! also holds one in every service before. A call runs where it was sent, whatever becomes of the caller: who gives up
//! does not end it, unless a deadline travels with the call. That is what real services do, and it is why a timeout
//! alone does not take load away.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy_guard::breaker::{self, Breaker, State};
use divvy_guard::bulkhead;
use divvy_guard::ladder::{self, Condition, Ladder, Rung, Signals};
use divvy_guard::shed::{self, Priority, Shedder};
use divvy_guard::shell::breaker::{CallError, Circuit};
use divvy_guard::shell::bulkhead::{Bulkhead, Entered};
use divvy_guard::shell::deadline;
use divvy_guard::shell::shed::Entrance;
use divvy_guard::shell::timeout::{Error as Waited, within};
use divvy_guard::timeout::{self, SharedTracker};
use tokio::time::{Instant, sleep};

pub(super) const SERVICES: [&str; 5] = ["A", "B", "C", "D", "E"];
/// The threads of each service: more in front, where more requests are under way.
pub(super) const THREADS: [usize; 5] = [256, 192, 128, 64, 64];
/// How long a service works on a request itself, on average.
const WORK: [Duration; 5] = [millis(5), millis(5), millis(5), millis(20), millis(5)];
/// How long D works while it is slow.
pub(super) const SLOW: Duration = millis(2_000);
/// How long a look into the cache of C takes.
const CACHE: Duration = millis(2);
/// How long a request may take, where a deadline travels with it.
pub(super) const DEADLINE: Duration = millis(1_000);
/// What C keeps of the time left, to answer from its cache.
const RESERVE: Duration = millis(100);
/// How many threads of C may wait for D, where that is limited.
const ASIDE: usize = 32;

const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Which guards stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Guards {
    /// Every caller waits as long as it has learned; with a deadline, only C does.
    pub(super) timeouts: bool,
    /// C calls D through a breaker.
    pub(super) breaker: bool,
    /// A deadline travels with every request.
    pub(super) deadline: bool,
    /// Only some threads of C may wait for D.
    pub(super) bulkhead: bool,
    /// C answers from its cache when D is in trouble.
    pub(super) ladder: bool,
    /// A turns requests away by priority when its queue is old.
    pub(super) shedding: bool,
}

/// A request of a user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Whether it needs D; others are answered by B.
    pub(super) is_deep: bool,
    pub(super) priority: Priority,
}

/// What a user is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    Full,
    Degraded,
}

/// Why a user is given nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// Somebody waited in vain.
    TimedOut,
    /// The deadline passed.
    Expired,
    /// A guard said no at once.
    Refused,
}

type Answer = Result<Served, Failed>;

/// How often each guard did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acts {
    pub(super) timeouts: u64,
    pub(super) expired: u64,
    pub(super) breaker_opened: u64,
    pub(super) breaker_refused: u64,
    pub(super) bulkhead_refused: u64,
    pub(super) ladder_moves: u64,
    pub(super) from_cache: u64,
    pub(super) shed: u64,
    /// Calls that D worked on.
    pub(super) worked_by_d: u64,
}

/// The services.
pub(super) struct Chain {
    guards: Guards,
    start: Instant,
    slow: [Duration; 2],
    threads: Vec<Bulkhead>,
    entrance: Entrance,
    /// What each service has learned of the next one.
    trackers: Vec<SharedTracker>,
    circuit: Circuit,
    aside: Bulkhead,
    ladder: Mutex<Ladder>,
    random: Mutex<fastrand::Rng>,
    timeouts: AtomicU64,
    expired: AtomicU64,
    from_cache: AtomicU64,
    worked_by_d: AtomicU64,
}

impl Chain {
    /// Services that are well, except that D is slow between two moments.
    pub(super) fn new(guards: Guards, slow: [Duration; 2], seed: u64) -> Arc<Self> {
        // A pool of threads without guards is a bulkhead whose queue has no end.
        let pool = |places| {
            let settings =
                bulkhead::Settings { places, waiting_max: 1 << 20, wait_max: millis(3_600_000) };
            Bulkhead::new(settings).expect("the settings are sound")
        };
        let threads = THREADS.map(pool).to_vec();
        let queue = bulkhead::Settings { places: THREADS[0], waiting_max: 256, wait_max: DEADLINE };
        let shedder = shed::Settings { seed, ..shed::Settings::default() };
        let entrance = Entrance::new(
            Shedder::new(shedder).expect("the settings are sound"),
            Bulkhead::new(queue).expect("the settings are sound"),
        );
        let aside = bulkhead::Settings { places: ASIDE, waiting_max: 0, ..<_>::default() };
        let breaker = Breaker::new(breaker_settings()).expect("the settings are sound");
        Arc::new(Self {
            guards,
            start: Instant::now(),
            slow,
            threads,
            entrance,
            trackers: SERVICES.iter().map(|_| tracker()).collect(),
            circuit: Circuit::new(breaker),
            aside: Bulkhead::new(aside).expect("the settings are sound"),
            ladder: Mutex::new(Ladder::new(ladder_settings()).expect("the settings are sound")),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            timeouts: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            from_cache: AtomicU64::new(0),
            worked_by_d: AtomicU64::new(0),
        })
    }

    /// What a user asks.
    pub(super) async fn ask(self: Arc<Self>, request: Request) -> Answer {
        if !self.guards.deadline {
            return Arc::clone(&self).serve(0, request).await;
        }
        match deadline::scope(DEADLINE, Arc::clone(&self).serve(0, request)).await {
            Ok(answer) => answer,
            Err(deadline::Expired) => {
                count(&self.expired);
                Err(Failed::Expired)
            }
        }
    }

    /// How many threads of a service are taken, and how many requests wait for one.
    pub(super) fn load(&self, service: usize) -> (usize, usize) {
        let pool = match service {
            0 if self.guards.shedding => self.entrance.bulkhead(),
            service => &self.threads[service],
        };
        let statistics = pool.statistics();
        (statistics.inside, statistics.waiting)
    }

    /// How often each guard did something so far.
    pub(super) fn acts(&self) -> Acts {
        let metrics = self.circuit.breaker().metrics(self.circuit.now());
        let aside = self.aside.statistics();
        Acts {
            timeouts: self.timeouts.load(Ordering::Relaxed),
            expired: self.expired.load(Ordering::Relaxed),
            breaker_opened: metrics.opened,
            breaker_refused: metrics.rejected,
            bulkhead_refused: aside.refused + aside.timed_out,
            ladder_moves: self.ladder().drain_moves().0.len() as u64,
            from_cache: self.from_cache.load(Ordering::Relaxed),
            shed: self.entrance.statistics().shed.iter().sum(),
            worked_by_d: self.worked_by_d.load(Ordering::Relaxed),
        }
    }

    /// One service with all that is behind it.
    fn serve(
        self: Arc<Self>,
        service: usize,
        request: Request,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        Box::pin(async move {
            let _thread = self.enter(service, request).await?;
            sleep(self.work(service)).await;
            match service {
                B if !request.is_deep => Ok(Served::Full),
                C => self.ask_d(request).await,
                E => Ok(Served::Full),
                _ => self.ask_next(service, request).await,
            }
        })
    }

    async fn enter(&self, service: usize, request: Request) -> Result<Entered, Failed> {
        if service == 0 && self.guards.shedding {
            return self.entrance.enter(request.priority).await.map_err(|_| Failed::Refused);
        }
        self.threads[service].enter().await.map_err(|_| Failed::Expired)
    }

    fn work(&self, service: usize) -> Duration {
        let at = self.start.elapsed();
        let mut mean = WORK[service];
        if service == D {
            count(&self.worked_by_d);
            if (self.slow[0]..self.slow[1]).contains(&at) {
                mean = SLOW;
            }
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        mean.mul_f64(0.5 + random.f64())
    }

    /// A call to the next service, with the timeout of the caller.
    async fn ask_next(self: &Arc<Self>, service: usize, request: Request) -> Answer {
        let call = self.send(Arc::clone(self).serve(service + 1, request));
        // Where a deadline travels, only the caller of D has a timeout of its own. If A and B had learned one too, it
        // would be as short as that of C, and cut off the smaller answer that C gives after it.
        if !self.guards.timeouts || (self.guards.deadline && service != C) {
            return call.await;
        }
        within(&self.trackers[service], call).await.map_err(|error| match error {
            Waited::Inner(failed) => failed,
            Waited::TimedOut { .. } => {
                count(&self.timeouts);
                Failed::TimedOut
            }
        })
    }

    /// Sends a request away. It runs there to its end, or to its deadline if it has one.
    async fn send(&self, work: impl Future<Output = Answer> + Send + 'static) -> Answer {
        let work = deadline::carry(work);
        let sent = tokio::spawn(async move { work.await.unwrap_or(Err(Failed::Expired)) });
        sent.await.expect("no service panics")
    }

    /// How C gets what D knows, or does without.
    async fn ask_d(self: &Arc<Self>, request: Request) -> Answer {
        if !self.guards.ladder {
            return self.ask_d_guarded(request).await;
        }
        let now = self.circuit.now();
        if self.ladder().rung(now).name == "cached" {
            return self.cached().await;
        }
        let began = Instant::now();
        let left = deadline::left().unwrap_or(DEADLINE).saturating_sub(RESERVE);
        let answer = deadline::scope(left, self.ask_d_guarded(request)).await;
        let signals = Signals {
            breaker_open: self.circuit.breaker().state() == State::Open,
            latency: Some(began.elapsed()),
            ..Signals::default()
        };
        self.ladder().observe(signals, self.circuit.now());
        match answer {
            Ok(Ok(served)) => Ok(served),
            Ok(Err(_)) | Err(_) => self.cached().await,
        }
    }

    async fn ask_d_guarded(self: &Arc<Self>, request: Request) -> Answer {
        let _place = match self.guards.bulkhead {
            true => Some(self.aside.enter().await.map_err(|_| Failed::Refused)?),
            false => None,
        };
        if !self.guards.breaker {
            return self.ask_next(C, request).await;
        }
        self.circuit.call_async(self.ask_next(C, request)).await.map_err(|error| match error {
            CallError::Open { .. } => Failed::Refused,
            CallError::Inner(failed) => failed,
            CallError::ProbeTimeout => Failed::TimedOut,
        })
    }

    async fn cached(&self) -> Answer {
        count(&self.from_cache);
        sleep(CACHE).await;
        Ok(Served::Degraded)
    }

    fn ladder(&self) -> std::sync::MutexGuard<'_, Ladder> {
        self.ladder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// From a quarter of a second to a second, twice the 90th percentile.
fn tracker() -> SharedTracker {
    let settings = timeout::Settings {
        window: 100,
        floor: millis(250),
        ceiling: millis(1_000),
        ..timeout::Settings::default()
    };
    SharedTracker::new(settings).expect("the settings are sound")
}

/// Half of the last 100 calls failed or took longer than half a second; open for two seconds.
fn breaker_settings() -> breaker::Settings {
    breaker::Settings {
        slow_after: millis(500),
        consecutive_failures: None,
        open_for: millis(2_000),
        probe_timeout: Some(millis(500)),
        cancelled_fails_after: Some(millis(250)),
        ..breaker::Settings::for_requests()
    }
}

/// The full answer, or one from the cache.
fn ladder_settings() -> ladder::Settings {
    let conditions = [Condition::BreakerOpen, Condition::LatencyAbove(millis(200))];
    ladder::Settings {
        rungs: vec![Rung::new("full", conditions), Rung::new("cached", [])],
        hold_down: millis(500),
        hold_up: millis(1_000),
        fresh_for: millis(2_000),
        ..ladder::Settings::default()
    }
}
