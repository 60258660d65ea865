//! When a page is looked at again.
//!
//! The interval halves when the page has changed and grows by half when it has not, within bounds: the rule by which a
//! crawler follows a page's own pace without knowing it (J. Cho and H. Garcia-Molina, *Effective Page Refresh Policies for
//! Web Crawlers*, 2003, compare it with better-informed ones). A page that was fetched once begins with
//! [`Rules::first_ms`].

/// Bounds of the intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rules {
    /// The interval after the first fetch.
    pub first_ms: u64,
    /// The shortest.
    pub interval_ms_min: u64,
    /// The longest.
    pub interval_ms_max: u64,
}

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

impl Default for Rules {
    fn default() -> Self {
        Self { first_ms: DAY_MS, interval_ms_min: HOUR_MS, interval_ms_max: 90 * DAY_MS }
    }
}

impl Rules {
    /// The interval after this fetch: `before` is the one that has just passed, nothing at the first fetch.
    pub fn interval_ms(&self, before: Option<u64>, changed: bool) -> u64 {
        let next = match before {
            None => self.first_ms,
            Some(interval) if changed => interval / 2,
            Some(interval) => interval.saturating_add(interval / 2),
        };
        next.clamp(self.interval_ms_min, self.interval_ms_max.max(self.interval_ms_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_page_within_an_hour_and_ninety_days() {
        let rules = Rules::default();
        assert_eq!(rules.interval_ms(None, true), DAY_MS);
        assert_eq!(rules.interval_ms(Some(DAY_MS), true), DAY_MS / 2);
        assert_eq!(rules.interval_ms(Some(DAY_MS), false), DAY_MS * 3 / 2);
        assert_eq!(rules.interval_ms(Some(HOUR_MS), true), HOUR_MS);
        assert_eq!(rules.interval_ms(Some(80 * DAY_MS), false), 90 * DAY_MS);
        assert_eq!(rules.interval_ms(Some(u64::MAX), false), 90 * DAY_MS);
    }
}
