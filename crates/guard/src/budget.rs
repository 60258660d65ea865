//! How many retries and hedges the recent successes pay for.
//!
//! It decides whether one more *extra* call may be made. It does not know which call, nor whether it is a retry or a
//! hedge: both spend from one budget, because both add load to a part that may be in trouble.
//!
//! Each success of the last seconds pays for a share of an extra call; a floor per second is free, so that a caller
//! with few calls can retry at all. When nearly everything fails, successes stop paying, and extra calls stay a
//! small share of the load instead of multiplying it. At first start only the floor pays.
//!
//! The rule is that of Finagle's retry budget (Twitter, 2016); see also *Handling Overload* in the SRE book.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::rolling::{Rolling, nanos};
use crate::setting::{self, Invalid};

const SUCCESSES: usize = 0;
const SPENT: usize = 1;

/// The highest floor.
const FLOOR_PER_SECOND_MAX: f64 = 1e6;

/// What pays for extra calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much of an extra call one success pays for.
    pub share: f64,
    /// How many extra calls per second are free.
    pub floor_per_second: f64,
    /// How long a success pays and a spent call is remembered; moves on in tenths.
    pub window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { share: 0.2, floor_per_second: 10.0, window: Duration::from_secs(10) }
    }
}

impl Settings {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Invalid> {
        setting::fraction("share", self.share)?;
        if !(0.0..=FLOOR_PER_SECOND_MAX).contains(&self.floor_per_second) {
            return Err(Invalid::new(
                "floor_per_second",
                self.floor_per_second,
                format!("0 to {FLOOR_PER_SECOND_MAX}"),
            ));
        }
        setting::span_from("window", self.window, Duration::from_millis(1))
    }
}

/// A budget for extra calls, shared by reference.
#[derive(Debug)]
pub struct Budget {
    settings: Settings,
    floor: f64,
    counts: Rolling<2>,
    /// Held while looking and spending, so that two spenders cannot both take the last of it.
    spending: Mutex<()>,
}

impl Budget {
    /// A budget that has only its floor.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        Ok(Self {
            floor: settings.floor_per_second * settings.window.as_secs_f64(),
            counts: Rolling::over(settings.window),
            spending: Mutex::new(()),
            settings,
        })
    }

    /// What was set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A call went well and pays.
    pub fn success(&self, now: Duration) {
        self.counts.add(SUCCESSES, nanos(now));
    }

    /// Spends one extra call, if there is one.
    pub fn try_spend(&self, now: Duration) -> bool {
        let _spending = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        let affordable = self.balance(now) >= 1.0;
        if affordable {
            self.counts.add(SPENT, nanos(now));
        }
        affordable
    }

    /// How many extra calls are left.
    pub fn balance(&self, now: Duration) -> f64 {
        let recent = self.counts.recent(nanos(now));
        let paid = self.floor + self.settings.share * recent[SUCCESSES] as f64;
        (paid - recent[SPENT] as f64).max(0.0)
    }

    /// How many extra calls were spent ever.
    pub fn spent(&self) -> u64 {
        self.counts.totals()[SPENT]
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(share: f64, floor_per_second: f64) -> Budget {
        Budget::new(Settings { share, floor_per_second, ..Settings::default() }).unwrap()
    }

    fn spend_all(budget: &Budget, now: Duration) -> usize {
        (0..100_000).take_while(|_| budget.try_spend(now)).count()
    }

    #[test]
    fn at_first_only_the_floor_pays() {
        assert_eq!(spend_all(&budget(0.2, 10.0), SECOND), 100);
        assert_eq!(spend_all(&budget(0.2, 0.0), SECOND), 0);
    }

    #[test]
    fn successes_pay_their_share_for_as_long_as_the_window() {
        let budget = budget(0.2, 0.0);
        (0..500).for_each(|_| budget.success(SECOND));
        assert_eq!(spend_all(&budget, SECOND), 100);
        assert_eq!(spend_all(&budget, SECOND * 5), 0, "what is spent stays spent in the window");
        (0..50).for_each(|_| budget.success(SECOND * 12));
        assert_eq!(spend_all(&budget, SECOND * 12), 10, "old successes and old spending are gone");
        assert_eq!(budget.spent(), 110);
    }

    #[test]
    fn spenders_at_once_take_no_more_than_there_is() {
        let budget = budget(0.2, 100.0);
        let spent: usize = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| spend_all(&budget, SECOND))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(spent, 1_000);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let table = [
            ("share", Settings { share: 1.1, ..Settings::default() }),
            ("share", Settings { share: f64::NAN, ..Settings::default() }),
            ("floor_per_second", Settings { floor_per_second: -1.0, ..Settings::default() }),
            ("window", Settings { window: Duration::ZERO, ..Settings::default() }),
        ];
        for (field, settings) in table {
            assert_eq!(Budget::new(settings).unwrap_err().field, field);
        }
    }

    proptest! {
        #[test]
        fn extra_calls_never_exceed_the_share_and_the_floor(
            steps in prop::collection::vec((0u64..200, any::<bool>()), 1..400),
        ) {
            let budget = budget(0.25, 0.5);
            let mut now = 0;
            let (mut successes, mut spent): (Vec<u64>, Vec<u64>) = Default::default();
            for (gap, success) in steps {
                now += gap;
                let at = Duration::from_millis(now);
                let recent = |times: &[u64]| {
                    times.iter().filter(|t| *t / 1_000 + 10 > now / 1_000).count() as f64
                };
                if success {
                    budget.success(at);
                    successes.push(now);
                } else {
                    let affordable = 5.0 + 0.25 * recent(&successes) - recent(&spent) >= 1.0;
                    prop_assert_eq!(budget.try_spend(at), affordable);
                    if affordable {
                        spent.push(now);
                    }
                }
            }
        }
    }
}
