//! One rule and one fleet, second by second.

use std::collections::{BTreeMap, VecDeque};

use divvy_autoscale::{Fleet, KindLoad, Sample, Scaler, Wanted};
use divvy_types::pools::Pool;
use divvy_types::{Name, Timestamp};

use super::traffic::{DAY, Traffic};

/// How often a rule decides, in seconds.
const DECIDE_SEC: usize = 15;
/// The time between a notice and the end of a spot worker, in seconds.
const NOTICE_SEC: usize = 120;
/// The time before the scored days that a rule without forecasts is given to find its number, in seconds.
const WARM_SEC: usize = 3_600;
/// The time at which a simulation begins: a Thursday at midnight, like the epoch.
const BEGIN_US: u64 = 0;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The autoscaler, with the policy of the pool.
    Scaler,
    /// Somebody who knows the rate of every second to come.
    Clairvoyant,
}

/// Spot workers that are taken away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Notice {
    /// The second at which their notice comes.
    pub at: usize,
    /// The share of those that run.
    pub share: f64,
}

/// A pool, what comes, and how it is scored.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The pool. Its types have one slot.
    pub pool: &'a Pool,
    /// What comes.
    pub traffic: &'a Traffic,
    /// Tasks that a worker of speed 1 starts per second.
    pub per_worker: f64,
    /// Tasks must start within this time, in seconds.
    pub within: usize,
    /// The second from which on it is scored; what is before is there to learn from.
    pub scored_from: usize,
    /// Spot workers that are taken away.
    pub notices: &'a [Notice],
    /// Whether the rule reads notices.
    pub reads_notices: bool,
    /// Whether the rule learns from the days before.
    pub learns: bool,
}

/// What came of it, in the scored time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What the workers cost, in hours of a worker of price 1.
    pub paid: f64,
    /// What the tasks alone would have cost.
    pub work: f64,
    /// Tasks that started.
    pub tasks: u64,
    /// Of these, too late.
    pub late: u64,
    /// Changes of the number of workers that were decided.
    pub actions: u64,
    /// Days that were scored.
    pub days: f64,
    /// What there was every few minutes.
    pub points: Vec<Point>,
    /// The forecaster that was believed in the end.
    pub trusted: Option<String>,
}

/// What there was at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Hours since the scored time began.
    pub hour: f64,
    /// Workers that the rate needs.
    pub needed: f64,
    /// Workers that are wanted.
    pub wanted: f64,
    /// Workers that run.
    pub running: f64,
}

/// Seconds between two points.
const POINT_SEC: usize = 120;

impl Outcome {
    /// What the workers cost over what the tasks alone would have cost.
    pub fn cost(&self) -> f64 {
        self.paid / self.work.max(f64::MIN_POSITIVE)
    }

    /// The share of tasks that started too late.
    pub fn violations(&self) -> f64 {
        self.late as f64 / self.tasks.max(1) as f64
    }

    /// Changes of the number of workers per day.
    pub fn actions_per_day(&self) -> f64 {
        self.actions as f64 / self.days.max(f64::MIN_POSITIVE)
    }
}

/// The workers of one type.
#[derive(Clone, Debug, Default)]
struct Members {
    running: u32,
    /// When they will be there, and how many.
    starting: VecDeque<(usize, u32)>,
    /// When they will be taken away, and how many of those that run.
    leaving: VecDeque<(usize, u32)>,
}

/// The state of a run.
struct Run<'a> {
    world: &'a World<'a>,
    members: BTreeMap<Name, Members>,
    /// Tasks that wait, by the second in which they came.
    queue: VecDeque<(usize, u32)>,
    waiting: u64,
    /// What a part of a second was too short for.
    carried: f64,
    arrived: u64,
    served: u64,
    offered: f64,
    wanted: u32,
    outcome: Outcome,
}

