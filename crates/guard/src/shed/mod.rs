//! Decides which requests are turned away when there are too many: the least important first.
//!
//! Deliberately knows neither the requests nor a clock. Told how old the oldest waiting request is, or how busy the
//! workers are, it keeps a *level* from 0 (nothing is shed) to 5 (everything may be).
//!
//! Rules: priority 1 is shed between level 0 and 1, priority 2 between 1 and 2, and so on: at level 1.5 all of
//! priority 1 and half of priority 2 are turned away. So no priority is touched before all of the lower ones are gone.
//! Which half is drawn from a seeded generator. After each [`Settings::interval`] the level moves: up if even the
//! *best* value of the interval was over the high mark, down if it was under the low mark, and not at all between the
//! two. Priorities from [`Settings::protected`] up are never shed.
//!
//! Why this way: a queue that is long for a moment is a burst, and a queue that is never short is overload. The best
//! value of an interval tells them apart (CoDel: Nichols and Jacobson, "Controlling Queue Delay", 2012). The gap
//! between the marks keeps the level from swinging.
//!
//! First start: the level is 0. An interval in which nothing was observed counts as calm, so shedding ends by itself
//! even when everything was turned away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::setting::{Invalid, require};

/// How important a request is: from 1 to 5, and 5 goes first, as with tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The least important: shed first.
    pub const LOWEST: Self = Self(1);
    /// In the middle.
    pub const NORMAL: Self = Self(3);
    /// The most important: shed last.
    pub const HIGHEST: Self = Self(5);

    /// The priority of a number.
    ///
    /// # Errors
    /// When it is not from 1 to 5.
    pub fn new(number: u8) -> Result<Self, Invalid> {
        require((1..=5).contains(&number), "priority", number, "from 1 to 5; 5 goes first")?;
        Ok(Self(number))
    }

    /// The number, from 1 to 5.
    pub fn number(self) -> u8 {
        self.0
    }

    fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

/// A high and a low mark: over the high one is too much, under the low one is calm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks<T> {
    /// Over this is too much.
    pub high: T,
    /// Under this is calm. At most the high mark.
    pub low: T,
}

/// When, how fast and down to whom requests are shed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The marks for how old the oldest waiting request is: 20 ms and 10 ms. None: the age is not looked at.
    pub age: Option<Marks<Duration>>,
    /// The marks for how busy the workers are, where 1 is fully: not looked at; 0.95 and 0.8 are usual.
    pub utilisation: Option<Marks<f64>>,
    /// How often the level moves: every 100 ms. Observe at least this often under load: silence counts as calm.
    pub interval: Duration,
    /// How far the level goes up after an interval with too much: 0.25.
    pub step_up: f64,
    /// How far the level goes down after a calm interval: 0.1.
    pub step_down: f64,
    /// The lowest priority that is never shed: 5. None: all may be shed.
    pub protected: Option<Priority>,
    /// Where the generator starts: 0.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            age: Some(Marks { high: Duration::from_millis(20), low: Duration::from_millis(10) }),
            utilisation: None,
            interval: Duration::from_millis(100),
            step_up: 0.25,
            step_down: 0.1,
            protected: Some(Priority::HIGHEST),
            seed: 0,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        require(
            self.age.is_some() || self.utilisation.is_some(),
            "age",
            self.age,
            "marks for the age, for the utilisation, or for both",
        )?;
        require(
            self.age.is_none_or(|marks| marks.low <= marks.high && !marks.low.is_zero()),
            "age",
            self.age,
            "low above 0 and high at least low",
        )?;
        require(
            self.utilisation.is_none_or(|marks| {
                marks.low > 0.0 && marks.low <= marks.high && marks.high.is_finite()
            }),
            "utilisation",
            self.utilisation,
            "low above 0 and high at least low",
        )?;
        require(!self.interval.is_zero(), "interval", self.interval, "above 0")?;
        let is_step = |step: f64| step > 0.0 && step <= 5.0;
        require(is_step(self.step_up), "step_up", self.step_up, "above 0, at most 5")?;
        require(is_step(self.step_down), "step_down", self.step_down, "above 0, at most 5")
    }

    /// The highest level: where the protected priorities begin.
    fn level_max(&self) -> f64 {
        self.protected.map_or(5.0, |protected| f64::from(protected.0 - 1))
    }
}

/// A request that was turned away.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("too much is waiting, and priority {} is turned away at level {level:.2}; try again in {retry_after:?}", priority.number())]
pub struct Shed {
    /// Its priority.
    pub priority: Priority,
    /// The level at the time.
    pub level: f64,
    /// When trying again may make sense.
    pub retry_after: Duration,
}

/// What was counted so far: index 0 is priority 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The level.
    pub level: f64,
    /// Requests let in, by priority.
    pub admitted: [u64; 5],
    /// Requests turned away, by priority.
    pub shed: [u64; 5],
}

