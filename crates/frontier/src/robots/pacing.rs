//! What a Crawl-delay means for the pace of a host. RFC 9309 does not know it, yet hosts mean it.
//!
//! It is never taken for less than it says: between the least delay of the crawl and the longest that the crawl puts up with
//! the host is paced by it, however few pages come of that; a host that asks for more is parked, and told of.

use serde::{Deserialize, Serialize};

/// Which delays a crawl keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// The least delay between two requests of a host.
    pub delay_ms_min: u64,
    /// The longest Crawl-delay that a host is paced by.
    pub delay_ms_max: u64,
}

/// How a host is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At most one request in so many milliseconds.
    Every(u64),
    /// No requests: the host asks for a longer delay than the crawl puts up with.
    Park {
        /// What it asks for.
        asked_ms: u64,
    },
}

impl Default for Pacing {
    /// A second at least; parked above five minutes.
    fn default() -> Self {
        Self { delay_ms_min: 1_000, delay_ms_max: 300_000 }
    }
}

impl Pacing {
    /// The pace for a host that asks for this Crawl-delay, or for none.
    pub fn pace(&self, asked_ms: Option<u64>) -> Pace {
        match asked_ms {
            Some(asked_ms) if asked_ms > self.delay_ms_max.max(self.delay_ms_min) => {
                Pace::Park { asked_ms }
            }
            asked => Pace::Every(asked.unwrap_or(0).max(self.delay_ms_min)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_kept_from_the_floor_to_the_longest_and_then_parks() {
        let pacing = Pacing { delay_ms_min: 1_000, delay_ms_max: 300_000 };
        assert_eq!(pacing.pace(None), Pace::Every(1_000));
        assert_eq!(pacing.pace(Some(200)), Pace::Every(1_000));
        assert_eq!(pacing.pace(Some(59_000)), Pace::Every(59_000));
        assert_eq!(pacing.pace(Some(300_000)), Pace::Every(300_000), "paced, not ignored");
        assert_eq!(pacing.pace(Some(300_001)), Pace::Park { asked_ms: 300_001 });
        let slow = Pacing { delay_ms_min: 600_000, delay_ms_max: 300_000 };
        assert_eq!(slow.pace(Some(400_000)), Pace::Every(600_000), "the crawl is slower still");
    }
}
