//! Progress of a video: one bar per stage on a terminal, otherwise a line every few seconds. Always on stderr.
//!
//! Stages are added as they come to be: before the plan nobody knows how many pieces there are.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::library::{VideoId, VideoView};
use anyhow::Result;
use divvy::api::Api;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::words;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::screen::Screen;
use divvy_workload::follow;

/// Between two lines when nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(3);
/// Parts of a bar.
const STEPS: u64 = 1_000;

/// Shows a video until nothing more happens to it; how it ended.
pub(crate) async fn until_final(api: &Api, output: &Output, id: &VideoId) -> Result<VideoView> {
    let mut bars = Bars::new(output);
    let show = |view: &VideoView| {
        let is_final = view.video.state.is_final();
        if !is_final {
            bars.update(view);
        }
        is_final
    };
    let view = follow::until_final::<VideoView, VideoView>(api, "videos", &id.0, show).await?;
    bars.finish(&view);
    Ok(view)
}

/// Shows a video until it is dropped.
struct Bars {
    output: Output,
    drawn: Option<Screen>,
    stages: HashMap<String, ProgressBar>,
    last_line: Instant,
    last_text: String,
}

impl Bars {
    /// Starts to show.
    fn new(output: &Output) -> Self {
        Self {
            output: *output,
            drawn: output.is_live().then(Screen::new),
            stages: HashMap::new(),
            last_line: Instant::now(),
            last_text: String::new(),
        }
    }

    /// Shows the video as it is now.
    fn update(&mut self, view: &VideoView) {
        let Some(screen) = &self.drawn else { return self.line(view, LINE_EVERY) };
        for stage in view.stages.iter().filter(|stage| stage.total > 0) {
            let bar = self.stages.entry(stage.name.clone()).or_insert_with(|| {
                let bar = screen.bars().add(ProgressBar::new(STEPS).with_style(style()));
                bar.set_prefix(stage.name.clone());
                bar
            });
            bar.set_position((stage.progress.clamp(0.0, 1.0) * STEPS as f64) as u64);
            bar.set_message(words::counts(stage));
        }
    }

    /// Shows the last state for good.
    fn finish(mut self, view: &VideoView) {
        self.update(view);
        match self.drawn.take() {
            Some(screen) if !self.stages.is_empty() => {
                self.stages.values().for_each(ProgressBar::abandon);
                screen.leave();
            }
            Some(_) => {}
            None => self.line(view, Duration::ZERO),
        }
    }

    fn line(&mut self, view: &VideoView, every: Duration) {
        let text = format!("{} {}", view.video.id.0, words::line(view));
        if self.last_line.elapsed() >= every && text != self.last_text {
            self.output.note(&text);
            (self.last_line, self.last_text) = (Instant::now(), text);
        }
    }
}

/// A bar of bytes, for an upload. Hidden where nobody watches.
pub(crate) fn upload(output: &Output, name: &str, bytes: u64) -> ProgressBar {
    if !output.is_live() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(
        "{prefix:>16!} {bar:24} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
    )
    .expect("the template is constant and valid")
    .progress_chars("=> ");
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.set_style(style);
    bar.set_prefix(name.to_owned());
    bar
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:>12} {bar:40} {msg}")
        .expect("the template is constant and valid")
        .progress_chars("=> ")
}
