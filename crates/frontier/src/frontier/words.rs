//! The words that the frontier and its driver exchange. Data only.

use std::fmt;
use std::sync::Arc;

use crate::rules::priority::BANDS;
use crate::rules::retry::Failure;

/// The longest path, with its query, that is queued.
pub const PATH_BYTES_MAX: usize = 4_095;
/// The longest origin, and the longest registrable domain.
pub const HOST_BYTES_MAX: usize = 300;
/// The longest text that is kept of why a host may not be asked or its robots.txt cannot be had.
pub const TROUBLE_BYTES_MAX: usize = 400;
/// The most redirects that lead to an address.
pub const HOPS_MAX: u8 = 10;

/// An address that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// The origin, such as `https://example.org` or `http://example.org:8080`: what has one robots.txt.
    pub host: &'a str,
    /// The registrable domain, whose hosts share a second token and a budget.
    pub domain: &'a str,
    /// The path and query; it begins with `/`. `host` and `path` together are the canonical address.
    pub path: &'a str,
    /// Links from a seed.
    pub depth: u8,
    /// Redirects that led here in a row.
    pub hops: u8,
    /// Whether it is a sitemap rather than a page.
    pub is_sitemap: bool,
}

/// What became of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// It is queued.
    Queued,
    /// The filter cannot tell whether it is new: ask the store for its [`super::Frontier::fingerprint`], and give it to
    /// [`super::Frontier::admit`] if the store does not have it.
    Ask,
    /// It is not queued.
    Refused(Refusal),
}

/// Why a link is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// It was found before.
    Seen,
    /// It is too many links from a seed.
    TooDeep,
    /// Too many redirects lead to it.
    TooManyHops,
    /// Its path is too long.
    TooLong,
    /// Its host has used up its budget.
    HostBudget,
    /// Its registrable domain has used up its budget.
    DomainBudget,
    /// Too many hosts are known.
    TooManyHosts,
}

/// The right to make one request of a host. It ends with [`super::Frontier::fetched`] or [`super::Frontier::robots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub(super) host: u32,
    pub(super) serial: u64,
}

/// One page to fetch, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// To give back with the outcome.
    pub lease: Lease,
    /// The number of the host.
    pub host: u32,
    /// The canonical address.
    pub url: String,
    /// Where in `url` the path begins.
    pub path_at: usize,
    /// The key of the address in the store.
    pub fingerprint: u64,
    /// Links from a seed.
    pub depth: u8,
    /// Redirects that led here in a row.
    pub hops: u8,
    /// 1 for the first attempt.
    pub attempt: u8,
    /// Whether the store has the state of an earlier fetch: its validators and its interval.
    pub is_known: bool,
    /// Whether it is a sitemap rather than a page.
    pub is_sitemap: bool,
    /// Since when the host might have been asked; a request that is sent before this is impolite.
    pub allowed_at_ms: u64,
}

/// A robots.txt to get, now: from the store if a copy there is fresh, or by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsOrder {
    /// To give back with the answer.
    pub lease: Lease,
    /// The number of the host.
    pub host: u32,
    /// The origin; its robots.txt is at `/robots.txt`.
    pub origin: String,
    /// Since when the host might have been asked.
    pub allowed_at_ms: u64,
}

/// A place to ask for, now, because the robots.txt of other hosts leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// To give back with [`super::Frontier::passed`].
    pub lease: Lease,
    /// The number of the host that is asked.
    pub host: u32,
    /// The place.
    pub url: String,
    /// The origins whose robots.txt leads there.
    pub askers: Vec<Box<str>>,
    /// Since when the host might have been asked.
    pub allowed_at_ms: u64,
}

/// Whether a host may be asked now on behalf of a page of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loan {
    /// It may.
    Granted {
        /// To give back with [`super::Frontier::passed`].
        lease: Lease,
        /// The number of the host.
        host: u32,
    },
    /// Not before this time.
    Later(u64),
    /// It is parked or has requests in flight, or there is no room for it.
    Refused,
}

/// Why nobody will be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoErrand {
    /// The host is parked.
    Parked(Park),
    /// Its address is not taken in.
    Refused(Refusal),
    /// Too many wait for the host already.
    TooMany,
}

