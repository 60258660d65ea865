//! Decides how experiments use the async guards in simulated time: one thread, and a clock that jumps.
//!
//! The runtime's clock is paused: whenever nothing can go on, it jumps to the next moment at which something is due. It
//! counts whole milliseconds, and a wait ends at the first one that is not too early.

use std::future::Future;
use std::time::Duration;

use crate::experiment::Error;

/// Runs a future to its end on a clock of its own that begins at zero.
pub(super) fn run<F: Future>(future: F) -> Result<F::Output, Error> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(future))
}

/// A time in milliseconds.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The value of a list at a quantile, by nearest rank; nothing of an empty list.
pub(super) fn quantile(values: &mut [Duration], quantile: f64) -> Option<Duration> {
    values.sort_unstable();
    let rank = (quantile * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// The mean of some numbers; 0 if there are none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_no_time_of_this_world() {
        let hour = Duration::from_secs(3_600);
        let waited = run(async {
            let began = tokio::time::Instant::now();
            tokio::time::sleep(hour).await;
            began.elapsed()
        });
        assert_eq!(waited.unwrap(), hour);
    }

    #[test]
    fn quantiles_are_values_of_the_list() {
        let mut list: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let at = [0.5, 0.99, 1.0].map(|share| quantile(&mut list, share).unwrap().as_millis());
        assert_eq!(at, [50, 99, 100]);
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!((mean([1.0, 2.0]), mean([])), (1.5, 0.0));
    }
}
