//! The admission test: will a task be done by its deadline, as things stand?
//!
//! The work that must start before it is divided by the slots of the workers that could run it. Known are the tasks that
//! wait, those that run, and those that come in the same batch. Not known are tasks still to come, retries and ageing,
//! so the answer is an estimate. A task whose start nobody can tell, because it waits for others or because no worker
//! could run it, is late only if it would be when it started at once.
//!
//! The cost does not grow with the backlog: of long streams some tasks stand for all.

use std::collections::BTreeMap;

use divvy_types::{Name, TaskSpec, Timestamp};

use crate::Scheduler;
use crate::bits::Bits;
use crate::streams::{NONE, Stream, StreamKey};
use crate::table::band_of;
use crate::workflows::called_back_by;

/// Waiting tasks that are looked at to know who goes before one, as long as there are few streams.
const LOOK_MAX: usize = 16_384;
/// The same of one stream.
const STREAM_LOOK_MAX: usize = 512;
/// At least so many of each stream, however many there are.
const STREAM_LOOK_MIN: usize = 4;

/// A task that is about to be taken in.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer<'a> {
    /// The task.
    pub spec: &'a TaskSpec,
    /// Whether it waits for a task that has not settled.
    pub blocked: bool,
}

/// Tasks and how long they run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) tasks: u64,
    /// The run time of those of which it is known, together.
    known_us: u64,
    /// How many it is not known of.
    unknown: u64,
}

impl Work {
    pub(crate) fn of(tasks: u64, run_us: Option<u64>) -> Self {
        match run_us {
            Some(run_us) => Self { tasks, known_us: tasks.saturating_mul(run_us), unknown: 0 },
            None => Self { tasks, known_us: 0, unknown: tasks },
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            tasks: self.tasks.saturating_add(other.tasks),
            known_us: self.known_us.saturating_add(other.known_us),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }
}

/// The workers that could run a task, together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crew {
    slots: u64,
    free: u64,
    /// Tasks that run.
    running: u64,
    /// Tasks that wait at a worker for a slot.
    waiting: u64,
}

impl Crew {
    /// When a task starts that has so much work before it and runs for so long, where that can be known.
    pub(crate) fn start(
        &self,
        now: Timestamp,
        ahead: Work,
        run_us: Option<u64>,
    ) -> Option<Timestamp> {
        if self.slots == 0 {
            return None;
        }
        if ahead.tasks < self.free {
            return Some(now);
        }
        // Whoever runs is half done, as far as one knows; what is not known takes as long as the task itself.
        let unknown = (ahead.unknown + self.waiting) as f64 + self.running as f64 / 2.0;
        let work_us = ahead.known_us as f64 + unknown * run_us? as f64;
        Some(after_us(now, (work_us / self.slots as f64) as u64))
    }
}

/// Whoever a task of one priority finds before it: tasks that the same workers could run.
struct Line {
    crew: Crew,
    /// Tasks of higher priority.
    above: Work,
    /// Tasks of the same priority, in the order of their turns.
    due: Vec<Due>,
}

struct Due {
    /// When it must start, and its place in the batch; 0 if it waits already.
    turn: (Timestamp, usize),
    /// This one and all before it.
    work: Work,
}

impl Line {
    fn new(crew: Crew, above: Work, mut due: Vec<Due>) -> Self {
        due.sort_unstable_by_key(|due| due.turn);
        let mut sum = Work::default();
        for due in &mut due {
            sum = sum.plus(due.work);
            due.work = sum;
        }
        Self { crew, above, due }
    }

    fn before(&self, turn: (Timestamp, usize)) -> Work {
        let count = self.due.partition_point(|due| due.turn < turn);
        count.checked_sub(1).map_or(self.above, |last| self.above.plus(self.due[last].work))
    }
}

/// A batch, sorted by who could run its tasks.
struct Company<'a> {
    /// Sets of groups of workers, each once.
    groups: Vec<Bits>,
    /// Per task that can run at once: which set, and its band.
    seats: Vec<Option<(usize, usize)>>,
    ready: BTreeMap<(usize, usize), Vec<usize>>,
    new: &'a [Newcomer<'a>],
}

