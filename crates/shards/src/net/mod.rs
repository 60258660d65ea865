//! How other machines are reached: names are resolved once, the addresses are checked, and the connection goes to one of the
//! very addresses that were checked, so that an answer that changes in between cannot slip in.
//!
//! Reading order: [`Target`] (which schemes and ports), [`Resolve`] (what a name stands for), [`Connector`] (resolve, check,
//! connect, TLS), [`Proxy`] (the same way out for a browser). Which addresses are private is in [`divvy::net`].
//!
//! Knows nothing of pages. Pages, robots.txt, sitemaps, redirects and browsers all go through one [`Connector`].

mod connector;
mod error;
mod identity;
mod proxy;
mod resolver;
mod target;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tls;

pub use connector::{Connected, Connector, Protocol, Stream};
pub use error::ConnectError;
pub use identity::{InvalidUserAgent, USER_AGENT_BYTES_MAX, UserAgent};
pub use proxy::{Proxy, ProxyCounts};
pub use resolver::{Cache, NameError, Resolve, SystemResolver, TableResolver};
pub use target::{RefusedTarget, Target, is_port_open};
pub use tls::tls_config;
