//! The owner of a shard: one loop that drives the frontier, the file of the shard and the fetcher.
//!
//! **The right to fetch** is the lease of the task and the lock of the shard, which one process has at a time. A new owner
//! waits for the lock. If the last owner did not close the file, nothing is asked for a whole delay from the opening on, and
//! a moment more in which hosts may still read what that owner had sent; hosts that it met last are not in the file. An
//! owner that is told to stop hands out nothing more, drops its connections and leaves the file unclosed.
//!
//! **One commit** per batch of pages holds everything that follows from them; only then are links sent to other shards and
//! do outputs count.
//!
//! Reading order: `task` (turns), this file (the loop), `visit` and `robots` (one request), `take` (what follows from it),
//! `errands` (a robots.txt that is elsewhere), `parts` (hosts from which rendered pages take parts),
//! `book` (commits and links from and to others), `steer` (what people want), `show` (what is seen of it), `ended` (when
//! there is nothing left in any shard), `kept` (what a shard that sleeps need not read again), `manners` (whether requests
//! were sent when they might be).

mod book;
pub mod clock;
mod ended;
mod errands;
pub mod gear;
mod kept;
mod manners;
mod parts;
pub mod robots;
pub mod show;
mod steer;
mod take;
pub mod task;
#[cfg(test)]
mod tests;
mod visit;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use divvy_frontier::address::Scope;
use divvy_frontier::frontier::{self, Frontier, Lease, Link, Next};
use divvy_frontier::robots::Standing;
use divvy_frontier::seen::{self, Seen};
use divvy_workload::files::{FolderError, Lock, read_json};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::fetch::Session;
use crate::folder::Folder;
use crate::folder::budget::Budget;
use crate::folder::control::Control;
use crate::folder::inbox::Travelling;
use crate::folder::status::{PageRow, ShardState, Totals};
use crate::output::{self, WARC_BYTES_MAX, Writer};
use crate::place::Places;
use crate::settings::{SeenBy, Spec};
use crate::store::{Batch, Opening, Saved, ShardFile};
use clock::Clock;
use gear::Gear;
use manners::{Manners, Sent};
use parts::{QUESTIONS_MAX, Question};
use task::{Site, Summary};
use visit::{Done, Known, PageVisit};

/// Requests of a shard in flight at once.
const IN_FLIGHT_MAX: usize = 512;
/// Connections that are kept for hosts that wait.
const SESSIONS_MAX: usize = 4_096;
/// A turn lasts so long if another shard waits for its own.
const TURN: Duration = Duration::from_secs(30);
/// A shard that has nothing to do for so long ends its turn if another waits.
const IDLE: Duration = Duration::from_secs(3);
/// Work that is farther away is waited for asleep.
const NEAR_MS: u64 = 10_000;
/// The longest sleep of a shard that others may send links to, and of one that is paused and will be woken.
const SLEEP_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(30);
/// Between two looks at what people want and what others show; also how often it shows itself.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks into the inbox.
const INBOX: Duration = Duration::from_millis(150);
/// A batch is committed when it has so many pages, or is so old.
const BATCH_PAGES: usize = 128;
const BATCH_AGE: Duration = Duration::from_millis(200);
/// For so long a host may still take in what an owner that was killed had sent.
const LEFTOVER: Duration = Duration::from_secs(1);
/// Hashes of contents that are remembered to find pages that are there twice.
const DIGESTS_MAX: usize = 1 << 20;

/// Which shard, where, and for whom.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder of the crawl.
    pub folder: PathBuf,
    /// The number of the shard.
    pub shard: u32,
    /// Which start of the crawl.
    pub round: u32,
    /// A number that is larger than that of every owner before.
    pub epoch: u64,
    /// What the worker knows.
    pub site: Site,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// The shard has ended.
    Done(Summary),
    /// It goes on later, for this reason.
    Later(Duration, String),
}

/// Why a turn broke off.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file of the shard cannot be used.
    #[error(transparent)]
    Store(#[from] crate::store::Error),
    /// An output cannot be written.
    #[error(transparent)]
    Output(#[from] output::OutputError),
    /// The crawl asks for something that cannot be done here.
    #[error("{0}")]
    Settings(String),
    /// The system refuses.
    #[error("cannot {what}: {problem}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What it says.
        problem: String,
    },
    /// It was told to stop.
    #[error("was told to stop")]
    Stopped,
}

impl ShardError {
    pub(crate) fn system(what: &'static str, problem: &dyn std::fmt::Display) -> Self {
        Self::System { what, problem: problem.to_string() }
    }

