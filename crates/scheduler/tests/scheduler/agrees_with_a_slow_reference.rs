//! Random inputs to the scheduler and to a reference that looks at every task for every decision. Each grant must be
//! one that the reference allows at that moment; after each step both must have as many tasks in each state, and no
//! worker may wait that the reference would give something.

use crate::reference::{Reference, State, Task, Worker};
use crate::support::{World, finished, submission};
use divvy_scheduler::{AttemptEnd, Counts, Input, Options};
use divvy_types::settings::{Limit, PoisonAfter, Rate};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Machine, Name, RetryPolicy, Seq, Settings,
    TaskError, TaskId, TaskSpec, Timestamp, WorkerKey,
};
use proptest::prelude::*;

const QUEUES: [&str; 3] = ["default", "mail", "video"];
const KINDS: [&str; 3] = ["noop", "send", "encode"];
const TENANTS: [&str; 4] = ["acme", "bell", "core", "dyne"];
/// Names that tasks give; which of them are defined is in the settings.
const LIMITS: [&[&str]; 6] =
    [&["api/acme"], &["api/bell"], &["db"], &["api/acme", "db"], &["disk"], &["api/*", "disk"]];
const LIMIT_NAMES: [&str; 3] = ["api", "db", "disk"];
const STOP_GRACE_MS: u64 = 10_000;
/// Names of workers, so that some come back and some are there twice.
const NAMES: u64 = 4;

/// What tasks of a case look like. There are few such shapes, so that they meet at limits and in queues.
#[derive(Clone, Debug)]
struct Shape {
    queue: usize,
    kind: usize,
    priority: u8,
    tenant: Option<usize>,
    limits: Option<usize>,
}

#[derive(Clone, Debug)]
struct New {
    shape: usize,
    /// From now; it may have passed.
    deadline_ms: Option<i64>,
    delay_ms: Option<u64>,
}

#[derive(Clone, Debug)]
enum Op {
    Submit(Vec<New>),
    Join {
        queues: Vec<usize>,
        kinds: Vec<usize>,
        credit: u32,
    },
    Leave(usize),
    Drain(usize),
    /// Pauses a worker, or resumes one that is paused.
    Rest(usize),
    End {
        which: usize,
        end: End,
    },
    Cancel(usize),
    RunNow(usize),
    Pause {
        queue: usize,
        paused: bool,
    },
    Change(Change),
    Time(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Final,
    RetryAfter(u64),
    /// A failure that says something about the worker.
    Fault(u64),
    Snooze(u64),
    Release,
}

#[derive(Clone, Debug)]
enum Change {
    AgeingSec(u64),
    PatienceSec(u64),
    QueueWeight(usize, Option<u32>),
    KeyWeight(usize, usize, u32),
    Limit(usize, Option<Limit>),
}

fn shape(tenants: bool) -> impl Strategy<Value = Shape> {
    let tenant = prop::option::weighted(0.7, 0..TENANTS.len())
        .prop_map(move |tenant| tenant.filter(|_| tenants));
    let limits = prop::option::weighted(0.4, 0..LIMITS.len());
    (0..3usize, 0..3usize, 1u8..=5, tenant, limits).prop_map(
        |(queue, kind, priority, tenant, limits)| Shape { queue, kind, priority, tenant, limits },
    )
}

fn new(deadlines: bool) -> impl Strategy<Value = New> {
    let deadline = prop_oneof![-5_000i64..1_000, 1_000i64..60_000, 60_000i64..1_000_000];
    let deadline = prop::option::weighted(0.4, deadline)
        .prop_map(move |deadline| deadline.filter(|_| deadlines));
    let delay = prop::option::weighted(0.1, 1u64..5_000);
    (0..12usize, deadline, delay).prop_map(|(shape, deadline_ms, delay_ms)| New {
        shape,
        deadline_ms,
        delay_ms,
    })
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1u32), Just(2), Just(4), Just(8)]
}

