//! The inner loops of dataflow, pure: bytes and records come in, bytes and records go out.
//!
//! Reading order: `text` (lines, fields and values of records), `aggregate` (groups and states that merge), `order`
//! (keys, runs, merges), `graph` (ranks, components, distances), `window` (event time, watermarks, late data).
//!
//! **Invariant:** nothing here opens a file, reads a clock or knows of tasks. Readers, writers and time are arguments,
//! and the same input gives the same output, byte for byte.

pub mod aggregate;
pub mod graph;
pub mod order;
pub mod text;
pub mod window;
