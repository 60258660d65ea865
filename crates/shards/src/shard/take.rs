//! What follows from a request that ended: for its address, its host, and the links that were found.

use std::time::Duration;

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{Answer, Discovery, Ending, Link, Outcome};
use divvy_frontier::rules::retry::Failure;
use tokio::time::Instant;

use super::visit::{Done, PageDone, Product};
use super::{DIGESTS_MAX, Owner, SESSIONS_MAX, ShardError};
use crate::fetch::Session;
use crate::folder::inbox::Travelling;
use crate::folder::status::{PAGES_SHOWN, PageRow};
use crate::store::{PageEnd, PageState};

/// Characters of a title that is shown.
const NOTE_LEN_MAX: usize = 160;

impl Owner {
    /// Takes in what came.
    pub(super) fn take_in(&mut self, done: Done) -> Result<(), ShardError> {
        self.batch_since.get_or_insert_with(Instant::now);
        // What has ended was sent before.
        while let Some(sent) = self.manners.sent_before() {
            self.note_sent(&sent);
        }
        match done {
            Done::Page(page) => self.take_page(*page),
            Done::Robots(robots) => self.take_robots(*robots),
            Done::Errand(errand) => self.take_errand(*errand),
        }
    }

    fn take_page(&mut self, done: PageDone) -> Result<(), ShardError> {
        self.pages_in_flight -= 1;
        self.batch_pages += 1;
        if let Err((Failure::Refused, text)) = &done.outcome {
            // Nothing was sent, and nothing of the host could be.
            self.frontier.fetched(done.ended_ms, done.order.lease, Outcome::Returned);
            self.frontier.refuse_host(done.order.host, text);
            return Ok(());
        }
        let status = done.outcome.as_ref().ok().map(|product| product.status);
        self.totals.answered(status);
        self.rates.push_back((Instant::now(), 1));
        let outcome = self.outcome(&done);
        let ending = self.frontier.fetched(done.ended_ms, done.order.lease, outcome);
        self.note_end(done.order.host, done.ended_ms);
        if let Ok(product) = &done.outcome {
            self.take_back(&product.lent, done.ended_ms);
        }
        self.note_page(&done, ending);
        if let Some(prepared) = &done.prepared {
            self.writer.append(prepared)?;
        }
        let PageDone { order, outcome, session, .. } = done;
        self.put_session(order.host, session);
        if let Ok(product) = outcome {
            self.take_product(&order, product);
        }
        Ok(())
    }

    /// A request of a host ended. Its gap is the one that a robots.txt may just have asked for.
    pub(super) fn note_end(&mut self, host: u32, ended_ms: u64) {
        let (lead, gap_ms) = self.frontier.pace_of(host);
        self.manners.ended(lead, ended_ms, gap_ms);
    }

    fn outcome(&mut self, done: &PageDone) -> Outcome {
        match &done.outcome {
            Err((failure, _)) => Outcome::Failed(*failure),
            Ok(product) => {
                let known = done.known.as_ref();
                let is_same = product.status == 304
                    || known.is_some_and(|known| known.digest == product.digest);
                if is_same {
                    self.totals.unchanged += 1;
                }
                self.totals.wire_bytes += product.wire_bytes;
                self.totals.body_bytes += product.body_bytes;
                self.totals.render_ms += product.render_ms;
                if product.status == 200 && product.body_bytes > 0 && !is_same {
                    if self.digests.len() >= DIGESTS_MAX {
                        self.digests.clear();
                    }
                    if !self.digests.insert(product.digest) {
                        self.totals.duplicates += 1;
                    }
                }
                Outcome::Answer(Answer {
                    status: product.status,
                    retry_after_ms: product.retry_after_ms,
                    is_changed: !is_same,
                    interval_ms: known.and_then(|known| known.interval_ms),
                    simhash: product.simhash,
                })
            }
        }
    }

    /// The state of the address for the store, and its row for people.
    fn note_page(&mut self, done: &PageDone, ending: Ending) {
        let order = &done.order;
        let known = done.known.clone().unwrap_or_default();
        let Some((end, interval_ms)) = kept(ending, known.interval_ms) else { return };
        if end == PageEnd::Dead {
            self.dead += 1;
        }
        let product = done.outcome.as_ref().ok();
        let is_fresh = product.is_some_and(|product| product.status != 304);
        let digest = product.filter(|_| is_fresh).map_or(known.digest, |product| product.digest);
        let has_changed = done.known.is_some() && digest != known.digest;
        let validators = match product.filter(|_| is_fresh) {
            Some(product) => product.validators.clone(),
            None => known.validators,
        };
        let reason = done.outcome.as_ref().err().map(|(_, text)| text.clone());
        let state = PageState {
            fingerprint: order.fingerprint,
            host: order.host,
            path: order.url[order.path_at..].to_owned(),
            end,
            status: product.map_or(0, |product| product.status),
            fetched_ms: done.ended_ms,
            depth: order.depth,
            attempts: order.attempt,
            digest,
            changes: known.changes + u32::from(has_changed),
            interval_ms,
            etag: validators.etag,
            last_modified: validators.last_modified,
            reason: reason.clone(),
        };
        self.batch.pages.push(state);
        let note = reason.or_else(|| product.and_then(|product| product.title.clone()));
        self.tail.push_front(PageRow {
            at_ms: done.ended_ms,
            url: order.url.clone(),
            status: product.map_or(0, |product| product.status),
            bytes: product.map_or(0, |product| product.body_bytes),
            ms: done.ended_ms.saturating_sub(done.began_ms),
            note: note.unwrap_or_default().chars().take(NOTE_LEN_MAX).collect(),
        });
        self.tail.truncate(PAGES_SHOWN);
    }

