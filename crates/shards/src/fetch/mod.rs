//! One page: a request to one host, and what comes back within bounds of size and time.
//!
//! Reading order: [`Fetcher`] (one request and its answer), [`Session`] (what is kept between requests of one host while its
//! lease lasts), [`Limits`] (every bound), [`FetchError`] (what can go wrong, by what the crawler does about it),
//! [`decode`] (bombs), [`charset`] (what the bytes of a page mean). Cookies are neither kept nor sent.
//!
//! Decides nothing about when and whether: that is the frontier's. A redirect is an answer with its target, which is a new
//! URL like any other: it is not followed here, so that scope, robots.txt, what was seen and the pace of its host hold for it.

mod body;
pub mod charset;
pub mod decode;
mod error;
mod fetched;
mod fetcher;
mod limits;
mod session;
mod speed;
#[cfg(test)]
mod tests;

pub use error::{Course, FetchError, Trouble};
pub use fetched::{Fetched, Timings, Truncation, Validators};
pub use fetcher::{Fetcher, Order, Purpose};
pub use limits::Limits;
pub use session::Session;
