//! What is open at start, from one pass over each table.
//!
//! `task`, `outcome`, `attempt`, `held`, `replayed` and `checkpoint` are all read in the order of the task's number and merged, so there is no
//! query per task and no memory per ended task. Only the numbers of spilled tasks are held, to sort them.

use std::collections::BTreeMap;
use std::sync::Arc;

use divvy_types::spec::DEFAULT_QUEUE;
use divvy_types::{Lane, Member, Name, Seq, TaskId, TaskSpec, Timestamp, Token};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows};

use super::blocks::{Block, Gathered};
use super::failure::{Failure, Outcome};
use super::row::{self, ATTEMPT, Cell, OUTCOME, REPLAYED, StoredAttempt, TASK, Want};
use super::write::Moved;
use super::{keys, saved};
use crate::Outcome as End;
use crate::{OpenTask, Recovered, SpilledLane};

/// Shows everything that is open, and gathers which blocks hold what.
pub(super) fn recover(
    conn: &Connection,
    moved: &Moved,
    visit: &mut dyn FnMut(Recovered),
) -> Outcome<Gathered> {
    paused_queues(conn, visit)?;
    saved::settings(conn, visit)?;
    keys::recover(conn, visit)?;
    let mut spilled = spilled(conn)?;
    let mut lanes: BTreeMap<Lane, (u64, Arc<TaskSpec>)> = BTreeMap::new();
    let mut members: BTreeMap<Member, u64> = BTreeMap::new();
    let mut blocks = Gathered::default();
    let mut statement = conn.prepare(&format!("SELECT {TASK} FROM task t ORDER BY t.seq"))?;
    let mut tasks = statement.query([])?;
    let mut statement = conn.prepare(&format!("SELECT {OUTCOME} FROM outcome o ORDER BY o.seq"))?;
    let mut outcomes = Stream::new(statement.query([])?, read_end)?;
    let mut statement =
        conn.prepare(&format!("SELECT {ATTEMPT} FROM attempt ORDER BY seq, token"))?;
    let mut attempts = Stream::new(statement.query([])?, read_attempt)?;
    let mut statement = conn.prepare("SELECT seq, token, worker, at FROM held ORDER BY seq")?;
    let mut held = Stream::new(statement.query([])?, read_held)?;
    let mut statement = conn.prepare(&format!("SELECT {REPLAYED} FROM replayed ORDER BY seq"))?;
    let mut replayed = Stream::new(statement.query([])?, row::read_replayed)?;
    let mut statement = conn.prepare("SELECT seq FROM checkpoint ORDER BY seq")?;
    let mut checkpoints = Stream::new(statement.query([])?, |row| Ok((row.get(0)?, ())))?;
    while let Some(row) = tasks.next()? {
        let seq: i64 = row.get(0)?;
        let block = blocks.of(seq);
        note_task(block, row)?;
        let made = made(&mut attempts, seq, block)?;
        if let Some(end) = outcomes.take(seq)? {
            end.iter().for_each(|end| block.add_outcome(end));
            continue;
        }
        let held = held.take(seq)?;
        held.iter().for_each(|(_, worker, _)| block.add_attempt(worker, None));
        let waits_in = spilled.lane_of(seq);
        if waits_in.is_some()
            && let Some(member) = member_of(row)?
        {
            *members.entry(member).or_default() += 1;
        }
        if let Some((count, _)) = waits_in.and_then(|lane| lanes.get_mut(&lane)) {
            *count += 1;
            continue;
        }
        let task = row::read_task(row, Want::Whole)?;
        let spec = Arc::new(task.spec);
        if let Some(lane) = waits_in {
            lanes.insert(lane, (1, spec));
            continue;
        }
        let put_back = replayed.take(seq)?;
        visit(Recovered::Open(OpenTask {
            seq: task.seq,
            submitted_at: task.at,
            spec,
            spawned_by: task.spawned_by,
            attempts: made.counted,
            lost: made.lost,
            checkpointed: checkpoints.take(seq)?.is_some(),
            retry_at: made.retry_at.or_else(|| put_back.as_ref().and_then(|replay| replay.due)),
            held: held.filter(|(token, ..)| Some(*token) > made.last),
            replayed: put_back.is_some_and(|replay| !replay.keep_edges),
        }));
    }
    show_spilled(lanes, members, visit);
    visit(last(conn, moved)?);
    Ok(blocks)
}

fn show_spilled(
    lanes: BTreeMap<Lane, (u64, Arc<TaskSpec>)>,
    members: BTreeMap<Member, u64>,
    visit: &mut dyn FnMut(Recovered),
) {
    for (lane, (count, sample)) in lanes {
        visit(Recovered::Spilled(SpilledLane { lane, count, sample }));
    }
    for (member, count) in members {
        visit(Recovered::SpilledMembers { member, count });
    }
}

/// What a list may ask of a task, without its payload.
fn note_task(block: &mut Block, row: &Row<'_>) -> Outcome<()> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "task", seq, name };
    let at = Timestamp(cell(2, "at").integer()? as u64);
    let queue = cell(4, "queue").optional_text()?.unwrap_or(DEFAULT_QUEUE);
    let terms = row::read_terms(row)?;
    block.add_task(at, cell(3, "kind").text()?, queue, &terms);
    Ok(())
}

/// The end of a task. One that is damaged is told to whoever asks for the task; that it has ended is certain.
fn read_end(row: &Row<'_>) -> Outcome<(i64, Option<End>)> {
    Ok((row.get(0)?, row::read_outcome(row, 0, Want::NoPayload).ok().flatten()))
}

