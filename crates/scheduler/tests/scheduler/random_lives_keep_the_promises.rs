//! Random submissions, workers, reports, cancels, pauses, thefts, restarts and time; a model beside the scheduler, fed with
//! nothing but its actions, checks the promises after every step. At the end faults stop, and everything must end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::excuses::is_excused;
use crate::support::operations::{End, Op, Shape, op};
use crate::support::put_back_alone;
use crate::support::thefts::Thefts;
use divvy_scheduler::*;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Fact, Failure, Lane, Machine, OpenTask, Payload, Seq,
    TaskError, TaskId, TaskSpec, TaskState, Timestamp, Token, WaitReason, WorkerHello, WorkerKey,
};
use proptest::prelude::*;

const QUEUES: [&str; 2] = ["default", "mail"];

/// A task as the facts have it.
struct Stored {
    spec: Arc<TaskSpec>,
    spawned_by: Option<Seq>,
    spilled: Option<Lane>,
    outcome: Option<TaskState>,
    attempts: u32,
    retry_at: Option<Timestamp>,
    held: Option<(Token, divvy_types::Name, Timestamp)>,
    ended_tokens: BTreeSet<Token>,
    /// The worker on which its last attempt failed, since the server started.
    failed_on: Option<divvy_types::Name>,
    submitted_at: Timestamp,
    /// Put back by someone: its dependencies count as met, after a restart too.
    replayed: bool,
}

/// A worker process: it outlives connections.
struct Process {
    key: Option<WorkerKey>,
    /// How many processes had its name before.
    life: u32,
    /// Whether the server may still believe in its last connection.
    away: bool,
    queues: Vec<divvy_types::Name>,
    credit: u32,
    slots: u32,
    draining: bool,
    running: BTreeMap<Seq, Token>,
}

