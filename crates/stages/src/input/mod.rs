//! What jobs read: files that are named by patterns, cut into splits at line ends, opened whatever they are packed with,
//! and read as blocks of whole lines whose errors have a place.
//!
//! Reading order: [`glob`] (names of files), [`split`] (which part reads what), `open` (bytes of a file), [`source`]
//! (lines of a part, and what becomes of wrong ones).

pub mod glob;
mod open;
pub mod source;
pub mod split;

#[cfg(test)]
mod tests;

pub use glob::expand;
pub use open::{Packing, line_at, line_of_input, open};
pub use source::{Faults, Lines, Text, Wanted, read, read_wanted};
pub use split::{Split, explain, plan};
