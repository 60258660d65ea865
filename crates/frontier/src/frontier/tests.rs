//! Tests of the frontier: single rules here and in `rules`, all together against a slow reference in `model`, what it takes
//! in memory in `memory`.

mod memory;
mod model;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::*;
use crate::seen;

/// A store in memory.
#[derive(Clone, Debug, Default)]
struct Disk {
    hosts: BTreeMap<u32, HostRecord>,
    blocks: BTreeMap<(u32, u8, u32), Block>,
    fingerprints: BTreeSet<u64>,
    later: BTreeMap<u64, Later>,
}

impl Disk {
    fn commit(&mut self, changes: Changes) {
        for (host, band, head) in changes.consumed {
            self.blocks.retain(|(of, in_band, first), block| {
                (*of, *in_band) != (host, band) || first + block.count > head
            });
        }
        self.hosts.extend(changes.hosts.into_iter().map(|host| (host.id, host)));
        for block in changes.blocks {
            self.blocks.insert((block.host, block.band, block.first), block);
        }
        for fingerprint in changes.fingerprints {
            assert!(self.fingerprints.insert(fingerprint), "an address is queued once");
        }
        changes.not_later.iter().for_each(|key| drop(self.later.remove(key)));
        self.later.extend(changes.later.into_iter().map(|later| (later.fingerprint, later)));
    }

    fn blocks(&self, order: &LoadOrder) -> Vec<Block> {
        let range = (order.host, order.band, 0)..=(order.host, order.band, u32::MAX);
        let blocks = self.blocks.range(range).map(|(_, block)| block);
        blocks.filter(|block| block.first + block.count > order.from).cloned().collect()
    }

    fn restore(&self, rules: &Rules, was_clean: bool, now_ms: u64) -> Frontier {
        let mut seen = Seen::new(seen::Settings::default());
        self.fingerprints.iter().for_each(|key| seen.remember(*key));
        let hosts = self.hosts.values().cloned();
        Frontier::restore(rules.clone(), seen, 7, 1, hosts, was_clean, now_ms).unwrap()
    }
}

fn frontier(rules: Rules) -> Frontier {
    Frontier::new(rules, Seen::new(seen::Settings::default()), 7, 1)
}

fn link<'a>(host: &'a str, domain: &'a str, path: &'a str) -> Link<'a> {
    Link { host, domain, path, depth: 1, hops: 0, is_sitemap: false }
}

fn everything(until_ms: u64) -> RobotsAnswer {
    let permission: Option<Arc<dyn Permission>> = Some(Arc::new(Everything));
    RobotsAnswer {
        permission,
        delay_ms: None,
        until_ms,
        bytes: 0,
        was_requested: true,
        missing: None,
    }
}

fn well() -> Outcome {
    Outcome::Answer(Answer { status: 200, is_changed: true, ..Answer::default() })
}

fn status(status: u16, retry_after_ms: Option<u64>) -> Outcome {
    Outcome::Answer(Answer { status, retry_after_ms, ..Answer::default() })
}

/// Answers robots orders at once until there is something else.
fn next_page(frontier: &mut Frontier, now_ms: &mut u64) -> Next {
    loop {
        match frontier.next(*now_ms) {
            Next::Robots(order) => frontier.robots(*now_ms, order.lease, everything(u64::MAX)),
            Next::Wait(until_ms) => *now_ms = until_ms,
            next => return next,
        }
    }
}
