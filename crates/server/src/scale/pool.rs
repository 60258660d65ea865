//! One pool: its scaler, what its driver said, and what is judged from both. Pure: time and samples are arguments.
//!
//! **Differing.** What is wanted and who is connected may differ while workers start and end. When they differ for
//! longer than the longest boot and [`GRACE`], the driver fails or lies, and an alert says so.
//!
//! **At rest.** A pool rests when nothing runs, waits, is held or came, and it has exactly what it wants and cannot want less.
//! Then nobody looks at the engine for it until a task becomes ready, a worker comes or goes, or someone asks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use divvy_autoscale::{Decision, Memory, Sample, Scaler, Wanted};
use divvy_scheduler::{Waits, wait_bucket_end_us};
use divvy_types::pools::{Driver, Policy, Pool};
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use super::driver::{Answer, Order};
use super::leaving::{self, Leaving};
use super::loads::Used;
use super::sampling::{Member, Offers, Seen};

/// What a worker may be late beyond its boot time before that is told.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
/// How often a driver is told again while what is there is not what is wanted.
const AGAIN: Duration = Duration::from_secs(10);
/// The time that one sample covers which is kept.
const KEPT_EVERY: Duration = Duration::from_secs(5);
/// Over how long it is counted how long tasks waited to start.
const WAITS_OVER: Duration = Duration::from_secs(60);
/// Samples that are kept: two hours of work.
const SAMPLES_MAX: usize = 1_440;

/// One pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    pub(crate) scaler: Scaler,
    pub(crate) kept: VecDeque<Sample>,
    pub(crate) offers: Offers,
    /// What it saw last.
    pub(crate) sample: Sample,
    pub(crate) members: Vec<Member>,
    pub(crate) leaving: Leaving,
    held: u64,
    /// How long tasks of its queues had waited at the looks of the last minute, oldest first.
    waits: VecDeque<(Timestamp, Waits)>,
    /// Kinds that other pools can run too: the part that counts here, and the others.
    shared: BTreeMap<Name, (f64, Vec<Name>)>,
    /// The last decision of which watchers were told; one by hand falls between two looks.
    pub(crate) told_people: Decision,
    /// What had arrived and ended of each kind when it looked last, since the start of the server.
    totals: Option<BTreeMap<Name, (u64, u64)>>,
    /// What the driver was told last, and when.
    told: Option<(Wanted, Timestamp)>,
    /// Whether it has not answered yet.
    pub(crate) asked: bool,
    /// What it answered last.
    pub(crate) answer: Option<Answer>,
    pub(crate) differs_since: Option<Timestamp>,
}

/// What is kept of a pool over a restart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    memory: Memory,
    samples: VecDeque<Sample>,
    offers: Offers,
}

impl Pooled {
    /// A pool with what is known of it from before.
    pub(crate) fn new(settings: Pool, kept: Kept) -> Self {
        let Kept { memory, samples, offers } = kept;
        let scaler = Scaler::resume(settings, memory);
        Self {
            told_people: scaler.last().clone(),
            scaler,
            kept: samples,
            offers,
            sample: Sample::default(),
            members: Vec::new(),
            leaving: Leaving::default(),
            held: 0,
            waits: VecDeque::new(),
            shared: BTreeMap::new(),
            totals: None,
            told: None,
            asked: false,
            answer: None,
            differs_since: None,
        }
    }

    /// Takes other settings, if these are others.
    pub(crate) fn reload(&mut self, settings: Pool) {
        let before = self.scaler.pool();
        if *before != settings {
            if (&before.kinds, &before.queues, &before.capabilities)
                != (&settings.kinds, &settings.queues, &settings.capabilities)
            {
                // What it can run from now on has not arrived just now.
                self.totals = None;
            }
            self.scaler.reload(settings);
            (self.told, self.answer) = (None, None);
        }
    }

    /// What is to be kept.
    pub(crate) fn to_keep(&self) -> Kept {
        Kept {
            memory: self.scaler.memory().clone(),
            samples: self.kept.clone(),
            offers: self.offers.clone(),
        }
    }

