//! What is committed together, and what may leave the process when it is.
//!
//! [`Outlet::release`] lets the effects of a durable group out: it is the only place from which anything leaves.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use divvy_scheduler::Grant;
use divvy_store::{Family, OpenTask, Reader};
use divvy_types::limits::{UPSTREAM_BYTES_MAX, UPSTREAM_ROWS_MAX};
use divvy_types::view::TaskChange;
use divvy_types::{Fact, Lane, Name, Seq, TaskId, TaskSpec, Token, WorkerKey, WorkflowId};
use tokio::sync::broadcast;

use crate::request::{Error, GrantedTask, Outbox, ToWorker};

/// Payload that one load from the spill brings at most, roughly.
const LOAD_BYTES_MAX: usize = 32 << 20;

/// News of how far tasks are that are kept for those who are behind.
pub(crate) const PROGRESS_KEPT: usize = 1_024;

/// Facts, and the effects that wait for them.
#[derive(Default)]
pub struct Group {
    /// What is to be written.
    pub facts: Vec<Fact>,
    pub(crate) connects: Vec<(WorkerKey, Outbox)>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) answers: Vec<(WorkerKey, TaskId, Token, bool)>,
    pub(crate) stops: Vec<(WorkerKey, TaskId, Token, Name)>,
    pub(crate) recalls: Vec<(WorkerKey, TaskId, Token, bool)>,
    pub(crate) drains: Vec<WorkerKey>,
    pub(crate) disconnects: Vec<WorkerKey>,
    pub(crate) replies: Vec<Parked>,
    pub(crate) changes: Vec<Arc<TaskChange>>,
    pub(crate) loads: Vec<Load>,
    pub(crate) forgotten: Vec<(TaskId, Seq)>,
    pub(crate) workflows: Vec<WorkflowId>,
    /// Where the checkpoints among the facts are.
    pub(crate) checkpoints: BTreeMap<(Seq, Token), usize>,
    /// Tasks that are put back by facts of this group, in case the store has just dropped one.
    pub(crate) put_back: Vec<(Seq, Arc<TaskSpec>)>,
}

/// An answer that waits for the facts that it rests on, or for what became of them instead.
pub(crate) type Parked = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A wish for tasks that wait in the store.
pub(crate) struct Load {
    pub(crate) lane: Lane,
    pub(crate) after: Option<Seq>,
    pub(crate) rows: usize,
}

impl Group {
    /// Adds a fact. A checkpoint takes the place of an earlier one of the same attempt, so that a group that waits for
    /// room on the disk does not grow with each of them.
    pub(crate) fn add(&mut self, fact: Fact) {
        if let Fact::Checkpoint { seq, token, .. } = &fact {
            match self.checkpoints.entry((*seq, *token)) {
                Entry::Occupied(earlier) => {
                    self.facts[*earlier.get()] = fact;
                    return;
                }
                Entry::Vacant(first) => drop(first.insert(self.facts.len())),
            }
        }
        self.facts.push(fact);
    }

    /// Whether there is neither anything to write nor anything to let out.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
            && self.connects.is_empty()
            && self.grants.is_empty()
            && self.answers.is_empty()
            && self.stops.is_empty()
            && self.recalls.is_empty()
            && self.drains.is_empty()
            && self.disconnects.is_empty()
            && self.replies.is_empty()
            && self.changes.is_empty()
            && self.loads.is_empty()
            && self.forgotten.is_empty()
            && self.workflows.is_empty()
    }
}

/// What the core has to hear after a group was let out.
#[derive(Default)]
pub struct Released {
    /// Tasks that left the core's memory and are found in the store from now on.
    pub(crate) forgotten: Vec<(TaskId, Seq)>,
    /// Workflows that left the scheduler, whose ends are all found in the store from now on.
    pub(crate) workflows: Vec<WorkflowId>,
    /// Tasks of lanes that were asked for, and whether nothing waits behind them.
    pub(crate) loaded: Vec<(Lane, Vec<OpenTask>, bool)>,
    /// Workers whose outbox is full or closed.
    pub(crate) unreachable: Vec<WorkerKey>,
    /// Grants that did not leave, because what the task needs could not be read, and why.
    pub(crate) ungranted: Vec<(WorkerKey, TaskId, Token, String)>,
}

/// Lets effects out.
pub struct Outlet {
    outboxes: BTreeMap<WorkerKey, Outbox>,
    reader: Box<dyn Reader>,
    watchers: Watchers,
}

/// Those who hear what happens to tasks.
#[derive(Clone)]
pub struct Watchers {
    /// New states.
    pub(crate) changes: broadcast::Sender<Arc<TaskChange>>,
    /// How far running tasks are. What is read too late is gone: newer news follow.
    pub(crate) progress: broadcast::Sender<Arc<TaskChange>>,
}

impl Watchers {
    /// Nobody yet; so many changes are kept for those who are behind.
    pub fn new(kept: usize) -> Self {
        let (changes, progress) = (broadcast::channel(kept).0, broadcast::channel(PROGRESS_KEPT).0);
        Self { changes, progress }
    }

    fn tell(&self, change: Arc<TaskChange>) {
        let hearers = if change.progress.is_some() { &self.progress } else { &self.changes };
        if hearers.receiver_count() > 0 {
            // Nobody listening is fine.
            let _ = hearers.send(change);
        }
    }
}

