//! Pages of tasks, newest first, by the key that the last one ended with.
//!
//! Each file is walked in descending order of the task's number along the index that fits the question best, and the
//! rows are merged. Filters without an index are tried on a bounded number of rows; then the page ends at the number
//! down to which every file was searched, so that the next page leaves nothing out. A file is never walked below the
//! number at which another one stopped, because the page cannot reach further.

use std::collections::BTreeMap;

use divvy_types::select::Candidate;
use divvy_types::spec::DEFAULT_QUEUE;
use divvy_types::{Name, Select, Seq, TaskError, TaskState, Timestamp, WorkflowId};
use rusqlite::{Connection, Row, params};

use super::SqliteReader;
use crate::sqlite::failure::{Failure, Outcome};
use crate::sqlite::row::{self, ATTEMPT, Cell, OUTCOME, TASK, TASK_COLUMNS, Want};
use crate::sqlite::tally;
use crate::{AttemptRecord, Error, TaskPage, TaskRecord};

/// Rows of one file that one page looks at. Few in tests, so that they need not store many.
const SCAN_ROWS_MAX: usize = if cfg!(test) { 50 } else { 20_000 };

/// Along what a file is walked.
#[derive(Clone, Copy)]
enum Along {
    Newest,
    Open,
    State(TaskState),
    Workflow(WorkflowId),
    /// The one kind that is wanted, in a day file.
    Kind,
    /// The queue that is wanted, in a day file.
    Queue,
}

/// What one page has gathered.
struct Gathered<'q> {
    select: &'q Select,
    before: i64,
    rows: usize,
    found: BTreeMap<Seq, TaskRecord>,
    /// Below this number some file was not searched.
    searched_to: Seq,
}

pub(super) fn page(
    reader: &mut SqliteReader,
    select: &Select,
    before: Option<Seq>,
    rows: usize,
) -> Result<TaskPage, Error> {
    let SqliteReader { path, hot, history, .. } = reader;
    let before = before.map_or(i64::MAX, |seq| i64::try_from(seq.0).unwrap_or(i64::MAX));
    let (found, searched_to) = (BTreeMap::new(), Seq(0));
    let mut gathered = Gathered { select, before, rows, found, searched_to };
    // One snapshot of the hot file for the whole page: a task that it lacks was moved before, so a day file has it.
    hot.execute_batch("BEGIN").map_err(|error| Failure::from(error).at(path))?;
    let mut walk_all = || -> Result<(), Error> {
        for along in walks(select) {
            gathered.walk(hot, along, None).map_err(|failure| failure.at(path))?;
            if !matches!(along, Along::Open) {
                history.each(|number, day| {
                    // Its name says when what it holds has ended.
                    if !may_hold(select, number) {
                        return Ok(());
                    }
                    let along = within_day(select, day, along)?;
                    gathered.walk(day, along, Some(hot))
                })?;
            }
        }
        Ok(())
    };
    let walked = walk_all();
    hot.execute_batch("COMMIT").map_err(|error| Failure::from(error).at(path))?;
    walked?;
    Ok(gathered.page())
}

fn walks(select: &Select) -> Vec<Along> {
    if let Some(workflow) = select.workflow {
        return vec![Along::Workflow(workflow)];
    }
    if select.is_open() {
        return vec![Along::Open];
    }
    let rare = [TaskState::Dead, TaskState::Cancelled];
    if !select.state.is_empty() && select.state.iter().all(|state| rare.contains(state)) {
        let wanted = rare.into_iter().filter(|state| select.state.contains(state));
        return wanted.map(Along::State).collect();
    }
    vec![Along::Newest]
}

/// Whether tasks that ended on a day may fit.
fn may_hold(select: &Select, day: u32) -> bool {
    select.ended_since.is_none_or(|since| since.day() <= day)
        && select.ended_until.is_none_or(|until| until.day() >= day)
}

/// Day files have indexes that the hot file would pay for with each task; those of an earlier version have not.
fn within_day(select: &Select, day: &Connection, along: Along) -> Outcome<Along> {
    let is_default = |queue: &Name| queue == DEFAULT_QUEUE;
    let (index, better) = match (along, &select.kind, &select.queue) {
        (Along::Newest, Some(kind), _) if !kind.ends_with('*') => ("task_kind", Along::Kind),
        (Along::Newest, _, Some(queue)) if !is_default(queue) => ("task_queue", Along::Queue),
        _ => return Ok(along),
    };
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1";
    Ok(if day.prepare_cached(sql)?.exists([index])? { better } else { along })
}

