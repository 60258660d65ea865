//! Decides why a ring, a table or a detector refuses what it is given, and how the text names the cure.

use crate::target::WEIGHT_MAX;

use super::node::NODES_MAX;

/// Why something was refused. Nothing has changed when one of these is returned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting cannot be used: correct it.
    #[error("`{field}` is {value}; {cure}")]
    BadSetting {
        /// Which setting.
        field: &'static str,
        /// What was given.
        value: String,
        /// What to give instead.
        cure: String,
    },
    /// The weight cannot be used: correct it.
    #[error("the weight of node `{name}` is {weight}; it must be above 0 and at most {WEIGHT_MAX}")]
    BadWeight {
        /// Whose weight.
        name: String,
        /// What was given.
        weight: f64,
    },
    /// The name is in use: choose another, or change the weight of the node that has it.
    #[error("a node named `{0}` is there already; remove it first or set its weight")]
    NameTaken(String),
    /// There is no node of this name.
    #[error("there is no node named `{0}`; it may have been removed")]
    UnknownNode(String),
    /// There are as many nodes as can be.
    #[error(
        "there would be more than {NODES_MAX} nodes, which is the most; put several machines behind one name"
    )]
    TooManyNodes,
    /// The weights ask for more points than the ring may hold.
    #[error(
        "the ring would have {points} points and may have {points_max}; give smaller weights or lower `points`"
    )]
    TooManyPoints {
        /// What the weights ask for.
        points: u64,
        /// What the settings allow.
        points_max: u32,
    },
    /// More nodes than slots of the table.
    #[error(
        "{nodes} nodes do not fit into a table of {slots} slots; set `slots` to a prime of at least 100 per node"
    )]
    TooFewSlots {
        /// How many nodes were given.
        nodes: usize,
        /// How many slots the table has.
        slots: u32,
    },
}

impl Error {
    pub(super) fn setting(
        field: &'static str,
        value: impl ToString,
        cure: impl Into<String>,
    ) -> Self {
        Self::BadSetting { field, value: value.to_string(), cure: cure.into() }
    }
}
