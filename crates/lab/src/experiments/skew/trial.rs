//! Decides how long a reduce takes whose keys are skewed, for each way to treat hot keys. The hash, the sketch and the rule
//! that divides partitions are those of `divvy flow`; only time is a count: one record, one unit.

use std::collections::BTreeMap;

use divvy_kernels::aggregate::divide::{Rule, divide, fair, totals};
use divvy_kernels::aggregate::hash::partition;
use divvy_kernels::aggregate::{Hot, Table};

/// Parts that map, partitions, and workers that reduce.
pub(super) const PARTS: usize = 32;
pub(super) const PARTITIONS: u32 = 16;
pub(super) const WORKERS: usize = 16;
/// Different keys.
pub(super) const KEYS: usize = 50_000;
/// The rule of `divvy flow`, without its least size.
const RULE: Rule = Rule { times: 2.0, bytes: 0 };

/// What is done about hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Nothing: every record goes to the reducer of its key.
    Plain,
    /// Partitions with a hot key are divided over several reducers.
    Divided,
    /// Records with the same key become one where they are mapped.
    Combined,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Divided, Self::Combined];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "nothing is done",
            Self::Divided => "hot partitions divided",
            Self::Combined => "combined where mapped",
        }
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// The exponent of the keys' frequencies.
    pub(super) exponent: f64,
    pub(super) way: Way,
    /// Records that travel.
    pub(super) travel: u64,
    /// The largest reducer per fair share of a partition.
    pub(super) largest: f64,
    /// Time of reduce and merge, per what all workers together would need for the reduce.
    pub(super) time: f64,
    /// Reducers.
    pub(super) reducers: usize,
    /// The share of the most frequent key.
    pub(super) hottest: f64,
    /// Keys that have at least half of a partition's fair share, and how many of them every part's sketch named.
    pub(super) hot: usize,
    pub(super) named: usize,
}

/// Keys of every part, by how often each occurs.
pub(super) struct Mapped {
    exponent: f64,
    parts: Vec<BTreeMap<usize, u64>>,
}

impl Mapped {
    /// Draws keys: the k-th is as frequent as 1 / k^exponent.
    pub(super) fn draw(exponent: f64, records: u64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sums = Vec::with_capacity(KEYS);
        let mut sum = 0.0;
        for key in 1..=KEYS {
            sum += (key as f64).powf(-exponent);
            sums.push(sum);
        }
        let mut parts = vec![BTreeMap::new(); PARTS];
        for part in &mut parts {
            for _ in 0..records {
                let drawn = random.f64() * sum;
                let key = sums.partition_point(|sum| *sum < drawn).min(KEYS - 1);
                *part.entry(key).or_default() += 1;
            }
        }
        Self { exponent, parts }
    }

    /// Reduces them this way.
    pub(super) fn play(&self, way: Way) -> Trial {
        let count = |records: u64| if way == Way::Combined { 1 } else { records };
        let mut sizes = vec![vec![0; PARTITIONS as usize]; PARTS];
        for (part, sizes) in self.parts.iter().zip(&mut sizes) {
            for (key, records) in part {
                sizes[partition(&name(*key), PARTITIONS) as usize] += count(*records);
            }
        }
        let rule = (way == Way::Divided).then_some(RULE);
        let shares = divide(&sizes, PARTITIONS, rule);
        let all = totals(&sizes, PARTITIONS);
        let travel: u64 = all.iter().sum();
        let reduce = makespan(shares.iter().map(|share| share.bytes));
        let mut found: BTreeMap<u32, u64> = BTreeMap::new();
        for share in shares.iter().filter(|share| share.divided) {
            let some = &self.parts[share.from as usize..share.to as usize];
            *found.entry(share.partition).or_default() += distinct(some, share.partition);
        }
        let merge = makespan(found.values().copied());
        let most = shares.iter().map(|share| share.bytes).max().unwrap_or(0);
        let (hot, named, hottest) = self.hot();
        Trial {
            exponent: self.exponent,
            way,
            travel,
            largest: most as f64 / fair(&all),
            time: (reduce + merge) as f64 / (travel as f64 / WORKERS as f64),
            reducers: shares.len(),
            hottest,
            hot,
            named,
        }
    }

    /// Hot keys, how many of them the sketches of all parts name, and the share of the hottest.
    fn hot(&self) -> (usize, usize, f64) {
        let least = 0.5 / f64::from(PARTITIONS);
        let mut all: BTreeMap<usize, u64> = BTreeMap::new();
        let mut named: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for part in &self.parts {
            let mut sketch = Hot::default();
            for (key, records) in part {
                *all.entry(*key).or_default() += records;
                sketch.add(&name(*key), *records);
            }
            // A part sees a sample of all records: a key at the limit may lie below it there.
            for (key, _) in sketch.keys(least * 0.8) {
                *named.entry(key).or_default() += 1;
            }
        }
        let total = all.values().sum::<u64>() as f64;
        let hot: Vec<usize> = all
            .iter()
            .filter(|(_, records)| **records as f64 / total > least)
            .map(|(key, _)| *key)
            .collect();
        let found = hot.iter().filter(|key| named.get(&name(**key)) == Some(&PARTS)).count();
        let hottest = all.values().copied().max().unwrap_or(0) as f64 / total;
        (hot.len(), found, hottest)
    }
}

/// Different keys of a partition in some parts.
fn distinct(parts: &[BTreeMap<usize, u64>], wanted: u32) -> u64 {
    let mut seen = Table::new();
    for key in parts.iter().flat_map(BTreeMap::keys) {
        let name = name(*key);
        if partition(&name, PARTITIONS) == wanted {
            *seen.value(&name) += 1;
        }
    }
    seen.len() as u64
}

/// When the last worker is done, if each takes the next task as soon as it is free.
fn makespan(tasks: impl Iterator<Item = u64>) -> u64 {
    let mut workers = [0_u64; WORKERS];
    for task in tasks {
        if let Some(free) = workers.iter_mut().min() {
            *free += task;
        }
    }
    workers.into_iter().max().unwrap_or(0)
}

fn name(key: usize) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}
