//! By the queue, for what is forecast to arrive until a new worker would be there. Never below what the queue wants now;
//! without a forecaster that has earned trust, exactly that.

use super::{View, Want, queue};

/// How often the time until a new worker is looked at.
const LOOKS: u32 = 8;

pub(super) fn want(view: &View<'_>) -> Want {
    let now = queue::want(view);
    let Some(by) = view.forecast.trusted() else { return now };
    let load = view.load;
    let most = |from: f64, until: f64| {
        (0..=LOOKS)
            .map(|look| from + (until - from) * f64::from(look) / f64::from(LOOKS))
            .map(|ahead| view.forecast.at(load.at, ahead, load.rate).rate)
            .fold(0.0, f64::max)
    };
    let lead = view.boot + 2.0 * load.step;
    let expected = most(0.0, lead);
    let (ahead, _) = queue::needed(view, expected);
    // Whoever is needed again before a new worker would have paid off is kept.
    let (later, _) = queue::needed(view, most(lead, 2.0 * lead));
    let keep = now.keep.max(ahead).max(view.kept(later));
    if ahead <= now.least {
        return Want { keep, ..now };
    }
    let why = format!(
        "{expected:.2} s of work per second are forecast by {by} for the next {lead:.0} s, after {:.2} now",
        load.rate
    );
    Want { least: ahead, keep, why }
}
