//! Decides when a call that is slow is asked a second time, elsewhere or again.
//!
//! Deliberately knows neither how to ask nor a clock, a budget or a limiter: whether a hedge may be spent and whether
//! the other side is saturated are questions put to the caller's closures, in the moment in which it matters.
//!
//! Rules: the first hedge is due when the call is older than the delay, each further one a delay later, at most
//! [`Settings::hedges_max`]. A hedge is sent only if the other side is not saturated and then only if the budget
//! allows it (in this order, so that nothing is spent on a hedge that is not sent). The first refusal is the last
//! question: this call gets no further hedge. The first success wins; a failure counts only when nobody else is under
//! way. A call that fails before its hedge is due is not hedged: that is for a retry.
//!
//! Why this way: at the observed 95th percentile one call in twenty is asked twice, and the slowest answers are the
//! ones that are replaced. Dean and Barroso, "The Tail at Scale" (2013). Without a budget, hedges double the load of
//! a part that has become slow because of its load.
//!
//! First start: with a learned delay nothing is hedged until the tracker has seen enough latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::setting::{Invalid, require};
use crate::timeout::{SharedTracker, is_quantile};

/// The most hedges of one call.
pub const HEDGES_MAX: u32 = 16;

/// How old a call is when it is hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Fixed(Duration),
    /// A quantile of the latencies that were seen.
    Quantile(f64),
}

/// How calls are hedged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How old a call is when it is hedged: the 0.95 quantile.
    pub delay: Delay,
    /// The shortest learned delay: 1 ms.
    pub delay_min: Duration,
    /// How many hedges a call gets at most: 1.
    pub hedges_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { delay: Delay::Quantile(0.95), delay_min: Duration::from_millis(1), hedges_max: 1 }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        match self.delay {
            Delay::Fixed(delay) => require(!delay.is_zero(), "delay", delay, "above 0")?,
            Delay::Quantile(quantile) => require(
                is_quantile(quantile),
                "delay",
                quantile,
                "a quantile above 0, at most 1; 0.95 is usual",
            )?,
        }
        require(!self.delay_min.is_zero(), "delay_min", self.delay_min, "above 0")?;
        require(
            (1..=HEDGES_MAX).contains(&self.hedges_max),
            "hedges_max",
            self.hedges_max,
            "from 1 to 16",
        )
    }
}

/// What to do about a call at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing before this moment.
    Wait(Duration),
    /// Ask once more.
    Send,
    /// No hedge will follow.
    Done,
}

/// Hedging of one kind of call, with its counts.
#[derive(Debug)]
pub struct Hedging {
    settings: Settings,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    hedged: AtomicU64,
    sent: AtomicU64,
    won: AtomicU64,
    over_budget: AtomicU64,
    saturated: AtomicU64,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls that began.
    pub calls: u64,
    /// Calls with at least one hedge.
    pub hedged: u64,
    /// Hedges that were sent.
    pub sent: u64,
    /// Hedges that answered first.
    pub won: u64,
    /// Hedges that the budget refused.
    pub over_budget: u64,
    /// Hedges that were not sent because the other side was saturated.
    pub saturated: u64,
}

impl Hedging {
    /// Hedging that has seen no call.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        Ok(Self { settings, counts: Counts::default() })
    }

    /// Begins a call; a learned delay is that of `tracker` at this moment.
    pub fn begin(&self, tracker: &SharedTracker, now: Duration) -> Call<'_> {
        add(&self.counts.calls);
        let delay = match self.settings.delay {
            Delay::Fixed(delay) => Some(delay),
            Delay::Quantile(quantile) => {
                tracker.warm_quantile(quantile).map(|delay| delay.max(self.settings.delay_min))
            }
        };
        let next = delay.map(|delay| now.saturating_add(delay));
        Call { hedging: self, delay: delay.unwrap_or_default(), next, sent: 0 }
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Statistics {
            calls: read(&self.counts.calls),
            hedged: read(&self.counts.hedged),
            sent: read(&self.counts.sent),
            won: read(&self.counts.won),
            over_budget: read(&self.counts.over_budget),
            saturated: read(&self.counts.saturated),
        }
    }
}

/// One call that may be hedged.
#[derive(Debug)]
pub struct Call<'a> {
    hedging: &'a Hedging,
    delay: Duration,
    next: Option<Duration>,
    sent: u32,
}

