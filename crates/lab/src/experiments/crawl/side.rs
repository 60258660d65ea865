//! What every frontier of the contest can do, and the real one in this form.
//!
//! The disk of the real one is a few lists here; they are not part of its memory, as the file of a shard is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use divvy_frontier::frontier::{
    Answer, Block, Changes, Discovery, Frontier, Later, Lease, Link, LoadOrder, Next, Outcome,
    Permission, RobotsAnswer,
};
use divvy_frontier::rules::{Rules, retry::Failure};
use divvy_frontier::seen::{Seen, Settings};

use super::web::{Nature, Page, Web};

/// What is durable is committed after so many pages.
const BATCH: u32 = 500;
const DAY_MS: u64 = 86_400_000;

/// What a frontier says to do.
#[derive(Debug)]
pub(super) enum Step {
    /// Fetch this page.
    Fetch(Ticket, Page),
    /// Fetch the robots.txt of this host.
    Robots(Ticket, u32),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing until an answer comes.
    Idle,
}

/// What is given back with an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ticket {
    Lease(Lease),
    None,
}

/// A frontier.
pub(super) trait Side {
    /// Addresses were found.
    fn found(&mut self, now_ms: u64, pages: &[Page]);
    /// What is next?
    fn next(&mut self, now_ms: u64) -> Step;
    /// A page came, or did not.
    fn ended(&mut self, now_ms: u64, ticket: Ticket, page: Page, is_well: bool);
    /// A robots.txt came, or did not.
    fn robots(&mut self, now_ms: u64, ticket: Ticket, host: u32, is_well: bool);
    /// Addresses that wait.
    fn queued(&self) -> u64;
    /// Of these, how many are in memory.
    fn in_memory(&self) -> u64;
    /// What it takes in memory, without its filter.
    fn bytes(&self) -> u64;
}

/// The real frontier.
pub(super) struct Real {
    web: Web,
    frontier: Frontier,
    fingerprints: BTreeSet<u64>,
    blocks: BTreeMap<(u32, u8, u32), Block>,
    later: BTreeMap<(u64, u64), Later>,
    uncommitted: u32,
}

/// What the robots.txt of every tenth host says.
#[derive(Debug)]
struct NotPrivate;

impl Permission for NotPrivate {
    fn allows(&self, path_and_query: &str) -> bool {
        !path_and_query.starts_with("/private/")
    }
}

impl Real {
    pub(super) fn new(web: Web, rules: Rules, expected: u64, seed: u64) -> Self {
        let seen = Seen::new(Settings { expected, ..Settings::default() });
        Self {
            web,
            frontier: Frontier::new(rules, seen, seed, seed),
            fingerprints: BTreeSet::new(),
            blocks: BTreeMap::new(),
            later: BTreeMap::new(),
            uncommitted: 0,
        }
    }

    fn commit(&mut self, now_ms: u64) {
        self.uncommitted = 0;
        let changes = self.frontier.changes();
        self.apply(changes);
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now_ms) {
            let later = first.remove();
            self.frontier.again(&later);
        }
    }

    fn apply(&mut self, changes: Changes) {
        for (host, band, head) in changes.consumed {
            let range = (host, band, 0)..(host, band, head);
            let gone: Vec<_> = self
                .blocks
                .range(range)
                .filter(|(_, block)| block.first + block.count <= head)
                .map(|(key, _)| *key)
                .collect();
            gone.iter().for_each(|key| drop(self.blocks.remove(key)));
        }
        for block in changes.blocks {
            self.blocks.insert((block.host, block.band, block.first), block);
        }
        self.fingerprints.extend(changes.fingerprints);
        self.later.extend(
            changes.later.into_iter().map(|later| ((later.due_ms, later.fingerprint), later)),
        );
    }

    fn load(&mut self, now_ms: u64, order: &LoadOrder) {
        self.commit(now_ms);
        let range = (order.host, order.band, 0)..=(order.host, order.band, u32::MAX);
        let wanted = self.blocks.range(range).map(|(_, block)| block);
        let wanted = wanted
            .filter(|block| block.first + block.count > order.from)
            .take(order.entries_max as usize);
        let blocks: Vec<Block> = wanted.cloned().collect();
        self.frontier.loaded(order, &blocks).expect("what was written is read");
    }
}

impl Side for Real {
    fn found(&mut self, now_ms: u64, pages: &[Page]) {
        for page in pages {
            let (host, path) = (Web::name(page.host), self.web.path(*page));
            let domain = Web::domain(&host);
            let link =
                Link { host: &host, domain, path: &path, depth: 3, hops: 0, is_sitemap: false };
            if self.frontier.discover(now_ms, &link) == Discovery::Ask {
                let key = self.frontier.fingerprint(&link);
                if self.fingerprints.contains(&key) {
                    self.frontier.dismiss(&link);
                } else {
                    self.frontier.admit(now_ms, &link);
                }
            }
        }
    }

    fn next(&mut self, now_ms: u64) -> Step {
        loop {
            match self.frontier.next(now_ms) {
                Next::Fetch(order) => {
                    return Step::Fetch(Ticket::Lease(order.lease), Web::page(&order.url));
                }
                Next::Robots(order) => {
                    return Step::Robots(Ticket::Lease(order.lease), Web::page(&order.origin).host);
                }
                Next::Errand(errand) => {
                    unreachable!("no robots.txt of this web leads on: {errand:?}")
                }
                Next::Load(order) => self.load(now_ms, &order),
                Next::Wait(until_ms) => return Step::Wait(until_ms),
                Next::Idle | Next::Enough => return Step::Idle,
            }
        }
    }

    fn ended(&mut self, now_ms: u64, ticket: Ticket, page: Page, is_well: bool) {
        let Ticket::Lease(lease) = ticket else { return };
        let alike = self.web.nature(page.host) == Nature::Trap;
        // Numbers that follow each other have hashes that are far apart.
        let hash = page.number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let simhash = Some(if alike { 0 } else { hash });
        let answer = Answer { status: 200, is_changed: true, simhash, ..Answer::default() };
        let outcome =
            if is_well { Outcome::Answer(answer) } else { Outcome::Failed(Failure::TimedOut) };
        self.frontier.fetched(now_ms, lease, outcome);
        self.uncommitted += 1;
        if self.uncommitted >= BATCH {
            self.commit(now_ms);
        }
    }

    fn robots(&mut self, now_ms: u64, ticket: Ticket, _: u32, is_well: bool) {
        let Ticket::Lease(lease) = ticket else { return };
        let permission: Option<Arc<dyn Permission>> =
            is_well.then(|| Arc::new(NotPrivate) as Arc<dyn Permission>);
        let until_ms = now_ms + if is_well { DAY_MS } else { 60_000 };
        let answer = RobotsAnswer {
            permission,
            delay_ms: None,
            until_ms,
            bytes: 0,
            was_requested: true,
            missing: None,
        };
        self.frontier.robots(now_ms, lease, answer);
    }

    fn queued(&self) -> u64 {
        self.frontier.queued()
    }

    fn in_memory(&self) -> u64 {
        self.frontier.counts(0).in_memory
    }

    fn bytes(&self) -> u64 {
        self.frontier.bytes()
    }
}
