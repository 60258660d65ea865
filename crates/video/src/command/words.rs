//! Videos in words for people: states, sizes, times.

use std::time::Duration;

use crate::library::{Stage, VideoState, VideoView};
use crate::manifest::Part;

use divvy_workload::console::output::words;

/// The SGR code of a state's colour.
pub(crate) fn color(state: VideoState) -> &'static str {
    match state {
        VideoState::Processing => "34",
        VideoState::Ready => "32",
        VideoState::Degraded | VideoState::NeedsReview | VideoState::Cancelled => "33",
        VideoState::Failed => "31",
    }
}

/// A length as players show it: `1:05`, `2:00:07`.
pub(crate) fn length(ms: u64) -> String {
    let seconds = (ms + 500) / 1_000;
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A span of milliseconds.
pub(crate) fn span(ms: u64) -> String {
    words::span(Duration::from_millis(ms))
}

/// How much of a whole, never 100 before the end.
pub(crate) fn percent(share: f64) -> u64 {
    if share >= 1.0 { 100 } else { ((share.max(0.0) * 100.0) as u64).min(99) }
}

/// How an optional part went.
pub(crate) fn part(part: &Part) -> String {
    match part {
        Part::Done { provider } => format!("done by {provider}"),
        Part::Skipped { reason } => format!("skipped: {reason}"),
        Part::Failed { reason } => format!("FAILED: {reason}"),
    }
}

/// What is to be said of a stage besides its name.
pub(crate) fn counts(stage: &Stage) -> String {
    let mut text = format!("{}/{}", stage.done, stage.total);
    if stage.running > 0 {
        text.push_str(&format!(" ({} running)", stage.running));
    }
    if stage.failed > 0 {
        text.push_str(&format!(" ({} failed)", stage.failed));
    }
    text
}

/// How far a video is, on one line: what is under way, and the rest in figures.
pub(crate) fn line(view: &VideoView) -> String {
    let begun = view.stages.iter().filter(|stage| stage.running > 0 || stage.failed > 0);
    let mut texts: Vec<String> =
        begun.map(|stage| format!("{} {}", stage.name, counts(stage))).collect();
    if texts.is_empty() {
        texts.push(
            if view.video.state.is_final() { view.video.state.as_str() } else { "waits" }.into(),
        );
    }
    let mut line = format!("{:>3}%  {}", percent(view.progress), texts.join(", "));
    if let Some(rest) = view.remaining_ms.filter(|_| !view.video.state.is_final()) {
        line.push_str(&format!("; about {} left", span(rest)));
    }
    line
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Recipe;
    use crate::library::{Video, VideoId};

    /// A video half-way.
    pub(crate) fn view(state: VideoState) -> VideoView {
        let stage = |name: &str, total, done, running| Stage {
            name: name.to_owned(),
            about: String::new(),
            total,
            done,
            running,
            failed: 0,
            progress: f64::from(done) / f64::from(total),
        };
        VideoView {
            video: Video {
                id: VideoId("7k2m4q8xw1zd".to_owned()),
                title: "A film".to_owned(),
                added_at: 1_000_000,
                url: None,
                source: None,
                recipe: Recipe::default(),
                priority: 3,
                deadline: None,
                workflow: "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e".to_owned(),
                state,
                reason: None,
                plan: None,
                manifest: None,
                ended_at: None,
                has_poster: true,
                length_ms: None,
                estimated_cpu_ms: None,
            },
            progress: 0.425,
            stages: vec![stage("probe", 1, 1, 0), stage("encode", 8, 3, 2), stage("mux", 3, 0, 0)],
            remaining_ms: Some(65_000),
            duration_ms: Some(60_000),
        }
    }

    #[test]
    fn lengths_and_shares_are_told_as_players_do() {
        assert_eq!((length(65_400), length(7_207_000)), ("1:05".into(), "2:00:07".into()));
        assert_eq!((percent(0.999), percent(1.0), percent(-1.0)), (99, 100, 0));
    }

    #[test]
    fn one_line_says_what_is_under_way() {
        let line = line(&view(VideoState::Processing));
        assert_eq!(line, " 42%  encode 3/8 (2 running); about 65s left");
    }
}
