//! The rules of facts over ordered maps: the plainest form of what every store must answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_types::fact::Replay;
use divvy_types::{
    ErrorClass, Fact, Lane, Member, Name, Payload, Seq, TaskError, TaskId, TaskSpec, TaskState,
    Timestamp, Token, Verdict,
};

use crate::traits::{DROPPED, counted};
use crate::{AttemptRecord, OpenTask, Outcome, Recovered, SpilledLane, TaskRecord};

/// Everything that was written.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tasks: BTreeMap<Seq, Task>,
    pub(super) ids: BTreeMap<TaskId, Seq>,
    pub(super) children: BTreeMap<Seq, BTreeSet<Seq>>,
    pub(super) spill: BTreeSet<(Lane, Seq)>,
    paused: BTreeSet<Name>,
    settings: BTreeMap<Name, Name>,
    keys: BTreeMap<Name, Holder>,
}

/// The task that has a unique key.
#[derive(Debug)]
struct Holder {
    task: TaskId,
    seq: Seq,
    at: Timestamp,
    until: Option<Timestamp>,
}

/// A task and what happened to it.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) at: Timestamp,
    pub(super) spec: Arc<TaskSpec>,
    pub(super) spawned_by: Option<Seq>,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) retry_at: Option<Timestamp>,
    pub(super) lost: Vec<Name>,
    pub(super) checkpoint: Option<(Token, Payload)>,
    pub(super) held: Option<(Token, Name, Timestamp)>,
    pub(super) replayed: bool,
    pub(super) outcome: Option<Outcome>,
}

impl Task {
    fn last_failed(&self) -> Option<Token> {
        self.attempts.last().map(|attempt| attempt.token)
    }

    pub(super) fn open(&self, seq: Seq) -> OpenTask {
        OpenTask {
            seq,
            submitted_at: self.at,
            spec: Arc::clone(&self.spec),
            spawned_by: self.spawned_by,
            attempts: counted(&self.attempts, None),
            lost: self.lost.clone(),
            checkpointed: self.checkpoint.is_some(),
            retry_at: self.retry_at,
            held: self.held.clone().filter(|(token, ..)| Some(*token) > self.last_failed()),
            replayed: self.replayed,
        }
    }

    pub(super) fn record(&self, seq: Seq) -> TaskRecord {
        TaskRecord {
            seq,
            submitted_at: self.at,
            spec: TaskSpec::clone(&self.spec),
            spawned_by: self.spawned_by,
            attempts: self.attempts.clone(),
            counted: counted(&self.attempts, self.outcome.as_ref()),
            outcome: self.outcome.clone(),
            held: self.held_if_open(),
        }
    }

    fn held_if_open(&self) -> Option<Name> {
        let held = self.held.as_ref().filter(|_| self.outcome.is_none());
        held.map(|(_, worker, _)| worker.clone())
    }

    /// Ends the task, unless it has ended or a later attempt has failed.
    fn end(&mut self, end: Outcome, fenced: bool) -> Verdict {
        if let Some(before) = &self.outcome {
            return if before.token == end.token { Verdict::Duplicate } else { Verdict::Stale };
        }
        if fenced && Some(end.token) <= self.last_failed() {
            return Verdict::Stale;
        }
        self.outcome = Some(end);
        Verdict::Applied
    }

    fn fail(&mut self, attempt: AttemptRecord, retry_at: Timestamp) -> Verdict {
        if self.attempts.iter().any(|before| before.token == attempt.token) {
            return Verdict::Duplicate;
        }
        if self.outcome.is_some() || Some(attempt.token) <= self.last_failed() {
            return Verdict::Stale;
        }
        if attempt.error.class == ErrorClass::WorkerLost && !self.lost.contains(&attempt.worker) {
            self.lost.push(attempt.worker.clone());
        }
        self.attempts.push(attempt);
        self.retry_at = Some(retry_at);
        Verdict::Applied
    }

    fn hold(&mut self, token: Token, worker: &Name, began: Timestamp) -> Verdict {
        let earlier = self.held.as_ref().is_some_and(|(held, ..)| token < *held);
        if self.outcome.is_some() || Some(token) <= self.last_failed() || earlier {
            return Verdict::Stale;
        }
        self.held = Some((token, worker.clone(), began));
        Verdict::Applied
    }

    fn save(&mut self, token: Token, data: &Payload) -> Verdict {
        let earlier = self.checkpoint.as_ref().is_some_and(|(saved, _)| token < *saved);
        if self.outcome.is_some() || Some(token) <= self.last_failed() || earlier {
            return Verdict::Stale;
        }
        self.checkpoint = Some((token, data.clone()));
        Verdict::Applied
    }

