//! What people and programs ask about tasks: submit, cancel, retry, replay, drop.
//!
//! Finds where the task is, and either tells the scheduler or explains why not. What a change means for other tasks is
//! the scheduler's to decide.

use std::sync::Arc;

use divvy_scheduler::Input;
use divvy_scheduler::input::RecoveredTask;
use divvy_store::TaskRecord;
use divvy_types::fact::Replay;
use divvy_types::limits::LATE_LISTED_MAX;
use divvy_types::{Fact, Name, OpenTask, Submitted, TaskId, TaskSpec, TaskState};
use tokio::sync::oneshot;

use crate::core::{Core, Known, Unresolved};
use crate::locate::{Deadlines, Located, Resolved};
use crate::request::{Error, Reply, Request, SubmitOptions};
use crate::settings;

impl Core {
    pub(crate) fn submit(
        &mut self,
        specs: Vec<TaskSpec>,
        options: SubmitOptions,
        reply: Reply<Submitted>,
    ) -> Result<(), Error> {
        if let Some(error) = self.stats.refusal() {
            let _ = reply.send(Err(error));
            return Ok(());
        }
        if !self.has_room_for(&specs)? {
            let _ = reply.send(Err(Error::MemoryFull));
            return Ok(());
        }
        if self.waits_for_workflow_facts(&specs, false) {
            self.deferred.push(Request::Submit { specs, options, reply });
            return Ok(());
        }
        let deadlines = if options.strict { Deadlines::Enforce } else { Deadlines::Tell };
        match self.resolve_batch(specs, None, deadlines)? {
            Ok(Resolved { tasks, known, conflicts, replaced, mut late }) => {
                self.look_up_workflows(&tasks, false)?;
                let late_total = late.len() as u32;
                late.truncate(LATE_LISTED_MAX);
                let accepted = tasks.len() as u32;
                let submitted = Submitted { accepted, known, conflicts, late, late_total };
                if !tasks.is_empty() {
                    self.feed(Input::TasksSubmitted(tasks));
                }
                self.cancel_replaced(replaced)?;
                self.park(reply, Ok(submitted));
            }
            Err(Unresolved::Refused(error)) => {
                self.park(reply, Err(error.into()));
            }
            Err(Unresolved::Departing(specs)) => {
                self.deferred.push(Request::Submit { specs, options, reply })
            }
        }
        Ok(())
    }

    /// Cancels tasks whose unique key went to another, in the step that took that in.
    pub(crate) fn cancel_replaced(&mut self, replaced: Vec<(TaskId, TaskId)>) -> Result<(), Error> {
        for (task, by) in replaced {
            let reason = format!("replaced by task {by}, which has its unique key").into();
            // Nobody waits for this answer: a task that has ended meanwhile needs no cancel.
            let (reply, _) = oneshot::channel();
            self.cancel(task, reason, reply)?;
        }
        Ok(())
    }

