//! What people and programs ask about tasks: submit, cancel, retry, drop.
//!
//! Finds where the task is, and either tells the scheduler or explains why not. What a change means for other tasks is
//! the scheduler's to decide.

use std::sync::Arc;

use divvy_scheduler::Input;
use divvy_scheduler::input::{RecoveredTask, Submission};
use divvy_types::fact::Replay;
use divvy_types::{Fact, Name, TaskId, TaskSpec, TaskState};

use crate::core::{Core, Known, Unresolved};
use crate::locate::Located;
use crate::request::{Error, Reply, Request, Submitted};

impl Core {
    pub(crate) fn submit(
        &mut self,
        specs: Vec<TaskSpec>,
        reply: Reply<Submitted>,
    ) -> Result<(), Error> {
        if self.stats.is_disk_full() {
            let _ = reply.send(Err(Error::DiskFull));
            return Ok(());
        }
        if self.waits_for_workflow_facts(&specs) {
            self.deferred.push(Request::Submit { specs, reply });
            return Ok(());
        }
        match self.resolve_batch(specs)? {
            Ok(batch) => {
                self.look_up_workflows(&batch.tasks)?;
                let submitted =
                    Submitted { accepted: batch.tasks.len() as u32, known: batch.known };
                if !batch.tasks.is_empty() {
                    self.feed(Input::TasksSubmitted(batch.tasks));
                }
                self.park(reply, Ok(submitted));
            }
            Err(Unresolved::Refused(error)) => {
                let _ = reply.send(Err(error.into()));
            }
            Err(Unresolved::Departing(specs)) => {
                self.deferred.push(Request::Submit { specs, reply })
            }
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
                let _ = reply.send(Err(conflict(id, TaskState::Done, "nothing is left to cancel")));
            }
            Located::Stored(record) => match &record.outcome {
                Some(outcome) => {
                    let _ =
                        reply.send(Err(conflict(id, outcome.state, "nothing is left to cancel")));
                }
                None => {
                    // It waits in the store: nothing but the record and its dependents has to know.
                    self.cancel_spilled(&record, reason);
                    self.park(reply, Ok(TaskState::Cancelled));
                }
            },
            Located::Unknown => {
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
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
                    let _ =
                        reply.send(Err(conflict(id, state.unwrap_or(TaskState::Done), problem)));
                }
            },
            Located::Stored(record) => match record.outcome.as_ref().map(|o| o.state) {
                Some(TaskState::Dead | TaskState::Cancelled) => {
                    let seq = record.seq;
                    let task = RecoveredTask {
                        task: Submission { seq, spec: Arc::new(record.spec), parents: Vec::new() },
                        submitted_at: record.submitted_at,
                        spawned_by: record.spawned_by,
                        attempts: 0,
                        lost: 0,
                        checkpointed: false,
                        retry_at: None,
                        held: None,
                        replayed: true,
                    };
                    self.ids.insert(id, Known::open(seq));
                    self.feed(Input::TaskReplayed(task, Replay::default()));
                    if self.scheduler.state(seq) == Some(TaskState::Scheduled) {
                        self.feed(Input::RunNowRequested { seq });
                    }
                    let state = self.scheduler.state(seq).unwrap_or(TaskState::Ready);
                    self.park(reply, Ok(state));
                }
                state => {
                    let problem = "only a dead, cancelled or scheduled task can be retried";
                    let _ =
                        reply.send(Err(conflict(id, state.unwrap_or(TaskState::Ready), problem)));
                }
            },
            Located::Unknown => {
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
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
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
            }
            located => {
                let state = match located {
                    Located::Open(seq) => self.scheduler.state(seq),
                    Located::Stored(record) => record.outcome.map(|o| o.state),
                    Located::Departing | Located::Unknown => None,
                };
                let _ = reply.send(Err(conflict(
                    id,
                    state.unwrap_or(TaskState::Ready),
                    "it is not a dead letter",
                )));
            }
        }
        Ok(())
    }
}

fn conflict(task: TaskId, state: TaskState, problem: &'static str) -> Error {
    Error::Conflict { task, state, problem }
}
