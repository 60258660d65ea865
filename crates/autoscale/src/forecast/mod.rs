//! What will arrive: four forecasters, of which the one with the least recent error is believed, if it beats the plain
//! guess that everything stays as it is.
//!
//! Load is looked at in slots of five minutes. At the end of each, every forecaster says what the next one brings, as
//! far ahead as a worker takes to start; when that slot is over, its pinball loss is counted (too little is worse than
//! too much). Before a forecaster has been tried for a day, or while it is no better than no forecast, nobody is
//! believed, and policies that forecast do as if nothing will change.
//!
//! Days and weeks are those of UTC.

mod holt_winters;
mod line;
mod season;

use std::collections::VecDeque;

use divvy_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::explain::{ForecastPoint, ForecastView, ForecasterView};
use holt_winters::HoltWinters;
use line::Line;
use season::Season;

/// The length of a slot in seconds.
pub(crate) const SLOT_SEC: f64 = 300.0;
/// Slots of a day.
pub(crate) const DAY: usize = 288;
/// How many of its forecasts must have been compared with what came before a forecaster may be believed.
const TRIED_MIN: u32 = DAY as u32;
/// Over how many of its forecasts its error is a mean: three days, so that a weekend does not change who is believed.
const ERROR_TRIES: u32 = 3 * DAY as u32;
/// How much less its error must be than that of no forecast.
const BETTER: f64 = 0.95;
/// Which quantile is asked for: too little is three times as bad as too much.
const QUANTILE: f64 = 0.75;
/// How much of a slot must have been seen.
const SEEN_SEC_MIN: f64 = SLOT_SEC / 2.0;
/// How far ahead forecasts are compared at most, in slots.
const AHEAD_MAX: u64 = 24;

/// The edge of nine tenths of a normal distribution, in standard deviations.
const NINE_TENTHS: f64 = 1.282;

/// In the order of [`Forecast::guesses`]; the first is no forecast.
const NAMES: [&str; 5] = ["stays", "linear", "time of day", "day of week", "holt-winters"];

/// What is known of the past, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Forecast {
    open: Open,
    last: Option<(u64, f64)>,
    line: Line,
    day: Season,
    week: Season,
    winters: HoltWinters,
    scores: [Score; 5],
    made: VecDeque<(u64, [Option<f64>; 5])>,
}

impl Default for Forecast {
    fn default() -> Self {
        Self {
            open: Open::default(),
            last: None,
            line: Line::default(),
            day: Season::new(DAY, 7),
            week: Season::new(7 * DAY, 4),
            winters: HoltWinters::default(),
            scores: [Score::default(); 5],
            made: VecDeque::new(),
        }
    }
}

/// The slot that is not over yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Open {
    slot: u64,
    work: f64,
    sec: f64,
}

/// How well one forecaster did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Score {
    tried: u32,
    /// The recent mean of the pinball loss, and of the size of the error.
    loss: f64,
    size: f64,
    /// The recent mean of the load.
    load: f64,
}

/// What is expected at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// The mean.
    pub(crate) rate: f64,
    /// The standard deviation.
    pub(crate) spread: f64,
}

impl Forecast {
    /// Takes the work that arrived in the `sec` seconds before `at`; forecasts will be asked for as far as `boot` ahead.
    pub(crate) fn take(&mut self, at: Timestamp, work: f64, sec: f64, boot: f64) {
        let slot = slot_of(at, -sec.min(SLOT_SEC) / 2.0);
        if slot != self.open.slot {
            self.close(boot);
            self.open = Open { slot, ..Open::default() };
        }
        self.open.work += work;
        self.open.sec += sec;
    }

