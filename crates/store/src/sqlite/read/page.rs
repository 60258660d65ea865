//! Pages of tasks, newest first, by the key that the last one ended with.
//!
//! Each file is walked in descending order of the task's number along the index that fits the question best, and the
//! rows are merged. Filters without an index are tried on a bounded number of rows; then the page ends at the number
//! down to which every file was searched, so that the next page leaves nothing out.

use std::collections::BTreeMap;

use divvy_types::{Seq, TaskState, WorkflowId};
use rusqlite::{Connection, Row, params};

use super::SqliteReader;
use crate::sqlite::failure::Outcome;
use crate::sqlite::row::{self, ATTEMPT, OUTCOME, TASK, TASK_COLUMNS, Want};
use crate::sqlite::tally;
use crate::{Error, PageQuery, TaskRecord};

/// Rows of one file that one page looks at.
const SCAN_ROWS_MAX: usize = 20_000;
/// The same for open tasks, among which ended ones are only stepped over.
const SCAN_OPEN_ROWS_MAX: usize = 200_000;

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
    query: &'q PageQuery,
    found: BTreeMap<Seq, TaskRecord>,
    /// Below this number some file was not searched.
    searched_to: Seq,
}

pub(super) fn page(reader: &mut SqliteReader, query: &PageQuery) -> Result<Vec<TaskRecord>, Error> {
    let SqliteReader { path, hot, history, .. } = reader;
    let mut gathered = Gathered { query, found: BTreeMap::new(), searched_to: Seq(0) };
    let walks = walks(query);
    // One snapshot of the hot file for the whole page: a task that it lacks was moved before, so a day file has it.
    hot.execute_batch("BEGIN")
        .map_err(|error| crate::sqlite::failure::Failure::from(error).at(path))?;
    let mut walk_all = || -> Result<(), Error> {
        for along in &walks {
            gathered.walk(hot, *along, None).map_err(|failure| failure.at(path))?;
            if !matches!(along, Along::Open) {
                history.each(|_, day| gathered.walk(day, *along, Some(hot)))?;
            }
        }
        Ok(())
    };
    let walked = walk_all();
    hot.execute_batch("COMMIT")
        .map_err(|error| crate::sqlite::failure::Failure::from(error).at(path))?;
    walked?;
    let Gathered { found, searched_to, .. } = gathered;
    let newest = found.into_iter().rev().take_while(|(seq, _)| *seq >= searched_to);
    Ok(newest.take(query.rows).map(|(_, record)| record).collect())
}

fn walks(query: &PageQuery) -> Vec<Along> {
    match (&query.workflow, query.states.as_deref()) {
        (Some(workflow), _) => vec![Along::Workflow(*workflow)],
        (None, Some([])) => vec![Along::Open],
        (None, Some(states)) if !states.contains(&TaskState::Done) => {
            let indexed = [TaskState::Dead, TaskState::Cancelled].into_iter();
            indexed.filter(|state| states.contains(state)).map(Along::State).collect()
        }
        _ => vec![Along::Newest],
    }
}

