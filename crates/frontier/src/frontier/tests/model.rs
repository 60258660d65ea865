//! The frontier against a slow reference: lists instead of heaps, every rule of politeness looked at for every order.
//!
//! Links, outcomes, crashes and the passing of time are drawn from a seed. The reference says of every order whether it
//! was allowed, of every wait whether somebody might have been asked before, and in the end that nothing was lost.

use super::*;
use crate::rules::{priority, retry};

const HOSTS: [(&str, &str); 8] = [
    ("http://a.one.test", "one.test"),
    ("https://a.one.test", "one.test"),
    ("http://b.one.test", "one.test"),
    ("http://c.one.test", "one.test"),
    ("http://d.one.test", "one.test"),
    ("https://two.test", "two.test"),
    ("http://two.test:8080", "two.test"),
    ("http://three.test", "three.test"),
];

#[derive(Debug)]
struct Allowed;

impl Permission for Allowed {
    fn allows(&self, path: &str) -> bool {
        !path.contains("private")
    }
}

/// What one side (a name without its scheme) or one domain has done.
#[derive(Clone, Debug, Default)]
struct Pace {
    next_ms: u64,
    blocked_ms: u64,
    in_flight: u32,
    /// The request that was handed out and not sent.
    unsent: Option<Lease>,
}

#[derive(Clone, Debug, Default)]
struct Waiting {
    bands: [Vec<String>; 4],
    redo: BTreeSet<String>,
    used: u32,
    failures: u32,
    /// Until when it waits for a robots.txt that is elsewhere.
    led_ms: u64,
    /// Places that it is to be asked for, and for whom.
    errands: Vec<(String, BTreeSet<String>)>,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Page(String),
    Robots,
    Errand(String, BTreeSet<String>),
}

/// What should be, told in lists.
#[derive(Clone, Debug, Default)]
struct Reference {
    sides: BTreeMap<String, Pace>,
    domains: BTreeMap<String, Pace>,
    hosts: BTreeMap<String, Waiting>,
    found: BTreeSet<String>,
    fetched: BTreeMap<String, u32>,
    flying: Vec<(Lease, String, Wanted)>,
    /// Errands that were done, and how many hosts they served.
    errands: (u32, usize),
}

fn side(host: &str) -> String {
    host.split_once("://").unwrap().1.to_owned()
}

fn domain(host: &str) -> String {
    HOSTS.iter().find(|(name, _)| *name == host).unwrap().1.to_owned()
}

impl Reference {
    fn found(&mut self, host: &str, path: &str, depth: u8) {
        let waiting = self.hosts.entry(host.into()).or_default();
        let band = priority::of_new(depth, path, waiting.used == 0);
        waiting.used += 1;
        waiting.bands[usize::from(band)].push(path.into());
        assert!(self.found.insert(format!("{host}{path}")), "{host}{path} was queued twice");
    }