impl Scheduler {
    /// Which of these tasks are expected to miss their deadlines if they are taken in now, all together: their places
    /// in the list, and when they are expected to be done.
    pub fn expected_late_among(
        &self,
        now: Timestamp,
        new: &[Newcomer<'_>],
    ) -> Vec<(usize, Timestamp)> {
        if new.iter().all(|newcomer| newcomer.spec.deadline.is_none()) {
            return Vec::new();
        }
        let company = self.company(now, new);
        let mut lines: BTreeMap<(usize, usize), Line> = BTreeMap::new();
        let mut late = Vec::new();
        for (place, Newcomer { spec, .. }) in new.iter().enumerate() {
            let Some(deadline) = spec.deadline else { continue };
            let run_us = self.estimate_us(spec);
            let start = company.seats[place].and_then(|seat| {
                let line = lines.entry(seat).or_insert_with(|| self.line(now, seat, &company));
                let latest = self.latest_start(spec, deadline);
                let ahead = line.before((latest, place + 1)).plus(self.kept_before(spec, latest));
                let start = line.crew.start(now, ahead, run_us)?;
                Some(self.limits.until(&spec.limits, now).map_or(start, |until| until.max(start)))
            });
            let earliest = spec.run_at.map_or(now, |due| due.max(now));
            let end = after_us(start.unwrap_or(earliest), run_us.unwrap_or(0));
            if end > deadline {
                late.push((place, end));
            }
        }
        late
    }

    fn company<'a>(&self, now: Timestamp, new: &'a [Newcomer<'a>]) -> Company<'a> {
        type Sort<'a> = (&'a Name, &'a Name, &'a [Name], Option<&'static str>);
        let mut sorts: BTreeMap<Sort<'a>, usize> = BTreeMap::new();
        let mut sets: BTreeMap<Bits, usize> = BTreeMap::new();
        let (mut seats, mut ready) = (Vec::with_capacity(new.len()), BTreeMap::new());
        for (place, newcomer) in new.iter().enumerate() {
            let spec = newcomer.spec;
            let waits = newcomer.blocked
                || spec.run_at.is_some_and(|due| due > now)
                || self.open_group(spec).is_some()
                || called_back_by(spec, None).is_some();
            if waits {
                seats.push(None);
                continue;
            }
            let matching = spec.matching.map(|matching| matching.as_str());
            let sort = (&spec.queue, &spec.kind, spec.needs.as_slice(), matching);
            let set = *sorts.entry(sort).or_insert_with(|| {
                let count = sets.len();
                *sets.entry(self.groups_for(spec)).or_insert(count)
            });
            let seat = (set, band_of(spec.priority));
            seats.push(Some(seat));
            ready.entry(seat).or_insert_with(Vec::new).push(place);
        }
        let mut groups = vec![Bits::default(); sets.len()];
        for (set, index) in sets {
            groups[index] = set;
        }
        Company { groups, seats, ready, new }
    }

    /// Whoever a new task finds before it.
    fn line(&self, now: Timestamp, seat: (usize, usize), company: &Company<'_>) -> Line {
        let (groups, band) = (&company.groups[seat.0], seat.1);
        let patience = self.patience_us();
        let rivals: Vec<&Stream> = self.rivals(groups).map(|(_, stream)| stream).collect();
        let look = (LOOK_MAX / rivals.len().max(1)).clamp(STREAM_LOOK_MIN, STREAM_LOOK_MAX);
        let mut above = Work::default();
        let mut due = Vec::new();
        for stream in rivals {
            let run_us = self.run_us_of(stream.id.class);
            if usize::from(stream.id.band) > band {
                above = above.plus(self.all_of(stream));
            } else if usize::from(stream.id.band) == band {
                let some = stream.sample(&self.tasks, look, patience);
                due.extend(some.map(|(latest, count)| Due {
                    turn: (latest, 0),
                    work: Work::of(count, run_us),
                }));
            }
        }
        for ((set, other), places) in &company.ready {
            if *other < band || !company.groups[*set].intersects(groups) {
                continue;
            }
            for place in places {
                let spec = company.new[*place].spec;
                let work = Work::of(1, self.estimate_us(spec));
                if *other > band {
                    above = above.plus(work);
                    continue;
                }
                let latest = spec.deadline.map(|deadline| self.latest_start(spec, deadline));
                let latest = latest.unwrap_or_else(|| after_us(now, patience));
                due.push(Due { turn: (latest, place + 1), work });
            }
        }
        Line::new(self.crew(groups), above, due)
    }

    /// Streams that compete for the workers of these groups.
    pub(crate) fn rivals<'a>(
        &'a self,
        groups: &'a Bits,
    ) -> impl Iterator<Item = (u32, &'a Stream)> + 'a {
        self.streams.iter().filter(move |(_, stream)| {
            let class = self.classes.get(stream.id.class);
            stream.listed.is_some()
                && class.groups.intersects(groups)
                && !self.queues.get(class.queue).paused
        })
    }

    /// All workers of these groups that take tasks.
    pub(crate) fn crew(&self, groups: &Bits) -> Crew {
        let mut crew = Crew::default();
        let able = groups.iter().flat_map(|group| self.workers.group(group).active.iter());
        for worker in able.map(|index| self.workers.get(*index)) {
            let (slots, leased) = (u64::from(worker.slots.max(1)), u64::from(worker.leased));
            crew.slots += slots;
            crew.free += slots.saturating_sub(leased);
            crew.running += leased.min(slots);
            crew.waiting += leased.saturating_sub(slots);
        }
        crew
    }

    /// Everything in a stream, here and in the store.
    pub(crate) fn all_of(&self, stream: &Stream) -> Work {
        let stored = match stream.spilled {
            true => self.spills.get(&stream.lane).map_or(0, |spill| spill.count),
            false => 0,
        };
        Work::of(stream.live as u64 + stored, self.run_us_of(stream.id.class))
    }

    /// What of a stream must start before this moment.
    pub(crate) fn due_before(&self, stream: &Stream, latest: Timestamp) -> Work {
        let some = stream.sample(&self.tasks, STREAM_LOOK_MAX, self.patience_us());
        let before = some.filter(|(other, _)| *other < latest).map(|(_, count)| count).sum();
        Work::of(before, self.run_us_of(stream.id.class))
    }

    /// What stands before a new task in its own stream while a limit keeps that, so that it is nobody's rival.
    fn kept_before(&self, spec: &TaskSpec, latest: Timestamp) -> Work {
        let kept = self.stream_with_limits(spec).filter(|stream| stream.waits_on != NONE);
        kept.map_or_else(Work::default, |stream| self.due_before(stream, latest))
    }

    fn stream_with_limits(&self, spec: &TaskSpec) -> Option<&Stream> {
        if spec.limits.is_empty() {
            return None;
        }
        let class = self.classes.peek(spec)?;
        let key = self.shares.find(self.classes.get(class).queue, spec.fair_key.as_ref())?;
        let limits = self.limits.find(&spec.limits)?;
        let band = band_of(spec.priority) as u8;
        let index = self.streams.find(&StreamKey { class, band, key, limits })?;
        Some(self.streams.get(index))
    }
}

/// So many microseconds later.
pub(crate) fn after_us(at: Timestamp, us: u64) -> Timestamp {
    Timestamp(at.0.saturating_add(us))
}