impl World<'_> {
    /// Runs it under a rule.
    pub fn run(&self, rule: Rule) -> Outcome {
        let mut scaler = Scaler::new(self.pool.clone());
        let mut run = Run::new(self);
        let begin = if self.learns { 0 } else { self.scored_from.saturating_sub(WARM_SEC) };
        let mut notices = self.notices.iter().skip_while(|notice| notice.at < begin).peekable();
        for now in begin..self.traffic.arrived.len() {
            while let Some(notice) = notices.next_if(|notice| notice.at <= now) {
                run.tell(now, notice.share);
            }
            run.step(now);
            if (now + 1).is_multiple_of(DECIDE_SEC) {
                let wanted = match rule {
                    Rule::Scaler => scaler.decide(&run.sample(now + 1)).wanted.clone(),
                    Rule::Clairvoyant => run.foreseen(now + 1),
                };
                let total = match rule {
                    Rule::Scaler => run.without_leaving(&wanted),
                    Rule::Clairvoyant => wanted.values().sum(),
                };
                run.follow(now + 1, &wanted, total);
            }
        }
        run.outcome.days = (self.traffic.arrived.len() - self.scored_from) as f64 / DAY as f64;
        run.outcome.trusted = scaler.explain().and_then(|why| why.forecast.trusted);
        let end = self.traffic.arrived.len();
        for (came, count) in std::mem::take(&mut run.queue) {
            run.count_started(came, end, count);
        }
        run.outcome
    }
}

impl<'a> Run<'a> {
    fn new(world: &'a World<'a>) -> Self {
        let members =
            world.pool.types.iter().map(|one| (one.name.clone(), Members::default())).collect();
        Self {
            world,
            members,
            queue: VecDeque::new(),
            waiting: 0,
            carried: 0.0,
            arrived: 0,
            served: 0,
            offered: 0.0,
            wanted: 0,
            outcome: Outcome::default(),
        }
    }

    /// One second: workers come and go, tasks arrive and start, money is counted.
    fn step(&mut self, now: usize) {
        for members in self.members.values_mut() {
            while let Some((_, count)) = members.starting.front().filter(|(at, _)| *at <= now) {
                members.running += count;
                members.starting.pop_front();
            }
            while let Some((_, count)) = members.leaving.front().filter(|(at, _)| *at <= now) {
                members.running = members.running.saturating_sub(*count);
                members.leaving.pop_front();
            }
        }
        let came = self.world.traffic.arrived[now];
        self.arrived += u64::from(came);
        if came > 0 {
            self.queue.push_back((now, came));
            self.waiting += u64::from(came);
        }
        let capacity = self.capacity() * self.world.per_worker;
        self.offered += capacity;
        self.carried = (self.carried + capacity).min(capacity + 1.0);
        let mut can = self.carried as u64;
        while can > 0 {
            let Some((came, count)) = self.queue.front_mut() else { break };
            let (came, starts) = (*came, u64::from(*count).min(can) as u32);
            *count -= starts;
            if *count == 0 {
                self.queue.pop_front();
            }
            can -= u64::from(starts);
            self.carried -= f64::from(starts);
            self.waiting -= u64::from(starts);
            self.served += u64::from(starts);
            self.count_started(came, now, starts);
        }
        if now >= self.world.scored_from {
            self.count_money(now);
        }
    }

    fn count_started(&mut self, came: usize, now: usize, count: u32) {
        if came < self.world.scored_from {
            return;
        }
        self.outcome.tasks += u64::from(count);
        if now - came > self.world.within {
            self.outcome.late += u64::from(count);
        }
    }

    fn count_money(&mut self, now: usize) {
        let mut price = 0.0;
        for one in &self.world.pool.types {
            let members = &self.members[&one.name];
            price += f64::from(members.running + members.coming()) * one.price_hour;
        }
        self.outcome.paid += price / 3_600.0;
        let came = f64::from(self.world.traffic.arrived[now]);
        self.outcome.work += came / self.world.per_worker / 3_600.0;
        let since = now - self.world.scored_from;
        if since.is_multiple_of(POINT_SEC) {
            let needed = f64::from(self.world.traffic.rates[now]) / self.world.per_worker;
            let running = f64::from(self.members.values().map(|one| one.running).sum::<u32>());
            let wanted = f64::from(self.wanted);
            let hour = since as f64 / 3_600.0;
            self.outcome.points.push(Point { hour, needed, wanted, running });
        }
    }

    fn capacity(&self) -> f64 {
        let each = |name: &Name| self.members.get(name).map_or(0, |members| members.running);
        self.world.pool.types.iter().map(|one| f64::from(each(&one.name)) * one.speed).sum()
    }

