//! Decides what the autoscaler's word means for a simulated cluster: who is started, who is drained, who is paid.
//!
//! How many are wanted is decided by [`divvy_autoscale::Scaler`] alone. Here workers take time to boot, a start that is
//! no longer wanted is called off, the least busy are drained first, and a worker that drains leaves when it holds
//! nothing; until then it is called back before anybody is started. Some may be there from the start, without a boot. A spot worker is told when it will be taken away: it
//! takes nothing more from then on, and dies with what it still runs when the notice is over.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_autoscale::{Change, Fleet, Sample, Scaler};
use divvy_types::pools::{Pool, WorkerType};
use divvy_types::{Name, Timestamp};

use super::setup::{Member, bad};
use super::world::{Micros, START, micros};
use crate::experiment::Error;

/// The most workers that are started in one run.
const HIRED_MAX: usize = 1_000_000;

/// Workers that the autoscaler starts and stops.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The pool; its driver does not matter here.
    pub pool: Pool,
    /// Workers that are there from the start.
    pub at_start: Vec<AtStart>,
    /// How often the autoscaler looks.
    pub every: Duration,
    /// How often spot workers are taken away.
    pub interruptions: Vec<Interruptions>,
}

/// Workers that are there from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtStart {
    /// Their type, one of the pool.
    pub worker_type: Name,
    /// How many.
    pub count: u32,
}

/// How often workers of a type are taken away by their owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Interruptions {
    /// The type.
    pub worker_type: Name,
    /// How often each is, in an hour.
    pub per_hour: f64,
    /// How long before it is told.
    pub notice: Duration,
}

/// What became of the workers that were started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scaled {
    /// Every worker, in the order in which they were asked for.
    pub hired: Vec<Hired>,
    /// Changes of the number of workers that the autoscaler remembers, oldest first.
    pub changes: Vec<Change>,
}

/// A worker that was started. Times are from the start of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Hired {
    /// The place of its type in the pool.
    pub worker_type: usize,
    /// Its place among the members.
    pub member: usize,
    /// When it was asked for.
    pub asked: Duration,
    /// When it was gone; nothing if it was there at the end.
    pub gone: Option<Duration>,
    /// Whether its owner took it away.
    pub interrupted: bool,
}

impl Scaling {
    /// Lets the autoscaler look every 30 seconds at a pool that begins without workers.
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            at_start: Vec::new(),
            every: Duration::from_secs(30),
            interruptions: Vec::new(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.pool.types.is_empty() {
            return bad("scaling.pool.types", "empty", "name at least one type of worker");
        }
        for worker_type in &self.pool.types {
            member(worker_type, 0).check()?;
        }
        let named = self.at_start.iter().map(|some| &some.worker_type);
        let interrupted = self.interruptions.iter().map(|found| &found.worker_type);
        for name in named.chain(interrupted) {
            if self.place_of(name).is_none() {
                return bad("scaling", name, "name a type of the pool");
            }
        }
        if self.every.is_zero() {
            return bad("scaling.every", 0, "let some time pass between two looks");
        }
        let count: u64 = self.at_start.iter().map(|some| u64::from(some.count)).sum();
        if count > HIRED_MAX as u64 {
            return bad("scaling.at_start", count, "at most 1,000,000 fit");
        }
        Ok(())
    }

    fn place_of(&self, name: &Name) -> Option<usize> {
        self.pool.types.iter().position(|known| known.name == *name)
    }

    pub(super) fn interruptions_of(&self, worker_type: usize) -> Option<&Interruptions> {
        let name = &self.pool.types[worker_type].name;
        self.interruptions
            .iter()
            .find(|found| found.worker_type == *name && found.per_hour > 0.0)
            .filter(|_| self.pool.types[worker_type].spot)
    }
}

/// The workers that were started, and the one who says how many there should be.
pub(super) struct Crew<'a> {
    pub(super) scaling: &'a Scaling,
    scaler: Scaler,
    hands: Vec<Hand>,
    /// The place among the hands by the place among the members.
    by_member: BTreeMap<usize, usize>,
}