    pub(super) fn checkpoint(&self) -> Option<Payload> {
        let kept = self.outcome.as_ref().is_none_or(|end| end.state == TaskState::Dead);
        self.checkpoint.as_ref().filter(|_| kept).map(|(_, data)| data.clone())
    }

    fn replay(&mut self, replay: &Replay) -> Verdict {
        let Some(end) = self.outcome.take_if(|end| end.state != TaskState::Done) else {
            return Verdict::Stale;
        };
        if end.state == TaskState::Cancelled || replay.payload.is_some() {
            self.checkpoint = None;
        }
        self.keep(end);
        self.attempts.iter_mut().for_each(|attempt| attempt.counted = false);
        self.retry_at = replay.due;
        self.lost.clear();
        self.held = None;
        self.replayed = !replay.keep_edges;
        if let Some(payload) = &replay.payload {
            Arc::make_mut(&mut self.spec).payload = payload.clone();
        }
        Verdict::Applied
    }

    fn reprioritise(&mut self, priority: u8) -> Verdict {
        if self.outcome.is_some() {
            return Verdict::Stale;
        }
        Arc::make_mut(&mut self.spec).priority = priority;
        Verdict::Applied
    }

    fn drop_dead(&mut self, at: Timestamp) -> Verdict {
        let Some(end) = self.outcome.take_if(|end| end.state == TaskState::Dead) else {
            return Verdict::Stale;
        };
        self.keep(end);
        self.outcome = Some(cancelled(at, DROPPED));
        Verdict::Applied
    }

    /// Makes the end of a dead letter an attempt of its history.
    fn keep(&mut self, end: Outcome) {
        if let (TaskState::Dead, Some(error)) = (end.state, end.error) {
            let (token, at, worker, log) = (end.token, end.at, end.worker, end.log);
            self.attempts.push(AttemptRecord { token, at, worker, error, log, counted: true });
            self.retry_at = None;
        }
    }
}

fn cancelled(at: Timestamp, reason: &str) -> Outcome {
    Outcome {
        state: TaskState::Cancelled,
        token: Token(0),
        at,
        worker: Name::default(),
        result: Payload::null(),
        error: Some(TaskError { class: ErrorClass::Cancelled, message: reason.into() }),
        log: None,
    }
}

impl State {
    pub(super) fn apply(&mut self, fact: &Fact) -> Verdict {
        match fact {
            Fact::Submitted { seq, at, spec, spawned_by, spilled } => {
                return self.submitted(*seq, *at, spec, *spawned_by, *spilled);
            }
            Fact::Unspilled { lane, upto } => {
                self.spill.retain(|(other, seq)| other != lane || seq > upto);
                return Verdict::Applied;
            }
            Fact::QueuePaused { queue, paused } => {
                if *paused {
                    self.paused.insert(queue.clone());
                } else {
                    self.paused.remove(queue);
                }
                return Verdict::Applied;
            }
            Fact::Setting { key, value } => {
                match value {
                    Some(value) => self.settings.insert(key.clone(), value.clone()),
                    None => self.settings.remove(key),
                };
                return Verdict::Applied;
            }
            _ => {}
        }
        let verdict = self.apply_to_task(fact);
        if let (Fact::Replayed { seq, .. }, Verdict::Applied) = (fact, verdict) {
            self.take_key(*seq);
        }
        verdict
    }

    /// Notes which task has a unique key; the newest wins.
    fn take_key(&mut self, seq: Seq) {
        let Some(task) = self.tasks.get(&seq) else { return };
        let Some(unique) = &task.spec.unique else { return };
        let holder = Holder { task: task.spec.id, seq, at: task.at, until: unique.until(task.at) };
        self.keys.insert(unique.key.clone(), holder);
    }

    fn is_open(&self, seq: Seq) -> bool {
        self.tasks.get(&seq).is_some_and(|task| task.outcome.is_none())
    }

    /// Forgets unique keys that are free.
    pub(super) fn forget_keys(&mut self, now: Timestamp) {
        let free = |state: &Self, holder: &Holder| {
            holder.until.is_none_or(|until| until <= now) && !state.is_open(holder.seq)
        };
        let keys = std::mem::take(&mut self.keys);
        self.keys = keys.into_iter().filter(|(_, holder)| !free(self, holder)).collect();
    }