    /// The name of the forecaster that is believed.
    pub(crate) fn trusted(&self) -> Option<&'static str> {
        self.best().map(|index| NAMES[index])
    }

    /// What is expected `ahead` seconds from `now`, when `rate` arrives now. Without a trusted forecaster it stays.
    pub(crate) fn at(&self, now: Timestamp, ahead: f64, rate: f64) -> Expected {
        let (here, there) = (slot_of(now, 0.0), slot_of(now, ahead));
        let stays = Expected { rate, spread: 0.0 };
        let Some(best) = self.best().filter(|_| there > here) else { return stays };
        let season = match best {
            2 => self.day.expect(here, there, rate),
            3 => self.week.expect(here, there, rate),
            _ => None,
        };
        let plain = || {
            let rate = self.guesses(here, there, rate)[best]?;
            Some(Expected { rate, spread: self.scores[best].size * 1.25 })
        };
        season.or_else(plain).unwrap_or(stays)
    }

    /// What is shown; `until` is how far ahead a new worker would be there.
    pub(crate) fn view(&self, now: Timestamp, until: f64, rate: f64) -> ForecastView {
        let trusted = self.trusted();
        let steps = (until / SLOT_SEC).ceil().clamp(1.0, AHEAD_MAX as f64);
        let most = (1..=steps as u32)
            .map(|step| self.at(now, until * f64::from(step) / steps, rate).rate)
            .fold(rate, f64::max);
        let forecasters = NAMES.iter().zip(&self.scores).map(|(name, score)| ForecasterView {
            name: (*name).into(),
            error: (score.tried > 0 && score.load > 0.0).then(|| score.loss / score.load),
            tried: score.tried,
        });
        ForecastView {
            trusted: trusted.map(Into::into),
            expects: trusted.map(|_| most),
            ahead: trusted.map_or_else(Vec::new, |_| self.ahead(now, rate)),
            forecasters: forecasters.collect(),
        }
    }

    /// What is expected slot by slot, as far as forecasts are compared with what comes.
    fn ahead(&self, now: Timestamp, rate: f64) -> Vec<ForecastPoint> {
        let point = |slot: u64| {
            let sec = slot as f64 * SLOT_SEC;
            let Expected { rate, spread } = self.at(now, sec, rate);
            let reach = spread * NINE_TENTHS;
            let at = now.plus_ms((sec * 1e3) as u64);
            ForecastPoint { at, rate, low: (rate - reach).max(0.0), high: rate + reach }
        };
        (1..=AHEAD_MAX).map(point).collect()
    }

    fn best(&self) -> Option<usize> {
        let stays = self.scores[0].loss;
        (1..NAMES.len())
            .filter(|index| {
                let score = &self.scores[*index];
                score.tried >= TRIED_MIN && score.loss < stays * BETTER
            })
            .min_by(|a, b| self.scores[*a].loss.total_cmp(&self.scores[*b].loss))
    }

    fn guesses(&self, here: u64, there: u64, rate: f64) -> [Option<f64>; 5] {
        let mean = |expected: Option<Expected>| expected.map(|expected| expected.rate);
        [
            Some(rate),
            self.line.expect(here, there),
            mean(self.day.expect(here, there, rate)),
            mean(self.week.expect(here, there, rate)),
            self.winters.expect(there),
        ]
    }

    /// Ends the open slot: what was forecast for it is judged, everyone learns it, and the next is forecast.
    fn close(&mut self, boot: f64) {
        let Open { slot, work, sec } = self.open;
        if sec < SEEN_SEC_MIN {
            return;
        }
        let value = work / sec;
        while self.made.front().is_some_and(|(due, _)| *due < slot) {
            self.made.pop_front();
        }
        if let Some((_, guesses)) = self.made.front().copied().filter(|(due, _)| *due == slot) {
            for (score, guess) in self.scores.iter_mut().zip(guesses) {
                guess.into_iter().for_each(|guess| score.judge(guess, value));
            }
        }
        self.line.learn(slot, value);
        self.day.learn(slot, value, self.last);
        self.week.learn(slot, value, self.last);
        self.winters.learn(slot, value);
        self.last = Some((slot, value));
        let ahead = ((boot / SLOT_SEC).ceil() as u64).clamp(1, AHEAD_MAX);
        self.made.push_back((slot + ahead, self.guesses(slot, slot + ahead, value)));
        while self.made.len() as u64 > 2 * AHEAD_MAX {
            self.made.pop_front();
        }
    }
}

impl Score {
    fn judge(&mut self, guess: f64, value: f64) {
        let short = value - guess;
        let loss = if short > 0.0 { QUANTILE * short } else { (QUANTILE - 1.0) * short };
        self.tried = self.tried.saturating_add(1);
        let weight = 1.0 / f64::from(self.tried.min(ERROR_TRIES));
        self.loss += (loss - self.loss) * weight;
        self.size += (short.abs() - self.size) * weight;
        self.load += (value - self.load) * weight;
    }
}

/// When the slot after the one of this time begins.
pub(crate) fn next_slot(at: Timestamp) -> Timestamp {
    Timestamp(((slot_of(at, 0.0) + 1) as f64 * SLOT_SEC * 1e6) as u64)
}

/// The slot of a time, `ahead` seconds from it.
fn slot_of(at: Timestamp, ahead: f64) -> u64 {
    ((at.0 as f64 / 1e6 + ahead).max(0.0) / SLOT_SEC) as u64
}
