//! The frontier of a textbook: one heap of addresses by their earliest time.
//!
//! An address gets its time when it is found, from when its host was last asked, and is never looked at again until it
//! is handed out. Retries come after 2, 4 and 8 minutes. It has no robots.txt and no limit on anything.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use divvy_frontier::seen::{Mode, Offer, Seen, Settings};

use super::side::{Side, Step, Ticket};
use super::web::{Page, Web};

/// What an entry of a tree takes beyond its key and value, about.
const TREE_BYTES: u64 = 8;
const RETRIES_MAX: u32 = 3;

/// One heap for all addresses.
pub(super) struct Simple {
    web: Web,
    delay_ms: u64,
    seen: Seen,
    heap: BinaryHeap<Reverse<(u64, i64, String)>>,
    last_access: BTreeMap<String, u64>,
    retries: BTreeMap<String, u32>,
    /// Bytes of the texts in the heap.
    text_bytes: u64,
}

impl Simple {
    pub(super) fn new(web: Web, delay_ms: u64, expected: u64) -> Self {
        let seen = Seen::new(Settings { mode: Mode::Bloom, expected, ..Settings::default() });
        let (heap, last_access, retries) = Default::default();
        Self { web, delay_ms, seen, heap, last_access, retries, text_bytes: 0 }
    }

    /// Higher is better, so it is turned round for a heap that gives the least first.
    fn priority(&self, url: &str, host: &str) -> i64 {
        let is_new = !self.last_access.contains_key(host);
        let retries = self.retries.get(url).copied().unwrap_or(0);
        let score = if is_new { 1_000 } else { 0 } - url.len() as i64 - i64::from(retries) * 500;
        -score
    }

    fn push(&mut self, at_ms: u64, url: String, host: &str) {
        let priority = self.priority(&url, host);
        self.text_bytes += url.capacity() as u64;
        self.heap.push(Reverse((at_ms, priority, url)));
    }
}

impl Side for Simple {
    fn found(&mut self, now_ms: u64, pages: &[Page]) {
        for page in pages {
            let host = Web::name(page.host);
            let url = format!("{host}{}", self.web.path(*page));
            let key = mixed(&url);
            if self.seen.offer(key) != Offer::New {
                continue;
            }
            let last = self.last_access.get(&host);
            let at_ms = now_ms.max(last.map_or(0, |last| last + self.delay_ms));
            self.push(at_ms, url, &host);
        }
    }

    fn next(&mut self, now_ms: u64) -> Step {
        match self.heap.peek() {
            None => Step::Idle,
            Some(Reverse((at_ms, ..))) if *at_ms > now_ms => Step::Wait(*at_ms),
            Some(_) => {
                let Some(Reverse((_, _, url))) = self.heap.pop() else { return Step::Idle };
                self.text_bytes -= url.capacity() as u64;
                let page = Web::page(&url);
                self.last_access.insert(Web::name(page.host), now_ms);
                Step::Fetch(Ticket::None, page)
            }
        }
    }

    fn ended(&mut self, now_ms: u64, _: Ticket, page: Page, is_well: bool) {
        let host = Web::name(page.host);
        let url = format!("{host}{}", self.web.path(page));
        if is_well {
            self.retries.insert(url, 0);
            return;
        }
        let count = self.retries.entry(url.clone()).or_default();
        *count += 1;
        if *count <= RETRIES_MAX {
            let at_ms = now_ms + (60_000 << *count);
            self.push(at_ms, url, &host);
        }
    }

    fn robots(&mut self, _: u64, _: Ticket, _: u32, _: bool) {}

    fn queued(&self) -> u64 {
        self.heap.len() as u64
    }

    fn in_memory(&self) -> u64 {
        self.queued()
    }

    fn bytes(&self) -> u64 {
        let entry = size_of::<(u64, i64, String)>() as u64;
        let tree = |name: &String, value: usize| {
            name.capacity() as u64 + (size_of::<String>() + value) as u64 + TREE_BYTES
        };
        let hosts: u64 = self.last_access.keys().map(|name| tree(name, 8)).sum();
        let retries: u64 = self.retries.keys().map(|name| tree(name, 4)).sum();
        self.heap.capacity() as u64 * entry + self.text_bytes + hosts + retries
    }
}

/// A mixed number for a text.
fn mixed(text: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    fastrand::Rng::with_seed(hash).u64(1..)
}
