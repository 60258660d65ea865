//! Every bound of one fetch, in one place. The defaults are what a crawler of strangers' hosts needs; tests and intranets set
//! their own.

use std::time::Duration;

use super::Purpose;

/// How much a sitemap may be, decoded: what <https://www.sitemaps.org/protocol.html> allows.
const SITEMAP_BYTES_MAX: usize = 50 * 1024 * 1024;
/// How much of a sitemap may travel.
const SITEMAP_WIRE_BYTES_MAX: usize = 10 * 1024 * 1024;

/// The bounds of one fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body as they travel.
    pub wire_bytes_max: usize,
    /// Bytes of a body after decoding.
    pub decoded_bytes_max: usize,
    /// How many times larger a body may become by decoding.
    pub ratio_max: usize,
    /// Up to this size a body may become as much larger as it likes.
    pub ratio_free_bytes: usize,
    /// Encodings on top of each other.
    pub encodings_max: usize,
    /// Headers of a response.
    pub headers_max: usize,
    /// Bytes of all headers of a response.
    pub header_bytes_max: usize,
    /// To resolve, connect and agree on TLS.
    pub connect: Duration,
    /// From the request to the head of the response.
    pub first_byte: Duration,
    /// From the beginning to the end.
    pub whole: Duration,
    /// Bytes that must come within any [`Limits::slow_window`] while a body is read.
    pub slow_bytes_min: u64,
    /// See [`Limits::slow_bytes_min`].
    pub slow_window: Duration,
    /// A connection is kept for the next request of its host only if that comes sooner than this.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wire_bytes_max: 4 * 1024 * 1024,
            decoded_bytes_max: 10 * 1024 * 1024,
            ratio_max: 100,
            ratio_free_bytes: 1024 * 1024,
            encodings_max: 2,
            headers_max: 100,
            header_bytes_max: 64 * 1024,
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(20),
            whole: Duration::from_secs(60),
            slow_bytes_min: 10 * 1024,
            slow_window: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
        }
    }
}

impl Limits {
    /// How many bytes of a body may travel.
    pub(super) fn wire_room(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Page | Purpose::Robots => self.wire_bytes_max,
            Purpose::Sitemap => SITEMAP_WIRE_BYTES_MAX.max(self.wire_bytes_max),
        }
    }

    /// How large a body may become that has travelled as so many bytes.
    pub(crate) fn decoded_room(&self, purpose: Purpose, wire_bytes: usize) -> usize {
        let most = match purpose {
            Purpose::Page => self.decoded_bytes_max,
            Purpose::Robots => divvy_frontier::robots::BYTES_MAX + 1,
            Purpose::Sitemap => SITEMAP_BYTES_MAX.max(self.decoded_bytes_max),
        };
        most.min(self.ratio_free_bytes.max(wire_bytes.saturating_mul(self.ratio_max)))
    }
}