/// Turns requests away by priority.
#[derive(Debug)]
pub struct Shedder {
    settings: Settings,
    /// Whether the level is above 0, so that calm times cost no lock.
    is_shedding: AtomicBool,
    admitted: [AtomicU64; 5],
    shed: [AtomicU64; 5],
    controller: Mutex<Controller>,
}

#[derive(Debug)]
struct Controller {
    rng: fastrand::Rng,
    level: f64,
    since: Option<Duration>,
    age_best: Option<Duration>,
    utilisation_best: Option<f64>,
}

impl Shedder {
    /// A shedder at level 0.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        let controller = Controller {
            rng: fastrand::Rng::with_seed(settings.seed),
            level: 0.0,
            since: None,
            age_best: None,
            utilisation_best: None,
        };
        Ok(Self {
            settings,
            is_shedding: AtomicBool::new(false),
            admitted: Default::default(),
            shed: Default::default(),
            controller: Mutex::new(controller),
        })
    }

    /// Takes in how long a request had waited when its turn came, or how old the oldest one is.
    pub fn observe_age(&self, age: Duration, now: Duration) {
        let mut controller = self.controller(now);
        let best = controller.age_best.map_or(age, |best| best.min(age));
        controller.age_best = Some(best);
    }

    /// Takes in how busy the workers are, where 1 is fully. What is not a number is not taken in.
    pub fn observe_utilisation(&self, utilisation: f64, now: Duration) {
        if utilisation.is_nan() {
            return;
        }
        let mut controller = self.controller(now);
        let best = controller.utilisation_best.map_or(utilisation, |best| best.min(utilisation));
        controller.utilisation_best = Some(best);
    }

    /// Lets a request in or turns it away.
    ///
    /// # Errors
    /// When it is turned away.
    pub fn admit(&self, priority: Priority, now: Duration) -> Result<(), Shed> {
        let index = priority.index();
        if self.is_shedding.load(Ordering::Relaxed) {
            let mut controller = self.controller(now);
            let level = controller.level;
            let chance = level - index as f64;
            if chance > 0.0 && controller.rng.f64() < chance {
                drop(controller);
                self.shed[index].fetch_add(1, Ordering::Relaxed);
                return Err(Shed { priority, level, retry_after: self.settings.interval });
            }
        }
        self.admitted[index].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The level at present.
    pub fn level(&self, now: Duration) -> f64 {
        self.controller(now).level
    }

    /// What was counted so far.
    pub fn statistics(&self, now: Duration) -> Statistics {
        let read = |counts: &[AtomicU64; 5]| {
            std::array::from_fn(|index| counts[index].load(Ordering::Relaxed))
        };
        Statistics {
            level: self.level(now),
            admitted: read(&self.admitted),
            shed: read(&self.shed),
        }
    }

    /// The controller, with all intervals that have ended by now taken into account.
    fn controller(&self, now: Duration) -> MutexGuard<'_, Controller> {
        // A panic while the lock was held leaves numbers that are still whole.
        let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        controller.advance(&self.settings, now);
        self.is_shedding.store(controller.level > 0.0, Ordering::Relaxed);
        controller
    }
}

impl Controller {
    fn advance(&mut self, settings: &Settings, now: Duration) {
        let since = *self.since.get_or_insert(now);
        let intervals = now.saturating_sub(since).as_nanos() / settings.interval.as_nanos();
        if intervals == 0 {
            return;
        }
        match self.verdict(settings) {
            Verdict::TooMuch => self.level += settings.step_up,
            Verdict::Between => {}
            Verdict::Calm => self.level -= settings.step_down,
        }
        // Nothing was observed in the further intervals, so they were calm.
        self.level = self.level.min(settings.level_max());
        self.level = (self.level - settings.step_down * (intervals - 1) as f64).max(0.0);
        (self.age_best, self.utilisation_best) = (None, None);
        self.since = Some(now);
    }

    fn verdict(&self, settings: &Settings) -> Verdict {
        let age = settings.age.zip(self.age_best);
        let utilisation = settings.utilisation.zip(self.utilisation_best);
        let age = age.map(|(marks, best)| Verdict::of(&best, &marks));
        let utilisation = utilisation.map(|(marks, best)| Verdict::of(&best, &marks));
        age.max(utilisation).unwrap_or(Verdict::Calm)
    }
}

/// What an interval was like; the worse, the larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Calm,
    Between,
    TooMuch,
}

impl Verdict {
    fn of<T: PartialOrd>(value: &T, marks: &Marks<T>) -> Self {
        if *value > marks.high {
            Self::TooMuch
        } else if *value < marks.low {
            Self::Calm
        } else {
            Self::Between
        }
    }
}

#[cfg(test)]
mod tests;
