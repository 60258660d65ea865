//! Server-sent events: a stream that says hello, shows that it is alive while nothing happens, ends with the server,
//! and can be resumed where a [`Ring`](crate::Ring) remembers.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use http::request::Parts;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::ring::{Following, News};

pub use axum::response::sse::Event;

/// How often a quiet stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// When a browser whose stream broke should come back.
const RECONNECT: Duration = Duration::from_secs(2);

/// The id of the last event that the caller saw, as browsers send it when they come back: `Last-Event-ID`.
#[derive(Clone, Debug)]
pub struct LastEventId(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let value = parts.headers.get("last-event-id").and_then(|value| value.to_str().ok());
        Ok(Self(value.filter(|id| !id.is_empty()).map(str::to_owned)))
    }
}

/// An event with this name and this data.
pub fn event(name: &str, data: &impl Serialize) -> Event {
    match serde_json::to_string(data) {
        Ok(text) => Event::default().event(name).data(text),
        Err(error) => Event::default().comment(format!("an event could not be written: {error}")),
    }
}

/// The answer that streams these events until they end or `shutdown` is cancelled.
pub fn answer(
    events: impl Stream<Item = Event> + Send + 'static,
    shutdown: CancellationToken,
) -> Response {
    let events: BoxStream<'static, Event> = events.boxed();
    let hello = Event::default().comment("what comes from now on").retry(RECONNECT);
    let events = stream::iter([hello]).chain(events).map(Ok::<_, Infallible>);
    let events = events.take_until(shutdown.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// What a watcher of a ring hears, as events: those that `show` makes of them, with their ids, and `lagged` with
/// `{"missed": NUMBER or null}` for what is gone.
pub fn of_ring<T: Clone + Send + Sync + 'static>(
    following: Following<T>,
    mut show: impl FnMut(&T) -> Option<Event> + Send + 'static,
) -> impl Stream<Item = Event> + Send {
    let news = stream::unfold(following, |mut following| async move {
        let news = following.next().await;
        Some((news, following))
    });
    news.filter_map(move |news| {
        let event = match news {
            News::Event { id, event } => show(&event).map(|event| event.id(id)),
            News::Missed(count) => Some(lagged(count)),
        };
        std::future::ready(event)
    })
}

fn lagged(missed: Option<u64>) -> Event {
    let missed = missed.map_or_else(|| "null".to_owned(), |count| count.to_string());
    Event::default().event("lagged").data(format!("{{\"missed\":{missed}}}"))
}
