//! Changes of tasks as server-sent events, from the moment of a request or from the last event that the caller saw.
//!
//! The latest changes are in a ring that is filled while someone watches and for a minute after, so that a watcher whose
//! connection broke misses nothing; while nobody watches, nothing is recorded. A watcher that reads too slowly or comes
//! back too late is told how many changes it missed by an event `lagged`; it should then look at the tasks it cares about.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use divvy_engine::{Error, Handle};
use divvy_http::events::{self, Event};
use divvy_http::{ApiError, Following, Ring};
use divvy_types::limits::{KIND_LEN_MAX, QUEUE_LEN_MAX};
use divvy_types::schema::Label;
use divvy_types::view::TaskChange;
use divvy_types::{Name, Select, TaskId, TaskState, WorkflowId};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Mutex, broadcast};
use tokio_util::sync::CancellationToken;

/// Changes that are kept for watchers who come back.
const KEPT_MAX: usize = 16_384;
/// How long changes are recorded after the last watcher left.
const LINGER: Duration = Duration::from_secs(60);
/// Changes that are kept in one go.
const AT_ONCE_MAX: usize = 1_024;
/// Tasks that one watcher may name.
const TASKS_MAX: usize = 1_000;

type Change = Arc<TaskChange>;

/// The latest changes, recorded while they are of use. A clone is the same.
#[derive(Clone)]
pub struct Changes {
    handle: Handle,
    shutdown: CancellationToken,
    ring: Ring<Change>,
    /// Whether someone records; held while that changes.
    recorded: Arc<Mutex<bool>>,
}

/// Which changes a watcher wants; an absent part means any.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filter {
    /// Only this kind; a trailing `*` matches any rest.
    #[schemars(with = "Option<Label<KIND_LEN_MAX>>")]
    kind: Option<Name>,
    /// Only in this queue.
    #[schemars(with = "Option<Label<QUEUE_LEN_MAX>>")]
    queue: Option<Name>,
    /// Only into one of these states.
    state: Vec<TaskState>,
    /// Only of this workflow.
    workflow: Option<WorkflowId>,
    /// Only these tasks, by id or the beginning of one.
    task: Vec<String>,
    /// Tell too how far running tasks are, as events `progress`.
    progress: bool,
}

/// A filter whose tasks are known.
struct Wishes {
    filter: Filter,
    tasks: Vec<TaskId>,
}

impl Changes {
    /// Those of this engine, until the server stops.
    pub fn new(handle: Handle, shutdown: CancellationToken) -> Self {
        Self { handle, shutdown, ring: Ring::new(KEPT_MAX), recorded: Arc::default() }
    }

    /// Streams changes until the caller leaves or the server stops.
    pub fn stream(
        &self,
        last: Option<String>,
        filter: Filter,
    ) -> BoxFuture<'static, Result<Response, ApiError>> {
        self.clone().answer(last, filter).boxed()
    }

    async fn answer(self, last: Option<String>, filter: Filter) -> Result<Response, ApiError> {
        // Before the answer begins: what the caller reads after that is complete together with the events.
        let following = self.follow(last.as_deref()).await?;
        let news = filter.progress.then(|| self.handle.progress());
        let wishes = Arc::new(Wishes::read(&self.handle, filter).await?);
        let progress = progress(news, Arc::clone(&wishes));
        let changes = events::of_ring(following, move |change: &Change| {
            wishes.want(change).then(|| events::event("change", &**change))
        });
        Ok(events::answer(stream::select(changes, progress), self.shutdown))
    }

    /// A place in the ring, which has every change from now on.
    async fn follow(&self, last: Option<&str>) -> Result<Following<Change>, Error> {
        let mut recorded = self.recorded.lock().await;
        if !*recorded {
            let changes = self.handle.changes().await?;
            self.ring.renew();
            *recorded = true;
            let recorder =
                Recorder { changes, ring: self.ring.clone(), recorded: Arc::clone(&self.recorded) };
            tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(recorder.run()));
        }
        // While the recorder cannot leave.
        Ok(self.ring.follow(last))
    }
}

/// Fills the ring.
struct Recorder {
    changes: broadcast::Receiver<Change>,
    ring: Ring<Change>,
    recorded: Arc<Mutex<bool>>,
}

