//! Requests end: what follows for the address, for its host, and for those that waited for it.

use std::sync::Arc;
use std::time::Duration;

use divvy_guard::breaker::{Breaker, Settings};

use super::entry::Entry;
use super::host::{NOBODY, Open, Robots};
use super::table::Spot;
use super::{
    Answer, Ending, Frontier, Later, Lease, Outcome, Park, RobotsAnswer, TROUBLE_BYTES_MAX,
};
use crate::rules::priority;
use crate::rules::retry::{Failure, Verdict, is_failure};

/// How many hosts are looked at for robots rules to drop, for each that come.
const DROP_LOOKS_MAX: u32 = 1_024;
/// Failures that a breaker is told of; its time has long ceased to grow then.
const FAILURES_TOLD_MAX: u32 = 64;
/// How much longer than asked a breaker stays open, by chance.
const OPEN_JITTER: f64 = 0.2;

impl Frontier {
    /// The request of a lease goes out only now; the gap to the next one counts from here too. Where a host may have
    /// several requests in flight, none is handed out before the last one is sent, or two of them might be sent at once.
    pub fn sent(&mut self, now_ms: u64, lease: Lease) {
        if !self.is_open(lease) || !self.hosts[lease.host].mark_sent(lease.serial) {
            return;
        }
        let (lead, twin) = (self.lead(lease.host), self.hosts[lease.host].twin);
        self.hosts[lead].unsent -= 1;
        self.begin_gap(now_ms, lease.host);
        self.schedule(lease.host);
        if twin != NOBODY {
            self.schedule(twin);
        }
    }

    /// A request ended: `now_ms` is when the last byte of the answer came.
    pub fn fetched(&mut self, now_ms: u64, lease: Lease, outcome: Outcome) -> Ending {
        let Some(open) = self.close(lease) else { return Ending::Unknown };
        let number = lease.host;
        let Some(packed) = open.entry.clone() else {
            // A robots.txt that was not asked for after all.
            self.release(now_ms, number, Some(&open));
            return Ending::Returned;
        };
        self.pages_in_flight -= 1;
        let (entry, _) = Entry::unpack(&packed).expect("entries are looked at when they come in");
        let ending = match outcome {
            Outcome::Returned => Ending::Returned,
            Outcome::Answer(answer) => self.answered(now_ms, number, &entry, &answer),
            Outcome::Failed(failure) => self.failed(now_ms, number, &entry, failure),
        };
        if ending == Ending::Returned {
            self.hosts[number].open(Open::waiting(packed));
            self.release(now_ms, number, Some(&open));
        } else {
            self.touch(number);
            self.release(now_ms, number, None);
        }
        ending
    }

    /// What is known of a robots.txt now.
    pub fn robots(&mut self, now_ms: u64, lease: Lease, answer: RobotsAnswer) {
        let Some(open) = self.close(lease) else { return };
        self.learn_robots(now_ms, lease.host, &answer);
        self.release(now_ms, lease.host, (!answer.was_requested).then_some(&open));
        self.bound_robots(lease.host);
    }

    pub(super) fn learn_robots(&mut self, now_ms: u64, number: u32, answer: &RobotsAnswer) {
        self.forget_robots(number);
        self.hosts[number].change(|rare| rare.led_until_ms = 0);
        match (&answer.permission, self.rules.gap_ms(answer.delay_ms)) {
            (None, _) => self.lack_robots(now_ms, number, answer),
            (Some(_), None) => self.hosts[number].parked = Some(Park::CrawlDelay),
            (Some(_), Some(gap_ms)) => {
                self.hosts[number].gap_ms = u32::try_from(gap_ms).unwrap_or(u32::MAX);
                self.hosts[number].change(|rare| rare.trouble = None);
                if answer.was_requested {
                    self.succeed(now_ms, number);
                }
            }
        }
        self.hosts[number].robots = self.robots.add(Robots {
            permission: answer.permission.as_ref().map(Arc::clone),
            until_ms: answer.until_ms,
            bytes: answer.bytes,
        });
        self.robots_bytes += u64::from(answer.bytes);
        self.touch(number);
    }

