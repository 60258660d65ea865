//! Brings a cancelled task back from its day file, because it shall run again.
//!
//! The rows are copied into the hot file in the transaction of the fact, together with a note in `revived`; the copy
//! in the day file is removed later, by maintenance or at the next open. Until then the hot file wins for readers.

use divvy_types::{Seq, TaskState};
use rusqlite::{Connection, params};

use super::failure::Outcome;
use super::history::{Archive, History};
use super::read::{self, Found};
use super::row::{self, Ended};

/// Copies the task into the hot file if a day file has it, cancelled, and returns it.
pub(super) fn from_history(
    conn: &Connection,
    history: &mut History,
    seq: Seq,
) -> Outcome<Option<Found>> {
    let found = history
        .search(|day, file| Ok(read::load(file, read::Key::Seq(seq))?.map(|task| (day, task))))?;
    let Some((day, found)) = found else { return Ok(None) };
    let record = &found.record;
    let Some(end) = record.outcome.as_ref().filter(|end| end.state == TaskState::Cancelled) else {
        return Ok(Some(found));
    };
    let mut insert = conn.prepare_cached(
        "INSERT INTO task(seq, id, at, kind, queue, priority, spawned_by, workflow, content_type, extra, checksum, \
         payload) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    row::bind_task(&mut insert, seq, record.submitted_at, &record.spec, record.spawned_by)?;
    insert.raw_execute()?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO outcome(seq, state, token, at, worker, content_type, class, error, log, checksum, result) \
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let ended = Ended {
        seq,
        state: end.state,
        token: end.token,
        at: end.at,
        worker: &end.worker,
        result: None,
        error: end.error.as_ref().map(|error| (error.class, error.message.as_str())),
        log: end.log.as_deref(),
    };
    row::bind_outcome(&mut insert, &ended)?;
    insert.raw_execute()?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO attempt(seq, token, at, worker, class, error, log, counted, retry_at) \
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for attempt in &record.attempts {
        row::bind_attempt(&mut insert, seq, attempt, None)?;
        insert.raw_execute()?;
    }
    conn.prepare_cached("INSERT OR REPLACE INTO revived VALUES(?1, ?2)")?
        .execute(params![seq.0 as i64, day])?;
    Ok(Some(found))
}

/// Removes from the day files what came back from them; returns whether there was anything.
pub(super) fn clean(
    conn: &Connection,
    archive: &mut Archive,
    days: &[u32],
    max: usize,
) -> Outcome<bool> {
    let revived: Vec<(i64, u32)> = conn
        .prepare_cached("SELECT seq, day FROM revived LIMIT ?1")?
        .query_map([max as i64], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (seq, day) in &revived {
        if days.contains(day) {
            archive.remove(*day, *seq)?;
        }
    }
    for (seq, _) in &revived {
        conn.prepare_cached("DELETE FROM revived WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(!revived.is_empty())
}
