//! How tasks that workers were given and have not begun move to other workers.
//!
//! A worker that could begin a task at once, and for which nothing is ready, asks back what waits in the queue of the
//! busiest worker: *pull*. (What the scheduler does of its own accord is decided in `rebalance`.) Only queues above the
//! busy threshold are touched, only tasks that the thief may run, none of high priority if that is protected, none
//! twice, and at most half of a queue. A shorter queue is touched too if all that runs before it takes long (see
//! `lengths`); then the thief takes only what it can begin at once. A recall is a question: the worker gives a task back
//! if it has not begun it, and says nothing if it has. What it gives back is first in its lane and goes to the thief if
//! that still waits.
//!
//! No task can be lost or doubled here: until it is given back it stays leased under its token, and then it is ready.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::pulse::StolenBy;
use divvy_types::{Name, Seq, TaskState, Timestamp, Token, WorkerKey};

use crate::table::{Row, Task, band_of};
use crate::workers::{Note, TierKey};
use crate::{Action, Scheduler};

/// Recalls that are open, or whose task waits for its thief.
const RECALLS_MAX: usize = 10_000;
/// Moves that are remembered for whoever shows them.
const STOLEN_MAX: usize = 1_000;
/// Beyond this many, what is over is dropped before one is added.
const RECALLS_TIDY: usize = 256;
/// How many busy workers a thief looks at.
const VICTIMS_MAX: usize = 8;
/// How many workers with a queue, however short, it looks at, and how long it waits before it does so again.
const LINES_MAX: usize = 32;
const LINES_MS: u64 = 1_000;
/// How many tasks of each priority in a queue are looked at.
const LOOKED_AT_MAX: usize = 64;
/// How long a thief waits for answers before it asks again, and after it found nothing.
const ANSWER_MS: u64 = 1_000;
const NOTHING_MS: u64 = 10;
/// How long a task that was given back is kept for its thief.
const KEPT_MS: u64 = 2_000;
/// A task that has begun may be moved if it is younger, in microseconds.
const YOUNG_US: u64 = 1_000_000;

/// Tasks that are asked back, and how that went so far.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    open: BTreeMap<Seq, Recall>,
    pub(crate) asked: u64,
    pub(crate) given_back: u64,
    pub(crate) refused: u64,
    pub(crate) migrated: u64,
    /// The latest of these.
    stolen: VecDeque<Stolen>,
    pub(crate) cycles: u64,
    /// When the load is looked at next.
    pub(crate) look_at: Option<Timestamp>,
    /// Whether lines are to be looked at.
    pub(crate) lines_timer: bool,
    /// Waits from ready to granted, added up, and how many.
    pub(crate) waited_us: u128,
    pub(crate) waits: u64,
}

/// A task went from one worker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stolen {
    /// Which one it is, counted from 1.
    pub number: u64,
    /// Who had it.
    pub from: Name,
    /// Who has it now.
    pub to: Name,
    /// Who wanted it.
    pub by: StolenBy,
}

#[derive(Clone, Copy, Debug)]
struct Recall {
    token: Token,
    from: TierKey,
    to: TierKey,
    by: StolenBy,
    /// When it was given back.
    given_back: Option<Timestamp>,
}

/// A task that may be asked back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loot {
    pub(crate) row: Row,
    pub(crate) token: Token,
    /// Whether it has presumably begun.
    pub(crate) begun: bool,
}

impl Scheduler {
    /// Lets a worker steal that could begin a task at once and for which nothing is ready.
    pub(crate) fn pull(&mut self, now: Timestamp, thief: u32) {
        if !self.workers.any_lined() || !self.settings.load_balancing.strategy.pulls() {
            return;
        }
        let worker = self.workers.get(thief);
        if !worker.has_free_slot() || worker.pull_after > now {
            return;
        }
        let looks = worker.look_after <= now;
        let mut found = self.crowded_loot(now, thief);
        if found.is_none() && looks {
            found = self.stuck_loot(now, thief);
        }
        let worker = self.workers.get_mut(thief);
        let wait = if found.is_some() { ANSWER_MS } else { NOTHING_MS };
        worker.pull_after = now.plus_ms(wait);
        if looks {
            worker.look_after = now.plus_ms(LINES_MS);
        }
        if let Some((victim, loot)) = found {
            for loot in loot {
                self.recall(now, loot, (victim, thief), StolenBy::Pull);
            }
        }
    }

    /// What a thief asks back from a worker whose queue is above the busy threshold.
    fn crowded_loot(&self, now: Timestamp, thief: u32) -> Option<(u32, Vec<Loot>)> {
        let settings = &self.settings.load_balancing;
        let worker = self.workers.get(thief);
        let most = settings.work_stealing.max_steal_per_cycle.min(worker.credit - worker.leased);
        let busy = settings.thresholds.busy_threshold;
        self.workers.crowded().take(VICTIMS_MAX).find_map(|(victim, queue)| {
            let left = queue.saturating_sub(self.workers.get(victim).recalled);
            if victim == thief || left <= busy {
                return None;
            }
            let mut loot = self.loot(now, victim);
            loot.retain(|loot| self.may_take(thief, &self.tasks[loot.row]));
            loot.truncate(most.min(left.div_ceil(2)) as usize);
            (!loot.is_empty()).then_some((victim, loot))
        })
    }

