//! Answers to people and to the engine, from connections of their own.
//!
//! Every question goes to the hot file first and then to the day files, newest first. A task that is in both (it is
//! just being moved, or just came back) is taken from the hot file.

mod members;
mod page;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;

use divvy_types::fact::Replay;
use divvy_types::view::Upstream;
use divvy_types::{
    IdEnd, Lane, Name, Payload, Select, Seq, TaskId, TaskState, Timestamp, Token, WorkflowId,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::blocks::Blocks;
use super::failure::Outcome;
use super::history::History;
use super::row::{self, ATTEMPT, OUTCOME, REPLAYED, TASK, Want};
use super::saved;
use super::tally::Tally;
use crate::Outcome as End;
use crate::traits::counted;
use crate::{
    AttemptRecord, Error, Family, MemberRecord, Members, OpenTask, Reader, TaskPage, TaskRecord,
    WorkflowPage,
};

/// A reader of the hot file and of the day files.
pub(super) struct SqliteReader {
    pub(super) path: PathBuf,
    pub(super) hot: Connection,
    pub(super) history: History,
    pub(super) tally: Tally,
    pub(super) blocks: Blocks,
}

/// What a task is looked up by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    Seq(Seq),
    Id(TaskId),
}

/// A task of one file.
pub(super) struct Found {
    pub(super) record: TaskRecord,
}

/// Reads a task whole from one file.
pub(super) fn load(conn: &Connection, key: Key) -> Outcome<Option<Found>> {
    let joined =
        format!("SELECT {TASK}, {OUTCOME} FROM task t LEFT JOIN outcome o ON o.seq = t.seq");
    let mut statement = match key {
        Key::Seq(_) => conn.prepare_cached(&format!("{joined} WHERE t.seq = ?1"))?,
        Key::Id(_) => conn.prepare_cached(&format!("{joined} WHERE t.id = ?1"))?,
    };
    let mut rows = match key {
        Key::Seq(seq) => statement.query([seq.0 as i64])?,
        Key::Id(id) => statement.query([&id.to_bytes()[..]])?,
    };
    let Some(row) = rows.next()? else { return Ok(None) };
    let task = row::read_task(row, Want::Whole)?;
    let outcome = row::read_outcome(row, row::TASK_COLUMNS, Want::Whole)?;
    let attempts = tried(conn, task.seq)?.attempts;
    let held = holder(conn, task.seq, outcome.as_ref())?;
    Ok(Some(Found {
        record: TaskRecord {
            seq: task.seq,
            submitted_at: task.at,
            spec: task.spec,
            spawned_by: task.spawned_by,
            counted: counted(&attempts, outcome.as_ref()),
            attempts,
            outcome,
            held,
        },
    }))
}

/// The failed attempts of a task.
struct Tried {
    /// Oldest first.
    attempts: Vec<AttemptRecord>,
    /// When the next one is due.
    retry_at: Option<Timestamp>,
    /// Workers that went away, since the task was last put back; each name once.
    lost: Vec<Name>,
}

fn tried(conn: &Connection, seq: Seq) -> Outcome<Tried> {
    let sql = format!("SELECT {ATTEMPT} FROM attempt WHERE seq = ?1 ORDER BY token");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([seq.0 as i64])?;
    let mut tried = Tried { attempts: Vec::new(), retry_at: None, lost: Vec::new() };
    while let Some(row) = rows.next()? {
        let attempt = row::read_attempt(row)?;
        attempt.note_lost_worker(&mut tried.lost);
        tried.attempts.push(attempt.record);
        tried.retry_at = attempt.retry_at;
    }
    Ok(tried)
}

impl SqliteReader {
    fn look_up(&mut self, key: Key) -> Result<Option<TaskRecord>, Error> {
        // A task that comes back from a day file between the two looks is in the hot file at the second.
        for _ in 0..2 {
            if let Some(found) = load(&self.hot, key).map_err(|failure| failure.at(&self.path))? {
                return Ok(Some(found.record));
            }
            if let Some(found) = self.history.search(|_, day| load(day, key))? {
                return Ok(Some(found.record));
            }
        }
        Ok(None)
    }