impl Recorder {
    async fn run(mut self) {
        let mut look = tokio::time::interval(LINGER);
        let mut unwatched = false;
        loop {
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(change) => self.keep(change),
                    Err(RecvError::Lagged(count)) => self.ring.skip(count),
                    Err(RecvError::Closed) => break,
                },
                _ = look.tick() => {
                    let mut recorded = self.recorded.lock().await;
                    if unwatched && self.ring.followers() == 0 {
                        *recorded = false;
                        return;
                    }
                    unwatched = self.ring.followers() == 0;
                }
            }
        }
        *self.recorded.lock().await = false;
    }

    /// Keeps a change and those behind it that are there already: watchers are woken once for all of them.
    fn keep(&mut self, first: Change) {
        let mut lost = 0;
        let behind = std::iter::from_fn(|| match self.changes.try_recv() {
            Ok(change) => Some(change),
            Err(TryRecvError::Lagged(count)) => {
                lost = count;
                None
            }
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        });
        self.ring.extend(std::iter::once(first).chain(behind.take(AT_ONCE_MAX)));
        if lost > 0 {
            self.ring.skip(lost);
        }
    }
}

impl Wishes {
    async fn read(handle: &Handle, filter: Filter) -> Result<Self, ApiError> {
        let Filter { kind, queue, .. } = &filter;
        Select { kind: kind.clone(), queue: queue.clone(), ..Select::default() }.check()?;
        let count = filter.task.len();
        if count > TASKS_MAX {
            return Err(ApiError::field(
                "task",
                format!("names {count} tasks, at most {TASKS_MAX}"),
            ));
        }
        let mut tasks = Vec::with_capacity(count);
        for text in &filter.task {
            // A whole id need not be known yet: its submission may be under way.
            match text.parse() {
                Ok(id) => tasks.push(id),
                Err(_) => tasks.push(handle.resolve(text).await?),
            }
        }
        tasks.sort_unstable();
        Ok(Self { filter, tasks })
    }

    fn want(&self, change: &TaskChange) -> bool {
        let Filter { kind, queue, state, workflow, .. } = &self.filter;
        let kind = kind.as_ref().is_none_or(|kind| match kind.strip_suffix('*') {
            Some(start) => change.kind.starts_with(start),
            None => *kind == change.kind,
        });
        kind && queue.as_ref().is_none_or(|queue| *queue == change.queue)
            && (state.is_empty() || state.contains(&change.state))
            && workflow.is_none_or(|workflow| change.workflow == Some(workflow))
            && (self.tasks.is_empty() || self.tasks.binary_search(&change.id).is_ok())
    }
}

/// How far running tasks are. It is not kept: what is read too late is left out, and newer news follow.
fn progress(
    news: Option<broadcast::Receiver<Change>>,
    wishes: Arc<Wishes>,
) -> impl Stream<Item = Event> {
    stream::unfold((news, wishes), |(news, wishes)| async move {
        let mut news = news?;
        loop {
            match news.recv().await {
                Ok(change) if wishes.want(&change) => {
                    return Some((events::event("progress", &*change), (Some(news), wishes)));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => (),
                Err(RecvError::Closed) => return None,
            }
        }
    })
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
            token: None,
            progress: None,
        }
    }

    #[test]
    fn every_part_of_a_filter_counts() {
        let none = Filter::default;
        let wants = |filter: Filter| Wishes { filter, tasks: Vec::new() }.want(&change());
        assert!(wants(none()));
        assert!(wants(Filter { kind: Some("video.*".into()), ..none() }));
        assert!(!wants(Filter { kind: Some("video".into()), ..none() }));
        assert!(!wants(Filter { queue: Some("default".into()), ..none() }));
        assert!(!wants(Filter { state: vec![TaskState::Dead], ..none() }));
        assert!(!wants(Filter { workflow: Some(WorkflowId(4)), ..none() }));
        let named = |tasks| Wishes { filter: none(), tasks }.want(&change());
        assert!(named(vec![TaskId(6), TaskId(7)]));
        assert!(!named(vec![TaskId(8)]));
    }
}
