//! The web crawler: a crawl is a workflow of shard tasks, each of which owns the hosts that the ring gives it.
//!
//! Reading order: `folder` (what of a crawl lies where), `shard` (the task that fetches), `store` (the file of a shard),
//! `fetch` and `net` (how a page comes, and from which addresses), `page` (what is in it), `output` (where it goes),
//! `command` and `web` (how people steer and watch).

mod bench;
mod command;
mod crawls;
mod demo;
pub mod fetch;
mod folder;
pub mod net;
pub mod output;
pub mod page;
pub mod render;
mod settings;
mod shard;
pub mod store;
mod web;
mod workload;

pub use workload::CrawlWorkload;
