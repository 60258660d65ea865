//! Unique keys: which task has which, until when. Written with the task, the newest wins; forgotten in the background
//! once the task has ended and its window has passed.
//!
//! Whether a key is free is decided by the engine; here is only what it needs to know after a restart.

use divvy_types::{Name, Seq, TaskId, TaskSpec, Timestamp};
use rusqlite::{Connection, Row, params};

use super::failure::{Failure, Outcome};
use super::row::Cell;
use crate::Recovered;

/// A key counts as held by an open task only while the hot file has the task without an end.
const OPEN: &str = "EXISTS(SELECT 1 FROM task t WHERE t.seq = k.seq) \
     AND NOT EXISTS(SELECT 1 FROM outcome o WHERE o.seq = k.seq)";

/// One key and the task that has it.
struct Held {
    key: Name,
    task: TaskId,
    seq: Seq,
    at: Timestamp,
    until: Option<Timestamp>,
    open: bool,
}

/// Where a walk over all keys stopped.
#[derive(Debug, Default)]
pub(super) struct Walk {
    after: Option<String>,
    ended_at: Option<Timestamp>,
}

impl Walk {
    /// Whether there is anything to look at now.
    pub(super) fn is_due(&self, now: Timestamp, rest_us: u64) -> bool {
        let rested = |ended: Timestamp| now.0 >= ended.0.saturating_add(rest_us);
        self.after.is_some() || self.ended_at.is_none_or(rested)
    }
}

/// Notes that a task has the key of its spec, if that has one.
pub(super) fn take(conn: &Connection, seq: Seq, at: Timestamp, spec: &TaskSpec) -> Outcome<()> {
    let Some(unique) = &spec.unique else { return Ok(()) };
    let sql =
        "INSERT OR REPLACE INTO unique_key(key, id, seq, at, until) VALUES(?1, ?2, ?3, ?4, ?5)";
    conn.prepare_cached(sql)?.execute(params![
        unique.key.as_str(),
        &spec.id.to_bytes()[..],
        seq.0 as i64,
        at.0 as i64,
        unique.until(at).map(|until| until.0 as i64)
    ])?;
    Ok(())
}

/// Shows every key.
pub(super) fn recover(conn: &Connection, visit: &mut dyn FnMut(Recovered)) -> Outcome<()> {
    each(conn, &mut |found| {
        let Held { key, task, seq, at, until, open } = found?;
        visit(Recovered::UniqueKey { key, task, seq, open, at, until });
        Ok(())
    })
}

/// Says of every row whether it can be read.
pub(super) fn check(conn: &Connection, note: &mut dyn FnMut(Outcome<()>)) -> Outcome<()> {
    each(conn, &mut |found| {
        note(found.map(drop));
        Ok(())
    })
}

fn each(conn: &Connection, visit: &mut dyn FnMut(Outcome<Held>) -> Outcome<()>) -> Outcome<()> {
    let sql = format!("SELECT key, id, seq, at, until, {OPEN} FROM unique_key k ORDER BY k.key");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        visit(read(row))?;
    }
    Ok(())
}

fn read(row: &Row<'_>) -> Outcome<Held> {
    let seq: i64 = row.get(2)?;
    let cell = |column, name| Cell { row, column, table: "unique_key", seq, name };
    let task = TaskId::from_slice(cell(1, "id").bytes()?)
        .ok_or_else(|| Failure::row("unique_key", seq, "id is not 16 bytes"))?;
    Ok(Held {
        key: cell(0, "key").text()?.into(),
        task,
        seq: Seq(seq as u64),
        at: Timestamp(cell(3, "at").integer()? as u64),
        until: cell(4, "until").optional_integer()?.map(|t| Timestamp(t as u64)),
        open: cell(5, "open").integer()? != 0,
    })
}

/// Looks at the next `max` keys at most: those that are free, and whether there is more to look at.
pub(super) fn free(
    conn: &Connection,
    walk: &mut Walk,
    now: Timestamp,
    max: usize,
) -> Outcome<(Vec<Name>, bool)> {
    let sql = format!(
        "SELECT key, id, seq, at, until, {OPEN} FROM unique_key k WHERE k.key > ?1 ORDER BY k.key LIMIT ?2"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![walk.after.as_deref().unwrap_or(""), max as i64])?;
    let (mut free, mut last, mut looked_at) = (Vec::new(), None, 0);
    while let Some(row) = rows.next()? {
        let held = read(row)?;
        looked_at += 1;
        last = Some(held.key.to_string());
        if !held.open && held.until.is_none_or(|until| until <= now) {
            free.push(held.key);
        }
    }
    let more = looked_at >= max;
    *walk = if more {
        Walk { after: last, ended_at: None }
    } else {
        Walk { after: None, ended_at: Some(now) }
    };
    Ok((free, more))
}

/// Forgets these keys.
pub(super) fn forget(conn: &Connection, keys: &[Name]) -> Outcome<()> {
    let mut delete = conn.prepare_cached("DELETE FROM unique_key WHERE key = ?1")?;
    for key in keys {
        delete.execute([key.as_str()])?;
    }
    Ok(())
}
