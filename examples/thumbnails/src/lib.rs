//! An example of a workload, small and whole: a folder of pictures becomes a page of thumbnails.
//!
//! The guide `docs/guides/your-own-workload.md` builds it step by step. Reading order: [`Thumbnails`] (everything that it
//! brings, in one value), `tasks` (what is done), `settings` (a section of `divvy.yaml`), `web` (addresses and the page),
//! `command` (`divvy thumbnails`).
//!
//! **Invariant:** it knows the SDK and the interface of workloads, and nothing else of divvy.

mod command;
mod settings;
mod tasks;
mod web;
mod workload;

pub use workload::Thumbnails;
