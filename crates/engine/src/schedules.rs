//! Schedules: which ticks are due, and what becomes of those that were missed.
//!
//! Pure: time is an argument, and nothing is submitted or written here; that is `schedule_requests`. A schedule stands at
//! `upto`: all its ticks up to then have been dealt with. The next one, with its jitter, is in a list of timers, whose
//! first is what the engine's loop waits for, so a server without schedules waits for nothing.
//!
//! **Missed ticks.** A tick is missed if another one is due by the time it is looked at, or if it is looked at more than
//! [`LATE_MS_MAX`] late: the server was down, or its clock was set forward. [`CatchUp`] says what becomes of it. A clock
//! that is set back fires nothing again: `upto` stays where it is. Only at a start is an `upto` that lies further ahead
//! than [`AHEAD_MS_MAX`], left by a clock that was wrong, brought back, so that the schedule is not silent until then.
//!
//! **Once per tick.** A tick's task has an id made of the schedule's name and the tick, and is written in one commit
//! with the new `upto`. If that were lost, the id would be known all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_calendar::Calendar;
use divvy_calendar::calendar::InvalidCalendar;
use divvy_types::limits::{CATCH_UP_MAX, JITTER_MS_MAX, SCHEDULE_NAME_LEN_MAX};
use divvy_types::schedule::{CatchUp, RefusedTick, Schedule, ScheduleView, Tick};
use divvy_types::spec::check_name;
use divvy_types::{Name, SpecError, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// A tick that is looked at later than this is missed.
pub const LATE_MS_MAX: u64 = 60_000;
/// A schedule that has come further ahead than this did so by a clock that was wrong.
pub const AHEAD_MS_MAX: u64 = 86_400_000;
/// Ticks whose distances a jitter is compared with.
const DISTANCES: usize = 16;
/// Where those are looked for: any time will do.
const SOME_TIME: Timestamp = Timestamp(1_767_225_600_000_000);
/// Newest ticks that are looked at where only the last matters: jitter may keep some of them from being due.
const NEWEST: usize = 8;
/// Ticks that a view shows.
const NEXT_SHOWN: usize = 5;

const SCHEDULE_KEY: &str = "schedule/";
const TICK_KEY: &str = "schedule-tick/";

/// All schedules of a server.
#[derive(Default)]
pub struct Schedules {
    entries: BTreeMap<Name, Entry>,
    timers: BTreeSet<(Timestamp, Name)>,
    /// How far each schedule was, until all have been recovered.
    recovered: BTreeMap<Name, Position>,
}

/// One schedule and where it stands.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) schedule: Arc<Schedule>,
    calendar: Arc<Calendar>,
    set_at: Timestamp,
    pub(crate) position: Position,
    timer: Option<Timestamp>,
}

/// How far a schedule is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// All ticks up to this have been dealt with.
    pub(crate) upto: Timestamp,
    /// The task that was submitted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskId>,
    /// The last tick, if its task was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<RefusedTick>,
}

/// A schedule as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    set_at: Timestamp,
    schedule: Schedule,
}

/// What to do about the ticks of one schedule.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Ticks to submit a task for.
    pub(crate) fire: Vec<Timestamp>,
    /// The last tick that is dealt with then, if any is.
    pub(crate) upto: Option<Timestamp>,
    /// Whether ticks were dropped.
    pub(crate) missed: bool,
}

/// Checks a schedule whole; returns when its ticks are.
pub fn check(name: &str, schedule: &Schedule) -> Result<Calendar, SpecError> {
    check_name("name", name, SCHEDULE_NAME_LEN_MAX)?;
    let calendar = Calendar::new(&schedule.cron, &schedule.zone).map_err(|error| match error {
        InvalidCalendar::Expression(error) => SpecError::field("cron", error.to_string()),
        InvalidCalendar::Zone(error) => SpecError::field("zone", error.to_string()),
    })?;
    schedule.task.validate()?;
    if let (Some(start), Some(end)) = (schedule.start, schedule.end)
        && end < start
    {
        return Err(SpecError::field("end", format!("is before start, which is {start}")));
    }
    if schedule.jitter_ms > JITTER_MS_MAX {
        let problem = format!("is {}, at most {JITTER_MS_MAX}", schedule.jitter_ms);
        return Err(SpecError::field("jitter_ms", problem));
    }
    let ticks: Vec<Timestamp> = calendar.ticks_after(SOME_TIME).take(DISTANCES).collect();
    let shortest = ticks.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1_000).min();
    if let Some(shortest) = shortest.filter(|shortest| schedule.jitter_ms >= *shortest) {
        let problem = format!(
            "is {}, but two ticks are only {shortest} ms apart; make it shorter",
            schedule.jitter_ms
        );
        return Err(SpecError::field("jitter_ms", problem));
    }
    Ok(calendar)
}

