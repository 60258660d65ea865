//! What the worker holds: grants that wait, attempts that run, ends that the server has not answered.
//!
//! Decides which grant is next on a tier, and who ends an attempt: the first to say so. Knows neither the network nor
//! how handlers run; those ask here. One short lock guards it all and is never held over an await.
//!
//! An attempt goes `Queued` → `Running` → `Ended`, and leaves when the server answered its report. A drain
//! or a recall takes it from `Queued` to `Ended` without running.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use divvy_types::spec::PRIORITY_MAX;
use divvy_types::{AttemptOutcome, Payload, TaskId, Token};
use tokio::sync::Notify;

use crate::attempt::Context;
use crate::handler::Code;
use crate::notes::Noticeboard;
use crate::worker::Summary;
use crate::{Attempt, CancelReason, Slots, Tier};

/// Names an attempt: a task may be granted again under a newer token while an older attempt still runs.
pub(crate) type Key = (TaskId, Token);

/// A grant that waits for a slot.
pub(crate) struct Waiting {
    pub(crate) attempt: Attempt,
    pub(crate) code: Code,
}

/// An attempt that ended and whose report the server has not answered.
pub(crate) struct Ended {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) log: String,
    /// What it saved last, unless the task is finished.
    pub(crate) saved: Option<Payload>,
}

pub(crate) enum Held {
    Queued,
    Running(Arc<Context>),
    Ended(Box<Ended>),
}

#[derive(Default)]
pub(crate) struct TierState {
    slots: usize,
    /// Runners that are at work; each has one slot.
    active: usize,
    /// Places in all lines.
    pub(crate) queued: usize,
    /// One line per priority, highest first. The credit bounds them, and places left behind: see [`crate::recall`].
    pub(crate) lines: [VecDeque<Waiting>; PRIORITY_MAX as usize],
}

pub(crate) struct State {
    pub(crate) held: HashMap<Key, Held>,
    pub(crate) tiers: [TierState; 4],
    /// Places in line whose grants have ended.
    pub(crate) stale: usize,
    /// Ends that were not sent over the present connection.
    pub(crate) outbox: VecDeque<Key>,
    /// Those of them whose save was not sent over the present connection.
    pub(crate) saved: VecDeque<Key>,
    /// Which connection is the present one; 0 after the last.
    pub(crate) link: u64,
    /// How often to send heartbeats, once the server of the present connection said welcome.
    pub(crate) beat_every: Option<Duration>,
    /// Whether that server takes checkpoints.
    pub(crate) takes_checkpoints: bool,
    /// Whether tasks are taken; a drain ends it for good.
    pub(crate) taking: bool,
    /// Whether the present connection was told that nothing is taken any more.
    pub(crate) stopping_told: bool,
    links: u64,
    /// What was announced as held at the present connection: if one of these tasks is granted anew, the server did not
    /// take the announcement, and the older attempt is pointless.
    announced: HashMap<TaskId, Token>,
    pub(crate) summary: Summary,
}

/// The state behind its lock, with the bells that tell of changes.
pub(crate) struct Hold {
    state: Mutex<State>,
    pub(crate) board: Arc<Noticeboard>,
    /// Rings after each change while nothing is taken any more.
    pub(crate) settled: Notify,
}

impl Hold {
    pub(crate) fn new(slots: Slots) -> Self {
        let tier = |tier| TierState { slots: slots.of(tier) as usize, ..TierState::default() };
        let state = State {
            held: HashMap::new(),
            tiers: Tier::ALL.map(tier),
            stale: 0,
            outbox: VecDeque::new(),
            saved: VecDeque::new(),
            link: 0,
            beat_every: None,
            takes_checkpoints: false,
            taking: true,
            stopping_told: false,
            links: 0,
            announced: HashMap::new(),
            summary: Summary::default(),
        };
        Self { state: Mutex::new(state), board: Arc::default(), settled: Notify::new() }
    }

    /// The state. No code that can panic on input runs under this lock, so a poisoned one is still sound.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts grants in line; says how many runners each tier has to start, and which older attempts have been replaced.
    /// Grants that come too late are given back.
    pub(crate) fn enqueue(&self, grants: Vec<(Tier, Waiting)>) -> ([usize; 4], Vec<Key>) {
        let mut state = self.lock();
        let mut replaced = Vec::new();
        for (tier, waiting) in grants {
            let key = (waiting.attempt.task.id, waiting.attempt.token);
            if state.held.contains_key(&key) {
                continue;
            }
            if !state.announced.is_empty()
                && let Some(older) = state.announced.remove(&key.0)
            {
                replaced.push((key.0, older));
            }
            state.held.insert(key, Held::Queued);
            if !state.taking {
                state.end(key, AttemptOutcome::Released);
                continue;
            }
            let priority = waiting.attempt.task.priority.clamp(1, PRIORITY_MAX);
            let tier = &mut state.tiers[tier.index()];
            tier.lines[usize::from(PRIORITY_MAX - priority)].push_back(waiting);
            tier.queued += 1;
        }
        let mut starts = [0; 4];
        for (tier, start) in state.tiers.iter_mut().zip(&mut starts) {
            *start = tier.queued.min(tier.slots.saturating_sub(tier.active));
            tier.active += *start;
        }
        drop(state);
        self.board.bell.notify_one();
        (starts, replaced)
    }