struct Hand {
    hired: Hired,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    /// It ends what it runs and then leaves.
    Draining,
    /// It was told that it will be taken away.
    Leaving,
    Gone,
}

/// What is to be done.
pub(super) enum Order {
    /// Start workers of this type.
    Start { worker_type: usize, count: u32 },
    /// Drain this member.
    Drain { member: usize },
    /// Let this member take tasks again.
    CallBack { member: usize },
}

impl<'a> Crew<'a> {
    pub(super) fn new(scaling: &'a Scaling) -> Self {
        let scaler = Scaler::new(scaling.pool.clone());
        Self { scaling, scaler, hands: Vec::new(), by_member: BTreeMap::new() }
    }

    /// The types and numbers of those that are there from the start.
    pub(super) fn at_start(&self) -> Vec<(usize, u32)> {
        let place = |some: &AtStart| Some((self.scaling.place_of(&some.worker_type)?, some.count));
        self.scaling.at_start.iter().filter_map(place).collect()
    }

    /// Whether another one may be started.
    pub(super) fn has_room(&self) -> bool {
        self.hands.len() < HIRED_MAX
    }

    /// Writes down that a worker was asked for, and gives what it is.
    pub(super) fn hire(&mut self, worker_type: usize, member: usize, now: Micros) -> Member {
        let asked = Duration::from_micros(now);
        let hired = Hired { worker_type, member, asked, gone: None, interrupted: false };
        self.by_member.insert(member, self.hands.len());
        self.hands.push(Hand { hired, stage: Stage::Starting });
        self::member(&self.scaling.pool.types[worker_type], member)
    }

    pub(super) fn type_of(&self, member: usize) -> Option<usize> {
        self.by_member.get(&member).map(|place| self.hands[*place].hired.worker_type)
    }

    /// A worker has booted; says whether it is still wanted.
    pub(super) fn booted(&mut self, member: usize) -> bool {
        self.turns(member, |stage| stage == Stage::Starting, Stage::Running)
    }

    /// A worker was told that it will be taken away; says whether it is there to hear it.
    pub(super) fn noticed(&mut self, member: usize) -> bool {
        let there = |stage| matches!(stage, Stage::Running | Stage::Draining);
        let told = self.turns(member, there, Stage::Leaving);
        if told {
            self.hand(member).expect("it was there").hired.interrupted = true;
        }
        told
    }

    /// Whether a worker leaves when it holds nothing.
    pub(super) fn departs(&self, member: usize) -> bool {
        let place = self.by_member.get(&member);
        place.is_some_and(|place| {
            matches!(self.hands[*place].stage, Stage::Draining | Stage::Leaving)
        })
    }

    /// A worker is gone.
    pub(super) fn gone(&mut self, member: usize, now: Micros) {
        if let Some(hand) = self.hand(member) {
            hand.stage = Stage::Gone;
            hand.hired.gone.get_or_insert_with(|| Duration::from_micros(now));
        }
    }

    /// Lets the autoscaler decide. `running` says how many tasks a member runs.
    pub(super) fn decide(
        &mut self,
        mut sample: Sample,
        now: Micros,
        running: impl Fn(usize) -> usize,
    ) -> Vec<Order> {
        sample.at = at(now);
        for (place, worker_type) in self.scaling.pool.types.iter().enumerate() {
            sample.fleet.insert(worker_type.name.clone(), self.fleet(place));
        }
        let slots: u32 = self.slots();
        sample.cpu = (slots > 0).then(|| f64::from(sample.busy_slots) / f64::from(slots));
        let wanted = self.scaler.decide(&sample).wanted.clone();
        let mut orders = Vec::new();
        for (worker_type, known) in self.scaling.pool.types.iter().enumerate() {
            let wanted = wanted.get(&known.name).copied().unwrap_or(0);
            let Fleet { running: there, starting, .. } = self.fleet(worker_type);
            let have = there + starting;
            if wanted > have {
                let back = self.call_back(worker_type, wanted - have, &running, &mut orders);
                orders.push(Order::Start { worker_type, count: wanted - have - back });
            } else {
                self.dismiss(worker_type, have - wanted, now, &running, &mut orders);
            }
        }
        orders
    }

