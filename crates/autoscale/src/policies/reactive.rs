//! Thresholds on the mean use of the last minutes: above one it grows to the target, below the other it gives up one worker,
//! and after each change it waits (`thresholds` of the pool).
//!
//! Easy to foretell; it learns of a step only when the mean has moved.

use super::{View, Want};

pub(super) fn want(view: &View<'_>) -> Want {
    let thresholds = &view.pool.thresholds;
    let percent = view.load.used_mean * 100.0;
    let held = f64::from(view.workers(view.held));
    let wanted = if percent > thresholds.scale_up {
        (held * percent / thresholds.target_cpu).ceil().max(held + 1.0)
    } else if percent < thresholds.scale_down {
        (held - 1.0).max(0.0)
    } else {
        held
    };
    let why = format!(
        "{percent:.0} % of the workers were used in the last {:.0} s; {:.0} to {:.0} % is right",
        thresholds.metrics_sec, thresholds.scale_down, thresholds.scale_up
    );
    Want { least: wanted * view.unit, keep: wanted * view.unit, why }
}
