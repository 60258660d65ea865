//! Follows one thing until it has ended, by the server's events; shows how far it is.
//!
//! A connection that breaks is opened again; a server may be away for a while, it comes back where it was.

use std::time::Duration;

use anyhow::Result;
use divvy::api::{Api, Frames};
use divvy_console::output::Output;
use divvy_console::output::line::Line;
use tokio::time::Instant;

use crate::view::View;

/// How long a server that has answered before may be away.
const PATIENCE: Duration = Duration::from_secs(60);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Waits for the end; how it ended.
pub(crate) async fn until_final<V: View>(api: &Api, output: &Output, id: &str) -> Result<V> {
    let mut shown = Shown { line: Line::new(output), steps: 0, last_good: None };
    loop {
        let error = match shown.follow(api, id).await {
            Ok(Some(view)) => return Ok(view),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        // A server that has never answered is not waited for: it may be the wrong address.
        let patient = shown.last_good.is_some_and(|last| last.elapsed() <= PATIENCE);
        if let Some(error) = error
            && !(error.is_temporary() && patient)
        {
            return Err(error.into());
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

struct Shown {
    line: Line,
    /// Steps that were told.
    steps: usize,
    /// When the server answered last.
    last_good: Option<Instant>,
}

impl Shown {
    /// Follows one connection: the end, or nothing if the connection ended before.
    async fn follow<V: View>(&mut self, api: &Api, id: &str) -> Result<Option<V>, divvy::Error> {
        let mut frames = Frames::open(api, &[V::PLACE, id, "events"], &[]).await?;
        self.last_good = Some(Instant::now());
        while let Some(frame) = frames.next().await? {
            let Ok(event) = serde_json::from_slice::<V::Event>(frame.data.as_bytes()) else {
                continue;
            };
            self.last_good = Some(Instant::now());
            let view: V = event.into();
            self.tell_steps(&view);
            if view.is_final() {
                return Ok(Some(view));
            }
            self.line.update(&view.line());
        }
        // The stream ends with the thing, or with the connection: the thing itself says which.
        let view: V = api.get(&[V::PLACE, id], &[]).await?.parse()?;
        self.last_good = Some(Instant::now());
        Ok(view.is_final().then_some(view))
    }

    /// Tells the steps that were not told yet.
    fn tell_steps(&mut self, view: &impl View) {
        for step in view.steps().iter().skip(self.steps) {
            self.steps += 1;
            self.line.note(step);
        }
    }
}
