//! What people and programs ask about schedules, and what happens at a tick.
//!
//! When a tick is due is decided in [`crate::schedules`]. Here its task is submitted, and how far the schedule is then
//! is recorded beside it, in the same group.

use divvy_calendar::Calendar;
use divvy_scheduler::Input;
use divvy_types::limits::SCHEDULES_MAX;
use divvy_types::schedule::{Overlap, Schedule, ScheduleView};
use divvy_types::{Fact, Name, SpecError, TaskId, Timestamp};

use crate::core::{Core, Unresolved};
use crate::handle::Handle;
use crate::locate::{Deadlines, Located};
use crate::request::{Error, Reply, Request};
use crate::schedules::{self, schedule_key, tick_id, tick_key};

/// How long a tick waits when there is no room on the disk for its task.
const FULL_RETRY_MS: u64 = 5_000;
/// How long it waits when something that its task names cannot be read.
const UNREAD_RETRY_MS: u64 = 60_000;

/// Something asked about a schedule.
pub enum ScheduleRequest {
    /// Set it, new or again. It passed [`schedules::check`], which gave the calendar.
    Set {
        /// Its name.
        name: Name,
        /// What it is.
        schedule: Box<Schedule>,
        /// When its ticks are.
        calendar: Box<Calendar>,
        /// Sent when that is durable.
        reply: Reply<()>,
    },
    /// Forget it; tasks that it submitted stay.
    Remove {
        /// Its name.
        name: Name,
        /// Sent when that is durable.
        reply: Reply<()>,
    },
    /// Let it rest, or tick again.
    Pause {
        /// Its name.
        name: Name,
        /// Whether it shall rest.
        paused: bool,
        /// Sent when that is durable.
        reply: Reply<()>,
    },
    /// Submit its task now, whatever its calendar says.
    Trigger {
        /// Its name.
        name: Name,
        /// The task, when it is durable.
        reply: Reply<TaskId>,
    },
}

impl From<ScheduleRequest> for Request {
    fn from(request: ScheduleRequest) -> Self {
        Self::Schedule(request)
    }
}

impl Core {
    pub(crate) fn schedule(&mut self, request: ScheduleRequest) -> Result<(), Error> {
        // A tick that is due before the request must not be lost to it.
        self.fire_due()?;
        match request {
            ScheduleRequest::Set { name, schedule, calendar, reply } => {
                if let Some(error) = self.stats.refusal() {
                    let _ = reply.send(Err(error));
                } else if self.schedules.get(&name).is_none()
                    && self.schedules.len() >= SCHEDULES_MAX
                {
                    self.park(reply, Err(Error::TooManySchedules));
                } else {
                    self.schedules.set(self.now, &name, *schedule, *calendar);
                    self.record_schedule(&name);
                    self.park(reply, Ok(()));
                }
            }
            ScheduleRequest::Remove { name, reply } => {
                if self.schedules.remove(&name) {
                    for key in [schedule_key(&name), tick_key(&name)] {
                        self.group.facts.push(Fact::Setting { key, value: None });
                    }
                    self.park(reply, Ok(()));
                } else {
                    self.park(reply, Err(Error::NoSuchSchedule(name.into())));
                }
            }
            ScheduleRequest::Pause { name, paused, reply } => {
                if self.schedules.set_paused(self.now, &name, paused) {
                    self.record_schedule(&name);
                    self.park(reply, Ok(()));
                } else {
                    self.park(reply, Err(Error::NoSuchSchedule(name.into())));
                }
            }
            ScheduleRequest::Trigger { name, reply } => self.trigger(&name, reply)?,
        }
        Ok(())
    }

    /// Submits the tasks of all ticks that are due.
    pub(crate) fn fire_due(&mut self) -> Result<(), Error> {
        while let Some(name) = self.schedules.first_due(self.now) {
            if self.stats.refusal().is_some() {
                self.schedules.put_off(&name, self.now.plus_ms(FULL_RETRY_MS));
                continue;
            }
            let plan = self.schedules.plan(self.now, &name);
            let Some(upto) = plan.upto else {
                // Only its jitter keeps it from being due; nothing is as early as the timer thought.
                self.schedules.put_off(&name, self.now.plus_ms(1));
                continue;
            };
            if plan.missed {
                tracing::warn!(schedule = %name, %upto, "ticks were missed and are not made up for");
                self.schedules.missed(&name, self.now);
            }
            if plan.fire.iter().any(|tick| self.fire(&name, *tick).is_err()) {
                // Something that its task names cannot be read: perhaps later.
                self.schedules.put_off(&name, self.now.plus_ms(UNREAD_RETRY_MS));
                continue;
            }
            self.schedules.advance(&name, upto);
            self.record_position(&name);
        }
        Ok(())
    }

    /// Submits the task of one tick, unless the last one is open and must not be overlapped.
    fn fire(&mut self, name: &Name, tick: Timestamp) -> Result<(), Error> {
        let Some(entry) = self.schedules.get(name) else { return Ok(()) };
        let (schedule, last) = (entry.schedule.clone(), entry.position.task);
        if schedule.overlap == Overlap::Skip
            && let Some(last) = last
            && self.is_open(last)?
        {
            tracing::info!(schedule = %name, %tick, task = %last, "the last task is open: tick skipped");
            return Ok(());
        }
        if let Some(error) = self.submit_scheduled(name, &schedule, tick_id(name, tick), tick)? {
            tracing::error!(schedule = %name, %tick, %error, "the task of a tick was refused");
            self.schedules.refused(name, tick, error.to_string());
        }
        Ok(())
    }

