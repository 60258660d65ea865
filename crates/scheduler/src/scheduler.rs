//! The state of the scheduler, how inputs reach the transitions, and the small steps that all of them share.
//!
//! What each input means is decided in the file named after the transition; here is only who is called.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use divvy_types::view::TaskChange;
use divvy_types::{Fact, Lane, Machine, Seq, Settings, TaskSpec, TaskState, Timestamp, WorkflowId};

use crate::budgets::Budgets;
use crate::classes::Classes;
use crate::learn::Learning;
use crate::limits::Limits;
use crate::matching::Fits;
use crate::pick::Turns;
use crate::placed::Placed;
use crate::queues::Queues;
use crate::score::Ranking;
use crate::settle::{Ended, Settling};
use crate::shares::Shares;
use crate::spill::Spill;
use crate::steal::Recalls;
use crate::streams::Streams;
use crate::table::{Awaits, Edge, Row, Task, Tasks};
use crate::tally::Waits;
use crate::timers::{Timer, Timers};
use crate::workers::{Order, Workers};
use crate::workflows::Flow;
use crate::{Action, Input, Options};

/// Decides whose turn it is. The crate text says how it is driven.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) options: Options,
    /// The time of the present step.
    pub(crate) now: Timestamp,
    pub(crate) settings: Settings,
    pub(crate) random: fastrand::Rng,
    pub(crate) tasks: Tasks,
    pub(crate) queues: Queues,
    pub(crate) classes: Classes,
    pub(crate) streams: Streams,
    pub(crate) shares: Shares,
    pub(crate) limits: Limits,
    /// How far each priority has got, where they compete because one has waited too long.
    pub(crate) turns: Turns,
    pub(crate) workers: Workers,
    pub(crate) timers: Timers,
    /// Which groups may take which classes, and how well.
    pub(crate) fits: Fits,
    /// How workers do.
    pub(crate) learning: Learning,
    /// Ready tasks that are kept from the worker that they failed on.
    pub(crate) kept: usize,
    /// Tasks that are asked back from workers.
    pub(crate) recalls: Recalls,
    /// The last decisions.
    pub(crate) placed: Placed,
    /// The last comparison of workers, and the list for the next.
    pub(crate) ranking: Ranking,
    pub(crate) compared: Vec<Order>,
    /// Tasks that are done, but whose children are not.
    pub(crate) settling: BTreeMap<Seq, Settling>,
    /// Who waits for tasks that are not in memory: they wait in the store, or follow later in the batch.
    pub(crate) absent: BTreeMap<Seq, Vec<Edge>>,
    /// Workflows with open members or waiting callbacks.
    pub(crate) workflows: BTreeMap<WorkflowId, Flow>,
    /// How many retries each kind may make.
    pub(crate) budgets: Budgets,
    /// Lanes with tasks in the store.
    pub(crate) spills: BTreeMap<Lane, Spill>,
    /// Tasks that were asked for from the store and have not arrived.
    pub(crate) loading_rows: usize,
    /// Ready tasks in memory, and the bytes of their payloads.
    pub(crate) ready_tasks: usize,
    pub(crate) ready_bytes: usize,
    pub(crate) grants: u64,
    /// How long tasks waited since the start.
    pub(crate) waits: Waits,
    /// Tasks that became ready since the start.
    pub(crate) arrivals: u64,
    /// Tasks that were put back to wait for their dependencies.
    pub(crate) lives: u32,
    pub(crate) recovering: bool,
    /// During recovery: when tasks that wait came to be or were put back, if circles may go through them.
    pub(crate) begun: BTreeMap<Seq, Timestamp>,
    /// Whether anyone wants to hear of changes.
    pub(crate) watched: bool,
    pub(crate) stopping: bool,
    /// Classes and workers to be looked at before the step ends.
    pub(crate) dirty_classes: Vec<u32>,
    pub(crate) dirty_workers: Vec<u32>,
    /// Tasks whose end has not been told to their dependents.
    pub(crate) ended: Vec<Ended>,
    /// Workflows to be looked at before the step ends.
    pub(crate) ended_workflows: Vec<WorkflowId>,
    /// Tasks that wait for groups, to be looked at before the step ends.
    pub(crate) due: Vec<Seq>,
    pub(crate) actions: VecDeque<Action>,
}