    /// What a thief asks back from a worker whose queue, however short, waits for what takes long.
    fn stuck_loot(&self, now: Timestamp, thief: u32) -> Option<(u32, Vec<Loot>)> {
        let most = self.settings.load_balancing.work_stealing.max_steal_per_cycle;
        let worker = self.workers.get(thief);
        let free = worker.slots.max(1).min(worker.credit).saturating_sub(worker.leased);
        self.workers.lined_after(thief).take(LINES_MAX).find_map(|victim| {
            if victim == thief || !self.is_stuck(now, victim) {
                return None;
            }
            let mut loot = self.loot(now, victim);
            loot.retain(|loot| !loot.begun && self.may_take(thief, &self.tasks[loot.row]));
            loot.truncate(most.min(free) as usize);
            (!loot.is_empty()).then_some((victim, loot))
        })
    }

    /// Whether a worker may be given a task that another one holds.
    pub(crate) fn may_take(&self, thief: u32, task: &Task) -> bool {
        let class = self.classes.get(task.class);
        class.groups.contains(self.workers.get(thief).group)
            && !self.queues.get(class.queue).paused
            && self.may_run(thief, task.class, task.band())
    }

    /// What may be asked back from a worker, in the order of the settings: first what waits in its queue, then, if
    /// that is allowed, what has begun and loses little by beginning again.
    pub(crate) fn loot(&self, now: Timestamp, victim: u32) -> Vec<Loot> {
        let stealing = &self.settings.load_balancing.work_stealing;
        let worker = self.workers.get(victim);
        let recent = stealing.prefer_recent_tasks;
        let mut loot = Vec::new();
        if worker.away_until.is_some() {
            // It cannot be asked.
            return loot;
        }
        for line in &worker.lines[..self.bands_to_steal()] {
            let valid = |note: &&Note| self.is_queued(note, victim) && self.is_free(note);
            let take = |note: &Note| Loot { row: note.row, token: note.token, begun: false };
            if recent {
                loot.extend(line.iter().rev().filter(valid).take(LOOKED_AT_MAX).map(take));
            } else {
                loot.extend(line.iter().filter(valid).take(LOOKED_AT_MAX).map(take));
            }
        }
        sort(&mut loot, recent);
        if stealing.allow_task_migration {
            let mut begun = self.begun_loot(now, victim);
            sort(&mut begun, recent);
            loot.append(&mut begun);
        }
        loot
    }

    fn begun_loot(&self, now: Timestamp, victim: u32) -> Vec<Loot> {
        let worker = self.workers.get(victim);
        let bands = self.bands_to_steal();
        let notes = worker.young.iter().rev().take(LOOKED_AT_MAX).chain(worker.old.iter().rev());
        let begun = notes.take(2 * LOOKED_AT_MAX).filter(|note| {
            self.runs(note, victim) && !self.is_queued(note, victim) && self.is_free(note) && {
                let task = &self.tasks[note.row];
                let young = now.0.saturating_sub(task.begun.0) < YOUNG_US;
                task.band() < bands && (task.checkpointed || young)
            }
        });
        begun.map(|note| Loot { row: note.row, token: note.token, begun: true }).collect()
    }

    /// How many bands, from the lowest, may be stolen from.
    fn bands_to_steal(&self) -> usize {
        let rules = &self.settings.load_balancing.priority;
        if rules.preserve_high_priority && rules.high_priority_threshold <= 5 {
            band_of(rules.high_priority_threshold)
        } else {
            5
        }
    }

    /// Whether an attempt is neither about to be cancelled nor asked back already.
    fn is_free(&self, note: &Note) -> bool {
        let recalled =
            self.recalls.open.get(&note.seq).is_some_and(|recall| recall.token == note.token);
        !recalled && !self.tasks[note.row].stopping
    }

    /// Asks a worker to give a task back for another one.
    pub(crate) fn recall(
        &mut self,
        now: Timestamp,
        loot: Loot,
        (victim, thief): (u32, u32),
        by: StolenBy,
    ) {
        if self.recalls.open.len() >= RECALLS_TIDY {
            self.tidy_recalls(now);
        }
        if self.recalls.open.len() >= RECALLS_MAX {
            return;
        }
        let (seq, task) = (self.tasks[loot.row].seq, self.tasks[loot.row].spec.id);
        let to = self.workers.get(thief).key;
        self.workers.get_mut(thief).asking += 1;
        let worker = self.workers.get_mut(victim);
        worker.recalled += 1;
        let (from, token) = (worker.key, loot.token);
        self.recalls.open.insert(seq, Recall { token, from, to, by, given_back: None });
        self.recalls.asked += 1;
        let begun_too = loot.begun;
        self.actions.push_back(Action::Recall { worker: from.worker, seq, task, token, begun_too });
    }

