//! The simulated web: hosts, pages, links and answers, all from a seed and none of them stored, and a log of what the
//! hosts see.
//!
//! Sizes of hosts and the popularity of links follow Zipf's law. A few hosts answer slowly, a few never, and a few are
//! traps: each of their pages leads to sixteen new ones that look alike.

/// Links of a page.
pub(super) const LINKS: u64 = 16;
/// Of these, how many lead to other hosts.
const LINKS_AWAY: u64 = 4;
/// Pages of the largest host.
const PAGES_MAX: f64 = 200_000.0;
/// A host that never answers lets a request wait for so long.
const TIME_OUT_MS: u64 = 10_000;
/// Hosts of a registrable domain.
const DOMAIN_HOSTS: u32 = 4;

/// What a host is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nature {
    /// It answers within a third of a second.
    Usual,
    /// It takes some seconds.
    Slow,
    /// It never answers.
    Dead,
    /// Its pages never end.
    Trap,
}

/// A page of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Page {
    pub(super) host: u32,
    pub(super) number: u64,
}

/// All hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Web {
    pub(super) hosts: u32,
    seed: u64,
}

impl Web {
    pub(super) fn new(hosts: u32, seed: u64) -> Self {
        Self { hosts, seed }
    }

    pub(super) fn nature(&self, host: u32) -> Nature {
        match self.draw(u64::from(host), 1) % 100 {
            0..2 => Nature::Dead,
            2..7 => Nature::Slow,
            7 => Nature::Trap,
            _ => Nature::Usual,
        }
    }

    /// How long an answer takes.
    pub(super) fn takes_ms(&self, page: Page) -> u64 {
        let chance = self.draw(page.number, u64::from(page.host) + 2);
        match self.nature(page.host) {
            Nature::Usual | Nature::Trap => 30 + chance % 300,
            Nature::Slow => 2_000 + chance % 4_000,
            Nature::Dead => TIME_OUT_MS,
        }
    }

    /// Whether the robots.txt of its host forbids a page.
    pub(super) fn is_forbidden(&self, page: Page) -> bool {
        page.host.is_multiple_of(10) && page.number % 20 == 3
    }

    /// Where a page leads.
    pub(super) fn links(&self, page: Page) -> impl Iterator<Item = Page> {
        let nature = self.nature(page.host);
        let web = *self;
        (0..LINKS).map(move |link| {
            let chance = web.draw(page.number * LINKS + link, u64::from(page.host) << 8);
            if nature == Nature::Trap {
                // Numbers stay apart without bound.
                return Page {
                    host: page.host,
                    number: (page.number * LINKS + link + 1) & (u64::MAX >> 8),
                };
            }
            if link < LINKS_AWAY {
                let host = web.popular(chance);
                return Page { host, number: chance % 3 };
            }
            Page { host: page.host, number: chance % web.pages(page.host) }
        })
    }

    /// The name of a host and that of its domain, as a frontier is told.
    pub(super) fn name(host: u32) -> String {
        format!("https://www{}.site-{}.example", host % DOMAIN_HOSTS, host / DOMAIN_HOSTS)
    }

    pub(super) fn domain(name: &str) -> &str {
        name.split_once('.').map_or(name, |(_, domain)| domain)
    }

    pub(super) fn path(&self, page: Page) -> String {
        let folder = if self.is_forbidden(page) { "private" } else { "section" };
        format!("/{folder}/{:03}/a-page-with-number-{}.html", page.number % 997, page.number)
    }

    /// The page of an address.
    pub(super) fn page(url: &str) -> Page {
        let mut numbers =
            url.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
        let mut next = || numbers.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        let (in_domain, domain): (u64, u64) = (next(), next());
        let host = domain as u32 * DOMAIN_HOSTS + in_domain as u32;
        Page { host, number: numbers.next_back().and_then(|part| part.parse().ok()).unwrap_or(0) }
    }

    fn pages(&self, host: u32) -> u64 {
        let rank = self.draw(u64::from(host), 3) % u64::from(self.hosts) + 1;
        (PAGES_MAX / rank as f64).max(3.0) as u64
    }

    /// A host by Zipf's law.
    fn popular(&self, chance: u64) -> u32 {
        let share = (chance >> 11) as f64 / (1u64 << 53) as f64;
        let rank = f64::from(self.hosts).powf(share) as u32 - 1;
        // Ranks are no neighbours.
        (self.draw(u64::from(rank), 4) % u64::from(self.hosts)) as u32
    }

    fn draw(&self, number: u64, part: u64) -> u64 {
        let seed = self.seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95)).u64(..)
    }
}

/// What the hosts see.
#[derive(Clone, Debug)]
pub(super) struct Log {
    delay_ms: u64,
    hosts: Vec<Seen>,
    /// Requests that came too early, after the one before began or ended.
    pub(super) early: u64,
    /// The most requests of one host at once.
    pub(super) at_once: u32,
    pub(super) requests: u64,
    pub(super) to_dead: u64,
    pub(super) forbidden: u64,
    pub(super) traps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// One more than the times, 0 if there was none.
    started_ms: u64,
    ended_ms: u64,
    in_flight: u32,
}

impl Log {
    pub(super) fn new(web: &Web, delay_ms: u64) -> Self {
        let hosts = vec![Seen::default(); web.hosts as usize];
        Self {
            delay_ms,
            hosts,
            early: 0,
            at_once: 0,
            requests: 0,
            to_dead: 0,
            forbidden: 0,
            traps: 0,
        }
    }

    /// A request comes; of a page or, without one, of the robots.txt.
    pub(super) fn started(&mut self, now_ms: u64, web: &Web, host: u32, page: Option<Page>) {
        let seen = &mut self.hosts[host as usize];
        let last = seen.started_ms.max(seen.ended_ms);
        let is_early = last > 0 && now_ms + 1 < last + self.delay_ms;
        self.early += u64::from(is_early || seen.in_flight > 0);
        seen.started_ms = now_ms + 1;
        seen.in_flight += 1;
        self.at_once = self.at_once.max(seen.in_flight);
        self.requests += 1;
        match web.nature(host) {
            Nature::Dead => self.to_dead += 1,
            Nature::Trap => self.traps += u64::from(page.is_some()),
            Nature::Usual | Nature::Slow => {}
        }
        self.forbidden += u64::from(page.is_some_and(|page| web.is_forbidden(page)));
    }

    pub(super) fn ended(&mut self, now_ms: u64, host: u32) {
        let seen = &mut self.hosts[host as usize];
        seen.ended_ms = now_ms + 1;
        seen.in_flight -= 1;
    }

    /// How many hosts were asked.
    pub(super) fn reached(&self) -> u64 {
        self.hosts.iter().filter(|seen| seen.started_ms > 0).count() as u64
    }
}
