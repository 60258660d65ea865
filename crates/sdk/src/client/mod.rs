//! The client: submits tasks and watches them.
//!
//! Submissions go over gRPC in shared batches (`batcher`), everything else over HTTP/JSON, waits over server-sent events
//! (`follow`). How the server is reached, over sockets or in process, is decided in `divvy-client`. A clone is cheap and
//! shares the connections.

mod batch;
mod batcher;
mod error;
mod events;
mod follow;
mod handle;
mod look;
mod schedules;

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use divvy_client::reqwest::Body;
pub use divvy_client::{Api, DEFAULT_SERVER, Error, Reply, Target};
pub use divvy_types::Submitted;
use divvy_types::{TaskId, TaskSpec, TaskState};
use http_body::Body as HttpBody;
use serde::{Deserialize, Serialize};
use tower_service::Service;

pub use batch::Batch;
use batcher::{Batcher, Manner};
pub use error::WaitError;
pub use follow::{Follow, News, RunProgress};
pub(crate) use follow::{tasks_of, was_not_called};
pub(crate) use handle::Firsts;
pub use handle::TaskHandle;
pub use schedules::{NewSchedule, Schedules};

use crate::task::{Task, TaskOptions, clock};
use crate::workflow::{Run, Workflow};

/// Talks to a server.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    batcher: OnceLock<Batcher>,
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
    /// Connects to a server: an address such as `http://127.0.0.1:7171` or `https://divvy.example`, or a [`Target`] that
    /// also has a token or an authority to trust.
    ///
    /// # Errors
    /// If no server answers there. A connection that breaks later is made anew.
    pub async fn connect(target: impl Into<Target>) -> Result<Self, Error> {
        let client = Self::new(target)?;
        client.api().ready().await?;
        Ok(client)
    }

    /// Connects to the server that `DIVVY_SERVER` names, with the token in `DIVVY_TOKEN` and the authority in the file
    /// `DIVVY_CA`; without the first to `http://127.0.0.1:7171`.
    pub async fn connect_env() -> Result<Self, Error> {
        Self::connect(Target::from_env()).await
    }

    /// A client of a server that may not be there yet: nothing is asked of it before it is needed.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn new(target: impl Into<Target>) -> Result<Self, Error> {
        Ok(Self::over(Api::new(target)?))
    }

    /// A client of a server in this process: `service` answers what is sent to others over sockets, JSON, events and
    /// gRPC alike. There is no socket and no token; `divvy_server::Server` has such a service.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::over(Api::in_process(service))
    }

    fn over(api: Api) -> Self {
        Self { inner: Arc::new(Inner { api, batcher: OnceLock::new() }) }
    }

    /// The server's HTTP API as it is: requests by path, answers as JSON text. For what this crate has no words for.
    pub fn api(&self) -> &Api {
        &self.inner.api
    }

    /// Follows these tasks until all of them are final.
    pub fn follow(&self, tasks: impl IntoIterator<Item = TaskId>) -> Follow {
        Follow::tasks(self.api(), tasks)
    }

    /// Submits a task with the options of its type; returns when it is durable.
    ///
    /// Submissions that are under way at the same time share batches, so submit from many places, or join many
    /// submissions, without thinking of it.
    pub async fn submit<T: Task>(&self, task: T) -> Result<TaskHandle<T::Output>, Error> {
        self.submit_with(task, |options| options).await
    }

    /// Submits a task with changed options. If another task has its unique key and it is to be skipped then, the handle is
    /// that of the other, and [`TaskHandle::is_existing`] says so.
    pub async fn submit_with<T: Task>(
        &self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> Result<TaskHandle<T::Output>, Error> {
        let spec = change(T::options()).spec(&task, clock())?;
        let id = spec.id;
        let submitted = self.batcher()?.submit(vec![spec], Manner::Shared).await?;
        let late = submitted.late.into_iter().find(|late| late.task == id);
        let firsts = Firsts::default();
        firsts.learn(submitted.conflicts.into_iter().filter(|conflict| conflict.task == id));
        Ok(TaskHandle::new(self.clone(), id).with_late(late).with_firsts(firsts))
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
        self.batcher()?.submit(specs, manner).await
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
        let path = ["tasks", &id.to_string(), "cancel"];
        let body: StateBody = self.api().post(&path, &CancelBody { reason }).await?.parse()?;
        Ok(body.state)
    }

    /// Puts a dead or cancelled task back, or runs one now that waits for a time; says where it is then. A task that was
    /// put back before its `run_at` waits for that.
    pub async fn retry(&self, id: TaskId) -> Result<TaskState, Error> {
        let path = ["tasks", &id.to_string(), "retry"];
        let body: StateBody = self.api().post(&path, &serde_json::json!({})).await?.parse()?;
        Ok(body.state)
    }

    /// The loop that submits, which starts with the first submission.
    fn batcher(&self) -> Result<&Batcher, Error> {
        if let Some(batcher) = self.inner.batcher.get() {
            return Ok(batcher);
        }
        // Of two that are started at the same time, one is dropped and ends.
        let batcher = Batcher::start(self.api().channel()?);
        Ok(self.inner.batcher.get_or_init(|| batcher))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.api().server()).finish()
    }
}