impl Along {
    fn sql(self) -> String {
        let left = "task t LEFT JOIN outcome o ON o.seq = t.seq";
        let (from, order) = match self {
            Self::Newest | Self::Open => {
                (format!("{left} WHERE t.seq < ?1 AND t.seq >= ?2 AND ?3 IS NULL"), "t.seq")
            }
            Self::State(_) => (
                "outcome o INDEXED BY outcome_state CROSS JOIN task t ON t.seq = o.seq
                 WHERE o.state = ?3 AND o.state <> 1 AND o.seq < ?1 AND o.seq >= ?2"
                    .to_owned(),
                "o.seq",
            ),
            Self::Workflow(_) => (
                "task t INDEXED BY task_workflow LEFT JOIN outcome o ON o.seq = t.seq
                 WHERE t.workflow = ?3 AND t.workflow IS NOT NULL AND t.seq < ?1 AND t.seq >= ?2"
                    .to_owned(),
                "t.seq",
            ),
            Self::Kind => (
                "task t INDEXED BY task_kind LEFT JOIN outcome o ON o.seq = t.seq
                 WHERE t.kind = ?3 AND t.seq < ?1 AND t.seq >= ?2"
                    .to_owned(),
                "t.seq",
            ),
            Self::Queue => (
                "task t INDEXED BY task_queue LEFT JOIN outcome o ON o.seq = t.seq
                 WHERE t.queue = ?3 AND t.queue IS NOT NULL AND t.seq < ?1 AND t.seq >= ?2"
                    .to_owned(),
                "t.seq",
            ),
        };
        format!("SELECT {TASK}, {OUTCOME} FROM {from} ORDER BY {order} DESC")
    }
}

impl Gathered<'_> {
    /// Walks one file. Rows that `shadow` has are left out, because that file knows better.
    fn walk(
        &mut self,
        conn: &Connection,
        along: Along,
        shadow: Option<&Connection>,
    ) -> Outcome<()> {
        let (before, floor) = (self.before, self.searched_to.0 as i64);
        let mut statement = conn.prepare_cached(&along.sql())?;
        let mut rows = match along {
            Along::Newest | Along::Open => statement.query(params![before, floor, None::<i64>])?,
            Along::State(state) => statement.query(params![before, floor, tally::code(state)])?,
            Along::Workflow(workflow) => {
                statement.query(params![before, floor, &workflow.to_bytes()[..]])?
            }
            Along::Kind => statement.query(params![before, floor, self.select.kind.as_deref()])?,
            Along::Queue => {
                statement.query(params![before, floor, self.select.queue.as_deref()])?
            }
        };
        let (mut looked_at, mut taken, mut last) = (0, 0, Seq(0));
        while let Some(row) = rows.next()? {
            // One more than the page has tells that the page is not the last.
            if taken > self.rows || looked_at >= SCAN_ROWS_MAX {
                self.searched_to = self.searched_to.max(last);
                break;
            }
            last = Seq(row.get::<_, i64>(0)? as u64);
            looked_at += 1;
            if self.select.matches(&Stored { conn, row })? && !is_shadowed(shadow, last)? {
                self.found.insert(last, record(conn, row)?);
                taken += 1;
            }
        }
        Ok(())
    }

    fn page(self) -> TaskPage {
        let Self { rows, found, searched_to, .. } = self;
        let mut newest = found.into_iter().rev().take_while(|(seq, _)| *seq >= searched_to);
        let tasks: Vec<TaskRecord> = newest.by_ref().take(rows).map(|(_, record)| record).collect();
        let last = tasks.last().map(|task| task.seq).filter(|_| newest.next().is_some());
        let searched_to = last.or_else(|| (searched_to > Seq(0)).then_some(searched_to));
        TaskPage { tasks, searched_to }
    }
}

/// A row with the columns of [`TASK`] and [`OUTCOME`], as a filter looks at it.
struct Stored<'r, 's> {
    conn: &'r Connection,
    row: &'r Row<'s>,
}

impl<'r, 's> Stored<'r, 's> {
    fn of_task(&self, column: usize, name: &'static str) -> Outcome<Cell<'r, 's>> {
        Ok(Cell { row: self.row, column, table: "task", seq: self.row.get(0)?, name })
    }

