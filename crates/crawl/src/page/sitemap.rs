//! Sitemaps and sitemap indexes, with limits.

use divvy_frontier::address::{Address, Rules};
use thiserror::Error;

/// Bytes of a sitemap, unpacked.
pub const BYTES_MAX: u64 = 50 << 20;
/// Addresses of a sitemap, and sitemaps of an index.
pub const ENTRIES_MAX: usize = 50_000;
/// How many indexes may stand above a sitemap.
pub const INDEX_DEPTH_MAX: u8 = 2;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// Pages.
    pub pages: Vec<Entry>,
    /// Further sitemaps; none if the file is already below as many indexes as are followed.
    pub sitemaps: Vec<Entry>,
    /// Whether there was more than the limits allow, or the file broke off.
    pub is_cut: bool,
}

/// One line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it leads.
    pub url: Address,
    /// When it changed, in milliseconds since 1970, if that was said in a way that can be read.
    pub changed_ms: Option<u64>,
}

/// Why a file is no sitemap.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It is something else.
    #[error("this is no sitemap: its first element is `{0}`, not `urlset` or `sitemapindex`")]
    Root(String),
}

/// Reads a sitemap at `address`, packed by gzip or not, below so many indexes.
///
/// # Errors
///
/// Says why it is no sitemap. One that breaks off or is too large is not an error.
pub fn read(
    bytes: &[u8],
    address: &Address,
    depth: u8,
    rules: &Rules,
) -> Result<Sitemap, Unreadable> {
    unimplemented!("{bytes:?} {address} {depth} {rules:?}")
}
