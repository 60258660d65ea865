//! Decides what tasks there are: when each arrives, how long it runs, by when it should be done, what it waits for.
//!
//! Every load draws from sources of its own, so that a change to one load leaves the others as they were.

use std::sync::Arc;
use std::time::Duration;

use divvy_types::{Dependency, TaskId, TaskSpec};

use super::given::Given;
use super::setup::{Cluster, Edges, Load, bad};
use super::world::{Micros, START, micros};
use crate::experiment::Error;

/// When tasks come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// All at once.
    Together {
        /// When.
        at: Duration,
    },
    /// One after the other, at equal distances.
    Evenly {
        /// When the first comes.
        from: Duration,
        /// How many in a second.
        per_second: f64,
    },
    /// One after the other, at random (Poisson).
    Poisson {
        /// When the waiting for the first begins.
        from: Duration,
        /// How many in a second, on average.
        per_second: f64,
    },
    /// Some at once, then a pause.
    Bursts {
        /// When the first burst comes.
        from: Duration,
        /// From one burst to the next.
        every: Duration,
        /// Tasks of one burst.
        size: usize,
    },
}

/// How long tasks run on a worker of speed 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunTime {
    /// All the same.
    Fixed(Duration),
    /// Anything between the two, all equally likely.
    Between(Duration, Duration),
    /// Exponential, with this mean.
    Exponential(Duration),
    /// Short, but some long.
    Mixed {
        /// Most of them.
        short: Duration,
        /// The others.
        long: Duration,
        /// The share of the others.
        share: f64,
    },
}

/// By when tasks should be done: so long after they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// At least.
    pub least: Duration,
    /// At most; anything between the two is equally likely.
    pub most: Duration,
    /// Whether the scheduler is told; if not, tasks are only judged by it.
    pub told: bool,
}

/// All tasks of a run: what will come, and what waits for what.
#[derive(Clone, Debug, Default)]
pub(super) struct Drawn {
    /// What the tasks of each load are like.
    pub(super) sorts: Vec<TaskSpec>,
    /// In the order in which they come; the number of a task is its place and 1.
    pub(super) tasks: Vec<Planned>,
    /// Places of the tasks that each waits for.
    pub(super) parents: Links,
    /// Places of the tasks that wait for each.
    pub(super) dependents: Links,
}

/// A task that will come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) at: Micros,
    pub(super) load: usize,
    pub(super) run: Micros,
    pub(super) due: Option<Micros>,
    /// Whether the scheduler is told by when it is due.
    pub(super) told: bool,
}

/// Places that belong to each place, in one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    /// Where those of each place end.
    ends: Vec<u32>,
    places: Vec<u32>,
}

impl Links {
    /// Adds those of the next place.
    fn push(&mut self, places: impl IntoIterator<Item = usize>) {
        self.places.extend(places.into_iter().map(|place| place as u32));
        self.ends.push(self.places.len() as u32);
    }

    /// Those of a place.
    pub(super) fn of(&self, place: usize) -> impl ExactSizeIterator<Item = usize> {
        let from = if place == 0 { 0 } else { self.ends[place - 1] };
        self.places[from as usize..self.ends[place] as usize].iter().map(|place| *place as usize)
    }

    /// The same the other way round.
    fn turned(&self) -> Self {
        let mut ends = vec![0_u32; self.ends.len()];
        self.places.iter().for_each(|place| ends[*place as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // Where those of a place begin, for now: each that is put there moves it on to where they end.
            sum += std::mem::replace(end, sum);
        }
        let mut places = vec![0_u32; self.places.len()];
        for from in 0..self.ends.len() {
            for to in self.of(from) {
                places[ends[to] as usize] = from as u32;
                ends[to] += 1;
            }
        }
        Self { ends, places }
    }
}

impl Drawn {
    fn new(sorts: Vec<TaskSpec>, tasks: Vec<Planned>, parents: Links) -> Self {
        Self { dependents: parents.turned(), sorts, tasks, parents }
    }

    /// What a task is like, but for its number, deadline and dependencies.
    pub(super) fn sort(&self, place: usize) -> &TaskSpec {
        &self.sorts[self.tasks[place].load]
    }

    /// The deadline of a task, if it has one that the scheduler is told.
    pub(super) fn deadline(&self, place: usize) -> Option<Micros> {
        let task = &self.tasks[place];
        task.due.filter(|_| task.told)
    }

    /// What the scheduler is told of a task.
    pub(super) fn spec(&self, place: usize) -> Arc<TaskSpec> {
        let mut spec = self.sort(place).clone();
        spec.id = id_of(place);
        spec.deadline =
            self.deadline(place).map(|due| START + Duration::from_micros(due)).or(spec.deadline);
        let parents = self.parents.of(place);
        spec.after.extend(parents.map(|place| Dependency { task: id_of(place), optional: false }));
        Arc::new(spec)
    }
}

impl Arrivals {
    pub(super) fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Evenly { per_second, .. } | Self::Poisson { per_second, .. }
                if !(per_second.is_finite() && per_second > 0.0) =>
            {
                bad("load.arrivals.per_second", per_second, "it must be above 0")
            }
            Self::Bursts { size: 0, .. } => {
                bad("load.arrivals.size", 0, "a burst must have at least 1 task")
            }
            _ => Ok(()),
        }
    }

    /// When the tasks of a load come, by rising time.
    fn draw(&self, tasks: usize, random: &mut fastrand::Rng) -> Vec<Micros> {
        let mut clock = 0.0;
        let one = |number: usize| match *self {
            Self::Together { at } => micros(at),
            Self::Evenly { from, per_second } => {
                micros(from) + (number as f64 * 1e6 / per_second) as Micros
            }
            Self::Poisson { from, per_second } => {
                clock += exponential(random) * 1e6 / per_second;
                micros(from) + clock as Micros
            }
            Self::Bursts { from, every, size } => {
                micros(from) + micros(every) * (number / size) as Micros
            }
        };
        (0..tasks).map(one).collect()
    }
}