    fn children(&mut self, parent: Seq) -> Result<BTreeSet<Seq>, Error> {
        let mut found = BTreeSet::new();
        let mut look = |conn: &Connection| -> Outcome<()> {
            let sql = "SELECT seq FROM task INDEXED BY task_spawned_by WHERE spawned_by = ?1";
            let mut statement = conn.prepare_cached(sql)?;
            for seq in statement.query_map([parent.0 as i64], |row| row.get::<_, i64>(0))? {
                found.insert(Seq(seq? as u64));
            }
            Ok(())
        };
        look(&self.hot).map_err(|failure| failure.at(&self.path))?;
        self.history.each(|_, day| look(day))?;
        Ok(found)
    }

    fn spilled_tasks(
        &self,
        lane: Lane,
        after: Option<Seq>,
        rows: usize,
        bytes: usize,
    ) -> Outcome<Vec<OpenTask>> {
        let sql = format!(
            "SELECT {TASK} FROM spill s CROSS JOIN task t ON t.seq = s.seq
             WHERE s.class = ?1 AND s.priority = ?2 AND s.seq > ?3
               AND NOT EXISTS(SELECT 1 FROM outcome o WHERE o.seq = s.seq)
             ORDER BY s.seq"
        );
        let mut statement = self.hot.prepare_cached(&sql)?;
        let after = after.map_or(-1, |seq| seq.0 as i64);
        let mut found = statement.query(params![lane.class as i64, lane.priority, after])?;
        let (mut tasks, mut size) = (Vec::new(), 0);
        while tasks.len() < rows && (tasks.is_empty() || size < bytes) {
            let Some(row) = found.next()? else { break };
            let task = row::read_task(row, Want::Whole)?;
            size += task.spec.payload.data().len();
            let tried = tried(&self.hot, task.seq)?;
            let last = tried.attempts.last().map(|attempt| attempt.token);
            let put_back = put_back(&self.hot, task.seq)?;
            tasks.push(OpenTask {
                seq: task.seq,
                submitted_at: task.at,
                spec: task.spec.into(),
                spawned_by: task.spawned_by,
                attempts: counted(&tried.attempts, None),
                lost: tried.lost,
                checkpointed: saved::has_checkpoint(&self.hot, task.seq)?,
                retry_at: tried
                    .retry_at
                    .or_else(|| put_back.as_ref().and_then(|replay| replay.due)),
                held: held(&self.hot, task.seq)?.filter(|(token, ..)| Some(*token) > last),
                replayed: put_back.is_some_and(|replay| !replay.keep_edges),
            });
        }
        Ok(tasks)
    }
}

