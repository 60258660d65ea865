//! What a queued address takes in memory: a million of them with paths of 46 bytes over 100,000 hosts, all in memory, and with
//! their tails in the store.

use divvy_frontier::frontier::{Frontier, Link};
use divvy_frontier::rules::Rules;
use divvy_frontier::seen::{Seen, Settings};
use serde::Serialize;

const HOSTS: u32 = 100_000;
const PER_HOST: u32 = 10;
/// Hosts when tails are in the store: fewer, with longer queues, as tails are only of those.
const LONG_HOSTS: u32 = 100;

/// Bytes for each address, hosts and indexes included, the filter not.
#[derive(Debug, Serialize)]
pub(super) struct PerAddress {
    pub(super) in_memory: f64,
    pub(super) spilled: f64,
}

/// Measures both.
pub(super) fn per_address() -> PerAddress {
    let total = HOSTS * PER_HOST;
    let spilling = Rules { memory_max: 0, ..Rules::default() };
    PerAddress {
        in_memory: filled(Rules::default(), HOSTS, PER_HOST),
        spilled: filled(spilling, LONG_HOSTS, total / LONG_HOSTS),
    }
}

fn filled(rules: Rules, hosts: u32, per_host: u32) -> f64 {
    let rules =
        Rules { memory_max: rules.memory_max.min(10_000_000), hosts_max: 10_000_000, ..rules };
    let settings = Settings { expected: 2_000_000, ..Settings::default() };
    let mut frontier = Frontier::new(rules, Seen::new(settings), 1, 1);
    for at in 0..u64::from(hosts) * u64::from(per_host) {
        let host = at % u64::from(hosts);
        let (origin, domain) =
            (format!("https://www.site{host:06}.example"), format!("site{host:06}.example"));
        let path = format!("/section/{:08}/article-{:017}.html", at / 7, at);
        let link = Link {
            host: &origin,
            domain: &domain,
            path: &path,
            depth: 3,
            hops: 0,
            is_sitemap: false,
        };
        frontier.admit(1, &link);
        if at.is_multiple_of(10_000) {
            // As a shard does: what is durable need not be kept.
            drop(frontier.changes());
        }
    }
    drop(frontier.changes());
    frontier.bytes() as f64 / frontier.queued().max(1) as f64
}