/// What people would see of a schedule if it was set now, and not paused.
///
/// # Errors
/// If it makes no sense.
pub fn preview(now: Timestamp, name: &Name, schedule: Schedule) -> Result<ScheduleView, SpecError> {
    let calendar = check(name, &schedule)?;
    let mut alone = Schedules::default();
    alone.set(now, name, Schedule { paused: Some(false), ..schedule }, calendar);
    Ok(alone.entries[name].view(name, now))
}

/// The id of a tick's task: the same for the same tick, always.
pub fn tick_id(name: &str, tick: Timestamp) -> TaskId {
    TaskId::from_key(&format!("divvy/schedule\0{name}\0{}", tick.0))
}

/// The key of a schedule among the settings of the store.
pub(crate) fn schedule_key(name: &str) -> Name {
    format!("{SCHEDULE_KEY}{name}").into()
}

/// The key of how far a schedule is.
pub(crate) fn tick_key(name: &str) -> Name {
    format!("{TICK_KEY}{name}").into()
}

impl Schedules {
    /// When the next tick wants to be looked at.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Entry)> {
        self.entries.iter()
    }

    /// The first schedule with a tick to look at.
    pub(crate) fn first_due(&self, now: Timestamp) -> Option<Name> {
        self.timers.first().filter(|(at, _)| *at <= now).map(|(_, name)| name.clone())
    }

    /// Sets a schedule, whose ticks count from now on.
    pub(crate) fn set(
        &mut self,
        now: Timestamp,
        name: &Name,
        mut schedule: Schedule,
        calendar: Calendar,
    ) {
        let before = self.entries.get(name);
        let paused = schedule.paused.or_else(|| before.map(|entry| entry.schedule.is_paused()));
        schedule.paused = Some(paused.unwrap_or(false));
        schedule.zone = calendar.zone().name().into();
        let task = before.and_then(|entry| entry.position.task);
        let position = Position { upto: now, task, refused: None };
        let (schedule, calendar) = (Arc::new(schedule), Arc::new(calendar));
        let timer = self.entries.get(name).and_then(|entry| entry.timer);
        let entry = Entry { schedule, calendar, set_at: now, position, timer };
        self.entries.insert(name.clone(), entry);
        self.rearm(name);
    }

    /// Pauses or resumes; ticks of a pause are never made up for. Says whether there is such a schedule.
    pub(crate) fn set_paused(&mut self, now: Timestamp, name: &Name, paused: bool) -> bool {
        let Some(entry) = self.entries.get_mut(name) else { return false };
        Arc::make_mut(&mut entry.schedule).paused = Some(paused);
        entry.position.upto = now;
        self.rearm(name);
        true
    }

    pub(crate) fn remove(&mut self, name: &Name) -> bool {
        let Some(entry) = self.entries.remove(name) else { return false };
        if let Some(timer) = entry.timer {
            self.timers.remove(&(timer, name.clone()));
        }
        true
    }

    /// What to do about the ticks of a schedule that are due.
    pub(crate) fn plan(&self, now: Timestamp, name: &Name) -> Plan {
        self.entries.get(name).map_or_else(Plan::default, |entry| entry.plan(now, name))
    }

    /// Ticks up to `upto` have been dealt with.
    pub(crate) fn advance(&mut self, name: &Name, upto: Timestamp) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.position.upto = entry.position.upto.max(upto);
        }
        self.rearm(name);
    }

    /// A task was submitted.
    pub(crate) fn submitted(&mut self, name: &Name, task: TaskId) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.position.task = Some(task);
            entry.position.refused = None;
        }
    }

    /// The task of a tick was refused.
    pub(crate) fn refused(&mut self, name: &Name, at: Timestamp, problem: String) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.position.refused = Some(RefusedTick { at, problem });
        }
    }

    /// Schedules whose last tick was refused, and why.
    pub fn all_refused(&self) -> impl Iterator<Item = (&Name, &str)> {
        self.entries.iter().filter_map(|(name, entry)| {
            Some((name, entry.position.refused.as_ref()?.problem.as_str()))
        })
    }

    /// Looks at a schedule again at `until` at the earliest.
    pub(crate) fn put_off(&mut self, name: &Name, until: Timestamp) {
        self.arm(name, Some(until));
    }

    /// What the store is told of a schedule.
    pub(crate) fn stored(&self, name: &Name) -> Option<Name> {
        let entry = self.entries.get(name)?;
        let stored = Stored { set_at: entry.set_at, schedule: Schedule::clone(&entry.schedule) };
        serde_json::to_string(&stored).ok().map(Name::from)
    }

    /// What the store is told of how far a schedule is.
    pub(crate) fn stored_position(&self, name: &Name) -> Option<Name> {
        serde_json::to_string(&self.entries.get(name)?.position).ok().map(Name::from)
    }

    /// Takes one setting of the store, if it is about schedules. One that cannot be read is named and left alone, so
    /// that it does not keep the server from starting.
    pub(crate) fn recover(&mut self, key: &str, value: &str) {
        if let Some(name) = key.strip_prefix(SCHEDULE_KEY) {
            let found = serde_json::from_str::<Stored>(value)
                .map_err(|error| error.to_string())
                .and_then(|stored| match check(name, &stored.schedule) {
                    Ok(calendar) => Ok((stored, calendar)),
                    Err(error) => Err(error.to_string()),
                });
            match found {
                Ok((Stored { set_at, schedule }, calendar)) => {
                    let position = Position { upto: set_at, task: None, refused: None };
                    let (schedule, calendar) = (Arc::new(schedule), Arc::new(calendar));
                    let entry = Entry { schedule, calendar, set_at, position, timer: None };
                    self.entries.insert(name.into(), entry);
                }
                Err(error) => {
                    tracing::error!(schedule = name, error, "a schedule cannot be read; it rests");
                }
            }
        } else if let Some(name) = key.strip_prefix(TICK_KEY) {
            match serde_json::from_str(value) {
                Ok(position) => {
                    self.recovered.insert(name.into(), position);
                }
                Err(error) => {
                    tracing::error!(schedule = name, %error, "its last tick cannot be read");
                }
            }
        }
    }

    /// Everything of the store has been seen: the clocks may run.
    pub(crate) fn recovered(&mut self, now: Timestamp) {
        for (name, mut position) in std::mem::take(&mut self.recovered) {
            if position.upto > now.plus_ms(AHEAD_MS_MAX) {
                tracing::warn!(schedule = %name, upto = %position.upto, "its last tick lies ahead, so a clock was wrong; it goes on from now");
                position.upto = now;
            }
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.position = position;
            }
        }
        let names: Vec<Name> = self.entries.keys().cloned().collect();
        names.iter().for_each(|name| self.rearm(name));
    }

    fn rearm(&mut self, name: &Name) {
        let due = self.entries.get(name).and_then(|entry| entry.next_due(name));
        self.arm(name, due);
    }

    fn arm(&mut self, name: &Name, timer: Option<Timestamp>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        if let Some(before) = std::mem::replace(&mut entry.timer, timer) {
            self.timers.remove(&(before, name.clone()));
        }
        if let Some(timer) = timer {
            self.timers.insert((timer, name.clone()));
        }
    }
}