    /// Spot workers are told that they will be taken away.
    fn tell(&mut self, now: usize, share: f64) {
        for one in self.world.pool.types.iter().filter(|one| one.spot) {
            let Some(members) = self.members.get_mut(&one.name) else { continue };
            let told: u32 = members.leaving.iter().map(|(_, count)| count).sum();
            let count = (f64::from(members.running.saturating_sub(told)) * share).ceil() as u32;
            members.leaving.push_back((now + NOTICE_SEC, count));
        }
    }

    /// What the autoscaler sees.
    fn sample(&mut self, now: usize) -> Sample {
        let fleet = self.members.iter().map(|(name, members)| {
            let told: u32 = members.leaving.iter().map(|(_, count)| count).sum();
            let leaving = if self.world.reads_notices { told } else { 0 };
            let (running, starting) = (members.running, members.coming());
            (name.clone(), Fleet { running, starting, draining: 0, leaving })
        });
        let fleet: BTreeMap<Name, Fleet> = fleet.collect();
        let used = if self.offered > 0.0 { self.served as f64 / self.offered } else { 0.0 };
        let running: u32 = fleet.values().map(|one| one.running).sum();
        let kind = KindLoad {
            arrived: self.arrived,
            ended: self.served,
            waiting: self.waiting,
            oldest_sec: self.queue.front().map_or(0.0, |(came, _)| (now - came) as f64),
            run_sec: Some(1.0 / self.world.per_worker),
            ..KindLoad::default()
        };
        (self.arrived, self.served, self.offered) = (0, 0, 0.0);
        Sample {
            at: Timestamp(BEGIN_US + now as u64 * 1_000_000),
            kinds: [("task".into(), kind)].into(),
            fleet,
            busy_slots: (used * f64::from(running)).round() as u32,
            cpu: Some(used),
            ..Sample::default()
        }
    }

    /// The number of somebody who knows every rate until a new worker is there, and what waits.
    fn foreseen(&mut self, now: usize) -> Wanted {
        let one = &self.world.pool.types[0];
        let until = now + one.boot_sec as usize + DECIDE_SEC;
        let rates = &self.world.traffic.rates;
        let ahead = &rates[now.min(rates.len() - 1)..until.min(rates.len())];
        let most = ahead.iter().copied().fold(0.0, f32::max);
        let waits =
            (self.waiting as f64 - 2.0 * f64::from(most)).max(0.0) / self.world.within as f64;
        let each = self.world.per_worker * one.speed;
        let workers = ((f64::from(most) * 1.005 + waits) / each).ceil() as u32;
        [(one.name.clone(), workers.clamp(self.world.pool.min, self.world.pool.max))].into()
    }

    /// How many are wanted that stay.
    fn without_leaving(&self, wanted: &Wanted) -> u32 {
        let told: u32 = self.members.values().flat_map(|one| &one.leaving).map(|one| one.1).sum();
        let told = if self.world.reads_notices { told } else { 0 };
        wanted.values().sum::<u32>().saturating_sub(told)
    }

    /// Starts and gives up workers; `total` is what is wanted of those that stay.
    fn follow(&mut self, now: usize, wanted: &Wanted, total: u32) {
        if now > self.world.scored_from && total != self.wanted {
            self.outcome.actions += 1;
        }
        self.wanted = total;
        for one in &self.world.pool.types {
            let want = wanted.get(&one.name).copied().unwrap_or(0);
            let Some(members) = self.members.get_mut(&one.name) else { continue };
            let there = members.running + members.coming();
            if want > there {
                members.starting.push_back((now + one.boot_sec as usize, want - there));
            }
            members.give_up(there.saturating_sub(want));
        }
    }
}

impl Members {
    fn coming(&self) -> u32 {
        self.starting.iter().map(|(_, count)| count).sum()
    }

    /// Those that start go first, the latest before the others.
    fn give_up(&mut self, mut count: u32) {
        while count > 0 {
            let Some((_, last)) = self.starting.back_mut() else { break };
            let gone = count.min(*last);
            *last -= gone;
            count -= gone;
            if *last == 0 {
                self.starting.pop_back();
            }
        }
        self.running = self.running.saturating_sub(count);
    }
}
