//! A query as an attempt of a task.
//!
//! An attempt finds the cluster, waits until it can work, and lets it run the query. If the scheduler dies, everything
//! that it knew of the query is lost: the attempt fails, and the next one asks again when the scheduler is back. What no
//! attempt can mend, such as an error in the SQL, is dead at once. A result of a moderate size travels with the task, whose end is
//! recorded once; any other is a file that is written once (`publish`).

use std::io::BufWriter;
use std::time::Duration;

use divvy::prelude::*;

use crate::cluster::{Address, Health};
use crate::format::Bounded;
use crate::keep::Machine;
use crate::plan::{self, Source};
use crate::publish::Publication;
use crate::query::{self, Fault};
use crate::tasks::{self, Answer, Ask};

/// The largest result that is kept with a task.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// How long an attempt waits for a cluster that is about to come back.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);
/// After this span a query is looked at again whose cluster is not up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How often a scheduler is asked whether it is still there.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Silences in a row after which it is not.
const SILENCES_MAX: u32 = 5;

/// Answers a query.
pub(crate) async fn answer(
    ask: Ask,
    State(machine): State<Machine>,
    attempt: Attempt,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Answer> {
    let publication = ask
        .out
        .as_deref()
        .map(|out| Publication::new(out, &attempt.id.to_string(), attempt.token.0));
    if let Some(publication) = publication.as_ref().filter(|publication| publication.is_chosen()) {
        progress.message("publishes what an attempt before wrote");
        let answer = publish(publication, None)?;
        settle_later(&machine.client, &attempt, publication.clone());
        return Ok(answer);
    }
    let Some((_, cluster)) = tasks::locate(&machine.client, &ask.cluster).await? else {
        let why = format!(
            "cluster `{0}` is not up; start it with `divvy-sql up --name {0}`",
            ask.cluster
        );
        progress.message(&why);
        return Err(Failure::snooze(LOOK_AGAIN).because(why));
    };
    progress.message(format!("waits for {cluster}"));
    let ready = cancel.guard(cluster.wait_for(1, COMES_BACK_WITHIN)).await?;
    if let Err(health) = ready {
        return Err(Failure::retry(format_args!("{cluster} cannot take the query: {health}")));
    }
    progress.message(format!("runs on {cluster}"));
    let work = run(&ask, &cluster, publication.as_ref());
    let answer = tokio::select! {
        answer = cancel.guard(work) => answer,
        fault = silence(&cluster) => Ok(Err(fault)),
    };
    if let Some(publication) = &publication {
        publication.abandon();
    }
    let answer = answer?.map_err(failure)?;
    if let Some(publication) = publication {
        settle_later(&machine.client, &attempt, publication);
    }
    Ok(answer)
}

async fn run(
    ask: &Ask,
    cluster: &Address,
    publication: Option<&Publication>,
) -> Result<Answer, Fault> {
    let unwritten = |error: anyhow::Error| Fault::Output(format!("{error:#}"));
    let source = Source { name: &ask.source, sql: &ask.sql };
    let frame = plan::prepare(cluster, source, &ask.tables).await?;
    let Some(publication) = publication else {
        let to = Bounded { bytes: Vec::new(), limit: KEPT_BYTES_MAX };
        let (rows, written) = query::write(frame, ask.format, to).await?;
        let text = String::from_utf8(written.bytes).map_err(|error| unwritten(error.into()))?;
        return Ok(Answer { rows: Some(rows), bytes: text.len() as u64, text: Some(text) });
    };
    let part = publication.begin().map_err(unwritten)?;
    let (rows, written) = query::write(frame, ask.format, BufWriter::new(part)).await?;
    let part = written.into_inner().map_err(|error| unwritten(error.into_error().into()))?;
    publication.choose(&part).map_err(unwritten)?;
    publish(publication, Some(rows)).map_err(|failure| Fault::Output(failure.to_string()))
}

fn publish(publication: &Publication, rows: Option<u64>) -> Outcome<Answer> {
    let bytes = publication.publish().map_err(|error| Failure::dead(format_args!("{error:#}")))?;
    Ok(Answer { rows, bytes, text: None })
}

/// Returns when a scheduler has not answered for a while: a machine that is gone breaks no connection.
async fn silence(cluster: &Address) -> Fault {
    let mut silences = 0;
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        match cluster.health().await {
            Health::Away(problem) => {
                silences += 1;
                if silences >= SILENCES_MAX {
                    return Fault::Cluster(format!("the cluster was lost: {problem}"));
                }
            }
            _ => silences = 0,
        }
    }
}

/// What shall follow from a fault.
fn failure(fault: Fault) -> Failure {
    match fault {
        Fault::Cluster(_) | Fault::Failed(_) => Failure::retry(fault),
        Fault::Sql(_) | Fault::Missing(_) | Fault::Output(_) => Failure::dead(fault),
    }
}

/// Removes the name of the chosen result when the end of the task is recorded. If this process dies before, the next
/// attempt does it, or the name stays, which takes no space.
fn settle_later(client: &Client, attempt: &Attempt, publication: Publication) {
    let handle = client.task(attempt.id);
    tokio::spawn(async move {
        // In whichever way it ended.
        let _ = handle.wait().await;
        publication.settle();
    });
}
