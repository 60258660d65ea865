//! Background work, one bounded slice at a time: ended tasks move to the file of their day, old days are dropped,
//! unique keys that are free are forgotten.
//!
//! `outcome` is walked in the order of the task's number, from where the last slice stopped. Done and cancelled
//! tasks that ended a while ago are copied, synced, and only then deleted. Dead letters stay where they can be
//! replayed until their retention ends; then they are deleted, like everything else that is older than that.

use std::collections::BTreeMap;

use divvy_types::{Seq, TaskId, TaskState, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::failure::{Failure, Outcome};
use super::store::SqliteStore;
use super::tally::{self, Delta};
use super::write::Moved;
use super::{keys, revive};
use crate::{Error, Maintenance};

/// Tasks that one slice moves or deletes.
pub(super) const SLICE_TASKS_MAX: usize = 2_000;
/// Outcomes that one slice looks at.
const SLICE_ROWS_MAX: usize = 20_000;

/// How far the walk over the outcomes has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    after: i64,
    keys: keys::Walk,
}

/// What a slice found.
#[derive(Default)]
struct Slice {
    /// Tasks to move, by the day they ended on.
    to_days: BTreeMap<u32, Vec<i64>>,
    /// Tasks that are older than the retention, and their state.
    expired: Vec<(i64, TaskState)>,
    tasks: usize,
    last: i64,
    ended: bool,
}

/// Does one slice.
pub(super) fn slice(store: &mut SqliteStore, now: Timestamp) -> Result<Maintenance, Error> {
    let days = store.days.newest_first();
    let cleaned = revive::clean(&store.conn, &mut store.archive, &days, SLICE_TASKS_MAX);
    if cleaned.map_err(|failure| store.named(failure))? {
        return Ok(Maintenance::More);
    }
    let oldest = now.day().saturating_sub(store.options.retention_days);
    if let Some(day) = days.into_iter().rfind(|day| *day < oldest) {
        drop_day(store, day)?;
        return Ok(Maintenance::More);
    }
    let settled = Timestamp(now.0.saturating_sub(store.options.history_after.as_micros() as u64));
    let slice = choose(store, settled, oldest).map_err(|failure| store.named(failure))?;
    for (day, seqs) in &slice.to_days {
        store.archive.copy(*day, seqs)?;
    }
    let moved: Vec<i64> = slice.to_days.values().flatten().copied().collect();
    remove_from_hot(store, &moved, &slice.expired)?;
    store.progress.after = if slice.ended { 0 } else { slice.last };
    if !slice.ended || slice.tasks > 0 {
        return Ok(Maintenance::More);
    }
    if prune_keys(store, now)? {
        return Ok(Maintenance::More);
    }
    store.tidy_log()?;
    Ok(Maintenance::Rest)
}

/// Forgets unique keys that are free; returns whether there is more to look at.
fn prune_keys(store: &mut SqliteStore, now: Timestamp) -> Result<bool, Error> {
    let rest_us = store.options.history_after.as_micros() as u64;
    if !store.progress.keys.is_due(now, rest_us) {
        return Ok(false);
    }
    let found = keys::free(&store.conn, &mut store.progress.keys, now, SLICE_TASKS_MAX);
    let (free, more) = found.map_err(|failure| store.named(failure))?;
    if !free.is_empty() {
        store.transact(|store| keys::forget(&store.conn, &free))?;
    }
    Ok(more)
}

fn drop_day(store: &mut SqliteStore, day: u32) -> Result<(), Error> {
    let mut gone = Delta::default();
    for (state, count) in store.archive.tally(day)? {
        gone.add(state, -count);
    }
    store.archive.close(day);
    store.days.drop_day(day)?;
    store.tally.apply(gone);
    tracing::info!(day, "dropped a day of history that is older than the retention");
    Ok(())
}

fn choose(store: &SqliteStore, settled: Timestamp, oldest: u32) -> Outcome<Slice> {
    let mut slice = Slice::default();
    let mut statement = store.conn.prepare_cached(
        "SELECT seq, state, at FROM outcome WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?;
    let mut rows = statement.query(params![store.progress.after, SLICE_ROWS_MAX as i64])?;
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        let (seq, code): (i64, i64) = (row.get(0)?, row.get(1)?);
        let at = Timestamp(row.get::<_, i64>(2)? as u64);
        let state = tally::state(code)
            .ok_or_else(|| Failure::row("outcome", seq, format!("state is {code}")))?;
        looked_at += 1;
        slice.last = seq;
        if at.day() < oldest {
            slice.expired.push((seq, state));
            slice.tasks += 1;
        } else if state != TaskState::Dead && at <= settled {
            slice.to_days.entry(at.day()).or_default().push(seq);
            slice.tasks += 1;
        }
        if slice.tasks >= SLICE_TASKS_MAX {
            return Ok(slice);
        }
    }
    slice.ended = looked_at < SLICE_ROWS_MAX;
    Ok(slice)
}

fn remove_from_hot(
    store: &mut SqliteStore,
    moved: &[i64],
    expired: &[(i64, TaskState)],
) -> Result<(), Error> {
    if moved.is_empty() && expired.is_empty() {
        return Ok(());
    }
    let mut gone = Delta::default();
    let mut seqs = moved.to_vec();
    for (seq, state) in expired {
        gone.add(*state, -1);
        seqs.push(*seq);
    }
    let reach = store.transact(|store| {
        let mut reach = store.moved;
        for part in delete(&store.conn, &seqs)? {
            reach.add(part.0, part.1);
        }
        Ok(reach)
    })?;
    store.moved = reach;
    store.tally.apply(gone);
    Ok(())
}

/// Deletes tasks from the hot file, within a transaction of the caller, and notes durably how far what left reaches.
pub(super) fn delete(conn: &Connection, seqs: &[i64]) -> Outcome<Vec<(Seq, TaskId)>> {
    let mut left = Vec::with_capacity(seqs.len());
    let mut id_of = conn.prepare_cached("SELECT id FROM task WHERE seq = ?1")?;
    let mut deletes = Vec::new();
    for table in ["task", "outcome", "attempt", "held", "replayed", "checkpoint"] {
        deletes.push(conn.prepare_cached(&format!("DELETE FROM {table} WHERE seq = ?1"))?);
    }
    for seq in seqs {
        let id: Option<Vec<u8>> = id_of.query_row([seq], |row| row.get(0)).optional()?;
        if let Some(id) = id {
            let id = TaskId::from_slice(&id)
                .ok_or_else(|| Failure::row("task", *seq, "id is not 16 bytes"))?;
            left.push((Seq(*seq as u64), id));
        }
        for delete in &mut deletes {
            delete.execute([seq])?;
        }
    }
    note(conn, &left)?;
    Ok(left)
}

fn note(conn: &Connection, left: &[(Seq, TaskId)]) -> Outcome<()> {
    let mut reach = Moved::default();
    left.iter().for_each(|(seq, id)| reach.add(*seq, *id));
    let mut raise = conn.prepare_cached(
        "INSERT INTO meta VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value = max(value, excluded.value)",
    )?;
    if let Some(seq) = reach.seq {
        raise.execute(params!["moved_seq", seq.0 as i64])?;
    }
    if let Some(id) = reach.id {
        raise.execute(params!["moved_id", &id.to_bytes()[..]])?;
    }
    if let Some(id) = reach.timed_id {
        raise.execute(params!["moved_timed_id", &id.to_bytes()[..]])?;
    }
    Ok(())
}