    /// Whether no later turn can do better.
    fn is_hopeless(&self) -> bool {
        use crate::store::Error as E;
        matches!(
            self,
            Self::Settings(_)
                | Self::Store(
                    E::Damaged { .. } | E::Foreign { .. } | E::Version { .. } | E::OtherMode { .. }
                )
                | Self::Output(output::OutputError::Short { .. })
        )
    }
}

/// One process that is a shard.
pub struct Owner {
    folder: Folder,
    spec: Spec,
    place: Place,
    places: Places,
    scope: Scope,
    gear: Arc<Gear>,
    clock: Clock,
    control: Control,
    /// Away only while a commit is waited for.
    file: Option<ShardFile>,
    frontier: Frontier,
    writer: Writer,
    budget: Option<Budget>,
    /// Links that the filter cannot tell from known ones, until the store is asked.
    asks: Vec<Travelling>,
    batch: Batch,
    batch_pages: usize,
    batch_since: Option<Instant>,
    outbox: BTreeMap<u32, Vec<Travelling>>,
    taken: Vec<crate::folder::inbox::Waiting>,
    sent: BTreeMap<u32, u64>,
    received: BTreeMap<u32, u64>,
    visits: FuturesUnordered<BoxFuture<'static, Done>>,
    manners: Manners,
    lender: mpsc::Sender<Question>,
    questions: mpsc::Receiver<Question>,
    pages_in_flight: u64,
    sessions: HashMap<u32, Session>,
    totals: Totals,
    dead: u64,
    retries: u64,
    outputs: BTreeMap<String, u64>,
    digests: HashSet<u64>,
    tail: VecDeque<PageRow>,
    rates: VecDeque<(Instant, u64)>,
    is_full: bool,
    /// Before this no page is handed out, by the rate of the crawl.
    not_before: Instant,
    /// When the next address is due again, as of the last commit.
    next_due: Option<u64>,
    /// How often all shards were seen at their end in a row.
    ends_seen: u32,
    /// Nothing else may write while this is held; dropped last.
    _lock: Lock,
}

