//! Brings notices to their sinks, each by a durable task: a sink that is away is tried again for days, also over
//! restarts, and people see in `divvy task list --queue divvy-alerts` what was delivered.
//!
//! The tasks run in this process and not with the workers: an alert that no worker is there must not wait for one, and
//! the keys that sign stay with the server. While there is something to deliver, the courier is connected to the engine
//! like a worker, with a queue of its own; what the rules and figures say of workers leaves it out.
//!
//! A store that takes no tasks is what some alerts are about: then the courier delivers without one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use divvy_engine::{Error, GrantedTask, Outbox, ToWorker, WorkerReport};
use divvy_types::alerts::{AlertChange, COURIER};
use divvy_types::view::QueueView;
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Name, Payload, RetryPolicy, TaskError,
    TaskSpec, WorkerHello, WorkerKey,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::memory::Notice;
use super::sinks;
use crate::app::App;

/// The kind of deliveries.
pub(super) const KIND: &str = "divvy.alert";
/// Deliveries at once.
const SLOTS: u32 = 4;
/// Messages of the engine that may wait.
const MESSAGES_MAX: usize = 64;
/// How often a delivery is tried again: with waits from a second to an hour, for about two days.
const RETRIES: RetryPolicy = RetryPolicy {
    limit: 60,
    base_ms: 1_000,
    cap_ms: 3_600_000,
    jitter_percent: 20,
    rules: Vec::new(),
};

/// Whether the courier is on its way.
#[derive(Debug, Default)]
pub(crate) struct Courier {
    on_the_way: AtomicBool,
}

/// What the task of a delivery says.
#[derive(Serialize, Deserialize)]
struct Delivery {
    sink: Name,
    alert: AlertChange,
}

/// Makes tasks of what is to be told, and sends the courier if some are to be delivered.
pub(super) async fn tell(app: &App, queues: &[QueueView], shutdown: &CancellationToken) {
    let mut waits = queues.iter().any(|queue| queue.name == COURIER && queue.ready > 0);
    while let Some(notice) = app.watch.first() {
        match submit(app, &notice).await {
            Ok(()) => waits = true,
            Err(Error::Stopping | Error::Overloaded { .. }) => break,
            Err(refusal) => {
                if let Err(problem) = tell_without_task(app, &notice).await {
                    tracing::warn!(sink = %notice.sink, %refusal, "cannot be told of an alert, tried again: {problem}");
                    break;
                }
            }
        }
        app.watch.cross_off(&notice);
    }
    if waits && !app.watch.courier.on_the_way.swap(true, Relaxed) {
        let (app, shutdown) = (app.clone(), shutdown.clone());
        tokio::spawn(async move {
            if let Err(error) = deliver(&app, &shutdown).await {
                tracing::debug!(%error, "the courier of alerts came back early");
            }
            app.watch.courier.on_the_way.store(false, Relaxed);
        });
    }
}

/// Tells a sink at once; one that is gone needs no telling.
async fn tell_without_task(app: &App, notice: &Notice) -> Result<(), String> {
    let options = app.settings_file.alerts();
    let Some(sink) = options.sinks.get(&notice.sink) else { return Ok(()) };
    sinks::tell(sink, &notice.id.to_string(), &notice.change, now()).await
}

async fn submit(app: &App, notice: &Notice) -> Result<(), Error> {
    let delivery = Delivery { sink: notice.sink.clone(), alert: notice.change.clone() };
    let mut spec = TaskSpec::new(notice.id, Name::const_new(KIND));
    spec.queue = Name::const_new(COURIER);
    spec.priority = divvy_types::spec::PRIORITY_MAX;
    spec.payload = Payload::from_value(&delivery).expect("an alert is JSON");
    spec.retry = RETRIES;
    app.handle.submit(vec![spec]).await.map(drop)
}

/// Delivers until nothing is left to do at present.
async fn deliver(app: &App, shutdown: &CancellationToken) -> Result<(), Error> {
    let (outbox, messages) = mpsc::channel(MESSAGES_MAX);
    let worker = connect(app, outbox).await?;
    let ended = work(app, worker, messages, shutdown).await;
    // While the server stops, what it holds is recorded as held, like that of any worker.
    if !shutdown.is_cancelled() {
        app.handle.disconnect(worker).await?;
    }
    ended
}

async fn connect(app: &App, outbox: Outbox) -> Result<WorkerKey, Error> {
    let hello = WorkerHello {
        name: Name::const_new(COURIER),
        queues: vec![Name::const_new(COURIER)],
        kinds: vec![Name::const_new(KIND)],
        credit: SLOTS,
        slots: SLOTS,
        ..WorkerHello::default()
    };
    app.handle.connect(hello, outbox).await
}

async fn work(
    app: &App,
    worker: WorkerKey,
    mut messages: mpsc::Receiver<ToWorker>,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let mut running = JoinSet::new();
    let mut beats =
        tokio::time::interval(Duration::from_millis((app.lease_ms / 4).clamp(250, 2_000)));
    // The first tick is at once, and what was submitted may not have been granted by then.
    beats.tick().await;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            message = messages.recv() => match message {
                None => return Ok(()),
                Some(ToWorker::Grants(tasks)) => {
                    for task in tasks {
                        running.spawn(attempt(app.clone(), task));
                    }
                }
                // What is stopped or wanted back has begun and is short.
                Some(_) => {}
            },
            Some(ended) = running.join_next() => {
                if let Ok(report) = ended {
                    app.handle.report(worker, vec![report]).await?;
                }
            }
            _ = beats.tick() => {
                app.handle.heartbeat(worker, Vec::new()).await?;
                if running.is_empty() && !has_work(app).await? {
                    return Ok(());
                }
            }
        }
    }
}

async fn has_work(app: &App) -> Result<bool, Error> {
    let queues = app.handle.queues().await?;
    Ok(queues.iter().any(|queue| queue.name == COURIER && queue.ready + queue.leased > 0))
}

async fn attempt(app: App, task: GrantedTask) -> WorkerReport {
    let options = app.settings_file.alerts();
    let told = match task.spec.payload.parse::<Delivery>() {
        Err(error) => Err((FailureVerdict::Dead, format!("payload is no delivery: {error}"))),
        Ok(Delivery { sink, alert }) => match options.sinks.get(&sink) {
            None => Err((FailureVerdict::Dead, format!("alerts.sinks has no `{sink}` any more"))),
            Some(to) => {
                let told = sinks::tell(to, &task.spec.id.to_string(), &alert, now()).await;
                told.map_err(|problem| (FailureVerdict::Retry, problem))
            }
        },
    };
    let outcome = match told {
        Ok(()) => AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() },
        Err((verdict, problem)) => AttemptOutcome::Failed(Failure {
            verdict,
            error: TaskError::new(ErrorClass::Failed, problem),
        }),
    };
    WorkerReport { task: task.spec.id, token: task.token, outcome, log: None }
}

/// The time of the machine, by which receivers judge how old a signature is.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
