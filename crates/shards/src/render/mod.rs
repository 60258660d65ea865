//! Pages that are made by their scripts, rendered by Chromium.
//!
//! A browser is given the page that was fetched, and asks hosts only for what that page is made of, as far as `gate` lets
//! it. It reaches nothing but the crawler's own proxy on loopback, which decides by the same address rule as every other
//! fetch. Each page has a browser context of its own and has [`BUDGET`].
//!
//! Reading order: `need` (which pages), `renderer` (one page after the other, browsers replaced), `page` (what is asked of a
//! browser for one page), `gate` (what the page may ask for), `browser` (the process), `devtools` (how it is spoken to).

mod browser;
mod devtools;
mod gate;
mod need;
mod page;
mod renderer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use divvy_frontier::address::Address;
use divvy_frontier::frontier::Permission;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use thiserror::Error;

pub use browser::find;
pub use need::{Hosts, Mode, needs_rendering};
pub use renderer::Renderer;

/// How long one page may take, from its first request to its text.
pub const BUDGET: Duration = Duration::from_secs(15);
/// Pages after which a browser is replaced.
pub const PAGES_MAX: u32 = 200;
/// The capability of a worker that has a browser.
pub const CAPABILITY: &str = "chromium";

/// How browsers are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The browser, see [`find`].
    pub program: PathBuf,
    /// The proxy on loopback through which everything goes.
    pub proxy: SocketAddr,
    /// The user agent.
    pub agent: String,
}

/// A page as it was fetched.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Where it came from.
    pub address: &'a Address,
    /// Its status.
    pub status: u16,
    /// Its headers, as they came.
    pub headers: &'a HeaderMap,
    /// Its body, decoded.
    pub body: &'a [u8],
    /// What the robots.txt of its host lets be fetched.
    pub permission: &'a dyn Permission,
    /// Who knows that of other hosts.
    pub others: &'a dyn Others,
}

/// Who says what other hosts let be fetched, from which a page takes parts.
pub trait Others: fmt::Debug + Send + Sync {
    /// What the origin of this address permits; nothing if it may not be asked now. It is asked once for a page, and what
    /// was said holds until the page is made.
    fn permission<'a>(&'a self, address: &'a Address)
    -> BoxFuture<'a, Option<Arc<dyn Permission>>>;
}

/// A page after its scripts.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// What its scripts call its address.
    pub address: Address,
    /// The text of the document.
    pub html: String,
    /// Whether the document was longer than is kept.
    pub truncated: bool,
    /// Other pages to which its scripts wanted to lead on at once.
    pub led_on: Vec<Address>,
}

/// Why a page was not rendered.
#[derive(Debug, Error)]
pub enum RenderError {
    /// There is no browser.
    #[error("chromium cannot be started: {0}; install it, or crawl with --render off")]
    Start(String),
    /// The page did not load.
    #[error("the page did not load in the browser: {0}")]
    Page(String),
    /// The page took longer than this, usually [`BUDGET`].
    #[error("the page took longer than {} s in the browser", .0.as_secs())]
    Slow(Duration),
    /// The browser ended or answered nonsense; the next page gets a new one.
    #[error("the browser failed: {0}")]
    Browser(String),
}