    fn apply_to_task(&mut self, fact: &Fact) -> Verdict {
        let Some((seq, task)) =
            fact.seq().and_then(|seq| self.tasks.get_mut(&seq).map(|task| (seq, task)))
        else {
            return Verdict::Stale;
        };
        match fact {
            Fact::Finished { token, at, worker, result, log, .. } => {
                let (worker, result, log) = (worker.clone(), result.clone(), log.clone());
                task.end(
                    Outcome {
                        state: TaskState::Done,
                        token: *token,
                        at: *at,
                        worker,
                        result,
                        error: None,
                        log,
                    },
                    true,
                )
            }
            Fact::Dead { token, at, worker, error, log, .. } => {
                let (worker, error, log) = (worker.clone(), Some(error.clone()), log.clone());
                let result = Payload::null();
                task.end(
                    Outcome {
                        state: TaskState::Dead,
                        token: *token,
                        at: *at,
                        worker,
                        result,
                        error,
                        log,
                    },
                    true,
                )
            }
            Fact::Cancelled { at, reason, spilled, .. } => {
                let verdict = task.end(cancelled(*at, reason), false);
                if let (Verdict::Applied, Some(lane)) = (verdict, spilled) {
                    self.spill.remove(&(*lane, seq));
                }
                verdict
            }
            Fact::AttemptFailed { token, at, worker, error, log, retry_at, counted, .. } => {
                let (worker, error, log) = (worker.clone(), error.clone(), log.clone());
                task.fail(
                    AttemptRecord { token: *token, at: *at, worker, error, log, counted: *counted },
                    *retry_at,
                )
            }
            Fact::Replayed { replay, .. } => task.replay(replay),
            Fact::Checkpoint { token, data, .. } => task.save(*token, data),
            Fact::Reprioritised { priority, .. } => task.reprioritise(*priority),
            Fact::Dropped { at, .. } => task.drop_dead(*at),
            Fact::Held { token, worker, began, .. } => task.hold(*token, worker, *began),
            Fact::Submitted { .. }
            | Fact::Unspilled { .. }
            | Fact::QueuePaused { .. }
            | Fact::Setting { .. } => {
                unreachable!("facts that are not about a known task were answered by the caller")
            }
        }
    }

    fn submitted(
        &mut self,
        seq: Seq,
        at: Timestamp,
        spec: &Arc<TaskSpec>,
        spawned_by: Option<Seq>,
        spilled: Option<Lane>,
    ) -> Verdict {
        if self.tasks.contains_key(&seq) || self.ids.contains_key(&spec.id) {
            return Verdict::Duplicate;
        }
        self.ids.insert(spec.id, seq);
        if let Some(parent) = spawned_by {
            self.children.entry(parent).or_default().insert(seq);
        }
        if let Some(lane) = spilled {
            self.spill.insert((lane, seq));
        }
        let (spec, attempts) = (Arc::clone(spec), Vec::new());
        self.tasks.insert(
            seq,
            Task {
                at,
                spec,
                spawned_by,
                attempts,
                retry_at: None,
                lost: Vec::new(),
                checkpoint: None,
                held: None,
                replayed: false,
                outcome: None,
            },
        );
        self.take_key(seq);
        Verdict::Applied
    }

    pub(super) fn recover(&self, visit: &mut dyn FnMut(Recovered)) {
        self.paused.iter().for_each(|queue| visit(Recovered::PausedQueue(queue.clone())));
        for (key, value) in &self.settings {
            visit(Recovered::Setting { key: key.clone(), value: value.clone() });
        }
        for (key, Holder { task, seq, at, until }) in &self.keys {
            visit(Recovered::UniqueKey {
                key: key.clone(),
                task: *task,
                seq: *seq,
                open: self.is_open(*seq),
                at: *at,
                until: *until,
            });
        }
        let waiting: BTreeMap<Seq, Lane> =
            self.spill.iter().map(|(lane, seq)| (*seq, *lane)).collect();
        let mut lanes: BTreeMap<Lane, SpilledLane> = BTreeMap::new();
        let mut members: BTreeMap<Member, u64> = BTreeMap::new();
        for (seq, task) in self.tasks.iter().filter(|(_, task)| task.outcome.is_none()) {
            match waiting.get(seq) {
                None => visit(Recovered::Open(task.open(*seq))),
                Some(lane) => {
                    if let Some(member) = task.spec.member() {
                        *members.entry(member).or_default() += 1;
                    }
                    let sample = Arc::clone(&task.spec);
                    lanes
                        .entry(*lane)
                        .or_insert(SpilledLane { lane: *lane, count: 0, sample })
                        .count += 1;
                }
            }
        }
        lanes.into_values().for_each(|lane| visit(Recovered::Spilled(lane)));
        for (member, count) in members {
            visit(Recovered::SpilledMembers { member, count });
        }
        let last_seq = self.tasks.keys().next_back().copied().unwrap_or_default();
        let last_ordered_id = self.ids.keys().rev().copied().find(|id| id.is_time_ordered());
        visit(Recovered::End { last_seq, last_ordered_id });
    }
}