/// A part of a queue to read from the store, after everything in [`super::Frontier::changes`] is committed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    /// The host.
    pub host: u32,
    /// The band.
    pub band: u8,
    /// The first entry that is wanted.
    pub from: u32,
    /// How many entries are wanted at most.
    pub entries_max: u32,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch this page.
    Fetch(Order),
    /// Get this robots.txt.
    Robots(RobotsOrder),
    /// Ask for this place, on the way to the robots.txt of other hosts.
    Errand(Errand),
    /// Read this part of a queue, then ask again.
    Load(LoadOrder),
    /// Nothing before this time, unless something is reported or found.
    Wait(u64),
    /// Nothing until something is reported or found. If nothing is in flight, all queues are empty or parked.
    Idle,
    /// As many pages as the rules allow are fetched or in flight.
    Enough,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was an answer.
    Answer(Answer),
    /// There was none.
    Failed(Failure),
    /// No request was sent, for a reason that lies with the crawler: the address goes back to its place.
    Returned,
}

/// An answer, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// What `Retry-After` asks for, as a span.
    pub retry_after_ms: Option<u64>,
    /// Whether the page differs from what the store knew of it; true for a new page.
    pub is_changed: bool,
    /// The interval after which it was fetched again, as the store has it.
    pub interval_ms: Option<u64>,
    /// The SimHash of its text, for the brake on hosts that repeat themselves. Pages without text have none.
    pub simhash: Option<u64>,
}

/// What follows for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is done. With recrawls, it is due again after this interval.
    Done {
        /// The interval, for the state of the address.
        interval_ms: Option<u64>,
    },
    /// It failed and is tried again at this time.
    Again {
        /// When.
        due_ms: u64,
    },
    /// It failed for good.
    Dead,
    /// It is queued as before.
    Returned,
    /// The lease is not known (any more): nothing follows.
    Unknown,
}

/// What a host's robots.txt lets be fetched.
pub trait Permission: fmt::Debug + Send + Sync {
    /// Whether this path, with its query, may be fetched.
    fn allows(&self, path_and_query: &str) -> bool;
}

/// Everything may be fetched: no robots.txt, or an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Permission for Everything {
    fn allows(&self, _: &str) -> bool {
        true
    }
}

/// What came of a [`RobotsOrder`].
#[derive(Clone, Debug)]
pub struct RobotsAnswer {
    /// What may be fetched; nothing while the robots.txt cannot be had.
    pub permission: Option<Arc<dyn Permission>>,
    /// The `Crawl-delay` for us.
    pub delay_ms: Option<u64>,
    /// Until when this holds; then it is asked for again.
    pub until_ms: u64,
    /// What the permission takes in memory, about.
    pub bytes: u32,
    /// Whether a request was made of the host. One that was answered from the store costs the host no turn.
    pub was_requested: bool,
    /// Why it could not be had, if that is known anew.
    pub missing: Option<Missing>,
}

/// Why a robots.txt could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How the request failed; nothing if there was an answer.
    pub failure: Option<Failure>,
    /// The same in words, with what can be done about it.
    pub text: String,
}

/// Why a host gets no requests until somebody or something says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Park {
    /// It was blocked by hand.
    Blocked,
    /// Its robots.txt asks for a longer delay than the crawl grants.
    CrawlDelay,
    /// It failed too often in a row.
    Unreachable,
    /// A rule of the fetcher forbids to ask it at all.
    Refused,
}

/// Entries that were added to a queue, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The host.
    pub host: u32,
    /// The band.
    pub band: u8,
    /// The number of the first entry.
    pub first: u32,
    /// How many entries.
    pub count: u32,
    /// The entries, packed; only the frontier reads them.
    pub bytes: Vec<u8>,
}

/// An address that is due at some time: a retry, or a page that is looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Later {
    /// The key of the address; an address is due once at most.
    pub fingerprint: u64,
    /// When.
    pub due_ms: u64,
    /// The host.
    pub host: u32,
    /// The band into which it goes.
    pub band: u8,
    /// The entry, packed; only the frontier reads it.
    pub entry: Vec<u8>,
}

/// What is durable of a host, besides its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    /// Its number: hosts are numbered from 0 without gaps.
    pub id: u32,
    /// Its origin.
    pub name: String,
    /// Its registrable domain.
    pub domain: String,
    /// All else, packed; only the frontier reads it.
    pub state: Vec<u8>,
}

