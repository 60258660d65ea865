//! When a host repeats itself: the share of its last pages that look alike.
//!
//! Over windows of [`Rules::window`] pages it finds the bucket (of a page's SimHash) that holds the majority, with one
//! counter (R. Boyer and J. Moore, *MJRTY*, 1991): of `n` pages of which `c` are in one bucket, more than half, the
//! counter ends at `2c - n` or above only for that bucket, so the share is known from it. Four bytes for a host.

/// When it brakes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Pages of a window, at most 255.
    pub window: u8,
    /// The share of alike pages above which the host is braked; at least one half.
    pub share: f64,
    /// What is left of the budget of a braked host: one part in so many.
    pub budget_divisor: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { window: 200, share: 0.9, budget_divisor: 10 }
    }
}

/// The count of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brake {
    bucket: u16,
    weight: u8,
    pages: u8,
}

impl Brake {
    /// A page of this bucket came. Answers at the end of a window only: whether the host repeats itself.
    pub fn page(&mut self, bucket: u16, rules: &Rules) -> Option<bool> {
        if self.weight == 0 {
            self.bucket = bucket;
        }
        if self.bucket == bucket {
            self.weight += 1;
        } else {
            self.weight -= 1;
        }
        self.pages += 1;
        if self.pages < rules.window.max(1) {
            return None;
        }
        let pages = f64::from(self.pages);
        let alike = (f64::from(self.weight) + pages) / 2.0;
        *self = Self::default();
        Some(alike > rules.share * pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_pages_in_ten_may_be_alike_but_not_more() {
        let rules = Rules::default();
        for (alike, expected) in [(200, true), (181, true), (180, false), (100, false), (0, false)]
        {
            for seed in 0..5 {
                let mut pages: Vec<u16> =
                    (0..200).map(|page| if page < alike { 7 } else { 100 + page }).collect();
                fastrand::Rng::with_seed(seed).shuffle(&mut pages);
                let mut brake = Brake::default();
                let verdicts: Vec<bool> =
                    pages.iter().filter_map(|bucket| brake.page(*bucket, &rules)).collect();
                assert_eq!(verdicts, [expected], "{alike} alike, seed {seed}");
                assert_eq!(brake, Brake::default(), "the next window begins anew");
            }
        }
    }
}
