//! The programs that every worker has.

mod grep;
mod invert;
mod wordcount;

use std::sync::Arc;

use super::program::Program;

/// Their names.
pub(super) const NAMES: [&str; 3] = ["wordcount", "grep", "invert"];

/// The program with this name.
pub(super) fn find(name: &str) -> Option<Arc<dyn Program>> {
    Some(match name {
        "wordcount" => Arc::new(wordcount::WordCount),
        "grep" => Arc::new(grep::Grep),
        "invert" => Arc::new(invert::Invert),
        _ => return None,
    })
}
