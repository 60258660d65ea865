//! What is read from the file: all of it by a new owner, and single things on demand.

use divvy_frontier::frontier::{Block, Frontier, HostRecord, Later, LoadOrder};
use divvy_frontier::rules::Rules;
use divvy_frontier::seen::{self, Mode, Seen};
use rusqlite::{OptionalExtension as _, Params, Row, params};

use super::commit::{block_key, end_number, first_of};
use super::error::{At as _, Error};
use super::schema::meta;
use super::{Outgoing, PageEnd, PageFilter, PageState, RobotsCopy, Saved, ShardFile};

/// The filter of a new owner has room for this many times what was seen.
const ROOM: u64 = 2;

impl ShardFile {
    /// What was seen up to the last commit.
    pub fn seen(&self, mut settings: seen::Settings) -> Result<Seen, Error> {
        let count = meta(&self.conn, "seen").at(&self.path)?.cast_unsigned();
        settings.mode = self.mode;
        settings.expected = settings.expected.max(count.saturating_mul(ROOM));
        let mut seen = Seen::new(settings);
        self.remember(&mut seen).at(&self.path)?;
        Ok(seen)
    }

    /// The frontier as it was at the last commit, with what was [seen](Self::seen) up to then. After a crash every host
    /// waits a whole gap from now.
    pub fn frontier(
        &self,
        rules: Rules,
        seen: Seen,
        seed: u64,
        now_ms: u64,
    ) -> Result<Frontier, Error> {
        let sql = "SELECT id, name, domain, state FROM host ORDER BY id";
        let hosts = self.list(sql, [], |row| {
            let (id, name, domain, state) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(HostRecord { id, name, domain, state })
        })?;
        Frontier::restore(rules, seen, self.salt, seed, hosts, self.was_clean, now_ms)
            .at(&self.path)
    }

    /// What else was saved.
    pub fn load(&self) -> Result<Saved, Error> {
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
        Ok(Saved {
            received: self.list("SELECT shard, received FROM peer ORDER BY shard", [], pair)?,
            made: self.list("SELECT shard, made FROM peer ORDER BY shard", [], pair)?,
            outputs: self.list("SELECT name, length FROM output ORDER BY name", [], |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
            })?,
            notes: self.list("SELECT name, value FROM note ORDER BY name", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?,
        })
    }

    /// Which of these addresses were ever queued, as of the last commit. None if only the filter is kept, which is
    /// believed then.
    pub fn contains(&self, fingerprints: &[u64]) -> Result<Vec<bool>, Error> {
        let look = || -> rusqlite::Result<Vec<bool>> {
            let sql = "SELECT 1 FROM seen WHERE fingerprint = ?1";
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut order: Vec<usize> = (0..fingerprints.len()).collect();
            order.sort_unstable_by_key(|at| fingerprints[*at].cast_signed());
            let mut found = vec![false; fingerprints.len()];
            for at in order {
                found[at] = statement.exists([fingerprints[at].cast_signed()])?;
            }
            Ok(found)
        };
        look().at(&self.path)
    }

    /// Entries of a queue. What is not committed is not found.
    pub fn blocks(&self, order: &LoadOrder) -> Result<Vec<Block>, Error> {
        let read = || -> rusqlite::Result<Vec<Block>> {
            let key = |first| block_key(order.host, order.band, first);
            // The block that holds the first entry may begin before it.
            let sql = "SELECT max(id) FROM block WHERE id BETWEEN ?1 AND ?2";
            let range = [key(0), key(order.from)];
            let start: Option<i64> =
                self.conn.prepare_cached(sql)?.query_row(range, |row| row.get(0))?;
            let sql = "SELECT id, count, bytes FROM block WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows =
                statement.query([start.unwrap_or_else(|| key(order.from)), key(u32::MAX)])?;
            let (mut blocks, last) = (Vec::new(), order.from.saturating_add(order.entries_max));
            while let Some(row) = rows.next()? {
                let first = first_of(row.get(0)?);
                if first >= last {
                    break;
                }
                let (host, band) = (order.host, order.band);
                blocks.push(Block { host, band, first, count: row.get(1)?, bytes: row.get(2)? });
            }
            Ok(blocks)
        };
        read().at(&self.path)
    }

    /// Addresses that are due, the longest due first.
    pub fn due(&self, now_ms: u64, limit: u32) -> Result<Vec<Later>, Error> {
        let sql = "SELECT fingerprint, due, host, band, entry FROM later WHERE due <= ?1 ORDER BY due LIMIT ?2";
        self.list(sql, params![now_ms.cast_signed(), limit], |row| {
            Ok(Later {
                fingerprint: row.get::<_, i64>(0)?.cast_unsigned(),
                due_ms: row.get::<_, i64>(1)?.cast_unsigned(),
                host: row.get(2)?,
                band: row.get(3)?,
                entry: row.get(4)?,
            })
        })
    }

