//! The client: submits tasks and watches them.
//!
//! Submissions go over gRPC in shared batches (`batcher`), everything else over HTTP/JSON (`http`), waits over
//! server-sent events (`events`). A clone is cheap and shares the connections.

mod batch;
mod batcher;
mod error;
pub(crate) mod events;
mod handle;
mod http;
mod look;
mod schedules;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use divvy_types::Submitted;
use divvy_types::{TaskId, TaskSpec, TaskState};
use serde::{Deserialize, Serialize};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Endpoint;

pub use batch::Batch;
use batcher::{Batcher, Manner};
pub use error::{Error, WaitError};
pub use handle::TaskHandle;
pub(crate) use http::{Http, causes};
pub use schedules::{NewSchedule, Schedules};

use crate::task::{Task, TaskOptions, clock};
use crate::workflow::{Run, Workflow};

/// Where the server is unless something else is said.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7171";

/// How often a quiet connection is probed, and how long the answer may take.
const PROBE: Duration = Duration::from_secs(20);

/// Talks to a server.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: Http,
    batcher: Batcher,
}

#[derive(Serialize)]
struct CancelBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct StateBody {
    state: TaskState,
}

impl Client {
    /// Connects to the server at `url`, such as `http://127.0.0.1:7171`.
    ///
    /// # Errors
    /// If no server answers there. A connection that breaks later is made anew.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::connect_with(url.as_ref(), None).await
    }

    /// Connects to a server that wants a token.
    pub async fn connect_with_token(
        url: impl AsRef<str>,
        token: impl AsRef<str>,
    ) -> Result<Self, Error> {
        Self::connect_with(url.as_ref(), Some(token.as_ref())).await
    }

    /// Connects to the server that `DIVVY_SERVER` names, with the token in `DIVVY_TOKEN`; without the first to
    /// `http://127.0.0.1:7171`.
    pub async fn connect_env() -> Result<Self, Error> {
        Self::connect_with(&default_server(), default_token().as_deref()).await
    }

    async fn connect_with(url: &str, token: Option<&str>) -> Result<Self, Error> {
        let http = Http::new(url, token)?;
        let server = http.server().to_owned();
        let bad = |problem: String| Error::Address { url: server.clone(), problem };
        let endpoint = Endpoint::from_shared(server.clone())
            .map_err(|error| bad(error.to_string()))?
            .connect_timeout(http::CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PROBE)
            .keep_alive_timeout(PROBE)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|error| http.unreachable(causes(&error)))?;
        let token = match token {
            None => None,
            Some(token) => Some(
                AsciiMetadataValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| Error::Unauthorized { server: server.clone() })?,
            ),
        };
        let batcher = Batcher::start(channel, server, token);
        Ok(Self { inner: Arc::new(Inner { http, batcher }) })
    }

    /// Submits a task with the options of its type; returns when it is durable.
    ///
    /// Submissions that are under way at the same time share batches, so submit from many places, or join many
    /// submissions, without thinking of it.
    pub async fn submit<T: Task>(&self, task: T) -> Result<TaskHandle<T::Output>, Error> {
        self.submit_with(task, |options| options).await
    }

    /// Submits a task with changed options.
    pub async fn submit_with<T: Task>(
        &self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> Result<TaskHandle<T::Output>, Error> {
        let spec = change(T::options()).spec(&task, clock())?;
        let id = spec.id;
        let submitted = self.inner.batcher.submit(vec![spec], Manner::Shared).await?;
        let late = submitted.late.into_iter().find(|late| late.task == id);
        Ok(TaskHandle::new(self.clone(), id).with_late(late))
    }

    /// Collects tasks that are accepted or refused together.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// Submits untyped tasks, all or none; returns when they are durable.
    pub async fn submit_specs(&self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        self.submit_whole(specs, Manner::Alone).await
    }

    /// The same, but refuses all if one is expected to miss its deadline, with the code `deadline_unmeetable`.
    pub async fn submit_specs_strict(&self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        self.submit_whole(specs, Manner::Strict).await
    }

    async fn submit_whole(&self, specs: Vec<TaskSpec>, manner: Manner) -> Result<Submitted, Error> {
        if specs.is_empty() {
            return Ok(Submitted::default());
        }
        specs.iter().try_for_each(TaskSpec::validate)?;
        self.inner.batcher.submit(specs, manner).await
    }

    /// Starts a workflow; returns when it is durable.
    pub async fn start(&self, workflow: Workflow) -> Result<Run, Error> {
        Run::start(self.clone(), workflow).await
    }

    /// A task that was submitted before, with its result as JSON.
    pub fn task(&self, id: TaskId) -> TaskHandle<serde_json::Value> {
        TaskHandle::new(self.clone(), id)
    }

    /// A task of a known type that was submitted before.
    pub fn task_of<T: Task>(&self, id: TaskId) -> TaskHandle<T::Output> {
        TaskHandle::new(self.clone(), id)
    }

    /// Keeps a task from running or asks it to stop; says where it is then.
    pub async fn cancel(&self, id: TaskId, reason: Option<&str>) -> Result<TaskState, Error> {
        let body: StateBody =
            self.http().post(&format!("/tasks/{id}/cancel"), &CancelBody { reason }).await?;
        Ok(body.state)
    }

    /// Puts a dead or cancelled task back, or runs one now that waits for a time; says where it is then. A task that was
    /// put back before its `run_at` waits for that.
    pub async fn retry(&self, id: TaskId) -> Result<TaskState, Error> {
        let body: StateBody =
            self.http().post(&format!("/tasks/{id}/retry"), &serde_json::json!({})).await?;
        Ok(body.state)
    }

    pub(crate) fn http(&self) -> &Http {
        &self.inner.http
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.http().server()).finish()
    }
}

/// The server that the environment names, or the usual one.
pub(crate) fn default_server() -> String {
    std::env::var("DIVVY_SERVER")
        .ok()
        .filter(|url| !url.is_empty())
        .unwrap_or_else(|| DEFAULT_SERVER.to_owned())
}

/// The token of the environment.
pub(crate) fn default_token() -> Option<String> {
    std::env::var("DIVVY_TOKEN").ok().filter(|token| !token.is_empty())
}
