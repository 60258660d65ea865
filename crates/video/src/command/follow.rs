//! Follows one video until nothing more happens to it, by the server's events; shows how far it is.
//!
//! A connection that breaks is opened again; a server may be away for a while, it comes back where it was.

use std::time::Duration;

use crate::library::{VideoId, VideoView};
use anyhow::Result;
use tokio::time::Instant;

use super::bars::Bars;
use divvy::api::Api;
use divvy::api::Frames;
use divvy_workload::console::output::Output;

/// How long a server that has answered before may be away.
const PATIENCE: Duration = Duration::from_secs(30);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Waits for the end of a video; how it ended.
pub(crate) async fn until_final(api: &Api, output: &Output, id: &VideoId) -> Result<VideoView> {
    let mut bars = Bars::new(output);
    let mut last_good = None;
    loop {
        let error = match follow(api, id, &mut bars, &mut last_good).await {
            Ok(Some(view)) => {
                bars.finish(&view);
                return Ok(view);
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        // A server that has never answered is not waited for: it may be the wrong address.
        let patient = last_good.is_some_and(|last: Instant| last.elapsed() <= PATIENCE);
        let away = |error: &divvy::Error| error.is_temporary() && patient;
        if let Some(error) = error
            && !away(&error)
        {
            return Err(error.into());
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Follows one connection: the end of the video, or nothing if the connection ended before.
async fn follow(
    api: &Api,
    id: &VideoId,
    bars: &mut Bars,
    last_good: &mut Option<Instant>,
) -> Result<Option<VideoView>, divvy::Error> {
    let mut frames = Frames::open(api, &["videos", &id.0, "events"], &[]).await?;
    *last_good = Some(Instant::now());
    while let Some(frame) = frames.next().await? {
        let Ok(view) = serde_json::from_slice::<VideoView>(frame.data.as_bytes()) else { continue };
        *last_good = Some(Instant::now());
        if view.video.state.is_final() {
            return Ok(Some(view));
        }
        bars.update(&view);
    }
    // The stream ends with the video, or with the connection: the video itself says which.
    let view: VideoView = api.get(&["videos", &id.0], &[]).await?.parse()?;
    *last_good = Some(Instant::now());
    Ok(view.video.state.is_final().then_some(view))
}