    /// Everything that an order must keep.
    fn ordered(&mut self, now_ms: u64, rules: &Rules, host: &str, wanted: Wanted, lease: Lease) {
        let waiting = self.hosts.get_mut(host).unwrap();
        if let Wanted::Errand(path, askers) = &wanted {
            assert!(!waiting.errands.is_empty(), "{host}{path}: nobody asked for it");
            assert_eq!(waiting.errands.remove(0), (path.clone(), askers.clone()));
        } else {
            assert_eq!(waiting.errands, [], "{host}: errands go first");
            assert!(now_ms >= waiting.led_ms, "{host} waits for its robots.txt");
        }
        if let Wanted::Page(path) = &wanted {
            assert!(Allowed.allows(path), "{path} is forbidden");
            if !waiting.redo.remove(path) {
                let place = waiting.bands.iter().enumerate().find_map(|(band, list)| {
                    Some(band).zip(list.iter().position(|each| each == path))
                });
                let (band, at) = place.unwrap_or_else(|| panic!("{host}{path} is not queued"));
                let before: Vec<String> = waiting.bands[band].drain(..=at).collect();
                let passed = before[..at].iter().all(|each| !Allowed.allows(each));
                assert!(passed, "{before:?} should have gone first");
            }
        }
        let pace = self.sides.entry(side(host)).or_default();
        assert!(now_ms >= pace.blocked_ms, "{host} wants to be left alone");
        assert!(pace.in_flight < u32::from(rules.per_host), "{host} has one in flight");
        assert!(now_ms >= pace.next_ms, "{host} at {now_ms}, not before {}", pace.next_ms);
        assert_eq!(pace.unsent, None, "{host}: two requests might be sent at once");
        pace.in_flight += 1;
        pace.unsent = Some(lease);
        pace.next_ms = now_ms + rules.delay_ms;
        if rules.domain_share > 0 {
            let share = rules.domain_share;
            let pace = self.domains.entry(domain(host)).or_default();
            assert!(
                pace.in_flight < share * u32::from(rules.per_host),
                "{host}: its domain is full"
            );
            assert!(now_ms >= pace.next_ms, "{host}: its domain is not due");
            pace.in_flight += 1;
            pace.next_ms = now_ms + rules.delay_ms / u64::from(share);
        }
        self.flying.push((lease, host.into(), wanted));
    }

    /// A request goes out some time after it was handed out.
    fn sent(&mut self, now_ms: u64, rules: &Rules, host: &str) {
        let pace = self.sides.get_mut(&side(host)).unwrap();
        pace.unsent = None;
        pace.next_ms = now_ms + rules.delay_ms;
    }

    fn ended(&mut self, now_ms: u64, rules: &Rules, host: &str, lease: Lease) {
        let pace = self.sides.get_mut(&side(host)).unwrap();
        pace.in_flight -= 1;
        pace.unsent = pace.unsent.filter(|unsent| *unsent != lease);
        pace.next_ms = pace.next_ms.max(now_ms + rules.delay_ms);
        if let Some(pace) = self.domains.get_mut(&domain(host)) {
            pace.in_flight -= 1;
        }
    }

    /// The first time at which somebody may be asked, as things are.
    fn earliest(&self, rules: &Rules) -> Option<u64> {
        let hosts = self.hosts.iter().filter_map(|(host, waiting)| {
            let has_errands = !waiting.errands.is_empty();
            let has_work = has_errands
                || !waiting.redo.is_empty()
                || waiting.bands.iter().flatten().any(|path| Allowed.allows(path));
            let none = Pace::default();
            let pace = self.sides.get(&side(host)).unwrap_or(&none);
            let group = self.domains.get(&domain(host)).unwrap_or(&none);
            let share = rules.domain_share;
            let is_full = pace.in_flight >= u32::from(rules.per_host)
                || pace.unsent.is_some()
                || share > 0 && group.in_flight >= share * u32::from(rules.per_host);
            // A breaker may keep it away for longer.
            let is_ill = waiting.failures >= rules.retry.breaker_failures;
            let led_ms = if has_errands { 0 } else { waiting.led_ms };
            let at_ms = pace.next_ms.max(group.next_ms).max(pace.blocked_ms).max(led_ms);
            (has_work && !is_full && !is_ill).then_some(at_ms)
        });
        hosts.min()
    }
}