fn limit() -> impl Strategy<Value = Limit> {
    let rate = || {
        let rate = prop_oneof![Just((1u32, 1_000u64)), Just((4, 1_000)), Just((2, 60_000))];
        prop::option::of(rate.prop_map(|(count, per_ms)| Rate { count, per_ms }))
    };
    let burst = prop::option::of(1u32..4);
    let most = || prop::option::of(1u32..4);
    (rate(), burst, most(), rate(), most()).prop_map(
        |(rate, burst, concurrency, total_rate, total_concurrency)| {
            let mut limit = Limit { rate, burst, concurrency, total_rate, total_concurrency };
            if rate.is_none() && total_rate.is_none() {
                limit.burst = None;
                limit.concurrency = concurrency.or(Some(1));
            }
            limit
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        1 => prop_oneof![Just(1u64), Just(10), Just(60)].prop_map(Change::AgeingSec),
        1 => prop_oneof![Just(1u64), Just(30), Just(600)].prop_map(Change::PatienceSec),
        2 => (0..3usize, prop::option::weighted(0.7, weight())).prop_map(|(q, w)| Change::QueueWeight(q, w)),
        2 => (0..3usize, 0..4usize, weight()).prop_map(|(q, t, w)| Change::KeyWeight(q, t, w)),
        4 => (0..3usize, prop::option::weighted(0.8, limit())).prop_map(|(n, l)| Change::Limit(n, l)),
    ]
}

fn op(deadlines: bool, profiles: bool) -> impl Strategy<Value = Op> {
    let news = prop::collection::vec(new(deadlines), 1..8);
    let some = move || {
        let all = Just((0..3).collect::<Vec<usize>>());
        if profiles { prop::sample::subsequence(vec![0, 1, 2], 1..=3).boxed() } else { all.boxed() }
    };
    let queues = prop_oneof![Just(Vec::new()), some()]
        .prop_map(move |queues| if profiles { queues } else { Vec::new() });
    let end = prop_oneof![
        6 => Just(End::Final),
        1 => (1u64..3_000).prop_map(End::RetryAfter),
        2 => (1u64..3_000).prop_map(End::Fault),
        1 => (1u64..3_000).prop_map(End::Snooze),
        1 => Just(End::Release),
    ];
    let time = prop_oneof![
        2 => 1u64..300,
        3 => 300u64..3_000,
        2 => 3_000u64..30_000,
        1 => 30_000u64..400_000,
    ];
    prop_oneof![
        8 => news.prop_map(Op::Submit),
        2 => (queues, some(), 1u32..4).prop_map(|(queues, kinds, credit)| Op::Join { queues, kinds, credit }),
        1 => any::<usize>().prop_map(Op::Leave),
        1 => any::<usize>().prop_map(Op::Drain),
        2 => any::<usize>().prop_map(Op::Rest),
        14 => (any::<usize>(), end).prop_map(|(which, end)| Op::End { which, end }),
        3 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::RunNow),
        1 => (0..3usize, any::<bool>()).prop_map(|(queue, paused)| Op::Pause { queue, paused }),
        3 => change().prop_map(Op::Change),
        6 => time.prop_map(Op::Time),
    ]
}

/// Both, side by side.
struct Pair {
    world: World,
    reference: Reference,
    shapes: Vec<Shape>,
    /// Whether run times may be learnt. They move the latest start of tasks with deadlines, which is not told here.
    learns: bool,
    /// The first thing in which both differ.
    problem: Option<String>,
    last_seq: u64,
    last_worker: u64,
}

impl Pair {
    fn new(shapes: Vec<Shape>, learns: bool) -> Self {
        let options = Options {
            // Nobody is given up for silence here.
            lease_ms: u64::from(u32::MAX),
            stop_grace_ms: STOP_GRACE_MS,
            ..Options::default()
        };
        let world = World::with(options);
        let reference = Reference::new(world.now.0);
        let problem = None;
        let mut pair =
            Self { world, reference, shapes, learns, problem, last_seq: 0, last_worker: 0 };
        // A worker that goes away is no news here; nothing dies of it.
        let mut settings = Settings { poison_after: PoisonAfter(1_000), ..Settings::default() };
        // Nobody rests here.
        settings.load_balancing.capabilities.consider_history = false;
        pair.set(settings);
        pair
    }

    fn set(&mut self, settings: Settings) {
        settings.check().expect("valid settings");
        self.reference.set(settings.clone());
        self.feed(Input::SettingsChanged(Box::new(settings)));
    }

    /// Hands an input to the scheduler and holds its grants against the reference, which knows of the input already.
    fn feed(&mut self, input: Input) {
        self.world.feed(input);
        let found = self.compare();
        self.problem = self.problem.take().or_else(|| found.err());
    }

