//! What a driver decides about the parts of one stage: which task is submitted, which attempt of two counts, when a part
//! gets a twin, when the stage is done and when the job cannot go on.
//!
//! Sans-IO: what became of tasks and the time go in ([`Drive::handle`], [`Drive::tick`]), what is to be done comes out
//! ([`Drive::poll_action`]). It does not know what a part does, where files are or how a task is submitted.
//!
//! A task is named by its part and its twin: 0, or 1 for the second chance of a part that takes long. **Rules:**
//!
//! - The first of two twins that is done counts; the other is cancelled, and whatever it says later is ignored.
//! - A part fails when all its tasks have failed; the job fails with its first part, and all open tasks are cancelled.
//! - A task that lost its worker too often for the engine is put back: a part is not to blame for machines that go away.
//! - A part gets a twin if at least half of the stage is done and it has run for more than twice the median of those, and
//!   for [`TWIN_AFTER_MS_MIN`] at least. (Dean and Ghemawat, *MapReduce*, 2004, section 3.6: backup tasks.)
//! - After a restart the stage is begun anew: the names make the same tasks of it, and what they have become is told
//!   again, in any order except that a twin is told before its first.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// A part that has not run for this long is not slow.
pub const TWIN_AFTER_MS_MIN: u64 = 3_000;
/// A part is slow when it takes so many times the median.
const SLOW_FACTOR: u64 = 2;

/// Names a task of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskName {
    /// The part.
    pub part: u32,
    /// 0, or 1 for its twin.
    pub twin: u32,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is there and waits for a worker or a slot.
    Waits,
    /// A worker runs it.
    Runs,
    /// It is done, and its attempt took so long.
    Done {
        /// Milliseconds.
        took_ms: u64,
    },
    /// It failed for good.
    Failed {
        /// Why.
        why: String,
        /// Whether that was the fault of workers that went away.
        lost: bool,
    },
    /// It was cancelled, by us or by somebody.
    Cancelled,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit these tasks; those that are there already are the same.
    Submit(Vec<TaskName>),
    /// Cancel a task.
    Cancel(TaskName),
    /// Put a task back that lost its workers.
    PutBack(TaskName),
    /// The stage is done; which twin of each part counts.
    Done(Vec<u32>),
    /// The job cannot go on.
    Fail {
        /// The part that cannot be done.
        part: u32,
        /// Why.
        why: String,
    },
    /// Somebody cancelled a task of the job, and so the job.
    Cancelled,
}

/// One stage of a job.
#[derive(Clone, Debug)]
pub struct Drive {
    parts: Vec<PartState>,
    speculate: bool,
    /// What parts that are done took, in order.
    took_ms: Vec<u64>,
    is_over: bool,
    actions: VecDeque<Action>,
}

#[derive(Clone, Debug, Default)]
struct PartState {
    twins: [Twin; 2],
    winner: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Twin {
    #[default]
    None,
    Waits,
    Runs {
        since_ms: u64,
    },
    Ended,
}

impl Twin {
    fn is_open(self) -> bool {
        matches!(self, Self::Waits | Self::Runs { .. })
    }
}

impl Drive {
    /// Begins a stage, or goes on with it after a restart.
    pub fn begin(parts: u32, speculate: bool) -> Self {
        let mut one = PartState::default();
        one.twins[0] = Twin::Waits;
        let names = (0..parts).map(|part| TaskName { part, twin: 0 }).collect();
        let mut actions = VecDeque::from([Action::Submit(names)]);
        if parts == 0 {
            actions = [Action::Done(Vec::new())].into();
        }
        let parts = vec![one; parts as usize];
        Self { is_over: parts.is_empty(), parts, speculate, took_ms: Vec::new(), actions }
    }

    /// The next thing to do; nothing more for now.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// How many parts are done.
    pub fn done(&self) -> u32 {
        u32::try_from(self.took_ms.len()).unwrap_or(u32::MAX)
    }