    pub(crate) fn cancel(
        &mut self,
        id: TaskId,
        reason: Name,
        reply: Reply<TaskState>,
    ) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::Cancel { id, reason, reply }),
            Located::Open(seq) if self.scheduler.spec(seq).is_some() => {
                self.feed(Input::CancelRequested { seq, reason });
                let state = self.scheduler.state(seq).unwrap_or(TaskState::Cancelled);
                self.park(reply, Ok(state));
            }
            Located::Open(_) => {
                self.park(reply, Err(conflict(id, TaskState::Done, "nothing is left to cancel")));
            }
            Located::Stored(record) => match &record.outcome {
                Some(outcome) => {
                    self.park(reply, Err(conflict(id, outcome.state, "nothing is left to cancel")));
                }
                None => {
                    // It waits in the store: nothing but the record and its dependents has to know.
                    self.cancel_spilled(&record, reason);
                    self.park(reply, Ok(TaskState::Cancelled));
                }
            },
            Located::Unknown => {
                self.park(reply, Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    pub(crate) fn retry(&mut self, id: TaskId, reply: Reply<TaskState>) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::Retry { id, reply }),
            Located::Open(seq) => match self.scheduler.state(seq) {
                Some(TaskState::Scheduled) => {
                    self.feed(Input::RunNowRequested { seq });
                    let state = self.scheduler.state(seq).unwrap_or(TaskState::Ready);
                    self.park(reply, Ok(state));
                }
                state => {
                    let problem = "only a dead, cancelled or scheduled task can be retried";
                    self.park(reply, Err(conflict(id, state.unwrap_or(TaskState::Done), problem)));
                }
            },
            Located::Stored(record) => {
                let problem = "only a dead, cancelled or scheduled task can be retried";
                self.put_back(*record, Replay::default(), problem, reply)?;
            }
            Located::Unknown => {
                self.park(reply, Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    pub(crate) fn replay(
        &mut self,
        id: TaskId,
        replay: Replay,
        reply: Reply<TaskState>,
    ) -> Result<(), Error> {
        const PROBLEM: &str = "only a dead or cancelled task can be replayed";
        match self.locate(id)? {
            Located::Departing => {
                self.deferred.push(Request::Replay { id, replay: Box::new(replay), reply });
            }
            Located::Open(seq) => {
                let state = self.scheduler.state(seq).unwrap_or(TaskState::Done);
                self.park(reply, Err(conflict(id, state, PROBLEM)));
            }
            Located::Stored(record) => self.put_back(*record, replay, PROBLEM, reply)?,
            Located::Unknown => {
                self.park(reply, Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    /// Opens a task that is dead or cancelled; `problem` says why no other can be.
    fn put_back(
        &mut self,
        record: TaskRecord,
        replay: Replay,
        problem: &'static str,
        reply: Reply<TaskState>,
    ) -> Result<(), Error> {
        let TaskRecord { seq, submitted_at, mut spec, spawned_by, outcome, .. } = record;
        let id = spec.id;
        let ended = match outcome.map(|end| end.state) {
            Some(state @ (TaskState::Dead | TaskState::Cancelled)) => state,
            state => {
                self.park(reply, Err(conflict(id, state.unwrap_or(TaskState::Ready), problem)));
                return Ok(());
            }
        };
        if self.keys.is_taken_from(self.now, id, &spec) {
            let problem = "another task has its unique key now; wait for that or cancel it";
            self.park(reply, Err(conflict(id, ended, problem)));
            return Ok(());
        }
        if replay.keep_edges && self.has_departing_parent(&spec) {
            self.deferred.push(Request::Replay { id, replay: Box::new(replay), reply });
            return Ok(());
        }
        if let Some(payload) = &replay.payload {
            spec.payload = payload.clone();
            settings::need_program(&mut spec);
        }
        if !self.scheduler.has_room_in_memory([&spec].into_iter()) {
            self.park(reply, Err(Error::MemoryFull));
            return Ok(());
        }
        let checkpointed = replay.payload.is_none() && self.reader.checkpoint(seq)?.is_some();
        let parents = if replay.keep_edges { self.parents_of_stored(&spec)? } else { Vec::new() };
        self.keys.take(seq, submitted_at, &spec);
        self.ids.insert(id, Known::open(seq));
        let at_once = replay.due.is_none();
        let open = OpenTask {
            spawned_by,
            checkpointed,
            retry_at: replay.due,
            replayed: !replay.keep_edges,
            ..OpenTask::new(seq, Arc::new(spec), submitted_at)
        };
        let task = RecoveredTask { open, parents };
        self.feed(Input::TaskReplayed(task, replay));
        if at_once && self.scheduler.state(seq) == Some(TaskState::Scheduled) {
            self.feed(Input::RunNowRequested { seq });
        }
        let state = self.scheduler.state(seq).unwrap_or(TaskState::Ready);
        self.park(reply, Ok(state));
        Ok(())
    }

    pub(crate) fn reprioritise(
        &mut self,
        id: TaskId,
        priority: u8,
        reply: Reply<TaskState>,
    ) -> Result<(), Error> {
        const WAITING: &str = "only a task that waits can have another priority";
        const FAR: &str = "it waits in the store, behind more ready tasks than fit into memory; its priority can be changed when it is nearer";
        match self.locate(id)? {
            Located::Departing => {
                self.deferred.push(Request::Reprioritise { id, priority, reply });
            }
            Located::Open(seq) => match self.scheduler.state(seq) {
                Some(state @ (TaskState::Blocked | TaskState::Scheduled | TaskState::Ready)) => {
                    self.feed(Input::PriorityChanged { seq, priority });
                    self.park(reply, Ok(state));
                }
                state => {
                    self.park(reply, Err(conflict(id, state.unwrap_or(TaskState::Done), WAITING)));
                }
            },
            Located::Stored(record) => {
                let end = record.outcome.map(|end| end.state);
                let problem = if end.is_some() { WAITING } else { FAR };
                self.park(reply, Err(conflict(id, end.unwrap_or(TaskState::Ready), problem)));
            }
            Located::Unknown => {
                self.park(reply, Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    pub(crate) fn drop_dead(&mut self, id: TaskId, reply: Reply<TaskState>) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::DropDead { id, reply }),
            Located::Stored(record)
                if record.outcome.as_ref().is_some_and(|o| o.state == TaskState::Dead) =>
            {
                // A second request must not find it dead again before the first is durable.
                self.ids.insert(id, Known { seq: record.seq, departing: true });
                self.group.forgotten.push((id, record.seq));
                self.group.facts.push(Fact::Dropped { seq: record.seq, at: self.now });
                self.park(reply, Ok(TaskState::Cancelled));
            }
            Located::Unknown => {
                self.park(reply, Err(Error::NotFound(id.to_string())));
            }
            located => {
                let state = match located {
                    Located::Open(seq) => self.scheduler.state(seq),
                    Located::Stored(record) => record.outcome.map(|o| o.state),
                    Located::Departing | Located::Unknown => None,
                };
                self.park(
                    reply,
                    Err(conflict(id, state.unwrap_or(TaskState::Ready), "it is not a dead letter")),
                );
            }
        }
        Ok(())
    }
}

fn conflict(task: TaskId, state: TaskState, problem: &'static str) -> Error {
    Error::Conflict { task, state, problem }
}
