//! Decides which operations a request becomes: the ways to deal with keys that are too hot for one node.
//!
//! - **plain**: the owner does it.
//! - **bounded**: a read goes to the owner, or to the next node if that has more in flight than its share allows. A
//!   write always goes to the owner, for it alone may say what is true.
//! - **replicated**: a hot key has copies on its first owners. A read goes to one of them, a write to all.
//! - **split**: a hot key is written to one of several parts, and all parts are read. When it has cooled, the parts
//!   are read once more and folded into one.
//!
//! A node that is to read a key which it does not own asks the owner first, unless it has a copy that no write has made
//! stale: one more operation, at the owner.
//!
//! The ring, the bound, the detection and the splits are the library's; here is only what a service adds around them.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_placement::Request;
use divvy_placement::hashing::hot::{self, HotKeys, Splits, part_name};
use divvy_placement::hashing::{RingPolicy, hash_of, policy};

use super::nodes::Nodes;
use super::traffic::{self, Ask, KEYS};

/// How far above its share a node may go, where that is bounded.
pub(super) const BOUND: f64 = 0.25;
/// How often split keys are looked at, to fold those that have cooled.
const FOLD_PERIOD: Duration = Duration::from_secs(1);

/// A way to deal with hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    Bounded,
    Replicated,
    ReplicatedBounded,
    Split,
}

impl Way {
    pub(super) const ALL: [Self; 5] =
        [Self::Plain, Self::Bounded, Self::Replicated, Self::ReplicatedBounded, Self::Split];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain ring",
            Self::Bounded => "bounded loads",
            Self::Replicated => "replicate hot keys",
            Self::ReplicatedBounded => "replicate, bounded",
            Self::Split => "split hot keys",
        }
    }

    /// Whether it looks for hot keys.
    pub(super) fn detects(self) -> bool {
        matches!(self, Self::Replicated | Self::ReplicatedBounded | Self::Split)
    }

    fn policy(self, seed: u64) -> RingPolicy {
        let bound = matches!(self, Self::Bounded | Self::ReplicatedBounded).then_some(BOUND);
        let hot = matches!(self, Self::Replicated | Self::ReplicatedBounded);
        let hot = hot.then(hot::Settings::default);
        let made = RingPolicy::new(policy::Settings { bound, hot, seed, ..Default::default() });
        made.expect("the settings are within their bounds")
    }
}

/// What a way has cost so far, beside the one operation that each request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Copies of keys on nodes that do not own them.
    pub(super) copies: u64,
    /// Copies that were brought up to date: by a write to all of them, or by a read that found its copy stale.
    pub(super) refills: u64,
    /// Reads that a node served which does not own the key.
    pub(super) away: u64,
    /// Keys whose parts were folded into one.
    pub(super) folds: u64,
}

/// A service that follows one way.
pub(super) struct Service {
    way: Way,
    pub(super) nodes: Nodes,
    pub(super) cost: Cost,
    /// The hash of each key, by number, followed by those of its parts as far as they were needed.
    hashes: Vec<Vec<u64>>,
    /// The node of each id on the ring.
    numbers: Vec<usize>,
    /// For splitting: what is hot, what was split, and what the parts hold.
    hot: HotKeys,
    splits: Splits,
    stored: Vec<Vec<u64>>,
    /// Writes to each key: they make copies stale, and reads of parts must find them all.
    written: Vec<u64>,
    pub(super) reads_short: u64,
    /// Which writes each copy has seen, by key and node.
    copied: BTreeMap<(usize, usize), u64>,
    fold_next: Duration,
    random: fastrand::Rng,
}

/// Operations of one request: where, and whether the answer waits for it.
#[derive(Debug, Default)]
pub(super) struct Operations(pub(super) Vec<(usize, bool)>);

impl Service {
    pub(super) fn new(way: Way, count: usize, service: Duration, seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let nodes = Nodes::new(way.policy(seeds.u64(..)), count, service, seeds.u64(..));
        Self {
            way,
            numbers: nodes.numbers(),
            nodes,
            cost: Cost::default(),
            hashes: (0..KEYS).map(|key| vec![hash_of(traffic::name(key))]).collect(),
            hot: HotKeys::new(hot::Settings::default()).expect("the defaults are sound"),
            splits: Splits::new(),
            stored: vec![vec![0]; KEYS],
            written: vec![0; KEYS],
            reads_short: 0,
            copied: BTreeMap::new(),
            fold_next: FOLD_PERIOD,
            random: seeds.fork(),
        }
    }

    /// Over how many nodes a key is spread at this moment.
    pub(super) fn spread(&self, key: usize) -> usize {
        let keys = match self.way {
            Way::Plain | Way::Bounded => return 1,
            Way::Replicated | Way::ReplicatedBounded => self.nodes.balancer.policy().hot_keys(),
            Way::Split => Some(&self.hot),
        };
        keys.map_or(1, |keys| keys.spread(self.hash(key)))
    }

