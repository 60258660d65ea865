//! What can be read of the scheduler. Nothing here changes it, and nothing walks all tasks unless it is asked for
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use divvy_types::spec::PRIORITY_MAX;
use divvy_types::view::{LimitView, QueueView, TierView, WorkerView};
use divvy_types::{Name, Seq, TaskSpec, TaskState, Timestamp, Token, WaitReason, WorkerKey};

use crate::Scheduler;
use crate::places::{QUEUED, UNMEASURED};
use crate::streams::NONE;
use crate::table::{Awaits, NOBODY, Task, band_of};
use crate::workers::{Group, Worker};

/// Tasks that are looked at to find the position of one.
const POSITION_LOOK_MAX: usize = 100_000;

/// A task in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskStatus {
    /// Where it is. `Done` only while it is settling.
    pub state: TaskState,
    /// Why it does not run, unless it does or is done.
    pub wait: Option<WaitReason>,
    /// Who runs it.
    pub worker: Option<Name>,
    /// Attempts that were begun and count.
    pub attempts: u32,
    /// Of the attempt that runs, or of the last one under this server start.
    pub token: Option<Token>,
    /// When it came into this state.
    pub since: Timestamp,
    /// Whether it is done, and children that it spawned are not.
    pub settling: bool,
}

/// How many tasks are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Wait for dependencies.
    pub blocked: u64,
    /// Wait for a time.
    pub scheduled: u64,
    /// Wait for a worker, in memory.
    pub ready: u64,
    /// Are at a worker.
    pub leased: u64,
    /// Of these, wait there for a slot; the others have presumably begun.
    pub queued: u64,
    /// Wait for a worker, in the store.
    pub spilled: u64,
}

impl Counts {
    pub(crate) fn of(&mut self, state: TaskState) -> &mut u64 {
        match state {
            TaskState::Blocked => &mut self.blocked,
            TaskState::Scheduled => &mut self.scheduled,
            TaskState::Ready => &mut self.ready,
            TaskState::Leased => &mut self.leased,
            TaskState::Done | TaskState::Dead | TaskState::Cancelled => {
                unreachable!("final tasks are not counted")
            }
        }
    }
}

impl Scheduler {
    /// What is known of a task, if it is in memory.
    pub fn status(&self, seq: Seq) -> Option<TaskStatus> {
        if let Some(settling) = self.settling.get(&seq) {
            return Some(TaskStatus {
                state: TaskState::Done,
                wait: None,
                worker: None,
                attempts: 0,
                token: None,
                since: settling.since,
                settling: true,
            });
        }
        let task = self.tasks.find(seq)?;
        let leased = task.state == TaskState::Leased;
        Some(TaskStatus {
            state: task.state,
            wait: self.wait_reason(task),
            worker: if leased { self.holder_of(task) } else { None },
            attempts: task.attempts + u32::from(leased),
            token: Some(task.token).filter(|token| *token != Token::default()),
            since: task.since,
            settling: false,
        })
    }

    /// Where a task is, if it is in memory: `Done` while it is settling.
    pub fn state(&self, seq: Seq) -> Option<TaskState> {
        let settling = self.settling.contains_key(&seq).then_some(TaskState::Done);
        settling.or_else(|| self.tasks.find(seq).map(|task| task.state))
    }

    /// Whether a task is at a worker and waits there for a slot.
    pub fn is_queued_at_worker(&self, seq: Seq) -> bool {
        self.tasks.find(seq).is_some_and(is_in_line)
    }

    /// When the attempt of a task that runs presumably began.
    pub fn began(&self, seq: Seq) -> Option<Timestamp> {
        let task = self.tasks.find(seq).filter(|task| task.state == TaskState::Leased)?;
        Some(task.begun).filter(|begun| *begun > UNMEASURED)
    }

    /// The token of the attempt that runs, if one does.
    pub fn lease_token(&self, seq: Seq) -> Option<Token> {
        self.tasks.find(seq).filter(|task| task.state == TaskState::Leased).map(|task| task.token)
    }

    /// How many workers are connected.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// The spec of a task, if it is open and in memory.
    pub fn spec(&self, seq: Seq) -> Option<&Arc<TaskSpec>> {
        self.tasks.find(seq).map(|task| &task.spec)
    }

