//! The way in: a cheap clone that any task may hold.
//!
//! Checks what can be checked without the engine's state, so that the loop does not have to, and turns a full
//! channel into a clear refusal. Reads of stored tasks are in [`crate::query`].

use std::sync::Arc;
use std::time::Duration;

use divvy_scheduler::admit;
use divvy_types::fact::Replay;
use divvy_types::limits::PAYLOAD_BYTES_MAX;
use divvy_types::spec::check_priority;
use divvy_types::view::{LoadMetrics, Move, QueueView, TaskChange, WorkerView};
use divvy_types::{
    Name, Payload, Settings, SpecError, Submitted, TaskId, TaskSpec, TaskState, Token, WorkerHello,
    WorkerKey,
};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::core::Core;
use crate::group::Watchers;
use crate::query::Readers;
use crate::request::{
    Error, Outbox, ProgressUpdate, Reply, Request, SubmitOptions, WorkerReport, WorkerWord,
};
use crate::stats::{Snapshot, Stats};

/// How long a caller waits for a place in the channel before it is told to slow down.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a caller that was told to slow down should wait.
const RETRY_AFTER_MS: u64 = 1_000;

/// Talks to a running engine.
#[derive(Clone)]
pub struct Handle {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) watchers: Watchers,
    pub(crate) readers: Arc<Readers>,
    pub(crate) stats: Arc<Stats>,
}

impl Handle {
    /// Accepts tasks, all or none; returns when they are durable.
    pub async fn submit(&self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        self.submit_with(specs, SubmitOptions::default()).await
    }

    /// The same on terms of the caller's choice.
    pub async fn submit_with(
        &self,
        specs: Vec<TaskSpec>,
        options: SubmitOptions,
    ) -> Result<Submitted, Error> {
        if specs.is_empty() {
            return Ok(Submitted::default());
        }
        admit::check_batch(&specs)?;
        self.ask(|reply| Request::Submit { specs, options, reply }).await
    }

    /// Registers a connected worker, whose messages go to `outbox` from now on.
    pub async fn connect(&self, hello: WorkerHello, outbox: Outbox) -> Result<WorkerKey, Error> {
        self.ask(|reply| Request::Connect { hello, outbox, reply }).await
    }

    /// Hands in reports; the answers come through the worker's outbox.
    pub async fn report(&self, worker: WorkerKey, reports: Vec<WorkerReport>) -> Result<(), Error> {
        self.hand_in(Request::Report { worker, reports }).await
    }

    /// Renews a worker's leases and takes its news.
    pub async fn heartbeat(
        &self,
        worker: WorkerKey,
        progress: Vec<ProgressUpdate>,
    ) -> Result<(), Error> {
        self.hand_in(Request::Heartbeat { worker, progress }).await
    }

    /// Takes data that running attempts saved.
    pub async fn checkpoint(
        &self,
        worker: WorkerKey,
        saved: Vec<(TaskId, Token, Payload)>,
    ) -> Result<(), Error> {
        self.hand_in(Request::Checkpoint { worker, saved }).await
    }

    /// Uses these settings from now on; refused whole if one makes no sense.
    pub async fn apply_settings(&self, settings: Settings) -> Result<(), Error> {
        settings.check()?;
        let settings = Box::new(settings);
        self.ask(|reply| Request::ApplySettings { settings, reply }).await
    }

    /// Changes the settings that hold, or refuses to, without anyone changing them in between; says what holds then.
    pub async fn change_settings<F>(&self, change: F) -> Result<Settings, Error>
    where
        F: FnOnce(&mut Settings) -> Result<(), Error> + Send + 'static,
    {
        self.ask(|reply| Request::ChangeSettings { change: Box::new(change), reply }).await
    }

    /// The settings that hold.
    pub async fn settings(&self) -> Result<Settings, Error> {
        self.look(|core| core.scheduler().settings().clone()).await
    }

    /// Evens the load of the workers out now, or says what that would move.
    pub async fn rebalance(&self, dry_run: bool) -> Result<Vec<Move>, Error> {
        if dry_run {
            return self.look(|core| core.scheduler().plan_rebalance(core.now())).await;
        }
        self.ask(|reply| Request::Rebalance { reply }).await
    }

    /// How tasks moved between workers so far.
    pub async fn load_metrics(&self) -> Result<LoadMetrics, Error> {
        self.look(|core| core.scheduler().load_metrics()).await
    }

    /// A worker takes no more tasks.
    pub async fn stopping(&self, worker: WorkerKey) -> Result<(), Error> {
        self.hand_in(Request::Stopping { worker }).await
    }

    /// A worker said goodbye.
    pub async fn disconnect(&self, worker: WorkerKey) -> Result<(), Error> {
        self.hand_in(Request::Disconnect { worker }).await
    }

    /// A worker's connection broke.
    pub async fn cut(&self, worker: WorkerKey) -> Result<(), Error> {
        self.hand_in(Request::Cut { worker }).await
    }

    /// Stops a task or keeps it from running.
    pub async fn cancel(&self, id: TaskId, reason: Name) -> Result<TaskState, Error> {
        self.ask(|reply| Request::Cancel { id, reason, reply }).await
    }

    /// Runs a dead, cancelled or waiting-for-a-time task now.
    pub async fn retry(&self, id: TaskId) -> Result<TaskState, Error> {
        self.ask(|reply| Request::Retry { id, reply }).await
    }