impl Outlet {
    /// An outlet without any worker yet.
    pub fn new(reader: Box<dyn Reader>, watchers: Watchers) -> Self {
        Self { outboxes: BTreeMap::new(), reader, watchers }
    }

    /// Carries out the effects of a group whose facts are durable.
    pub fn release(&mut self, group: Group) -> Result<Released, Error> {
        let mut released = Released {
            forgotten: group.forgotten,
            workflows: group.workflows,
            ..Released::default()
        };
        self.outboxes.extend(group.connects);
        let mut messages = Messages::default();
        for (worker, task, token, recorded) in group.answers {
            messages.of(worker).answers.push((task, token, recorded));
        }
        for (worker, task, token, reason) in group.stops {
            messages.of(worker).stops.push((task, token, reason));
        }
        for (worker, task, token, begun_too) in group.recalls {
            messages.of(worker).recalls.push((task, token, begun_too));
        }
        for grant in group.grants {
            match self.granted(&grant) {
                Ok(granted) => messages.of(grant.worker).grants.push(granted),
                Err(error) => {
                    let Grant { worker, token, spec, .. } = grant;
                    tracing::error!(task = %spec.id, %error, "what a task needs cannot be read");
                    released.ungranted.push((worker, spec.id, token, error.to_string()));
                }
            }
        }
        for worker in group.drains {
            messages.of(worker).drain = true;
        }
        for (worker, message) in messages.0 {
            if !self.send(worker, message) {
                released.unreachable.push(worker);
            }
        }
        // After the grants: whoever is woken first may keep this thread from waking the next, and a task that starts
        // matters more than an answer.
        for reply in group.replies {
            reply(Ok(()));
        }
        for worker in group.disconnects {
            self.outboxes.remove(&worker);
        }
        for change in group.changes {
            self.watchers.tell(change);
        }
        for load in group.loads {
            let tasks = self.reader.spilled(load.lane, load.after, load.rows, LOAD_BYTES_MAX)?;
            let exhausted = match tasks.last() {
                None => true,
                Some(last) => {
                    tasks.len() < load.rows
                        && self.reader.spilled(load.lane, Some(last.seq), 1, 1)?.is_empty()
                }
            };
            released.loaded.push((load.lane, tasks, exhausted));
        }
        Ok(released)
    }

    fn granted(&mut self, grant: &Grant) -> Result<GrantedTask, Error> {
        let family = match grant.parents.as_slice() {
            [] => Family::default(),
            parents => self.reader.upstream(parents, UPSTREAM_ROWS_MAX, UPSTREAM_BYTES_MAX)?,
        };
        let checkpoint = if grant.checkpointed { self.reader.checkpoint(grant.seq)? } else { None };
        Ok(GrantedTask {
            spec: Arc::clone(&grant.spec),
            token: grant.token,
            attempt: grant.attempt,
            upstream: family.ends,
            upstream_cut: family.cut,
            checkpoint,
        })
    }

    fn send(&self, worker: WorkerKey, message: Message) -> bool {
        let Some(outbox) = self.outboxes.get(&worker) else {
            // It disconnected in an earlier group; whatever it was to get has been taken back since.
            return true;
        };
        let mut sent = true;
        let mut put = |message| sent &= outbox.try_send(message).is_ok();
        if !message.answers.is_empty() {
            put(ToWorker::Answers(message.answers));
        }
        // Before the stops and recalls: these may be about a grant of the same group, and a worker ignores what it does
        // not hold.
        if !message.grants.is_empty() {
            put(ToWorker::Grants(message.grants));
        }
        if !message.stops.is_empty() {
            put(ToWorker::Stops(message.stops));
        }
        if !message.recalls.is_empty() {
            put(ToWorker::Recalls(message.recalls));
        }
        if message.drain {
            put(ToWorker::Drain);
        }
        sent
    }
}

#[derive(Default)]
struct Message {
    answers: Vec<(TaskId, Token, bool)>,
    stops: Vec<(TaskId, Token, Name)>,
    recalls: Vec<(TaskId, Token, bool)>,
    grants: Vec<GrantedTask>,
    drain: bool,
}

#[derive(Default)]
struct Messages(BTreeMap<WorkerKey, Message>);

impl Messages {
    fn of(&mut self, worker: WorkerKey) -> &mut Message {
        self.0.entry(worker).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::{Payload, Timestamp};

    #[test]
    fn a_checkpoint_takes_the_place_of_the_one_before() {
        let mut group = Group::default();
        for (seq, token, text) in [(1, 1, "1"), (2, 2, "2"), (1, 1, "3"), (1, 4, "4")] {
            let data = Payload::json(text).unwrap();
            let (seq, token) = (Seq(seq), Token(token));
            group.add(Fact::Checkpoint { seq, token, at: Timestamp(0), data });
        }
        let saved = group.facts.iter().map(|fact| match fact {
            Fact::Checkpoint { data, .. } => data.json_text().unwrap().to_owned(),
            _ => unreachable!("only checkpoints were added"),
        });
        assert_eq!(saved.collect::<Vec<_>>(), ["3", "2", "4"]);
    }
}