    fn compare(&mut self) -> Result<(), String> {
        for (worker, seq) in self.world.grants() {
            self.reference.grant(worker, seq)?;
        }
        self.reference.idle_in_vain()?;
        let counts = self.world.scheduler.counts();
        let ready = self.reference.count(|state| state == State::Ready);
        let scheduled = self.reference.count(|state| state == State::Scheduled);
        let leased = self.reference.count(|state| matches!(state, State::Leased(_)));
        let lines = self.world.scheduler.worker_loads().into_iter();
        let queued = lines.map(|load| u64::from(load.queue_length)).sum();
        let expected = Counts { ready, scheduled, leased, queued, ..Counts::default() };
        if counts != expected {
            return Err(format!("{counts:?}, expected {expected:?}"));
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Submit(list) => self.submit(list),
            Op::Join { queues, kinds, credit } => self.join(queues, kinds, *credit),
            Op::Leave(which) => self.leave(*which),
            Op::Drain(which) => {
                if let Some(at) = self.worker(*which) {
                    self.reference.workers[at].draining = true;
                    let worker = WorkerKey(self.reference.workers[at].key);
                    self.feed(Input::WorkerDraining { worker });
                }
            }
            Op::Rest(which) => {
                if let Some(at) = self.worker(*which) {
                    let worker = &mut self.reference.workers[at];
                    worker.paused = !worker.paused;
                    let (worker, paused) = (WorkerKey(worker.key), worker.paused);
                    self.feed(Input::WorkerPaused { worker, paused });
                }
            }
            Op::End { which, end } => self.end(*which, *end),
            Op::Cancel(which) => self.cancel(*which),
            Op::RunNow(which) => self.run_now(*which),
            Op::Pause { queue, paused } => {
                self.reference.pause(QUEUES[*queue], *paused);
                self.feed(Input::QueuePaused { queue: QUEUES[*queue].into(), paused: *paused });
            }
            Op::Change(change) => self.change(change),
            Op::Time(ms) => self.pass(*ms),
        }
    }

    fn submit(&mut self, list: &[New]) {
        let now = self.world.now;
        let mut specs = Vec::new();
        for new in list {
            self.last_seq += 1;
            let shape = self.shapes[new.shape % self.shapes.len()].clone();
            let limits: Vec<&'static str> =
                shape.limits.map(|limits| LIMITS[limits].to_vec()).unwrap_or_default();
            let deadline = new.deadline_ms.map(|ms| now.0.saturating_add_signed(ms * 1_000));
            let run_at = new.delay_ms.map(|ms| now.plus_ms(ms));
            let fair_key = shape.tenant.map(|tenant| TENANTS[tenant]);
            let mut spec = TaskSpec::new(TaskId(u128::from(self.last_seq)), KINDS[shape.kind]);
            spec.queue = QUEUES[shape.queue].into();
            spec.priority = shape.priority;
            spec.fair_key = fair_key.map(Name::from);
            spec.limits = limits.iter().map(|name| Name::from(*name)).collect();
            spec.deadline = deadline.map(Timestamp);
            spec.run_at = run_at;
            spec.retry = RetryPolicy { limit: 1_000, ..RetryPolicy::default() };
            specs.push(spec);
            self.reference.tasks.push(Task {
                seq: self.last_seq,
                queue: QUEUES[shape.queue],
                kind: KINDS[shape.kind],
                priority: shape.priority,
                fair_key,
                limits,
                deadline,
                ready_at: run_at.unwrap_or(now).0,
                state: State::Scheduled,
                stop_by: None,
                failed_on: None,
                kept_until: 0,
            });
            if run_at.is_none() {
                self.reference.make_ready(self.last_seq, now.0);
            }
        }
        self.feed(Input::TasksSubmitted(specs.into_iter().map(submission).collect()));
    }