    /// Takes what was seen and decides. `rested` says that nobody looked for a while because nothing came: then what came
    /// since came just now.
    pub(crate) fn take(&mut self, seen: Seen, used: Used, rested: bool, every: Duration) {
        let Seen { mut sample, members, offers, held, waits, shared } = seen;
        (sample.cpu, sample.memory) = (used.cpu, used.memory);
        sample.p95_sec = self.p95_start(sample.at, waits);
        let totals: BTreeMap<Name, (u64, u64)> = sample
            .kinds
            .iter()
            .map(|(kind, load)| (kind.clone(), (load.arrived, load.ended)))
            .collect();
        // What its workers could not run before has not arrived just now either.
        let before = self.totals.replace(totals).filter(|_| self.offers.include(&offers));
        for (kind, load) in &mut sample.kinds {
            // Totals are of the part that counts here: where that has become another one, they cannot be compared.
            let is_same_part = self.shared.get(kind) == shared.get(kind);
            let (arrived, ended) = match before.as_ref().map(|before| before.get(kind)) {
                Some(Some(known)) if is_same_part => *known,
                Some(None) => (0, 0),
                // What came before the first look has been seen to wait or run, and not to arrive.
                _ => (load.arrived, load.ended),
            };
            load.arrived = load.arrived.saturating_sub(arrived);
            load.ended = load.ended.saturating_sub(ended);
        }
        self.leaving.count(&members, &mut sample.fleet);
        self.count_starting(&members, &mut sample);
        if rested {
            let at = Timestamp(sample.at.0.saturating_sub(every.as_micros() as u64));
            let nothing = Sample { at, fleet: sample.fleet.clone(), ..Sample::default() };
            self.scaler.decide(&nothing);
        }
        self.scaler.decide(&sample);
        self.keep(&sample);
        let differs = self.is_driven() && self.connected(&sample) != self.wanted();
        self.differs_since = differs.then(|| self.differs_since.unwrap_or(sample.at));
        self.sample = sample;
        (self.members, self.offers, self.held, self.shared) = (members, offers, held, shared);
    }

    /// What 95 % of the waits of the last minute stayed below, in seconds; nothing if nothing started.
    fn p95_start(&mut self, now: Timestamp, waits: Waits) -> Option<f64> {
        self.waits.push_back((now, waits));
        while self.waits.get(1).is_some_and(|(at, _)| now.since(*at) >= WAITS_OVER) {
            self.waits.pop_front();
        }
        let ((_, before), (_, after)) = (self.waits.front()?, self.waits.back()?);
        let counts =
            after.0.iter().zip(before.0).map(|(after, before)| after.saturating_sub(before));
        let all: u64 = counts.clone().sum();
        let mut left = (all as f64 * 0.95).ceil() as u64;
        for (bucket, count) in counts.enumerate().filter(|(_, count)| *count > 0) {
            if left <= count {
                return Some(wait_bucket_end_us(bucket) as f64 / 1e6);
            }
            left -= count;
        }
        None
    }

