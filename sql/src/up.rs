//! `divvy-sql up`, `worker` and `down`: a cluster as tasks of a divvy server, and the worker that runs them.

use std::time::Duration;

use anyhow::Context as _;
use divvy::prelude::*;
use divvy::types::TaskId;
use divvy::{Shutdown, Slots};
use divvy_console::{Code, Failure, Output};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{self, Place};
use crate::cluster::Address;
use crate::durable;
use crate::keep::{self, Machine};
use crate::ports;
use crate::tasks::{self, KeepExecutor, KeepScheduler};

/// Queries that one worker answers side by side; the work is done by the executors.
const QUERIES_AT_ONCE: u32 = 16;
/// After this span it is told that a cluster is not ready yet.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long a cluster may take to be down.
const DOWN_WITHIN: Duration = Duration::from_secs(20);
/// How long a worker that stops waits for its processes.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// How long after it was away a server is asked again.
const REST: Duration = Duration::from_secs(1);

/// Brings a cluster up and looks after it until it is taken down.
pub(crate) async fn up(wish: args::Up, output: &Output) -> anyhow::Result<Code> {
    let place = &wish.place;
    let name = &place.owner.name;
    let client = Client::connect(place.target.target()).await?;
    let (scheduler, address) = submit(&wish, &client, output).await?;
    let shutdown = Shutdown::new();
    let worker = worker(place, "up", &client, wish.executors + 1)?;
    let mut running = tokio::spawn(worker.run_until(shutdown.clone()));
    let mut asked = Box::pin(asked_to_stop()?);
    let taken_down = tokio::select! {
        ended = &mut running => return early(ended),
        () = &mut asked => false,
        () = announce_then_follow(&client, &address, &wish, scheduler, output) => true,
    };
    if taken_down {
        output.note(format_args!("cluster `{name}` was taken down"));
    } else {
        output.note(format_args!(
            "takes cluster `{name}` down; its queries wait until it is up again"
        ));
        if let Err(error) = cancel(&client, name).await {
            output.note(format_args!("the server could not be told: {error:#}"));
        }
    }
    shutdown.now();
    let ended = tokio::time::timeout(STOPS_WITHIN, running).await;
    ended.context("the processes of the cluster did not stop in time")???;
    Ok(Code::Done)
}

/// Only looks after tasks of a cluster, from this machine.
pub(crate) async fn work(wish: args::Worker, output: &Output) -> anyhow::Result<Code> {
    let client = Client::connect(wish.place.target.target()).await?;
    let worker = worker(&wish.place, "worker", &client, wish.executors)?;
    let shutdown = Shutdown::new();
    let mut running = tokio::spawn(worker.run_until(shutdown.clone()));
    output.note(format_args!("works for cluster `{}`; Ctrl-C stops it", wish.place.owner.name));
    tokio::select! {
        ended = &mut running => return early(ended),
        () = asked_to_stop()? => {}
    }
    shutdown.now();
    let ended = tokio::time::timeout(STOPS_WITHIN, running).await;
    ended.context("the processes of the cluster did not stop in time")???;
    Ok(Code::Done)
}

/// Takes a cluster down, whoever looks after it.
pub(crate) async fn down(wish: args::Down, output: &Output) -> anyhow::Result<Code> {
    let name = &wish.owner.name;
    let client = Client::connect(wish.target.target()).await?;
    match cancel(&client, name).await? {
        0 => {
            let message = format!("cluster `{name}` is not up");
            Err(Failure::new(Code::NotFound, message).cure("name another with --name").into())
        }
        _ => {
            output.note(format_args!("cluster `{name}` is down"));
            Ok(Code::Done)
        }
    }
}

