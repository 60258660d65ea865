//! What becomes of each fact: the verdict, and the rows that follow from it.
//!
//! The common facts, a submission and an end, are one statement each: the insert itself carries the conditions, and
//! only when it inserts nothing is the reason looked for. Tasks that were moved to a day file are looked up there
//! only when a number or an id is not beyond everything that was ever moved (see [`Moved`]), so that new tasks do
//! not pay for the past.

use divvy_types::fact::Replay;
use divvy_types::{
    ErrorClass, Fact, Lane, Name, Seq, TaskError, TaskId, TaskSpec, TaskState, Timestamp, Token,
    Verdict,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use super::blocks::Blocks;
use super::failure::Outcome;
use super::history::History;
use super::row::{self, Ended};
use super::store::SqliteStore;
use super::tally::{self, Delta};
use super::{keys, read, revive, saved};
use crate::traits::DROPPED;
use crate::{AttemptRecord, Outcome as End};

const SUBMIT: &str = "INSERT INTO task(seq, id, at, kind, queue, priority, spawned_by, workflow, content_type, extra, \
     checksum, payload) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING";

/// Parameter 12 is the least token of a failed attempt that makes this end stale. An end of no task, or a stale one, has no
/// state, which no outcome may lack, so it is ignored. To insert what a SELECT finds would say the same, and take a tenth
/// longer: SQLite cannot know that this is one row at most, and notes how to take back several.
const END: &str = "INSERT OR IGNORE INTO outcome(seq, state, token, at, worker, content_type, class, error, log, checksum, result) \
     VALUES(?1, CASE WHEN EXISTS(SELECT 1 FROM task WHERE seq = ?1) \
       AND NOT EXISTS(SELECT 1 FROM attempt WHERE seq = ?1 AND token >= ?12) THEN ?2 END, \
       ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

const FAIL: &str = "INSERT INTO attempt(seq, token, at, worker, class, error, log, counted, retry_at) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 \
     WHERE EXISTS(SELECT 1 FROM task WHERE seq = ?1) AND NOT EXISTS(SELECT 1 FROM outcome WHERE seq = ?1) \
       AND NOT EXISTS(SELECT 1 FROM attempt WHERE seq = ?1 AND token >= ?2)";

const HOLD: &str = "INSERT INTO held(seq, token, at, worker) SELECT ?1, ?2, ?3, ?4 \
     WHERE EXISTS(SELECT 1 FROM task WHERE seq = ?1) AND NOT EXISTS(SELECT 1 FROM outcome WHERE seq = ?1) \
       AND NOT EXISTS(SELECT 1 FROM attempt WHERE seq = ?1 AND token >= ?2) \
     ON CONFLICT(seq) DO UPDATE SET token = excluded.token, at = excluded.at, worker = excluded.worker \
       WHERE excluded.token >= token";

/// How far what left the hot file reaches. What lies beyond is certainly not in a day file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moved {
    /// The greatest number.
    pub(super) seq: Option<Seq>,
    /// The greatest id.
    pub(super) id: Option<TaskId>,
    /// The greatest id that is ordered by time; ids made from keys would put the mark anywhere.
    pub(super) timed_id: Option<TaskId>,
}

impl Moved {
    /// Takes a task into account that leaves.
    pub(super) fn add(&mut self, seq: Seq, id: TaskId) {
        self.seq = self.seq.max(Some(seq));
        self.id = self.id.max(Some(id));
        if id.is_time_ordered() {
            self.timed_id = self.timed_id.max(Some(id));
        }
    }

    fn may_hold(&self, seq: Seq, id: TaskId) -> bool {
        self.may_hold_seq(seq)
            || if id.is_time_ordered() { self.timed_id >= Some(id) } else { self.id.is_some() }
    }

    fn may_hold_seq(&self, seq: Seq) -> bool {
        self.seq >= Some(seq)
    }
}

/// Writes facts within a transaction that the caller began, and says how the counts change.
pub(super) fn write(
    store: &mut SqliteStore,
    facts: &[Fact],
    verdicts: &mut Vec<Verdict>,
) -> Outcome<Delta> {
    let SqliteStore { conn, history, moved, blocks, .. } = store;
    let (submit, end) = (conn.prepare_cached(SUBMIT)?, conn.prepare_cached(END)?);
    let mut group = Group { conn, history, moved, blocks, delta: Delta::default(), submit, end };
    verdicts.reserve(facts.len());
    for fact in facts {
        verdicts.push(group.apply(fact)?);
    }
    Ok(group.delta)
}