impl Along {
    fn sql(self) -> String {
        let left = "task t LEFT JOIN outcome o ON o.seq = t.seq";
        let (from, order) = match self {
            Self::Newest => (format!("{left} WHERE t.seq < ?1 AND ?2 IS NULL"), "t.seq"),
            Self::Open => (format!("{left} WHERE t.seq < ?1 AND ?2 IS NULL"), "t.seq"),
            Self::State(_) => (
                "outcome o INDEXED BY outcome_state CROSS JOIN task t ON t.seq = o.seq
                 WHERE o.state = ?2 AND o.state <> 1 AND o.seq < ?1"
                    .to_owned(),
                "o.seq",
            ),
            Self::Workflow(_) => (
                "task t INDEXED BY task_workflow LEFT JOIN outcome o ON o.seq = t.seq
                 WHERE t.workflow = ?2 AND t.workflow IS NOT NULL AND t.seq < ?1"
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
        let before = self.query.before.map_or(i64::MAX, |seq| seq.0 as i64);
        let mut statement = conn.prepare_cached(&along.sql())?;
        let mut rows = match along {
            Along::Newest | Along::Open => statement.query(params![before, None::<i64>])?,
            Along::State(state) => statement.query(params![before, tally::code(state)])?,
            Along::Workflow(workflow) => {
                statement.query(params![before, &workflow.to_bytes()[..]])?
            }
        };
        let budget = if matches!(along, Along::Open) { SCAN_OPEN_ROWS_MAX } else { SCAN_ROWS_MAX };
        let (mut looked_at, mut taken) = (0, 0);
        while let Some(row) = rows.next()? {
            let seq = Seq(row.get::<_, i64>(0)? as u64);
            looked_at += 1;
            if self.matches(row)? && !is_shadowed(shadow, seq)? {
                self.found.insert(seq, record(conn, row)?);
                taken += 1;
            }
            if taken >= self.query.rows || looked_at >= budget {
                self.searched_to = self.searched_to.max(seq);
                break;
            }
        }
        Ok(())
    }

    fn matches(&self, row: &Row<'_>) -> Outcome<bool> {
        let query = self.query;
        if let Some(states) = &query.states {
            let state = row.get::<_, Option<i64>>(TASK_COLUMNS + 1)?.and_then(tally::state);
            if !state.map_or(states.is_empty(), |state| states.contains(&state)) {
                return Ok(false);
            }
        }
        if let Some(kind) = &query.kind {
            let found = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
            if !query_matches_kind(kind, found) {
                return Ok(false);
            }
        }
        if let Some(queue) = &query.queue {
            let found = row.get_ref(4)?.as_str_or_null().map_err(rusqlite::Error::from)?;
            if found.unwrap_or(divvy_types::spec::DEFAULT_QUEUE) != queue {
                return Ok(false);
            }
        }
        match &query.tag {
            None => Ok(true),
            Some(tag) => Ok(row::read_terms(row)?.tags.contains(tag)),
        }
    }
}

/// Whether a kind is the wanted one, or starts as it does up to its trailing star.
pub(crate) fn query_matches_kind(wanted: &str, kind: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == kind, |start| kind.starts_with(start))
}

/// Whether the hot file has this task too, and knows better.
pub(super) fn is_shadowed(shadow: Option<&Connection>, seq: Seq) -> Outcome<bool> {
    let Some(hot) = shadow else { return Ok(false) };
    Ok(hot.prepare_cached("SELECT 1 FROM task WHERE seq = ?1")?.exists([seq.0 as i64])?)
}

fn record(conn: &Connection, row: &Row<'_>) -> Outcome<TaskRecord> {
    let task = row::read_task(row, Want::NoPayload)?;
    let outcome = row::read_outcome(row, TASK_COLUMNS, Want::NoPayload)?;
    let last = format!("SELECT {ATTEMPT} FROM attempt WHERE seq = ?1 ORDER BY token DESC LIMIT 1");
    let mut statement = conn.prepare_cached(&last)?;
    let mut rows = statement.query([task.seq.0 as i64])?;
    let mut attempts = Vec::new();
    let mut failed = 0;
    if let Some(row) = rows.next()? {
        let mut last = row::read_attempt(row)?.record;
        last.log = None;
        attempts.push(last);
        let sql = "SELECT count(*) FROM attempt WHERE seq = ?1 AND counted <> 0";
        failed = conn.prepare_cached(sql)?.query_row([task.seq.0 as i64], |row| row.get(0))?;
    }
    let counted = failed + u32::from(outcome.as_ref().is_some_and(|end| end.token.0 > 0));
    let (seq, submitted_at, spawned_by) = (task.seq, task.at, task.spawned_by);
    Ok(TaskRecord { seq, submitted_at, spec: task.spec, spawned_by, attempts, counted, outcome })
}
