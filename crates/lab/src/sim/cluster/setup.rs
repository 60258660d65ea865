//! Decides what a cluster is made of, and refuses what makes no sense.

use std::sync::Arc;
use std::time::Duration;

use divvy_types::limits::{AFTER_MAX, CREDIT_MAX};
use divvy_types::{Name, Settings, TaskId, TaskSpec};

use super::crew::Scaling;
use super::draw::{Arrivals, Due, RunTime};
use super::given::Given;
use super::outcome::Outcome;
use super::world::World;
use crate::experiment::Error;

/// The most tasks in one simulation.
pub const TASKS_MAX: usize = 10_000_000;
/// The most workers in one simulation.
const MEMBERS_MAX: usize = 100_000;
/// How long a message travels unless something else is said.
const TRAVEL: Duration = Duration::from_millis(2);
/// The lease of tasks unless something else is said: that of a server.
const LEASE: Duration = Duration::from_secs(30);
/// Tasks that mostly wait and that a worker runs beside each of its slots: as many as a worker of this platform does by
/// itself.
pub(super) const LIGHT_PER_SLOT: u32 = 16;
/// When a run ends unless something else is said: a day.
const HORIZON: Duration = Duration::from_secs(86_400);

/// A cluster and what it has to do.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The workers.
    pub members: Vec<Member>,
    /// The tasks.
    pub loads: Vec<Load>,
    /// The tasks, where someone else has drawn them; there are no loads then.
    pub given: Option<Arc<Given>>,
    /// Kinds that take no slot: every worker has sixteen places for them beside each of its slots.
    pub light: Vec<Name>,
    /// Workers that the autoscaler starts and stops, besides the members.
    pub scaling: Option<Scaling>,
    /// What the scheduler is told.
    pub settings: Settings,
    /// How long a message travels, in either direction.
    pub travel: Duration,
    /// A worker that holds tasks and is silent for so long is given up; it says three times as often that it lives.
    pub lease: Duration,
    /// The run ends when every task has, or at this time.
    pub horizon: Duration,
    /// The run also ends when more groups of given tasks than this have a task that was not done when it was due.
    pub late_max: Option<usize>,
    /// Where all chance comes from.
    pub seed: u64,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct Member {
    /// What people call it.
    pub name: Name,
    /// Kinds that it can run; none means every kind of the loads.
    pub kinds: Vec<Name>,
    /// Queues that it serves; none means all.
    pub queues: Vec<Name>,
    /// What it has.
    pub capabilities: Vec<Name>,
    /// Tasks that it runs at once.
    pub slots: u32,
    /// Tasks that it takes beyond its slots.
    pub prefetch: u32,
    /// How fast it is; 1 runs a task in its run time.
    pub speed: f64,
    /// When it joins.
    pub joins: Duration,
    /// What happens to it later, by rising time.
    pub turns: Vec<(Duration, Turn)>,
    /// The share of attempts of a kind that it fails.
    pub fails: Vec<(Name, f64)>,
}

/// What happens to a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// It dies with all that it holds, and its connection closes.
    Dies,
    /// It dies and nobody is told: the server learns of it from its silence.
    Vanishes,
    /// It joins anew, with empty hands.
    Returns,
    /// Tasks that begin from now on run at this speed.
    Speed(f64),
}

/// Tasks of one sort.
#[derive(Clone, Debug)]
pub struct Load {
    /// What they are like. The id is replaced, and so is a deadline if there is a [`Due`].
    pub task: TaskSpec,
    /// How many.
    pub tasks: usize,
    /// When they come.
    pub arrivals: Arrivals,
    /// How long they run on a worker of speed 1.
    pub run_time: RunTime,
    /// By when they should be done.
    pub due: Option<Due>,
    /// Which tasks of earlier loads they wait for.
    pub after: Vec<Edges>,
}

/// Which tasks of an earlier load the tasks of a load wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// Each for one: the first for the first, and from the start again where that load is shorter.
    One {
        /// The place of the earlier load in the list.
        load: usize,
    },
    /// Each for all.
    All {
        /// The place of the earlier load in the list.
        load: usize,
    },
}

impl Cluster {
    /// A cluster without workers and tasks, with default settings.
    pub fn new(seed: u64) -> Self {
        Self {
            members: Vec::new(),
            loads: Vec::new(),
            given: None,
            light: Vec::new(),
            scaling: None,
            settings: Settings::default(),
            travel: TRAVEL,
            lease: LEASE,
            horizon: HORIZON,
            late_max: None,
            seed,
        }
    }