impl RunTime {
    /// The mean.
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Fixed(time) | Self::Exponential(time) => time,
            Self::Between(least, most) => (least + most) / 2,
            Self::Mixed { short, long, share } => short.mul_f64(1.0 - share) + long.mul_f64(share),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match *self {
            Self::Between(least, most) if least > most => {
                bad("load.run_time", "the wrong way round", "give the shorter time first")
            }
            Self::Mixed { share, .. } if !(0.0..=1.0).contains(&share) => {
                bad("load.run_time.share", share, "it must be from 0 to 1")
            }
            _ => Ok(()),
        }
    }

    fn draw(&self, random: &mut fastrand::Rng) -> Micros {
        let time = match *self {
            Self::Fixed(time) => micros(time),
            Self::Between(least, most) => random.u64(micros(least)..=micros(most)),
            Self::Exponential(mean) => (exponential(random) * micros(mean) as f64) as Micros,
            Self::Mixed { short, long, share } => {
                micros(if random.f64() < share { long } else { short })
            }
        };
        time.max(1)
    }
}

impl Due {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.least > self.most {
            return bad("load.due", "the wrong way round", "give the shorter time first");
        }
        Ok(())
    }
}

/// All tasks of a cluster.
pub(super) fn plan(cluster: &Cluster) -> Result<Arc<Drawn>, Error> {
    if let Some(given) = &cluster.given {
        return Ok(Arc::clone(given.drawn.get_or_init(|| Arc::new(of_given(given)))));
    }
    let mut seeds = fastrand::Rng::with_seed(cluster.seed);
    // When, from which load, which of its tasks.
    let mut order: Vec<(Micros, usize, usize)> = Vec::new();
    let mut sources = Vec::new();
    for (load, Load { tasks, arrivals, .. }) in cluster.loads.iter().enumerate() {
        let mut source = || fastrand::Rng::with_seed(seeds.u64(..));
        let (mut arriving, running, due) = (source(), source(), source());
        let times = arrivals.draw(*tasks, &mut arriving);
        order.extend(times.into_iter().enumerate().map(|(number, at)| (at, load, number)));
        sources.push((running, due));
    }
    order.sort_unstable();
    let mut places: Vec<Vec<usize>> =
        cluster.loads.iter().map(|load| Vec::with_capacity(load.tasks)).collect();
    let (mut planned, mut links) = (Vec::with_capacity(order.len()), Links::default());
    for (place, (at, load, number)) in order.into_iter().enumerate() {
        let plan = &cluster.loads[load];
        links.push(parents_of(plan, number, &places, &cluster.loads)?);
        places[load].push(place);
        let (running, due) = &mut sources[load];
        let due_at =
            plan.due.map(|due_in| at + due.u64(micros(due_in.least)..=micros(due_in.most)));
        let told = plan.due.is_some_and(|due| due.told);
        let run = plan.run_time.draw(running);
        planned.push(Planned { at, load, run, due: due_at, told });
    }
    let sorts = cluster.loads.iter().map(|load| load.task.clone()).collect();
    Ok(Arc::new(Drawn::new(sorts, planned, links)))
}

/// Tasks that were drawn elsewhere.
fn of_given(given: &Given) -> Drawn {
    let (mut planned, mut links) = (Vec::with_capacity(given.tasks.len()), Links::default());
    for task in &given.tasks {
        let (at, due, run) = (micros(task.at), task.due.map(micros), micros(task.run).max(1));
        planned.push(Planned { at, load: task.sort, run, due, told: given.told });
        links.push(task.parents.iter().copied());
    }
    Drawn::new(given.sorts.clone(), planned, links)
}

fn parents_of(
    load: &Load,
    number: usize,
    places: &[Vec<usize>],
    loads: &[Load],
) -> Result<Vec<usize>, Error> {
    let mut parents = Vec::new();
    for edges in &load.after {
        let (earlier, wanted) = match *edges {
            Edges::One { load } => (load, Some(number % loads[load].tasks)),
            Edges::All { load } => (load, None),
        };
        let came = &places[earlier];
        match wanted {
            Some(wanted) if wanted < came.len() => parents.push(came[wanted]),
            None if came.len() == loads[earlier].tasks => parents.extend(came),
            _ => {
                let cure = "let the tasks that are waited for come before or with those that wait";
                return bad("load.after", earlier, cure);
            }
        }
    }
    Ok(parents)
}

fn id_of(place: usize) -> TaskId {
    TaskId(place as u128 + 1)
}

/// A draw with mean 1.
pub(super) fn exponential(random: &mut fastrand::Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_whom_is_found_from_both_sides() {
        let mut parents = Links::default();
        for list in [vec![], vec![0], vec![0, 1], vec![], vec![1, 3, 0]] {
            parents.push(list);
        }
        let all = |links: &Links| -> Vec<Vec<usize>> {
            (0..5).map(|place| links.of(place).collect()).collect()
        };
        assert_eq!(all(&parents.turned()), [vec![1, 2, 4], vec![2, 4], vec![], vec![4], vec![]]);
        assert_eq!(all(&parents.turned().turned())[4], [0, 1, 3]);
    }
}
