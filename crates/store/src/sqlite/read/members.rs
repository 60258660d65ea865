//! The tasks of a workflow, along its index, from the hot file and then from the day files.

use std::collections::BTreeMap;

use divvy_types::{Name, Seq, TaskState, WorkflowId};
use rusqlite::{Connection, Row, params};

use super::SqliteReader;
use super::page::is_shadowed;
use crate::sqlite::failure::{Failure, Outcome};
use crate::sqlite::row::{self, OUTCOME, TASK, TASK_COLUMNS, Want};
use crate::sqlite::tally;
use crate::{Error, MemberEnd, MemberRecord, Members, WorkflowPage};

/// Task numbers that one page of workflows looks through. Few in tests, so that they need not store many.
const STRETCH: i64 = if cfg!(test) { 4 } else { 100_000 };

pub(super) fn members(
    reader: &mut SqliteReader,
    workflow: WorkflowId,
    which: Members,
    visit: &mut dyn FnMut(MemberRecord) -> bool,
) -> Result<(), Error> {
    let SqliteReader { path, hot, history, .. } = reader;
    // One snapshot of the hot file: a task that it lacks was moved before, so a day file has it.
    hot.execute_batch("BEGIN").map_err(|error| Failure::from(error).at(path))?;
    let mut walk_all = || -> Result<(), Error> {
        let more = walk(hot, workflow, which, None, visit).map_err(|failure| failure.at(path))?;
        if more && which != Members::Open {
            history.search(|_, day| {
                let more = walk(day, workflow, which, Some(hot), visit)?;
                Ok((!more).then_some(()))
            })?;
        }
        Ok(())
    };
    let walked = walk_all();
    hot.execute_batch("COMMIT").map_err(|error| Failure::from(error).at(path))?;
    walked
}

/// Steps from workflow to workflow along the index, so that a workflow of any size costs one look-up per file.
pub(super) fn workflows(
    reader: &mut SqliteReader,
    before: Option<WorkflowId>,
    rows: usize,
) -> Result<Vec<(WorkflowId, Name)>, Error> {
    let SqliteReader { path, hot, history, .. } = reader;
    let mut found: BTreeMap<WorkflowId, Name> = BTreeMap::new();
    let mut look = |conn: &Connection| -> Outcome<()> {
        let mut end = before;
        for _ in 0..rows {
            let Some((id, name)) = greatest_before(conn, end)? else { break };
            end = Some(id);
            found.entry(id).or_insert(name);
        }
        Ok(())
    };
    look(hot).map_err(|failure| failure.at(path))?;
    history.each(|_, day| look(day))?;
    Ok(found.into_iter().rev().take(rows).collect())
}

/// Looks through a stretch of task numbers for workflows that start there. A file with many tasks and few workflows
/// costs no more per page than that stretch.
pub(super) fn started(
    reader: &mut SqliteReader,
    before: Option<Seq>,
    rows: usize,
) -> Result<WorkflowPage, Error> {
    let SqliteReader { path, hot, history, .. } = reader;
    let mut before = before.map_or(i64::MAX, |seq| i64::try_from(seq.0).unwrap_or(i64::MAX));
    // A task is copied to a day file before it is deleted here, so none can be missed; one that is seen twice is one.
    let mut newest: Option<i64> = None;
    let mut look = |conn: &Connection| -> Outcome<()> {
        newest = newest.max(greatest_seq(conn, before)?);
        Ok(())
    };
    look(hot).map_err(|failure| failure.at(path))?;
    history.each(|_, day| look(day))?;
    let Some(newest) = newest else { return Ok(WorkflowPage::default()) };
    before = newest.saturating_add(1);
    let low = before.saturating_sub(STRETCH).max(0);
    let mut firsts: BTreeMap<WorkflowId, i64> = BTreeMap::new();
    let mut older: Option<i64> = None;
    let mut look = |conn: &Connection| -> Outcome<()> {
        older = older.max(greatest_seq(conn, low)?);
        firsts_within(conn, low, before, &mut firsts)
    };
    look(hot).map_err(|failure| failure.at(path))?;
    history.each(|_, day| look(day))?;
    let mut sorted: Vec<(i64, WorkflowId)> =
        firsts.into_iter().map(|(id, seq)| (seq, id)).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut page = WorkflowPage::default();
    for (seq, id) in sorted {
        let mut earlier = has_earlier(hot, id, low).map_err(|failure| failure.at(path))?;
        earlier |= history.search(|_, day| Ok(has_earlier(day, id, low)?.then_some(())))?.is_some();
        if earlier {
            continue;
        }
        if page.workflows.len() == rows {
            page.searched_to = page.workflows.last().map(|(seq, _)| *seq);
            return Ok(page);
        }
        page.workflows.push((Seq(seq as u64), id));
    }
    page.searched_to = older.map(|_| Seq(low as u64));
    Ok(page)
}

