//! Pages of tasks, newest first, by the key that the last one ended with.
//!
//! Each file is walked in descending order of the task's number, along an index if one fits, and only where `blocks` says
//! that something may fit; the rows are merged. All files are walked down to the same number before any goes further, so
//! that one with few that fit is not searched for what another one has. A bounded number of rows is tried: then the page
//! ends at the number down to which every file was searched, so that the next page leaves nothing out.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use divvy_types::select::Candidate;
use divvy_types::spec::DEFAULT_QUEUE;
use divvy_types::{Name, Select, Seq, TaskError, TaskState, Timestamp, WorkflowId};
use rusqlite::{Connection, Row, params};

use super::{SqliteReader, holder};
use crate::sqlite::blocks::{self, Wanted};
use crate::sqlite::failure::{Failure, Outcome};
use crate::sqlite::row::{self, Cell, OUTCOME, TASK, TASK_COLUMNS, Want};
use crate::sqlite::tally;
use crate::{AttemptRecord, Error, TaskPage, TaskRecord};

/// Rows of one file that one page tries. Few in tests, so that they need not store many.
const SCAN_ROWS_MAX: usize = if cfg!(test) { 50 } else { 5_000 };
/// Numbers through which all files are walked first; then through so many times as many.
const FIRST_WINDOW: i64 = if cfg!(test) { 8 } else { 4_096 };
const WINDOWS_GROW: i64 = 4;
/// The last failed attempt of a task.
const LAST_ATTEMPT: &str = "SELECT seq, token, at, worker, class, error, log, counted, retry_at FROM attempt \
     WHERE seq = ?1 ORDER BY token DESC LIMIT 1";
/// What it costs to begin at another place of a file, in rows.
const STRETCH_ROWS: usize = if cfg!(test) { 0 } else { 4 };

/// Along what a file is walked.
#[derive(Clone, Copy)]
enum Along {
    Newest,
    Open,
    State(TaskState),
    Workflow(WorkflowId),
}

/// What one page has gathered.
struct Gathered<'q> {
    select: &'q Select,
    rows: usize,
    found: BTreeMap<Seq, TaskRecord>,
    /// Below this number some file was not searched.
    searched_to: Seq,
}

/// How a file is walked.
struct Walk {
    along: Along,
    /// Where something may fit, highest first; what was walked is taken away.
    stretches: VecDeque<Range<i64>>,
    looked_at: usize,
}

pub(super) fn page(
    reader: &mut SqliteReader,
    select: &Select,
    before: Option<Seq>,
    rows: usize,
) -> Result<TaskPage, Error> {
    let SqliteReader { path, hot, history, blocks, .. } = reader;
    let before = before.map_or(i64::MAX, |seq| i64::try_from(seq.0).unwrap_or(i64::MAX));
    let (found, searched_to) = (BTreeMap::new(), Seq(0));
    let mut gathered = Gathered { select, rows, found, searched_to };
    // Asked before the snapshot is taken: a block is forgotten only when its tasks have left.
    let wanted = Wanted::of(select);
    let in_hot = wanted.as_ref().and_then(|wanted| blocks.stretches(wanted, before));
    // One snapshot of the hot file for the whole page: a task that it lacks was moved before, so a day file has it.
    hot.execute_batch("BEGIN").map_err(|error| Failure::from(error).at(path))?;
    let mut walk_all = || -> Result<(), Error> {
        let of_hot =
            walks(select).into_iter().map(|along| Walk::new(along, in_hot.clone(), before));
        let mut of_hot: Vec<Walk> = of_hot.collect();
        let mut of_days: BTreeMap<u32, Vec<Walk>> = BTreeMap::new();
        let mut newest = greatest(hot, before).map_err(|failure| failure.at(path))?;
        if !select.is_open() {
            history.each(|number, day| {
                // Its name says when what it holds has ended.
                if !may_hold(select, number) {
                    return Ok(());
                }
                let known = wanted.as_ref().map(|wanted| blocks::of_day(day, wanted, before));
                let known = known.transpose()?.flatten();
                let walks = walks(select).into_iter();
                let walks = walks.map(|along| Walk::new(along, known.clone(), before)).collect();
                of_days.insert(number, walks);
                newest = newest.max(greatest(day, before)?);
                Ok(())
            })?;
        }
        let mut window = FIRST_WINDOW;
        let mut low = newest.map_or(0, |newest| newest + 1);
        while low > 0 && !gathered.is_full() {
            low = low.saturating_sub(window).max(0);
            window = window.saturating_mul(WINDOWS_GROW);
            for walk in &mut of_hot {
                gathered.walk(hot, walk, low, None).map_err(|failure| failure.at(path))?;
            }
            history.each(|number, day| {
                let mut walks = of_days.get_mut(&number).into_iter().flatten();
                walks.try_for_each(|walk| gathered.walk(day, walk, low, Some(hot)))
            })?;
        }
        gathered.searched_to = gathered.searched_to.max(Seq(low as u64));
        Ok(())
    };
    let walked = walk_all();
    hot.execute_batch("COMMIT").map_err(|error| Failure::from(error).at(path))?;
    walked?;
    Ok(gathered.page())
}

