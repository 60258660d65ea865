//! As many as the maximum says, always.

use super::{View, Want};

pub(super) fn want(view: &View<'_>) -> Want {
    let all = f64::from(view.pool.max) * view.unit;
    Want { least: all, keep: all, why: format!("fixed at the maximum of {}", view.pool.max) }
}