    fn of_end(&self, column: usize, name: &'static str) -> Outcome<Cell<'r, 's>> {
        let column = TASK_COLUMNS + column;
        Ok(Cell { row: self.row, column, table: "outcome", seq: self.row.get(0)?, name })
    }

    fn last_attempt(&self) -> Outcome<Option<AttemptRecord>> {
        last_attempt(self.conn, self.row.get(0)?)
    }
}

impl Candidate for Stored<'_, '_> {
    type Error = Failure;

    fn state(&self) -> Outcome<Option<TaskState>> {
        Ok(self.of_end(1, "state")?.optional_integer()?.and_then(tally::state))
    }

    fn kind(&self) -> Outcome<&str> {
        self.of_task(3, "kind")?.text()
    }

    fn queue(&self) -> Outcome<&str> {
        Ok(self.of_task(4, "queue")?.optional_text()?.unwrap_or(DEFAULT_QUEUE))
    }

    fn workflow(&self) -> Outcome<Option<WorkflowId>> {
        Ok(self.of_task(7, "workflow")?.optional_bytes()?.and_then(WorkflowId::from_slice))
    }

    fn submitted_at(&self) -> Outcome<Timestamp> {
        Ok(Timestamp(self.of_task(2, "at")?.integer()? as u64))
    }

    fn ended_at(&self) -> Outcome<Option<Timestamp>> {
        Ok(self.of_end(3, "at")?.optional_integer()?.map(|at| Timestamp(at as u64)))
    }

    fn worker(&self) -> Outcome<Option<Name>> {
        if let Some(worker) = self.of_end(4, "worker")?.optional_text()? {
            return Ok(Some(worker.into()));
        }
        Ok(self.last_attempt()?.map(|attempt| attempt.worker))
    }

    fn error(&self) -> Outcome<Option<TaskError>> {
        match row::read_outcome(self.row, TASK_COLUMNS, Want::NoPayload)? {
            Some(end) => Ok(end.error),
            None => Ok(self.last_attempt()?.map(|attempt| attempt.error)),
        }
    }

    fn workflow_name(&self) -> Outcome<Option<Name>> {
        let terms = row::read_terms(self.row)?;
        Ok(terms.workflow.as_ref().map(|workflow| workflow.name.clone()))
    }

    fn has_tag(&self, tag: &str) -> Outcome<bool> {
        Ok(row::read_terms(self.row)?.tags.iter().any(|found| found == tag))
    }
}

/// Whether the hot file has this task too, and knows better.
pub(super) fn is_shadowed(shadow: Option<&Connection>, seq: Seq) -> Outcome<bool> {
    let Some(hot) = shadow else { return Ok(false) };
    Ok(hot.prepare_cached("SELECT 1 FROM task WHERE seq = ?1")?.exists([seq.0 as i64])?)
}

fn record(conn: &Connection, row: &Row<'_>) -> Outcome<TaskRecord> {
    let task = row::read_task(row, Want::NoPayload)?;
    let outcome = row::read_outcome(row, TASK_COLUMNS, Want::NoPayload)?;
    let attempts = Vec::from_iter(last_attempt(conn, task.seq.0 as i64)?);
    let mut failed = 0;
    if !attempts.is_empty() {
        let sql = "SELECT count(*) FROM attempt WHERE seq = ?1 AND counted <> 0";
        failed = conn.prepare_cached(sql)?.query_row([task.seq.0 as i64], |row| row.get(0))?;
    }
    let counted = failed + u32::from(outcome.as_ref().is_some_and(|end| end.token.0 > 0));
    let (seq, submitted_at, spawned_by) = (task.seq, task.at, task.spawned_by);
    Ok(TaskRecord { seq, submitted_at, spec: task.spec, spawned_by, attempts, counted, outcome })
}

/// The last failed attempt of a task, its log apart.
fn last_attempt(conn: &Connection, seq: i64) -> Outcome<Option<AttemptRecord>> {
    let last = format!("SELECT {ATTEMPT} FROM attempt WHERE seq = ?1 ORDER BY token DESC LIMIT 1");
    let mut statement = conn.prepare_cached(&last)?;
    let mut rows = statement.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(AttemptRecord { log: None, ..row::read_attempt(row)?.record }))
}