impl Owner {
    /// Becomes the owner, or not if another process is.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub async fn open(place: Place, stop: &CancellationToken) -> Result<Option<Self>, ShardError> {
        let folder = Folder::new(&place.folder);
        let Some(lock) = wait_for_lock(&folder, place.shard, stop).await? else { return Ok(None) };
        let (spec, control) = asked_for(&folder)?;
        let (clock, mode) = (Clock::start(), seen_mode(&spec));
        let opening = Opening { epoch: place.epoch, seen: mode };
        let path = folder.shard_file(place.shard);
        let file = ShardFile::open(&path, opening)?;
        let (from_ms, rest) = rest_after(&file, &spec, &clock);
        let (rules, seed) = (spec.rules.frontier(), fastrand::u64(..));
        let saved = file.load()?;
        let seen = seen_before(&path, &file, mode, noted(&saved, "lost").unwrap_or(0.0))?;
        let frontier = file.frontier(rules, seen, seed, from_ms)?;
        let gear = Gear::new(&spec, &place.site, clock).await?;
        let (lender, questions) = mpsc::channel(QUESTIONS_MAX);
        let outputs: BTreeMap<String, u64> = saved.outputs.iter().cloned().collect();
        let writer = open_outputs(&folder, &place, &spec, &gear, &outputs)?;
        let budget = spec
            .rules
            .max_pages
            .map(|max| Budget::new(&folder, place.shard, spec.rules.shards, max));
        let mut owner = Self {
            places: Places::new(spec.rules.shards),
            scope: spec.scope(&control.added),
            gear,
            clock,
            frontier,
            writer,
            budget,
            asks: Vec::new(),
            batch: Batch::default(),
            batch_pages: 0,
            batch_since: None,
            outbox: BTreeMap::new(),
            taken: Vec::new(),
            sent: saved.made.iter().copied().collect(),
            received: saved.received.iter().copied().collect(),
            visits: FuturesUnordered::new(),
            manners: Manners::new(IN_FLIGHT_MAX),
            lender,
            questions,
            pages_in_flight: 0,
            sessions: HashMap::new(),
            totals: noted(&saved, "totals").unwrap_or_default(),
            dead: noted(&saved, "dead").unwrap_or(0),
            retries: noted(&saved, "retries").unwrap_or(0),
            outputs,
            digests: HashSet::new(),
            tail: VecDeque::new(),
            rates: VecDeque::new(),
            is_full: false,
            not_before: Instant::now() + rest,
            next_due: file.next_due()?,
            ends_seen: 0,
            _lock: lock,
            folder,
            spec,
            place,
            control,
            file: Some(file),
        };
        owner.send_again()?;
        owner.obey().await?;
        Ok(Some(owner))
    }

    /// Works until the turn is over.
    ///
    /// # Errors
    /// If it is told to stop, or something cannot be written.
    pub async fn run(
        mut self,
        stop: CancellationToken,
        progress: Box<dyn Fn(u64, u64)>,
    ) -> Result<TurnEnd, ShardError> {
        let began = Instant::now();
        let (mut look, mut inbox) = (Instant::now(), Instant::now());
        let mut idle_since: Option<Instant> = None;
        loop {
            let wake = self.hand_out().await?;
            let is_idle = self.is_idle()?;
            idle_since = if is_idle { idle_since.or_else(|| Some(Instant::now())) } else { None };
            let commit = self.batch_since.map(|since| since + BATCH_AGE);
            let due = self.next_due.map(|due| self.clock.at(due));
            let timer = [Some(look), Some(inbox), wake, commit, due]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(look);
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(ShardError::Stopped),
                Some(done) = self.visits.next(), if !self.visits.is_empty() => self.take_in(done)?,
                Some(question) = self.questions.recv() => self.lend(question),
                // Only further requests at once wait for it; else it is soon enough when the request has ended.
                sent = self.manners.sent(), if self.spec.rules.per_host > 1 => self.note_sent(&sent),
                () = sleep_until(timer) => {}
            }
            let now = Instant::now();
            if now >= inbox {
                self.read_inbox()?;
                inbox = now + INBOX;
            }
            let is_old = self.batch_since.is_some_and(|since| since + BATCH_AGE <= now);
            if is_old || self.batch_pages >= BATCH_PAGES {
                self.commit().await?;
            }
            if now >= look {
                look = now + LOOK;
                self.manners.forget(self.clock.now_ms());
                self.reread_control().await?;
                let state = if is_idle { ShardState::Idle } else { ShardState::Working };
                self.show(state)?;
                progress(self.totals.pages, self.frontier.queued());
                if let Some(end) = self.turn_ends(began, idle_since, wake)? {
                    return self.end_turn(end, stop).await;
                }
            }
        }
    }

    /// Hands out everything that may be asked now; when there is more, unless something happens before.
    async fn hand_out(&mut self) -> Result<Option<Instant>, ShardError> {
        if self.control.paused || self.control.stopped {
            return Ok(None);
        }
        self.take_due().await?;
        while self.visits.len() < IN_FLIGHT_MAX {
            if !self.has_allowance()? {
                return Ok(None);
            }
            if self.not_before > Instant::now() {
                return Ok(Some(self.not_before));
            }
            match self.frontier.next(self.clock.now_ms()) {
                Next::Fetch(order) => self.fetch(order)?,
                Next::Robots(order) => self.ask_robots(order)?,
                Next::Errand(errand) => self.run_errand(errand),
                Next::Load(order) => {
                    self.commit().await?;
                    let blocks = self.file().blocks(&order)?;
                    self.frontier.loaded(&order, &blocks).map_err(|damaged| {
                        ShardError::Store(crate::store::Error::Damaged {
                            path: self.folder.shard_file(self.place.shard).display().to_string(),
                            problem: damaged.to_string(),
                        })
                    })?;
                }
                Next::Wait(until_ms) => return Ok(Some(self.clock.at(until_ms))),
                Next::Idle | Next::Enough => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Whether the crawl may fetch another page.
    fn has_allowance(&mut self) -> Result<bool, ShardError> {
        let used = self.totals.pages + self.pages_in_flight;
        match &mut self.budget {
            None => Ok(true),
            // A shard that has nothing to fetch must not take what others need.
            Some(budget) if budget.left(used) == 0 && self.frontier.is_done() => Ok(false),
            Some(budget) => Ok(budget.allowance(used)? > 0),
        }
    }

    fn fetch(&mut self, order: frontier::Order) -> Result<(), ShardError> {
        let known = match order.is_known {
            true => self.file().page(order.fingerprint)?.map(|page| Known {
                validators: crate::fetch::Validators {
                    etag: page.etag,
                    last_modified: page.last_modified,
                },
                digest: page.digest,
                changes: page.changes,
                interval_ms: page.interval_ms,
            }),
            false => None,
        };
        self.pages_in_flight += 1;
        if let Some(rate) = self.spec.rules.pages_per_second {
            // Shares that nobody uses are not made up for, so the crawl may be slower but is never faster.
            let share = rate / f64::from(self.spec.rules.shards);
            self.not_before = Instant::now() + Duration::from_secs_f64(1.0 / share);
        }
        let session = self.session(order.host, order.lease, order.allowed_at_ms);
        // Only a browser asks for more than the order names.
        let permission =
            self.gear.browser.as_ref().and_then(|_| self.frontier.permission(order.host));
        let lender = self.lender.clone();
        let visit = PageVisit { order, known, session, permission, lender };
        self.visits.push(Box::pin(visit::page(Arc::clone(&self.gear), visit)));
        Ok(())
    }

    fn ask_robots(&mut self, order: frontier::RobotsOrder) -> Result<(), ShardError> {
        let copy = self.copy_of(order.host)?;
        let standing: Option<Standing> =
            copy.as_ref().and_then(|copy| serde_json::from_str(&copy.about).ok());
        let now_ms = self.clock.now_ms();
        if let (Some(copy), Some(standing)) = (&copy, &standing)
            && !standing.is_due(now_ms)
        {
            let answer = robots::meaning(standing, copy.fetched_ms, now_ms, false);
            self.frontier.robots(now_ms, order.lease, answer);
            return Ok(());
        }
        let standing = standing.unwrap_or_default();
        if standing.leads_to(now_ms).is_some() {
            return self.go_on(&order, standing);
        }
        self.totals.robots += 1;
        let session = self.session(order.host, order.lease, order.allowed_at_ms);
        self.visits.push(Box::pin(visit::robots(Arc::clone(&self.gear), order, standing, session)));
        Ok(())
    }

    fn run_errand(&mut self, errand: frontier::Errand) {
        self.totals.robots += 1;
        let session = self.session(errand.host, errand.lease, errand.allowed_at_ms);
        self.visits.push(Box::pin(visit::errand(Arc::clone(&self.gear), errand, session)));
    }

    fn file(&self) -> &ShardFile {
        self.file.as_ref().expect("the file is away only while a commit is waited for")
    }

    /// What is kept for a host, for one request, which tells when it is sent.
    fn session(&mut self, host: u32, lease: Lease, allowed_at_ms: u64) -> Session {
        let mut session = self.sessions.remove(&host).unwrap_or_default();
        let (lead, _) = self.frontier.pace_of(host);
        session.on_send(self.manners.hand_out(lead, host, lease, allowed_at_ms));
        session
    }

    /// A request was sent: its gap begins, and how much later than it was allowed is counted.
    fn note_sent(&mut self, sent: &Sent) {
        let at_ms = self.clock.ms_of(sent.at);
        self.frontier.sent(at_ms + 1, sent.lease);
        let (lead, gap_ms) = self.frontier.pace_of(sent.host);
        self.totals.sent(self.manners.slack_ms(lead, sent, at_ms, gap_ms));
    }

    /// Whether and how this turn ends.
    fn turn_ends(
        &mut self,
        began: Instant,
        idle_since: Option<Instant>,
        wake: Option<Instant>,
    ) -> Result<Option<Ending>, ShardError> {
        if self.control.stopped {
            return Ok(Some(Ending::Over));
        }
        if self.control.paused {
            return Ok(Some(Ending::Sleep(PAUSE, "it is paused")));
        }
        if self.all_have_ended(idle_since.is_some())? {
            return Ok(Some(Ending::Over));
        }
        let has_rival = self.does_another_wait();
        if idle_since.is_some_and(|since| since.elapsed() >= IDLE) && has_rival {
            return Ok(Some(Ending::Sleep(Duration::from_secs(2), "it waits for links of others")));
        }
        if began.elapsed() >= TURN && has_rival {
            return Ok(Some(Ending::Sleep(Duration::ZERO, "another shard has its turn")));
        }
        if self.visits.is_empty() && idle_since.is_none() {
            let due = self.next_due.map(|due| self.clock.at(due));
            let next = [wake, due].into_iter().flatten().min();
            if let Some(next) =
                next.filter(|next| *next > Instant::now() + Duration::from_millis(NEAR_MS))
            {
                let span = next.duration_since(Instant::now()).min(SLEEP_MAX);
                return Ok(Some(Ending::Sleep(span, "nothing is due before")));
            }
        }
        Ok(None)
    }

    /// Lets what is in flight end, commits, and closes.
    async fn end_turn(
        mut self,
        end: Ending,
        stop: CancellationToken,
    ) -> Result<TurnEnd, ShardError> {
        // Pages that are still made do without further hosts.
        self.questions.close();
        while self.questions.try_recv().is_ok() {}
        while !self.visits.is_empty() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(ShardError::Stopped),
                Some(done) = self.visits.next() => self.take_in(done)?,
            }
        }
        self.commit().await?;
        // What was sent is noted, so that the next owner need not send it again.
        self.commit().await?;
        if let Some(budget) = &mut self.budget {
            budget.give_back(self.totals.pages)?;
        }
        let state = match end {
            Ending::Over => ShardState::Done,
            Ending::Sleep(..) if self.control.paused => ShardState::Paused,
            Ending::Sleep(..) if self.is_idle()? => ShardState::Idle,
            Ending::Sleep(..) => ShardState::Working,
        };
        if let Some(browser) = &self.gear.browser {
            browser.renderer.lock().await.close().await;
        }
        self.show(state)?;
        let summary = Summary { totals: self.totals.clone(), queued: self.frontier.queued() };
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        let (path, epoch) = (self.folder.shard_file(self.place.shard), self.place.epoch);
        Ok(match end {
            Ending::Over => TurnEnd::Done(summary),
            Ending::Sleep(span, why) => {
                kept::keep(&path, epoch, self.frontier.into_seen());
                TurnEnd::Later(span, why.to_owned())
            }
        })
    }
}

