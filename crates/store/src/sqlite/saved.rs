//! What attempts saved for later attempts, and what was set: both are replaced whole, and both are rare.

use bytes::Bytes;
use divvy_types::{Name, Payload, Seq, Timestamp, Token};
use rusqlite::{Connection, Row, params};

use super::failure::{Failure, Outcome};
use super::row::{Cell, Sum, check_sum};
use crate::Recovered;

/// An attempt may save while no later one has failed or saved, and while the task has not ended.
const SAVE: &str = "INSERT INTO checkpoint(seq, token, at, content_type, checksum, data) SELECT ?1, ?2, ?3, ?4, ?5, ?6 \
     WHERE EXISTS(SELECT 1 FROM task WHERE seq = ?1) AND NOT EXISTS(SELECT 1 FROM outcome WHERE seq = ?1) \
       AND NOT EXISTS(SELECT 1 FROM attempt WHERE seq = ?1 AND token >= ?2) \
     ON CONFLICT(seq) DO UPDATE SET token = excluded.token, at = excluded.at, content_type = excluded.content_type, \
       checksum = excluded.checksum, data = excluded.data WHERE excluded.token >= token";

/// The columns of a checkpoint, in the order that [`read_checkpoint`] expects.
pub(super) const CHECKPOINT: &str = "seq, token, at, content_type, checksum, data";

/// Writes a checkpoint, unless its attempt is over; returns whether it was written.
pub(super) fn save(
    conn: &Connection,
    seq: Seq,
    token: Token,
    at: Timestamp,
    data: &Payload,
) -> Outcome<bool> {
    let content_type = (!data.is_json()).then(|| data.content_type());
    let bytes: &[u8] = data.data();
    let sum = sum(seq.0, token.0, at.0, content_type, bytes);
    let row = params![
        seq.0 as i64,
        token.0 as i64,
        at.0 as i64,
        content_type,
        sum.finish(),
        (!bytes.is_empty()).then_some(bytes)
    ];
    Ok(conn.prepare_cached(SAVE)?.execute(row)? == 1)
}

fn sum(seq: u64, token: u64, at: u64, content_type: Option<&str>, data: &[u8]) -> Sum {
    let mut sum = Sum::new();
    sum.number(seq).number(token).number(at).option(content_type.map(str::as_bytes)).bytes(data);
    sum
}

/// The checkpoint in a row with the columns of [`CHECKPOINT`].
pub(super) fn read_checkpoint(row: &Row<'_>) -> Outcome<Payload> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "checkpoint", seq, name };
    let token = cell(1, "token").integer()? as u64;
    let at = cell(2, "at").integer()? as u64;
    let content_type = cell(3, "content_type").optional_text()?;
    let checksum = cell(4, "checksum").integer()?;
    let data = cell(5, "data").optional_bytes()?.unwrap_or_default();
    check_sum("checkpoint", seq, checksum, &sum(seq as u64, token, at, content_type, data))?;
    Ok(Payload::trusted(content_type.unwrap_or_default(), Bytes::copy_from_slice(data)))
}

/// What an attempt of a task saved, if the task is open or a dead letter.
pub(super) fn checkpoint(conn: &Connection, seq: Seq) -> Outcome<Option<Payload>> {
    let sql = format!(
        "SELECT {CHECKPOINT} FROM checkpoint c WHERE seq = ?1 \
         AND NOT EXISTS(SELECT 1 FROM outcome o WHERE o.seq = c.seq AND o.state <> 2)"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([seq.0 as i64])?;
    rows.next()?.map(read_checkpoint).transpose()
}

/// Whether an attempt of a task has saved something.
pub(super) fn has_checkpoint(conn: &Connection, seq: Seq) -> Outcome<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM checkpoint WHERE seq = ?1")?.exists([seq.0 as i64])?)
}

/// Forgets what attempts of a task saved.
pub(super) fn forget_checkpoint(conn: &Connection, seq: Seq) -> Outcome<()> {
    conn.prepare_cached("DELETE FROM checkpoint WHERE seq = ?1")?.execute([seq.0 as i64])?;
    Ok(())
}

/// Writes what was set, or removes it.
pub(super) fn set(conn: &Connection, key: &str, value: Option<&str>) -> Outcome<()> {
    match value {
        Some(value) => {
            let sql = "INSERT INTO setting VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value = excluded.value";
            conn.prepare_cached(sql)?.execute([key, value])?;
        }
        None => {
            conn.prepare_cached("DELETE FROM setting WHERE key = ?1")?.execute([key])?;
        }
    }
    Ok(())
}

/// Shows everything that is set.
pub(super) fn settings(conn: &Connection, visit: &mut dyn FnMut(Recovered)) -> Outcome<()> {
    let mut statement = conn.prepare("SELECT key, value FROM setting ORDER BY key")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let text = |column| -> Outcome<Name> {
            let wrong = |_| Failure::Place("table setting: a key or a value is not UTF-8".into());
            Ok(row.get_ref(column)?.as_str().map_err(wrong)?.into())
        };
        visit(Recovered::Setting { key: text(0)?, value: text(1)? });
    }
    Ok(())
}