    /// Ends what a runner just did and takes the next grant of its tier; without one, the runner gives its slot back.
    pub(crate) fn next(&self, tier: Tier, done: Option<(Key, AttemptOutcome)>) -> Option<Waiting> {
        let mut state = self.lock();
        let rings = done.is_some_and(|(key, outcome)| state.end(key, outcome));
        let next = state.take_next(tier);
        if next.is_none() {
            state.tiers[tier.index()].active -= 1;
        }
        self.after_end(state, rings);
        next
    }

    /// Ends an attempt, unless it ended before.
    pub(crate) fn end(&self, key: Key, outcome: AttemptOutcome) -> bool {
        let mut state = self.lock();
        let open = matches!(state.held.get(&key), Some(Held::Queued | Held::Running(_)));
        let rings = open && state.end(key, outcome);
        self.after_end(state, rings);
        open
    }

    /// Notes and ends an attempt that cannot run at all.
    pub(crate) fn refuse(&self, key: Key, outcome: AttemptOutcome) {
        let mut state = self.lock();
        state.held.entry(key).or_insert(Held::Queued);
        let rings = state.end(key, outcome);
        self.after_end(state, rings);
    }

    /// Asks a running attempt to stop, or ends it if it only waits. Says whether it runs and was asked first now.
    pub(crate) fn stop(&self, key: Key, reason: CancelReason) -> bool {
        let mut state = self.lock();
        match state.held.get(&key) {
            Some(Held::Running(context)) => {
                let context = Arc::clone(context);
                drop(state);
                context.cancel(reason)
            }
            Some(Held::Queued) => {
                let rings = state.end_waiting(key, reason.outcome());
                self.after_end(state, rings);
                false
            }
            Some(Held::Ended(_)) | None => false,
        }
    }

    /// Takes no more, and gives back what waits.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.taking = false;
        state.stale = 0;
        for tier in &mut state.tiers {
            tier.queued = 0;
            tier.lines.iter_mut().for_each(VecDeque::clear);
        }
        let queued: Vec<Key> = state
            .held
            .iter()
            .filter(|(_, held)| matches!(held, Held::Queued))
            .map(|(key, _)| *key)
            .collect();
        for key in queued {
            state.end(key, AttemptOutcome::Released);
        }
        self.after_end(state, true);
    }

    /// The attempts that run.
    pub(crate) fn running(&self) -> Vec<Arc<Context>> {
        let running = |held: &Held| match held {
            Held::Running(context) => Some(Arc::clone(context)),
            _ => None,
        };
        self.lock().held.values().filter_map(running).collect()
    }

    /// Forgets the ends that the server answered.
    pub(crate) fn answered(&self, answers: impl Iterator<Item = (Key, bool)>) {
        let mut state = self.lock();
        for (key, recorded) in answers {
            if !matches!(state.held.get(&key), Some(Held::Ended(_))) {
                continue;
            }
            state.held.remove(&key);
            state.summary.refused += u64::from(!recorded);
        }
        self.after_end(state, false);
    }

    /// Begins a connection: everything unanswered is to be sent again. Returns its number and what is held.
    pub(crate) fn link_up(&self) -> (u64, Vec<Key>) {
        let mut state = self.lock();
        state.links += 1;
        state.link = state.links;
        state.beat_every = None;
        state.stopping_told = false;
        let ended = state.held.iter().filter(|(_, held)| matches!(held, Held::Ended(_)));
        let mut ended: Vec<Key> = ended.map(|(key, _)| *key).collect();
        ended.sort_unstable_by_key(|(_, token)| *token);
        let saved = |key: &Key| state.ended(key).is_some_and(|ended| ended.saved.is_some());
        let saved: VecDeque<Key> = ended.iter().copied().filter(saved).collect();
        state.saved = saved;
        state.outbox = ended.into();
        for held in state.held.values() {
            let Held::Running(context) = held else { continue };
            // The board looks at notes under its own lock: ours must be free again by then.
            let newly_dirty = context.notes().send_again();
            if newly_dirty {
                self.board.announce(Arc::clone(context));
            }
        }
        let released = |held: &Held| matches!(held, Held::Ended(end) if end.outcome == AttemptOutcome::Released);
        let held: Vec<Key> =
            state.held.iter().filter(|(_, held)| !released(held)).map(|(key, _)| *key).collect();
        state.announced = held.iter().copied().collect();
        (state.link, held)
    }

    /// The server said welcome: reports and heartbeats may flow.
    pub(crate) fn welcome(&self, beat_every: Duration, takes_checkpoints: bool) {
        let mut state = self.lock();
        state.beat_every = Some(beat_every);
        state.takes_checkpoints = takes_checkpoints;
        drop(state);
        self.board.bell.notify_one();
    }

    /// Ends the present connection from this side.
    pub(crate) fn close(&self) {
        self.lock().link = 0;
        self.board.bell.notify_one();
    }

    /// The present connection ended; says whether this side wanted that.
    pub(crate) fn link_down(&self) -> bool {
        let mut state = self.lock();
        state.beat_every = None;
        state.links > 0 && state.link == 0
    }

    pub(crate) fn after_end(&self, state: MutexGuard<'_, State>, rings: bool) {
        let taking = state.taking;
        drop(state);
        if rings {
            self.board.bell.notify_one();
        }
        if !taking {
            self.settled.notify_waiters();
        }
    }
}