/// How a turn ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The shard has ended.
    Over,
    /// It goes on after so long.
    Sleep(Duration, &'static str),
}

/// A small thing that was saved under a name.
fn noted<T: DeserializeOwned>(saved: &Saved, name: &str) -> Option<T> {
    let (_, value) = saved.notes.iter().find(|(known, _)| known == name)?;
    serde_json::from_slice(value).ok()
}

/// What the shard has seen: kept since its last turn, or else from its file, and about how many addresses were lost until
/// then.
fn seen_before(
    path: &Path,
    file: &ShardFile,
    mode: seen::Mode,
    lost: f64,
) -> Result<Seen, ShardError> {
    if let Some(seen) = kept::take(path, file.left_by()) {
        return Ok(seen);
    }
    let settings = seen::Settings { mode, expected: 100_000, ..seen::Settings::default() };
    let mut seen = file.seen(settings)?;
    seen.lost_before(lost);
    Ok(seen)
}

/// From when hosts have their gaps, in milliseconds, and for how long nobody is asked: later after an owner that did not
/// close the file.
fn rest_after(file: &ShardFile, spec: &Spec, clock: &Clock) -> (u64, Duration) {
    if file.was_clean() {
        return (clock.now_ms(), Duration::ZERO);
    }
    let rest = Duration::from_millis(spec.rules.delay_ms) + LEFTOVER;
    (clock.now_ms() + LEFTOVER.as_millis() as u64, rest)
}

