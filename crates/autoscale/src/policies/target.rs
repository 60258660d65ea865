//! Holds the use of the workers at a target: quick to grow, slow to shrink. Where the pool answers requests, a 95th
//! percentile above what the goal allows makes it grow too.
//!
//! Simple and known from other systems; it keeps what the target leaves free idle at all times, and sees a backlog only
//! as full use.

use super::{View, Want};

/// Workers are too many only when their use is so far under the target.
const SLACK: f64 = 0.9;
/// Full use hides how much is missing; it grows by so much at most.
const GROW: f64 = 2.0;

pub(super) fn want(view: &View<'_>) -> Want {
    let target = view.pool.thresholds.target_cpu / 100.0;
    let used = view.load.used;
    let slow = view.load.slowness.clamp(1.0, GROW);
    let needed = view.running * used / target * slow;
    let least = if used > target || slow > 1.0 { needed.min(view.running * GROW) } else { needed };
    let keep = if used < target * SLACK { least } else { least.max(view.held) };
    let why = if slow > 1.0 {
        "answers take longer than the goal allows".into()
    } else {
        format!(
            "{:.0} % of the workers are used, the target is {:.0} %",
            used * 100.0,
            target * 100.0
        )
    };
    Want { least, keep, why }
}
