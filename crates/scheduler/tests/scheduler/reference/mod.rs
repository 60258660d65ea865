//! A scheduler that is slow and plain: lists, and a look at every task for every decision.
//!
//! Written from the rules in the module texts of `pick`, `shares`, `limits` and `elsewhere`, not from their code. It
//! does not choose: it says which tasks may be granted next to a worker (several where the rules leave it open), and
//! follows what was granted.

mod buckets;

use std::collections::{BTreeMap, BTreeSet};

use buckets::{Buckets, Which};
use divvy_types::Settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Scheduled,
    Ready,
    Leased(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) seq: u64,
    pub(crate) queue: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) priority: u8,
    pub(crate) fair_key: Option<&'static str>,
    pub(crate) limits: Vec<&'static str>,
    pub(crate) deadline: Option<u64>,
    pub(crate) ready_at: u64,
    pub(crate) state: State,
    /// When the patience with a worker ends that was told to stop it.
    pub(crate) stop_by: Option<u64>,
    /// The worker, by name, that its last attempt failed on, until any may have it.
    pub(crate) failed_on: Option<u64>,
    /// When that is, while it is ready.
    pub(crate) kept_until: u64,
}

/// How long a retry waits for another worker, in microseconds.
const ELSEWHERE_US: u64 = 30_000_000;

/// Tasks of a line are alike in all but their deadlines.
type Line = (&'static str, &'static str, u8, Option<&'static str>, Vec<&'static str>, Option<u64>);

impl Task {
    fn line(&self) -> Line {
        let limits = self.limits.clone();
        (self.queue, self.kind, self.priority, self.fair_key, limits, self.failed_on)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) key: u64,
    /// Several may have the same.
    pub(crate) name: u64,
    /// None means all.
    pub(crate) queues: Vec<&'static str>,
    pub(crate) kinds: Vec<&'static str>,
    pub(crate) credit: usize,
    pub(crate) draining: bool,
    pub(crate) paused: bool,
}

impl Worker {
    /// Whether it takes nothing, however much it could.
    pub(crate) fn rests(&self) -> bool {
        self.draining || self.paused
    }

    fn serves(&self, task: &Task) -> bool {
        self.kinds.contains(&task.kind)
            && (self.queues.is_empty() || self.queues.contains(&task.queue))
    }
}

/// What is shared among the keys of a queue, or among queues; a start of weight 1 costs [`COST`].
#[derive(Debug, Default)]
struct Pot<Key> {
    time: u64,
    greatest: u64,
    tags: BTreeMap<Key, u64>,
}

/// Can be divided by the weights that are used.
const COST: u64 = 64;

impl<Key: Ord + Copy> Pot<Key> {
    fn tag(&self, key: Key) -> u64 {
        self.tags.get(&key).copied().unwrap_or_default()
    }

    fn comes(&mut self, key: Key) {
        let tag = self.tag(key).max(self.time);
        self.tags.insert(key, tag);
    }

    fn charge(&mut self, key: Key, weight: u32) {
        assert_eq!(COST % u64::from(weight), 0, "a weight that the reference cannot divide by");
        let tag = self.tag(key);
        self.time = self.time.max(tag);
        self.tags.insert(key, tag + COST / u64::from(weight));
        self.greatest = self.greatest.max(tag + COST / u64::from(weight));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) now: u64,
    pub(crate) settings: Settings,
    pub(crate) tasks: Vec<Task>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) paused: BTreeSet<&'static str>,
    queues: Pot<&'static str>,
    keys: BTreeMap<&'static str, Pot<Option<&'static str>>>,
    /// How far each priority has got, where they compete.
    passes: BTreeMap<u8, u64>,
    pass: u64,
    buckets: Buckets,
}

impl Reference {
    pub(crate) fn new(now: u64) -> Self {
        Self { now, ..Self::default() }
    }

    pub(crate) fn task(&self, seq: u64) -> Option<&Task> {
        self.tasks.iter().find(|task| task.seq == seq)
    }