    /// A host may not be asked at all, for this reason: it is parked until [`Frontier::retry`].
    pub fn refuse_host(&mut self, host: u32, text: &str) {
        self.hosts[host].change(|rare| rare.trouble = Some(cut(text)));
        self.hosts[host].parked.get_or_insert(Park::Refused);
        self.touch(host);
    }

    /// Robots rules of a host that has nothing to do are dropped; the store has them.
    pub(super) fn drop_robots_when_idle(&mut self, number: u32) {
        let host = &self.hosts[number];
        let is_idle = !host.has_work(&self.pieces) && host.opened().is_empty();
        if is_idle && self.robots.get(host.robots).is_some_and(|robots| robots.bytes > 0) {
            self.forget_robots(number);
        }
    }

    pub(super) fn forget_robots(&mut self, number: u32) {
        let spot = std::mem::replace(&mut self.hosts[number].robots, Spot::NONE);
        if let Some(robots) = self.robots.take(spot) {
            self.robots_bytes -= u64::from(robots.bytes);
        }
    }

    fn answered(&mut self, now_ms: u64, number: u32, entry: &Entry<'_>, answer: &Answer) -> Ending {
        let (status, wait) = (answer.status, answer.retry_after_ms);
        let attempt = entry.failed + 1;
        let rules = &self.rules.retry;
        let verdict = rules.after_status(status, wait, attempt, now_ms, &mut self.random);
        self.judge(now_ms, number, status, wait);
        if let Some(simhash) = answer.simhash {
            self.brake(number, simhash);
        }
        if verdict != Verdict::Done {
            return self.settle(now_ms, number, entry, verdict);
        }
        self.pages += 1;
        let host = &mut self.hosts[number];
        host.pages += 1;
        host.finished += 1;
        let rules = self.rules.recrawl.filter(|_| matches!(status, 200..=299 | 304));
        let interval_ms =
            rules.map(|rules| rules.interval_ms(answer.interval_ms, answer.is_changed));
        if let Some(interval_ms) = interval_ms {
            let entry = Entry { failed: 0, is_known: true, ..*entry };
            let due_ms = now_ms.saturating_add(interval_ms);
            self.put_off(number, &entry, due_ms, priority::of_known(Some(interval_ms)));
        }
        Ending::Done { interval_ms }
    }

    fn failed(&mut self, now_ms: u64, number: u32, entry: &Entry<'_>, failure: Failure) -> Ending {
        let attempt = entry.failed + 1;
        let rules = &self.rules.retry;
        let verdict = rules.after_failure(failure, attempt, now_ms, &mut self.random);
        self.blame(now_ms, number, failure);
        self.settle(now_ms, number, entry, verdict)
    }

    /// What an answer says of its host, whatever was asked for.
    pub(super) fn judge(&mut self, now_ms: u64, number: u32, status: u16, wait_ms: Option<u64>) {
        if let Some(until_ms) = self.rules.retry.host_rests_until(status, wait_ms, now_ms) {
            let lead = self.lead(number);
            self.hosts[lead].change(|rare| rare.rest_until_ms = until_ms.max(rare.rest_until_ms));
            self.touch(lead);
        }
        if is_failure(status) {
            self.fail(now_ms, number, 1);
        } else {
            self.succeed(now_ms, number);
        }
    }

    /// What the lack of an answer says of the host.
    pub(super) fn blame(&mut self, now_ms: u64, number: u32, failure: Failure) {
        match failure {
            Failure::Forbidden | Failure::Refused => {}
            Failure::TimedOut | Failure::Connection => self.fail(now_ms, number, 1),
            Failure::NoSuchName | Failure::Tls => self.fail_by_name(now_ms, number),
        }
    }

