//! Background work, one bounded slice at a time: ended tasks move to the file of their day, old days are dropped,
//! unique keys that are free are forgotten.
//!
//! `outcome` is walked in the order of the task's number, from where the last slice stopped. Done and cancelled
//! tasks that ended a while ago are copied, synced, and only then deleted. Dead letters stay where they can be
//! replayed until their retention ends; then they are deleted, like everything else that is older than that.
//!
//! A move needs room before it gives any back, so nothing is moved while the disk is nearly full; deleting goes on.

use std::collections::BTreeMap;

use divvy_types::{Seq, TaskId, TaskState, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::failure::{Failure, Outcome};
use super::store::SqliteStore;
use super::tally::{self, Delta};
use super::write::Moved;
use super::{keys, revive};
use crate::{Error, Maintenance, Room, Store as _};

/// Tasks that one slice moves or deletes: commits wait for it.
pub(super) const SLICE_TASKS_MAX: usize = 500;
/// Bytes of payloads and results that one slice moves, about.
const SLICE_BYTES_MAX: i64 = 16 << 20;
/// Outcomes that one slice looks at.
const SLICE_ROWS_MAX: usize = 20_000;

/// A walk begins this much later than the last one ended, as a part of the time after which tasks may move: under load
/// most of what it would meet has just ended.
const WALK_REST_PART: u64 = 4;

/// How far the walk over the outcomes has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    after: i64,
    /// When the last walk ended.
    ended_at: Option<Timestamp>,
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
    bytes: i64,
    last: i64,
    ended: bool,
}

/// Does one slice.
pub(super) fn slice(
    store: &mut SqliteStore,
    now: Timestamp,
    expiry: Timestamp,
) -> Result<Maintenance, Error> {
    let days = store.days.newest_first();
    let cleaned = revive::clean(&store.conn, &mut store.archive, &days, SLICE_TASKS_MAX);
    if cleaned.map_err(|failure| store.named(failure))? {
        return Ok(Maintenance::More);
    }
    let oldest = now.min(expiry).day().saturating_sub(store.options.retention_days);
    if let Some(day) = days.into_iter().rfind(|day| *day < oldest) {
        drop_day(store, day)?;
        return Ok(Maintenance::More);
    }
    if walk(store, now, oldest)? || prune_keys(store, now)? {
        return Ok(Maintenance::More);
    }
    store.tidy_log()?;
    Ok(Maintenance::Rest)
}

/// Goes on with the walk over the outcomes; returns whether there is more to do.
fn walk(store: &mut SqliteStore, now: Timestamp, oldest: u32) -> Result<bool, Error> {
    let after_us = store.options.history_after.as_micros() as u64;
    let rested = |ended: Timestamp| now.0 >= ended.0.saturating_add(after_us / WALK_REST_PART);
    if store.progress.after == 0 && !store.progress.ended_at.is_none_or(rested) {
        return Ok(false);
    }
    let settled = Timestamp(now.0.saturating_sub(after_us));
    let settled = Some(settled).filter(|_| store.room() == Room::Enough);
    let slice = choose(store, settled, oldest).map_err(|failure| store.named(failure))?;
    for (day, seqs) in &slice.to_days {
        store.archive.copy(*day, seqs)?;
    }
    let moved: Vec<i64> = slice.to_days.values().flatten().copied().collect();
    remove_from_hot(store, &moved, &slice.expired)?;
    store.progress.after = if slice.ended { 0 } else { slice.last };
    store.progress.ended_at = slice.ended.then_some(now);
    Ok(!slice.ended)
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

/// What to move, if it ended by `settled`, and what to delete, if it ended before the day `oldest`.
fn choose(store: &SqliteStore, settled: Option<Timestamp>, oldest: u32) -> Outcome<Slice> {
    let mut slice = Slice::default();
    let mut statement = store.conn.prepare_cached(
        "SELECT seq, state, at, length(result) FROM outcome WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?;
    let mut payload =
        store.conn.prepare_cached("SELECT length(payload) FROM task WHERE seq = ?1")?;
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
        } else if state != TaskState::Dead && settled.is_some_and(|settled| at <= settled) {
            slice.to_days.entry(at.day()).or_default().push(seq);
            slice.tasks += 1;
            let payload: Option<Option<i64>> =
                payload.query_row([seq], |row| row.get(0)).optional()?;
            slice.bytes += row.get::<_, Option<i64>>(3)?.unwrap_or(0);
            slice.bytes += payload.flatten().unwrap_or(0);
        }
        if slice.tasks >= SLICE_TASKS_MAX || slice.bytes >= SLICE_BYTES_MAX {
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
    let forgotten = store.blocks.forget_empty(&store.conn, &seqs);
    forgotten.map_err(|failure| store.named(failure))?;
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
