//! A scheduler with workers that are always busy and a backlog that stays as long as it is.
//!
//! Only what the scheduler does is timed: handling inputs and giving out actions. The tasks themselves are made before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use divvy_scheduler::{Action, AttemptEnd, AttemptEnded, Input, Options, Scheduler, Submission};
use divvy_types::{
    Machine as _, Name, Payload, Seq, Settings, TaskId, TaskSpec, Terms, Timestamp, Token,
    WorkerHello, WorkerKey,
};

/// Tasks that are submitted together.
const BATCH: u64 = 256;
/// Tasks that a worker runs at once, and those that it takes ahead.
const SLOTS: u32 = 8;
const PREFETCH: u32 = 8;
/// Workers of one profile.
const PER_PROFILE: u64 = 10;
/// Keys that share a queue fairly.
const FAIR_KEYS: u64 = 100;

const KINDS: [&str; 5] = ["resize", "probe", "encode", "index", "notify"];
const QUEUES: [&str; 2] = ["default", "bulk"];
/// How much time passes with each input, in microseconds.
const TICK: u64 = 10;
/// How much waiting makes up for one step of priority, in seconds: the least that can be set.
const AGEING_SEC: f64 = 0.001;
/// Kinds that a worker of the mix serves.
const KINDS_SERVED: usize = 3;

/// What the tasks and workers are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// One class, and workers that are all alike.
    Single,
    /// 20 classes (kinds, queues and needs; a quarter of the tasks with other priorities) and 10 profiles of workers.
    Many,
    /// The same with everything that makes a decision dear: a quarter of the tasks with fair keys, and simulated time
    /// that runs so fast, against the ageing of priorities, that all of these compete all the time.
    Shared,
}

/// The scheduler and what its workers hold.
pub(crate) struct World<'a> {
    mix: Mix,
    scheduler: Scheduler,
    now: Timestamp,
    seq: u64,
    ended: u64,
    held: VecDeque<(WorkerKey, Seq, Token)>,
    stop: &'a AtomicBool,
}

impl<'a> World<'a> {
    /// Without tasks, with all workers.
    pub(crate) fn new(mix: Mix, stop: &'a AtomicBool) -> Self {
        let options =
            Options { window_tasks: usize::MAX, window_bytes: usize::MAX, ..Options::default() };
        let mut scheduler = Scheduler::new(options);
        scheduler.set_watched(false);
        let now = Timestamp(1_700_000_000_000_000);
        let mut world = Self { mix, scheduler, now, seq: 0, ended: 0, held: VecDeque::new(), stop };
        world.feed(Input::RecoveryEnded);
        if mix == Mix::Shared {
            let mut settings = Settings::default();
            settings.ordering.ageing_sec = AGEING_SEC;
            world.feed(Input::SettingsChanged(Box::new(settings)));
        }
        for number in 0..world.workers() {
            let hello = world.worker(number);
            world.feed(Input::WorkerJoined(WorkerKey(number), hello));
        }
        world
    }

    pub(crate) fn workers(&self) -> u64 {
        match self.mix {
            Mix::Single => PER_PROFILE,
            Mix::Many | Mix::Shared => PER_PROFILE * KINDS.len() as u64 * 2,
        }
    }

    pub(crate) fn classes(&self) -> u64 {
        match self.mix {
            Mix::Single => 1,
            Mix::Many | Mix::Shared => (KINDS.len() * QUEUES.len() * 2) as u64,
        }
    }

    /// Tasks that no worker has.
    pub(crate) fn waiting(&self) -> u64 {
        self.seq - self.ended - self.held.len() as u64
    }

    /// What a look for pools of workers takes, in microseconds; the fastest of several.
    pub(crate) fn look_us(&self) -> f64 {
        let look = |_| {
            let started = Instant::now();
            std::hint::black_box((self.scheduler.class_loads(), self.scheduler.worker_traffic()));
            started.elapsed().as_secs_f64() * 1e6
        };
        (0..20).map(look).fold(f64::INFINITY, f64::min)
    }

    /// Submits until so many tasks wait.
    pub(crate) fn fill(&mut self, waiting: u64) -> anyhow::Result<()> {
        while self.waiting() < waiting {
            self.check_stop()?;
            let batch = self.batch(BATCH.min(waiting - self.waiting()));
            self.feed(Input::TasksSubmitted(batch));
        }
        Ok(())
    }