    /// Drops tasks that were given back and went another way, or that nobody came for.
    fn tidy_recalls(&mut self, now: Timestamp) {
        let tasks = &self.tasks;
        self.recalls.open.retain(|seq, recall| match recall.given_back {
            Some(at) => {
                at.plus_ms(KEPT_MS) > now
                    && tasks.find(*seq).is_some_and(|task| task.state == TaskState::Ready)
            }
            None => true,
        });
    }

    /// A worker speaks over another connection from now on.
    pub(crate) fn recalls_follow(&mut self, old: WorkerKey, new: WorkerKey) {
        for recall in self.recalls.open.values_mut() {
            for key in [&mut recall.from, &mut recall.to] {
                if key.worker == old {
                    key.worker = new;
                }
            }
        }
    }

    /// A worker gave a task back, perhaps because it was asked to.
    pub(crate) fn recall_answered(&mut self, row: Row) {
        if self.recalls.open.is_empty() {
            return;
        }
        let (seq, token, now) = (self.tasks[row].seq, self.tasks[row].token, self.now);
        let Some(recall) = self.recalls.open.get_mut(&seq) else { return };
        if recall.token != token || recall.given_back.replace(now).is_some() {
            return;
        }
        let recall = *recall;
        self.recalls.given_back += 1;
        self.recall_closed(recall);
    }

    /// A lease has ended; if its task was asked back and not given, it had begun or was given up.
    pub(crate) fn recall_over(&mut self, seq: Seq, token: Token) {
        if self.recalls.open.is_empty() {
            return;
        }
        let Some(recall) = self.recalls.open.get(&seq).copied() else { return };
        if recall.token == token && recall.given_back.is_none() {
            self.recalls.open.remove(&seq);
            self.recalls.refused += 1;
            self.recall_closed(recall);
        }
    }

    /// A question is decided; with the last one the thief may ask again.
    fn recall_closed(&mut self, recall: Recall) {
        if let Some(victim) = self.workers.index_of(recall.from) {
            let worker = self.workers.get_mut(victim);
            worker.recalled = worker.recalled.saturating_sub(1);
        }
        if let Some(thief) = self.workers.index_of(recall.to) {
            let worker = self.workers.get_mut(thief);
            worker.asking = worker.asking.saturating_sub(1);
            if worker.asking == 0 {
                worker.pull_after = Timestamp(0);
                worker.look_after = Timestamp(0);
                self.mark_worker(thief);
            }
        }
    }

    /// A task was granted; it may be one that was given back.
    pub(crate) fn recall_granted(&mut self, seq: Seq, worker: u32) {
        if self.recalls.open.is_empty() {
            return;
        }
        let Some(recall) = self.recalls.open.get(&seq).copied() else { return };
        if recall.given_back.is_some() {
            self.recalls.open.remove(&seq);
            if self.workers.get(worker).key != recall.from {
                self.recalls.migrated += 1;
                self.note_stolen(recall, worker);
            }
        }
    }

    /// Remembers who has the task of whom now.
    fn note_stolen(&mut self, recall: Recall, to: u32) {
        // Who gave it may have gone since.
        let Some(from) = self.workers.index_of(recall.from) else { return };
        let (from, to) = (self.workers.get(from).name.clone(), self.workers.get(to).name.clone());
        let stolen = &mut self.recalls.stolen;
        if stolen.len() == STOLEN_MAX {
            stolen.pop_front();
        }
        stolen.push_back(Stolen { number: self.recalls.migrated, from, to, by: recall.by });
    }

    /// The latest moves of tasks from worker to worker that have a greater number, oldest first.
    pub fn stolen_after(&self, number: u64) -> impl Iterator<Item = &Stolen> {
        let newer = self.recalls.stolen.iter().rev().take_while(move |one| one.number > number);
        newer.collect::<Vec<_>>().into_iter().rev()
    }

    /// The worker for which a ready task was asked back a moment ago.
    pub(crate) fn reserved_for(&self, now: Timestamp, task: &Task) -> Option<u32> {
        if self.recalls.open.is_empty() {
            return None;
        }
        let recall = self.recalls.open.get(&task.seq)?;
        let kept = recall.given_back.is_some_and(|at| at.plus_ms(KEPT_MS) > now);
        if kept { self.workers.index_of(recall.to) } else { None }
    }
}

/// In the order of grants, the last or the first one first.
fn sort(loot: &mut [Loot], recent: bool) {
    loot.sort_unstable_by_key(|loot| loot.token);
    if recent {
        loot.reverse();
    }
}
