//! The work of crawls. A shard is a task that owns the hosts which the ring gives it, fetches their pages and remembers what it
//! has seen.
//!
//! Reading order: [`settings`] (what a crawl is told), [`folder`] (what of it lies where), [`place`] (whose hosts are whose),
//! [`shard`] (the task that fetches), [`store`] (its file), [`fetch`] and [`net`] (how a page comes, and from which addresses),
//! [`page`] (what is in it), [`render`] (what it becomes after its scripts), [`output`] (where it goes). When a host may be asked
//! is decided in [`divvy_frontier`]. Besides, what trials and benchmarks need: a [`web`] to crawl, and a [`bare`] client.
//!
//! Knows nothing of commands, pages for people and the server, which are in `divvy-crawl`: people wait for those, and the
//! compiler for them is cheap; this crate handles every page and is optimised. What others await of it comes in a box:
//! otherwise who awaits it would compile it.

pub mod bare;
pub mod fetch;
pub mod folder;
pub mod net;
pub mod output;
pub mod page;
pub mod place;
pub mod render;
pub mod settings;
pub mod shard;
pub mod store;
pub mod web;
