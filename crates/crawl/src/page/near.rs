//! Hosts that repeat themselves.

/// The last pages of hosts.
#[derive(Debug, Default)]
pub struct Windows {}

impl Windows {
    /// Notes the fingerprint of a page of a host; whether the host repeats itself: over 90 % of its last 200 pages are
    /// almost the same.
    pub fn observe(&mut self, host: &str, simhash: u64) -> bool {
        unimplemented!("{host} {simhash}")
    }
}
