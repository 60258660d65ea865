//! What would have been with other settings: samples of a pool played again, with the effect of what is decided.
//!
//! What arrived and how long it runs is what was seen. Who works, what runs and what waits follows from the decisions:
//! workers are there after their boot time, a slot runs one task at a time, and those given up leave at once. Tasks are
//! counted like water and not one by one, so times within a sample, deadlines and priorities are only near what would
//! have been.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::pools::{Pool, WorkerType};
use divvy_types::{Name, Timestamp};

use crate::decision::{Decision, Wanted};
use crate::load::{patience, sound};
use crate::sample::{Due, Fleet, KindLoad, Sample};
use crate::scaler::Scaler;

/// How long a task is taken to run of which nothing is known, at most, in seconds.
const RUN_SEC_MAX: f64 = 300.0;

/// One sample as it would have been.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What would have been wanted.
    pub decision: Decision,
    /// Work that arrived, in seconds per second.
    pub work_rate: f64,
    /// Tasks that would have waited.
    pub waiting: u64,
    /// Workers that would have taken tasks.
    pub workers: u32,
}

/// Plays samples again, oldest first; gives who decided too, for what it would have cost.
pub fn replay<'a>(
    pool: Pool,
    samples: impl IntoIterator<Item = &'a Sample>,
) -> (Scaler, Vec<Step>) {
    let mut world = World::new(&pool);
    let mut scaler = Scaler::new(pool);
    let mut steps = Vec::new();
    for seen in samples {
        let sample = world.go_on(seen);
        let decision = scaler.decide(&sample).clone();
        steps.push(Step {
            work_rate: scaler.work_rate(),
            waiting: sample.kinds.values().map(|load| load.waiting).sum(),
            workers: sample.fleet.values().map(|fleet| fleet.running).sum(),
            decision: decision.clone(),
        });
        world.follow(seen.at, &decision.wanted);
    }
    (scaler, steps)
}

struct World {
    types: Vec<WorkerType>,
    /// Workers that take tasks, by type.
    running: BTreeMap<Name, u32>,
    /// When workers will be there, and how many, by type.
    starting: BTreeMap<Name, VecDeque<(Timestamp, u32)>>,
    kinds: BTreeMap<Name, Kind>,
    run_sec: f64,
    at: Option<Timestamp>,
}

#[derive(Default)]
struct Kind {
    /// Tasks that wait or run.
    open: f64,
    /// Of these, those that run.
    running: f64,
    run_sec: f64,
    /// Since when some wait.
    waits_since: Option<Timestamp>,
}

impl World {
    fn new(pool: &Pool) -> Self {
        Self {
            types: pool.worker_types(),
            running: BTreeMap::new(),
            starting: BTreeMap::new(),
            kinds: BTreeMap::new(),
            run_sec: patience(&pool.goal).min(RUN_SEC_MAX),
            at: None,
        }
    }

    /// Lets the time until a sample pass, and says what would have been seen then.
    fn go_on(&mut self, seen: &Sample) -> Sample {
        let is_first = self.at.is_none();
        let seconds = self.at.map_or(0.0, |before| seen.at.since(before).as_secs_f64());
        self.at = Some(seen.at);
        if is_first {
            let there = |(name, fleet): (&Name, &Fleet)| (name.clone(), fleet.running);
            self.running = seen.fleet.iter().map(there).collect();
        }
        for (name, load) in &seen.kinds {
            let kind = self.kinds.entry(name.clone()).or_default();
            let known = load.run_sec.map(sound).filter(|run| *run > 0.0);
            kind.run_sec =
                known.unwrap_or(if kind.run_sec > 0.0 { kind.run_sec } else { self.run_sec });
            kind.open += match is_first {
                true => (load.waiting + load.running) as f64,
                false => load.arrived as f64,
            };
        }
        let done = self.work(seconds);
        self.boot(seen.at);
        self.sample(seen, &done)
    }

    /// Lets all slots work for a time; says how many tasks of each kind ended.
    fn work(&mut self, seconds: f64) -> BTreeMap<Name, f64> {
        let (mut slots, mut power) = (0.0, 0.0);
        for one in &self.types {
            let count = f64::from(self.running.get(&one.name).copied().unwrap_or(0) * one.slots);
            slots += count;
            power += count * one.speed;
        }
        let speed = if slots > 0.0 { power / slots } else { 1.0 };
        let share = |open: f64| if open > 0.0 { (slots / open).min(1.0) } else { 0.0 };
        let open: f64 = self.kinds.values().map(|kind| kind.open).sum();
        let mut done = BTreeMap::new();
        for (name, kind) in &mut self.kinds {
            let ended = kind.open * share(open) * speed * seconds / kind.run_sec.max(1e-6);
            let ended = ended.min(kind.open);
            kind.open -= ended;
            done.insert(name.clone(), ended);
        }
        let open: f64 = self.kinds.values().map(|kind| kind.open).sum();
        self.kinds.values_mut().for_each(|kind| kind.running = kind.open * share(open));
        done
    }

    fn boot(&mut self, now: Timestamp) {
        for (name, starting) in &mut self.starting {
            while let Some((_, count)) = starting.front().filter(|(at, _)| *at <= now) {
                *self.running.entry(name.clone()).or_default() += count;
                starting.pop_front();
            }
        }
    }