impl Call<'_> {
    /// When a hedge is due; none if no hedge will follow.
    pub fn next_at(&self) -> Option<Duration> {
        self.next
    }

    /// What to do at present. `saturated` is asked first, then `may_spend`; each only when a hedge is due.
    pub fn poll(
        &mut self,
        now: Duration,
        saturated: impl FnOnce() -> bool,
        may_spend: impl FnOnce() -> bool,
    ) -> Decision {
        let Some(next) = self.next else { return Decision::Done };
        if now < next {
            return Decision::Wait(next);
        }
        let counts = &self.hedging.counts;
        if saturated() {
            add(&counts.saturated);
            self.next = None;
            return Decision::Done;
        }
        if !may_spend() {
            add(&counts.over_budget);
            self.next = None;
            return Decision::Done;
        }
        if self.sent == 0 {
            add(&counts.hedged);
        }
        add(&counts.sent);
        self.sent += 1;
        let more = self.sent < self.hedging.settings.hedges_max;
        self.next = more.then(|| now.saturating_add(self.delay));
        Decision::Send
    }

    /// Ends the call: attempt 0 was the first, the others are hedges.
    pub fn won(self, attempt: u32) {
        if attempt > 0 {
            add(&self.hedging.counts.won);
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn warm() -> SharedTracker {
        let tracker = SharedTracker::default();
        tracker.record_all((1..=20).map(|step| millis(step * 10)));
        tracker
    }

    #[test]
    fn a_hedge_is_due_at_the_ninety_fifth_percentile() {
        let hedging = Hedging::new(Settings::default()).unwrap();
        let mut call = hedging.begin(&warm(), millis(1000));
        assert_eq!(call.next_at(), Some(millis(1190)), "the 19th of 20 is 190 ms");
        assert_eq!(call.poll(millis(1189), || false, || true), Decision::Wait(millis(1190)));
        assert_eq!(call.poll(millis(1190), || false, || true), Decision::Send);
        assert_eq!(call.poll(millis(9999), || false, || true), Decision::Done);
        call.won(1);
        let expected = Statistics { calls: 1, hedged: 1, sent: 1, won: 1, ..Statistics::default() };
        assert_eq!(hedging.statistics(), expected);
    }

    #[test]
    fn a_cold_tracker_hedges_nothing() {
        let hedging = Hedging::new(Settings::default()).unwrap();
        let call = hedging.begin(&SharedTracker::default(), millis(0));
        assert_eq!(call.next_at(), None);
    }

    #[test]
    fn hedges_stand_a_delay_apart_and_end() {
        let settings =
            Settings { delay: Delay::Fixed(millis(10)), hedges_max: 2, ..Settings::default() };
        let hedging = Hedging::new(settings).unwrap();
        let mut call = hedging.begin(&SharedTracker::default(), millis(0));
        assert_eq!(call.poll(millis(15), || false, || true), Decision::Send);
        assert_eq!(call.next_at(), Some(millis(25)));
        assert_eq!(call.poll(millis(25), || false, || true), Decision::Send);
        assert_eq!(call.next_at(), None);
        call.won(0);
        assert_eq!(hedging.statistics().won, 0);
    }

    #[test]
    fn a_saturated_side_is_not_hedged_and_costs_nothing() {
        let settings =
            Settings { delay: Delay::Fixed(millis(10)), hedges_max: 3, ..Settings::default() };
        let hedging = Hedging::new(settings).unwrap();
        let mut call = hedging.begin(&SharedTracker::default(), millis(0));
        let decision = call.poll(millis(10), || true, || unreachable!("nothing is spent"));
        assert_eq!(decision, Decision::Done);
        assert_eq!(call.poll(millis(99), || false, || true), Decision::Done, "no second question");
        let mut call = hedging.begin(&SharedTracker::default(), millis(0));
        assert_eq!(call.poll(millis(10), || false, || false), Decision::Done);
        let statistics = hedging.statistics();
        assert_eq!((statistics.saturated, statistics.over_budget, statistics.sent), (1, 1, 0));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = Settings::default();
        let table = [
            (Settings { delay: Delay::Fixed(Duration::ZERO), ..good }, "delay"),
            (Settings { delay: Delay::Quantile(f64::NAN), ..good }, "delay"),
            (Settings { delay: Delay::Quantile(1.5), ..good }, "delay"),
            (Settings { delay_min: Duration::ZERO, ..good }, "delay_min"),
            (Settings { hedges_max: 0, ..good }, "hedges_max"),
            (Settings { hedges_max: 17, ..good }, "hedges_max"),
        ];
        for (settings, field) in table {
            assert_eq!(Hedging::new(settings).unwrap_err().field, field, "{settings:?}");
        }
    }
}
