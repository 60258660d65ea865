//! Decides how even a placement is: how many keys each node has, against what its weight promises.
//!
//! Knows counts and weights, not how they came about: [`Distribution::of_ring`] and
//! [`super::Maglev::distribution`] count for you, [`Distribution::of_counts`] takes any other placement. All figures
//! are relative to the weight: a node of weight 2 with twice the keys is at 1.

use super::node::Node;
use super::ring::Ring;

/// What one node has.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The node's name.
    pub name: String,
    /// Its weight.
    pub weight: f64,
    /// How many keys it has.
    pub keys: u64,
    /// How many it would have if shares were exactly as the weights.
    pub expected: f64,
}

impl Share {
    /// Keys per key expected: 1 is fair, 1.2 a fifth too many. 1 if nothing is expected.
    pub fn ratio(&self) -> f64 {
        if self.expected > 0.0 { self.keys as f64 / self.expected } else { 1.0 }
    }
}

/// How keys fall on nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    shares: Vec<Share>,
    total: u64,
}

impl Distribution {
    /// How these keys fall on the nodes of a ring.
    pub fn of_ring<K: AsRef<[u8]>>(ring: &Ring, keys: impl IntoIterator<Item = K>) -> Self {
        let owners = keys.into_iter().filter_map(|key| ring.node_of_key(key)).map(Node::id);
        Self::of_owners(ring.nodes(), owners)
    }

    /// A distribution that was counted elsewhere: name, weight and keys of each node.
    pub fn of_counts(counts: impl IntoIterator<Item = (String, f64, u64)>) -> Self {
        let mut shares: Vec<Share> = counts
            .into_iter()
            .map(|(name, weight, keys)| Share { name, weight, keys, expected: 0.0 })
            .collect();
        shares.sort_by(|a, b| a.name.cmp(&b.name));
        let total = shares.iter().map(|share| share.keys).sum();
        let weights: f64 = shares.iter().map(|share| share.weight).sum();
        for share in &mut shares {
            share.expected = total as f64 * share.weight / weights;
        }
        Self { shares, total }
    }

    /// Counts owners by id.
    pub(super) fn of_owners<'a>(
        nodes: impl Iterator<Item = &'a Node>,
        owners: impl Iterator<Item = usize>,
    ) -> Self {
        let nodes: Vec<&Node> = nodes.collect();
        let ids = nodes.iter().map(|node| node.id() + 1).max().unwrap_or(0);
        let mut counts = vec![0_u64; ids];
        owners.for_each(|id| counts[id] += 1);
        Self::of_counts(
            nodes.iter().map(|node| (node.name().into(), node.weight(), counts[node.id()])),
        )
    }

    /// Every node, in order of name.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// What the node of this name has.
    pub fn share(&self, name: &str) -> Option<&Share> {
        let at = self.shares.binary_search_by(|share| share.name.as_str().cmp(name)).ok()?;
        Some(&self.shares[at])
    }

    /// How many keys there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The fullest node, relative to its fair share: 1 is perfect. 1 without nodes.
    pub fn peak_to_mean(&self) -> f64 {
        self.ratios().reduce(f64::max).unwrap_or(1.0)
    }

    /// The emptiest node, relative to its fair share: 1 is perfect. 1 without nodes.
    pub fn min_to_mean(&self) -> f64 {
        self.ratios().reduce(f64::min).unwrap_or(1.0)
    }

    /// The coefficient of variation: how far nodes lie from their fair shares on average (root of the mean square).
    /// 0 is perfect.
    pub fn variation(&self) -> f64 {
        if self.shares.is_empty() {
            return 0.0;
        }
        let squares: f64 = self.ratios().map(|ratio| (ratio - 1.0).powi(2)).sum();
        (squares / self.shares.len() as f64).sqrt()
    }

    fn ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.shares.iter().map(Share::ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_relative_to_the_weights() {
        let counts = [("b", 2.0, 220), ("a", 1.0, 80), ("c", 1.0, 100)];
        let distribution = Distribution::of_counts(counts.map(|(n, w, k)| (n.into(), w, k)));
        assert_eq!(distribution.total(), 400);
        assert_eq!(distribution.share("b").unwrap().expected, 200.0);
        assert!((distribution.peak_to_mean() - 1.1).abs() < 1e-9);
        assert!((distribution.min_to_mean() - 0.8).abs() < 1e-9);
        let variation = ((0.01 + 0.04) / 3.0_f64).sqrt();
        assert!((distribution.variation() - variation).abs() < 1e-9);
        assert_eq!(distribution.shares()[0].name, "a");
        assert_eq!(distribution.share("d"), None);
    }

    #[test]
    fn nothing_is_spread_perfectly() {
        let none = Distribution::of_ring(&Ring::default(), ["key"]);
        assert_eq!((none.total(), none.peak_to_mean(), none.variation()), (0, 1.0, 0.0));
        let no_keys = Distribution::of_counts([("a".into(), 1.0, 0)]);
        assert_eq!((no_keys.min_to_mean(), no_keys.variation()), (1.0, 0.0));
    }

    #[test]
    fn ten_thousand_keys_follow_weights_one_two_and_a_half() {
        let mut ring = Ring::default();
        ring.extend([("server1", 1.0), ("server2", 2.0), ("server3", 0.5)]).unwrap();
        let distribution =
            Distribution::of_ring(&ring, (0..10_000).map(|user| format!("user_{user}")));
        assert_eq!(distribution.total(), 10_000);
        assert!(distribution.peak_to_mean() < 1.3, "{distribution:?}");
        assert!(distribution.min_to_mean() > 0.7, "{distribution:?}");
        assert!(distribution.share("server2").unwrap().expected > 5_714.0);
    }
}
