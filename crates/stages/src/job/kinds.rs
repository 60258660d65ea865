//! The kinds of jobs that there are. A kind more is a line more here.

use super::Kind;

/// All kinds, in the order in which help lists them.
static KINDS: &[&dyn Kind] = &[
    &crate::mapreduce::MapReduce,
    &crate::aggregate::Aggregate,
    &crate::sort::Sort,
    &crate::graph::Graph,
    &crate::stream::Stream,
];

/// All kinds.
pub fn all() -> &'static [&'static dyn Kind] {
    KINDS
}

/// The kind with this name.
pub fn find(name: &str) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| kind.name() == name)
}
