//! The worker's builder: what it serves, what it shares, how much it takes.
//!
//! Decides what can be wrong before the first task: a missing state, a kind with two handlers, a bad name. Everything
//! wrong is told at [`Worker::run`], together. The running itself is `divvy-worker`'s business.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use divvy_types::{AttemptOutcome, Name};
use divvy_worker::{Attempt, BlockingHandler, Options, Registry, Shutdown, Slots, Summary};

use crate::client::Target;
use crate::context::{Context, States, Surroundings};
use crate::handler::{AsyncHandler, Code, Registration, SyncCode, SyncHandler};

/// A process that runs tasks.
///
/// ```no_run
/// # use divvy::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Probe { url: String }
/// # impl Task for Probe { const KIND: &'static str = "video.probe"; type Output = u64; }
/// async fn probe(task: Probe, State(bitrate): State<u64>) -> Outcome<u64> {
///     Ok(task.url.len() as u64 * bitrate)
/// }
///
/// # async fn main_() -> Result<(), divvy::WorkerError> {
/// Worker::new("encoder-1").queues(["video"]).caps(["ffmpeg"]).state(25u64).on(probe).run().await?;
/// # Ok(()) }
/// ```
pub struct Worker {
    name: Name,
    target: Target,
    queues: Vec<Name>,
    capabilities: Vec<Name>,
    slots: Option<Slots>,
    prefetch: Option<u32>,
    drain_timeout: Option<Duration>,
    states: States,
    registrations: Vec<Registration>,
    problems: Vec<String>,
}

/// Why a worker did not start, or ended without being asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// It was built wrong.
    #[error("worker `{name}` cannot start: {}", problems.join("; "))]
    Setup {
        /// Its name.
        name: Name,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// It could not run.
    #[error(transparent)]
    Run(#[from] divvy_worker::Error),
}

impl Worker {
    /// A worker that people call `name`, without handlers yet.
    pub fn new(name: impl Into<Name>) -> Self {
        Self {
            name: name.into(),
            target: Target::from_env(),
            queues: Vec::new(),
            capabilities: Vec::new(),
            slots: None,
            prefetch: None,
            drain_timeout: None,
            states: States::default(),
            registrations: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Where the server is; otherwise `DIVVY_SERVER` says it, or it is `http://127.0.0.1:7171`.
    pub fn server(mut self, url: impl Into<String>) -> Self {
        self.target.server = url.into();
        self
    }

    /// The token that the server wants; otherwise `DIVVY_TOKEN` says it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.target.token = Some(token.into());
        self
    }

    /// The file of the only authorities to trust where the server is at `https://`; otherwise `DIVVY_CA` says it, or
    /// those of this machine are trusted.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.target.ca = Some(file.into());
        self
    }

    /// Serves only these queues. Without this it serves all.
    pub fn queues<N: Into<Name>>(mut self, queues: impl IntoIterator<Item = N>) -> Self {
        self.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Has these capabilities.
    pub fn caps<N: Into<Name>>(mut self, capabilities: impl IntoIterator<Item = N>) -> Self {
        self.capabilities = capabilities.into_iter().map(Into::into).collect();
        self
    }

    /// How many attempts run at once on each tier. By default that follows from the cores of the machine.
    pub fn slots(mut self, slots: Slots) -> Self {
        self.slots = Some(slots);
        self
    }

    /// Tasks taken beyond the slots, so that the next one is at hand. By default as many as there are slots. The server
    /// recalls them for a worker that is idle, so they are not lost to others; 0 is for tasks so long that the trip to
    /// the server does not matter.
    pub fn prefetch(mut self, tasks: u32) -> Self {
        self.prefetch = Some(tasks);
        self
    }

    /// How long a stopping worker waits for what runs.
    pub fn drain_timeout(mut self, span: Duration) -> Self {
        self.drain_timeout = Some(span);
        self
    }

    /// Shares a value with handlers that take `State<T>`. One value per type.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        if self.states.insert(value) {
            let name = std::any::type_name::<T>();
            self.problems.push(format!(
                "state of type `{name}` is given twice; wrap one of them in a type of its own"
            ));
        }
        self
    }

    /// Runs tasks with an async function.
    pub fn on<Arguments, H: AsyncHandler<Arguments>>(mut self, handler: H) -> Self {
        self.registrations.push(Registration::asynchronous(handler));
        self
    }

    /// Runs tasks with an async function that drives a child process, one per slot of the process tier.
    pub fn on_process<Arguments, H: AsyncHandler<Arguments>>(mut self, handler: H) -> Self {
        self.registrations.push(Registration::process(handler));
        self
    }

    /// Runs tasks with a function that blocks (files, old drivers), on a pool of threads.
    pub fn on_blocking<Arguments, H: SyncHandler<Arguments>>(mut self, handler: H) -> Self {
        self.registrations.push(Registration::blocking(handler));
        self
    }

    /// Runs tasks with a function that computes, on as many threads as there are cores.
    pub fn on_cpu<Arguments, H: SyncHandler<Arguments>>(mut self, handler: H) -> Self {
        self.registrations.push(Registration::cpu(handler));
        self
    }

    /// Runs until the process is asked to stop: the first SIGTERM or Ctrl-C lets running tasks finish, the second stops
    /// at once. Unfinished tasks go back without using up an attempt.
    pub async fn run(self) -> Result<Summary, WorkerError> {
        // Told before signals are taken over: a worker that cannot start should not.
        let prepared = self.prepare()?;
        prepared.run(Shutdown::on_signals()?).await
    }

    /// Runs until `shutdown` is asked for.
    pub async fn run_until(self, shutdown: Shutdown) -> Result<Summary, WorkerError> {
        self.prepare()?.run(shutdown).await
    }

    fn prepare(self) -> Result<Prepared, WorkerError> {
        let mut options = Options::new(self.name.clone(), self.target.clone());
        if let Some(slots) = self.slots {
            options.slots = slots;
        }
        options.prefetch = self.prefetch;
        options.drain_timeout = self.drain_timeout.unwrap_or(options.drain_timeout);
        let parts = self.into_parts()?;
        options.queues = parts.queues;
        options.capabilities = parts.capabilities;
        let registry = registry(
            parts.registrations,
            &Surroundings { states: parts.states, ..Surroundings::default() },
        );
        Ok(Prepared { options, registry })
    }

    /// The handlers alone, for a worker that has others besides.
    pub fn into_registry(self) -> Result<Registry, WorkerError> {
        let parts = self.into_parts()?;
        let surroundings = Surroundings { states: parts.states, ..Surroundings::default() };
        Ok(registry(parts.registrations, &surroundings))
    }

    /// Checks everything that does not need a server.
    pub(crate) fn into_parts(mut self) -> Result<Parts, WorkerError> {
        let mut kinds: Vec<&str> =
            self.registrations.iter().map(|registration| registration.kind).collect();
        kinds.sort_unstable();
        for kind in kinds.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).map(|same| same[0])
        {
            self.problems.push(format!("kind `{kind}` has two handlers; register each kind once"));
        }
        for registration in &self.registrations {
            if let Err(missing) = (registration.check)(&self.states) {
                self.problems
                    .push(format!("the handler of kind `{}`: {missing}", registration.kind));
            }
        }
        if self.registrations.is_empty() {
            self.problems.push("it has no handlers; register one with .on(…)".into());
        }
        if !self.problems.is_empty() {
            return Err(WorkerError::Setup { name: self.name, problems: self.problems });
        }
        Ok(Parts {
            name: self.name,
            queues: self.queues,
            capabilities: self.capabilities,
            states: Arc::new(self.states),
            registrations: self.registrations,
        })
    }
}