fn greatest(conn: &Connection, before: i64) -> Outcome<Option<i64>> {
    let mut statement = conn.prepare_cached("SELECT max(seq) FROM task WHERE seq < ?1")?;
    Ok(statement.query_row([before], |row| row.get(0))?)
}

fn walks(select: &Select) -> Vec<Along> {
    if !select.workflow.is_empty() {
        return select.workflow.iter().copied().map(Along::Workflow).collect();
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
        };
        format!("SELECT {TASK}, {OUTCOME} FROM {from} ORDER BY {order} DESC")
    }
}

impl Walk {
    fn new(along: Along, stretches: Option<Vec<Range<i64>>>, before: i64) -> Self {
        let mut stretches = VecDeque::from(stretches.unwrap_or_else(|| vec![Range::default()]));
        if let Some(first) = stretches.front_mut() {
            first.end = if first.is_empty() { before } else { first.end.min(before) };
        }
        Self { along, stretches, looked_at: 0 }
    }

    /// The next stretch from `low` on.
    fn next(&mut self, low: i64) -> Option<Range<i64>> {
        let first = self.stretches.front_mut()?;
        if first.end <= low {
            return None;
        }
        if first.start >= low {
            return self.stretches.pop_front();
        }
        let upper = low..first.end;
        first.end = low;
        Some(upper)
    }
}

impl Gathered<'_> {
    /// Whether one more than the page has is found, or no more may be looked at.
    fn is_full(&self) -> bool {
        self.found.len() > self.rows || self.searched_to > Seq(0)
    }

    /// Walks one file down to `low`. Of rows that `shadow` has too, that file knows better.
    fn walk(
        &mut self,
        conn: &Connection,
        walk: &mut Walk,
        low: i64,
        shadow: Option<&Connection>,
    ) -> Outcome<()> {
        let low = low.max(self.searched_to.0 as i64);
        let mut statement = conn.prepare_cached(&walk.along.sql())?;
        let mut taken = 0;
        while let Some(Range { start, end }) = walk.next(low) {
            let mut last = Seq(end as u64);
            let mut rows = match walk.along {
                Along::Newest | Along::Open => statement.query(params![end, start, None::<i64>])?,
                Along::State(state) => statement.query(params![end, start, tally::code(state)])?,
                Along::Workflow(workflow) => {
                    statement.query(params![end, start, &workflow.to_bytes()[..]])?
                }
            };
            while let Some(row) = rows.next()? {
                // One more than the page has tells that the page is not the last.
                if taken > self.rows || walk.looked_at >= SCAN_ROWS_MAX {
                    self.searched_to = self.searched_to.max(last);
                    return Ok(());
                }
                last = Seq(row.get::<_, i64>(0)? as u64);
                walk.looked_at += 1;
                taken += usize::from(self.take(conn, row, last, shadow)?);
            }
            walk.looked_at += STRETCH_ROWS;
        }
        Ok(())
    }

    /// Takes a row if it fits.
    fn take(
        &mut self,
        conn: &Connection,
        row: &Row<'_>,
        seq: Seq,
        shadow: Option<&Connection>,
    ) -> Outcome<bool> {
        if !self.select.matches(&Stored { conn, row })? {
            return Ok(false);
        }
        if let Some(hot) = shadow {
            let sql = format!(
                "SELECT {TASK}, {OUTCOME} FROM task t LEFT JOIN outcome o ON o.seq = t.seq WHERE t.seq = ?1"
            );
            let mut statement = hot.prepare_cached(&sql)?;
            let mut rows = statement.query([seq.0 as i64])?;
            if let Some(row) = rows.next()? {
                return self.take(hot, row, seq, None);
            }
        }
        self.found.insert(seq, record(conn, row)?);
        Ok(true)
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

    fn may_be_with(&self, worker: &str) -> Outcome<bool> {
        if self.last_attempt()?.is_some_and(|attempt| attempt.worker == worker) {
            return Ok(true);
        }
        let mut held =
            self.conn.prepare_cached("SELECT 1 FROM held WHERE seq = ?1 AND worker = ?2")?;
        Ok(held.exists(params![self.row.get::<_, i64>(0)?, worker])?)
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
    let held = holder(conn, seq, outcome.as_ref())?;
    let spec = task.spec;
    Ok(TaskRecord { seq, submitted_at, spec, spawned_by, attempts, counted, outcome, held })
}

/// The last failed attempt of a task, its log apart.
fn last_attempt(conn: &Connection, seq: i64) -> Outcome<Option<AttemptRecord>> {
    let mut statement = conn.prepare_cached(LAST_ATTEMPT)?;
    let mut rows = statement.query([seq])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(AttemptRecord { log: None, ..row::read_attempt(row)?.record }))
}