    fn join(&mut self, queues: &[usize], kinds: &[usize], credit: u32) {
        self.last_worker += 1;
        let names = |all: &[&'static str], list: &[usize]| -> Vec<&'static str> {
            list.iter().map(|at| all[*at]).collect()
        };
        let worker = Worker {
            key: self.last_worker,
            name: self.last_worker % NAMES,
            queues: names(&QUEUES, queues),
            kinds: names(&KINDS, kinds),
            credit: credit as usize,
            draining: false,
            paused: false,
        };
        let own = |list: &[&str]| list.iter().map(|name| Name::from(*name)).collect();
        let hello = divvy_types::WorkerHello {
            name: format!("worker-{}", worker.name).into(),
            queues: own(&worker.queues),
            kinds: own(&worker.kinds),
            credit,
            ..Default::default()
        };
        let key = WorkerKey(worker.key);
        self.reference.workers.push(worker);
        self.feed(Input::WorkerJoined(key, hello));
    }

    fn worker(&self, which: usize) -> Option<usize> {
        let count = self.reference.workers.len();
        (count > 0).then(|| which % count)
    }

    fn leave(&mut self, which: usize) {
        let Some(at) = self.worker(which) else { return };
        let Worker { key: worker, name, .. } = self.reference.workers.remove(at);
        for task in self.reference.tasks.clone() {
            match (task.state, task.stop_by) {
                (State::Leased(holder), Some(_)) if holder == worker => {
                    self.reference.remove(task.seq);
                }
                (State::Leased(holder), None) if holder == worker => {
                    self.reference.failed_on(task.seq, name);
                    self.reference.make_ready(task.seq, task.ready_at);
                }
                _ => {}
            }
        }
        self.feed(Input::WorkerLeft { worker: WorkerKey(worker) });
    }

    fn end(&mut self, which: usize, end: End) {
        let leased = |task: &Task| match task.state {
            State::Leased(worker) => Some((task.clone(), worker)),
            _ => None,
        };
        let leased: Vec<(Task, u64)> = self.reference.tasks.iter().filter_map(leased).collect();
        if leased.is_empty() {
            return;
        }
        let (task, worker) = &leased[which % leased.len()];
        let now = self.world.now;
        // A class that says nothing about the worker or the run time, so that nothing is learnt from it.
        let error = TaskError::new(ErrorClass::Cancelled, "ended");
        let failure = |verdict: FailureVerdict| {
            let fault = TaskError::new(ErrorClass::Failed, "broken");
            let error = if matches!(end, End::Fault(_)) { fault } else { error.clone() };
            AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict, error }))
        };
        let report = match end {
            End::Final if self.learns => finished(),
            End::Final => failure(FailureVerdict::Dead),
            End::RetryAfter(ms) | End::Fault(ms) => failure(FailureVerdict::RetryAfterMs(ms)),
            End::Snooze(ms) => failure(FailureVerdict::SnoozeMs(ms)),
            End::Release => AttemptEnd::Other(AttemptOutcome::Released),
        };
        match end {
            _ if task.stop_by.is_some() => self.reference.remove(task.seq),
            End::Final => self.reference.remove(task.seq),
            End::Fault(ms) => {
                let mut workers = self.reference.workers.iter();
                let holder = workers.find(|other| other.key == *worker).expect("a holder");
                let name = holder.name;
                self.reference.failed_on(task.seq, name);
                self.reference.schedule(task.seq, now.plus_ms(ms).0);
            }
            End::RetryAfter(ms) | End::Snooze(ms) => {
                self.reference.schedule(task.seq, now.plus_ms(ms).0);
            }
            End::Release => self.reference.make_ready(task.seq, task.ready_at),
        }
        let token = self.world.scheduler.lease_token(Seq(task.seq)).expect("a lease");
        self.feed(Input::AttemptEnded(divvy_scheduler::AttemptEnded {
            worker: WorkerKey(*worker),
            seq: Seq(task.seq),
            token,
            end: report,
            log: None,
        }));
    }

    fn cancel(&mut self, which: usize) {
        let count = self.reference.tasks.len();
        if count == 0 {
            return;
        }
        let task = &mut self.reference.tasks[which % count];
        let seq = task.seq;
        match task.state {
            State::Leased(_) => {
                let stop_by = self.world.now.plus_ms(STOP_GRACE_MS);
                task.stop_by.get_or_insert(stop_by.0);
            }
            _ => self.reference.remove(seq),
        }
        self.feed(Input::CancelRequested { seq: Seq(seq), reason: "asked".into() });
    }

    fn run_now(&mut self, which: usize) {
        let scheduled = |task: &&Task| task.state == State::Scheduled;
        let list: Vec<u64> =
            self.reference.tasks.iter().filter(scheduled).map(|task| task.seq).collect();
        let Some(seq) = list.get(which % list.len().max(1)).copied() else { return };
        // A moment of its own, so that its age says who came first.
        self.pass_until(Timestamp(self.world.now.0 + 1));
        if self.reference.task(seq).is_some_and(|task| task.state == State::Scheduled) {
            self.reference.make_ready(seq, self.world.now.0);
            self.feed(Input::RunNowRequested { seq: Seq(seq) });
        }
    }

    fn change(&mut self, change: &Change) {
        let mut settings = self.reference.settings.clone();
        let queue = |settings: &mut Settings, queue: usize| {
            std::mem::take(settings.queues.entry(QUEUES[queue].into()).or_default())
        };
        match change {
            Change::AgeingSec(sec) => settings.ordering.ageing_sec = *sec as f64,
            Change::PatienceSec(sec) => settings.ordering.patience_sec = *sec as f64,
            Change::QueueWeight(at, weight) => {
                let mut own = queue(&mut settings, *at);
                own.weight = *weight;
                settings.queues.insert(QUEUES[*at].into(), own);
            }
            Change::KeyWeight(at, tenant, weight) => {
                let mut own = queue(&mut settings, *at);
                own.fair_weights.insert(TENANTS[*tenant].into(), *weight);
                settings.queues.insert(QUEUES[*at].into(), own);
            }
            Change::Limit(name, Some(limit)) => {
                settings.limits.insert(LIMIT_NAMES[*name].into(), limit.clone());
            }
            Change::Limit(name, None) => {
                settings.limits.remove(LIMIT_NAMES[*name]);
            }
        }
        self.set(settings);
    }

    /// Moves the clock on; the scheduler is woken whenever it asked for it.
    fn pass(&mut self, ms: u64) {
        self.pass_until(self.world.now.plus_ms(ms));
    }

    fn pass_until(&mut self, end: Timestamp) {
        for _ in 0..10_000 {
            if self.problem.is_some() {
                return;
            }
            let next = self.world.scheduler.next_deadline().filter(|next| *next < end);
            self.world.now = next.unwrap_or(end).max(self.world.now);
            self.reference.pass_time(self.world.now.0);
            self.feed(Input::TimePassed);
            if next.is_none() {
                return;
            }
        }
        self.problem = Some("time does not pass".to_owned());
    }

    /// Nothing keeps anyone any more: all that is left must run.
    fn run_out(&mut self) -> Result<(), String> {
        for queue in QUEUES {
            self.reference.pause(queue, false);
            self.feed(Input::QueuePaused { queue: queue.into(), paused: false });
        }
        self.join(&[], &[0, 1, 2], 3);
        for _ in 0..10_000 {
            if self.reference.tasks.is_empty() || self.problem.is_some() {
                break;
            }
            self.end(0, End::Final);
            self.pass(1_000);
        }
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        if !self.reference.tasks.is_empty() || !self.world.scheduler.is_idle() {
            return Err(format!("something never ends: {:?}", self.reference.tasks));
        }
        let limits = self.world.scheduler.limit_views(self.world.now);
        match limits.iter().find(|view| view.running > 0 || view.waiting > 0) {
            Some(view) => Err(format!("nothing runs, but {view:?}")),
            None => Ok(()),
        }
    }
}