impl Entry {
    /// What people see of it, with ticks after `now`.
    pub(crate) fn view(&self, name: &Name, now: Timestamp) -> ScheduleView {
        let ticks = self.calendar.ticks_after(self.from().max(now));
        let shown = if self.schedule.is_paused() { 0 } else { NEXT_SHOWN };
        let next = ticks.take_while(|tick| self.is_before_end(*tick)).take(shown);
        ScheduleView {
            name: name.clone(),
            schedule: Schedule::clone(&self.schedule),
            words: self.calendar.describe(),
            next: next.map(|at| Tick { at, local: self.calendar.local(at) }).collect(),
            upto: self.position.upto,
            last_task: self.position.task,
            refused: self.position.refused.clone(),
            set_at: self.set_at,
        }
    }

    /// Ticks after this count: none that was dealt with, and none before the start.
    fn from(&self) -> Timestamp {
        let start = self.schedule.start.map_or(0, |start| start.0.saturating_sub(1));
        self.position.upto.max(Timestamp(start))
    }

    fn is_before_end(&self, tick: Timestamp) -> bool {
        self.schedule.end.is_none_or(|end| tick <= end)
    }

    fn next_due(&self, name: &str) -> Option<Timestamp> {
        if self.schedule.is_paused() {
            return None;
        }
        let tick =
            self.calendar.next_after(self.from()).filter(|tick| self.is_before_end(*tick))?;
        Some(self.due(name, tick))
    }

    /// A tick with its jitter.
    fn due(&self, name: &str, tick: Timestamp) -> Timestamp {
        match self.schedule.jitter_ms {
            0 => tick,
            most => tick.plus_ms((tick_id(name, tick).0 % u128::from(most + 1)) as u64),
        }
    }

    fn plan(&self, now: Timestamp, name: &str) -> Plan {
        if self.schedule.is_paused() {
            return Plan::default();
        }
        let until = self.schedule.end.map_or(now, |end| end.min(now));
        let catch_up = self.schedule.catch_up;
        let most = if catch_up == CatchUp::All { CATCH_UP_MAX } else { NEWEST };
        let mut found = self.calendar.newest_between(self.from(), until, most);
        while found.ticks.pop_if(|tick| self.due(name, *tick) > now).is_some() {}
        let Some(last) = found.ticks.last().copied() else { return Plan::default() };
        let late = self.due(name, last).plus_ms(LATE_MS_MAX) < now;
        let several = found.ticks.len() > 1 || found.cut;
        let (fire, missed) = match catch_up {
            CatchUp::All => (found.ticks, found.cut),
            CatchUp::Skip if late => (Vec::new(), true),
            CatchUp::Skip => (vec![last], several),
            CatchUp::Last => (vec![last], false),
        };
        Plan { fire, upto: Some(last), missed }
    }
}
