//! Whether requests were sent when they might be: told by the requests themselves, at the moment at which they are written,
//! and held against when earlier requests of the host were written and ended. The frontier keeps the gap; this only looks,
//! with times of its own, so that a fault of the frontier, or a request that was held up and overtaken, is seen.

use std::collections::HashMap;

use divvy_frontier::frontier::Lease;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What requests tell of themselves.
pub(super) struct Manners {
    /// By the host whose gap counts.
    paces: HashMap<u32, Pace>,
    tell: mpsc::Sender<Sent>,
    told: mpsc::Receiver<Sent>,
}

/// When a host may be asked again, after what was last written to it and after what last ended.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    after_sent_ms: u64,
    after_end_ms: u64,
}

/// A request that was written.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) lease: Lease,
    pub(super) host: u32,
    /// Since when it was allowed, as of its hand-out.
    allowed_at_ms: u64,
    /// When it was written.
    pub(super) at: Instant,
}

impl Manners {
    /// For so many requests in flight at once.
    pub(super) fn new(in_flight_max: usize) -> Self {
        let (tell, told) = mpsc::channel(in_flight_max);
        Self { paces: HashMap::new(), tell, told }
    }

    /// A request is handed out. It calls what this gives when it is written.
    pub(super) fn hand_out(
        &self,
        lead: u32,
        host: u32,
        lease: Lease,
        allowed_at_ms: u64,
    ) -> impl FnOnce(Instant) + Send + 'static {
        let pace = self.paces.get(&lead).copied().unwrap_or_default();
        let allowed_at_ms = allowed_at_ms.max(pace.after_end_ms);
        let tell = self.tell.clone();
        move |at| {
            // Each request in flight has its place in the channel.
            let _ = tell.try_send(Sent { lease, host, allowed_at_ms, at });
        }
    }

    /// The next request that is written.
    pub(super) async fn sent(&mut self) -> Sent {
        match self.told.recv().await {
            Some(sent) => sent,
            None => std::future::pending().await,
        }
    }

    /// One that was written already.
    pub(super) fn sent_before(&mut self) -> Option<Sent> {
        self.told.try_recv().ok()
    }

    /// How much later than it was allowed a request was written; less than 0 if it was too early.
    pub(super) fn slack_ms(&mut self, lead: u32, sent: &Sent, at_ms: u64, gap_ms: u64) -> i64 {
        let pace = self.paces.entry(lead).or_default();
        let allowed_ms = sent.allowed_at_ms.max(pace.after_sent_ms);
        pace.after_sent_ms = at_ms.saturating_add(gap_ms);
        // A host that was never asked might have been asked since for ever.
        if allowed_ms == 0 { 0 } else { at_ms.cast_signed() - allowed_ms.cast_signed() }
    }

    /// A request of a host ended.
    pub(super) fn ended(&mut self, lead: u32, at_ms: u64, gap_ms: u64) {
        let pace = self.paces.entry(lead).or_default();
        pace.after_end_ms = pace.after_end_ms.max(at_ms.saturating_add(gap_ms));
    }

    /// Forgets hosts that may be asked anyhow.
    pub(super) fn forget(&mut self, now_ms: u64) {
        self.paces.retain(|_, pace| pace.after_sent_ms.max(pace.after_end_ms) > now_ms);
    }
}

#[cfg(test)]
mod tests {
    use divvy_frontier::frontier::{Frontier, Link, Next};
    use divvy_frontier::rules::Rules;
    use divvy_frontier::seen::{Seen, Settings};

    use super::*;

    fn lease() -> Lease {
        let mut frontier = Frontier::new(Rules::default(), Seen::new(Settings::default()), 1, 1);
        let host = "http://a.test";
        let link = Link { host, domain: "a.test", path: "/", depth: 0, hops: 0, is_sitemap: false };
        frontier.discover(0, &link);
        match frontier.next(0) {
            Next::Robots(order) => order.lease,
            next => panic!("{next:?}"),
        }
    }

    #[test]
    fn a_request_that_is_written_too_early_is_seen_whatever_the_frontier_thought() {
        let (lease, at, gap_ms) = (lease(), Instant::now(), 1_000);
        let mut manners = Manners::new(4);
        let write = |manners: &mut Manners, allowed_at_ms, at_ms| {
            manners.hand_out(7, 8, lease, allowed_at_ms)(at);
            let sent = manners.sent_before().unwrap();
            assert_eq!((sent.lease, sent.host), (lease, 8));
            manners.slack_ms(7, &sent, at_ms, gap_ms)
        };
        assert_eq!(write(&mut manners, 0, 5_000), 0, "nobody asked it before");
        assert_eq!(write(&mut manners, 1, 5_400), -600, "too soon after the last was written");
        manners.ended(7, 9_000, gap_ms);
        assert_eq!(write(&mut manners, 1, 9_900), -100, "too soon after the last has ended");
        assert_eq!(write(&mut manners, 20_000, 20_003), 3);
        manners.forget(20_500);
        assert_eq!(manners.paces.len(), 1);
        manners.forget(30_000);
        assert!(manners.paces.is_empty());
    }

    /// Two requests in flight, of which the second was handed out before the first ended.
    #[test]
    fn the_end_of_an_answer_counts_for_those_that_are_handed_out_after_it() {
        let (lease, at) = (lease(), Instant::now());
        let mut manners = Manners::new(4);
        let second = manners.hand_out(7, 7, lease, 1_000);
        manners.ended(7, 1_500, 1_000);
        second(at);
        let sent = manners.sent_before().unwrap();
        assert_eq!(manners.slack_ms(7, &sent, 1_600, 1_000), 600);
    }
}