struct Model {
    scheduler: Scheduler,
    epoch: u64,
    now: Timestamp,
    tasks: BTreeMap<Seq, Stored>,
    spawned: BTreeMap<Seq, Vec<Seq>>,
    settled: BTreeSet<Seq>,
    processes: Vec<Process>,
    last_key: u64,
    last_token: Token,
    tokens: Vec<(Seq, Token)>,
    paused: BTreeSet<&'static str>,
    loads: Vec<(Lane, Option<Seq>, usize)>,
    thefts: Thefts,
    restarted: bool,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            scheduler: Scheduler::new(Self::options(1)),
            epoch: 1,
            now: Timestamp(1_700_000_000_000_000),
            tasks: BTreeMap::new(),
            spawned: BTreeMap::new(),
            settled: BTreeSet::new(),
            processes: Vec::new(),
            last_key: 0,
            last_token: Token::default(),
            tokens: Vec::new(),
            paused: BTreeSet::new(),
            loads: Vec::new(),
            thefts: Thefts::default(),
            restarted: false,
        };
        model.feed(Input::RecoveryEnded);
        model
    }

    fn options(epoch: u64) -> Options {
        Options {
            epoch,
            window_tasks: 12,
            lane_load_rows: 4,
            lane_floor_rows: 2,
            ..Options::default()
        }
    }

    fn feed(&mut self, input: Input) {
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Record(fact) => self.record(fact),
            Action::Grant(grant) => self.granted(&grant),
            Action::StopAttempt { worker, token, .. } => {
                let process = self.processes.iter_mut().find(|process| process.key == Some(worker));
                if let Some(process) = process {
                    process.running.retain(|_, running| *running != token);
                } else {
                    assert!(self.processes.iter().any(|process| process.away), "nobody is told");
                }
            }
            Action::DropWorker { worker } => {
                let process = self.processes.iter_mut().find(|process| process.key == Some(worker));
                // Nothing is left of a connection that was replaced by another.
                if let Some(process) = process {
                    process.key = None;
                }
            }
            Action::LoadSpilled { lane, after, rows } => self.loads.push((lane, after, rows)),
            Action::AnswerReport { worker, seq, token, .. } => {
                if let Some(process) =
                    self.processes.iter_mut().find(|process| process.key == Some(worker))
                    && process.running.get(&seq) == Some(&token)
                {
                    process.running.remove(&seq);
                }
            }
            Action::Recall { worker, seq, token, .. } => self.recall(worker, seq, token),
            Action::Announce(_) | Action::Forget { .. } | Action::ForgetWorkflow { .. } => {}
        }
    }

    fn recall(&mut self, worker: WorkerKey, seq: Seq, token: Token) {
        let process = self.processes.iter().find(|process| process.key == Some(worker));
        let process = process.expect("a connected worker is asked");
        let spec = &self.tasks[&seq].spec;
        self.thefts.ask((worker, seq, token), process.running.get(&seq), spec);
    }

    fn answer_recall(&mut self, which: usize, give: bool) {
        let Some((worker, seq, token)) = self.thefts.take(which) else { return };
        let process = self.processes.iter().find(|process| process.key == Some(worker));
        if give && process.is_some_and(|process| process.running.get(&seq) == Some(&token)) {
            let end = AttemptEnd::Other(AttemptOutcome::Released);
            self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
        }
    }

    fn record(&mut self, fact: Fact) {
        match fact {
            Fact::Submitted { seq, at, spec, spawned_by, spilled } => {
                let task = Stored {
                    spec,
                    spawned_by,
                    spilled,
                    outcome: None,
                    attempts: 0,
                    retry_at: None,
                    held: None,
                    ended_tokens: BTreeSet::new(),
                    failed_on: None,
                    submitted_at: at,
                    replayed: false,
                };
                assert!(self.tasks.insert(seq, task).is_none());
                if let Some(spawner) = spawned_by {
                    self.spawned.entry(spawner).or_default().push(seq);
                }
            }
            Fact::Reprioritised { seq, priority, .. } => {
                let task = self.tasks.get_mut(&seq).expect("a known task");
                Arc::make_mut(&mut task.spec).priority = priority;
            }
            Fact::AttemptFailed { seq, token, retry_at, counted, worker, .. } => {
                self.fence(seq, token);
                let task = self.tasks.get_mut(&seq).expect("a known task");
                task.attempts += u32::from(counted);
                assert!(task.attempts <= task.spec.retry.limit, "a task lives on over its limit");
                task.retry_at = Some(retry_at);
                task.held = None;
                task.failed_on = counted.then_some(worker).or_else(|| task.failed_on.take());
            }
            Fact::Finished { seq, token, .. } => {
                self.fence(seq, token);
                self.ended(seq, TaskState::Done);
            }
            Fact::Dead { seq, token, .. } => {
                self.fence(seq, token);
                self.ended(seq, TaskState::Dead);
            }
            Fact::Cancelled { seq, spilled, .. } => {
                let task = self.tasks.get_mut(&seq).expect("a known task");
                assert_eq!(task.outcome, None);
                assert_eq!(task.spilled, spilled);
                self.ended(seq, TaskState::Cancelled);
            }
            Fact::Replayed { seq, .. } => {
                let task = self.tasks.get_mut(&seq).expect("a known task");
                (task.outcome, task.attempts, task.retry_at, task.held) = (None, 0, None, None);
                (task.spilled, task.replayed, task.failed_on) = (None, true, None);
            }
            Fact::Checkpoint { .. } | Fact::Setting { .. } => {}
            Fact::Held { seq, token, worker, began } => {
                let task = self.tasks.get_mut(&seq).expect("a known task");
                task.held = Some((token, worker, began));
            }
            Fact::Unspilled { lane, upto } => {
                for (_, task) in
                    self.tasks.range_mut(..=upto).filter(|(_, task)| task.spilled == Some(lane))
                {
                    task.spilled = None;
                }
            }
            Fact::QueuePaused { .. } | Fact::Dropped { .. } => {}
        }
    }

    /// An attempt may end once, while its task is open, and only if no later one was granted.
    fn fence(&mut self, seq: Seq, token: Token) {
        let task = self.tasks.get_mut(&seq).expect("a known task");
        assert_eq!(task.outcome, None, "a fact about task {seq:?}, which has ended");
        assert!(task.ended_tokens.insert(token), "two ends of one attempt");
        let newer = self.tokens.iter().find(|(of, granted)| *of == seq && *granted > token);
        assert_eq!(newer, None, "an attempt under {token:?} is believed over a newer one");
    }

    /// Marks who has settled with the end of a task.
    fn ended(&mut self, seq: Seq, outcome: TaskState) {
        self.tasks.get_mut(&seq).expect("a known task").outcome = Some(outcome);
        for seq in std::iter::once(seq).chain(self.spawners(seq)) {
            if self.family_ended(seq) {
                self.settled.insert(seq);
            }
        }
    }

    fn granted(&mut self, grant: &Grant) {
        assert!(grant.token > self.last_token, "tokens must grow");
        self.last_token = grant.token;
        self.tokens.push((grant.seq, grant.token));
        let task = &self.tasks[&grant.seq];
        assert_eq!(task.outcome, None, "an ended task is granted");
        assert_eq!(task.spilled, None, "a task of the store is granted");
        assert_eq!(grant.attempt, task.attempts + 1);
        assert!(task.spec.run_at.is_none_or(|at| at <= self.now) || self.ran_early(grant.seq));
        assert!(!self.paused.contains(task.spec.queue.as_str()), "a paused queue grants");
        for edge in &task.spec.after {
            let parent = Seq(edge.task.0 as u64);
            let own_spawner = self.spawners(grant.seq).contains(&parent);
            assert!(
                own_spawner || self.settled.contains(&parent),
                "{:?} before its parent {parent:?}",
                grant.seq
            );
        }
        let process = self.processes.iter_mut().find(|process| process.key == Some(grant.worker));
        let process = process.expect("a grant goes to a connected worker");
        assert!(!process.draining);
        let taker = self.scheduler.workers().into_iter().find(|one| one.key == grant.worker.0);
        assert!(taker.is_some_and(|taker| !taker.paused), "a paused worker got a task");
        assert!(process.queues.is_empty() || process.queues.contains(&task.spec.queue));
        process.running.insert(grant.seq, grant.token);
    }

    /// A retry's time may come, or someone may say so, before the time of the spec: then an attempt was made before.
    fn ran_early(&self, seq: Seq) -> bool {
        self.tokens.iter().any(|(of, _)| *of == seq)
    }

    fn spawners(&self, seq: Seq) -> Vec<Seq> {
        let mut list = Vec::new();
        let mut next = self.tasks.get(&seq).and_then(|task| task.spawned_by);
        while let Some(seq) = next {
            list.push(seq);
            next = self.tasks[&seq].spawned_by;
        }
        list
    }

    fn children(&self, seq: Seq) -> impl Iterator<Item = Seq> {
        self.spawned.get(&seq).into_iter().flatten().copied()
    }

    fn family_ended(&self, seq: Seq) -> bool {
        self.tasks[&seq].outcome.is_some()
            && self.children(seq).all(|child| self.family_ended(child))
    }

    fn family_well(&self, seq: Seq) -> bool {
        self.tasks[&seq].outcome == Some(TaskState::Done)
            && self.children(seq).all(|child| self.family_well(child))
    }

    /// Whether a child or a child's child has failed.
    fn family_failed(&self, seq: Seq) -> bool {
        self.children(seq).any(|child| {
            self.tasks[&child].outcome.is_some_and(TaskState::is_failure)
                || self.family_failed(child)
        })
    }

    /// What the engine would say of a dependency.
    fn parent(&self, edge: &Dependency) -> Parent {
        let seq = Seq(edge.task.0 as u64);
        let known = self.tasks.get(&seq);
        let open =
            known.is_none_or(|task| task.outcome.is_none()) || self.scheduler.state(seq).is_some();
        let state = match open {
            true => ParentState::Open,
            false if self.family_well(seq) => ParentState::Done,
            false => ParentState::Failed,
        };
        Parent { seq, optional: edge.optional, state }
    }

    fn submissions(&self, shapes: &[Shape]) -> Vec<Submission> {
        let first = self.tasks.keys().last().map_or(0, |seq| seq.0) + 1;
        let tasks = shapes.iter().enumerate().map(|(index, shape)| {
            let number = first + index as u64;
            let mut spec = TaskSpec::new(TaskId(u128::from(number)), "noop");
            spec.queue = QUEUES[usize::from(shape.queue)].into();
            spec.priority = shape.priority;
            spec.retry.limit = shape.limit;
            spec.run_at = shape.delay_ms.map(|ms| self.now.plus_ms(ms));
            spec.timeout_ms = shape.timeout_ms;
            let parents = shape.parents.iter().filter(|(back, _)| *back < number);
            spec.after = parents
                .map(|(back, optional)| Dependency {
                    task: TaskId(u128::from(number - back)),
                    optional: *optional,
                })
                .collect();
            spec
        });
        tasks
            .map(|spec| Submission {
                seq: Seq(spec.id.0 as u64),
                parents: spec.after.iter().map(|edge| self.parent(edge)).collect(),
                spec: Arc::new(spec),
            })
            .collect()
    }

    fn stored(&self, seq: Seq) -> RecoveredTask {
        let task = &self.tasks[&seq];
        let parents = task.spec.after.iter().map(|edge| self.parent(edge)).collect();
        let open = OpenTask {
            spawned_by: task.spawned_by,
            attempts: task.attempts,
            retry_at: task.retry_at,
            held: task.held.clone(),
            replayed: task.replayed,
            ..OpenTask::new(seq, task.spec.clone(), task.submitted_at)
        };
        RecoveredTask { open, parents }
    }

    fn connected(&self, which: usize) -> Option<usize> {
        let list: Vec<usize> =
            (0..self.processes.len()).filter(|at| self.processes[*at].key.is_some()).collect();
        (!list.is_empty()).then(|| list[which % list.len()])
    }

    fn connect(&mut self, at: usize) {
        self.last_key += 1;
        let key = WorkerKey(self.last_key);
        let name = divvy_types::Name::from(format!("process-{at}"));
        let drains = self.scheduler.workers().iter().any(|old| old.name == name && old.draining);
        let process = &mut self.processes[at];
        process.draining &= drains;
        process.key = Some(key);
        process.away = false;
        let hello = WorkerHello {
            name,
            instance: process.life.to_string().into(),
            queues: process.queues.clone(),
            kinds: vec!["noop".into()],
            credit: process.credit,
            slots: process.slots,
            held: process.running.iter().map(|(seq, token)| (*seq, *token)).collect(),
            ..WorkerHello::default()
        };
        self.feed(Input::WorkerJoined(key, hello));
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Submit(shapes) => {
                let tasks = self.submissions(&shapes);
                self.feed(Input::TasksSubmitted(tasks));
            }
            Op::AnswerRecall { which, give } => self.answer_recall(which, give),
            Op::Stealing { strategy, busy, begun_too, predictive } => {
                self.thefts.change(strategy, busy, begun_too, predictive);
                self.feed(Input::SettingsChanged(Box::new(self.thefts.settings.clone())));
            }
            Op::Rebalance => self.rebalance(),
            Op::Join { credit, slots, queue } => {
                let queues =
                    QUEUES.get(usize::from(queue)).map(|name| (*name).into()).into_iter().collect();
                self.processes.push(Process {
                    key: None,
                    life: 0,
                    away: false,
                    queues,
                    credit,
                    slots,
                    draining: false,
                    running: BTreeMap::new(),
                });
                self.connect(self.processes.len() - 1);
            }
            Op::Rejoin(_) | Op::Leave(_) | Op::Cut(_) | Op::Reconnect(_) | Op::Replace(_) => {
                self.change_connection(op);
            }
            Op::Drain(which) => {
                if let Some(at) = self.connected(which)
                    && let Some(worker) = self.processes[at].key
                {
                    self.processes[at].draining = true;
                    self.feed(Input::WorkerDraining { worker });
                }
            }
            Op::Rest { which, paused } => {
                if let Some(at) = self.connected(which)
                    && let Some(worker) = self.processes[at].key
                {
                    self.feed(Input::WorkerPaused { worker, paused });
                }
            }
            Op::Report { which, end } => self.report(which, end),
            Op::StaleReport { which, worker } => self.report_stale(which, worker),
            Op::Cancel(which) => self.cancel(which),
            Op::Replay(which) => self.replay(which),
            Op::RunNow(which) => self.run_now(which),
            Op::Pause { queue, paused } => self.pause(queue, paused),
            Op::Load => self.load(),
            Op::Time(ms) => {
                self.now = self.now.plus_ms(ms);
                self.feed(Input::TimePassed);
            }
            Op::Restart { graceful } => self.restart(graceful),
        }
    }

    /// A process connects, loses its connection, says goodbye, or makes room for another.
    fn change_connection(&mut self, op: Op) {
        match op {
            Op::Leave(which) => {
                if let Some(at) = self.connected(which)
                    && let Some(worker) = self.processes[at].key.take()
                {
                    self.processes[at].draining = false;
                    self.feed(Input::WorkerLeft { worker });
                }
            }
            Op::Cut(which) => {
                if let Some(at) = self.connected(which)
                    && let Some(worker) = self.processes[at].key.take()
                {
                    self.processes[at].away = true;
                    self.feed(Input::WorkerCut { worker });
                    self.kept_all(at);
                }
            }
            Op::Reconnect(which) => {
                if let Some(at) = self.connected(which) {
                    self.connect(at);
                    self.kept_all(at);
                }
            }
            Op::Rejoin(which) | Op::Replace(which) => {
                let gone = (0..self.processes.len()).filter(|at| self.processes[*at].key.is_none());
                let gone: Vec<usize> = gone.collect();
                if gone.is_empty() {
                    return;
                }
                let at = gone[which % gone.len()];
                if matches!(op, Op::Replace(_)) {
                    let process = &mut self.processes[at];
                    process.life += 1;
                    process.draining = false;
                    process.running.clear();
                }
                self.connect(at);
            }
            _ => {}
        }
    }

    /// What a process has that was here a moment ago is still its own.
    fn kept_all(&self, at: usize) {
        for (seq, token) in &self.processes[at].running {
            assert_eq!(self.scheduler.lease_token(*seq), Some(*token), "{seq:?} was taken away");
        }
    }

    fn rebalance(&mut self) {
        let planned = self.scheduler.plan_rebalance(self.now).len();
        let before = self.thefts.asked();
        self.feed(Input::RebalanceRequested);
        assert!(self.thefts.asked() - before >= planned, "a plan is not carried out");
    }

    fn run_now(&mut self, which: usize) {
        if !self.tasks.is_empty() {
            let seq = Seq(1 + (which % self.tasks.len()) as u64);
            // A task that is told to run now is not early.
            if self.scheduler.state(seq) == Some(TaskState::Scheduled) {
                self.tokens.push((seq, Token::default()));
            }
            self.feed(Input::RunNowRequested { seq });
        }
    }

    fn pause(&mut self, queue: u8, paused: bool) {
        let name = QUEUES[usize::from(queue)];
        if paused {
            self.paused.insert(name);
        } else {
            self.paused.remove(name);
        }
        self.feed(Input::QueuePaused { queue: name.into(), paused });
    }

    fn report(&mut self, which: usize, end: End) {
        let mut running = Vec::new();
        for process in self.processes.iter().filter(|process| process.key.is_some()) {
            running.extend(process.running.iter().map(|(seq, token)| (process.key, *seq, *token)));
        }
        if running.is_empty() {
            return;
        }
        let (key, seq, token) = running[which % running.len()];
        let end = match end {
            End::Finish(shapes) => {
                AttemptEnd::Finished { result: Payload::null(), spawned: self.submissions(&shapes) }
            }
            End::Fail(verdict) => {
                let error = TaskError::new(ErrorClass::Failed, "boom");
                AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict, error }))
            }
            End::Release => AttemptEnd::Other(AttemptOutcome::Released),
        };
        let worker = key.expect("a connected worker");
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
    }

    fn report_stale(&mut self, which: usize, worker: usize) {
        let (Some(at), false) = (self.connected(worker), self.tokens.is_empty()) else { return };
        let (seq, token) = self.tokens[which % self.tokens.len()];
        if self.processes[at].running.get(&seq) == Some(&token)
            || self.scheduler.lease_token(seq) == Some(token)
        {
            return;
        }
        let before = self.scheduler.counts();
        let worker = self.processes[at].key.expect("a connected worker");
        let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
        assert_eq!(self.scheduler.counts(), before);
    }

    fn cancel(&mut self, which: usize) {
        if self.tasks.is_empty() {
            return;
        }
        let seq = Seq(1 + (which % self.tasks.len()) as u64);
        let task = &self.tasks[&seq];
        match task.spilled {
            Some(lane) if task.outcome.is_none() => {
                self.feed(Input::SpilledCancelled {
                    seq,
                    task: task.spec.id,
                    lane,
                    member: None,
                    reason: "asked".into(),
                });
            }
            _ => self.feed(Input::CancelRequested { seq, reason: "asked".into() }),
        }
    }

    fn replay(&mut self, which: usize) {
        let ended = self.tasks.iter().filter(|(_, task)| {
            task.spawned_by.is_none()
                && matches!(task.outcome, Some(TaskState::Dead | TaskState::Cancelled))
        });
        let ended: Vec<Seq> = ended.map(|(seq, _)| *seq).collect();
        if !ended.is_empty() {
            let seq = ended[which % ended.len()];
            // Its dependencies count as met from now on.
            let parents: Vec<Seq> =
                self.tasks[&seq].spec.after.iter().map(|edge| Seq(edge.task.0 as u64)).collect();
            self.settled.extend(parents);
            let task = self.stored(seq);
            self.feed(put_back_alone(task));
        }
    }

    fn load(&mut self) {
        if self.loads.is_empty() {
            return;
        }
        let (lane, after, rows) = self.loads.remove(0);
        let waiting = self.tasks.iter().filter(|(seq, task)| {
            task.spilled == Some(lane)
                && task.outcome.is_none()
                && after.is_none_or(|after| **seq > after)
        });
        let waiting: Vec<Seq> = waiting.map(|(seq, _)| *seq).collect();
        let tasks = waiting.iter().take(rows).map(|seq| self.stored(*seq)).collect();
        self.feed(Input::SpilledLoaded { lane, tasks, exhausted: waiting.len() <= rows });
    }

    fn restart(&mut self, graceful: bool) {
        if graceful {
            self.feed(Input::ServerStopping);
        }
        self.restarted = true;
        self.tasks.values_mut().for_each(|task| task.failed_on = None);
        self.epoch += 1;
        self.loads.clear();
        self.thefts.forget();
        self.scheduler = Scheduler::new(Self::options(self.epoch));
        for process in &mut self.processes {
            (process.key, process.away, process.draining) = (None, false, false);
        }
        self.feed(Input::SettingsChanged(Box::new(self.thefts.settings.clone())));
        for name in self.paused.clone() {
            self.feed(Input::QueuePaused { queue: name.into(), paused: true });
        }
        let settling: Vec<Seq> = self
            .tasks
            .keys()
            .copied()
            .filter(|seq| {
                self.tasks[seq].outcome == Some(TaskState::Done) && !self.family_ended(*seq)
            })
            .collect();
        for seq in &settling {
            let task = &self.tasks[seq];
            let (id, spawned_by) = (task.spec.id, task.spawned_by);
            let failed = self.family_failed(*seq);
            self.feed(Input::SettlingRecovered {
                seq: *seq,
                task: id,
                failed,
                spawned_by,
                member: None,
            });
        }
        let open =
            self.tasks.iter().filter(|(_, task)| task.outcome.is_none() && task.spilled.is_none());
        for seq in open.map(|(seq, _)| *seq).collect::<Vec<_>>() {
            let task = self.stored(seq);
            self.feed(Input::TaskRecovered(task));
        }
        let mut lanes: BTreeMap<Lane, (u64, Arc<TaskSpec>)> = BTreeMap::new();
        for task in self.tasks.values().filter(|task| task.outcome.is_none()) {
            if let Some(lane) = task.spilled {
                lanes.entry(lane).or_insert_with(|| (0, task.spec.clone())).0 += 1;
            }
        }
        for (lane, (count, sample)) in lanes {
            self.feed(Input::LaneRecovered { lane, count, sample });
        }
        self.feed(Input::RecoveryEnded);
    }

    /// What must hold after every step.
    fn check(&self) {
        let mut counts = Counts::default();
        for (seq, state, spec) in self.scheduler.open_before(None) {
            match state {
                TaskState::Blocked => counts.blocked += 1,
                TaskState::Scheduled => counts.scheduled += 1,
                TaskState::Ready => counts.ready += 1,
                TaskState::Leased => counts.leased += 1,
                other => panic!("{seq:?} is open and {other}"),
            }
            let status = self.scheduler.status(seq).expect("an open task has a status");
            let at_worker = matches!(status.wait, Some(WaitReason::AtWorker { .. }));
            assert_eq!(status.wait.is_none() || at_worker, state == TaskState::Leased);
            assert_eq!(self.tasks[&seq].outcome, None, "{seq:?} has ended and is open");
            if state == TaskState::Ready && !self.paused.contains(spec.queue.as_str()) {
                for worker in self.scheduler.workers() {
                    let serves = worker.queues.is_empty() || worker.queues.contains(&spec.queue);
                    let waits = !worker.draining
                        && !worker.paused
                        && worker.away_until.is_none()
                        && worker.leased < worker.credit;
                    let failed_on = self.tasks[&seq].failed_on.as_ref();
                    let idle = serves
                        && waits
                        && !is_excused(&self.scheduler, self.now, seq, &worker, failed_on);
                    assert!(!idle, "{seq:?} is ready and {} waits", worker.name);
                }
            }
        }
        counts.spilled = self.scheduler.counts().spilled;
        let lines = self.scheduler.workers().into_iter().map(|worker| worker.queue_length);
        counts.queued = lines.map(u64::from).sum();
        assert_eq!(self.scheduler.counts(), counts);
        let loads = self.scheduler.class_loads();
        let waiting: u64 = loads.iter().map(|load| load.waiting).sum();
        let running: u64 = loads.iter().map(|load| load.running).sum();
        assert_eq!(waiting, counts.ready + counts.spilled + counts.queued, "{loads:?}");
        assert_eq!(running, counts.leased - counts.queued, "{loads:?}");
        let mut leased = 0;
        for worker in self.scheduler.workers() {
            leased += u64::from(worker.leased);
        }
        assert!(leased <= counts.leased, "workers hold more than is leased");
        let open = self
            .tasks
            .values()
            .filter(|task| task.outcome.is_none() && task.spilled.is_none())
            .count() as u64;
        self.thefts.check(&self.scheduler);
        assert_eq!(
            open,
            counts.blocked + counts.scheduled + counts.ready + counts.leased,
            "a task got lost"
        );
    }

    /// Faults stop: a good worker comes and runs everything.
    fn run_out(&mut self) {
        for queue in 0..2 {
            self.step(Op::Pause { queue, paused: false });
        }
        for at in 0..self.processes.len() {
            if self.processes[at].key.is_some() {
                self.step(Op::Leave(0));
            }
        }
        self.processes.iter_mut().for_each(|process| process.running.clear());
        self.step(Op::Join { credit: 5, slots: 3, queue: 9 });
        for _ in 0..5_000 {
            if self.scheduler.is_idle() {
                break;
            }
            if !self.loads.is_empty() {
                self.load();
            } else if self.processes.iter().any(|process| !process.running.is_empty()) {
                self.report(0, End::Finish(Vec::new()));
            } else if let Some(at) = self.scheduler.next_deadline() {
                self.now = self.now.max(at);
                self.feed(Input::TimePassed);
            }
            self.check();
        }
        assert!(self.scheduler.is_idle(), "something never ends: {:?}", self.scheduler.counts());
        assert!(self.tasks.values().all(|task| task.outcome.is_some()));
        assert_eq!(self.scheduler.counts(), Counts::default());
        self.thefts.check_end(&self.scheduler);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_whatever_happens(ops in prop::collection::vec(op(), 1..100)) {
        let mut model = Model::new();
        for op in ops {
            model.step(op);
            model.check();
        }
        model.run_out();
    }
}
