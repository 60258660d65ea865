//! Signatures that are still to be filled.
use super::*;

impl Frontier {
    /// A frontier without hosts. `salt` is what addresses are hashed with and stays the same for as long as the crawl
    /// lives; `seed` is where jitter comes from.
    pub fn new(rules: Rules, seen: Seen, salt: u64, seed: u64) -> Self {
        unimplemented!()
    }
    /// A frontier as it was when these records were committed. If the last owner did not close cleanly, every host
    /// waits a whole gap from now. `finished` is the number of addresses whose fetch ended before.
    pub fn restore(rules: Rules, seen: Seen, salt: u64, seed: u64, hosts: Vec<HostRecord>, was_clean: bool, now_ms: u64) -> Result<Self, Damaged> {
        unimplemented!()
    }
    /// The key of an address in the store.
    pub fn fingerprint(&self, link: &Link<'_>) -> u64 {
        unimplemented!()
    }
    /// A link was found.
    pub fn discover(&mut self, now_ms: u64, link: &Link<'_>) -> Discovery {
        unimplemented!()
    }
    /// A link that was answered with [`Discovery::Ask`], and that the store does not have.
    pub fn admit(&mut self, now_ms: u64, link: &Link<'_>) -> Discovery {
        unimplemented!()
    }
    /// What the store has that is due now. What was given already and is not committed yet is passed over.
    pub fn again(&mut self, now_ms: u64, later: &Later) {
        unimplemented!()
    }
    /// What is to be done next.
    pub fn next(&mut self, now_ms: u64) -> Next {
        unimplemented!()
    }
    /// The entries that a [`Next::Load`] asked for.
    pub fn loaded(&mut self, now_ms: u64, order: &LoadOrder, blocks: &[Block]) -> Result<(), Damaged> {
        unimplemented!()
    }
    /// The request of a lease goes out only now; the gap to the next one counts from here too.
    pub fn sent(&mut self, now_ms: u64, lease: Lease) {
        unimplemented!()
    }
    /// A request ended: `now_ms` is when the last byte of the answer came.
    pub fn fetched(&mut self, now_ms: u64, lease: Lease, outcome: Outcome) -> Ending {
        unimplemented!()
    }
    /// What is known of a robots.txt now.
    pub fn robots(&mut self, now_ms: u64, lease: Lease, answer: RobotsAnswer) {
        unimplemented!()
    }
    /// A host gets no requests until [`Frontier::unpark`]. One that is not known is refused when it comes.
    pub fn park(&mut self, host: &str, why: Park) -> bool {
        unimplemented!()
    }
    /// A parked or resting host is asked again: its failures are forgotten. Its gap is kept.
    pub fn unpark(&mut self, now_ms: u64, host: &str) -> bool {
        unimplemented!()
    }
    /// A host gets no requests before this time.
    pub fn rest(&mut self, host: &str, until_ms: u64) -> bool {
        unimplemented!()
    }
    /// Whether an address would be fetched, when, and which rule decides. Whether it was seen is for the store.
    pub fn explain(&self, now_ms: u64, link: &Link<'_>) -> Explanation {
        unimplemented!()
    }
    /// How many of what there are. Looks at every host.
    pub fn counts(&self, now_ms: u64) -> Counts {
        unimplemented!()
    }
    /// The hosts with the most queued addresses first, at most `limit`. Looks at every host.
    pub fn hosts(&self, limit: usize) -> Vec<HostView> {
        unimplemented!()
    }
    /// One host.
    pub fn host(&self, name: &str) -> Option<HostView> {
        unimplemented!()
    }
    /// What must be made durable since it was last asked.
    pub fn changes(&mut self) -> Changes {
        unimplemented!()
    }
    /// What was seen: how full the filter is, and what it loses.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }
}
/// A record that the store gave back is not what the frontier wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of {subject} cannot be read: {problem}")]
pub struct Damaged {
    /// Of what.
    pub subject: String,
    /// What is wrong.
    pub problem: &'static str,
}