fn run(shapes: &[Shape], ops: &[Op], learns: bool) -> Result<(), String> {
    let mut pair = Pair::new(shapes.to_vec(), learns);
    let list = |count: usize| {
        let shapes = shapes.iter().map(|shape| format!("{shape:?}"));
        let ops = ops[..count].iter().map(|op| format!("{op:?}"));
        shapes.chain(ops).collect::<Vec<_>>().join("\n")
    };
    for (place, op) in ops.iter().enumerate() {
        pair.step(op);
        if let Some(problem) = pair.problem {
            return Err(format!("{problem}\nafter:\n{}", list(place + 1)));
        }
    }
    pair.run_out().map_err(|problem| format!("{problem}\nat the end of:\n{}", list(ops.len())))
}

fn case(
    tenants: bool,
    deadlines: bool,
    profiles: bool,
) -> impl Strategy<Value = (Vec<Shape>, Vec<Op>)> {
    let shapes = prop::collection::vec(shape(tenants), 1..12);
    (shapes, prop::collection::vec(op(deadlines, profiles), 1..60))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 86, max_shrink_iters: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_tasks_on_equal_workers((shapes, ops) in case(false, false, false)) {
        run(&shapes, &ops, true).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn fair_keys_and_deadlines_on_equal_workers((shapes, ops) in case(true, true, false)) {
        run(&shapes, &ops, false).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn everything_on_workers_of_several_profiles((shapes, ops) in case(true, true, true)) {
        run(&shapes, &ops, false).map_err(TestCaseError::fail)?;
    }
}
