//! Text as records: blocks of whole lines, words, the fields of CSV and JSON lines, numbers.
//!
//! Reading order: [`blocks`] (a reader becomes blocks of whole lines), [`words`], [`field`] (what a field is),
//! [`csv`] and [`json`] (fields of one line), [`number`].
//!
//! A record is one line. A quoted CSV field that goes on in the next line is therefore malformed: only so can a large
//! file be split at any line end.

pub mod blocks;
pub mod csv;
pub mod field;
pub mod json;
pub mod number;
pub mod words;

#[cfg(test)]
mod tests;

pub use blocks::{Block, BlockError, Blocks};
pub use field::Field;
pub use number::Number;
