//! What time it is for the machines: a clock that never stops and never goes back, and follows the wall clock with
//! bounded trust ([ADR 23](../../../docs/adr/0023-time-that-does-not-jump.md)).
//!
//! Time is measured by the steady clock, which nobody sets, from the wall clock's time at the start. What the wall
//! clock says since then is compared with it:
//!
//! | the wall clock is | what happens |
//! |---|---|
//! | up to [`SLEW_MAX_US`] away | time runs a tenth faster or slower until they agree |
//! | further ahead | nothing, until it has stayed there for [`STABLE`] ([`STABLE_FAR`] if more than an hour); then time steps forward once, and the loop tells the machines, so that what runs keeps its length |
//! | further back | nothing, until it has stayed there for as long; then time runs at half speed until they agree |
//!
//! Deleting is not undone by setting a clock right. The time by which retention is judged therefore starts at what the
//! store has last seen and is never stepped: it follows at [`EXPIRY_PER_HOUR_US`] an hour at most.
//!
//! Pure: readings of both clocks are arguments. `Shared` asks the system.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use divvy_types::Timestamp;

/// A difference that is worked off without a word: what an adjusted clock drifts, or a leap second.
pub const SLEW_MAX_US: u64 = 1_000_000;
/// How long another difference has to last before it is believed.
pub const STABLE: Duration = Duration::from_secs(60);
/// The same, if it is more than `FAR_US`.
pub const STABLE_FAR: Duration = Duration::from_secs(600);
/// A difference of more than this is rather a mistake than a machine that slept.
const FAR_US: u64 = 3_600_000_000;
/// How far the time of retention moves within an hour, at most.
pub const EXPIRY_PER_HOUR_US: u64 = DAY_US;
const DAY_US: u64 = 86_400_000_000;
const HOUR_US: u64 = 3_600_000_000;

/// The clock of an engine.
#[derive(Debug)]
pub struct Clock {
    /// The time at the last reading, and what the steady clock said then.
    now: Timestamp,
    steady: Duration,
    expiry: Timestamp,
    /// A difference that is not believed yet, in microseconds, and since when it is seen.
    doubt: Option<(i64, Duration)>,
    /// Whether the wall clock is believed to be behind.
    behind: bool,
    /// A step that the loop has not been told of, in microseconds.
    step_us: u64,
}

impl Clock {
    /// A clock that agrees with the wall clock now. The store was last used at `last_used`.
    pub fn new(wall: Timestamp, steady: Duration, last_used: Option<Timestamp>) -> Self {
        let expiry = last_used.map_or(wall, |used| used.min(wall));
        Self { now: wall, steady, expiry, doubt: None, behind: false, step_us: 0 }
    }

    /// The time, given what both clocks say.
    pub fn read(&mut self, wall: Timestamp, steady: Duration) -> Timestamp {
        let passed = steady.saturating_sub(self.steady).as_micros() as u64;
        self.steady = self.steady.max(steady);
        let free = self.now.0.saturating_add(passed);
        let away = i64::try_from(wall.0).unwrap_or(i64::MAX) - free.cast_signed();
        self.now = Timestamp(free.saturating_add_signed(self.correct(away, passed)));
        let most = passed.saturating_mul(EXPIRY_PER_HOUR_US / HOUR_US);
        self.expiry = Timestamp(self.expiry.0.saturating_add(most)).min(self.now);
        self.now
    }

    /// The time by which retention is judged.
    pub fn expiry(&self) -> Timestamp {
        self.expiry
    }

    /// By how much time stepped forward since this was last asked, in microseconds.
    pub fn take_step(&mut self) -> u64 {
        std::mem::take(&mut self.step_us)
    }

    /// How far the wall clock is away, in microseconds, while that is not what the machines go by.
    pub fn doubt_us(&self) -> Option<i64> {
        self.doubt.map(|(away, _)| away)
    }

    /// What is added to time that runs freely, when the wall clock is this far away and `passed` went by.
    fn correct(&mut self, away: i64, passed: u64) -> i64 {
        let passed = passed.min(i64::MAX as u64).cast_signed();
        if away.unsigned_abs() <= SLEW_MAX_US {
            if self.doubt.take().is_some() {
                tracing::info!("the clock of this machine and the time of divvy agree again");
            }
            self.behind = false;
            return away.clamp(-passed / 10, passed / 10);
        }
        if !self.is_believed(away) {
            return 0;
        }
        if away > 0 {
            tracing::warn!(
                "time steps forward by {:?}, as the clock of this machine did; leases, time-outs and retries keep their lengths",
                Duration::from_micros(away.unsigned_abs())
            );
            self.doubt = None;
            self.step_us = self.step_us.saturating_add(away.unsigned_abs());
            return away;
        }
        away.max(-passed / 2)
    }

    /// Whether a difference has lasted for long enough.
    fn is_believed(&mut self, away: i64) -> bool {
        let same = |(first, _): &(i64, Duration)| {
            self.behind && away < 0 || away.abs_diff(*first) <= SLEW_MAX_US
        };
        let (_, since) = match self.doubt.filter(same) {
            Some((first, since)) => {
                *self.doubt.insert((if self.behind { away } else { first }, since))
            }
            None => {
                self.behind = false;
                tracing::warn!(
                    "the clock of this machine was set {} by {:?}; divvy does not believe it yet",
                    if away > 0 { "forward" } else { "back" },
                    Duration::from_micros(away.unsigned_abs())
                );
                *self.doubt.insert((away, self.steady))
            }
        };
        let enough = if away.unsigned_abs() > FAR_US { STABLE_FAR } else { STABLE };
        let believed = self.steady.saturating_sub(since) >= enough;
        self.behind = believed && away < 0;
        believed
    }
}