fn greatest_seq(conn: &Connection, before: i64) -> Outcome<Option<i64>> {
    let mut statement = conn.prepare_cached("SELECT max(seq) FROM task WHERE seq < ?1")?;
    Ok(statement.query_row([before], |row| row.get(0))?)
}

/// The first task of each workflow within a stretch of numbers.
fn firsts_within(
    conn: &Connection,
    low: i64,
    before: i64,
    firsts: &mut BTreeMap<WorkflowId, i64>,
) -> Outcome<()> {
    let mut statement = conn.prepare_cached(
        "SELECT seq, workflow FROM task WHERE seq >= ?1 AND seq < ?2 AND workflow IS NOT NULL",
    )?;
    let mut rows = statement.query(params![low, before])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let id = row.get_ref(1)?.as_blob().ok().and_then(WorkflowId::from_slice);
        let id = id.ok_or_else(|| Failure::row("task", seq, "workflow is not 16 bytes"))?;
        let first = firsts.entry(id).or_insert(seq);
        *first = seq.min(*first);
    }
    Ok(())
}

fn has_earlier(conn: &Connection, workflow: WorkflowId, low: i64) -> Outcome<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT 1 FROM task INDEXED BY task_workflow WHERE workflow = ?1 AND workflow IS NOT NULL AND seq < ?2",
    )?;
    Ok(statement.exists(params![&workflow.to_bytes()[..], low])?)
}

fn greatest_before(
    conn: &Connection,
    before: Option<WorkflowId>,
) -> Outcome<Option<(WorkflowId, Name)>> {
    let bound = if before.is_some() { "AND t.workflow < ?1" } else { "AND ?1 IS NULL" };
    let sql = format!(
        "SELECT {TASK} FROM task t INDEXED BY task_workflow WHERE t.workflow IS NOT NULL {bound}
         ORDER BY t.workflow DESC, t.seq DESC LIMIT 1"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let id = before.map(|id| id.to_bytes());
    let mut rows = statement.query(params![id.as_ref().map(|id| &id[..])])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let label = row::read_task(row, Want::NoPayload)?.spec.terms.workflow.clone();
    Ok(label.map(|label| (label.id, label.name)))
}

/// Walks one file, oldest first; says whether to go on.
fn walk(
    conn: &Connection,
    workflow: WorkflowId,
    which: Members,
    shadow: Option<&Connection>,
    visit: &mut dyn FnMut(MemberRecord) -> bool,
) -> Outcome<bool> {
    let only = match which {
        Members::All => "",
        Members::Open => "AND o.seq IS NULL",
        Members::Failed => "AND o.state IN (?2, ?3)",
    };
    let sql = format!(
        "SELECT {TASK}, {OUTCOME} FROM task t INDEXED BY task_workflow LEFT JOIN outcome o ON o.seq = t.seq
         WHERE t.workflow = ?1 AND t.workflow IS NOT NULL {only} ORDER BY t.seq"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let id = workflow.to_bytes();
    let (dead, cancelled) = (tally::code(TaskState::Dead), tally::code(TaskState::Cancelled));
    let mut rows = match which {
        Members::Failed => statement.query(params![&id[..], dead, cancelled])?,
        Members::All | Members::Open => statement.query(params![&id[..]])?,
    };
    while let Some(row) = rows.next()? {
        let seq = Seq(row.get::<_, i64>(0)? as u64);
        if !is_shadowed(shadow, seq)? && !visit(record(row)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn record(row: &Row<'_>) -> Outcome<MemberRecord> {
    let task = row::read_task(row, Want::NoPayload)?;
    let outcome = row::read_outcome(row, TASK_COLUMNS, Want::NoPayload)?;
    let end = outcome.map(|end| MemberEnd {
        state: end.state,
        token: end.token,
        at: end.at,
        error: end.error,
    });
    let (seq, submitted_at, spawned_by) = (task.seq, task.at, task.spawned_by);
    Ok(MemberRecord { seq, submitted_at, spec: task.spec, spawned_by, end })
}