impl Scheduler {
    /// A scheduler without tasks or workers, before recovery.
    pub fn new(options: Options) -> Self {
        let random = fastrand::Rng::with_seed(options.seed);
        let mut scheduler = Self {
            options,
            now: Timestamp::default(),
            settings: Settings::default(),
            random,
            tasks: Tasks::default(),
            queues: Queues::default(),
            classes: Classes::default(),
            streams: Streams::default(),
            shares: Shares::default(),
            limits: Limits::default(),
            turns: Turns::new(&Settings::default().ordering),
            workers: Workers::default(),
            timers: Timers::default(),
            fits: Fits::default(),
            learning: Learning::default(),
            kept: 0,
            recalls: Recalls::default(),
            placed: Placed::default(),
            ranking: Ranking::default(),
            compared: Vec::new(),
            settling: BTreeMap::new(),
            absent: BTreeMap::new(),
            workflows: BTreeMap::new(),
            budgets: Budgets::default(),
            spills: BTreeMap::new(),
            loading_rows: 0,
            ready_tasks: 0,
            ready_bytes: 0,
            grants: 0,
            waits: Waits::default(),
            arrivals: 0,
            lives: 0,
            recovering: true,
            begun: BTreeMap::new(),
            watched: true,
            stopping: false,
            dirty_classes: Vec::new(),
            dirty_workers: Vec::new(),
            ended: Vec::new(),
            ended_workflows: Vec::new(),
            due: Vec::new(),
            actions: VecDeque::new(),
        };
        scheduler.workers.set_crowd_limit(scheduler.crowd_limit());
        scheduler
    }

    /// Says whether anyone wants to hear of changes; if nobody does, [`Action::Announce`] is left out.
    pub fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    pub(crate) fn record(&mut self, fact: Fact) {
        self.actions.push_back(Action::Record(fact));
    }

    /// Tells whoever watches; if nobody does, the change is not even made.
    #[inline]
    pub(crate) fn announce(&mut self, change: impl FnOnce() -> TaskChange) {
        if self.watched {
            self.actions.push_back(Action::Announce(Arc::new(change())));
        }
    }

    pub(crate) fn forget(&mut self, seq: Seq, spec: &Arc<TaskSpec>) {
        self.actions.push_back(Action::Forget { seq, task: spec.id });
    }

    /// Takes a new task into memory, in its state.
    #[inline]
    pub(crate) fn insert(&mut self, task: Task) -> Row {
        let class = self.classes.get_mut(task.class);
        class.uses += 1;
        self.queues.add(class.queue, task.state);
        self.traffic_added(task.class, task.state, task.spec.deadline, !task.recovered);
        self.tasks.insert(task)
    }

    /// Takes a task out of memory. If it is ready it must have left its lane.
    #[inline]
    pub(crate) fn remove(&mut self, row: Row) -> Task {
        let task = self.tasks.remove(row);
        let class = self.classes.get_mut(task.class);
        class.uses -= 1;
        self.queues.subtract(class.queue, task.state);
        self.traffic_removed(task.class, task.state, task.spec.deadline);
        if task.links.as_ref().is_some_and(|links| links.groups != Awaits::Nothing) {
            self.leave_groups(&task);
        }
        task
    }

    pub(crate) fn set_state(&mut self, row: Row, state: TaskState, now: Timestamp) {
        let task = &mut self.tasks[row];
        let queue = self.classes.get(task.class).queue;
        self.queues.moved(queue, task.state, state);
        let before = std::mem::replace(&mut task.state, state);
        task.since = now;
        self.traffic_moved(row, before, state);
    }

    /// Lets a task wait for a point in time.
    pub(crate) fn schedule(&mut self, row: Row, now: Timestamp, due: Timestamp) {
        self.set_state(row, TaskState::Scheduled, now);
        let task = &mut self.tasks[row];
        task.ready_at = due;
        self.timers.add(due, Timer::Due(task.seq));
    }