    /// Nothing is fetched from a host whose robots.txt cannot be had. It is tried again, later and later, and given up like
    /// a host whose pages fail.
    fn lack_robots(&mut self, now_ms: u64, number: u32, answer: &RobotsAnswer) {
        let missing = answer.missing.as_ref();
        self.hosts[number].change(|rare| {
            rare.open_until_ms = answer.until_ms.max(rare.open_until_ms);
            let known = rare.trouble.take();
            let text = missing.map(|missing| cut(&missing.text)).or(known);
            rare.trouble = Some(text.unwrap_or_else(|| "it was not answered".into()));
        });
        match missing.and_then(|missing| missing.failure) {
            _ if !answer.was_requested => {}
            Some(Failure::Refused) => drop(self.hosts[number].parked.get_or_insert(Park::Refused)),
            Some(Failure::NoSuchName | Failure::Tls) => self.fail_by_name(now_ms, number),
            Some(_) | None => self.fail(now_ms, number, 1),
        }
    }

    /// What follows for an address that failed.
    fn settle(&mut self, now_ms: u64, number: u32, entry: &Entry<'_>, verdict: Verdict) -> Ending {
        match verdict {
            Verdict::Again { due_ms } => {
                let entry = Entry { failed: entry.failed + 1, ..*entry };
                self.put_off(number, &entry, due_ms.max(now_ms), priority::of_known(None));
                Ending::Again { due_ms }
            }
            Verdict::Done | Verdict::Dead => {
                self.hosts[number].finished += 1;
                Ending::Dead
            }
        }
    }

    fn put_off(&mut self, number: u32, entry: &Entry<'_>, due_ms: u64, band: u8) {
        let fingerprint = self.fingerprint_of(self.name_of(number), entry.path);
        let entry = entry.packed().into_vec();
        self.pending
            .later
            .insert(fingerprint, Later { fingerprint, due_ms, host: number, band, entry });
    }

    fn brake(&mut self, number: u32, simhash: u64) {
        let rules = self.rules.brake;
        let budget = self.budget_of(&self.hosts[number]);
        let host = &mut self.hosts[number];
        match host.brake.page(simhash, &rules) {
            Some(true) if !host.is_braked => {
                host.is_braked = true;
                let left = budget.saturating_sub(host.used);
                let budget = host.used + left / rules.budget_divisor.max(1);
                host.change(|rare| rare.budget = Some(budget));
            }
            Some(false) => host.is_braked = false,
            Some(true) | None => {}
        }
    }

    /// Every address of the host would end so. Two such failures in a row park it.
    fn fail_by_name(&mut self, now_ms: u64, number: u32) {
        let until_ms = now_ms.saturating_add(self.rules.retry.name_wait_ms);
        self.hosts[number].change(|rare| rare.open_until_ms = until_ms.max(rare.open_until_ms));
        self.fail(now_ms, number, self.rules.retry.park_failures.div_ceil(2));
    }

    /// So many failures speak against the host. A crawl that comes to an end gives it up in the end; one that looks at
    /// pages again and again tries it on.
    fn fail(&mut self, now_ms: u64, number: u32, weight: u32) {
        let wait_ms = self.breaker_wait_ms(number, weight);
        let host = &mut self.hosts[number];
        let failures = host.change(|rare| {
            rare.failures = rare.failures.saturating_add(u16::try_from(weight).unwrap_or(u16::MAX));
            if wait_ms > 0 {
                rare.open_until_ms = now_ms.saturating_add(wait_ms).max(rare.open_until_ms);
            }
            rare.failures
        });
        let is_too_often = u32::from(failures) >= self.rules.retry.park_failures;
        if is_too_often && self.rules.recrawl.is_none() {
            host.parked.get_or_insert(Park::Unreachable);
        }
    }

    fn succeed(&mut self, now_ms: u64, number: u32) {
        let rare = self.hosts[number].rare();
        if rare.failures == 0 && rare.rest_until_ms == 0 && rare.open_until_ms == 0 {
            return;
        }
        self.hosts[number].change(|rare| {
            rare.failures = 0;
            // What is over need not be remembered.
            for until_ms in [&mut rare.open_until_ms, &mut rare.rest_until_ms] {
                *until_ms = if *until_ms > now_ms { *until_ms } else { 0 };
            }
        });
    }