    /// Tasks whose end is not known yet.
    pub fn open(&self) -> impl Iterator<Item = TaskName> + '_ {
        (0..).zip(&self.parts).flat_map(|(part, state)| {
            let twins = (0..).zip(state.twins).filter(|(_, twin)| twin.is_open());
            twins.map(move |(twin, _)| TaskName { part, twin })
        })
    }

    /// Something became of a task.
    pub fn handle(&mut self, name: TaskName, fate: Fate, now_ms: u64) {
        if self.is_over {
            return;
        }
        let Some(state) = self.parts.get_mut(name.part as usize) else { return };
        let Some(twin) = state.twins.get_mut(name.twin as usize) else { return };
        if state.winner.is_some() {
            // Its part is done: it is of no use any more.
            let was_unknown = *twin == Twin::None;
            *twin = Twin::Ended;
            if was_unknown && matches!(fate, Fate::Waits | Fate::Runs) {
                self.actions.push_back(Action::Cancel(name));
            }
            return;
        }
        match fate {
            Fate::Waits => *twin = Twin::Waits,
            Fate::Runs if matches!(twin, Twin::Runs { .. }) => {}
            Fate::Runs => *twin = Twin::Runs { since_ms: now_ms },
            Fate::Done { took_ms } => self.won(name, took_ms),
            Fate::Failed { lost: true, .. } => {
                *twin = Twin::Waits;
                self.actions.push_back(Action::PutBack(name));
            }
            Fate::Failed { why, lost: false } => {
                *twin = Twin::Ended;
                if !state.twins.iter().any(|twin| twin.is_open()) {
                    self.end(Action::Fail { part: name.part, why });
                }
            }
            Fate::Cancelled => {
                *twin = Twin::Ended;
                if !state.twins.iter().any(|twin| twin.is_open()) {
                    self.end(Action::Cancelled);
                }
            }
        }
    }

    /// Time has passed: parts that take long get a twin.
    pub fn tick(&mut self, now_ms: u64) {
        let Some(limit_ms) = self.patience_ms() else { return };
        let mut twins = Vec::new();
        for (part, state) in (0..).zip(&mut self.parts) {
            let [Twin::Runs { since_ms }, Twin::None] = state.twins else { continue };
            if state.winner.is_none() && now_ms.saturating_sub(since_ms) > limit_ms {
                state.twins[1] = Twin::Waits;
                twins.push(TaskName { part, twin: 1 });
            }
        }
        if !twins.is_empty() {
            self.actions.push_back(Action::Submit(twins));
        }
    }

    /// Cancels everything that is open; nothing more comes of this stage.
    pub fn cancel(&mut self) {
        if !self.is_over {
            self.end(Action::Cancelled);
        }
    }

    /// How long a part may run before it gets a twin; nothing if none shall.
    fn patience_ms(&self) -> Option<u64> {
        let done = self.took_ms.len();
        if !self.speculate || self.is_over || done == 0 || done * 2 < self.parts.len() {
            return None;
        }
        let median = self.took_ms[done / 2];
        Some(median.saturating_mul(SLOW_FACTOR).max(TWIN_AFTER_MS_MIN))
    }

    fn won(&mut self, name: TaskName, took_ms: u64) {
        let state = &mut self.parts[name.part as usize];
        state.winner = Some(name.twin);
        state.twins[name.twin as usize] = Twin::Ended;
        let other = 1 - name.twin;
        if state.twins[other as usize].is_open() {
            state.twins[other as usize] = Twin::Ended;
            self.actions.push_back(Action::Cancel(TaskName { twin: other, ..name }));
        }
        let at = self.took_ms.partition_point(|took| *took <= took_ms);
        self.took_ms.insert(at, took_ms);
        if self.took_ms.len() == self.parts.len() {
            self.is_over = true;
            let winners = self.parts.iter().filter_map(|part| part.winner).collect();
            self.actions.push_back(Action::Done(winners));
        }
    }

    /// Nothing more comes of this stage.
    fn end(&mut self, how: Action) {
        let open: Vec<TaskName> = self.open().collect();
        self.actions.extend(open.into_iter().map(Action::Cancel));
        self.actions.push_back(how);
        self.is_over = true;
    }
}
