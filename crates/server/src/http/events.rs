//! `GET /events`: changes of tasks as server-sent events, from the moment of the request.
//!
//! Nothing is kept for a watcher. One that reads too slowly loses the oldest changes and is told how many by an
//! event `lagged`; it should then look at the tasks it cares about.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use divvy_types::limits::{KIND_LEN_MAX, QUEUE_LEN_MAX};
use divvy_types::view::TaskChange;
use divvy_types::{Name, TaskId, TaskState, WorkflowId};
use futures_util::{StreamExt as _, stream};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::parameters::Parameters;
use crate::http::tasks::{name, states};

/// How often a quiet stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// When a browser whose stream broke should come back.
const RECONNECT: Duration = Duration::from_secs(2);
/// Tasks that one watcher may name.
const TASKS_MAX: usize = 1_000;

/// Which changes a watcher wants; an empty part means any.
struct Filter {
    kind: Option<Name>,
    queue: Option<Name>,
    states: Vec<TaskState>,
    workflow: Option<WorkflowId>,
    tasks: Vec<TaskId>,
}

/// Streams changes until the caller leaves or the server stops.
pub(crate) async fn stream(
    State(app): State<App>,
    mut parameters: Parameters,
) -> Result<impl IntoResponse, ApiError> {
    // Before the answer begins: what the caller reads after that is complete together with the events.
    let changes = app.handle.changes().await?;
    let filter = Filter::read(&app, &mut parameters).await?;
    parameters.finish()?;
    let hello = Event::default().comment("changes from now on").retry(RECONNECT);
    let changes = BroadcastStream::new(changes).filter_map(move |change| {
        let event = match change {
            Ok(change) => filter.wants(&change).then(|| change_event(&change)),
            Err(BroadcastStreamRecvError::Lagged(count)) => Some(lagged_event(count)),
        };
        std::future::ready(event.map(Ok::<_, Infallible>))
    });
    let events =
        stream::iter([Ok(hello)]).chain(changes).take_until(app.shutdown.clone().cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Filter {
    async fn read(app: &App, parameters: &mut Parameters) -> Result<Self, ApiError> {
        let named = parameters.take_all("task");
        if named.len() > TASKS_MAX {
            return Err(ApiError::field(
                "task",
                format!("names {} tasks, at most {TASKS_MAX}", named.len()),
            ));
        }
        let mut tasks = Vec::with_capacity(named.len());
        for text in named {
            // A whole id need not be known yet: its submission may be under way.
            match text.parse() {
                Ok(id) => tasks.push(id),
                Err(_) => tasks.push(app.handle.resolve(&text).await?),
            }
        }
        tasks.sort_unstable();
        Ok(Self {
            kind: name(parameters, "kind", KIND_LEN_MAX)?,
            queue: name(parameters, "queue", QUEUE_LEN_MAX)?,
            states: states(parameters)?,
            workflow: parameters.take_parsed("workflow")?,
            tasks,
        })
    }

    fn wants(&self, change: &TaskChange) -> bool {
        let kind = self.kind.as_ref().is_none_or(|kind| match kind.strip_suffix('*') {
            Some(start) => change.kind.starts_with(start),
            None => *kind == change.kind,
        });
        kind && self.queue.as_ref().is_none_or(|queue| *queue == change.queue)
            && (self.states.is_empty() || self.states.contains(&change.state))
            && self.workflow.is_none_or(|workflow| change.workflow == Some(workflow))
            && (self.tasks.is_empty() || self.tasks.binary_search(&change.id).is_ok())
    }
}

fn change_event(change: &Arc<TaskChange>) -> Event {
    let event = Event::default().event("change").id(format!("{}-{}", change.at.0, change.id));
    match serde_json::to_string(&**change) {
        Ok(text) => event.data(text),
        Err(error) => Event::default().comment(format!("a change could not be written: {error}")),
    }
}

fn lagged_event(count: u64) -> Event {
    Event::default().event("lagged").data(format!("{{\"missed\":{count}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::Timestamp;

    fn change() -> TaskChange {
        TaskChange {
            id: TaskId(7),
            kind: "video.probe".into(),
            queue: "video".into(),
            state: TaskState::Done,
            at: Timestamp(5),
            worker: None,
            workflow: Some(WorkflowId(3)),
            error: None,
        }
    }

    fn any() -> Filter {
        Filter { kind: None, queue: None, states: Vec::new(), workflow: None, tasks: Vec::new() }
    }

    #[test]
    fn every_part_of_a_filter_counts() {
        assert!(any().wants(&change()));
        assert!(Filter { kind: Some("video.*".into()), ..any() }.wants(&change()));
        assert!(!Filter { kind: Some("video".into()), ..any() }.wants(&change()));
        assert!(!Filter { queue: Some("default".into()), ..any() }.wants(&change()));
        assert!(!Filter { states: vec![TaskState::Dead], ..any() }.wants(&change()));
        assert!(!Filter { workflow: Some(WorkflowId(4)), ..any() }.wants(&change()));
        assert!(Filter { tasks: vec![TaskId(6), TaskId(7)], ..any() }.wants(&change()));
        assert!(!Filter { tasks: vec![TaskId(8)], ..any() }.wants(&change()));
    }
}
