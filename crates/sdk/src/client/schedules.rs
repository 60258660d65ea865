//! Tasks that come by themselves: schedules on the server, set from types of ours.

use std::time::Duration;

use divvy_types::schedule::{CatchUp, Overlap, Schedule, ScheduleView, Template};
use divvy_types::view::Page;
use divvy_types::{Name, Timestamp};
use serde::Deserialize;

use super::{Client, Error, Reply, TaskHandle};
use crate::task::{Task, TaskOptions, clock};

/// The schedules of a server.
///
/// ```no_run
/// # use divvy::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Report { days: u32 }
/// # impl Task for Report { const KIND: &'static str = "report"; type Output = (); }
/// # async fn example(client: Client) -> Result<(), divvy::Error> {
/// let nightly = NewSchedule::cron("0 3 * * *", &Report { days: 1 })?
///     .zone("Europe/Berlin")
///     .catch_up(CatchUp::Last)
///     .overlap(Overlap::Skip);
/// let view = client.schedules().set("nightly", nightly).await?;
/// println!("{}, next {}", view.words, view.next[0].local);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Schedules {
    client: Client,
}

/// A schedule to set.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    schedule: Schedule,
}

#[derive(Deserialize)]
struct TriggeredBody {
    task: divvy_types::TaskId,
}

impl Client {
    /// The schedules of the server: tasks that come by themselves.
    pub fn schedules(&self) -> Schedules {
        Schedules { client: self.clone() }
    }
}

impl Schedules {
    /// Sets a schedule, new or again; returns when that is durable, with its next ticks.
    ///
    /// Its ticks count from now on, so it may be set at every start of a program. One that was paused stays so unless
    /// [`NewSchedule::paused`] says otherwise.
    pub async fn set(&self, name: &str, schedule: NewSchedule) -> Result<ScheduleView, Error> {
        self.client.api().put(&["schedules", name], &schedule.schedule).await?.parse()
    }

    /// All schedules, by name.
    pub async fn list(&self) -> Result<Vec<ScheduleView>, Error> {
        let reply = self.client.api().get(&["schedules"], &[]).await?;
        let page: Page<ScheduleView> = reply.parse()?;
        Ok(page.items)
    }

    /// One schedule.
    pub async fn get(&self, name: &str) -> Result<ScheduleView, Error> {
        self.client.api().get(&["schedules", name], &[]).await?.parse()
    }

    /// Lets a schedule rest.
    pub async fn pause(&self, name: &str) -> Result<ScheduleView, Error> {
        self.ask(name, "pause").await?.parse()
    }

    /// Lets a schedule tick again; ticks of the rest are not made up for.
    pub async fn resume(&self, name: &str) -> Result<ScheduleView, Error> {
        self.ask(name, "resume").await?.parse()
    }

    /// Forgets a schedule; tasks that it submitted stay.
    pub async fn remove(&self, name: &str) -> Result<(), Error> {
        self.client.api().delete(&["schedules", name]).await?;
        Ok(())
    }

    /// Submits the task of a schedule now, whatever its calendar says.
    pub async fn trigger(&self, name: &str) -> Result<TaskHandle<serde_json::Value>, Error> {
        let body: TriggeredBody = self.ask(name, "trigger").await?.parse()?;
        Ok(self.client.task(body.task))
    }

    async fn ask(&self, name: &str, verb: &str) -> Result<Reply, Error> {
        self.client.api().post(&["schedules", name, verb], &serde_json::json!({})).await
    }
}

impl NewSchedule {
    /// Submits `task`, with the options of its type, at every tick of a cron expression, of a macro such as `@daily`, or
    /// of `@every 90s`.
    ///
    /// Each task gets the time of its tick as `run_at`. Times, dependencies and an id among the options of the type are
    /// left out.
    pub fn cron<T: Task>(expression: &str, task: &T) -> Result<Self, Error> {
        Self::with(expression, task, T::options())
    }

    /// The same with other options.
    pub fn with<T: Task>(expression: &str, task: &T, options: TaskOptions) -> Result<Self, Error> {
        let template = Template::of(options.spec(task, clock())?);
        Ok(Self { schedule: Schedule::new(expression, template) })
    }

    /// Submits `task` every so often, in whole seconds.
    pub fn every<T: Task>(span: Duration, task: &T) -> Result<Self, Error> {
        Self::cron(&format!("@every {}s", span.as_secs()), task)
    }

    /// On the clocks of this IANA time zone instead of UTC.
    pub fn zone(mut self, zone: impl Into<Name>) -> Self {
        self.schedule.zone = zone.into();
        self
    }

    /// What becomes of ticks that were missed; they are dropped by default.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.schedule.catch_up = catch_up;
        self
    }

    /// What becomes of a tick while the task of the last one is open; another is submitted by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.schedule.overlap = overlap;
        self
    }

    /// No tick before this time.
    pub fn start(mut self, start: Timestamp) -> Self {
        self.schedule.start = Some(start);
        self
    }

    /// No tick after this time.
    pub fn end(mut self, end: Timestamp) -> Self {
        self.schedule.end = Some(end);
        self
    }

    /// Tasks come up to this long after their tick, always the same for the same tick.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.schedule.jitter_ms = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Each task should be done this long after its tick.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.schedule.task.deadline_ms =
            Some(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Whether it rests.
    pub fn paused(mut self, paused: bool) -> Self {
        self.schedule.paused = Some(paused);
        self
    }
}