    /// Adds a worker.
    pub fn member(mut self, member: Member) -> Self {
        self.members.push(member);
        self
    }

    /// Adds several workers, by their number from 0.
    pub fn members(mut self, count: u32, make: impl FnMut(u32) -> Member) -> Self {
        self.members.extend((0..count).map(make));
        self
    }

    /// Adds tasks.
    pub fn load(mut self, load: Load) -> Self {
        self.loads.push(load);
        self
    }

    /// Sets tasks that were drawn elsewhere.
    pub fn given(mut self, tasks: Arc<Given>) -> Self {
        self.given = Some(tasks);
        self
    }

    /// Sets the kinds that take no slot.
    pub fn light<N: Into<Name>>(mut self, kinds: impl IntoIterator<Item = N>) -> Self {
        self.light = kinds.into_iter().map(Into::into).collect();
        self
    }

    /// Lets the autoscaler start and stop workers.
    pub fn scaled(mut self, scaling: Scaling) -> Self {
        self.scaling = Some(scaling);
        self
    }

    /// Tells the scheduler these settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the lease. Where no worker vanishes in silence, a long one decides nothing and saves messages.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Ends the run at this time, whatever is open.
    pub fn until(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// Ends the run as soon as more than so many groups of the given tasks are late: what follows changes nothing for
    /// whoever only asks whether so few are.
    pub fn give_up_after(mut self, late: usize) -> Self {
        self.late_max = Some(late);
        self
    }

    /// Plays it.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.check()?;
        Ok(World::new(self)?.run())
    }

    fn check(&self) -> Result<(), Error> {
        if self.members.len() > MEMBERS_MAX {
            return bad("members", self.members.len(), "at most 100,000 fit");
        }
        if self.lease < Duration::from_millis(3) {
            return bad("lease", self.lease.as_millis(), "it must be at least 3 ms");
        }
        let tasks: usize = self.loads.iter().map(|load| load.tasks).sum();
        if tasks > TASKS_MAX {
            return bad("loads", tasks, "at most 10,000,000 tasks fit");
        }
        if let Err(error) = self.settings.check() {
            return bad("settings", error, "give settings that a server would take");
        }
        if let Some(given) = &self.given {
            if !self.loads.is_empty() {
                return bad("loads", self.loads.len(), "give loads or tasks, not both");
            }
            given.check()?;
        }
        if let Some(scaling) = &self.scaling {
            scaling.check()?;
        }
        self.members.iter().try_for_each(Member::check)?;
        self.loads.iter().enumerate().try_for_each(|(place, load)| load.check(place, &self.loads))
    }
}

impl Member {
    /// A worker of full speed that is there from the start, runs every kind and takes nothing ahead.
    pub fn new(name: impl Into<Name>, slots: u32) -> Self {
        Self {
            name: name.into(),
            kinds: Vec::new(),
            queues: Vec::new(),
            capabilities: Vec::new(),
            slots,
            prefetch: 0,
            speed: 1.0,
            joins: Duration::ZERO,
            turns: Vec::new(),
            fails: Vec::new(),
        }
    }

    /// Lets it take tasks beyond its slots.
    pub fn prefetch(mut self, tasks: u32) -> Self {
        self.prefetch = tasks;
        self
    }

    /// Sets its speed.
    pub fn speed(mut self, speed: f64) -> Self {
        self.speed = speed;
        self
    }

    /// Lets it join later.
    pub fn joins(mut self, at: Duration) -> Self {
        self.joins = at;
        self
    }