/// How a task was last put back, its payload apart.
fn put_back(conn: &Connection, seq: Seq) -> Outcome<Option<Replay>> {
    let sql = format!("SELECT {REPLAYED} FROM replayed WHERE seq = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([seq.0 as i64])?;
    Ok(rows.next()?.map(row::read_replayed).transpose()?.map(|(_, replay)| replay))
}

fn held(conn: &Connection, seq: Seq) -> Outcome<Option<(Token, Name, Timestamp)>> {
    let mut statement = conn.prepare_cached("SELECT token, worker, at FROM held WHERE seq = ?1")?;
    let found = statement.query_row([seq.0 as i64], |row| {
        let began = Timestamp(row.get::<_, i64>(2)? as u64);
        Ok((Token(row.get::<_, i64>(0)? as u64), row.get_ref(1)?.as_str()?.into(), began))
    });
    Ok(found.optional()?)
}

/// Who was last recorded to hold a task, if it is open. Only the main file has such.
fn holder(conn: &Connection, seq: Seq, outcome: Option<&End>) -> Outcome<Option<Name>> {
    if outcome.is_some() {
        return Ok(None);
    }
    Ok(held(conn, seq)?.map(|(_, worker, _)| worker))
}

impl Reader for SqliteReader {
    fn find(&mut self, id: TaskId) -> Result<Option<TaskRecord>, Error> {
        self.look_up(Key::Id(id))
    }

    fn get(&mut self, seq: Seq) -> Result<Option<TaskRecord>, Error> {
        self.look_up(Key::Seq(seq))
    }

    fn ids_between(&mut self, low: TaskId, high: TaskId, max: usize) -> Result<Vec<TaskId>, Error> {
        let mut found = BTreeSet::new();
        let mut look = |conn: &Connection| -> Outcome<()> {
            let mut statement = conn.prepare_cached(
                "SELECT id FROM task WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
            )?;
            let mut rows =
                statement.query(params![&low.to_bytes()[..], &high.to_bytes()[..], max as i64])?;
            while let Some(row) = rows.next()? {
                found.extend(TaskId::from_slice(
                    row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?,
                ));
            }
            Ok(())
        };
        look(&self.hot).map_err(|failure| failure.at(&self.path))?;
        self.history.each(|_, day| look(day))?;
        Ok(found.into_iter().take(max).collect())
    }

    fn ids_ending(&mut self, end: IdEnd, max: usize) -> Result<Vec<TaskId>, Error> {
        let bytes = end.whole_bytes();
        let mut found = BTreeSet::new();
        let mut look = |conn: &Connection| -> Outcome<()> {
            // The index on ids has all that this needs, so rows are not touched.
            let mut statement =
                conn.prepare_cached("SELECT id FROM task WHERE substr(id, ?1) = ?2")?;
            let mut rows = statement.query(params![-(bytes.len() as i64), &bytes[..]])?;
            while let Some(row) = rows.next()?.filter(|_| found.len() < max) {
                let id = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
                found.extend(TaskId::from_slice(id).filter(|id| end.is_of(id.0)));
            }
            Ok(())
        };
        look(&self.hot).map_err(|failure| failure.at(&self.path))?;
        self.history.each(|_, day| look(day))?;
        Ok(found.into_iter().take(max).collect())
    }

    fn page(
        &mut self,
        select: &Select,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<TaskPage, Error> {
        page::page(self, select, before, rows)
    }

    fn upstream(&mut self, tasks: &[Seq], rows: usize, bytes: usize) -> Result<Family, Error> {
        let mut queue: VecDeque<(Seq, bool)> = tasks.iter().map(|seq| (*seq, false)).collect();
        let mut seen: BTreeSet<Seq> = BTreeSet::new();
        let (mut family, mut bytes_left) = (Family::default(), bytes);
        while let Some((seq, spawned)) = queue.pop_front() {
            if !seen.insert(seq) {
                continue;
            }
            let Some(record) = self.get(seq)? else {
                // Retention dropped it: its result is missing, and whoever asks must know.
                family.cut = true;
                continue;
            };
            let Some(end) = record.outcome else { continue };
            let result = if end.state == TaskState::Done { end.result } else { Payload::null() };
            let (task, kind) = (record.spec.id, record.spec.kind);
            let end = Upstream { task, kind, state: end.state, result, spawned };
            if !family.add(end, rows, &mut bytes_left) {
                break;
            }
            queue.extend(self.children(seq)?.into_iter().map(|child| (child, true)));
        }
        Ok(family)
    }

    fn members(
        &mut self,
        workflow: WorkflowId,
        which: Members,
        visit: &mut dyn FnMut(MemberRecord) -> bool,
    ) -> Result<(), Error> {
        members::members(self, workflow, which, visit)
    }

    fn workflows(
        &mut self,
        before: Option<WorkflowId>,
        rows: usize,
    ) -> Result<Vec<(WorkflowId, Name)>, Error> {
        members::workflows(self, before, rows)
    }

    fn started_workflows(
        &mut self,
        before: Option<Seq>,
        rows: usize,
    ) -> Result<WorkflowPage, Error> {
        members::started(self, before, rows)
    }

    fn checkpoint(&mut self, task: Seq) -> Result<Option<Payload>, Error> {
        saved::checkpoint(&self.hot, task).map_err(|failure| failure.at(&self.path))
    }

    fn spilled(
        &mut self,
        lane: Lane,
        after: Option<Seq>,
        rows: usize,
        bytes: usize,
    ) -> Result<Vec<OpenTask>, Error> {
        self.spilled_tasks(lane, after, rows, bytes).map_err(|failure| failure.at(&self.path))
    }

    fn final_counts(&mut self) -> Result<Vec<(TaskState, u64)>, Error> {
        Ok(self.tally.read())
    }
}
