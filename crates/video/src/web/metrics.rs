//! Figures of the library for monitors: how many videos are in each state.
//!
//! Counted now and then, because tasks change records without a word to this process; what is not being made costs
//! nothing. Before the first count nothing is told, because a library that has just started is not empty.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy_http::figures::Page;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::library::{Counts, FIRST_AFTER, Library};

/// Between two counts.
const EVERY: Duration = Duration::from_secs(15);

/// The figures; a clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Mutex<Option<Counts>>>);

impl Figures {
    /// Counts until the server stops. Begins when a server that has just started has read what is more urgent.
    pub(crate) async fn count_always(self, library: Library, shutdown: CancellationToken) {
        let counting = async {
            tokio::time::sleep(FIRST_AFTER).await;
            loop {
                match library.count().await {
                    Ok(counts) => self.set(counts),
                    Err(error) => tracing::debug!(%error, "videos cannot be counted"),
                }
                tokio::time::sleep(EVERY).await;
            }
        };
        shutdown.run_until_cancelled(counting).await;
    }

    /// Tells them beside the server's own.
    pub(crate) fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }

    fn set(&self, counts: Counts) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Videos by their state";
        let mut page = Page::new(encoder);
        let mut videos = page.gauges("videos", help)?;
        for (state, count) in counts.into_iter().flatten() {
            videos.add(&[("state", state.as_str())], count as f64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::VideoState;

    fn told(figures: &Figures) -> String {
        let mut registry = Registry::default();
        figures.clone().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn videos_are_told_by_their_state_once_they_were_counted() {
        let figures = Figures::default();
        let before = told(&figures);
        assert!(before.contains("# TYPE videos gauge") && !before.contains("state="), "{before}");
        figures.set(VideoState::ALL.map(|state| (state, usize::from(state.is_final()))));
        let after = told(&figures);
        for line in ["videos{state=\"processing\"} 0.0", "videos{state=\"needs_review\"} 1.0"] {
            assert!(after.contains(line), "{after}");
        }
    }
}
