//! What divvy's scheduler does with uneven load: the known situations, each with every way of moving tasks, and the
//! promises on fair shares, limits and deadlines.
//!
//! All of it drives the real scheduler in [`crate::sim::cluster`]; `contest` runs a situation in every way and shows
//! the ways side by side.

pub(crate) mod bursty;
pub(crate) mod cascade;
mod contest;
pub(crate) mod deadlines;
pub(crate) mod fairness;
pub(crate) mod flapping;
pub(crate) mod hot_spot;
pub(crate) mod limits;
pub(crate) mod protection;
pub(crate) mod slow_worker;
pub(crate) mod speeds;
pub(crate) mod uniform;

#[cfg(test)]
mod tests;