    fn task_mut(&mut self, seq: u64) -> &mut Task {
        self.tasks.iter_mut().find(|task| task.seq == seq).expect("a task of the reference")
    }

    pub(crate) fn count(&self, is: impl Fn(State) -> bool) -> u64 {
        self.tasks.iter().filter(|task| is(task.state)).count() as u64
    }

    fn ready<'a>(&'a self, is: impl Fn(&Task) -> bool + 'a) -> impl Iterator<Item = &'a Task> {
        self.tasks.iter().filter(move |task| task.state == State::Ready && is(task))
    }

    /// An attempt failed, or its worker is gone.
    pub(crate) fn failed_on(&mut self, seq: u64, name: u64) {
        self.task_mut(seq).failed_on = Some(name);
    }

    /// A task becomes ready, or is given back with the age that it has.
    pub(crate) fn make_ready(&mut self, seq: u64, ready_at: u64) {
        let task = self.task(seq).expect("a task of the reference").clone();
        if self.ready(|other| other.queue == task.queue).next().is_none() {
            self.queues.comes(task.queue);
        }
        let same = |other: &Task| other.queue == task.queue && other.fair_key == task.fair_key;
        if self.ready(same).next().is_none() {
            self.keys.entry(task.queue).or_default().comes(task.fair_key);
        }
        let kept_until = self.now + ELSEWHERE_US;
        let task = self.task_mut(seq);
        (task.state, task.ready_at, task.stop_by) = (State::Ready, ready_at, None);
        task.kept_until = kept_until;
    }

    /// A task is not ready any more, whatever it is now.
    fn stop_waiting(&mut self, seq: u64, state: State) {
        let queue = self.task(seq).expect("a task of the reference").queue;
        self.task_mut(seq).state = state;
        if self.ready(|other| other.queue == queue).next().is_none() {
            // Whoever comes next starts level with all.
            let pot = self.keys.entry(queue).or_default();
            pot.time = pot.time.max(pot.greatest);
        }
    }

    pub(crate) fn schedule(&mut self, seq: u64, due: u64) {
        let task = self.task_mut(seq);
        (task.state, task.ready_at, task.stop_by) = (State::Scheduled, due, None);
    }

    /// A task has ended.
    pub(crate) fn remove(&mut self, seq: u64) {
        if self.task(seq).is_some_and(|task| task.state == State::Ready) {
            self.stop_waiting(seq, State::Scheduled);
        }
        self.tasks.retain(|task| task.seq != seq);
    }

    pub(crate) fn pass_time(&mut self, now: u64) {
        self.now = now;
        let ignored = |task: &Task| task.stop_by.is_some_and(|stop_by| stop_by <= now);
        self.tasks.retain(|task| !ignored(task));
        for task in self.tasks.iter_mut().filter(|task| task.state == State::Ready) {
            task.failed_on = task.failed_on.filter(|_| task.kept_until > now);
        }
        let due: Vec<(u64, u64)> = self
            .tasks
            .iter()
            .filter(|task| task.state == State::Scheduled && task.ready_at <= now)
            .map(|task| (task.seq, task.ready_at))
            .collect();
        for (seq, ready_at) in due {
            self.make_ready(seq, ready_at);
        }
    }

    pub(crate) fn pause(&mut self, queue: &'static str, paused: bool) {
        if paused {
            self.paused.insert(queue);
        } else if self.paused.remove(queue) {
            self.queues.comes(queue);
        }
    }

    pub(crate) fn set(&mut self, settings: Settings) {
        self.buckets.redefine(&settings, self.now);
        self.settings = settings;
    }

    pub(crate) fn leased(&self, worker: u64) -> usize {
        self.tasks.iter().filter(|task| task.state == State::Leased(worker)).count()
    }

    pub(crate) fn is_waiting(&self, worker: &Worker) -> bool {
        !worker.rests() && self.leased(worker.key) < worker.credit
    }