    fn sample(&mut self, seen: &Sample, done: &BTreeMap<Name, f64>) -> Sample {
        let mut sample = Sample { at: seen.at, ..Sample::default() };
        for (name, kind) in &mut self.kinds {
            let load = seen.kinds.get(name).cloned().unwrap_or_default();
            let waiting = (kind.open - kind.running).max(0.0).round();
            let ended = done.get(name).copied().unwrap_or(0.0).round() as u64;
            kind.waits_since = (waiting > 0.0).then(|| kind.waits_since.unwrap_or(seen.at));
            let since = kind.waits_since.map_or(0.0, |at| seen.at.since(at).as_secs_f64());
            let drained = waiting * kind.run_sec / kind.running.max(1e-6);
            // As many are due as would have waited, in the proportions that were seen.
            let part = waiting / (load.waiting as f64).max(1.0);
            let due = load
                .due
                .iter()
                .map(|due| Due { tasks: (due.tasks as f64 * part).round() as u64, ..*due });
            let load = KindLoad {
                ended,
                waiting: waiting as u64,
                running: kind.running.round() as u64,
                oldest_sec: since.min(drained),
                due: due.filter(|due| due.tasks > 0).collect(),
                ..load
            };
            sample.kinds.insert(name.clone(), load);
        }
        let busy: f64 = self.kinds.values().map(|kind| kind.running).sum();
        sample.busy_slots = busy.round() as u32;
        for one in &self.types {
            let running = self.running.get(&one.name).copied().unwrap_or(0);
            let fleet = Fleet { running, starting: self.coming(&one.name), ..Fleet::default() };
            sample.fleet.insert(one.name.clone(), fleet);
        }
        sample
    }

    fn coming(&self, name: &Name) -> u32 {
        self.starting.get(name).into_iter().flatten().map(|(_, count)| count).sum()
    }

    /// Starts who is missing and gives up who is too many, those that start first.
    fn follow(&mut self, now: Timestamp, wanted: &Wanted) {
        for one in self.types.clone() {
            let wanted = wanted.get(&one.name).copied().unwrap_or(0);
            let there = self.running.get(&one.name).copied().unwrap_or(0) + self.coming(&one.name);
            let starting = self.starting.entry(one.name.clone()).or_default();
            if wanted > there {
                let boot = (one.boot_sec.clamp(0.0, 86_400.0) * 1e3) as u64;
                starting.push_back((now.plus_ms(boot), wanted - there));
            }
            let mut many = there.saturating_sub(wanted);
            while many > 0 {
                let Some((at, count)) = starting.pop_back() else { break };
                let gone = many.min(count);
                many -= gone;
                if count > gone {
                    starting.push_back((at, count - gone));
                }
            }
            let running = self.running.entry(one.name.clone()).or_default();
            *running = running.saturating_sub(many);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::pools::Policy;

    /// A sample every 10 seconds: so many arrive in each, 60 s of work each, and one worker was there.
    fn samples(arrived: &[u64]) -> Vec<Sample> {
        let sample = |(place, arrived): (usize, &u64)| {
            let load = KindLoad {
                arrived: *arrived,
                waiting: 100,
                run_sec: Some(60.0),
                ..KindLoad::default()
            };
            let fleet = Fleet { running: 1, ..Fleet::default() };
            Sample {
                at: Timestamp(place as u64 * 10_000_000),
                kinds: [("k".into(), load)].into(),
                fleet: [("worker".into(), fleet)].into(),
                ..Sample::default()
            }
        };
        arrived.iter().enumerate().map(sample).collect()
    }

    fn pool(max: u32, boot_sec: f64) -> Pool {
        let one = WorkerType { boot_sec, ..WorkerType::default() };
        Pool { policy: Policy::Fixed, max, types: vec![one], ..Pool::default() }
    }

    #[test]
    fn what_waits_follows_from_who_would_have_been_there() {
        let seen = samples(&[0; 61]);
        let (_, few) = replay(pool(1, 0.0), &seen);
        let (_, many) = replay(pool(50, 0.0), &seen);
        // 100 tasks of a minute: one worker does about ten of them in ten minutes, fifty do nearly all.
        assert_eq!((few[0].waiting, few[60].workers), (99, 1));
        assert!((85..=92).contains(&few[60].waiting), "{}", few[60].waiting);
        assert_eq!((many[60].waiting, many[60].workers), (0, 50));
    }

    #[test]
    fn workers_are_there_after_their_boot_and_not_before() {
        let seen = samples(&[0; 10]);
        let (_, steps) = replay(pool(5, 35.0), &seen);
        let workers: Vec<u32> = steps.iter().map(|step| step.workers).collect();
        assert_eq!(workers[..5], [1, 1, 1, 1, 5]);
        assert!(steps.iter().all(|step| step.decision.total() == 5));
    }

    #[test]
    fn who_is_given_up_before_it_is_there_never_comes() {
        let mut world = World::new(&pool(9, 60.0));
        world.running.insert("worker".into(), 2);
        let at = |second: u64| Timestamp(second * 1_000_000);
        world.follow(at(0), &[("worker".into(), 7)].into());
        assert_eq!(world.coming(&"worker".into()), 5);
        world.follow(at(10), &[("worker".into(), 4)].into());
        assert_eq!((world.coming(&"worker".into()), world.running["worker"]), (2, 2));
        world.follow(at(20), &[("worker".into(), 1)].into());
        assert_eq!((world.coming(&"worker".into()), world.running["worker"]), (0, 1));
    }
}