/// Submits what is not there yet; says which task is the scheduler, and where.
async fn submit(
    wish: &args::Up,
    client: &Client,
    output: &Output,
) -> anyhow::Result<(TaskId, Address)> {
    let name = &wish.place.owner.name;
    let address = match tasks::locate(client, name).await? {
        Some((_, address)) => {
            output.note(format_args!("cluster `{name}` is up already, at {address}"));
            address
        }
        None => {
            let port = wish.port.map_or_else(|| ports::free(wish.place.host), Ok)?;
            Address { host: wish.place.host.to_string(), port }
        }
    };
    let mut batch = client.batch();
    let needs = [tasks::member(name), tasks::at(&address.host)];
    let scheduler = KeepScheduler { cluster: name.clone(), address };
    batch.add_with(scheduler, |options| tasks::keeping(options, name, "scheduler").needs(needs));
    let cores = wish.cores.unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (u32::try_from(cores).unwrap_or(1) / wish.executors).max(1)
    });
    for number in 1..=wish.executors {
        let task = KeepExecutor { cluster: name.clone(), number, cores, share: wish.executors };
        let part = format!("executor/{number}");
        batch.add_with(task, |options| {
            tasks::keeping(options, name, &part).needs([tasks::member(name)])
        });
    }
    batch.send().await?;
    // Whoever was first has chosen the address.
    tasks::locate(client, name).await?.context("the cluster was taken down at once")
}

/// A worker that runs processes of a cluster and answers its queries. One that is started again has the same name: it takes
/// over at once, and its crashes are those of one worker.
fn worker(place: &Place, command: &str, client: &Client, processes: u32) -> anyhow::Result<Worker> {
    let target = place.target.target();
    let name = &place.owner.name;
    let host = place.host.to_string();
    let machine = Machine {
        client: client.clone(),
        program: std::env::current_exe().context("the path of this program is not known")?,
        host: host.clone(),
        work: place.work.clone().unwrap_or_else(std::env::temp_dir),
    };
    let slots = Slots { async_: QUERIES_AT_ONCE, blocking: 0, cpu: 0, process: processes };
    let mut worker = Worker::new(format!("sql-{command}-{name}-{host}"))
        .server(target.server)
        .queues([tasks::QUEUE])
        .caps([tasks::member(name), tasks::at(&host)])
        .slots(slots)
        .prefetch(0)
        .state(machine)
        .on_process(keep::scheduler)
        .on_process(keep::executor)
        .on(durable::answer);
    if let Some(token) = target.token {
        worker = worker.token(token);
    }
    if let Some(ca) = target.ca {
        worker = worker.ca(ca);
    }
    Ok(worker)
}

/// Says when the cluster is ready, and returns when its scheduler is taken down.
async fn announce_then_follow(
    client: &Client,
    address: &Address,
    wish: &args::Up,
    scheduler: TaskId,
    output: &Output,
) {
    tokio::select! {
        () = follow(client, scheduler) => {}
        () = announce(address, wish, output) => {}
    }
}

/// Says when the cluster is ready, and every while that it is not; then there is nothing more to say.
async fn announce(address: &Address, wish: &args::Up, output: &Output) {
    loop {
        match address.wait_for(wish.executors, READY_WITHIN).await {
            Ok(count) => {
                // Nobody to read it is no reason to stop.
                let _ = output.data(address);
                output.note(format_args!("ready with {count} executors; Ctrl-C takes it down"));
                return std::future::pending().await;
            }
            Err(health) => output.note(format_args!(
                "not ready yet: {health}; `divvy task list --tag sql:{}` shows its processes",
                wish.place.owner.name
            )),
        }
    }
}

/// Returns when a task is final. A server that is away is waited for.
async fn follow(client: &Client, task: TaskId) {
    loop {
        let mut news = client.follow([task]);
        loop {
            match news.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => break,
            }
        }
        tokio::time::sleep(REST).await;
    }
}

/// Cancels the processes of a cluster and waits until they have stopped; says how many there were.
async fn cancel(client: &Client, cluster: &str) -> anyhow::Result<usize> {
    let open = tasks::open(client, cluster).await?;
    for task in &open {
        client.cancel(task.id, Some("the cluster is taken down")).await?;
    }
    let mut news = client.follow(open.iter().map(|task| task.id));
    let stopped = async {
        while news.next().await?.is_some() {}
        Ok::<_, divvy::Error>(())
    };
    match tokio::time::timeout(DOWN_WITHIN, stopped).await {
        Ok(stopped) => stopped?,
        Err(_) => {
            let message = format!("cluster `{cluster}` did not stop within {DOWN_WITHIN:?}");
            return Err(Failure::new(Code::TimedOut, message).into());
        }
    }
    Ok(open.len())
}

/// Returns at Ctrl-C or SIGTERM.
fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A worker that ended without being asked to.
fn early(
    ended: Result<Result<divvy::Summary, divvy::WorkerError>, tokio::task::JoinError>,
) -> anyhow::Result<Code> {
    ended??;
    Ok(Code::Failed)
}
