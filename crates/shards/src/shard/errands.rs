//! The way to a robots.txt that is elsewhere. Each request on it is an errand at the host that it goes to, which only the
//! shard that owns that host may ask, when its turn comes. If that is another shard, it is told where to ask for whom, and
//! sends back what came. The host whose robots.txt it is waits, and holds nothing while it does.
//!
//! Where a robots.txt leads is durable with what else is known of it. Errands are not: who waits too long sends anew.

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{Lease, NoErrand, Outcome, RobotsOrder};
use divvy_frontier::robots::Standing;
use divvy_frontier::rules::retry::Failure;
use tokio::time::Instant;

use super::robots::{self, Reply};
use super::visit::{ErrandDone, RobotsDone};
use super::{Owner, ShardError, link_of};
use crate::folder::inbox::{Travelling, Word};
use crate::store::RobotsCopy;

/// Sitemaps of a host that are read.
const SITEMAPS_MAX: usize = 16;
/// After so long without an answer an errand is looked after: one that this shard does, and one that another does.
const OWN_MS: u64 = 5 * 60_000;
const OTHERS_MS: u64 = 10 * 60_000;

impl Owner {
    /// What is known of the robots.txt of a host: of this batch, or of the store.
    pub(super) fn copy_of(&self, host: u32) -> Result<Option<RobotsCopy>, ShardError> {
        match self.batch.robots.iter().rev().find(|copy| copy.host == host) {
            Some(copy) => Ok(Some(copy.clone())),
            None => Ok(self.file().robots(host)?),
        }
    }

    /// Goes on with a robots.txt that is known to be elsewhere, without a request of its host.
    pub(super) fn go_on(
        &mut self,
        order: &RobotsOrder,
        standing: Standing,
    ) -> Result<(), ShardError> {
        let now_ms = self.clock.now_ms();
        self.follow(order.host, &order.origin, standing, now_ms)?;
        self.frontier.passed(now_ms, order.lease, Outcome::Returned);
        Ok(())
    }

    /// The host of a robots.txt has answered.
    pub(super) fn take_robots(&mut self, done: RobotsDone) -> Result<(), ShardError> {
        let RobotsDone { order, standing, session, reply, ended_ms } = done;
        let (host, origin, lease) = (order.host, &order.origin, Some(order.lease));
        self.learn(host, origin, lease, standing, reply, ended_ms)?;
        self.note_end(host, ended_ms);
        self.put_session(host, session);
        Ok(())
    }

    /// A host was asked because the robots.txt of others leads there.
    pub(super) fn take_errand(&mut self, done: ErrandDone) -> Result<(), ShardError> {
        let ErrandDone { errand, session, reply, ended_ms } = done;
        self.frontier.passed(ended_ms, errand.lease, reply.outcome());
        match &reply {
            Reply::Nothing { failure: Some(Failure::Refused), text } => {
                self.frontier.refuse_host(errand.host, text);
            }
            _ => self.note_end(errand.host, ended_ms),
        }
        self.put_session(errand.host, session);
        errand.askers.iter().try_for_each(|asker| self.bring(asker, &errand.url, reply.clone()))
    }

    /// Another shard owns the host to which the robots.txt of one of its hosts leads, or has asked there.
    pub(super) fn take_word(&mut self, url: &str, word: Word) -> Result<(), ShardError> {
        match word {
            Word::Ask { of } => {
                let Ok(address) = url.parse::<Address>() else { return Ok(()) };
                match self.send_errand(&address, &of) {
                    Ok(()) => Ok(()),
                    Err(text) => self.bring(&of, url, Reply::not_asked(text)),
                }
            }
            Word::Came { of, reply } => self.came(&of, url, reply),
        }
    }

    /// Brings what came to the owner of the host whose robots.txt leads to this place.
    fn bring(&mut self, asker: &str, url: &str, reply: Reply) -> Result<(), ShardError> {
        let Ok(address) = robots::place_of(asker).parse::<Address>() else { return Ok(()) };
        let owner = self.places.of(&address);
        if owner == self.place.shard {
            return self.came(asker, url, reply);
        }
        self.tell(owner, url, Word::Came { of: asker.to_owned(), reply });
        Ok(())
    }

    fn tell(&mut self, owner: u32, url: &str, word: Word) {
        let travelling = Travelling { word: Some(word), ..Travelling::seed(url) };
        self.outbox.entry(owner).or_default().push(travelling);
        self.batch_since.get_or_insert_with(Instant::now);
    }

    /// The place to which the robots.txt of a host leads has answered. Whoever does not wait for that (any more) leaves it.
    fn came(&mut self, origin: &str, url: &str, reply: Reply) -> Result<(), ShardError> {
        let Some(host) = self.frontier.host_number(origin) else { return Ok(()) };
        let Some(copy) = self.copy_of(host)? else { return Ok(()) };
        let Ok(standing) = serde_json::from_str::<Standing>(&copy.about) else { return Ok(()) };
        let now_ms = self.clock.end_ms();
        if standing.leads_to(now_ms) != Some(url) {
            return Ok(());
        }
        self.learn(host, origin, None, standing, reply, now_ms)
    }