    /// Puts a dead or cancelled task back, perhaps later and with another payload.
    pub async fn replay(&self, id: TaskId, replay: Replay) -> Result<TaskState, Error> {
        let bytes = replay.payload.as_ref().map_or(0, |payload| payload.data().len());
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(SpecError::PayloadTooLarge { bytes }.into());
        }
        let replay = Box::new(replay);
        self.ask(|reply| Request::Replay { id, replay, reply }).await
    }

    /// Gives a task that waits another priority.
    pub async fn reprioritise(&self, id: TaskId, priority: u8) -> Result<TaskState, Error> {
        check_priority(priority)?;
        self.ask(|reply| Request::Reprioritise { id, priority, reply }).await
    }

    /// Gives a dead letter up.
    pub async fn drop_dead(&self, id: TaskId) -> Result<TaskState, Error> {
        self.ask(|reply| Request::DropDead { id, reply }).await
    }

    /// Pauses or resumes a queue.
    pub async fn pause_queue(&self, queue: Name, paused: bool) -> Result<(), Error> {
        self.ask(|reply| Request::PauseQueue { queue, paused, reply }).await
    }

    /// Asks a worker to finish what it holds and take no more; says how many connections of that name were asked.
    pub async fn drain_worker(&self, name: Name) -> Result<u32, Error> {
        self.ask(|reply| Request::TellWorker { name, word: WorkerWord::Drain, reply }).await
    }

    /// Lets a worker rest, or take tasks again; says how many connections of that name there are.
    pub async fn pause_worker(&self, name: Name, paused: bool) -> Result<u32, Error> {
        let word = if paused { WorkerWord::Pause } else { WorkerWord::Resume };
        self.ask(|reply| Request::TellWorker { name, word, reply }).await
    }

    /// All queues that have open tasks, workers or settings.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        self.look(|core| core.queues()).await
    }

    /// All connected workers.
    pub async fn workers(&self) -> Result<Vec<WorkerView>, Error> {
        self.look(|core| core.workers()).await
    }

    /// Changes of tasks from now on. A receiver that falls behind loses the oldest and is told how many.
    ///
    /// Whoever asks for the state of a task after this has returned misses nothing: each change is either in that
    /// state or will be told. A change that happened while nobody watched is not told, so this waits until such
    /// changes can be read.
    pub async fn changes(&self) -> Result<broadcast::Receiver<Arc<TaskChange>>, Error> {
        let changes = self.watchers.changes.subscribe();
        self.ask(|reply| Request::Flush { reply }).await?;
        Ok(changes)
    }

    /// How far running tasks are, as they tell it, from now on. A receiver that falls behind loses the oldest.
    pub fn progress(&self) -> broadcast::Receiver<Arc<TaskChange>> {
        self.watchers.progress.subscribe()
    }

    /// The figures of the engine since its start, and how many tasks are open.
    pub async fn stats(&self) -> Result<Snapshot, Error> {
        let stats = Arc::clone(&self.stats);
        self.look(move |core| stats.snapshot(core)).await
    }

    /// A number that changes whenever something was recorded or given to a worker: who saw it before and sees it again
    /// need not ask the loop what is new.
    pub fn activity(&self) -> u64 {
        self.stats.activity()
    }

    /// Makes the engine's counters and histograms readable for monitors.
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.stats.register(registry);
    }

    /// From now on [`Handle::work_came`] ends with the next task that becomes ready. For one listener, who looks after
    /// this and before it waits, and so misses nothing and costs nothing while nothing comes.
    pub fn await_work(&self) {
        self.stats.await_work();
    }

    /// Waits until a task has become ready since [`Handle::await_work`]. May be dropped while it waits.
    pub async fn work_came(&self) {
        self.stats.work_came().await;
    }

    /// Why nothing can be recorded at present, if that is so.
    pub fn store_problem(&self) -> Option<Error> {
        self.stats.problem().map(Error::StoreUnavailable)
    }

    /// Whether the engine still takes requests.
    pub fn is_running(&self) -> bool {
        !self.requests.is_closed()
    }

    /// Runs `look` inside the loop, between two steps, on the state of that moment.
    pub async fn look<T, F>(&self, look: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Core) -> T + Send + 'static,
    {
        self.ask(|reply: Reply<T>| {
            Request::Look(Box::new(move |core| {
                // The asker may have gone; then nobody misses the answer.
                let _ = reply.send(Ok(look(core)));
            }))
        })
        .await
    }

    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let failed = self.stats.failed_reads();
        self.tell(request(reply)).await?;
        answer.await.unwrap_or_else(|_| {
            // A reply that is dropped means that the engine stops, or that something could not be read.
            let unread = self.is_running() && self.stats.failed_reads() > failed;
            Err(if unread { Error::Store(self.stats.failed_read()) } else { Error::Stopping })
        })
    }

    /// Hands in what a worker says, however long the loop is busy. A worker that is turned away would lose its
    /// connection and come back with more to say; one that waits is held up by its connection.
    async fn hand_in(&self, request: Request) -> Result<(), Error> {
        self.requests.send(request).await.map_err(|_| Error::Stopping)
    }

    async fn tell(&self, request: Request) -> Result<(), Error> {
        match self.requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Error::Stopping),
            Err(mpsc::error::TrySendError::Full(request)) => {
                self.requests.send_timeout(request, PATIENCE).await.map_err(|error| match error {
                    mpsc::error::SendTimeoutError::Timeout(_) => {
                        Error::Overloaded { retry_after_ms: RETRY_AFTER_MS }
                    }
                    mpsc::error::SendTimeoutError::Closed(_) => Error::Stopping,
                })
            }
        }
    }
}