    /// The keys that are called hot at this moment, as hashes.
    pub(super) fn hot(&self) -> Vec<u64> {
        let keys = match self.way {
            Way::Plain | Way::Bounded => return Vec::new(),
            Way::Replicated | Way::ReplicatedBounded => self.nodes.balancer.policy().hot_keys(),
            Way::Split => Some(&self.hot),
        };
        keys.into_iter().flat_map(HotKeys::hot).map(|key| key.counter.key).collect()
    }

    pub(super) fn hash(&self, key: usize) -> u64 {
        self.hashes[key][0]
    }

    /// Turns a request into operations on nodes.
    pub(super) fn plan(&mut self, ask: &Ask) -> Operations {
        match self.way {
            Way::Split => self.plan_split(ask),
            Way::Plain | Way::Bounded | Way::Replicated | Way::ReplicatedBounded => {
                self.plan_whole(ask)
            }
        }
    }

    fn plan_whole(&mut self, ask: &Ask) -> Operations {
        let hash = self.hash(ask.key);
        let chosen = self.pick(hash, ask.at);
        let owner = self.owner(hash);
        if !ask.is_read {
            let copies = self.first_owners(hash, self.spread(ask.key));
            self.written[ask.key] += 1;
            for node in copies.iter().filter(|node| **node != owner) {
                self.note_copy(ask.key, *node);
            }
            return Operations(copies.into_iter().map(|node| (node, true)).collect());
        }
        let mut operations = vec![(chosen, true)];
        if chosen != owner {
            self.cost.away += 1;
            if self.copied.get(&(ask.key, chosen)) != Some(&self.written[ask.key]) {
                self.note_copy(ask.key, chosen);
                operations.push((owner, true));
            }
        }
        Operations(operations)
    }

    /// Notes that a node has a copy of what is written now.
    fn note_copy(&mut self, key: usize, node: usize) {
        let old = self.copied.insert((key, node), self.written[key]);
        self.cost.copies += u64::from(old.is_none());
        self.cost.refills += u64::from(old.is_some());
    }

    fn plan_split(&mut self, ask: &Ask) -> Operations {
        let hash = self.hash(ask.key);
        let spread = self.hot.record(hash, ask.at);
        if ask.is_read {
            let parts = self.splits.read(hash);
            let found: u64 = self.stored[ask.key].iter().take(parts).sum();
            self.reads_short += u64::from(found != self.written[ask.key]);
            let nodes = (0..parts).map(|part| (self.part_node(ask, part), true));
            return Operations(nodes.collect());
        }
        let parts = self.splits.write(hash, spread);
        let part = self.random.usize(..parts);
        let stored = &mut self.stored[ask.key];
        stored.resize(stored.len().max(part + 1), 0);
        stored[part] += 1;
        self.written[ask.key] += 1;
        Operations(vec![(self.part_node(ask, part), true)])
    }

    fn part_node(&mut self, ask: &Ask, part: usize) -> usize {
        let hashes = &mut self.hashes[ask.key];
        while hashes.len() <= part {
            hashes.push(hash_of(part_name(&traffic::name(ask.key), hashes.len())));
        }
        let hash = hashes[part];
        self.pick(hash, ask.at)
    }

    /// Folds the parts of keys that have cooled; gives the operations that this takes.
    pub(super) fn fold(&mut self, now: Duration) -> Operations {
        let mut operations = Operations::default();
        if self.way != Way::Split || now < self.fold_next {
            return operations;
        }
        self.fold_next = now + FOLD_PERIOD;
        self.hot.fade_until(now);
        let cooled: Vec<(u64, usize)> =
            self.splits.iter().filter(|(hash, _)| self.hot.spread(*hash) == 1).collect();
        for (hash, parts) in cooled {
            let key = self.hashes.iter().position(|each| each[0] == hash);
            let key = key.expect("only known keys are split");
            for part in 1..parts {
                let ask = Ask { at: now, key, is_read: true };
                operations.0.push((self.part_node(&ask, part), false));
            }
            operations.0.push((self.pick(hash, now), false));
            let sum = self.stored[key].iter().sum();
            self.stored[key] = vec![sum];
            self.splits.merged(hash);
            self.cost.folds += 1;
        }
        operations
    }

    /// Keys that have parts.
    pub(super) fn split_keys(&self) -> usize {
        self.splits.iter().count()
    }

    /// Whether every write is in some part, if keys are split.
    pub(super) fn is_complete(&self) -> bool {
        if self.way != Way::Split {
            return true;
        }
        let sums = self.stored.iter().map(|parts| parts.iter().sum::<u64>());
        sums.eq(self.written.iter().copied())
    }

    fn pick(&mut self, hash: u64, now: Duration) -> usize {
        let pick = self.nodes.balancer.pick(&Request::keyed(hash), now);
        pick.first().expect("every node is up and has room").slot()
    }

    fn owner(&self, hash: u64) -> usize {
        let owner = self.nodes.balancer.policy().ring().node_of(hash);
        self.numbers[owner.expect("the ring is not empty").id()]
    }

    fn first_owners(&self, hash: u64, count: usize) -> Vec<usize> {
        let ring = self.nodes.balancer.policy().ring();
        ring.replicas(hash, count).map(|node| self.numbers[node.id()]).collect()
    }
}
