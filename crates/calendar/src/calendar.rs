//! An expression in a time zone: which moments it means.
//!
//! **Clocks that are set.** Time is walked in stretches between two changes of a zone's clock, within which the clock
//! on the wall runs evenly:
//!
//! - *Set forward* (a gap): a local time that does not exist ticks at the first moment after the gap, once for all such
//!   times of the gap. If the hours go round (`*`, `*/2`), it does not: the hours before and after it tick anyway.
//! - *Set back* (an hour twice): a local time that exists twice ticks the first time only. If the hours or the minutes
//!   go round, it ticks both times: such an expression means "so often", not "at that time".

use divvy_types::Timestamp;
use jiff::ToSpan as _;
use jiff::civil::DateTime;

use crate::cron::{Cron, YEARS_MAX};
use crate::expression::{Expression, InvalidExpression};
use crate::words;
use crate::zone::{InvalidZone, Zone};

const MICROS: u64 = 1_000_000;

/// When something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    expression: Expression,
    zone: Zone,
}

/// Why there is no such calendar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCalendar {
    /// The expression is wrong.
    #[error(transparent)]
    Expression(#[from] InvalidExpression),
    /// The zone is wrong.
    #[error(transparent)]
    Zone(#[from] InvalidZone),
}

/// Ticks between two times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// The newest ones, in order.
    pub ticks: Vec<Timestamp>,
    /// Whether there were older ones that were left out.
    pub cut: bool,
}

impl Calendar {
    /// The calendar of an expression in a zone.
    pub fn new(expression: &str, zone: &str) -> Result<Self, InvalidCalendar> {
        Ok(Self { expression: expression.parse()?, zone: zone.parse()? })
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What it means, in words.
    pub fn describe(&self) -> String {
        let text = words::describe(&self.expression);
        match self.expression {
            Expression::Cron(_) => format!("{text}, {} time", self.zone),
            Expression::Every(_) => text,
        }
    }

    /// The next tick after `after`, or nothing if there is none in sight.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let second = match &self.expression {
            Expression::Every(span) => {
                (after.0 / MICROS / span).checked_add(1)?.checked_mul(*span)?
            }
            Expression::Cron(cron) => {
                let after = i64::try_from(after.0 / MICROS).ok()?;
                u64::try_from(self.next_of(cron, after)?).ok()?
            }
        };
        let tick = Timestamp(second.checked_mul(MICROS)?);
        (tick <= Timestamp::MAX).then_some(tick)
    }

    /// The ticks after `after`, one by one.
    pub fn ticks_after(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        let mut last = after;
        std::iter::from_fn(move || {
            last = self.next_after(last)?;
            Some(last)
        })
    }

    /// The last tick after `after` that is not after `until`.
    ///
    /// The tick after a time grows with the time, so this halves the span instead of walking it.
    pub fn last_between(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if until <= after {
            return None;
        }
        let tick =
            |second: u64| self.next_after(Timestamp(second * MICROS)).filter(|t| *t <= until);
        let (mut low, mut high) = (after.0 / MICROS, until.0 / MICROS);
        let mut found = tick(low)?;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match tick(middle) {
                Some(later) => (low, found) = (middle, later),
                None => high = middle,
            }
        }
        Some(found)
    }

    /// The ticks after `after` that are not after `until`: the newest `max` of them.
    pub fn newest_between(&self, after: Timestamp, until: Timestamp, max: usize) -> Ticks {
        let ticks: Vec<Timestamp> =
            self.ticks_after(after).take_while(|tick| *tick <= until).take(max + 1).collect();
        if ticks.len() <= max {
            return Ticks { ticks, cut: false };
        }
        let mut newest = Vec::with_capacity(max);
        let mut before = until;
        while newest.len() < max
            && let Some(tick) = self.last_between(after, before)
        {
            newest.push(tick);
            before = Timestamp(tick.0.saturating_sub(1));
        }
        newest.reverse();
        Ticks { ticks: newest, cut: true }
    }

    /// A moment on the clocks of the zone, in RFC 3339 with its offset.
    pub fn local(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%dT%H:%M:%S%:z")
    }

    /// A moment on the clocks of the zone, for people: `Tue 2026-11-17 03:00:00 CET`.
    pub fn local_words(&self, at: Timestamp) -> String {
        self.format(at, "%a %Y-%m-%d %H:%M:%S %Z")
    }

    fn format(&self, at: Timestamp, format: &str) -> String {
        let moment = jiff::Timestamp::from_microsecond(at.0.min(Timestamp::MAX.0) as i64);
        moment.map_or_else(
            |_| at.to_string(),
            |moment| moment.to_zoned(self.zone.rules.clone()).strftime(format).to_string(),
        )
    }

    /// The next tick of a cron expression after a second, in seconds.
    fn next_of(&self, cron: &Cron, after: i64) -> Option<i64> {
        let rules = &self.zone.rules;
        let mut at = jiff::Timestamp::from_second(after).ok()?;
        let mut offset = rules.to_offset(at);
        let mut from = offset.to_datetime(at).checked_add(1.second()).ok()?;
        let last_year = from.year().saturating_add(YEARS_MAX);
        loop {
            if !cron.goes_round()
                && let Some(shown) = self.shown_before(at)
            {
                from = from.max(shown);
            }
            let found = cron.next(from)?;
            let moment = offset.to_timestamp(found).ok()?;
            let Some(change) = rules.following(at).next() else {
                return Some(moment.as_second());
            };
            if moment < change.timestamp() {
                return Some(moment.as_second());
            }
            at = change.timestamp();
            let gap_start = offset.to_datetime(at);
            offset = change.offset();
            from = offset.to_datetime(at);
            let falls_into_gap = found >= gap_start && found < from;
            if falls_into_gap && !cron.is_hourly() {
                return Some(at.as_second());
            }
            if from.year() > last_year {
                return None;
            }
        }
    }

    /// If the clock was last set back: the local time up to which it had already shown everything.
    fn shown_before(&self, at: jiff::Timestamp) -> Option<DateTime> {
        let rules = &self.zone.rules;
        let just_after = at.checked_add(1.nanosecond()).ok()?;
        let change = rules.preceding(just_after).next()?.timestamp();
        let before = rules.to_offset(change.checked_sub(1.second()).ok()?);
        Some(before.to_datetime(change))
    }
}