    /// For how long a breaker keeps requests away from a host that fails so many times now. A breaker is a hundred times as
    /// large as what it knows of a host, which is how often it failed in a row, so it is made anew and told of these
    /// failures: each a probe that came long after the last one.
    fn breaker_wait_ms(&self, number: u32, weight: u32) -> u64 {
        let rules = &self.rules.retry;
        let open_ms = rules.breaker_open_ms.max(1);
        let open_ms_max = rules.cap_ms.max(open_ms);
        let settings = Settings {
            consecutive_failures: Some(rules.breaker_failures.max(1)),
            open_for: Duration::from_millis(open_ms),
            open_factor: 2.0,
            open_for_max: Duration::from_millis(open_ms_max),
            open_jitter: OPEN_JITTER,
            probe_timeout: None,
            seed: self.salt ^ u64::from(number),
            ..Settings::for_quick_recovery()
        };
        let Ok(breaker) = Breaker::new(settings) else { return 0 };
        let long = Duration::from_millis(open_ms_max.saturating_mul(2));
        let before = u32::from(self.hosts[number].rare().failures).min(FAILURES_TOLD_MAX);
        (0..before).for_each(|n| fail_at(&breaker, long * n));
        let now = long * before;
        (0..weight).for_each(|_| fail_at(&breaker, now));
        let refused = breaker.check(now).err().and_then(|refused| refused.retry_after);
        refused.map_or(0, |left| left.as_millis() as u64 + 1)
    }

    fn is_open(&self, lease: Lease) -> bool {
        let is_known = lease.serial > 0 && (lease.host as usize) < self.hosts.len();
        is_known && self.hosts[lease.host].opened().iter().any(|open| open.serial == lease.serial)
    }

    pub(super) fn close(&mut self, lease: Lease) -> Option<Open> {
        if !self.is_open(lease) {
            return None;
        }
        let open = self.hosts[lease.host].close(lease.serial)?;
        let lead = self.lead(lease.host);
        self.hosts[lead].unsent -= u8::from(!open.is_sent);
        Some(open)
    }

    /// The host may be asked again after its gap, and those that waited for it may go on. What was not sent costs no
    /// gap.
    pub(super) fn release(&mut self, now_ms: u64, number: u32, unsent: Option<&Open>) {
        self.in_flight -= 1;
        let lead = self.lead(number);
        let (twin, group) = (self.hosts[number].twin, self.hosts[number].group);
        match unsent {
            None => self.begin_gap(now_ms, number),
            Some(open) => {
                let host_ms = &mut self.hosts[lead].next_at_ms;
                if *host_ms == open.after_ms.0 {
                    *host_ms = open.before_ms.0;
                }
                let group_ms = &mut self.groups[group].next_at_ms;
                if *group_ms == open.after_ms.1 {
                    *group_ms = open.before_ms.1;
                }
            }
        }
        self.hosts[lead].in_flight -= 1;
        self.groups[group].in_flight -= 1;
        self.schedule(number);
        if twin != NOBODY {
            self.schedule(twin);
        }
        self.drop_robots_when_idle(number);
        self.send_runner(now_ms, group);
    }

    pub(super) fn begin_gap(&mut self, now_ms: u64, number: u32) {
        let until_ms = now_ms.saturating_add(self.gap_ms(number));
        let lead = self.lead(number);
        let next_at_ms = &mut self.hosts[lead].next_at_ms;
        *next_at_ms = until_ms.max(*next_at_ms);
    }

    /// When robots rules take too much memory, those of hosts that wait are dropped, in turn.
    pub(super) fn bound_robots(&mut self, but: u32) {
        let hosts = self.hosts.len() as u32;
        for _ in 0..DROP_LOOKS_MAX {
            if self.robots_bytes <= self.rules.robots_bytes_max {
                return;
            }
            self.robots_hand = (self.robots_hand + 1) % hosts;
            let number = self.robots_hand;
            if number != but && self.hosts[number].opened().is_empty() {
                self.forget_robots(number);
            }
        }
    }
}

/// As much of a text as is kept.
fn cut(text: &str) -> Box<str> {
    text[..text.floor_char_boundary(TROUBLE_BYTES_MAX)].into()
}

/// A call failed. It is let in only to tell that: whether it might go out was decided before.
fn fail_at(breaker: &Breaker, now: Duration) {
    if let Ok(permit) = breaker.admit(now) {
        permit.failure(now);
    }
}
