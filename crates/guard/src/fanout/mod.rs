//! Decides what came of a question that was put to many shards: who answered, who failed, who was too late.
//!
//! Deliberately knows neither how a shard is asked nor what it answers, and no clock. [`Collector`] keeps the books:
//! which shard may be asked next, whether it is over, and the [`Report`]. The shell (`shell::fanout::fan_out`, with
//! the feature `async`) asks.
//!
//! Rules: a shard is asked as soon as fewer than [`Settings::concurrency`] are being asked. It is over when every
//! shard has answered or failed, when [`Settings::enough`] have answered, or when the time is up. Then each shard has
//! exactly one outcome, and the four counts add up to the number of shards. A partial result is a result; whether it
//! is a success is for [`Settings::minimum`] to say.
//!
//! First start: the timeout is the tracker's default until it has seen enough answers.

mod report;

use std::time::Duration;

pub use report::{NotEnough, Outcome, Report, Shard};

use crate::setting::{Invalid, require};
use crate::timeout::SharedTracker;

/// The most shards that one question goes to.
pub const SHARDS_MAX: usize = 1 << 16;

/// How a question is put to many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many answers make a success: 1.
    pub minimum: usize,
    /// How many answers end it early; none: all are waited for. At least the minimum.
    pub enough: Option<usize>,
    /// How many shards are asked at once: all, up to [`SHARDS_MAX`].
    pub concurrency: usize,
    /// A fixed timeout; none: what the tracker suggests.
    pub timeout: Option<Duration>,
    /// The longest timeout, whatever else is said: such as the time left until the caller's own deadline. No limit.
    pub timeout_max: Duration,
    /// Whether the tracker learns the timeout itself when not a single shard answered: yes. It otherwise learns from
    /// answers only, and so would never see that all shards have become slower than the timeout.
    pub grow_when_silent: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            minimum: 1,
            enough: None,
            concurrency: SHARDS_MAX,
            timeout: None,
            timeout_max: Duration::MAX,
            grow_when_silent: true,
        }
    }
}

impl Settings {
    /// Refuses what makes no sense for this number of shards.
    ///
    /// # Errors
    /// When a setting makes no sense, or there are more than [`SHARDS_MAX`] shards.
    pub fn check(&self, shards: usize) -> Result<(), Invalid> {
        require(shards <= SHARDS_MAX, "shards", shards, "at most 65536; ask more in turns")?;
        require(self.minimum <= shards, "minimum", self.minimum, "at most the number of shards")?;
        require(
            self.enough.is_none_or(|enough| enough >= self.minimum.max(1)),
            "enough",
            self.enough,
            "at least 1 and at least the minimum",
        )?;
        require(self.concurrency > 0, "concurrency", self.concurrency, "at least 1")?;
        require(
            self.timeout.is_none_or(|timeout| !timeout.is_zero()),
            "timeout",
            self.timeout,
            "above 0",
        )
    }

    /// How long this question waits.
    pub fn timeout(&self, tracker: &SharedTracker) -> Duration {
        self.timeout.unwrap_or_else(|| tracker.suggested()).min(self.timeout_max)
    }
}

#[derive(Debug)]
struct Slot<T, E> {
    started: Option<Duration>,
    latency: Option<Duration>,
    outcome: Option<Outcome<T, E>>,
}

/// The books of one question to many shards.
#[derive(Debug)]
pub struct Collector<K, T, E> {
    settings: Settings,
    started: Duration,
    timeout: Duration,
    keys: Vec<K>,
    slots: Vec<Slot<T, E>>,
    begun: usize,
    ended: usize,
    responded: usize,
}

impl<K, T, E> Collector<K, T, E> {
    /// The books for `shards`, with the time running from `now`.
    ///
    /// # Errors
    /// When a setting makes no sense for so many shards.
    pub fn new(
        shards: impl IntoIterator<Item = K>,
        settings: Settings,
        timeout: Duration,
        now: Duration,
    ) -> Result<Self, Invalid> {
        // One more than the limit is enough to see that it is passed.
        let keys: Vec<K> = shards.into_iter().take(SHARDS_MAX + 1).collect();
        settings.check(keys.len())?;
        let slots = keys.iter().map(|_| Slot { started: None, latency: None, outcome: None });
        let slots = slots.collect();
        Ok(Self { settings, started: now, timeout, keys, slots, begun: 0, ended: 0, responded: 0 })
    }

    /// The next shard to ask, which counts as asked from now on; none if nobody may be asked at present.
    pub fn begin(&mut self, now: Duration) -> Option<(usize, &K)> {
        let index = self.begun;
        if self.is_over(now)
            || index == self.keys.len()
            || self.begun - self.ended >= self.settings.concurrency
        {
            return None;
        }
        self.slots[index].started = Some(now);
        self.begun += 1;
        Some((index, &self.keys[index]))
    }