    /// Keys and totals of limits that a task runs under.
    fn limits_of(&self, task: &Task) -> BTreeSet<Which> {
        let mut all = BTreeSet::new();
        for name in &task.limits {
            let base = name.split('/').next().unwrap_or(name);
            if self.settings.limits.contains_key(base) {
                all.extend([((*name).to_owned(), false), (base.to_owned(), true)]);
            }
        }
        all
    }

    fn running(&self, which: &Which) -> usize {
        let runs = |task: &&Task| matches!(task.state, State::Leased(_));
        self.tasks.iter().filter(runs).filter(|task| self.limits_of(task).contains(which)).count()
    }

    fn is_limited(&mut self, task: &Task) -> bool {
        let now = self.now;
        self.limits_of(task).iter().any(|which| {
            let base = which.0.split('/').next().unwrap_or_default();
            let limit = &self.settings.limits[base];
            let most = if which.1 { limit.total_concurrency } else { limit.concurrency };
            most.is_some_and(|most| self.running(which) >= most as usize)
                || !self.buckets.has_token(which, now)
        })
    }

    /// Ready tasks that a worker could run now.
    fn candidates(&mut self, worker: &Worker) -> Vec<Task> {
        let another = |task: &Task| {
            let mut others = self.workers.iter().filter(|other| other.name != worker.name);
            others.any(|other| !other.rests() && other.serves(task))
        };
        let serves = |task: &Task| {
            worker.serves(task)
                && !self.paused.contains(task.queue)
                && !(task.failed_on == Some(worker.name) && another(task))
        };
        let served: Vec<Task> = self.ready(serves).cloned().collect();
        served.into_iter().filter(|task| !self.is_limited(task)).collect()
    }

    /// Rule 1: the priority whose turn it is, and whether priorities compete.
    fn priority(&self, tasks: &[Task]) -> Option<(u8, bool)> {
        let top = tasks.iter().map(|task| task.priority).max()?;
        let ageing = (self.settings.ordering.ageing_sec * 1e6) as u64;
        let takes_part = |priority: u8| {
            let mut own = tasks.iter().filter(|task| task.priority == priority);
            let needed = u64::from(top - priority) * ageing;
            priority == top || own.any(|task| self.now - task.ready_at >= needed)
        };
        let contenders: Vec<u8> = (1..=top).rev().filter(|p| takes_part(*p)).collect();
        let next = contenders.iter().min_by_key(|p| self.turn(**p)).copied()?;
        Some((next, contenders.len() > 1))
    }

    fn turn(&self, priority: u8) -> u64 {
        self.passes.get(&priority).copied().unwrap_or_default().max(self.pass)
    }

    fn urgency(&self, task: &Task) -> u64 {
        let patience = (self.settings.ordering.patience_sec * 1e6) as u64;
        task.deadline.unwrap_or(task.ready_at + patience)
    }

    /// The tasks of which any may be granted next to a worker; none if it has nothing to do.
    pub(crate) fn next_for(&mut self, worker: &Worker) -> Vec<u64> {
        let mut tasks = self.candidates(worker);
        let Some((priority, _)) = self.priority(&tasks) else { return Vec::new() };
        tasks.retain(|task| task.priority == priority);
        // Rule 2.
        if self.settings.queues.values().any(|queue| queue.weight.is_some()) {
            let least = tasks.iter().map(|task| self.queues.tag(task.queue)).min();
            tasks.retain(|task| Some(self.queues.tag(task.queue)) == least);
        }
        let most_urgent = tasks.iter().map(|task| self.urgency(task)).min();
        let is_first = |task: &&Task| Some(self.urgency(task)) == most_urgent;
        let queues: BTreeSet<&str> = tasks.iter().filter(is_first).map(|task| task.queue).collect();
        let mut next = Vec::new();
        for queue in queues {
            let own: Vec<&Task> = tasks.iter().filter(|task| task.queue == queue).collect();
            let first = own.iter().copied().filter(|task| Some(self.urgency(task)) == most_urgent);
            // Rule 3.
            let (timed, plain): (Vec<&Task>, Vec<&Task>) =
                first.partition(|task| task.deadline.is_some());
            next.extend(heads(&timed));
            // Rules 4 and 5.
            if plain.is_empty() {
                continue;
            }
            if self.is_shared(queue) {
                next.extend(self.furthest_behind(queue, &own));
            } else {
                next.extend(heads(&plain));
            }
        }
        next
    }

