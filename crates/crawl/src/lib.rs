//! The face of crawls: commands, addresses and pages for people, what the server knows of crawls, and what is measured of them.
//!
//! A crawl is a workflow of shard tasks, each of which owns the hosts that the ring gives it. Reading order: `crawls` (how they
//! are started, led and told of), `command` and `web` (how people steer and watch). How a shard does its work is in
//! [`divvy_shards`].

mod bench;
mod command;
mod crawls;
mod demo;
mod section;
mod web;
mod workload;

use divvy_shards::{fetch, folder, output, place, render, settings, shard, store};
pub use workload::CrawlWorkload;