    /// What else is to be known of how it counts, in words.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |(kind, (share, others)): (&Name, &(f64, Vec<Name>))| {
            let (share, others) = (share * 100.0, others.join(", "));
            format!(
                "{share:.0} % of the tasks of kind {kind} count here, because {others} can run them too"
            )
        };
        self.shared.iter().map(note).collect()
    }

    /// What is there by the word of the driver, was asked for, and has not connected.
    fn count_starting(&self, members: &[Member], sample: &mut Sample) {
        let (Some(Ok(there)), Some((told, _))) = (&self.answer, &self.told) else { return };
        let of = |counts: &Wanted, name: &Name| counts.get(name).copied().unwrap_or_default();
        for (name, fleet) in &mut sample.fleet {
            let there = of(there, name).min(of(told, name));
            let busy = self.leaving.busy(members, name);
            fleet.starting = there.saturating_sub(fleet.running.saturating_add(busy));
        }
    }

    /// Who shall rest (`true`) and who shall go on. Processes beside the server and the machines of a program are let go
    /// by name; which pod goes is the choice of its cluster, so none rests for that.
    pub(crate) fn rests(&mut self) -> Vec<(Name, bool)> {
        let by_name = matches!(self.scaler.pool().driver, Driver::Local | Driver::Exec { .. });
        let wanted = self.wanted();
        if by_name { self.leaving.choose(&self.members, &wanted) } else { Vec::new() }
    }

    /// What the driver is told: what is wanted, and those that leave and still hold something.
    fn to_tell(&self) -> Wanted {
        let mut wanted = self.wanted();
        for (name, count) in &mut wanted {
            *count += self.leaving.busy(&self.members, name);
        }
        wanted
    }

    /// Whether the fleet goes up and down again and again, in words. Local processes start at once and cost nothing, so
    /// they may.
    pub(crate) fn flapping(&self) -> Option<String> {
        let is_free = self.scaler.pool().driver == Driver::Local;
        self.scaler.flapping().filter(|_| !is_free).map(|flapping| flapping.words)
    }

    /// Workers by type, each type that there is named.
    pub(crate) fn wanted(&self) -> Wanted {
        let types = self.scaler.pool().worker_types();
        let wanted = &self.scaler.last().wanted;
        types
            .into_iter()
            .map(|one| (one.name.clone(), wanted.get(&one.name).copied().unwrap_or_default()))
            .collect()
    }

    fn connected(&self, sample: &Sample) -> Wanted {
        let of = |name: &Name| sample.fleet.get(name).map_or(0, |fleet| fleet.running);
        let types = self.scaler.pool().worker_types();
        types.into_iter().map(|one| (one.name.clone(), of(&one.name))).collect()
    }

    /// Whether somebody acts on what is wanted whom we can know.
    fn is_driven(&self) -> bool {
        self.scaler.pool().driver != Driver::Print
    }

    /// What the driver is to be told now, if anything.
    pub(crate) fn order(&mut self, pool: &Name) -> Option<Order> {
        if self.asked {
            return None;
        }
        let (wanted, now) = (self.to_tell(), self.sample.at);
        let is_free = self.scaler.pool().driver == Driver::Local;
        let is_settled = self.differs_since.is_none()
            && matches!(&self.answer, Some(Ok(there)) if !self.is_driven() || same(there, &wanted));
        let due = match &self.told {
            None => true,
            Some((told, _)) if *told != wanted => true,
            Some(_) if is_settled => false,
            Some((_, at)) => is_free || now.since(*at) >= AGAIN,
        };
        if !due {
            return None;
        }
        self.told = Some((wanted.clone(), now));
        self.asked = true;
        Some(Order {
            pool: pool.clone(),
            settings: self.scaler.pool().clone(),
            connected: self.connected(&self.sample),
            wanted,
            leave_first: self.leave_first(),
            reason: self.scaler.last().reason.clone(),
        })
    }

    /// Who should go first, of each type: who rests for that already, then who has least to lose.
    fn leave_first(&self) -> BTreeMap<Name, Vec<Name>> {
        let mut members: Vec<&Member> = self.members.iter().filter(|one| !one.draining).collect();
        members.sort_by_key(|one| (!self.leaving.has(&one.name), leaving::order(one)));
        let mut first: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
        for one in members {
            first.entry(one.worker_type.clone()).or_default().push(one.name.clone());
        }
        first
    }

    /// Who leaves by what is wanted, and what goes with them, in words; nothing if nobody does.
    pub(crate) fn leaving(&self) -> Option<String> {
        let mut gone = Vec::new();
        let wanted = self.wanted();
        for (name, first) in self.leave_first() {
            let stay = wanted.get(&name).copied().unwrap_or_default() as usize;
            gone.extend(first.into_iter().take(self.of_type(&name).saturating_sub(stay)));
        }
        let keys: u32 =
            self.members.iter().filter(|one| gone.contains(&one.name)).map(|one| one.keys).sum();
        let names = gone.join(", ");
        match (gone.is_empty(), keys) {
            (true, _) => None,
            (false, 0) => Some(format!("{names} can go; no affinity key is theirs")),
            (false, 1) => {
                Some(format!("{names} can go; tasks with 1 affinity key lose their worker"))
            }
            (false, keys) => {
                Some(format!("{names} can go; tasks with {keys} affinity keys lose their worker"))
            }
        }
    }

    fn of_type(&self, name: &Name) -> usize {
        self.members.iter().filter(|one| !one.draining && one.worker_type == *name).count()
    }

    /// Takes what the driver answered.
    pub(crate) fn answered(&mut self, answer: Answer) {
        self.asked = false;
        self.answer = Some(answer);
    }

    /// Whether nothing is to be looked at until something happens.
    pub(crate) fn is_at_rest(&self) -> bool {
        let pool = self.scaler.pool();
        let quiet =
            self.sample.kinds.values().all(|load| load.waiting + load.running + load.arrived == 0);
        let still = self.sample.fleet.values().all(|fleet| fleet.starting + fleet.draining == 0);
        let least = self.scaler.last().total() <= pool.min
            || pool.policy == Policy::Fixed
            || self.scaler.is_paused()
            || self.scaler.is_set().is_some();
        let agreed = !self.is_driven()
            || (self.differs_since.is_none() && matches!(&self.answer, Some(Ok(_))) && !self.asked);
        quiet && still && least && agreed && self.held == 0
    }

    /// What is wrong with the driver, and what helps.
    pub(crate) fn trouble(&self, name: &Name, now: Timestamp) -> Option<(String, String)> {
        if let Some(Err(problem)) = &self.answer {
            let cure = "see to its driver; it is told again every 10 seconds".to_owned();
            return Some((format!("pool `{name}` cannot be scaled: {problem}"), cure));
        }
        let since = self.differs_since?;
        let boots = self.scaler.pool().worker_types().into_iter().map(|one| one.boot_sec);
        let patience =
            GRACE + Duration::from_secs_f64(boots.fold(0.0, f64::max).clamp(0.0, 86_400.0));
        let late = now.since(since);
        if late <= patience {
            return None;
        }
        let (wanted, there) = (self.wanted(), self.connected(&self.sample));
        let said = match &self.answer {
            Some(Ok(said)) => format!(", its driver says {}", spoken(said)),
            _ => String::new(),
        };
        let text = format!(
            "pool `{name}` wants {}{said}, and {} connected, for {} s",
            spoken(&wanted),
            spoken(&there),
            late.as_secs()
        );
        let cure = format!(
            "see why workers with the capability pool={name} do not come or go: divvy scale explain {name}"
        );
        Some((text, cure))
    }

    fn keep(&mut self, sample: &Sample) {
        let covers = |last: &Sample, before: Option<&Sample>| {
            before.is_none_or(|before| last.at.since(before.at) >= KEPT_EVERY)
        };
        let before = self.kept.len().checked_sub(2).and_then(|place| self.kept.get(place));
        let whole = self.kept.back().is_none_or(|last| covers(last, before));
        if whole {
            if self.kept.len() >= SAMPLES_MAX {
                self.kept.pop_front();
            }
            self.kept.push_back(sample.clone());
            return;
        }
        // The last one is made to cover more: what came adds up, and of what was, the fuller moment stays.
        let Some(last) = self.kept.back_mut() else { return };
        let (mut fuller, other) = if waiting(sample) >= waiting(last) {
            (sample.clone(), &*last)
        } else {
            (last.clone(), sample)
        };
        for (kind, load) in &other.kinds {
            let sum = fuller.kinds.entry(kind.clone()).or_default();
            sum.arrived += load.arrived;
            sum.ended += load.ended;
        }
        fuller.at = sample.at;
        *last = fuller;
    }
}

fn waiting(sample: &Sample) -> u64 {
    sample.kinds.values().map(|load| load.waiting).sum()
}

/// Whether two counts agree; a type that is not named has no workers.
fn same(one: &Wanted, other: &Wanted) -> bool {
    let of = |counts: &Wanted, name: &Name| counts.get(name).copied().unwrap_or_default();
    one.keys().chain(other.keys()).all(|name| of(one, name) == of(other, name))
}

/// Workers by type, in words.
pub(crate) fn spoken(counts: &Wanted) -> String {
    match counts.len() {
        0 => "0".to_owned(),
        1 => counts.values().sum::<u32>().to_string(),
        _ => {
            let each: Vec<String> =
                counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            each.join(" + ")
        }
    }
}