struct Group<'a> {
    conn: &'a Connection,
    history: &'a mut History,
    moved: &'a Moved,
    blocks: &'a Blocks,
    delta: Delta,
    submit: CachedStatement<'a>,
    end: CachedStatement<'a>,
}

impl Group<'_> {
    fn apply(&mut self, fact: &Fact) -> Outcome<Verdict> {
        match fact {
            Fact::Submitted { seq, at, spec, spawned_by, spilled } => {
                self.submitted(*seq, *at, spec, *spawned_by, *spilled)
            }
            Fact::Finished { seq, token, at, worker, result, log } => self.ended(&Ended {
                seq: *seq,
                state: TaskState::Done,
                token: *token,
                at: *at,
                worker,
                result: Some(result),
                error: None,
                log: log.as_deref(),
            }),
            Fact::Dead { seq, token, at, worker, error, log } => self.ended(&Ended {
                seq: *seq,
                state: TaskState::Dead,
                token: *token,
                at: *at,
                worker,
                result: None,
                error: Some((error.class, &error.message)),
                log: log.as_deref(),
            }),
            Fact::Cancelled { seq, at, reason, spilled } => {
                self.cancelled(*seq, *at, reason, *spilled)
            }
            Fact::AttemptFailed { seq, token, at, worker, error, log, retry_at, counted } => {
                let (worker, error, log) = (worker.clone(), error.clone(), log.clone());
                let record =
                    AttemptRecord { token: *token, at: *at, worker, error, log, counted: *counted };
                self.attempt_failed(*seq, &record, *retry_at)
            }
            Fact::Replayed { seq, replay, .. } => self.replayed(*seq, replay),
            Fact::Reprioritised { seq, priority, .. } => self.reprioritised(*seq, *priority),
            Fact::Dropped { seq, at } => self.dropped(*seq, *at),
            Fact::Held { seq, token, began, worker } => self.held(*seq, *token, *began, worker),
            Fact::Unspilled { lane, upto } => {
                let sql = "DELETE FROM spill WHERE class = ?1 AND priority = ?2 AND seq <= ?3";
                let bounds = params![lane.class as i64, lane.priority, upto.0 as i64];
                self.conn.prepare_cached(sql)?.execute(bounds)?;
                Ok(Verdict::Applied)
            }
            Fact::Checkpoint { seq, token, at, data } => {
                let saved = saved::save(self.conn, *seq, *token, *at, data)?;
                Ok(if saved { Verdict::Applied } else { Verdict::Stale })
            }
            Fact::Setting { key, value } => {
                saved::set(self.conn, key, value.as_deref())?;
                Ok(Verdict::Applied)
            }
            Fact::QueuePaused { queue, paused } => {
                let sql = "INSERT INTO queue VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET paused = excluded.paused";
                self.conn.prepare_cached(sql)?.execute(params![queue.as_str(), paused])?;
                Ok(Verdict::Applied)
            }
        }
    }

    fn submitted(
        &mut self,
        seq: Seq,
        at: Timestamp,
        spec: &TaskSpec,
        spawned_by: Option<Seq>,
        spilled: Option<Lane>,
    ) -> Outcome<Verdict> {
        if self.moved.may_hold(seq, spec.id) {
            let known =
                "SELECT 1 FROM task WHERE id = ?1 UNION ALL SELECT 1 FROM task WHERE seq = ?2";
            let past = self.history.search(|_, day| {
                let mut statement = day.prepare_cached(known)?;
                Ok(statement.exists(params![&spec.id.to_bytes()[..], seq.0 as i64])?.then_some(()))
            })?;
            if past.is_some() {
                return Ok(Verdict::Duplicate);
            }
        }
        row::bind_task(&mut self.submit, seq, at, spec, spawned_by)?;
        if self.submit.raw_execute()? == 0 {
            return Ok(Verdict::Duplicate);
        }
        if let Some(lane) = spilled {
            let row = params![lane.class as i64, lane.priority, seq.0 as i64];
            self.conn
                .prepare_cached("INSERT OR IGNORE INTO spill VALUES(?1, ?2, ?3)")?
                .execute(row)?;
        }
        keys::take(self.conn, seq, at, spec)?;
        Ok(Verdict::Applied)
    }

    fn ended(&mut self, end: &Ended<'_>) -> Outcome<Verdict> {
        self.end(end, end.token.0 as i64)
    }

    fn cancelled(
        &mut self,
        seq: Seq,
        at: Timestamp,
        reason: &str,
        spilled: Option<Lane>,
    ) -> Outcome<Verdict> {
        // No attempt ever has the greatest token, so none stands in the way of a cancel.
        let verdict = self.end(&cancel(seq, at, reason), i64::MAX)?;
        if let (Verdict::Applied, Some(lane)) = (verdict, spilled) {
            let row = params![lane.class as i64, lane.priority, seq.0 as i64];
            let sql = "DELETE FROM spill WHERE class = ?1 AND priority = ?2 AND seq = ?3";
            self.conn.prepare_cached(sql)?.execute(row)?;
        }
        Ok(verdict)
    }

    fn end(&mut self, end: &Ended<'_>, fence: i64) -> Outcome<Verdict> {
        row::bind_outcome(&mut self.end, end)?;
        self.end.raw_bind_parameter(12, fence)?;
        if self.end.raw_execute()? == 1 {
            self.delta.add(end.state, 1);
            return Ok(Verdict::Applied);
        }
        let token = end_token(self.conn, end.seq)?;
        let token = match token {
            None if self.moved.may_hold_seq(end.seq) => self
                .history
                .search(|_, day| end_token(day, end.seq).map(|found| found.map(Some)))?
                .flatten(),
            known => known,
        };
        Ok(if token == Some(end.token.0 as i64) { Verdict::Duplicate } else { Verdict::Stale })
    }

    fn attempt_failed(
        &mut self,
        seq: Seq,
        record: &AttemptRecord,
        retry_at: Timestamp,
    ) -> Outcome<Verdict> {
        let mut fail = self.conn.prepare_cached(FAIL)?;
        row::bind_attempt(&mut fail, seq, record, Some(retry_at))?;
        if fail.raw_execute()? == 1 {
            return Ok(Verdict::Applied);
        }
        let recorded = |conn: &Connection| -> Outcome<Option<()>> {
            let mut statement =
                conn.prepare_cached("SELECT 1 FROM attempt WHERE seq = ?1 AND token = ?2")?;
            Ok(statement.exists(params![seq.0 as i64, record.token.0 as i64])?.then_some(()))
        };
        let mut found = recorded(self.conn)?;
        if found.is_none() && self.moved.may_hold_seq(seq) {
            found = self.history.search(|_, day| recorded(day))?;
        }
        Ok(if found.is_some() { Verdict::Duplicate } else { Verdict::Stale })
    }

    fn held(&mut self, seq: Seq, token: Token, began: Timestamp, worker: &str) -> Outcome<Verdict> {
        let row = params![seq.0 as i64, token.0 as i64, began.0 as i64, worker];
        let changed = self.conn.prepare_cached(HOLD)?.execute(row)?;
        Ok(if changed == 1 { Verdict::Applied } else { Verdict::Stale })
    }

    /// Opens a dead or cancelled task again. What came before stays as its history but counts no longer.
    fn replayed(&mut self, seq: Seq, replay: &Replay) -> Outcome<Verdict> {
        let mut task = read::load(self.conn, read::Key::Seq(seq))?;
        if task.is_none() && self.moved.may_hold_seq(seq) {
            task = revive::from_history(self.conn, self.history, seq)?;
            // Known before it can be read there.
            task.iter().for_each(|task| self.blocks.note_task(&task.record));
        }
        let Some(mut record) = task.map(|task| task.record) else { return Ok(Verdict::Stale) };
        let again = |end: &End| matches!(end.state, TaskState::Dead | TaskState::Cancelled);
        let Some(end) = record.outcome.take().filter(again) else {
            return Ok(Verdict::Stale);
        };
        if end.state == TaskState::Cancelled || replay.payload.is_some() {
            saved::forget_checkpoint(self.conn, seq)?;
        }
        if let (TaskState::Dead, Some(error)) = (end.state, end.error) {
            self.keep_attempt(seq, end.token, end.at, end.worker, error, end.log)?;
        }
        let key = [seq.0 as i64];
        self.conn
            .prepare_cached("UPDATE attempt SET counted = 0, retry_at = NULL WHERE seq = ?1")?
            .execute(key)?;
        self.conn.prepare_cached("DELETE FROM outcome WHERE seq = ?1")?.execute(key)?;
        self.conn.prepare_cached("DELETE FROM held WHERE seq = ?1")?.execute(key)?;
        let due = replay.due.map(|due| due.0 as i64);
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO replayed(seq, due, keep_edges) VALUES(?1, ?2, ?3)",
            )?
            .execute(params![seq.0 as i64, due, replay.keep_edges])?;
        if let Some(payload) = &replay.payload {
            // A new row instead of the old one, so that its sum is right and whoever reads it sees the new payload.
            record.spec.payload = payload.clone();
            self.conn.prepare_cached("DELETE FROM task WHERE seq = ?1")?.execute(key)?;
            let (at, spawned_by) = (record.submitted_at, record.spawned_by);
            row::bind_task(&mut self.submit, seq, at, &record.spec, spawned_by)?;
            self.submit.raw_execute()?;
        }
        keys::take(self.conn, seq, record.submitted_at, &record.spec)?;
        self.delta.add(end.state, -1);
        Ok(Verdict::Applied)
    }

    /// Gives an open task another priority: a new row instead of the old one, so that its sum is right.
    fn reprioritised(&mut self, seq: Seq, priority: u8) -> Outcome<Verdict> {
        let task = read::load(self.conn, read::Key::Seq(seq))?.map(|task| task.record);
        let Some(mut record) = task.filter(|record| record.outcome.is_none()) else {
            return Ok(Verdict::Stale);
        };
        record.spec.priority = priority;
        self.conn.prepare_cached("DELETE FROM task WHERE seq = ?1")?.execute([seq.0 as i64])?;
        row::bind_task(
            &mut self.submit,
            seq,
            record.submitted_at,
            &record.spec,
            record.spawned_by,
        )?;
        self.submit.raw_execute()?;
        Ok(Verdict::Applied)
    }

    /// Turns a dead letter into a cancelled task; its last error becomes history.
    fn dropped(&mut self, seq: Seq, at: Timestamp) -> Outcome<Verdict> {
        let task = read::load(self.conn, read::Key::Seq(seq))?;
        let end =
            task.and_then(|task| task.record.outcome).filter(|end| end.state == TaskState::Dead);
        let Some(end) = end else { return Ok(Verdict::Stale) };
        if let Some(error) = end.error {
            self.keep_attempt(seq, end.token, end.at, end.worker, error, end.log)?;
        }
        self.conn.prepare_cached("DELETE FROM outcome WHERE seq = ?1")?.execute([seq.0 as i64])?;
        row::bind_outcome(&mut self.end, &cancel(seq, at, DROPPED))?;
        self.end.raw_bind_parameter(12, i64::MAX)?;
        self.end.raw_execute()?;
        self.delta.add(TaskState::Dead, -1);
        self.delta.add(TaskState::Cancelled, 1);
        Ok(Verdict::Applied)
    }

    fn keep_attempt(
        &mut self,
        seq: Seq,
        token: Token,
        at: Timestamp,
        worker: Name,
        error: TaskError,
        log: Option<Name>,
    ) -> Outcome<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT OR IGNORE INTO attempt(seq, token, at, worker, class, error, log, counted, retry_at) \
             VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        let record = AttemptRecord { token, at, worker, error, log, counted: true };
        row::bind_attempt(&mut insert, seq, &record, None)?;
        insert.raw_execute()?;
        Ok(())
    }
}