    /// Why a task does not run that waits in the store.
    pub fn wait_reason_for_spilled(&self, spec: &TaskSpec) -> WaitReason {
        self.wait_for_worker(spec, None)
    }

    /// All queues that have tasks or are paused, by name.
    pub fn queues(&self, now: Timestamp) -> Vec<QueueView> {
        let mut oldest: BTreeMap<u32, Timestamp> = BTreeMap::new();
        let mut ready: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut count = |queue: u32, band: usize, tasks: u64| {
            if tasks > 0 {
                let by_priority =
                    ready.entry(queue).or_insert_with(|| vec![0; usize::from(PRIORITY_MAX)]);
                by_priority[band] += tasks;
            }
        };
        for (_, stream) in self.streams.iter() {
            let queue = self.classes.get(stream.id.class).queue;
            if let Some(ready_at) = stream.oldest(&self.tasks) {
                let least = oldest.entry(queue).or_insert(ready_at);
                *least = ready_at.min(*least);
            }
            count(queue, usize::from(stream.id.band), stream.live as u64);
        }
        for spill in self.spills.values() {
            let id = self.streams.get(spill.stream).id;
            count(self.classes.get(id.class).queue, usize::from(id.band), spill.count);
        }
        let views = self.queues.iter().map(|(index, queue)| {
            let oldest = oldest.get(&index).copied();
            QueueView {
                name: queue.name.clone(),
                paused: queue.paused,
                blocked: queue.counts.blocked,
                scheduled: queue.counts.scheduled,
                ready: queue.counts.ready + queue.counts.spilled,
                leased: queue.counts.leased,
                queued: queue.counts.queued,
                oldest_ready_ms: oldest.map(|ready_at| now.since(ready_at).as_millis() as u64),
                ready_by_priority: ready.remove(&index).unwrap_or_default(),
            }
        });
        views.collect()
    }

    /// All connected workers, by key.
    pub fn workers(&self) -> Vec<WorkerView> {
        let views = self.workers.whole().map(|(worker, tiers)| {
            let profile = &self.workers.group(worker.group).profile;
            let tiers: Vec<TierView> = tiers.into_iter().map(|tier| self.tier_view(tier)).collect();
            let sum = |of: fn(&TierView) -> u32| tiers.iter().map(of).sum();
            let mut kinds: Vec<Name> = tiers.iter().flat_map(|tier| tier.kinds.clone()).collect();
            kinds.sort_unstable();
            WorkerView {
                name: worker.name.clone(),
                key: worker.key.worker.0,
                queues: profile.queues.clone(),
                kinds,
                capabilities: profile.capabilities.clone(),
                credit: sum(|tier| tier.credit),
                leased: sum(|tier| tier.leased),
                draining: worker.draining,
                paused: worker.paused,
                away_until: worker.away_until,
                connected_at: worker.connected_at,
                seen_at: worker.seen_at,
                finished: tiers.iter().map(|tier| tier.finished).sum(),
                failed: tiers.iter().map(|tier| tier.failed).sum(),
                slots: sum(|tier| tier.slots),
                queue_length: sum(|tier| tier.queue_length),
                tiers,
                success_rate: self.learning.overall(worker.known),
                skills: self.skills_of(worker.known),
            }
        });
        views.collect()
    }

    fn tier_view(&self, tier: &Worker) -> TierView {
        TierView {
            kinds: self.workers.group(tier.group).profile.kinds.clone(),
            credit: tier.credit,
            slots: tier.slots,
            leased: tier.leased,
            queue_length: tier.queue(),
            finished: tier.finished,
            failed: tier.failed,
        }
    }

    /// How many tasks are where, over all queues.
    pub fn counts(&self) -> Counts {
        self.queues.total
    }

    /// Open tasks in memory with smaller numbers, newest first.
    pub fn open_before(
        &self,
        seq: Option<Seq>,
    ) -> impl Iterator<Item = (Seq, TaskState, &Arc<TaskSpec>)> {
        self.tasks.newest_first(seq).map(|task| (task.seq, task.state, &task.spec))
    }

