//! The video platform: one file split over many workers, resumed, never encoded twice.
//!
//! A video is a source, a [`Recipe`] and a workflow: it is probed, planned into chunks on a frame grid, each chunk is
//! encoded to all rungs with one decode, audio is encoded whole, thumbnails, subtitles and a content scan go beside it,
//! and everything is packaged, verified and published under one [`Manifest`](manifest::Manifest).
//!
//! Reading order: [`recipe`] (what is wanted), [`probe`] (what is there), [`plan`] (what is to be done), [`tasks`] (who
//! does it), [`results`] (what is never done twice), [`manifest`] (what comes out), [`library`] (which videos there are),
//! [`tools`] (how ffmpeg and others are run), [`studio`] (what handlers share), [`web`] (the pages and the API).
//!
//! Uses the engine only through the SDK.
//!
//! **Invariant:** a result is recorded under a key of everything that it was made from, and only when its data is
//! stored. What is recorded is never made again.

pub mod estimate;
pub mod grid;
pub mod keys;
pub mod library;
pub mod manifest;
pub mod plan;
pub mod probe;
pub mod recipe;
pub mod results;
pub mod sample;
pub mod studio;
pub mod tasks;
pub mod tools;
pub mod web;

mod bench;
mod command;
mod workload;

mod fleet;
mod fmp4;
mod hls;
mod ladder;
mod room;
mod subtitles;
mod webvtt;

pub use grid::FrameRate;
pub use recipe::Recipe;
pub use studio::{FetchRules, Studio};
pub use workload::VideoWorkload;
