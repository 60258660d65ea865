//! Ballista itself: a process that is a scheduler or an executor, with the settings under which a cluster recovers.
//!
//! With Ballista's own settings a query waits for three minutes for an executor that died. Here an executor that has
//! been silent for ten seconds is given up, and what it did is done again by the others. A scheduler keeps nothing: what
//! it was asked dies with it, which is why a query is a task of divvy.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use divvy_console::Code;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use crate::args::{Executor, Scheduler};
use crate::ports;

/// Silence after which an executor is given up.
const EXECUTOR_SILENCE_S: u64 = 10;
/// How often the silent ones are looked for.
const EXPIRE_EVERY_S: u64 = 3;
/// How often an executor says that it is there.
const HEARTBEAT_EVERY_S: u64 = 2;
/// How long a query waits for a first executor to come back when all are gone.
const NO_EXECUTORS_S: u64 = 60;
/// The part of a machine's memory that its executors share.
const MEMORY_SHARE: f64 = 0.7;

/// Is a scheduler until it is killed.
pub(crate) async fn scheduler(role: Scheduler) -> anyhow::Result<Code> {
    die_with(role.parent)?;
    let config = SchedulerConfig {
        external_host: role.host.to_string(),
        bind_host: role.host.to_string(),
        bind_port: role.port,
        executor_timeout_seconds: EXECUTOR_SILENCE_S,
        expire_dead_executor_interval_seconds: EXPIRE_EVERY_S,
        no_executors_grace_period_seconds: NO_EXECUTORS_S,
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let address = SocketAddr::new(role.host, role.port);
    let served = start_server(cluster, address, Arc::new(config)).await;
    served.with_context(|| format!("the scheduler cannot serve at {address}"))?;
    Ok(Code::Done)
}

/// Is an executor until it is told to stop.
pub(crate) async fn executor(role: Executor) -> anyhow::Result<Code> {
    die_with(role.parent)?;
    let work = role.work.to_str().context("the folder of --work is not UTF-8")?;
    let config = ExecutorProcessConfig {
        bind_host: role.host.to_string(),
        external_host: Some(role.host.to_string()),
        port: ports::free(role.host)?,
        grpc_port: ports::free(role.host)?,
        scheduler_host: role.scheduler.host.clone(),
        scheduler_port: role.scheduler.port,
        // Not 0: it waits for a scheduler that is not there yet.
        scheduler_connect_timeout_seconds: 1,
        vcores: role.cores as usize,
        work_dir: Some(work.to_owned()),
        executor_heartbeat_interval_seconds: HEARTBEAT_EVERY_S,
        memory_pool_fraction: MEMORY_SHARE / f64::from(role.share.max(1)),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await.context("the executor cannot serve")?;
    Ok(Code::Done)
}

/// Lets this process be killed when the one that started it ends, however that ends.
fn die_with(parent: i32) -> anyhow::Result<()> {
    set_pdeathsig(Signal::SIGKILL).context("the system does not tell when a parent ends")?;
    if getppid().as_raw() != parent {
        bail!("the process {parent} that asked for this one is gone");
    }
    Ok(())
}