    /// Tasks that workers of this name hold, with smaller numbers, newest first.
    pub fn held_by(&self, name: &Name, before: Option<Seq>) -> Vec<Seq> {
        let tiers = self.workers.named(name).flat_map(|key| self.workers.tiers_of(key));
        let held = tiers.flat_map(|index| self.leases_of(index)).map(|note| note.seq);
        let mut held: Vec<Seq> =
            held.filter(|seq| before.is_none_or(|before| *seq < before)).collect();
        held.sort_unstable_by_key(|seq| std::cmp::Reverse(*seq));
        held
    }

    /// The latest connection of a worker of this name.
    pub fn worker_by_name(&self, name: &str) -> Option<WorkerKey> {
        self.workers.named(&Name::from(name)).next_back()
    }

    /// How many workers of this name have a connection.
    pub fn connected_as(&self, name: &Name) -> usize {
        let connected = |key: &WorkerKey| {
            self.workers.tiers_of(*key).all(|index| self.workers.get(index).away_until.is_none())
        };
        self.workers.named(name).filter(connected).count()
    }

    /// Whether a connected worker takes no more tasks.
    pub fn is_draining(&self, worker: WorkerKey) -> bool {
        self.workers.tiers_of(worker).any(|index| self.workers.get(index).draining)
    }

    /// Who holds a task.
    pub fn holder(&self, seq: Seq) -> Option<WorkerKey> {
        let task = self.tasks.find(seq).filter(|task| task.worker != NOBODY)?;
        Some(self.workers.get(task.worker).key.worker)
    }

    /// Whether no task is open, in memory or in the store.
    pub fn is_idle(&self) -> bool {
        self.tasks.len() == 0 && self.spills.is_empty() && self.settling.is_empty()
    }

    fn holder_of(&self, task: &Task) -> Option<Name> {
        if task.worker == NOBODY {
            return task.links.as_ref().and_then(|links| links.holder.clone());
        }
        Some(self.workers.get(task.worker).name.clone())
    }

    fn wait_reason(&self, task: &Task) -> Option<WaitReason> {
        match task.state {
            TaskState::Blocked => Some(
                self.wait_for_workflow(task)
                    .or_else(|| self.wait_for_group(task))
                    .unwrap_or_else(|| self.missing_dependencies(task)),
            ),
            TaskState::Scheduled if task.retried => Some(WaitReason::Backoff {
                until: task.ready_at,
                attempts: task.attempts,
                budget_spent: task.links.as_ref().is_some_and(|links| links.over_budget),
            }),
            TaskState::Scheduled => Some(WaitReason::Scheduled { until: task.ready_at }),
            TaskState::Ready => Some(self.wait_for_worker(&task.spec, Some(task))),
            TaskState::Leased if is_in_line(task) => {
                Some(WaitReason::AtWorker { worker: self.holder_of(task).unwrap_or_default() })
            }
            TaskState::Leased | TaskState::Done | TaskState::Dead | TaskState::Cancelled => None,
        }
    }

    /// Why a callback waits whose dependencies are met.
    fn wait_for_workflow(&self, task: &Task) -> Option<WaitReason> {
        task.links.as_ref().filter(|links| links.callback && links.missing == 0)?;
        let workflow = task.spec.workflow.as_ref()?;
        Some(WaitReason::WorkflowOpen { open: self.open_members(workflow.id) })
    }

    /// Why a task waits whose dependencies are met, if it waits for a group.
    fn wait_for_group(&self, task: &Task) -> Option<WaitReason> {
        task.links.as_ref().filter(|links| links.groups == Awaits::Now && links.missing == 0)?;
        let (group, open) = self.open_group(&task.spec)?;
        Some(WaitReason::GroupOpen { group: group.clone(), open })
    }

    fn missing_dependencies(&self, task: &Task) -> WaitReason {
        let Some(links) = &task.links else {
            return WaitReason::Dependencies { missing: 0, total: 0, first: None };
        };
        let open = |seq: Seq| {
            self.tasks.row_of(seq).is_some()
                || self.settling.contains_key(&seq)
                || self.absent.contains_key(&seq)
        };
        // A recovered task may have fewer edges than its spec names; then places say nothing.
        let place = links.parents.iter().position(|edge| open(edge.seq));
        let place = place.filter(|_| links.parents.len() == task.spec.after.len());
        let first = place.and_then(|place| task.spec.after.get(place)).map(|edge| edge.task);
        WaitReason::Dependencies {
            missing: links.missing,
            total: links.parents.len() as u32,
            first,
        }
    }

