//! One batch, one transaction.
//!
//! Rows are written in the order of their keys, so that a page of the file is touched once for all of a batch.

use divvy_frontier::frontier::{Block, Changes, Later};
use divvy_frontier::seen::Mode;
use rusqlite::{Connection, TransactionBehavior, params};

use super::error::{At as _, Error};
use super::{Batch, PageEnd, PageState, ShardFile};

/// Numbers of entries have 32 bits of the key of a block, bands two.
const BAND_BITS: u32 = 2;
const FIRST_BITS: u32 = 32;

impl ShardFile {
    /// Makes a batch durable, all or nothing, and gives the numbers of its outgoing batches in their order.
    pub fn commit(&mut self, batch: &Batch) -> Result<Vec<u64>, Error> {
        let path = self.path.clone();
        let behavior = TransactionBehavior::Immediate;
        // Inside of the transaction nobody else can become the owner.
        let transaction = rusqlite::Transaction::new_unchecked(&self.conn, behavior).at(&path)?;
        self.check_epoch()?;
        let numbers = write(&self.conn, batch, self.mode).at(&path)?;
        transaction.commit().at(&path)?;
        Ok(numbers)
    }
}

/// The key of a block of a queue whose first entry has this number.
pub(super) fn block_key(host: u32, band: u8, first: u32) -> i64 {
    let queue = u64::from(host) << BAND_BITS | u64::from(band);
    (queue << FIRST_BITS | u64::from(first)).cast_signed()
}

/// The number of the first entry in the key of a block.
pub(super) fn first_of(key: i64) -> u32 {
    key as u32
}

fn write(conn: &Connection, batch: &Batch, mode: Mode) -> rusqlite::Result<Vec<u64>> {
    let changes = &batch.changes;
    write_hosts(conn, changes)?;
    write_blocks(conn, &changes.blocks, &changes.consumed)?;
    write_seen(conn, &changes.fingerprints, mode)?;
    write_later(conn, &changes.later, &changes.not_later)?;
    write_pages(conn, &batch.pages)?;
    let mut robots =
        conn.prepare_cached("INSERT OR REPLACE INTO robots VALUES (?1, ?2, ?3, ?4)")?;
    for copy in &batch.robots {
        robots.execute(params![copy.host, copy.fetched_ms.cast_signed(), copy.about, copy.body])?;
    }
    let mut output = conn.prepare_cached("INSERT OR REPLACE INTO output VALUES (?1, ?2)")?;
    for (name, length) in &batch.outputs {
        output.execute(params![name, length.cast_signed()])?;
    }
    let mut note = conn.prepare_cached("INSERT OR REPLACE INTO note VALUES (?1, ?2)")?;
    for (name, value) in &batch.notes {
        note.execute(params![name, value])?;
    }
    write_peers(conn, batch)
}

fn write_hosts(conn: &Connection, changes: &Changes) -> rusqlite::Result<()> {
    let mut update = conn.prepare_cached("UPDATE host SET state = ?2 WHERE id = ?1")?;
    let mut insert = conn.prepare_cached("INSERT INTO host VALUES (?1, ?2, ?3, ?4)")?;
    for host in &changes.hosts {
        if update.execute(params![host.id, host.state])? == 0 {
            insert.execute(params![host.id, host.name, host.domain, host.state])?;
        }
    }
    Ok(())
}

fn write_blocks(
    conn: &Connection,
    blocks: &[Block],
    consumed: &[(u32, u8, u32)],
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM block WHERE id >= ?1 AND id < ?2 AND id + count <= ?2";
    let mut delete = conn.prepare_cached(sql)?;
    for (host, band, head) in consumed {
        delete.execute([block_key(*host, *band, 0), block_key(*host, *band, *head)])?;
    }
    let mut insert = conn.prepare_cached("INSERT INTO block VALUES (?1, ?2, ?3)")?;
    for block in blocks {
        let key = block_key(block.host, block.band, block.first);
        insert.execute(params![key, block.count, block.bytes])?;
    }
    Ok(())
}