/// The clock that the loop and the writer share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    clock: Arc<Mutex<Clock>>,
    start: Instant,
}

impl Shared {
    pub(crate) fn start(last_used: Option<Timestamp>) -> Self {
        let clock = Clock::new(wall_clock(), Duration::ZERO, last_used);
        Self { clock: Arc::new(Mutex::new(clock)), start: Instant::now() }
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.read().now
    }

    /// The time, and by how much it stepped forward since this was last asked, in microseconds.
    pub(crate) fn now_and_step(&self) -> (Timestamp, u64) {
        let mut clock = self.read();
        (clock.now, clock.take_step())
    }

    /// The time, and the one by which retention is judged.
    pub(crate) fn now_and_expiry(&self) -> (Timestamp, Timestamp) {
        let clock = self.read();
        (clock.now, clock.expiry())
    }

    /// How far the wall clock is away, in microseconds, while that is not what the machines go by.
    pub(crate) fn doubt_us(&self) -> Option<i64> {
        self.read().doubt_us()
    }

    fn read(&self) -> MutexGuard<'_, Clock> {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        clock.read(wall_clock(), self.start.elapsed());
        clock
    }
}

/// The time that people agree on.
fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX)).min(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_800_000_000_000_000);
    const SECOND: u64 = 1_000_000;

    /// Both clocks, driven by hand.
    struct World {
        clock: Clock,
        steady: u64,
        /// What the wall clock is set away from the truth.
        set: i64,
    }

    impl World {
        fn new() -> Self {
            let clock = Clock::new(START, Duration::ZERO, Some(START));
            Self { clock, steady: 0, set: 0 }
        }

        /// Lets seconds pass one by one, and returns how far time is from the truth at the end, in seconds.
        fn pass(&mut self, seconds: u64) -> f64 {
            let mut now = self.clock.now;
            for _ in 0..seconds {
                self.steady += SECOND;
                let wall = Timestamp((START.0 + self.steady).saturating_add_signed(self.set));
                let next = self.clock.read(wall, Duration::from_micros(self.steady));
                assert!(next.0 >= now.0 + SECOND / 2, "time stood still or went back");
                now = next;
            }
            (now.0 as f64 - (START.0 + self.steady) as f64) / 1e6
        }
    }

    #[test]
    fn a_small_difference_is_worked_off_and_a_large_one_waits() {
        let mut world = World::new();
        assert_eq!(world.pass(100), 0.0);
        world.set = 900_000;
        assert!((world.pass(1) - 0.1).abs() < 0.01);
        assert!((world.pass(20) - 0.9).abs() < 0.01);
        world.set = -300_000_000;
        let before = world.pass(58);
        assert!((before - 0.9).abs() < 0.01, "not believed yet: {before}");
        assert_eq!(world.clock.doubt_us().map(|away| away / 1_000_000), Some(-300));
        let after = world.pass(62);
        assert!((-35.0..-25.0).contains(&after), "half speed for a minute: {after}");
        assert!((world.pass(700) + 300.0).abs() < 0.01);
        assert_eq!(world.clock.doubt_us(), None);
    }

    #[test]
    fn a_step_forward_is_taken_once_and_told() {
        let mut world = World::new();
        world.pass(10);
        world.set = 600_000_000;
        assert_eq!(world.pass(59), 0.0);
        assert_eq!(world.clock.take_step(), 0);
        assert_eq!(world.pass(2), 600.0);
        assert_eq!((world.clock.take_step(), world.clock.take_step()), (600_000_000, 0));
        world.set = 600_000_000 + 9 * DAY_US.cast_signed();
        assert_eq!(world.pass(599), 600.0, "days are believed later than minutes");
        world.set = 600_000_000;
        assert_eq!(world.pass(100), 600.0, "and a mistake that is put right leaves no trace");
        assert_eq!((world.clock.take_step(), world.clock.doubt_us()), (0, None));
    }

    #[test]
    fn a_clock_that_jumps_about_is_never_believed() {
        let mut world = World::new();
        for n in 0..20 {
            world.set = (n % 2 + 1) * 3_000_000_000;
            assert_eq!(world.pass(50), 0.0);
        }
    }

    #[test]
    fn the_time_of_retention_is_never_stepped() {
        let mut world = World::new();
        world.set = 9 * DAY_US.cast_signed();
        assert!(world.pass(700) > 700_000.0, "the step is taken");
        let reached = world.clock.expiry().0 - START.0;
        assert!(reached < DAY_US / 4, "not in one go: {reached} us");
        world.pass(10 * 3_600);
        assert_eq!(world.clock.expiry(), world.clock.now, "but in the end");
        let long_off = Clock::new(START, Duration::ZERO, Some(Timestamp(START.0 - 30 * DAY_US)));
        assert_eq!(long_off.expiry().0, START.0 - 30 * DAY_US, "nor by a start with a wrong clock");
        assert_eq!(Clock::new(START, Duration::ZERO, None).expiry(), START);
    }
}
