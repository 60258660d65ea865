//! What a pool costs, beside what a fixed fleet and the rules of Kubernetes would have cost over the same samples.

use divvy_types::Timestamp;
use serde::{Deserialize, Serialize};

/// What a pool costs. Money is in the unit of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Costs {
    /// Since when it is counted.
    pub since: Timestamp,
    /// What the workers that are there cost per hour.
    pub per_hour: f64,
    /// What they have cost so far.
    pub total: f64,
    /// What they have cost in this month of 30 days.
    pub month: f64,
    /// What a fleet that is always at the maximum would have cost.
    pub fixed_total: f64,
    /// What a fleet by the rules of Kubernetes with a target of 70 % would have cost.
    pub hpa_total: f64,
    /// The energy so far in kilowatt hours; nothing where no type states watts.
    pub energy_kwh: Option<f64>,
}