    /// What a request says of the host whose robots.txt it was for. With a lease it was a request of that host.
    fn learn(
        &mut self,
        host: u32,
        origin: &str,
        lease: Option<Lease>,
        mut standing: Standing,
        reply: Reply,
        at_ms: u64,
    ) -> Result<(), ShardError> {
        reply.tell(&mut standing, at_ms, self.gear.agent.product());
        if standing.leads_to(at_ms).is_some() {
            self.follow(host, origin, standing, at_ms)?;
            lease.into_iter().for_each(|lease| {
                self.frontier.passed(at_ms, lease, reply.outcome());
            });
            return Ok(());
        }
        let mut answer = robots::meaning(&standing, at_ms, at_ms, true);
        if answer.permission.is_none() {
            self.totals.robots_failed += 1;
            answer.missing = Some(reply.missing());
        }
        match lease {
            Some(lease) => self.frontier.robots(at_ms, lease, answer),
            None => self.frontier.robots_came(at_ms, host, &answer),
        }
        if matches!(reply, Reply::Answer { status: 200..=299, .. }) {
            self.find_sitemaps(origin, &standing, at_ms);
        }
        let body = match reply {
            Reply::Answer { body, .. } => body,
            Reply::Redirect { .. } | Reply::Nothing { .. } => Vec::new(),
        };
        self.keep(host, &standing, body, at_ms)
    }

    /// Has the place asked to which the robots.txt of a host leads.
    fn follow(
        &mut self,
        host: u32,
        origin: &str,
        mut standing: Standing,
        now_ms: u64,
    ) -> Result<(), ShardError> {
        let url = standing.leads_to(now_ms).unwrap_or_default().to_owned();
        let address = match Address::read(&url, &self.gear.addresses) {
            Ok(address) => address,
            Err(refusal) => {
                return self.not_sent(host, origin, standing, format!("{url}: {refusal}"));
            }
        };
        let owner = self.places.of(&address);
        if owner == self.place.shard {
            if let Err(text) = self.send_errand(&address, origin) {
                return self.not_sent(host, origin, standing, text);
            }
            self.frontier.led_on(host, now_ms + OWN_MS);
        } else {
            let told_ms = standing.told_ms().filter(|told_ms| now_ms < told_ms + OTHERS_MS);
            if told_ms.is_none() {
                self.tell(owner, &url, Word::Ask { of: origin.to_owned() });
                standing.told(now_ms);
            }
            self.frontier.led_on(host, told_ms.unwrap_or(now_ms) + OTHERS_MS);
        }
        self.keep(host, &standing, Vec::new(), now_ms)
    }

    /// Nobody will ask there, so the robots.txt cannot be had.
    fn not_sent(
        &mut self,
        host: u32,
        origin: &str,
        standing: Standing,
        text: String,
    ) -> Result<(), ShardError> {
        let now_ms = self.clock.now_ms();
        self.learn(host, origin, None, standing, Reply::not_asked(text), now_ms)
    }

    /// Has a host of this shard asked when its turn comes, or says why not.
    fn send_errand(&mut self, address: &Address, asker: &str) -> Result<(), String> {
        let place = address.as_str();
        if self.control.blocks(address.host_key()) {
            return Err(format!("it leads to {place}, whose host is blocked in this crawl"));
        }
        let link = Travelling::seed(place);
        let sent = self.frontier.send(self.clock.now_ms(), &link_of(address, &link), asker);
        self.batch_since.get_or_insert_with(Instant::now);
        sent.map_err(|why| match why {
            NoErrand::Parked(_) => format!("it leads to {place}, whose host is parked"),
            NoErrand::Refused(_) => format!("it leads to {place}, for which there is no room"),
            NoErrand::TooMany => format!("it leads to {place}, for which too many wait"),
        })
    }

    fn keep(
        &mut self,
        host: u32,
        standing: &Standing,
        body: Vec<u8>,
        at_ms: u64,
    ) -> Result<(), ShardError> {
        let about = serde_json::to_string(standing)
            .map_err(|error| ShardError::system("write down a robots.txt", &error))?;
        self.batch.robots.push(RobotsCopy { host, fetched_ms: at_ms, about, body });
        self.batch_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn find_sitemaps(&mut self, origin: &str, standing: &Standing, at_ms: u64) {
        let Some(robots) = standing.robots(at_ms) else { return };
        let listed: Vec<String> =
            robots.sitemaps().iter().take(SITEMAPS_MAX).map(|text| text.to_string()).collect();
        let base: Option<Address> = robots::place_of(origin).parse().ok();
        for text in listed {
            let address = base
                .as_ref()
                .and_then(|base| Address::resolve(base, &text, &self.gear.addresses).ok());
            if let Some(address) = address {
                self.found(&address, 0, 0, true);
            }
        }
    }
}