    /// Lets so many tasks come and as many end; says how many nanoseconds a life took.
    pub(crate) fn live(&mut self, lives: u64) -> anyhow::Result<f64> {
        let (mut took, mut lived) = (Duration::ZERO, 0);
        while lived < lives {
            self.check_stop()?;
            let batch = self.batch(BATCH);
            let started = Instant::now();
            self.feed(Input::TasksSubmitted(batch));
            for _ in 0..BATCH {
                let Some((worker, seq, token)) = self.held.pop_front() else {
                    bail!(
                        "the scheduler gave out no task although tasks wait and workers are free"
                    );
                };
                self.ended += 1;
                let end = AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() };
                self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log: None }));
            }
            took += started.elapsed();
            lived += BATCH;
        }
        Ok(took.as_nanos() as f64 / lived as f64)
    }

    fn feed(&mut self, input: Input) {
        self.now.0 += TICK;
        self.scheduler.handle(self.now, input);
        self.drain();
        while self.scheduler.next_deadline().is_some_and(|at| at <= self.now) {
            self.scheduler.handle(self.now, Input::TimePassed);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while let Some(action) = self.scheduler.poll_action() {
            if let Action::Grant(grant) = action {
                self.held.push_back((grant.worker, grant.seq, grant.token));
            }
        }
    }

    fn batch(&mut self, tasks: u64) -> Vec<Submission> {
        (0..tasks)
            .map(|_| {
                self.seq += 1;
                let spec = Arc::new(self.task(self.seq));
                Submission { seq: Seq(self.seq), spec, parents: Vec::new() }
            })
            .collect()
    }

    fn task(&self, number: u64) -> TaskSpec {
        let mut task = TaskSpec::new(TaskId(u128::from(number)), KINDS[0]);
        if self.mix == Mix::Single {
            return task;
        }
        let kinds = KINDS.len() as u64;
        let (kind, rest) = (number % kinds, number / kinds);
        let (queue, rest) = (rest % 2, rest / 2);
        // Fewer than the half of the workers that have one could run, so that no class is left behind.
        let (needs_gpu, rest) = (rest % 3 == 0, rest / 3);
        task.kind = Name::const_new(KINDS[kind as usize]);
        task.queue = Name::const_new(QUEUES[queue as usize]);
        if rest % 4 == 1 {
            task.priority = 1 + (rest / 4 % 5) as u8;
        }
        let has_key = self.mix == Mix::Shared && rest % 4 == 2;
        let fair_key = has_key.then(|| Name::from(format!("tenant-{}", rest / 4 % FAIR_KEYS)));
        let needs = if needs_gpu { vec![Name::const_new("gpu")] } else { Vec::new() };
        task.terms = Terms { needs, fair_key, ..Terms::default() }.into();
        task
    }

    fn worker(&self, number: u64) -> WorkerHello<Seq> {
        let profile = (number / PER_PROFILE) as usize;
        let first = profile % KINDS.len();
        let kinds = (0..KINDS_SERVED).map(|step| KINDS[(first + step) % KINDS.len()]);
        let (kinds, gpu) = match self.mix {
            Mix::Single => (vec![Name::const_new(KINDS[0])], false),
            Mix::Many | Mix::Shared => {
                (kinds.map(Name::const_new).collect(), profile >= KINDS.len())
            }
        };
        WorkerHello {
            name: Name::from(format!("worker-{number}")),
            kinds,
            capabilities: if gpu { vec![Name::const_new("gpu")] } else { Vec::new() },
            credit: SLOTS + PREFETCH,
            slots: SLOTS,
            ..WorkerHello::default()
        }
    }

    fn check_stop(&self) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_mix_has_as_many_classes_and_profiles_as_it_says_and_all_are_served() {
        let stop = AtomicBool::new(false);
        let mut world = World::new(Mix::Many, &stop);
        world.fill(2_000).unwrap();
        assert_eq!((world.waiting(), world.held.len()), (2_000, 1_600));
        let class = |task: &TaskSpec| (task.kind.clone(), task.queue.clone(), task.needs.clone());
        let tasks: Vec<TaskSpec> = (1..=3_600).map(|number| world.task(number)).collect();
        let classes: BTreeSet<_> = tasks.iter().map(class).collect();
        assert_eq!(classes.len() as u64, world.classes());
        let served: BTreeSet<_> =
            world.held.iter().map(|(_, seq, _)| class(&tasks[seq.0 as usize - 1])).collect();
        assert_eq!(served, classes);
        let profiles: BTreeSet<_> = (0..world.workers())
            .map(|number| world.worker(number))
            .map(|worker| (worker.kinds, worker.capabilities))
            .collect();
        assert_eq!((world.workers(), profiles.len()), (100, 10));
        let shared = World::new(Mix::Shared, &stop);
        assert!((1..=99).any(|number| shared.task(number).fair_key.is_some()));
        assert!((1..=5).all(|priority| tasks.iter().any(|task| task.priority == priority)));
    }

    #[test]
    fn lives_leave_the_backlog_as_it_was_and_a_stop_ends_them() {
        let stop = AtomicBool::new(false);
        for mix in [Mix::Single, Mix::Many, Mix::Shared] {
            let mut world = World::new(mix, &stop);
            world.fill(500).unwrap();
            assert!(world.live(1_000).unwrap() > 0.0);
            assert_eq!((world.waiting(), world.ended), (500, 1_024));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(World::new(Mix::Single, &stop).fill(1).is_err());
    }
}
