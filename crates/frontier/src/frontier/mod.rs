//! Which page of which host is fetched next: queues, politeness, budgets, what follows from outcomes.
//!
//! It decides from what it is told and when. It does not fetch, has no clock, no files and no threads. Drive it so:
//!
//! - links go to [`Frontier::discover`]; those that it answers with [`Discovery::Ask`] are looked up in the store, all of a
//!   batch together, and those that are new go to [`Frontier::admit`];
//! - [`Frontier::next`] is asked until it says [`Next::Wait`], [`Next::Idle`] or [`Next::Enough`], and again after any
//!   report; when an order's request is written, [`Frontier::sent`] is told; its outcome goes to [`Frontier::fetched`], an
//!   answer about robots.txt to [`Frontier::robots`]; one that leads to another place is told by [`Frontier::led_on`] and
//!   [`Frontier::passed`], and the place is asked for by [`Frontier::send`];
//! - [`Frontier::changes`] is drained into one commit per batch; only then do links to other shards and outputs count;
//! - what the store says is due goes to [`Frontier::again`], and is committed before the store is asked again.
//!
//! **Politeness.** A host is in one heap by its next allowed time; a host with as many requests in flight as it may have is
//! in no heap, so nothing can hand out a second one. The gap is counted from hand-out to hand-out, from the moment at which
//! a request is sent, and from the end of an answer, to the next hand-out. A robots.txt counts as a request. `http://` and `https://` of one name are one host for
//! this. Hosts of one registrable domain share a second token: who finds it taken queues up at the domain, of which one
//! at a time is in the heap.
//!
//! **Queues.** Each host has four bands. A band is a list of numbered entries; all of them are in the store, the head is
//! in memory too, as packed bytes. What is in flight is named in the host's record, so a queue's head can be behind it.
//!
//! **Among hosts that may be asked** the best band goes first, then who waited longest; each lower band has turns of its
//! own, so none starves.

mod band;
mod changes;
mod discover;
mod entry;
mod errand;
mod finish;
mod group;
mod host;
mod next;
mod record;
mod steer;
mod table;
#[cfg(test)]
mod tests;
mod view;
mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

pub use words::*;

use crate::rules::Rules;
use crate::rules::priority::BANDS;
use crate::seen::Seen;
use band::Pieces;
use host::{Group, Host, Robots};
use table::{Index, Names, Spots, Table};

/// The frontier of one shard.
#[derive(Debug)]
pub struct Frontier {
    rules: Rules,
    /// What addresses are hashed with; the same for as long as the crawl lives.
    salt: u64,
    random: fastrand::Rng,
    seen: Seen,
    names: Names,
    /// The bytes of what is queued in memory.
    pieces: Pieces,
    hosts: Table<Host>,
    robots: Spots<Robots>,
    host_index: Index,
    groups: Table<Group>,
    group_index: Index,
    /// Hosts by the time at which they are looked at next. An entry counts only if it agrees with its host.
    heap: BinaryHeap<Reverse<Due>>,
    /// Hosts whose time has come, by their best band.
    ready: [VecDeque<u32>; BANDS],
    turns: u32,
    serial: u64,
    in_flight: u64,
    /// Pages among those.
    pages_in_flight: u64,
    pages: u64,
    in_memory: u64,
    robots_bytes: u64,
    /// Where the search for robots rules to drop goes on.
    robots_hand: u32,
    refused: [u64; 7],
    disallowed: u64,
    pending: Pending,
}

/// When a host is looked at. The halves of the time, high one first, take a quarter less room than a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_ms: [u32; 2],
    host: u32,
}

impl Due {
    fn new(at_ms: u64, host: u32) -> Self {
        Self { at_ms: [(at_ms >> 32) as u32, at_ms as u32], host }
    }

    fn at_ms(self) -> u64 {
        u64::from(self.at_ms[0]) << 32 | u64::from(self.at_ms[1])
    }
}

/// What is to be made durable and was not handed out yet.
#[derive(Debug, Default)]
struct Pending {
    dirty: Vec<u32>,
    blocks: BTreeMap<(u32, u8), Block>,
    fingerprints: BTreeSet<u64>,
    later: BTreeMap<u64, Later>,
    not_later: BTreeSet<u64>,
}

/// A record that the store gave back is not what the frontier wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of {subject} cannot be read: {problem}")]
pub struct Damaged {
    /// Of what.
    pub subject: String,
    /// What is wrong.
    pub problem: &'static str,
}

impl Frontier {
    /// A frontier without hosts. `salt` is what addresses are hashed with and stays the same for as long as the crawl
    /// lives; `seed` is where jitter comes from.
    pub fn new(rules: Rules, seen: Seen, salt: u64, seed: u64) -> Self {
        Self {
            rules,
            salt,
            random: fastrand::Rng::with_seed(seed),
            seen,
            names: Names::default(),
            pieces: Pieces::default(),
            hosts: Table::default(),
            robots: Spots::default(),
            host_index: Index::default(),
            groups: Table::default(),
            group_index: Index::default(),
            heap: BinaryHeap::new(),
            ready: Default::default(),
            turns: 0,
            serial: 0,
            in_flight: 0,
            pages_in_flight: 0,
            pages: 0,
            in_memory: 0,
            robots_bytes: 0,
            robots_hand: 0,
            refused: [0; 7],
            disallowed: 0,
            pending: Pending::default(),
        }
    }

    /// The rules of the crawl.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What was seen: how full the filter is, and what it loses.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The same, for a frontier that is needed no more.
    pub fn into_seen(self) -> Seen {
        self.seen
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn name_of(&self, host: u32) -> &str {
        self.names.get(self.hosts[host].name)
    }

    /// The host whose gap and requests in flight count for this one: of a host and the one with the other scheme, the one
    /// that was known first.
    fn lead(&self, host: u32) -> u32 {
        self.hosts[host].twin.min(host)
    }

    /// The host will be part of the next changes.
    fn touch(&mut self, host: u32) {
        if !std::mem::replace(&mut self.hosts[host].is_dirty, true) {
            self.pending.dirty.push(host);
        }
    }
}