    fn time_passed(&mut self, now: Timestamp) {
        for _ in 0..self.options.timers_per_step {
            let Some((_, timer)) = self.timers.pop_due(now) else { return };
            match timer {
                Timer::Due(seq) => self.came_due(now, seq),
                Timer::Overdue(seq) => self.attempt_overdue(now, seq),
                Timer::StopGrace(seq) => self.stop_ignored(now, seq),
                Timer::Unclaimed(seq) => self.lease_unclaimed(now, seq),
                Timer::Anywhere(seq) => self.let_anywhere(now, seq),
                Timer::Limit(limit) => self.limits.timer_fired(limit),
                Timer::Held(worker) => self.note_held(now, worker),
                Timer::Lease(worker) => self.check_lease(now, worker),
                Timer::Away(worker) => self.stayed_away(now, worker),
                Timer::QuarantineOver(known, kind) => self.quarantine_over(known, kind),
                Timer::Look => self.look(now),
                Timer::Lines => self.look_at_lines(),
            }
        }
    }
}

impl Machine for Scheduler {
    type Input = Input;
    type Action = Action;

    fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = now;
        match input {
            Input::TasksSubmitted(tasks) => self.tasks_submitted(now, tasks),
            Input::AttemptEnded(report) => self.attempt_ended(now, report),
            Input::WorkerSeen { worker } => self.worker_seen(now, worker),
            Input::TimePassed => self.time_passed(now),
            Input::TaskRecovered(task) => self.task_recovered(now, task),
            Input::LaneRecovered { lane, count, sample } => {
                self.lane_recovered(now, lane, count, &sample)
            }
            Input::SettlingRecovered { seq, task, failed, spawned_by, member } => {
                self.settling_recovered(now, (seq, task), failed, spawned_by, member)
            }
            Input::MembersRecovered { member, count } => self.members_recovered(&member, count),
            Input::WorkflowLookedUp { workflow, failed } => {
                self.workflow_looked_up(workflow, failed);
            }
            Input::RecoveryEnded => self.recovery_ended(now),
            Input::SpilledLoaded { lane, tasks, exhausted } => {
                self.spilled_loaded(now, lane, tasks, exhausted)
            }
            Input::SpilledCancelled { seq, task, lane, member, reason } => {
                self.spilled_cancelled(now, (seq, task), lane, member, reason);
            }
            Input::WorkerJoined(worker, hello) => self.worker_joined(now, worker, hello),
            Input::WorkerDraining { worker } => self.worker_draining(worker),
            Input::WorkerPaused { worker, paused } => self.worker_paused(worker, paused),
            Input::WorkerCut { worker } => self.worker_cut(now, worker),
            Input::WorkerLeft { worker } => self.worker_left(now, worker),
            Input::CancelRequested { seq, reason } => self.cancel_requested(now, seq, reason),
            Input::RunNowRequested { seq } => self.run_now_requested(now, seq),
            Input::PriorityChanged { seq, priority } => self.priority_changed(now, seq, priority),
            Input::TaskReplayed { spawners, task, replay } => {
                self.task_replayed(now, spawners, *task, replay);
            }
            Input::TasksResumed { spawners, tasks } => self.tasks_resumed(now, spawners, tasks),
            Input::SettingsChanged(settings) => self.settings_changed(now, *settings),
            Input::RebalanceRequested => self.rebalance(now),
            Input::CheckpointSaved { worker, seq, token, data } => {
                self.checkpoint_saved(now, worker, seq, token, data);
            }
            Input::QueuePaused { queue, paused } => self.queue_paused(queue, paused),
            Input::ClockStepped { by_us } => self.clock_stepped(Duration::from_micros(by_us)),
            Input::ServerStopping => self.server_stopping(),
        }
        self.settle(now);
        self.dispatch(now);
    }

    // Called several times in each life of a task, from other crates.
    #[inline]
    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.timers.next()
    }
}