/// What a task is a member of. Most that wait in the store belong to no workflow, which the column tells.
fn member_of(row: &Row<'_>) -> Outcome<Option<Member>> {
    if row.get_ref(7)? == ValueRef::Null {
        return Ok(None);
    }
    Ok(row::read_terms(row)?.member())
}

fn paused_queues(conn: &Connection, visit: &mut dyn FnMut(Recovered)) -> Outcome<()> {
    let mut statement = conn.prepare("SELECT name FROM queue WHERE paused <> 0 ORDER BY name")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let name = row
            .get_ref(0)?
            .as_str()
            .map_err(|_| Failure::Place("table queue: a name is not UTF-8".into()))?;
        visit(Recovered::PausedQueue(name.into()));
    }
    Ok(())
}

fn last(conn: &Connection, moved: &Moved) -> Outcome<Recovered> {
    let seq: Option<i64> = conn.query_row("SELECT max(seq) FROM task", [], |row| row.get(0))?;
    let seq = seq.map(|seq| Seq(seq as u64)).max(moved.seq).unwrap_or_default();
    let last_ordered_id = last_ordered_id(conn)?.max(moved.timed_id);
    Ok(Recovered::End { last_seq: seq, last_ordered_id })
}

/// Ids that are made from keys lie everywhere; the first of the right sort below the bound is the greatest.
fn last_ordered_id(conn: &Connection) -> Outcome<Option<TaskId>> {
    let mut statement = conn.prepare("SELECT id FROM task WHERE id < ?1 ORDER BY id DESC")?;
    let mut rows = statement.query([&TaskId::TIME_ORDERED_END.to_bytes()[..]])?;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_blob().ok().and_then(TaskId::from_slice);
        if let Some(id) = id.filter(|id| id.is_time_ordered()) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The spill, by number. Lanes are few, so each task has a small index into them.
struct Spilled {
    lanes: Vec<Lane>,
    tasks: Vec<(i64, u32)>,
    next: usize,
}

fn spilled(conn: &Connection) -> Outcome<Spilled> {
    let mut statement =
        conn.prepare("SELECT class, priority, seq FROM spill ORDER BY class, priority, seq")?;
    let mut rows = statement.query([])?;
    let mut spilled = Spilled { lanes: Vec::new(), tasks: Vec::new(), next: 0 };
    while let Some(row) = rows.next()? {
        let lane = Lane { class: row.get::<_, i64>(0)? as u64, priority: row.get(1)? };
        if spilled.lanes.last() != Some(&lane) {
            spilled.lanes.push(lane);
        }
        spilled.tasks.push((row.get(2)?, (spilled.lanes.len() - 1) as u32));
    }
    spilled.tasks.sort_unstable();
    Ok(spilled)
}

impl Spilled {
    /// The lane in which a task waits. Asked in ascending order.
    fn lane_of(&mut self, seq: i64) -> Option<Lane> {
        while self.tasks.get(self.next).is_some_and(|(other, _)| *other < seq) {
            self.next += 1;
        }
        let (found, lane) = self.tasks.get(self.next)?;
        (*found == seq).then(|| self.lanes[*lane as usize])
    }
}

/// What the failed attempts of a task come to.
#[derive(Default)]
struct Made {
    counted: u32,
    lost: Vec<Name>,
    retry_at: Option<Timestamp>,
    last: Option<Token>,
}

fn made(attempts: &mut Stream<'_, StoredAttempt>, seq: i64, block: &mut Block) -> Outcome<Made> {
    let mut made = Made::default();
    while let Some(attempt) = attempts.take(seq)? {
        block.add_attempt(&attempt.record.worker, Some(attempt.record.error.class));
        made.counted += u32::from(attempt.record.counted);
        attempt.note_lost_worker(&mut made.lost);
        made.retry_at = attempt.retry_at;
        made.last = Some(attempt.record.token);
    }
    Ok(made)
}

fn read_attempt(row: &Row<'_>) -> Outcome<(i64, StoredAttempt)> {
    Ok((row.get(0)?, row::read_attempt(row)?))
}

fn read_held(row: &Row<'_>) -> Outcome<(i64, (Token, Name, Timestamp))> {
    let seq: i64 = row.get(0)?;
    let worker =
        row.get_ref(2)?.as_str().map_err(|_| Failure::row("held", seq, "worker is not UTF-8"))?;
    let began = Timestamp(row.get::<_, i64>(3)? as u64);
    Ok((seq, (Token(row.get::<_, i64>(1)? as u64), worker.into(), began)))
}

type Decode<T> = fn(&Row<'_>) -> Outcome<(i64, T)>;

/// Rows of one table in the order of the task's number, asked for in that order.
struct Stream<'s, T> {
    rows: Rows<'s>,
    decode: Decode<T>,
    ahead: Option<(i64, T)>,
}

impl<'s, T> Stream<'s, T> {
    fn new(rows: Rows<'s>, decode: Decode<T>) -> Outcome<Self> {
        let mut stream = Self { rows, decode, ahead: None };
        stream.step()?;
        Ok(stream)
    }

    /// The next row of this task, if there is one. Rows of earlier tasks are passed over.
    fn take(&mut self, seq: i64) -> Outcome<Option<T>> {
        while self.ahead.as_ref().is_some_and(|(next, _)| *next < seq) {
            self.step()?;
        }
        let taken = self.ahead.take_if(|(next, _)| *next == seq);
        if taken.is_some() {
            self.step()?;
        }
        Ok(taken.map(|(_, item)| item))
    }

    fn step(&mut self) -> Outcome<()> {
        self.ahead = match self.rows.next()? {
            Some(row) => Some((self.decode)(row)?),
            None => None,
        };
        Ok(())
    }
}
