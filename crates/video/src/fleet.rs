//! What the workers that are there can do together: which build of ffmpeg most of them have, who recognises speech, who
//! scans, and how many programs run at once.

use std::collections::BTreeMap;

use divvy::prelude::*;
use divvy::types::need::capability;
use divvy::types::view::{TierView, WorkerView};

use crate::plan::Providers;
use crate::studio::Studio;
use crate::tasks::{Encode, SCANNER, SPEECH};
use crate::tools::provider::UNUSABLE;

/// What the workers can do together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fleet {
    /// The build of ffmpeg that the most slots have.
    pub(crate) build: String,
    /// Who recognises speech and who scans, if anyone does.
    pub(crate) providers: Providers,
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
        let Providers { speech, scanner } = &mut fleet.providers;
        *speech = speech.take().or_else(|| has(SPEECH).map(|(_, value)| value.to_owned()));
        *scanner = scanner.take().or_else(|| has(SCANNER).map(|(_, value)| value.to_owned()));
        Ok(fleet)
    }

    /// What these workers can do.
    pub(crate) fn of(workers: &[WorkerView]) -> Self {
        let usable: Vec<&WorkerView> = workers.iter().filter(|worker| !worker.draining).collect();
        Self {
            build: most_common(&usable, "ffmpeg").unwrap_or_default(),
            providers: Providers {
                speech: most_common(&usable, SPEECH),
                scanner: most_common(&usable, SCANNER),
            },
            slots: usable.iter().map(|worker| slots_of(worker)).sum(),
        }
    }

    /// What a chunk needs: all chunks of a video must be of one build, or they could not be joined.
    pub(crate) fn ffmpeg_need(&self) -> String {
        need("ffmpeg", &self.build)
    }

    /// What speech recognition needs.
    pub(crate) fn speech_need(&self) -> String {
        need(SPEECH, self.providers.speech.as_deref().unwrap_or_default())
    }

    /// What a scan needs.
    pub(crate) fn scanner_need(&self) -> String {
        need(SCANNER, self.providers.scanner.as_deref().unwrap_or_default())
    }
}

fn need(name: &str, value: &str) -> String {
    if value.is_empty() { name.to_owned() } else { format!("{name}={value}") }
}

/// Chunks that a worker encodes at once.
fn slots_of(worker: &WorkerView) -> u32 {
    let encodes = |tier: &&TierView| tier.kinds.iter().any(|kind| kind == Encode::KIND);
    worker.tiers.iter().find(encodes).map_or(0, |tier| tier.slots)
}

/// The value of a capability that the most slots have; of equals the greatest, which is often the newest. One that does
/// not work is only taken if nobody has another: then its tasks fail, and say why.
fn most_common(workers: &[&WorkerView], name: &str) -> Option<String> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for worker in workers {
        let values = worker.capabilities.iter().map(|text| capability(text));
        for (_, value) in values.filter(|(found, _)| *found == name) {
            *counts.entry(value).or_default() += slots_of(worker);
        }
    }
    let most = counts.into_iter().max_by_key(|(value, count)| (*value != UNUSABLE, *count, *value));
    most.map(|(value, _)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(capabilities: &[&str], kind: &str, slots: u32) -> WorkerView {
        let tier = |kind: &str, slots: u32| {
            serde_json::json!({
                "kinds": [kind], "credit": 2 * slots, "slots": slots, "leased": 0, "queue_length": 0, "finished": 0,
                "failed": 0,
            })
        };
        serde_json::from_value(serde_json::json!({
            "name": "w", "key": 1, "queues": [], "kinds": ["noop", kind], "capabilities": capabilities,
            "credit": 140, "leased": 0, "draining": false, "connected_at": "2026-01-01T00:00:00Z",
            "seen_at": "2026-01-01T00:00:00Z", "finished": 0, "failed": 0, "slots": 64 + slots,
            "tiers": [tier("noop", 64), tier(kind, slots)],
        }))
        .unwrap()
    }

    #[test]
    fn the_build_of_most_slots_counts_and_who_drains_does_not() {
        let mut leaving = worker(&["ffmpeg=7"], Encode::KIND, 99);
        leaving.draining = true;
        let fleet = Fleet::of(&[
            worker(&["ffmpeg=6"], Encode::KIND, 1),
            worker(&["ffmpeg=5.1", "speech=tiny"], Encode::KIND, 4),
            worker(&["ffmpeg=6"], Encode::KIND, 1),
            worker(&["scan=nsfw"], "video.scan", 8),
            leaving,
        ]);
        assert_eq!((fleet.build.as_str(), fleet.slots), ("5.1", 6));
        assert_eq!(fleet.ffmpeg_need(), "ffmpeg=5.1");
        assert_eq!(fleet.speech_need(), "speech=tiny");
        assert_eq!(fleet.providers.scanner.as_deref(), Some("nsfw"));
        assert_eq!(Fleet::of(&[]), Fleet::default());
    }

    #[test]
    fn a_provider_that_does_not_work_counts_only_if_there_is_no_other() {
        let (broken, works) = (&["scan=unusable"][..], &["scan=eye"][..]);
        let fleet = Fleet::of(&[worker(broken, Encode::KIND, 9), worker(works, Encode::KIND, 1)]);
        assert_eq!(fleet.scanner_need(), "scan=eye");
        let fleet = Fleet::of(&[worker(broken, Encode::KIND, 9)]);
        assert_eq!(fleet.scanner_need(), "scan=unusable");
    }
}