    /// Whether any task with a fair key waits in a queue.
    fn is_shared(&self, queue: &str) -> bool {
        self.ready(|task| task.queue == queue && task.fair_key.is_some()).next().is_some()
    }

    fn furthest_behind(&self, queue: &str, tasks: &[&Task]) -> Vec<u64> {
        let tag = |task: &Task| self.keys[queue].tag(task.fair_key);
        let rank = |task: &Task| {
            let line = tasks.iter().filter(|other| other.line() == task.line());
            (tag(task), line.map(|other| other.ready_at).min())
        };
        let least = tasks.iter().map(|task| rank(task)).min();
        let first: Vec<&Task> =
            tasks.iter().copied().filter(|task| Some(rank(task)) == least).collect();
        // Of a line, the most urgent one.
        let urgent = |task: &&Task| {
            let own = tasks.iter().filter(|other| other.line() == task.line());
            own.map(|other| self.urgency(other)).min() == Some(self.urgency(task))
        };
        heads(&first.into_iter().filter(urgent).collect::<Vec<_>>())
    }

    /// Takes note of a grant, and says what is wrong with it.
    pub(crate) fn grant(&mut self, worker: u64, seq: u64) -> Result<(), String> {
        let found = self.workers.iter().find(|other| other.key == worker).cloned();
        let worker = found.ok_or_else(|| format!("worker {worker} is not connected"))?;
        if !self.is_waiting(&worker) {
            return Err(format!("worker {} does not wait for tasks", worker.key));
        }
        let next = self.next_for(&worker);
        if !next.contains(&seq) {
            return Err(format!(
                "{seq} was granted to {}, expected one of {next:?}; {:?}",
                worker.key, self.tasks
            ));
        }
        let tasks = self.candidates(&worker);
        if let Some((priority, true)) = self.priority(&tasks) {
            self.pass = self.turn(priority);
            self.passes.insert(priority, self.pass + (1 << (5 - priority)));
        }
        let task = self.task(seq).ok_or("granted, but not known")?.clone();
        let own = self.settings.queues.get(task.queue).cloned().unwrap_or_default();
        if self.settings.queues.values().any(|queue| queue.weight.is_some()) {
            self.queues.charge(task.queue, own.weight.unwrap_or(1));
        }
        if self.is_shared(task.queue) {
            let weight = task.fair_key.and_then(|key| own.fair_weights.get(key)).copied();
            let pot = self.keys.entry(task.queue).or_default();
            pot.charge(task.fair_key, weight.unwrap_or(1));
        }
        for which in self.limits_of(&task) {
            self.buckets.take(&which, self.now);
        }
        self.stop_waiting(seq, State::Leased(worker.key));
        Ok(())
    }

    /// No worker may wait although something is there for it to do.
    pub(crate) fn idle_in_vain(&mut self) -> Result<(), String> {
        for worker in self.workers.clone() {
            let next = self.next_for(&worker);
            if self.is_waiting(&worker) && !next.is_empty() {
                return Err(format!("worker {} waits and could run {next:?}", worker.key));
            }
        }
        Ok(())
    }
}

/// The first of each line among equally urgent tasks.
fn heads(tasks: &[&Task]) -> Vec<u64> {
    let first = |task: &&&Task| {
        let rank = |task: &Task| (task.deadline.is_none(), task.ready_at, task.seq);
        let mut line = tasks.iter().filter(|other| other.line() == task.line());
        line.all(|other| rank(other) >= rank(task))
    };
    tasks.iter().filter(first).map(|task| task.seq).collect()
}
