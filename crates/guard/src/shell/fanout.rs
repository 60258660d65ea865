//! Asks many at once and takes what comes in time.
//!
//! Everything runs in the task of the caller: whoever is too late, or no longer needed, is dropped before [`fan_out`]
//! returns, and so is everybody when `fan_out` itself is dropped. No task lives on. To use several cores, let the
//! future of a shard own a spawned task that is aborted when it is dropped.

use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;

use super::clock::{Clock, RuntimeClock};
use super::deadline;
use crate::fanout::{Collector, Report, Settings};
use crate::setting::Invalid;
use crate::timeout::SharedTracker;

/// Asks all `shards`, and reports what came by the deadline: that of the settings or of the tracker, and never beyond
/// the deadline of the scope. The tracker learns the latencies of those that answered.
///
/// # Errors
/// When a setting makes no sense for so many shards.
pub async fn fan_out<K, T, E, F>(
    shards: impl IntoIterator<Item = K>,
    mut ask: impl FnMut(&K) -> F,
    tracker: &SharedTracker,
    settings: Settings,
) -> Result<Report<K, T, E>, Invalid>
where
    F: Future<Output = Result<T, E>>,
{
    let clock = RuntimeClock::default();
    let wanted = settings.timeout(tracker);
    let timeout = deadline::at_most(wanted);
    let mut books = Collector::new(shards, settings, timeout, clock.now())?;
    let mut asked = FuturesUnordered::new();
    let mut time_up = pin!(tokio::time::sleep(timeout));
    loop {
        while let Some((index, key)) = books.begin(clock.now()) {
            let answer = ask(key);
            asked.push(async move { (index, answer.await) });
        }
        if books.is_settled() {
            break;
        }
        // Answers are looked at before the time, so that all that came by the deadline are counted.
        match select(asked.next(), time_up.as_mut()).await {
            Either::Left((Some((index, answer)), _)) => books.end(index, answer, clock.now()),
            // Nobody is being asked and nobody may be asked: the time was up at once.
            Either::Left((None, _)) | Either::Right(_) => break,
        }
    }
    drop(asked);
    let report = books.close(clock.now());
    if report.shards_responded > 0 {
        tracker.record_all(report.responder_latencies());
    } else if settings.grow_when_silent && timeout == wanted {
        tracker.record_all(report.waits_in_vain());
    }
    Ok(report)
}