    /// Follows links, redirects and the lists of sitemaps.
    fn take_product(&mut self, order: &divvy_frontier::frontier::Order, product: Product) {
        let depth = order.depth.saturating_add(1);
        if let Some(target) = product.redirect {
            let hops = order.hops.saturating_add(1);
            self.found(&target, order.depth, hops, order.is_sitemap);
        }
        for page in product.listed.pages {
            self.found(&page, depth, 0, false);
        }
        for sitemap in product.listed.sitemaps {
            self.found(&sitemap, order.depth, order.hops.saturating_add(1), true);
        }
        for link in product.links {
            self.totals.links += 1;
            if product.is_nofollow || link.is_nofollow() {
                self.totals.refuse("nofollow");
            } else {
                self.found(&link.url, depth, 0, false);
            }
        }
    }

    /// An address was found: it is queued here, sent to the shard that owns it, or refused by a rule.
    pub(super) fn found(&mut self, address: &Address, depth: u8, hops: u8, is_sitemap: bool) {
        if !self.scope.contains(address) {
            return self.totals.refuse("scope");
        }
        if let Some(trap) = self.gear.addresses.trap(address, depth.into()) {
            return self.totals.refuse(trap.rule());
        }
        let link = Link {
            host: address.origin(),
            domain: address.registrable(),
            path: address.path_and_query(),
            depth,
            hops,
            is_sitemap,
        };
        let owner = self.places.of_domain(link.domain);
        if owner == self.place.shard {
            self.offer(address, &link);
        } else {
            self.outbox.entry(owner).or_default().push(travelling(address, &link));
            self.batch_since.get_or_insert_with(Instant::now);
        }
    }

    /// An address of a host of this shard was found, here or elsewhere.
    pub(super) fn offer(&mut self, address: &Address, link: &Link<'_>) {
        if self.control.blocks(address.host_key()) {
            return self.totals.refuse("blocked");
        }
        let now_ms = self.clock.now_ms();
        match self.frontier.discover(now_ms, link) {
            Discovery::Queued => drop(self.batch_since.get_or_insert_with(Instant::now)),
            Discovery::Ask => {
                self.batch_since.get_or_insert_with(Instant::now);
                self.asks.push(travelling(address, link));
            }
            Discovery::Refused(why) => self.refused(why),
        }
    }

    /// Counts why the frontier did not take a link.
    pub(super) fn refused(&mut self, why: divvy_frontier::frontier::Refusal) {
        use divvy_frontier::frontier::Refusal;
        self.totals.refuse(match why {
            Refusal::Seen => "seen",
            Refusal::TooDeep => "depth_max",
            Refusal::TooManyHops => "hops_max",
            Refusal::TooLong => "bytes_max",
            Refusal::HostBudget => "host_pages",
            Refusal::DomainBudget => "domain_budget",
            Refusal::TooManyHosts => "hosts_max",
        });
    }

    /// Keeps the connection of a host while it has work soon.
    pub(super) fn put_session(&mut self, host: u32, mut session: Session) {
        let delay = Duration::from_millis(self.spec.rules.delay_ms);
        session.rest(delay, self.gear.fetcher.limits());
        if session.is_open() && self.sessions.len() < SESSIONS_MAX {
            self.sessions.insert(host, session);
        }
    }
}

/// A link that is kept, or sent to another shard.
fn travelling(address: &Address, link: &Link<'_>) -> Travelling {
    let Link { depth, hops, is_sitemap, .. } = *link;
    Travelling { depth, hops, is_sitemap, ..Travelling::seed(address.as_str()) }
}

/// What is kept of how a fetch ended, and the interval after which the page is looked at again. What was learnt of its pace
/// before a failure counts again when it is back.
fn kept(ending: Ending, interval_ms: Option<u64>) -> Option<(PageEnd, Option<u64>)> {
    match ending {
        Ending::Done { interval_ms } => Some((PageEnd::Done, interval_ms)),
        Ending::Again { .. } => Some((PageEnd::Failing, interval_ms)),
        Ending::Dead => Some((PageEnd::Dead, interval_ms)),
        Ending::Returned | Ending::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_does_not_change_how_often_a_page_is_looked_at() {
        let table = [
            (Ending::Done { interval_ms: Some(5) }, Some((PageEnd::Done, Some(5)))),
            (Ending::Done { interval_ms: None }, Some((PageEnd::Done, None))),
            (Ending::Again { due_ms: 9 }, Some((PageEnd::Failing, Some(7)))),
            (Ending::Dead, Some((PageEnd::Dead, Some(7)))),
            (Ending::Returned, None),
        ];
        for (ending, expected) in table {
            assert_eq!(kept(ending, Some(7)), expected, "{ending:?}");
        }
    }
}
