//! Decides what a node is: a name and a weight. Everything else about a placement follows from these two.

use crate::target::{TARGETS_MAX, WEIGHT_MAX};

use super::error::Error;

/// The most nodes of one ring or table.
pub const NODES_MAX: usize = TARGETS_MAX;

/// Something that owns keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) weight: f64,
    /// Points on the ring or slots of the table; none in the place of a node that has left.
    pub(super) points: u32,
}

impl Node {
    /// A small number for tables by node: below the most nodes that were ever there at once. It is given out again
    /// after the node has left, and differs between rings with equal nodes.
    pub fn id(&self) -> usize {
        self.id as usize
    }

    /// Its name, on which its place depends.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its share relative to the others.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// How many points of the ring, or slots of the table, are its own.
    pub fn points(&self) -> u32 {
        self.points
    }
}

pub(super) fn check_weight(name: &str, weight: f64) -> Result<(), Error> {
    if weight > 0.0 && weight <= WEIGHT_MAX {
        return Ok(());
    }
    Err(Error::BadWeight { name: name.into(), weight })
}
