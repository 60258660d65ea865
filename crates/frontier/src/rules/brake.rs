//! When a host repeats itself: the share of its last pages that are almost the same, as in a calendar without an end.
//!
//! Pages are compared by the SimHash of their texts: those that differ in few bits are almost the same (M. Charikar, 2002; G.
//! Manku and others, *Detecting near-duplicates for web crawling*, 2007). Over windows of [`Rules::window`] pages it finds the
//! page that the majority is like, with one counter (R. Boyer and J. Moore, *MJRTY*, 1991): of `n` pages of which `c` are alike,
//! more than half, the counter ends at `2c - n` or above only for one of those, so the share is known from it. A page
//! that stands at the edge of those that are alike makes the share seem smaller, never larger. Of a SimHash 48 bits are
//! enough for that, so that a host needs eight bytes.

/// When it brakes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Pages of a window, at most 255.
    pub window: u8,
    /// The share of alike pages above which the host is braked; at least one half.
    pub share: f64,
    /// Bits of 48 in which two pages may differ and still be alike.
    pub bits: u8,
    /// What is left of the budget of a braked host: one part in so many.
    pub budget_divisor: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { window: 200, share: 0.9, bits: 5, budget_divisor: 10 }
    }
}

/// The count of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brake {
    /// The beginning of the SimHash that others are compared with.
    like: [u8; 6],
    weight: u8,
    pages: u8,
}

impl Brake {
    /// A page with this SimHash came. Answers at the end of a window only: whether the host repeats itself.
    pub fn page(&mut self, simhash: u64, rules: &Rules) -> Option<bool> {
        let [a, b, c, d, e, f, ..] = simhash.to_be_bytes();
        let page = [a, b, c, d, e, f];
        if self.weight == 0 {
            self.like = page;
        }
        let differ = self.like.iter().zip(page).map(|(one, other)| (one ^ other).count_ones());
        if differ.sum::<u32>() <= u32::from(rules.bits) {
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
                let mut random = fastrand::Rng::with_seed(seed);
                let mut page = |page: u32| match page < alike {
                    // All within two bits of one, and so within four of each other.
                    true => (0..2)
                        .fold(0x0123_4567_89ab_cdef, |near: u64, _| near ^ 1 << random.u8(..64)),
                    false => random.u64(..),
                };
                let mut pages: Vec<u64> = (0..200).map(&mut page).collect();
                random.shuffle(&mut pages);
                let mut brake = Brake::default();
                let verdicts: Vec<bool> =
                    pages.iter().filter_map(|page| brake.page(*page, &rules)).collect();
                assert_eq!(verdicts, [expected], "{alike} alike, seed {seed}");
                assert_eq!(brake, Brake::default(), "the next window begins anew");
            }
        }
    }
}