    /// When an address is due again, if it is put off.
    pub fn due_of(&self, fingerprint: u64) -> Result<Option<u64>, Error> {
        let due = || -> rusqlite::Result<Option<i64>> {
            let sql = "SELECT due FROM later WHERE fingerprint = ?1";
            let mut statement = self.conn.prepare_cached(sql)?;
            statement.query_row([fingerprint.cast_signed()], |row| row.get(0)).optional()
        };
        Ok(due().at(&self.path)?.map(i64::cast_unsigned))
    }

    /// When the next address is due.
    pub fn next_due(&self) -> Result<Option<u64>, Error> {
        let due = || -> rusqlite::Result<Option<i64>> {
            self.conn.prepare_cached("SELECT min(due) FROM later")?.query_row([], |row| row.get(0))
        };
        Ok(due().at(&self.path)?.map(i64::cast_unsigned))
    }

    /// The state of an address.
    pub fn page(&self, fingerprint: u64) -> Result<Option<PageState>, Error> {
        let page = || -> rusqlite::Result<Option<PageState>> {
            let mut statement =
                self.conn.prepare_cached("SELECT * FROM page WHERE fingerprint = ?1")?;
            statement.query_row([fingerprint.cast_signed()], page_state).optional()
        };
        page().at(&self.path)
    }

    /// States of addresses, in the order of the file.
    pub fn pages(&self, filter: PageFilter, limit: u32) -> Result<Vec<PageState>, Error> {
        let after = filter.after.map_or(i64::MIN, u64::cast_signed);
        // The first of all has no smaller one to come after.
        let bound = if filter.after.is_some() { ">" } else { ">=" };
        let end = match filter.end {
            None => String::new(),
            Some(end) => format!("AND end = {}", end_number(end)),
        };
        let sql = format!(
            "SELECT * FROM page WHERE fingerprint {bound} ?1 {end} ORDER BY fingerprint LIMIT ?2"
        );
        self.list(&sql, params![after, limit], page_state)
    }

    /// The copy of the robots.txt of a host.
    pub fn robots(&self, host: u32) -> Result<Option<RobotsCopy>, Error> {
        let read = || -> rusqlite::Result<Option<RobotsCopy>> {
            let sql = "SELECT fetched, about, body FROM robots WHERE host = ?1";
            let mut statement = self.conn.prepare_cached(sql)?;
            let copy = statement.query_row([host], |row| {
                let fetched_ms = row.get::<_, i64>(0)?.cast_unsigned();
                Ok(RobotsCopy { host, fetched_ms, about: row.get(1)?, body: row.get(2)? })
            });
            copy.optional()
        };
        read().at(&self.path)
    }

    /// Batches that have not been reported as sent, in their order.
    pub fn unsent(&self) -> Result<Vec<Outgoing>, Error> {
        self.list("SELECT shard, number, bytes FROM outbox ORDER BY shard, number", [], |row| {
            let number = row.get::<_, i64>(1)?.cast_unsigned();
            Ok(Outgoing { to: row.get(0)?, number, bytes: row.get(2)? })
        })
    }

    fn remember(&self, seen: &mut Seen) -> rusqlite::Result<()> {
        if self.mode == Mode::Exact {
            let mut statement = self.conn.prepare("SELECT fingerprint FROM seen")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                seen.remember(row.get::<_, i64>(0)?.cast_unsigned());
            }
            return Ok(());
        }
        let mut statement = self.conn.prepare("SELECT fingerprints FROM seen_log ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let bytes: Vec<u8> = row.get(0)?;
            let (keys, _) = bytes.as_chunks();
            keys.iter().for_each(|key| seen.remember(u64::from_le_bytes(*key)));
        }
        Ok(())
    }

    fn list<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        rows().at(&self.path)
    }
}

fn page_state(row: &Row<'_>) -> rusqlite::Result<PageState> {
    Ok(PageState {
        fingerprint: row.get::<_, i64>(0)?.cast_unsigned(),
        host: row.get(1)?,
        path: row.get(2)?,
        end: match row.get::<_, u8>(3)? {
            0 => PageEnd::Done,
            1 => PageEnd::Failing,
            _ => PageEnd::Dead,
        },
        status: row.get(4)?,
        fetched_ms: row.get::<_, i64>(5)?.cast_unsigned(),
        depth: row.get(6)?,
        attempts: row.get(7)?,
        digest: row.get::<_, i64>(8)?.cast_unsigned(),
        changes: row.get(9)?,
        interval_ms: row.get::<_, Option<i64>>(10)?.map(i64::cast_unsigned),
        etag: row.get(11)?,
        last_modified: row.get(12)?,
        reason: row.get(13)?,
    })
}
