//! The bare store: the same facts as a life, appended in groups of the same size, without engine, wire or worker.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use divvy_store::Store as _;
use divvy_store::sqlite::SqliteStore;
use divvy_types::{Fact, Name, Payload, Seq, TaskId, TaskSpec, Timestamp, Token};

use crate::submitter;

/// Lives per second: each task is one submitted and one finished fact. `group` is the number of facts per commit.
pub(crate) fn lives_per_s(dir: &Path, tasks: u64, group: usize) -> anyhow::Result<f64> {
    let mut store = SqliteStore::open(dir, divvy_store::sqlite::Options::default())?;
    let specs: Vec<Arc<TaskSpec>> =
        submitter::specs(tasks, "noop").into_iter().map(Arc::new).collect();
    store.recover(&mut |_| {})?;
    // A life in the server is submitted and finished some groups apart: half of a group is submissions, half is
    // the finishes of an earlier group.
    let half = (group / 2).max(1);
    let mut verdicts = Vec::new();
    let mut facts = Vec::with_capacity(half * 2);
    let started = Instant::now();
    let batches = specs.chunks(half);
    let mut earlier: Option<(u64, usize)> = None;
    let mut first = 1;
    for batch in batches {
        facts.extend(batch.iter().enumerate().map(|(i, spec)| submitted(first + i as u64, spec)));
        if let Some((start, count)) = earlier {
            facts.extend((start..start + count as u64).map(finished));
        }
        store.commit(&facts, &mut verdicts)?;
        facts.clear();
        earlier = Some((first, batch.len()));
        first += batch.len() as u64;
    }
    if let Some((start, count)) = earlier {
        facts.extend((start..start + count as u64).map(finished));
        store.commit(&facts, &mut verdicts)?;
    }
    Ok(tasks as f64 / started.elapsed().as_secs_f64())
}

fn submitted(seq: u64, spec: &Arc<TaskSpec>) -> Fact {
    Fact::Submitted {
        seq: Seq(seq),
        at: now(),
        spec: Arc::clone(spec),
        spawned_by: None,
        spilled: None,
    }
}

fn finished(seq: u64) -> Fact {
    Fact::Finished {
        seq: Seq(seq),
        token: Token::new(1, seq),
        at: now(),
        worker: Name::const_new("bench"),
        result: Payload::null(),
        log: None,
    }
}

/// Ids only need to be new.
pub(crate) fn new_id() -> TaskId {
    TaskId(uuid::Uuid::now_v7().as_u128())
}

pub(crate) fn now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_micros() as u64)
}
