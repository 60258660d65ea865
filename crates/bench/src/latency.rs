//! From the submit call of a lone task to the start of its handler, on an otherwise idle server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use divvy_proto::v1;
use divvy_types::{AttemptOutcome, Payload};
use divvy_worker::{Attempt, Options, Registry, Shutdown, Worker};
use hdrhistogram::Histogram;
use tokio::sync::mpsc;

use crate::disk::Probe;
use crate::submitter;

/// The kind of a lone task.
const KIND: &str = "bench.stamp";
/// Rest between two lone tasks, so that each finds the server idle.
const REST: Duration = Duration::from_millis(3);

/// Times in microseconds. The worker runs in this process, so that both ends read the same clock, and on one thread
/// with the submitter, so that no time is spent on waking each other.
///
/// The disk is probed in the pauses between tasks; the probe comes back with its figures.
pub(crate) async fn submit_to_start(
    url: &str,
    count: u32,
    mut probe: Probe,
) -> anyhow::Result<(Histogram<u64>, Probe)> {
    let url = url.to_owned();
    let measure = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let times = runtime.block_on(measure(&url, count, &mut probe))?;
        Ok((times, probe))
    };
    tokio::task::spawn_blocking(measure).await?
}

async fn measure(url: &str, count: u32, probe: &mut Probe) -> anyhow::Result<Histogram<u64>> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let mut registry = Registry::new();
    registry.on(
        KIND,
        Arc::new(move |_: Attempt| {
            // The receiver lives as long as the measurement.
            let _ = started.send(Instant::now());
            std::future::ready(AttemptOutcome::Finished {
                result: Payload::null(),
                spawned: Vec::new(),
            })
        }),
    );
    let shutdown = Shutdown::new();
    let worker = Worker::new(Options::new("bench-latency", url), registry)?;
    let running = tokio::spawn(worker.run(shutdown.clone()));
    let mut client = submitter::connect(url)?;
    let mut times = Histogram::<u64>::new(3)?;
    let warm_up = 20;
    for round in 0..warm_up + count {
        let tasks = submitter::specs(1, KIND).iter().map(divvy_proto::spec_to_wire).collect();
        let submitted = Instant::now();
        client.submit(v1::SubmitRequest { tasks, strict: false }).await?;
        let start = tokio::time::timeout(Duration::from_secs(10), starts.recv()).await?;
        let start = start.context("the worker ended early")?;
        if round >= warm_up {
            times.record(start.duration_since(submitted).as_micros() as u64)?;
        }
        tokio::time::sleep(REST).await;
        if round >= warm_up {
            probe.measure()?;
            tokio::time::sleep(REST).await;
        }
    }
    shutdown.drain();
    running.await??;
    Ok(times)
}