/// What must be made durable, all or nothing, before anything that follows from it leaves the shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Hosts that are new or changed.
    pub hosts: Vec<HostRecord>,
    /// Entries that were queued.
    pub blocks: Vec<Block>,
    /// Queues whose entries before this number are no longer needed: host, band, number.
    pub consumed: Vec<(u32, u8, u32)>,
    /// Addresses that were queued for the first time.
    pub fingerprints: Vec<u64>,
    /// Addresses that are due at some time; they replace what was known for the same fingerprint.
    pub later: Vec<Later>,
    /// Addresses that were due and are queued now.
    pub not_later: Vec<u64>,
}

impl Changes {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
            && self.blocks.is_empty()
            && self.consumed.is_empty()
            && self.fingerprints.is_empty()
            && self.later.is_empty()
            && self.not_later.is_empty()
    }
}

/// How many of what there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Addresses in queues, by band.
    pub queued: [u64; BANDS],
    /// Of these, how many are in memory.
    pub in_memory: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Addresses whose fetch ended: with an answer that stays, or for good.
    pub finished: u64,
    /// Hosts that are known.
    pub hosts: u64,
    /// Hosts with work that may be asked now.
    pub hosts_ready: u64,
    /// Hosts with work whose gap is not over.
    pub hosts_waiting: u64,
    /// Hosts with a request in flight.
    pub hosts_in_flight: u64,
    /// Hosts that rest: a breaker, `Retry-After`, or a robots.txt that cannot be had.
    pub hosts_resting: u64,
    /// Hosts that are parked.
    pub hosts_parked: u64,
    /// Hosts that repeat themselves.
    pub hosts_braked: u64,
    /// Links that were not queued, in the order of [`Refusal`].
    pub refused: [u64; 7],
    /// Addresses that robots.txt forbade when their turn came.
    pub disallowed: u64,
}

/// What is shown of a host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct HostView {
    /// Its origin.
    pub name: String,
    /// Its registrable domain.
    pub domain: String,
    /// Addresses in its queues.
    pub queued: u64,
    /// Answers that it gave.
    pub pages: u32,
    /// Its gap.
    pub gap_ms: u64,
    /// When it may be asked next.
    pub next_at_ms: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Failures in a row.
    pub failures: u32,
    /// The state of its breaker.
    pub breaker: &'static str,
    /// What is known of its robots.txt.
    pub robots: RobotsView,
    /// Why it is parked.
    pub parked: Option<Park>,
    /// What decides when it may be asked, if it is not parked.
    pub because: Because,
    /// Why it may not be asked, or why its robots.txt cannot be had, in words.
    pub trouble: Option<String>,
    /// Whether it repeats itself.
    pub is_braked: bool,
}

/// What is known of a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsView {
    /// Nothing that still holds.
    Unknown,
    /// It is there, or known to be absent.
    Known,
    /// It cannot be had, so nothing is fetched.
    Unreachable,
}

/// Whether an address would be fetched, when, and which rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Explanation {
    /// It would be refused.
    Refused {
        /// Why.
        why: Refusal,
    },
    /// Its host is parked.
    Parked {
        /// Why.
        why: Park,
    },
    /// robots.txt forbids it.
    Disallowed,
    /// Enough pages were fetched.
    Enough,
    /// It is being fetched.
    InFlight,
    /// It would be fetched, not before this time; what its host has queued before it comes first.
    Fetched {
        /// When at the earliest.
        not_before_ms: u64,
        /// What decides the time.
        because: Because,
        /// How many addresses of its host are queued.
        queued: u64,
    },
}

/// What decides when a host may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Nothing: it may be asked at once.
    Ready,
    /// Its robots.txt is not known yet and is asked for first.
    RobotsFirst,
    /// Its robots.txt leads to another place, whose host's turn it waits for.
    RobotsElsewhere,
    /// Its robots.txt cannot be had.
    RobotsUnreachable,
    /// Its gap is not over.
    Gap,
    /// The gap of its registrable domain is not over.
    DomainGap,
    /// It asked to be left alone, or was blocked for a time.
    Blocked,
    /// Its breaker is open.
    Breaker,
    /// It has a request in flight.
    HostInFlight,
}

impl Because {
    /// Whether the host failed or asked to be left alone, rather than being paced.
    pub fn is_rest(self) -> bool {
        matches!(self, Self::RobotsUnreachable | Self::Blocked | Self::Breaker)
    }
}