fn write_seen(conn: &Connection, fingerprints: &[u64], mode: Mode) -> rusqlite::Result<()> {
    if fingerprints.is_empty() {
        return Ok(());
    }
    if mode == Mode::Bloom {
        let bytes: Vec<u8> = fingerprints.iter().flat_map(|key| key.to_le_bytes()).collect();
        conn.prepare_cached("INSERT INTO seen_log (fingerprints) VALUES (?1)")?.execute([bytes])?;
    } else {
        let mut keys: Vec<i64> = fingerprints.iter().map(|key| key.cast_signed()).collect();
        keys.sort_unstable();
        let mut insert = conn.prepare_cached("INSERT OR IGNORE INTO seen VALUES (?1)")?;
        for key in keys {
            insert.execute([key])?;
        }
    }
    let sql = "UPDATE meta SET value = value + ?1 WHERE name = 'seen'";
    conn.prepare_cached(sql)?.execute([fingerprints.len() as i64]).map(drop)
}

/// What was due goes first: it may have failed again within the same batch.
fn write_later(conn: &Connection, later: &[Later], not_later: &[u64]) -> rusqlite::Result<()> {
    let mut delete = conn.prepare_cached("DELETE FROM later WHERE fingerprint = ?1")?;
    for fingerprint in not_later {
        delete.execute([fingerprint.cast_signed()])?;
    }
    let mut insert =
        conn.prepare_cached("INSERT OR REPLACE INTO later VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for each in later {
        let (key, due) = (each.fingerprint.cast_signed(), each.due_ms.cast_signed());
        insert.execute(params![key, due, each.host, each.band, each.entry])?;
    }
    Ok(())
}

fn write_pages(conn: &Connection, pages: &[PageState]) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT OR REPLACE INTO page VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let mut sorted: Vec<&PageState> = pages.iter().collect();
    sorted.sort_by_key(|page| page.fingerprint.cast_signed());
    for page in sorted {
        insert.execute(params![
            page.fingerprint.cast_signed(),
            page.host,
            page.path,
            end_number(page.end),
            page.status,
            page.fetched_ms.cast_signed(),
            page.depth,
            page.attempts,
            page.digest.cast_signed(),
            page.changes,
            page.interval_ms.map(u64::cast_signed),
            page.etag,
            page.last_modified,
            page.reason,
        ])?;
    }
    Ok(())
}

fn write_peers(conn: &Connection, batch: &Batch) -> rusqlite::Result<Vec<u64>> {
    let mut received = conn.prepare_cached(
        "INSERT INTO peer (shard, received) VALUES (?1, ?2)
         ON CONFLICT (shard) DO UPDATE SET received = max(received, excluded.received)",
    )?;
    for (shard, number) in &batch.received {
        received.execute(params![shard, number.cast_signed()])?;
    }
    let mut sent = conn.prepare_cached("DELETE FROM outbox WHERE shard = ?1 AND number = ?2")?;
    for (shard, number) in &batch.sent {
        sent.execute(params![shard, number.cast_signed()])?;
    }
    let mut made = conn.prepare_cached(
        "INSERT INTO peer (shard, made) VALUES (?1, 1)
         ON CONFLICT (shard) DO UPDATE SET made = made + 1 RETURNING made",
    )?;
    let mut outbox = conn.prepare_cached("INSERT INTO outbox VALUES (?1, ?2, ?3)")?;
    let mut numbers = Vec::with_capacity(batch.outgoing.len());
    for (shard, bytes) in &batch.outgoing {
        let number: i64 = made.query_row([shard], |row| row.get(0))?;
        outbox.execute(params![shard, number, bytes])?;
        numbers.push(number.cast_unsigned());
    }
    Ok(numbers)
}

pub(super) fn end_number(end: PageEnd) -> u8 {
    match end {
        PageEnd::Done => 0,
        PageEnd::Failing => 1,
        PageEnd::Dead => 2,
    }
}
