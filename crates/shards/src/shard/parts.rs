//! Other hosts from which a rendered page takes parts: whether they may be asked for them, and what they permit.
//!
//! A host that this shard owns is lent to the page if it is free and its gap is over, or will be soon; it is the page's until
//! that is made, and has its whole gap then. Of hosts that another shard owns this shard knows no turn: they are asked for
//! what they permit, and kept to that.
//!
//! A robots.txt that is not known is asked for in the time of the page, without redirects, and remembered for a while, as is
//! that there is none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{Lease, Loan, Outcome, Permission};
use divvy_frontier::robots::Standing;
use divvy_frontier::rules::retry::Failure;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::gear::Gear;
use super::robots::{self, meaning};
use super::{Owner, link_of};
use crate::fetch::Session;
use crate::folder::inbox::Travelling;
use crate::render::Others;

/// What a page may wait in all for turns of other hosts and for their robots.txt.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// Rules that are remembered of hosts whose copies are in no file, how large each may be, and for how long.
const KNOWN_MAX: usize = 512;
const KNOWN_BYTES_MAX: u32 = 64 << 10;
const KNOWN_MS: u64 = 10 * 60_000;
/// Questions that wait.
pub(super) const QUESTIONS_MAX: usize = 16;

/// What other hosts permit, and until when that holds.
pub(crate) type Known = Mutex<HashMap<String, (Option<Arc<dyn Permission>>, u64)>>;

/// A page asks whether it may ask the host of an address.
#[derive(Debug)]
pub(crate) struct Question {
    address: Address,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    /// It may, with what is known of the host. A host of this shard is lent.
    Yes { lent: Option<Lent>, permission: Option<Arc<dyn Permission>> },
    /// Not before this time.
    Later(u64),
}

/// A host that is lent to a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    lease: Lease,
    host: u32,
}

/// The other hosts of one page.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    gear: &'a Gear,
    lender: &'a mpsc::Sender<Question>,
    until: Instant,
    lent: Mutex<Vec<Lent>>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(gear: &'a Gear, lender: &'a mpsc::Sender<Question>) -> Self {
        Self { gear, lender, until: Instant::now() + WAIT_MAX, lent: Mutex::default() }
    }

    /// The hosts to give back, once the page is made.
    pub(crate) fn lent(self) -> Vec<Lent> {
        self.lent.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    async fn permission_of(&self, address: &Address) -> Option<Arc<dyn Permission>> {
        let known = loop {
            let (answer, answered) = oneshot::channel();
            let question = Question { address: address.clone(), answer };
            self.lender.send(question).await.ok()?;
            match answered.await.ok()? {
                Answer::Yes { lent, permission } => {
                    let mut all = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
                    all.extend(lent);
                    break permission;
                }
                Answer::Later(at_ms) => {
                    let at = self.gear.clock.at(at_ms);
                    if at > self.until {
                        return None;
                    }
                    sleep_until(at).await;
                }
            }
        };
        match known {
            Some(permission) => Some(permission),
            None => timeout_at(self.until, self.ask(address.origin())).await.ok()?,
        }
    }

    async fn ask(&self, origin: &str) -> Option<Arc<dyn Permission>> {
        let known = || self.gear.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.gear.clock.now_ms();
        if let Some((permission, until_ms)) = known().get(origin)
            && *until_ms > now_ms
        {
            return permission.clone();
        }
        let mut session = Session::default();
        let reply = robots::request(self.gear, &robots::place_of(origin), &mut session).await;
        let (mut standing, now_ms) = (Standing::default(), self.gear.clock.now_ms());
        reply.tell(&mut standing, now_ms, self.gear.agent.product());
        let answer = meaning(&standing, now_ms, now_ms, true);
        // One that is elsewhere permits nothing yet, and is not looked for there.
        let permission = answer.permission.filter(|_| standing.leads_to(now_ms).is_none());
        if answer.bytes <= KNOWN_BYTES_MAX {
            let mut known = known();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(origin.to_owned(), (permission.clone(), now_ms + KNOWN_MS));
        }
        permission
    }
}

impl Others for Parts<'_> {
    fn permission<'a>(
        &'a self,
        address: &'a Address,
    ) -> BoxFuture<'a, Option<Arc<dyn Permission>>> {
        Box::pin(self.permission_of(address))
    }
}

impl Owner {
    /// Answers a page. One that gets no answer does without the host.
    pub(super) fn lend(&mut self, question: Question) {
        let Question { address, answer } = question;
        if self.control.blocks(address.host_key()) {
            return;
        }
        if self.places.of(&address) != self.place.shard {
            let _ = answer.send(Answer::Yes { lent: None, permission: None });
            return;
        }
        let now_ms = self.clock.now_ms();
        let link = Travelling::seed(address.as_str());
        match self.frontier.borrow(now_ms, &link_of(&address, &link)) {
            Loan::Refused => {}
            Loan::Later(at_ms) => drop(answer.send(Answer::Later(at_ms))),
            Loan::Granted { lease, host } => {
                let lent = Lent { lease, host };
                let permission = self.known_permission(host, now_ms);
                if answer.send(Answer::Yes { lent: Some(lent), permission }).is_err() {
                    self.frontier.passed(now_ms, lease, Outcome::Returned);
                }
            }
        }
    }

    /// A page is made: the hosts that it was lent have their gaps.
    pub(super) fn take_back(&mut self, lent: &[Lent], ended_ms: u64) {
        for Lent { lease, host } in lent.iter().copied() {
            // Nobody told how they answered, which says nothing for or against them.
            self.frontier.passed(ended_ms, lease, Outcome::Failed(Failure::Forbidden));
            self.note_end(host, ended_ms);
        }
    }

    /// What the copy of a host's robots.txt permits, while it holds.
    fn known_permission(&self, host: u32, now_ms: u64) -> Option<Arc<dyn Permission>> {
        let copy = self.copy_of(host).ok().flatten()?;
        let standing: Standing = serde_json::from_str(&copy.about).ok()?;
        let is_fresh = !standing.is_due(now_ms) && standing.leads_to(now_ms).is_none();
        let answer = is_fresh.then(|| meaning(&standing, copy.fetched_ms, now_ms, false))?;
        answer.permission
    }
}
