//! A small web on this machine to try crawlers on: thousands of host names on addresses of loopback, with robots.txt,
//! redirects, traps and errors.
//!
//! Reading order: `site` (what it answers), `serve` (the sockets, and the log that politeness is judged by).

mod serve;
mod site;

pub use serve::{NETWORK, Served};
pub use site::{ENDING, Site};
