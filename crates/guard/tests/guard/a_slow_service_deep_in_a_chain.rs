//! Five services in a row, A to E. D becomes slow without dying: nobody gets an error from it, everybody waits.
//!
//! Bare, the wait reaches the user. With a deadline at A, a learned timeout around the calls of C to D, and a ladder
//! in C, the answer of A stays bounded, is served from C's cache meanwhile, and becomes full again when D recovers.

#![cfg(feature = "async")]

use std::cell::{Cell, RefCell};
use std::time::Duration;

use divvy_guard::ladder::{Condition, Ladder, Rung, Settings, Signals, Why};
use divvy_guard::shell::clock::{Clock, RuntimeClock};
use divvy_guard::shell::deadline::{self, Expired};
use divvy_guard::shell::timeout::within;
use divvy_guard::timeout::{self, SharedTracker};
use tokio::time::{Instant, sleep};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The services, as far as they have a state.
struct Chain {
    d_takes: Cell<Duration>,
    d_calls: Cell<u32>,
    clock: RuntimeClock,
    tracker: SharedTracker,
    ladder: RefCell<Ladder>,
    is_guarded: bool,
}

impl Chain {
    fn new(is_guarded: bool) -> Self {
        let tracker = timeout::Settings {
            window: 10,
            ceiling: millis(400),
            default: millis(300),
            ..timeout::Settings::default()
        };
        let ladder = Settings {
            rungs: vec![
                Rung::new("full", [Condition::LatencyAbove(millis(100))]),
                Rung::new("cached", []),
            ],
            hold_down: millis(500),
            hold_up: Duration::from_secs(2),
            fresh_for: Duration::from_secs(5),
            ..Settings::default()
        };
        Self {
            d_takes: Cell::new(millis(20)),
            d_calls: Cell::new(0),
            clock: RuntimeClock::default(),
            tracker: SharedTracker::new(tracker).unwrap(),
            ladder: RefCell::new(Ladder::new(ladder).unwrap()),
            is_guarded,
        }
    }

    /// What the user calls: a second is all that an answer is worth.
    async fn a(&self) -> Result<&'static str, Expired> {
        sleep(millis(5)).await;
        if self.is_guarded {
            deadline::scope(Duration::from_secs(1), self.b()).await
        } else {
            Ok(self.b().await)
        }
    }

    async fn b(&self) -> &'static str {
        sleep(millis(5)).await;
        self.c().await
    }

    async fn c(&self) -> &'static str {
        sleep(millis(5)).await;
        if !self.is_guarded {
            return self.d().await.unwrap();
        }
        let rung = self.ladder.borrow_mut().rung(self.clock.now()).name.clone();
        if rung == "cached" {
            return "cached";
        }
        let began = Instant::now();
        let answer = within(&self.tracker, self.d()).await;
        // What the last call took is a better sign than a quantile here: calls are few.
        let signals = Signals { latency: Some(began.elapsed()), ..Signals::default() };
        self.ladder.borrow_mut().observe(signals, self.clock.now());
        answer.unwrap_or("cached")
    }

    async fn d(&self) -> Result<&'static str, Expired> {
        self.d_calls.set(self.d_calls.get() + 1);
        sleep(self.d_takes.get()).await;
        Ok(self.e().await)
    }

    async fn e(&self) -> &'static str {
        sleep(millis(5)).await;
        "full"
    }

    /// Calls A for some seconds, ten times per second; the answers and the longest wait.
    async fn call_for(&self, seconds: u32) -> (Vec<&'static str>, Duration) {
        let (mut answers, mut longest) = (Vec::new(), Duration::ZERO);
        for _ in 0..seconds * 10 {
            let began = Instant::now();
            answers.push(self.a().await.unwrap());
            longest = longest.max(began.elapsed());
            sleep(millis(100).saturating_sub(began.elapsed())).await;
        }
        (answers, longest)
    }
}

#[tokio::test(start_paused = true)]
async fn bare_the_wait_reaches_the_user() {
    let chain = Chain::new(false);
    chain.d_takes.set(Duration::from_secs(5));
    let (_, longest) = chain.call_for(1).await;
    assert!(longest >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn guarded_the_answer_stays_bounded_and_becomes_full_again() {
    let chain = Chain::new(true);
    let (answers, longest) = chain.call_for(10).await;
    assert!(answers.iter().all(|answer| *answer == "full"));
    assert!(longest < millis(50), "{longest:?}");

    chain.d_takes.set(Duration::from_secs(5));
    chain.d_calls.set(0);
    let (answers, longest) = chain.call_for(60).await;
    assert!(longest <= millis(420), "{longest:?}");
    assert!(answers.iter().all(|answer| *answer == "cached"));
    assert!(
        chain.d_calls.get() < 60,
        "D is left in peace, with {} of 600 calls",
        chain.d_calls.get()
    );
    let why = chain.ladder.borrow_mut().drain_moves().0[0].why;
    assert_eq!(why, Why::Trouble(Condition::LatencyAbove(millis(100))));

    chain.d_takes.set(millis(20));
    chain.call_for(15).await;
    let (answers, longest) = chain.call_for(10).await;
    assert!(answers.iter().all(|answer| *answer == "full"));
    assert!(longest < millis(50), "{longest:?}");
}