    pub(super) fn outcome(self) -> Scaled {
        Scaled {
            hired: self.hands.into_iter().map(|hand| hand.hired).collect(),
            changes: self.scaler.changes().cloned().collect(),
        }
    }

    /// Calls starts off first, then drains those that do least.
    fn dismiss(
        &mut self,
        worker_type: usize,
        mut count: u32,
        now: Micros,
        running: &impl Fn(usize) -> usize,
        orders: &mut Vec<Order>,
    ) {
        let of_type = |hand: &&mut Hand| hand.hired.worker_type == worker_type;
        for hand in self.hands.iter_mut().rev().filter(of_type) {
            if count > 0 && hand.stage == Stage::Starting {
                hand.stage = Stage::Gone;
                hand.hired.gone = Some(Duration::from_micros(now));
                count -= 1;
            }
        }
        if count == 0 {
            return;
        }
        let mut there: Vec<&mut Hand> = self
            .hands
            .iter_mut()
            .filter(|hand| of_type(hand) && hand.stage == Stage::Running)
            .collect();
        there
            .sort_by_key(|hand| (running(hand.hired.member), std::cmp::Reverse(hand.hired.member)));
        for hand in there.into_iter().take(count as usize) {
            hand.stage = Stage::Draining;
            orders.push(Order::Drain { member: hand.hired.member });
        }
    }

    /// Calls those back that drain, the busiest first; says how many.
    fn call_back(
        &mut self,
        worker_type: usize,
        count: u32,
        running: &impl Fn(usize) -> usize,
        orders: &mut Vec<Order>,
    ) -> u32 {
        let mut draining: Vec<&mut Hand> = self
            .hands
            .iter_mut()
            .filter(|hand| hand.hired.worker_type == worker_type && hand.stage == Stage::Draining)
            .collect();
        draining
            .sort_by_key(|hand| std::cmp::Reverse((running(hand.hired.member), hand.hired.member)));
        let back = draining.into_iter().take(count as usize).map(|hand| {
            hand.stage = Stage::Running;
            orders.push(Order::CallBack { member: hand.hired.member });
        });
        back.count() as u32
    }

    fn fleet(&self, worker_type: usize) -> Fleet {
        let mut fleet = Fleet::default();
        for hand in self.hands.iter().filter(|hand| hand.hired.worker_type == worker_type) {
            match hand.stage {
                Stage::Starting => fleet.starting += 1,
                Stage::Running => fleet.running += 1,
                Stage::Draining => fleet.draining += 1,
                Stage::Leaving => {
                    fleet.running += 1;
                    fleet.leaving += 1;
                }
                Stage::Gone => {}
            }
        }
        fleet
    }

    fn slots(&self) -> u32 {
        let there = self.hands.iter().filter(|hand| hand.stage == Stage::Running);
        there.map(|hand| self.scaling.pool.types[hand.hired.worker_type].slots).sum()
    }

    fn hand(&mut self, member: usize) -> Option<&mut Hand> {
        self.by_member.get(&member).map(|place| &mut self.hands[*place])
    }

    fn turns(&mut self, member: usize, from: impl Fn(Stage) -> bool, to: Stage) -> bool {
        let Some(hand) = self.hand(member).filter(|hand| from(hand.stage)) else { return false };
        hand.stage = to;
        true
    }
}

fn at(now: Micros) -> Timestamp {
    START + Duration::from_micros(now)
}

/// The time from asking for a worker until it takes tasks.
pub(super) fn boot_of(worker_type: &WorkerType) -> Micros {
    micros(Duration::from_secs_f64(worker_type.boot_sec.clamp(0.0, 86_400.0)))
}

fn member(worker_type: &WorkerType, number: usize) -> Member {
    Member::new(format!("{}-{number}", worker_type.name), worker_type.slots)
        .speed(worker_type.speed)
}
