//! What a crawl allows itself: delays, caps, budgets, and what follows from an outcome.
//!
//! Data and small pure functions. It knows neither queues nor hosts; [`crate::frontier`] applies it.
//! [`retry`] says what follows from a failure, [`recrawl`] when a page is looked at again, [`brake`] when a host repeats
//! itself, [`priority`] into which band an address goes.

pub mod brake;
pub mod priority;
pub mod recrawl;
pub mod retry;

/// The rules of one crawl, the same for all its hosts. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The least gap of a host: from request to request, and from the end of an answer to the next request.
    pub delay_ms: u64,
    /// The longest `Crawl-delay` that a host is paced by, however few pages come of that; a host that asks for more is
    /// parked, unless the crawl is slower still.
    pub robots_delay_ms_max: u64,
    /// Requests of one host in flight at once.
    pub per_host: u8,
    /// How many times what one host may all hosts of a registrable domain may together: so many times the requests in
    /// flight, and so much shorter a gap. 0 leaves domains without a limit of their own.
    pub domain_share: u32,
    /// Links from a seed at most.
    pub depth_max: u8,
    /// Pages of all hosts.
    pub pages_max: Option<u64>,
    /// Addresses of one host that are ever queued.
    pub host_budget: u32,
    /// Addresses of one registrable domain that are ever queued.
    pub domain_budget: u64,
    /// Hosts that are known at once; links to further ones are refused.
    pub hosts_max: u32,
    /// Queued addresses of one band of one host that are held in memory; the rest waits in the store.
    pub band_memory_max: u32,
    /// Queued addresses that are held in memory in all; above it, bands hold [`BAND_MEMORY_MIN`].
    pub memory_max: u64,
    /// Bytes of robots rules that are held in memory; above it, those of hosts that wait are dropped and asked for anew.
    pub robots_bytes_max: u64,
    /// What follows from failures.
    pub retry: retry::Rules,
    /// Whether and when pages are looked at again.
    pub recrawl: Option<recrawl::Rules>,
    /// When a host that repeats itself is slowed.
    pub brake: brake::Rules,
}

/// How many queued addresses of a band are held in memory even when memory is short.
pub const BAND_MEMORY_MIN: u32 = 16;

impl Default for Rules {
    fn default() -> Self {
        Self {
            delay_ms: 1_000,
            robots_delay_ms_max: 300_000,
            per_host: 1,
            domain_share: 4,
            depth_max: 32,
            pages_max: None,
            host_budget: 100_000,
            domain_budget: 1_000_000,
            hosts_max: 10_000_000,
            band_memory_max: 512,
            memory_max: 1_000_000,
            robots_bytes_max: 64 << 20,
            retry: retry::Rules::default(),
            recrawl: None,
            brake: brake::Rules::default(),
        }
    }
}

impl Rules {
    /// The gap of a host whose robots.txt asks for this delay, which is never taken for less than it says; nothing if it
    /// asks for so much that the host is parked.
    pub fn gap_ms(&self, robots_delay_ms: Option<u64>) -> Option<u64> {
        let gap_ms = self.delay_ms.max(robots_delay_ms.unwrap_or(0));
        (gap_ms <= self.robots_delay_ms_max.max(self.delay_ms)).then_some(gap_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_delay_is_kept_from_the_floor_to_the_longest_and_then_parks() {
        let rules = Rules::default();
        let table = [
            (None, Some(1_000)),
            (Some(0), Some(1_000)),
            (Some(5_000), Some(5_000)),
            (Some(60_000), Some(60_000)),
            (Some(61_000), Some(61_000)),
            (Some(300_000), Some(300_000)),
            (Some(300_001), None),
        ];
        for (asked, gap) in table {
            assert_eq!(rules.gap_ms(asked), gap, "{asked:?}");
        }
        let slow = Rules { delay_ms: 600_000, ..Rules::default() };
        assert_eq!(slow.gap_ms(Some(400_000)), Some(600_000), "the crawl is slower still");
    }
}
