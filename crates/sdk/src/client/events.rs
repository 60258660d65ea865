//! Changes of tasks as the server tells them, at `GET /api/v1/events`.

use divvy_client::{Api, Error, Frames, Query};
use divvy_types::view::TaskChange;

/// An open stream of changes.
pub(crate) struct Events(Frames);

/// What a stream says.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A task changed.
    Change(Box<TaskChange>),
    /// Some changes were left out: look at the states again.
    Lagged,
}

impl Events {
    /// Subscribes to the changes that `query` asks for. They are heard from the moment this returns.
    pub(crate) async fn open(api: &Api, query: Query<'_>) -> Result<Self, Error> {
        Ok(Self(Frames::open(api, &["events"], query).await?))
    }

    /// The next change; nothing when the stream ended. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let Some(frame) = self.0.next().await? else { return Ok(None) };
            if frame.name == "lagged" {
                return Ok(Some(Event::Lagged));
            }
            if !frame.data.is_empty() {
                let change =
                    serde_json::from_slice(frame.data.as_bytes()).map_err(Error::protocol)?;
                return Ok(Some(Event::Change(change)));
            }
        }
    }
}
