//! What the workers that are there can do together: which build of ffmpeg most of them have, who recognises speech, who
//! scans, and how many programs run at once.

use std::collections::BTreeMap;

use divvy::prelude::*;
use divvy::types::need::capability;
use divvy::types::view::WorkerView;

use crate::studio::Studio;
use crate::tasks::{Encode, PROCESS_SLOTS, SCANNER, SPEECH};

/// What the workers can do together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// The build of ffmpeg that the most slots have.
    pub(crate) build: String,
    /// The speech recogniser, if anyone has one.
    pub(crate) speech: Option<String>,
    /// The scanner, if anyone has one.
    pub(crate) scanner: Option<String>,
    /// Programs that run at once.
    pub(crate) slots: u32,
}

impl Fleet {
    /// Asks the server; a studio without one knows only itself.
    pub(crate) async fn look(studio: &Studio) -> Outcome<Self> {
        let mut fleet = match studio.client() {
            Some(client) => Self::of(&client.workers().await?),
            None => Self::default(),
        };
        let own = studio.tools().capabilities();
        let has =
            |name: &str| own.iter().map(|text| capability(text)).find(|(found, _)| *found == name);
        if fleet.build.is_empty() {
            fleet.build = studio.tools().build().to_owned();
        }
        fleet.speech = fleet.speech.or_else(|| has(SPEECH).map(|(_, value)| value.to_owned()));
        fleet.scanner = fleet.scanner.or_else(|| has(SCANNER).map(|(_, value)| value.to_owned()));
        Ok(fleet)
    }

    /// What these workers can do.
    pub(crate) fn of(workers: &[WorkerView]) -> Self {
        let usable: Vec<&WorkerView> = workers.iter().filter(|worker| !worker.draining).collect();
        let encoders =
            usable.iter().filter(|worker| worker.kinds.iter().any(|kind| kind == Encode::KIND));
        let slots = encoders.fold(0, |sum: u32, worker| sum.saturating_add(slots_of(worker)));
        Self {
            build: most_common(&usable, "ffmpeg").unwrap_or_default(),
            speech: most_common(&usable, SPEECH),
            scanner: most_common(&usable, SCANNER),
            slots,
        }
    }

    /// What a chunk needs: all chunks of a video must be of one build, or they could not be joined.
    pub(crate) fn ffmpeg_need(&self) -> String {
        need("ffmpeg", &self.build)
    }

    /// What speech recognition needs.
    pub(crate) fn speech_need(&self) -> String {
        need(SPEECH, self.speech.as_deref().unwrap_or_default())
    }

    /// What a scan needs.
    pub(crate) fn scanner_need(&self) -> String {
        need(SCANNER, self.scanner.as_deref().unwrap_or_default())
    }
}

fn need(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
}

/// Programs that a worker runs at once; one if it does not say.
fn slots_of(worker: &WorkerView) -> u32 {
    let said = divvy::types::need::number(&worker.capabilities, PROCESS_SLOTS);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what fits"
    )]
    let slots = said.unwrap_or(1.0).clamp(1.0, 65_536.0) as u32;
    slots
}

/// The value of a capability that the most slots have; of equals the greatest, which is often the newest.
fn most_common(workers: &[&WorkerView], name: &str) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for worker in workers {
        let values = worker.capabilities.iter().map(|text| capability(text));
        for (_, value) in values.filter(|(found, _)| *found == name) {
            *counts.entry(value).or_default() += slots_of(worker);
        }
    }
    let most = counts.into_iter().max_by_key(|(value, count)| (*count, *value));
    most.map(|(value, _)| value.to_owned())
}