struct World {
    random: fastrand::Rng,
    rules: Rules,
    now_ms: u64,
    frontier: Frontier,
    disk: Disk,
    reference: Reference,
    /// The reference as it was at the last commit.
    committed: Reference,
    counter: u32,
    crashes: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let rules = Rules {
            delay_ms: 1_000,
            per_host: random.u8(1..=2),
            domain_share: *random.choice([0, 1, 2, 4].iter()).unwrap(),
            band_memory_max: random.u32(1..6),
            retry: retry::Rules { park_failures: 1_000, ..retry::Rules::default() },
            ..Rules::default()
        };
        let frontier = frontier(rules.clone());
        let (disk, reference, committed) = Default::default();
        let now_ms = 1_000_000;
        Self { random, rules, now_ms, frontier, disk, reference, committed, counter: 0, crashes: 0 }
    }

    fn discover(&mut self) {
        let (host, domain) = HOSTS[self.random.usize(..HOSTS.len())];
        let old = self.counter > 0 && self.random.u8(..4) == 0;
        let number = if old { self.random.u32(..self.counter) } else { self.counter };
        self.counter += u32::from(!old);
        let kind = if number % 7 == 0 { "private" } else { "page" };
        let padding = "x".repeat(number as usize % 60);
        let (path, depth) = (format!("/{kind}/{number}/{padding}"), (number % 5) as u8);
        let link = Link { depth, ..link(host, domain, &path) };
        let mut said = self.frontier.discover(self.now_ms, &link);
        if said == Discovery::Ask {
            let key = self.frontier.fingerprint(&link);
            if self.disk.fingerprints.contains(&key) {
                self.frontier.dismiss(&link);
                said = Discovery::Refused(Refusal::Seen);
            } else {
                said = self.frontier.admit(self.now_ms, &link);
            }
        }
        match said {
            Discovery::Queued => self.reference.found(host, &path, depth),
            Discovery::Refused(Refusal::Seen) => {
                assert!(self.reference.found.contains(&format!("{host}{path}")), "{host}{path}");
            }
            said => panic!("{said:?}"),
        }
    }

    /// Asks until there is nothing to do now; gives the time until which there is not.
    fn order(&mut self) -> Option<u64> {
        loop {
            match self.frontier.next(self.now_ms) {
                Next::Fetch(order) => {
                    assert!(order.allowed_at_ms <= self.now_ms);
                    let (host, path) = order.url.split_at(order.path_at);
                    let (now, rules) = (self.now_ms, &self.rules);
                    let wanted = Wanted::Page(path.into());
                    self.reference.ordered(now, rules, host, wanted, order.lease);
                }
                Next::Robots(order) => {
                    let (now, rules) = (self.now_ms, &self.rules);
                    let wanted = Wanted::Robots;
                    self.reference.ordered(now, rules, &order.origin, wanted, order.lease);
                }
                Next::Errand(errand) => {
                    assert!(errand.allowed_at_ms <= self.now_ms);
                    let (now, rules) = (self.now_ms, &self.rules);
                    let host = self.frontier.host_name(errand.host).unwrap().0.to_owned();
                    let path = errand.url[host.len()..].to_owned();
                    let askers = errand.askers.iter().map(ToString::to_string).collect();
                    let wanted = Wanted::Errand(path, askers);
                    self.reference.ordered(now, rules, &host, wanted, errand.lease);
                }
                Next::Load(order) => {
                    self.commit();
                    let blocks = self.disk.blocks(&order);
                    self.frontier.loaded(&order, &blocks).unwrap();
                }
                Next::Wait(until_ms) => {
                    assert!(until_ms > self.now_ms);
                    let earliest = self.reference.earliest(&self.rules);
                    assert!(earliest.is_none_or(|at| until_ms <= at), "{until_ms} > {earliest:?}");
                    return Some(until_ms);
                }
                Next::Idle => {
                    assert_eq!(self.reference.earliest(&self.rules), None);
                    return None;
                }
                Next::Enough => panic!("there is no limit"),
            }
        }
    }

    fn send_one(&mut self) {
        if self.reference.flying.is_empty() {
            return;
        }
        let at = self.random.usize(..self.reference.flying.len());
        let (lease, host, _) = self.reference.flying[at].clone();
        if self.reference.sides[&side(&host)].unsent == Some(lease) {
            self.reference.sent(self.now_ms, &self.rules, &host);
        }
        // Who tells it twice has told it once.
        self.frontier.sent(self.now_ms, lease);
    }

    fn end_one(&mut self, is_calm: bool) {
        if self.reference.flying.is_empty() {
            return;
        }
        let at = self.random.usize(..self.reference.flying.len());
        let (lease, host, wanted) = self.reference.flying.swap_remove(at);
        self.reference.ended(self.now_ms, &self.rules, &host, lease);
        let path = match wanted {
            Wanted::Page(path) => path,
            Wanted::Errand(_, askers) => return self.errand_ended(lease, &host, &askers),
            Wanted::Robots if !is_calm && self.random.u8(..3) == 0 => {
                self.lead_on(&host);
                self.reference.hosts.get_mut(&host).unwrap().failures = 0;
                return self.frontier.passed(self.now_ms, lease, status(302, None));
            }
            Wanted::Robots => {
                let answer = self.rules_of_a_host();
                let waiting = self.reference.hosts.get_mut(&host).unwrap();
                (waiting.failures, waiting.led_ms) = (0, 0);
                return self.frontier.robots(self.now_ms, lease, answer);
            }
        };
        let outcome = match self.random.u8(..20) {
            0 if !is_calm => status(503, Some(self.random.u64(..20_000))),
            1 if !is_calm => Outcome::Failed(retry::Failure::TimedOut),
            _ => well(),
        };
        let ending = self.frontier.fetched(self.now_ms, lease, outcome);
        // Also when the address is given up.
        if let Outcome::Answer(Answer { retry_after_ms: Some(wait_ms), .. }) = outcome {
            let pace = self.reference.sides.get_mut(&side(&host)).unwrap();
            pace.blocked_ms = pace.blocked_ms.max(self.now_ms + wait_ms);
        }
        let waiting = self.reference.hosts.get_mut(&host).unwrap();
        waiting.failures = if outcome == well() { 0 } else { waiting.failures + 1 };
        match (ending, outcome) {
            (Ending::Done { .. }, _) | (Ending::Dead, _) => {
                *self.reference.fetched.entry(format!("{host}{path}")).or_default() += 1;
            }
            (Ending::Again { .. }, _) => {}
            (ending, outcome) => panic!("{ending:?} after {outcome:?}"),
        }
    }

    fn rules_of_a_host(&mut self) -> RobotsAnswer {
        let until_ms = self.now_ms + self.random.u64(1_000..60_000);
        let permission: Option<Arc<dyn Permission>> = Some(Arc::new(Allowed));
        RobotsAnswer { permission, bytes: 100, ..everything(until_ms) }
    }

    /// The robots.txt of a host is at another one, or elsewhere at its own.
    fn lead_on(&mut self, asker: &str) {
        let number = self.frontier.host_number(asker).unwrap();
        let until_ms = self.now_ms + self.random.u64(5_000..20_000);
        self.frontier.led_on(number, until_ms);
        self.reference.hosts.get_mut(asker).unwrap().led_ms = until_ms;
        let (host, domain) = HOSTS[self.random.usize(..HOSTS.len())];
        let path = format!("/rules/{}", self.random.u8(..2));
        // Who asks twice is served once.
        for _ in 0..2 {
            self.frontier.send(self.now_ms, &link(host, domain, &path), asker).unwrap();
        }
        let errands = &mut self.reference.hosts.entry(host.into()).or_default().errands;
        match errands.iter_mut().find(|(known, _)| *known == path) {
            Some((_, askers)) => drop(askers.insert(asker.into())),
            None => errands.push((path, [asker.to_owned()].into())),
        }
    }

    fn errand_ended(&mut self, lease: Lease, host: &str, askers: &BTreeSet<String>) {
        self.reference.errands.0 += 1;
        self.reference.errands.1 += askers.len();
        self.reference.hosts.get_mut(host).unwrap().failures = 0;
        self.frontier.passed(self.now_ms, lease, well());
        for asker in askers {
            // Some answers are lost on the way, and others come twice.
            for _ in 0..self.random.u8(..3) {
                let answer = self.rules_of_a_host();
                let number = self.frontier.host_number(asker).unwrap();
                self.frontier.robots_came(self.now_ms, number, &answer);
                let waiting = self.reference.hosts.get_mut(asker).unwrap();
                (waiting.failures, waiting.led_ms) = (0, 0);
            }
        }
    }

    fn again(&mut self) {
        let due = self.disk.later.values().filter(|later| later.due_ms <= self.now_ms);
        for later in due.cloned().collect::<Vec<_>>() {
            self.frontier.again(&later);
            self.frontier.again(&later);
            let (entry, _) = entry::Entry::unpack(&later.entry).unwrap();
            let host = self.frontier.host_name(later.host).unwrap().0;
            let waiting = self.reference.hosts.get_mut(host).unwrap();
            waiting.bands[usize::from(later.band)].push(entry.path.into());
        }
        self.commit();
    }

    fn commit(&mut self) {
        self.disk.commit(self.frontier.changes());
        self.committed = self.reference.clone();
    }

    /// The owner dies; the next one has what was committed, and leaves every host alone for a whole gap.
    fn crash(&mut self) {
        self.crashes += 1;
        self.now_ms += self.random.u64(..3_000);
        self.frontier = self.disk.restore(&self.rules, false, self.now_ms);
        let mut after = self.committed.clone();
        for (_, host, wanted) in std::mem::take(&mut after.flying) {
            if let Wanted::Page(path) = wanted {
                after.hosts.get_mut(&host).unwrap().redo.insert(path);
            }
        }
        for waiting in after.hosts.values_mut() {
            (waiting.led_ms, waiting.errands) = (0, Vec::new());
        }
        let next_ms = self.now_ms + self.rules.delay_ms;
        for host in after.hosts.keys() {
            let pace = after.sides.entry(side(host)).or_default();
            *pace = Pace { next_ms, in_flight: 0, unsent: None, ..*pace };
        }
        after.domains.clear();
        self.committed = after.clone();
        self.reference = after;
    }

    fn play(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.random.u8(..20) {
                0..6 => self.discover(),
                6..9 => self.send_one(),
                9..12 => self.end_one(false),
                12..17 => drop(self.order()),
                17 => self.commit(),
                18 => self.again(),
                _ if self.random.u8(..8) == 0 => self.crash(),
                _ => self.now_ms += self.random.u64(..1_500),
            }
        }
    }

    /// No more failures, links and crashes: everything must come to its end.
    fn finish(&mut self) {
        for _ in 0..200_000 {
            self.again();
            let until_ms = self.order();
            while !self.reference.flying.is_empty() {
                self.end_one(true);
            }
            self.commit();
            let due = self.disk.later.values().map(|later| later.due_ms).min();
            match until_ms.into_iter().chain(due).min() {
                Some(at_ms) => self.now_ms = self.now_ms.max(at_ms),
                None if self.frontier.is_done() => return,
                None => self.now_ms += 1,
            }
        }
        panic!("it does not come to its end: {:?}", self.frontier.counts(self.now_ms));
    }
}

#[test]
fn every_order_keeps_the_rules_and_nothing_is_lost_over_crashes() {
    let (mut crashes, mut errands, mut served) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.play(1_500);
        world.finish();
        let reference = &world.reference;
        for found in &reference.found {
            let times = reference.fetched.get(found).copied().unwrap_or(0);
            let wanted = u32::from(!found.contains("private"));
            assert_eq!(times, wanted, "seed {seed}: {found}");
        }
        assert!(reference.found.len() > 100, "seed {seed}: {}", reference.found.len());
        assert!(world.disk.blocks.is_empty() && world.disk.later.is_empty(), "seed {seed}");
        crashes += world.crashes;
        errands += reference.errands.0;
        served += reference.errands.1;
    }
    assert!(crashes > 100, "{crashes}");
    assert!(errands > 100 && served > errands as usize, "{errands} errands served {served}");
}
