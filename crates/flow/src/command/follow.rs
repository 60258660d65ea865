//! Follows a job until it has ended, by the server's events; shows how far it is, stage by stage.
//!
//! A connection that breaks is opened again; a server may be away for a while, it comes back where it was.

use std::time::Duration;

use anyhow::Result;
use divvy::api::{Api, Frames};
use divvy_workload::console::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::words;
use crate::jobs::view::JobView;

/// How long a server that has answered before may be away.
const PATIENCE: Duration = Duration::from_secs(60);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// Between two lines when nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Waits for the end of a job; how it ended.
pub(super) async fn until_final(api: &Api, output: &Output, id: &str) -> Result<JobView> {
    let mut line = Line::new(output);
    let mut last_good = None;
    loop {
        let error = match follow(api, id, &mut line, &mut last_good).await {
            Ok(Some(job)) => return Ok(job),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        // A server that has never answered is not waited for: it may be the wrong address.
        let patient = last_good.is_some_and(|last: Instant| last.elapsed() <= PATIENCE);
        if let Some(error) = error
            && !(error.is_temporary() && patient)
        {
            return Err(error.into());
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

async fn follow(
    api: &Api,
    id: &str,
    line: &mut Line,
    last_good: &mut Option<Instant>,
) -> Result<Option<JobView>, divvy::Error> {
    let mut frames = Frames::open(api, &["flows", id, "events"], &[]).await?;
    *last_good = Some(Instant::now());
    while let Some(frame) = frames.next().await? {
        let Ok(job) = serde_json::from_str::<JobView>(&frame.data) else { continue };
        *last_good = Some(Instant::now());
        if job.state.is_final() {
            line.stages(&job);
            return Ok(Some(job));
        }
        line.update(&job);
    }
    // The stream ends with the job, or with the connection: the job itself says which.
    let job: JobView = api.get(&["flows", id], &[]).await?.parse()?;
    *last_good = Some(Instant::now());
    Ok(job.state.is_final().then_some(job))
}

/// A line per stage that is done, and one that changes on a terminal; else a new one every few seconds.
struct Line {
    output: Output,
    bar: Option<ProgressBar>,
    last: Option<Instant>,
    stages: usize,
}

impl Line {
    fn new(output: &Output) -> Self {
        let bar = output.is_live().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {msg}");
            bar.set_style(style.expect("the template is constant and valid"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { output: *output, bar, last: None, stages: 0 }
    }

    /// Tells the stages that are done and were not told yet.
    fn stages(&mut self, job: &JobView) {
        let done = job.stages.iter().filter(|stage| stage.ended_at_ms.is_some());
        for stage in done.skip(self.stages) {
            self.stages += 1;
            let text = words::stage_line(stage);
            match &self.bar {
                Some(bar) => bar.suspend(|| self.output.note(text)),
                None => self.output.note(text),
            }
        }
    }

    fn update(&mut self, job: &JobView) {
        self.stages(job);
        let text = words::line(job);
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.last.is_none_or(|last| last.elapsed() >= LINE_EVERY) => {
                self.output.note(text);
                self.last = Some(Instant::now());
            }
            None => {}
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
