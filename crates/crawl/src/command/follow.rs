//! Follows a crawl until it has ended, by the server's events; shows how far it is.
//!
//! A connection that breaks is opened again; a server may be away for a while, it comes back where it was.

use std::time::Duration;

use anyhow::Result;
use divvy::api::{Api, Frames};
use divvy_workload::console::output::Output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::words;
use crate::crawls::view::CrawlView;
use crate::web::Scene;

/// How long a server that has answered before may be away.
const PATIENCE: Duration = Duration::from_secs(60);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// Between two lines when nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Waits for the end of a crawl; how it ended.
pub(super) async fn until_final(api: &Api, output: &Output, id: &str) -> Result<CrawlView> {
    let mut line = Line::new(output);
    let mut last_good = None;
    loop {
        let error = match follow(api, id, &mut line, &mut last_good).await {
            Ok(Some(crawl)) => return Ok(crawl),
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
) -> Result<Option<CrawlView>, divvy::Error> {
    let mut frames = Frames::open(api, &["crawls", id, "events"], &[]).await?;
    *last_good = Some(Instant::now());
    while let Some(frame) = frames.next().await? {
        let Ok(scene) = serde_json::from_str::<Scene>(&frame.data) else { continue };
        *last_good = Some(Instant::now());
        if scene.crawl.state.is_final() {
            return Ok(Some(scene.crawl));
        }
        line.update(&scene.crawl);
    }
    // The stream ends with the crawl, or with the connection: the crawl itself says which.
    let crawl: CrawlView = api.get(&["crawls", id], &[]).await?.parse()?;
    *last_good = Some(Instant::now());
    Ok(crawl.state.is_final().then_some(crawl))
}

/// One line that changes on a terminal; else a new one every few seconds.
struct Line {
    output: Output,
    bar: Option<ProgressBar>,
    last: Option<Instant>,
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
        Self { output: *output, bar, last: None }
    }

    fn update(&mut self, crawl: &CrawlView) {
        let text = words::line(crawl);
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
