//! Four ways to run code, side by side: decides which threads or processes a piece of work gets.
//!
//! | tier | runs | for |
//! |---|---|---|
//! | async | futures on a tokio runtime | code that waits a lot and computes little |
//! | blocking | closures on threads that are started as needed, up to a limit, and used again | files, old clients, locks |
//! | cpu | closures on a stealing pool, one worker per processor | computing |
//! | process | a program in a process group of its own | foreign languages, code that may crash or leak |
//!
//! Does not decide which tier is right for a piece of work: the caller knows.

mod keeper;
mod process;

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub use keeper::{KeepError, Keeper, Limits, keep};
pub use process::{
    ARGS_MAX, ENVIRONMENT_KEPT, Output, PIPES_MAX, Pipe, ProcessError, Program, STDERR_BYTES_MAX,
    STDOUT_BYTES_MAX,
};
use tokio::runtime::Handle as Runtime;
use tokio::sync::Semaphore;

use crate::handle::{self, Handle, JoinError};
use crate::options::{Error, Options as PoolOptions, Start, WORKERS_MAX};
use crate::pool::Pool;

/// One of the four ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// On the async runtime: waits a lot, computes little.
    Async,
    /// On a thread that may block.
    Blocking,
    /// On the stealing pool.
    Cpu,
    /// As a child process.
    Process,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 4] = [Self::Async, Self::Blocking, Self::Cpu, Self::Process];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Blocking => "blocking",
            Self::Cpu => "cpu",
            Self::Process => "process",
        }
    }

    /// Its place in [`Tier::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How the tiers are set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most threads of the blocking tier.
    pub blocking_threads: usize,
    /// The workers of the cpu tier; one per processor if nothing is said.
    pub cpu_workers: usize,
    /// The most processes at the same time; one per processor if nothing is said.
    pub processes: usize,
    /// The beginning of the names of the threads: `<name>-blocking-0`, `<name>-cpu-0`.
    pub name: String,
}

impl Default for Options {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            blocking_threads: 64,
            cpu_workers: processors,
            processes: processors,
            name: "divvy".into(),
        }
    }
}

/// The four tiers.
#[derive(Debug)]
pub struct Tiers {
    runtime: Runtime,
    blocking: Pool,
    cpu: Pool,
    processes: Arc<Semaphore>,
}

impl Tiers {
    /// Starts the threads. `runtime` serves the async and the process tier; it must have its I/O enabled.
    pub fn new(runtime: Runtime, options: Options) -> Result<Self, Error> {
        let count = |field, value: usize| {
            if (1..=WORKERS_MAX).contains(&value) {
                return Ok(());
            }
            let problem = format!("is {value}; it must be 1 to {WORKERS_MAX}");
            Err(Error::Option { field, problem })
        };
        count("blocking_threads", options.blocking_threads)?;
        count("cpu_workers", options.cpu_workers)?;
        count("processes", options.processes)?;
        let blocking = PoolOptions {
            start: Start::OnDemand,
            name: format!("{}-{}", options.name, Tier::Blocking),
            ..PoolOptions::with_workers(options.blocking_threads)
        };
        let cpu = PoolOptions {
            name: format!("{}-{}", options.name, Tier::Cpu),
            ..PoolOptions::with_workers(options.cpu_workers)
        };
        Ok(Self {
            runtime,
            blocking: Pool::new(blocking)?,
            cpu: Pool::new(cpu)?,
            processes: Arc::new(Semaphore::new(options.processes)),
        })
    }

    /// Runs a closure on a tier. On the async tier it must be short: it holds up a thread of the runtime. The process
    /// tier takes programs only, so it is refused here.
    pub fn run_on<T, F>(&self, tier: Tier, run: F) -> Result<Handle<T>, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        match tier {
            Tier::Blocking => Ok(self.blocking.run(run)),
            Tier::Cpu => Ok(self.cpu.run(run)),
            Tier::Async => {
                let (task, handle) = handle::pair(None, None, run);
                self.runtime.spawn(async move { task.run() });
                Ok(handle)
            }
            Tier::Process => {
                let problem = "is process, which takes no closure; give run_process a program";
                Err(Error::Option { field: "tier", problem: problem.into() })
            }
        }
    }

    /// Runs a future on the async tier. It begins at once and goes on if the handle is dropped.
    pub fn run_on_async<T, F>(&self, future: F) -> AsyncHandle<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        AsyncHandle(self.runtime.spawn(future))
    }

    /// Runs a program on the process tier, once there are fewer processes than the limit. Nothing happens before the
    /// future is polled; if it is dropped, the program and all that it started are killed.
    pub fn run_process(
        &self,
        program: Program,
    ) -> impl Future<Output = Result<Output, ProcessError>> + Send + use<> {
        process::run(self.runtime.clone(), Arc::clone(&self.processes), program)
    }

    /// The pool of the blocking tier.
    pub fn blocking(&self) -> &Pool {
        &self.blocking
    }

    /// The pool of the cpu tier.
    pub fn cpu(&self) -> &Pool {
        &self.cpu
    }

    /// How many more processes may start now.
    pub fn processes_free(&self) -> usize {
        self.processes.available_permits()
    }
}

/// The value to come of a future on the async tier.
#[derive(Debug)]
pub struct AsyncHandle<T>(tokio::task::JoinHandle<T>);

impl<T> AsyncHandle<T> {
    /// Stops the future where it waits.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

impl<T> Future for AsyncHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = std::task::ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(joined.map_err(|error| match error.try_into_panic() {
            Ok(payload) => JoinError::Panicked(payload),
            Err(_) => JoinError::Cancelled,
        }))
    }
}