/// The lock, once no other process has it; nothing if it is told to stop before, or another keeps it.
async fn wait_for_lock(
    folder: &Folder,
    shard: u32,
    stop: &CancellationToken,
) -> Result<Option<Lock>, ShardError> {
    const TRIES: u32 = 200;
    for _ in 0..TRIES {
        if let Some(lock) = folder.lock_shard(shard)? {
            return Ok(Some(lock));
        }
        let wait = tokio::time::sleep(Duration::from_millis(50));
        if stop.run_until_cancelled(wait).await.is_none() {
            return Err(ShardError::Stopped);
        }
    }
    Ok(None)
}

/// What the crawl was asked to do, and what people want of it now.
fn asked_for(folder: &Folder) -> Result<(Spec, Control), ShardError> {
    let missing = || FolderError::new(&folder.spec(), "is missing; was the crawl removed?");
    let spec = read_json(&folder.spec())?.ok_or_else(missing)?;
    Ok((spec, read_json(&folder.control())?.unwrap_or_default()))
}

fn seen_mode(spec: &Spec) -> seen::Mode {
    match spec.rules.seen {
        SeenBy::Exact => seen::Mode::Exact,
        SeenBy::Bloom => seen::Mode::Bloom,
    }
}

/// The outputs, as long as the last commit knows them.
fn open_outputs(
    folder: &Folder,
    place: &Place,
    spec: &Spec,
    gear: &Gear,
    lengths: &BTreeMap<String, u64>,
) -> Result<Writer, ShardError> {
    let options = output::Options {
        folder: folder.out(place.shard),
        formats: spec.rules.formats.clone(),
        agent: gear.agent.to_string(),
        warc_bytes_max: WARC_BYTES_MAX,
    };
    Ok(Writer::open(options, lengths)?)
}

/// A link as the frontier takes it.
fn link_of<'a>(address: &'a divvy_frontier::address::Address, travelling: &Travelling) -> Link<'a> {
    Link {
        host: address.origin(),
        domain: address.registrable(),
        path: address.path_and_query(),
        depth: travelling.depth,
        hops: travelling.hops,
        is_sitemap: travelling.is_sitemap,
    }
}
