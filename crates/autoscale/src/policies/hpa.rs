//! What the horizontal pod autoscaler of Kubernetes does: ceil(workers × use ÷ target), nothing within a tenth of the target,
//! at most double or four more at once. Workers that start count as unused when it is to grow. Its window of five minutes
//! on the way down is in [`super::paces`].
//!
//! To compare with, and for those who are used to it. The target is `thresholds.target_cpu`.

use super::{View, Want};

/// How far from the target nothing changes.
const TOLERANCE: f64 = 0.1;

pub(super) fn want(view: &View<'_>) -> Want {
    let target = view.pool.thresholds.target_cpu / 100.0;
    let held = f64::from(view.workers(view.held));
    let starting: f64 = view.coming.iter().map(|(_, capacity)| capacity).sum();
    let ready = view.running / (view.running + starting).max(1e-9);
    let all = desired(held, view.load.used, ready, target) * view.unit;
    let why = format!(
        "{:.0} % of the workers are used, the target is {:.0} %",
        view.load.used * 100.0,
        target * 100.0
    );
    Want { least: all, keep: all, why }
}

/// How many workers it wants of `held`, of which the share `ready` takes tasks and is used so far.
pub(crate) fn desired(held: f64, used: f64, ready: f64, target: f64) -> f64 {
    let ratio = used / target;
    let careful = if ratio > 1.0 { (ratio * ready).max(1.0) } else { ratio };
    if (careful - 1.0).abs() <= TOLERANCE {
        return held;
    }
    (held * careful - 1e-6).ceil().clamp(0.0, (held * 2.0).max(held + 4.0))
}