/// A worker that was checked.
pub(crate) struct Parts {
    #[cfg_attr(
        not(feature = "testing"),
        expect(dead_code, reason = "a real worker has its name in its options")
    )]
    pub(crate) name: Name,
    pub(crate) queues: Vec<Name>,
    pub(crate) capabilities: Vec<Name>,
    pub(crate) states: Arc<States>,
    pub(crate) registrations: Vec<Registration>,
}

struct Prepared {
    options: Options,
    registry: Registry,
}

impl Prepared {
    async fn run(self, shutdown: Shutdown) -> Result<Summary, WorkerError> {
        let worker = divvy_worker::Worker::new(self.options, self.registry)?;
        Ok(worker.run(shutdown).await?)
    }
}

struct OnThread {
    code: SyncCode,
    surroundings: Surroundings,
}

impl BlockingHandler for OnThread {
    fn run(&self, attempt: Attempt) -> AttemptOutcome {
        (self.code)(Context::new(attempt, self.surroundings.clone()))
    }
}

pub(crate) fn registry(registrations: Vec<Registration>, surroundings: &Surroundings) -> Registry {
    let mut registry = Registry::new();
    for registration in registrations {
        let kind = Name::const_new(registration.kind);
        let surroundings = surroundings.clone();
        match registration.code {
            Code::Async(code) => {
                let run = move |attempt: Attempt| code(Context::new(attempt, surroundings.clone()));
                registry.on(kind, Arc::new(run));
            }
            Code::Process(code) => {
                let run = move |attempt: Attempt| code(Context::new(attempt, surroundings.clone()));
                registry.on_process(kind, Arc::new(run));
            }
            Code::Blocking(code) => {
                registry.on_blocking(kind, Arc::new(OnThread { code, surroundings }));
            }
            Code::Cpu(code) => {
                registry.on_cpu(kind, Arc::new(OnThread { code, surroundings }));
            }
        }
    }
    registry
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<&str> =
            self.registrations.iter().map(|registration| registration.kind).collect();
        f.debug_struct("Worker")
            .field("name", &self.name)
            .field("kinds", &kinds)
            .finish_non_exhaustive()
    }
}
