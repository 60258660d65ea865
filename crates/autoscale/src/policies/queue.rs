//! By the queue: what arrives, times how long it runs, and what waits, so that it starts within the goal. Workers that
//! start count with what they will have done by then; deadlines of what waits count too.
//!
//! Needs no past, so it is right from the second sample on; but it sees a step only when it has come.

use super::{View, Want};

/// What is kept free for what the measured rate does not show yet, as a share of it.
const MARGIN: f64 = 0.04;

pub(super) fn want(view: &View<'_>) -> Want {
    let (least, mut why) = needed(view, view.load.rate);
    let waits = view.load.backlog;
    if waits > 0.0 {
        why = format!("{why}, and {waits:.1} s of work waits");
    }
    Want { least, keep: view.kept(least), why }
}

/// The capacity for work that arrives at this rate, and what waits.
pub(super) fn needed(view: &View<'_>, rate: f64) -> (f64, String) {
    let load = view.load;
    let arriving = (view.staffed(rate) * (1.0 + MARGIN)).max(load.taken);
    let waits = view.backlog_after_boot(rate) / load.within.max(load.run);
    let waits = waits.min(load.backlog_slots + rate * view.boot).max(view.for_deadlines());
    let why = format!("{rate:.2} s of work arrive per second");
    (arriving + waits, why)
}
