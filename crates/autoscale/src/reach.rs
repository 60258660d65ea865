//! What cannot be reached with the settings of a pool, whoever decides, and the cheapest that would do.

use divvy_types::pools::{Goal, Pool, WorkerType};

use crate::explain::Impossible;
use crate::load::{Load, share};
use crate::mix::{growth, unit};

/// Everything that is out of reach.
pub(crate) fn impossible(
    pool: &Pool,
    types: &[WorkerType],
    load: &Load,
    money_hour: Option<f64>,
) -> Vec<Impossible> {
    [zero(pool, types), maximum(pool, types, load), budget(types, load, pool, money_hour)]
        .into_iter()
        .flatten()
        .collect()
}

/// A pool that may stop starts its first task only when a worker has started.
fn zero(pool: &Pool, types: &[WorkerType]) -> Option<Impossible> {
    let Goal::Start { within, .. } = pool.goal else { return None };
    let within = within.as_secs_f64();
    let quickest = types.iter().map(|one| one.boot_sec).fold(f64::INFINITY, f64::min);
    if pool.min > 0 || quickest <= within {
        return None;
    }
    let cheapest = types.iter().map(|one| one.price_hour).fold(f64::INFINITY, f64::min);
    Some(Impossible {
        problem: format!(
            "a worker takes {quickest} s to start and min is 0, so the first task after a pause cannot start within \
             {within} s"
        ),
        cheapest: format!(
            "min: 1 would do, for {cheapest} per hour at least; or a goal of {quickest} s"
        ),
    })
}

/// What arrives is more than the maximum can do.
fn maximum(pool: &Pool, types: &[WorkerType], load: &Load) -> Option<Impossible> {
    let largest = types.iter().map(unit).fold(0.0, f64::max);
    let most = largest * f64::from(pool.max);
    let needed = load.staffed(load.rate, share(&pool.goal));
    if needed <= most {
        return None;
    }
    let one = growth(types);
    let workers = (needed / unit(one)).ceil();
    Some(Impossible {
        problem: format!(
            "{:.2} s of work arrive per second, and max ({}) does {most:.2} at most",
            load.rate, pool.max
        ),
        cheapest: format!(
            "max: {workers} would do, with workers of type {} for {:.2} per hour",
            one.name,
            workers * one.price_hour
        ),
    })
}

/// What arrives is more than the budget pays for.
fn budget(
    types: &[WorkerType],
    load: &Load,
    pool: &Pool,
    money_hour: Option<f64>,
) -> Option<Impossible> {
    let most = money_hour?;
    let one = growth(types);
    let needed = (load.staffed(load.rate, share(&pool.goal)) / unit(one)).ceil();
    let price = needed * one.price_hour;
    (price > most).then(|| Impossible {
        problem: format!(
            "{:.2} s of work arrive per second, and the budget of {most:.2} per hour pays for less",
            load.rate
        ),
        cheapest: format!(
            "{price:.2} per hour would do, for {needed} workers of type {}",
            one.name
        ),
    })
}