    /// Sets the kinds that it can run.
    pub fn kinds<N: Into<Name>>(mut self, kinds: impl IntoIterator<Item = N>) -> Self {
        self.kinds = kinds.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what it has.
    pub fn has<N: Into<Name>>(mut self, capabilities: impl IntoIterator<Item = N>) -> Self {
        self.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// Lets something happen to it.
    pub fn turn(mut self, at: Duration, turn: Turn) -> Self {
        self.turns.push((at, turn));
        self
    }

    /// Lets it die and return, again and again: it is there for `up`, away for `away`.
    pub fn flaps(mut self, up: Duration, away: Duration, times: u32) -> Self {
        for number in 0..times {
            let dies = self.joins + up * (number + 1) + away * number;
            self.turns.push((dies, Turn::Dies));
            self.turns.push((dies + away, Turn::Returns));
        }
        self
    }

    /// Lets it fail this share of the attempts of a kind.
    pub fn fails(mut self, kind: impl Into<Name>, share: f64) -> Self {
        self.fails.push((kind.into(), share));
        self
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.slots == 0 {
            return bad("member.slots", 0, "it must be at least 1");
        }
        let credit = u64::from(self.slots) + u64::from(self.prefetch);
        if credit > u64::from(CREDIT_MAX) {
            return bad("member.prefetch", self.prefetch, "with the slots it must be below 65,537");
        }
        let turns = self.turns.iter().filter_map(|(_, turn)| match turn {
            Turn::Speed(speed) => Some(*speed),
            _ => None,
        });
        if let Some(speed) = turns.chain([self.speed]).find(|speed| !(1e-6..=1e6).contains(speed)) {
            return bad("member.speed", speed, "it must be from 0.000001 to 1,000,000");
        }
        if let Some((_, share)) = self.fails.iter().find(|(_, share)| !(0.0..=1.0).contains(share))
        {
            return bad("member.fails", share, "a share must be from 0 to 1");
        }
        if !self.turns.is_sorted_by_key(|(at, _)| *at)
            || self.turns.first().is_some_and(|(at, _)| *at < self.joins)
        {
            return bad(
                "member.turns",
                &self.name,
                "they must come by rising time, after it joins",
            );
        }
        Ok(())
    }
}

impl Load {
    /// So many tasks of a kind that come together at the start and run for a second each.
    pub fn new(kind: impl Into<Name>, tasks: usize) -> Self {
        Self {
            task: TaskSpec::new(TaskId(0), kind),
            tasks,
            arrivals: Arrivals::Together { at: Duration::ZERO },
            run_time: RunTime::Fixed(Duration::from_secs(1)),
            due: None,
            after: Vec::new(),
        }
    }

    /// Sets when they come.
    pub fn arrive(mut self, arrivals: Arrivals) -> Self {
        self.arrivals = arrivals;
        self
    }

    /// Sets how long they run.
    pub fn run_for(mut self, run_time: RunTime) -> Self {
        self.run_time = run_time;
        self
    }

    /// Sets by when they should be done.
    pub fn due(mut self, due: Due) -> Self {
        self.due = Some(due);
        self
    }

    /// Sets their priority.
    pub fn priority(mut self, priority: u8) -> Self {
        self.task.priority = priority;
        self
    }

    /// Sets whose share they use.
    pub fn fair_key(mut self, key: impl Into<Name>) -> Self {
        self.task.fair_key = Some(key.into());
        self
    }

    /// Lets them run under a limit.
    pub fn limit(mut self, limit: impl Into<Name>) -> Self {
        self.task.limits.push(limit.into());
        self
    }

    /// Lets them need a capability.
    pub fn need(mut self, need: impl Into<Name>) -> Self {
        self.task.needs.push(need.into());
        self
    }

    /// Lets them wait for tasks of an earlier load.
    pub fn after(mut self, edges: Edges) -> Self {
        self.after.push(edges);
        self
    }

    fn check(&self, place: usize, all: &[Self]) -> Result<(), Error> {
        if let Err(error) = self.task.validate() {
            return bad("load.task", error, "give a task that a server would take");
        }
        self.arrivals.check()?;
        self.run_time.check()?;
        if let Some(due) = &self.due {
            due.check()?;
        }
        let mut edges = 0;
        for edge in &self.after {
            let (load, every) = match *edge {
                Edges::One { load } => (load, false),
                Edges::All { load } => (load, true),
            };
            let Some(earlier) = all.get(load).filter(|_| load < place) else {
                return bad("load.after", load, "name the place of an earlier load");
            };
            if earlier.tasks == 0 {
                return bad("load.after", load, "name a load that has tasks");
            }
            edges += if every { earlier.tasks } else { 1 };
        }
        if edges > AFTER_MAX {
            return bad("load.after", edges, "a task can wait for at most 1,000 others");
        }
        Ok(())
    }
}

pub(super) fn bad<T>(
    field: &'static str,
    given: impl ToString,
    cure: &'static str,
) -> Result<T, Error> {
    Err(Error::BadSetting { field, given: given.to_string(), cure })
}