fn cancel(seq: Seq, at: Timestamp, reason: &str) -> Ended<'_> {
    let state = TaskState::Cancelled;
    let error = Some((ErrorClass::Cancelled, reason));
    Ended { seq, state, token: Token(0), at, worker: "", result: None, error, log: None }
}

fn end_token(conn: &Connection, seq: Seq) -> Outcome<Option<i64>> {
    let mut statement = conn.prepare_cached("SELECT token FROM outcome WHERE seq = ?1")?;
    Ok(statement.query_row([seq.0 as i64], |row| row.get(0)).optional()?)
}

/// The counts of the hot file, from one walk over `outcome` without reading its rows.
pub(super) fn count_hot(conn: &Connection) -> Outcome<Delta> {
    let mut delta = Delta::default();
    let all: i64 = conn.query_row("SELECT count(*) FROM outcome", [], |row| row.get(0))?;
    let mut done = all;
    for state in [TaskState::Dead, TaskState::Cancelled] {
        let sql =
            "SELECT count(*) FROM outcome INDEXED BY outcome_state WHERE state = ?1 AND state <> 1";
        let count: i64 = conn.query_row(sql, [tally::code(state)], |row| row.get(0))?;
        delta.add(state, count);
        done -= count;
    }
    delta.add(TaskState::Done, done);
    Ok(delta)
}