    fn trigger(&mut self, name: &Name, reply: Reply<TaskId>) -> Result<(), Error> {
        let Some(entry) = self.schedules.get(name) else {
            self.park(reply, Err(Error::NoSuchSchedule(name.to_string())));
            return Ok(());
        };
        if let Some(error) = self.stats.refusal() {
            let _ = reply.send(Err(error));
            return Ok(());
        }
        let schedule = entry.schedule.clone();
        // One a microsecond at most, so that two at one moment have ids of their own.
        self.last_trigger = Timestamp(self.last_trigger.0.saturating_add(1)).max(self.now);
        let id = TaskId::from_key(&format!("divvy/trigger\0{name}\0{}", self.last_trigger.0));
        if let Some(error) = self.submit_scheduled(name, &schedule, id, self.now)? {
            self.park(reply, Err(error.into()));
            return Ok(());
        }
        self.record_position(name);
        self.park(reply, Ok(id));
        Ok(())
    }

    /// Submits the task of a schedule; returns why, if that is refused.
    fn submit_scheduled(
        &mut self,
        name: &Name,
        schedule: &Schedule,
        id: TaskId,
        tick: Timestamp,
    ) -> Result<Option<SpecError>, Error> {
        let specs = vec![schedule.task.spec(id, tick)];
        match self.resolve_batch(specs, None, Deadlines::Ignore)? {
            Ok(batch) => {
                // None if the id is known, because the tick has fired before, or if its unique key is taken.
                if !batch.tasks.is_empty() {
                    self.look_up_workflows(&batch.tasks, false)?;
                    self.feed(Input::TasksSubmitted(batch.tasks));
                }
                self.cancel_replaced(batch.replaced)?;
            }
            // The tick has fired before, with another template, or its task is just leaving memory: a template names no
            // other task.
            Err(Unresolved::Departing(_) | Unresolved::Refused(SpecError::IdTaken { .. })) => {}
            Err(Unresolved::Refused(error)) => return Ok(Some(error)),
        }
        self.schedules.submitted(name, id);
        Ok(None)
    }

    fn is_open(&mut self, task: TaskId) -> Result<bool, Error> {
        Ok(match self.locate(task)? {
            Located::Open(_) => true,
            Located::Stored(record) => record.outcome.is_none(),
            Located::Departing | Located::Unknown => false,
        })
    }

    fn record_schedule(&mut self, name: &Name) {
        let value = self.schedules.stored(name);
        self.group.facts.push(Fact::Setting { key: schedule_key(name), value });
        self.record_position(name);
    }

    fn record_position(&mut self, name: &Name) {
        let value = self.schedules.stored_position(name);
        self.group.facts.push(Fact::Setting { key: tick_key(name), value });
    }
}

impl Handle {
    /// Sets a schedule, new or again; returns when that is durable, with its next ticks.
    pub async fn set_schedule(
        &self,
        name: Name,
        schedule: Schedule,
    ) -> Result<ScheduleView, Error> {
        let calendar = Box::new(schedules::check(&name, &schedule)?);
        let (known, schedule) = (name.clone(), Box::new(schedule));
        self.ask(|reply| {
            Request::Schedule(ScheduleRequest::Set { name, schedule, calendar, reply })
        })
        .await?;
        self.schedule(known).await
    }

    /// Forgets a schedule; tasks that it submitted stay.
    pub async fn remove_schedule(&self, name: Name) -> Result<(), Error> {
        self.ask(|reply| ScheduleRequest::Remove { name, reply }.into()).await
    }

    /// Lets a schedule rest, or tick again; ticks of the rest are not made up for.
    pub async fn pause_schedule(&self, name: Name, paused: bool) -> Result<ScheduleView, Error> {
        let known = name.clone();
        self.ask(|reply| ScheduleRequest::Pause { name, paused, reply }.into()).await?;
        self.schedule(known).await
    }

    /// Submits a schedule's task now, whatever its calendar says.
    pub async fn trigger_schedule(&self, name: Name) -> Result<TaskId, Error> {
        self.ask(|reply| ScheduleRequest::Trigger { name, reply }.into()).await
    }

    /// One schedule.
    pub async fn schedule(&self, name: Name) -> Result<ScheduleView, Error> {
        let wanted = name.clone();
        let found =
            self.look(move |core| (core.schedules.get(&wanted).cloned(), core.now())).await?;
        let (Some(entry), now) = found else {
            return Err(Error::NoSuchSchedule(name.into()));
        };
        Ok(entry.view(&name, now))
    }

    /// All schedules, by name.
    pub async fn schedules(&self) -> Result<Vec<ScheduleView>, Error> {
        let (entries, now) = self
            .look(|core| {
                let all = core.schedules.iter().map(|(name, entry)| (name.clone(), entry.clone()));
                (all.collect::<Vec<_>>(), core.now())
            })
            .await?;
        // Ticks are worked out here and not in the loop, which has better things to do.
        Ok(entries.iter().map(|(name, entry)| entry.view(name, now)).collect())
    }
}