    fn wait_for_worker(&self, spec: &TaskSpec, task: Option<&Task>) -> WaitReason {
        if self.queues.find(&spec.queue).is_some_and(|queue| queue.paused) {
            return WaitReason::QueuePaused { queue: spec.queue.clone() };
        }
        let lacks =
            |group: &Group| spec.needs.iter().filter(|need| !group.profile.has(need)).count();
        // Of those that lack as much, who comes nearer to the numbers.
        let distance = |group: &Group| (lacks(group), group.profile.shortfall(&spec.needs));
        let groups = self.workers.groups().map(|(_, group)| group);
        let near: Vec<&Group> = groups
            .filter(|group| !group.active.is_empty() && group.profile.runs(&spec.queue, &spec.kind))
            .collect();
        let Some(nearest) = near.iter().min_by_key(|group| distance(group)) else {
            let workers = self.workers.len() as u32;
            return WaitReason::NoWorker {
                kind: spec.kind.clone(),
                queue: spec.queue.clone(),
                workers,
            };
        };
        let class = task.map_or_else(|| self.classes.peek(spec), |task| Some(task.class));
        let least = lacks(nearest);
        let falls = class.is_some_and(|class| self.falls_back(class, band_of(spec.priority)));
        if least > 0 && !falls {
            let missing =
                spec.needs.iter().filter(|need| !nearest.profile.has(need)).cloned().collect();
            let member = nearest.active.first().map(|index| self.workers.get(*index).name.clone());
            return WaitReason::MissingCapability { missing, nearest: member.unwrap_or_default() };
        }
        if let Some(limit) = task.and_then(|task| self.wait_for_limit_of(task, self.now)) {
            return limit;
        }
        if let Some(kept) = task.and_then(|task| self.wait_for_another(task)) {
            return kept;
        }
        if let Some((workers, until)) = class.and_then(|class| self.quarantined_for(class)) {
            return WaitReason::Quarantined { kind: spec.kind.clone(), workers, until };
        }
        let able = near
            .iter()
            .filter(|group| lacks(group) == least)
            .map(|group| group.active.len() as u32)
            .sum();
        let position = task.and_then(|task| self.position(task));
        WaitReason::WorkersBusy { position, workers: able }
    }

    /// How many tasks leave its stream before this one.
    pub(crate) fn position(&self, task: &Task) -> Option<u64> {
        let stream = self.streams.at(task.stream)?;
        stream.ahead_of(task.seq, &self.tasks, POSITION_LOOK_MAX, self.patience_us())
    }

    /// The limit that keeps a ready task from running.
    pub(crate) fn wait_for_limit_of(&self, task: &Task, now: Timestamp) -> Option<WaitReason> {
        let limit = self.streams.at(task.stream)?.waits_on;
        if limit == NONE {
            return None;
        }
        let limit = self.limits.get(limit);
        let full = limit.most.is_some_and(|most| limit.running >= most);
        Some(WaitReason::Limit {
            limit: limit.name.clone(),
            running: limit.running,
            concurrency: limit.most.filter(|_| full),
            until: limit.next(now),
        })
    }

    /// All limits that tasks wait for or run under, by name.
    pub fn limit_views(&self, now: Timestamp) -> Vec<LimitView> {
        let mut waiting = BTreeMap::new();
        for (_, stream) in self.streams.iter().filter(|(_, stream)| stream.waits_on != NONE) {
            *waiting.entry(stream.waits_on).or_insert(0) += stream.live as u64;
        }
        self.limits.views(now, &waiting)
    }
}

/// Whether a task waits for a slot at its worker. What ran when the server stopped is nobody's until its worker is back,
/// and runs.
fn is_in_line(task: &Task) -> bool {
    task.state == TaskState::Leased && task.begun == QUEUED && task.worker != NOBODY
}