    /// Takes in what a shard said. Whoever was not asked, or has spoken already, is not heard.
    pub fn end(&mut self, index: usize, answer: Result<T, E>, now: Duration) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let (Some(started), None) = (slot.started, &slot.outcome) else { return };
        slot.latency = Some(now.saturating_sub(started));
        self.ended += 1;
        slot.outcome = Some(match answer {
            Ok(value) => {
                self.responded += 1;
                Outcome::Responded(value)
            }
            Err(error) => Outcome::Failed(error),
        });
    }

    /// Whether nothing more is waited for.
    pub fn is_over(&self, now: Duration) -> bool {
        self.is_settled() || now >= self.deadline()
    }

    /// Whether nothing more is needed, whatever the time: all have spoken, or enough have answered.
    pub fn is_settled(&self) -> bool {
        self.ended == self.keys.len() || self.has_enough()
    }

    /// When the time is up.
    pub fn deadline(&self) -> Duration {
        self.started.saturating_add(self.timeout)
    }

    /// Closes the books: whoever has not spoken was too late, or was no longer needed.
    pub fn close(self, now: Duration) -> Report<K, T, E> {
        let in_time = self.has_enough();
        let shards = self.keys.into_iter().zip(self.slots).map(|(key, slot)| {
            let waited = slot.started.map(|started| now.saturating_sub(started));
            let silent = if in_time { Outcome::Skipped } else { Outcome::TimedOut };
            Shard { key, latency: slot.latency.or(waited), outcome: slot.outcome.unwrap_or(silent) }
        });
        let shards = shards.collect();
        let took = now.saturating_sub(self.started);
        Report::new(shards, self.timeout, took, self.settings.minimum)
    }

    fn has_enough(&self) -> bool {
        self.settings.enough.is_some_and(|enough| self.responded >= enough)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn collector(shards: u64, settings: Settings) -> Collector<u64, Vec<u8>, &'static str> {
        Collector::new(0..shards, settings, millis(100), millis(1000)).unwrap()
    }

    #[test]
    fn every_shard_gets_one_outcome() {
        let mut books = collector(4, Settings { minimum: 2, ..Settings::default() });
        let mut begun = 0;
        while books.begin(millis(1000)).is_some() {
            begun += 1;
        }
        assert_eq!(begun, 4);
        books.end(2, Ok(vec![1, 2]), millis(1010));
        books.end(0, Err("broken"), millis(1020));
        books.end(2, Err("twice"), millis(1030));
        books.end(9, Err("unknown"), millis(1030));
        books.end(3, Ok(vec![3]), millis(1040));
        assert!(!books.is_over(millis(1099)));
        assert!(books.is_over(millis(1100)));
        let report = books.close(millis(1100));
        assert_eq!((report.shards_responded, report.shards_failed), (2, 1));
        assert_eq!((report.shards_timed_out, report.shards_skipped), (1, 0));
        assert!(report.is_success());
        assert_eq!(report.total(Vec::len), 3);
        assert_eq!(report.used_timeout, millis(100));
        assert_eq!(report.took, millis(100));
        let latencies: Vec<_> = report.responder_latencies().collect();
        assert_eq!(latencies, [millis(10), millis(40)]);
        assert_eq!(report.shards[1].latency, Some(millis(100)));
        assert_eq!(
            report.failures().map(|(key, error)| (*key, *error)).collect::<Vec<_>>(),
            [(0, "broken")]
        );
    }

    #[test]
    fn enough_answers_end_it_and_the_rest_is_skipped() {
        let settings =
            Settings { minimum: 2, enough: Some(2), concurrency: 3, ..Settings::default() };
        let mut books = collector(5, settings);
        while books.begin(millis(1000)).is_some() {}
        books.end(0, Ok(vec![]), millis(1001));
        assert_eq!(books.begin(millis(1001)).map(|(index, _)| index), Some(3));
        assert!(books.begin(millis(1001)).is_none(), "three are being asked");
        books.end(1, Ok(vec![]), millis(1002));
        assert!(books.is_over(millis(1002)));
        assert!(books.begin(millis(1002)).is_none());
        let report = books.close(millis(1002));
        assert_eq!((report.shards_responded, report.shards_skipped), (2, 3));
        assert_eq!(report.shards[4].latency, None, "it was never asked");
    }

    #[test]
    fn too_few_answers_are_an_error_that_keeps_them() {
        let mut books = collector(3, Settings { minimum: 2, ..Settings::default() });
        while books.begin(millis(1000)).is_some() {}
        books.end(0, Ok(vec![7]), millis(1001));
        let error = books.close(millis(1100)).require().unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 of 3 shards answered and 2 are needed: 0 failed, 2 timed out after 100ms"
        );
        assert_eq!(error.report.total(Vec::len), 1);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = Settings::default();
        let table = [
            (Settings { minimum: 4, ..good }, 3, "minimum"),
            (Settings { minimum: 2, enough: Some(1), ..good }, 3, "enough"),
            (Settings { minimum: 0, enough: Some(0), ..good }, 3, "enough"),
            (Settings { concurrency: 0, ..good }, 3, "concurrency"),
            (Settings { timeout: Some(Duration::ZERO), ..good }, 3, "timeout"),
            (good, SHARDS_MAX + 1, "shards"),
        ];
        for (settings, shards, field) in table {
            assert_eq!(settings.check(shards).unwrap_err().field, field, "{settings:?}");
        }
        assert!(Settings { minimum: 0, ..good }.check(0).is_ok());
    }

    proptest! {
        #[test]
        fn counts_always_add_up(
            shards in 1_usize..12,
            concurrency in 1_usize..12,
            enough in prop::option::of(1_usize..12),
            events in prop::collection::vec((0_usize..14, any::<bool>(), 0_u64..30), 0..30),
        ) {
            let settings = Settings { minimum: 0, enough, concurrency, ..Settings::default() };
            let mut books: Collector<usize, (), ()> =
                Collector::new(0..shards, settings, millis(100), Duration::ZERO).unwrap();
            let mut now = Duration::ZERO;
            for (index, good, wait) in events {
                while books.begin(now).is_some() {}
                prop_assert!(books.begun - books.ended <= concurrency);
                now += millis(wait);
                if books.is_over(now) {
                    break;
                }
                books.end(index, if good { Ok(()) } else { Err(()) }, now);
            }
            let report = books.close(now);
            let counted = report.shards_responded + report.shards_failed
                + report.shards_timed_out + report.shards_skipped;
            prop_assert_eq!(counted, shards);
            prop_assert_eq!(report.shards.len(), shards);
        }
    }
}