impl State {
    /// How many attempts are held: waiting, running or unanswered.
    pub(crate) fn held_count(&self) -> usize {
        self.held.len()
    }

    /// How many attempts run.
    pub(crate) fn running_count(&self) -> usize {
        self.held.values().filter(|held| matches!(held, Held::Running(_))).count()
    }

    pub(crate) fn ended(&self, key: &Key) -> Option<&Ended> {
        match self.held.get(key) {
            Some(Held::Ended(ended)) => Some(ended),
            _ => None,
        }
    }

    pub(crate) fn is_running(&self, key: &Key) -> bool {
        matches!(self.held.get(key), Some(Held::Running(_)))
    }

    fn take_next(&mut self, tier: Tier) -> Option<Waiting> {
        let tier = &mut self.tiers[tier.index()];
        for line in &mut tier.lines {
            while let Some(mut waiting) = line.pop_front() {
                tier.queued -= 1;
                let key = (waiting.attempt.task.id, waiting.attempt.token);
                // A stop or a recall may have ended it while it waited; its place in line stayed behind.
                if let Some(held @ Held::Queued) = self.held.get_mut(&key) {
                    *held = Held::Running(Arc::clone(&waiting.attempt.context));
                    // Every grant that could begin has a runner; slots beyond those are wanted by nothing.
                    waiting.attempt.threads =
                        u32::try_from(tier.slots / tier.active.max(1)).unwrap_or(u32::MAX).max(1);
                    return Some(waiting);
                }
                self.stale = self.stale.saturating_sub(1);
            }
        }
        None
    }

    /// The first end of an attempt goes to the outbox; says whether the sender has to be woken.
    pub(crate) fn end(&mut self, key: Key, outcome: AttemptOutcome) -> bool {
        let Some(held) = self.held.get_mut(&key) else { return false };
        let (log, saved, unsent) = match held {
            Held::Ended(_) => return false,
            Held::Queued => (String::new(), None, false),
            Held::Running(context) => {
                let notes = context.notes();
                let saved = notes.saved.data().cloned();
                (notes.log_tail().to_owned(), saved, notes.saved.is_unsent())
            }
        };
        // There is no later attempt of a task that is finished.
        let saved = saved.filter(|_| !matches!(outcome, AttemptOutcome::Finished { .. }));
        if unsent && saved.is_some() {
            self.saved.push_back(key);
        }
        match &outcome {
            AttemptOutcome::Finished { .. } => self.summary.finished += 1,
            AttemptOutcome::Failed(_) => self.summary.failed += 1,
            AttemptOutcome::Released => self.summary.released += 1,
        }
        *held = Held::Ended(Box::new(Ended { outcome, log, saved }));
        self.outbox.push_back(key);
        self.outbox.len() == 1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use divvy_types::TaskSpec;

    use super::*;

    /// A grant that waits for a slot of this tier.
    pub(crate) fn waiting_on(tier: Tier, id: u128) -> (Tier, Waiting) {
        let spec = TaskSpec::new(TaskId(id), "noop");
        let (attempt, _) = Attempt::detached(spec, Token(1), 1, Arc::default());
        let code = Code::Future(Arc::new(crate::builtin::Noop));
        (tier, Waiting { attempt, code })
    }

    #[test]
    fn an_attempt_may_use_the_slots_that_nothing_else_wants() {
        for (tasks, threads) in [(1, 4), (2, 2), (3, 1), (4, 1), (9, 1)] {
            let hold = Hold::new(Slots { async_: 0, blocking: 0, cpu: 0, process: 4 });
            hold.enqueue((0..tasks).map(|id| waiting_on(Tier::Process, id)).collect());
            let first = hold.next(Tier::Process, None).unwrap();
            assert_eq!(first.attempt.threads, threads, "{tasks} tasks on 4 slots");
        }
    }
}
