//! Which shard owns a host: the ring of `divvy-placement`, with the registrable domain as the key, so that all hosts of
//! one owner are seen by one shard.

use divvy_frontier::address::Address;
use divvy_placement::hashing::{Ring, ring::Settings};

/// The shards of a crawl on the ring.
#[derive(Debug)]
pub struct Places {
    ring: Ring,
}

impl Places {
    /// So many shards.
    pub fn new(shards: u32) -> Self {
        let mut ring = Ring::new(Settings::default()).expect("the usual settings are valid");
        let names: Vec<String> = (0..shards).map(|shard| shard.to_string()).collect();
        ring.extend(names.iter().map(|name| (name.as_str(), 1.0)))
            .expect("shards have different names, and there are fewer than a ring holds");
        Self { ring }
    }

    /// The shard that owns the host of an address.
    pub fn of(&self, address: &Address) -> u32 {
        self.of_domain(address.registrable())
    }

    /// The shard that owns a registrable domain.
    pub fn of_domain(&self, domain: &str) -> u32 {
        let node = self.ring.node_of_key(domain);
        node.and_then(|node| node.name().parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_a_domain_stay_together_and_domains_spread() {
        let places = Places::new(4);
        let of = |url: &str| places.of(&url.parse().unwrap());
        assert_eq!(of("http://a.example.org/x"), of("https://b.example.org:8080/y"));
        let mut counts = [0; 4];
        for at in 0..1_000 {
            counts[of(&format!("http://site{at}.test/")) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (150..350).contains(count)), "{counts:?}");
    }
}
