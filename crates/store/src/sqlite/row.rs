//! How tasks, outcomes and attempts become columns and come back, and the sum that each row carries.
//!
//! SQLite has no checksums of its own, so a flipped bit in a payload would go unnoticed. `task`, `outcome` and
//! `checkpoint` rows therefore carry 32 bits of a folded-multiply hash over all their columns: about 8 bytes per multiplication, which
//! does not show beside the cost of the insert, where a CRC without a table in hardware would. The sum guards
//! against decay, not against intent. Rows of the small tables are checked by their types only.
//!
//! What is at its default is not stored: `queue` and `content_type` are NULL then, and `extra`, the terms of the task as
//! JSON, is NULL when all of those are.

use bytes::Bytes;
use divvy_types::fact::Replay;
use divvy_types::spec::DEFAULT_QUEUE;
use divvy_types::terms::{SharedDefault as _, Sparse};
use divvy_types::{
    ErrorClass, Name, Payload, Seq, TaskError, TaskId, TaskSpec, Terms, Timestamp, Token, Workflow,
    WorkflowId, WorkflowRole, flat,
};
use rusqlite::types::ValueRef;
use rusqlite::{Row, Statement};

use super::failure::{Failure, Outcome};
use super::tally;
use crate::{AttemptRecord, Outcome as End};

/// The columns of a task, in the order that [`read_task`] expects, for a table that is named `t`.
pub(super) const TASK: &str = "t.seq, t.id, t.at, t.kind, t.queue, t.priority, t.spawned_by, t.workflow, \
     t.content_type, t.extra, t.checksum, t.payload";
/// The columns of an outcome, in the order that [`read_outcome`] expects, for a table that is named `o`.
pub(super) const OUTCOME: &str = "o.seq, o.state, o.token, o.at, o.worker, o.content_type, o.class, o.error, o.log, o.checksum, o.result";
/// The columns of an attempt, in the order that [`read_attempt`] expects.
pub(super) const ATTEMPT: &str = "seq, token, at, worker, class, error, log, counted, retry_at";

/// The columns of how a task was put back, in the order that [`read_replayed`] expects.
pub(super) const REPLAYED: &str = "seq, due, keep_edges";

/// How many columns [`TASK`] has.
pub(super) const TASK_COLUMNS: usize = 12;

/// What rows of an earlier shape have instead of terms: times as numbers, and of the workflow only what its column does
/// not hold.
#[derive(Default)]
struct Earlier {
    run_at_us: Option<u64>,
    deadline_us: Option<u64>,
    workflow_name: Option<Name>,
    workflow_role: Option<WorkflowRole>,
}
divvy_types::beside_terms!(
    Earlier { run_at_us, deadline_us, workflow_name, workflow_role } without {}
);

/// A task as its row holds it.
#[derive(Debug)]
pub(super) struct StoredTask {
    pub(super) seq: Seq,
    pub(super) at: Timestamp,
    pub(super) spec: TaskSpec,
    pub(super) spawned_by: Option<Seq>,
}

/// Whether payloads, results and logs are wanted. Without them the row's sum cannot be checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Whole,
    NoPayload,
}

/// Binds a task to the parameters 1 to 12, in the order of [`TASK`].
pub(super) fn bind_task(
    statement: &mut Statement<'_>,
    seq: Seq,
    at: Timestamp,
    spec: &TaskSpec,
    spawned_by: Option<Seq>,
) -> Outcome<()> {
    let id = spec.id.to_bytes();
    let queue = (spec.queue != DEFAULT_QUEUE).then_some(spec.queue.as_str());
    let workflow = spec.workflow.as_ref().map(|w| w.id.to_bytes());
    let content_type = (!spec.payload.is_json()).then(|| spec.payload.content_type());
    let extra = extra_of(spec)?;
    let payload: &[u8] = spec.payload.data();
    let mut sum = Sum::new();
    sum.number(seq.0)
        .bytes(&id)
        .number(at.0)
        .bytes(spec.kind.as_bytes())
        .option(queue.map(str::as_bytes));
    sum.number(u64::from(spec.priority)).number(spawned_by.map_or(0, |parent| parent.0));
    sum.option(workflow.as_ref().map(|w| &w[..])).option(content_type.map(str::as_bytes));
    sum.option(extra.as_deref()).bytes(payload);
    statement.raw_bind_parameter(1, seq.0 as i64)?;
    statement.raw_bind_parameter(2, &id[..])?;
    statement.raw_bind_parameter(3, at.0 as i64)?;
    statement.raw_bind_parameter(4, spec.kind.as_str())?;
    statement.raw_bind_parameter(5, queue)?;
    statement.raw_bind_parameter(6, spec.priority)?;
    statement.raw_bind_parameter(7, spawned_by.map(|parent| parent.0 as i64))?;
    statement.raw_bind_parameter(8, workflow.as_ref().map(|w| &w[..]))?;
    statement.raw_bind_parameter(9, content_type)?;
    statement.raw_bind_parameter(10, extra.as_deref())?;
    statement.raw_bind_parameter(11, sum.finish())?;
    statement.raw_bind_parameter(12, (!payload.is_empty()).then_some(payload))?;
    Ok(())
}

fn extra_of(spec: &TaskSpec) -> Outcome<Option<Vec<u8>>> {
    if spec.terms.is_untouched() || *spec.terms == *Terms::shared() {
        return Ok(None);
    }
    serde_json::to_vec(&spec.terms)
        .map(Some)
        .map_err(|error| Failure::Place(format!("a spec cannot be written: {error}")))
}

/// The task in a row whose first columns are those of [`TASK`].
pub(super) fn read_task(row: &Row<'_>, want: Want) -> Outcome<StoredTask> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "task", seq, name };
    let id = TaskId::from_slice(cell(1, "id").bytes()?)
        .ok_or_else(|| Failure::row("task", seq, "id is not 16 bytes"))?;
    let at = cell(2, "at").integer()? as u64;
    let kind = cell(3, "kind").text()?;
    let queue = cell(4, "queue").optional_text()?;
    let priority = u8::try_from(cell(5, "priority").integer()?)
        .map_err(|_| Failure::row("task", seq, "priority is out of range"))?;
    let spawned_by = cell(6, "spawned_by").optional_integer()?.map(|n| n as u64);
    let workflow_bytes = cell(7, "workflow").optional_bytes()?;
    let content_type = cell(8, "content_type").optional_text()?;
    let extra_bytes = cell(9, "extra").optional_bytes()?;
    let checksum = cell(10, "checksum").integer()?;
    let mut payload = Payload::null();
    if want == Want::Whole {
        let data = cell(11, "payload").optional_bytes()?.unwrap_or_default();
        let mut sum = Sum::new();
        sum.number(seq as u64).bytes(&id.to_bytes()).number(at).bytes(kind.as_bytes());
        sum.option(queue.map(str::as_bytes))
            .number(u64::from(priority))
            .number(spawned_by.unwrap_or(0));
        sum.option(workflow_bytes)
            .option(content_type.map(str::as_bytes))
            .option(extra_bytes)
            .bytes(data);
        check_sum("task", seq, checksum, &sum)?;
        payload = Payload::trusted(content_type.unwrap_or_default(), Bytes::copy_from_slice(data));
    }
    let mut spec = TaskSpec::new(id, kind);
    spec.priority = priority;
    spec.payload = payload;
    if let Some(queue) = queue {
        spec.queue = queue.into();
    }
    spec.terms = read_terms(row)?;
    Ok(StoredTask {
        seq: Seq(seq as u64),
        at: Timestamp(at),
        spec,
        spawned_by: spawned_by.map(Seq),
    })
}

/// The terms in a row whose first columns are those of [`TASK`], of today's shape or the earlier one.
pub(super) fn read_terms(row: &Row<'_>) -> Outcome<Sparse<Terms>> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "task", seq, name };
    let (workflow, extra) =
        (cell(7, "workflow").optional_bytes()?, cell(9, "extra").optional_bytes()?);
    if extra.is_none() && workflow.is_none() {
        return Ok(Sparse::default());
    }
    let mut reader = serde_json::Deserializer::from_slice(extra.unwrap_or(b"{}"));
    let read = flat::read(&mut reader).and_then(|read| reader.end().map(|()| read));
    let (earlier, mut terms): (Earlier, Terms) =
        read.map_err(|error| Failure::row("task", seq, format!("extra: {error}")))?;
    terms.run_at = terms.run_at.or_else(|| earlier.run_at_us.map(Timestamp));
    terms.deadline = terms.deadline.or_else(|| earlier.deadline_us.map(Timestamp));
    if let (None, Some(bytes)) = (&terms.workflow, workflow) {
        let id = WorkflowId::from_slice(bytes)
            .ok_or_else(|| Failure::row("task", seq, "workflow is not 16 bytes"))?;
        let (name, role) = (earlier.workflow_name, earlier.workflow_role);
        let (name, role) = (name.unwrap_or_default(), role.unwrap_or_default());
        terms.workflow = Some(Box::new(Workflow { id, name, role }));
    }
    Ok(terms.into())
}

/// The end of a task, borrowed from a fact.
pub(super) struct Ended<'a> {
    pub(super) seq: Seq,
    pub(super) state: divvy_types::TaskState,
    pub(super) token: Token,
    pub(super) at: Timestamp,
    pub(super) worker: &'a str,
    pub(super) result: Option<&'a Payload>,
    pub(super) error: Option<(ErrorClass, &'a str)>,
    pub(super) log: Option<&'a str>,
}

/// Binds an outcome to the parameters 1 to 11, in the order of [`OUTCOME`].
pub(super) fn bind_outcome(statement: &mut Statement<'_>, end: &Ended<'_>) -> Outcome<()> {
    let worker = (!end.worker.is_empty()).then_some(end.worker);
    let content_type = end.result.filter(|payload| !payload.is_json()).map(Payload::content_type);
    let result: &[u8] = end.result.map_or(&[], |payload| payload.data());
    let class = end.error.map(|(class, _)| class_code(class));
    let error = end.error.map(|(_, message)| message);
    let mut sum = Sum::new();
    sum.number(end.seq.0)
        .number(tally::code(end.state) as u64)
        .number(end.token.0)
        .number(end.at.0);
    sum.option(worker.map(str::as_bytes)).option(content_type.map(str::as_bytes));
    sum.number(class.unwrap_or(0) as u64)
        .option(error.map(str::as_bytes))
        .option(end.log.map(str::as_bytes));
    sum.bytes(result);
    statement.raw_bind_parameter(1, end.seq.0 as i64)?;
    statement.raw_bind_parameter(2, tally::code(end.state))?;
    statement.raw_bind_parameter(3, end.token.0 as i64)?;
    statement.raw_bind_parameter(4, end.at.0 as i64)?;
    statement.raw_bind_parameter(5, worker)?;
    statement.raw_bind_parameter(6, content_type)?;
    statement.raw_bind_parameter(7, class)?;
    statement.raw_bind_parameter(8, error)?;
    statement.raw_bind_parameter(9, end.log)?;
    statement.raw_bind_parameter(10, sum.finish())?;
    statement.raw_bind_parameter(11, (!result.is_empty()).then_some(result))?;
    Ok(())
}

/// The outcome in a row whose columns from `base` on are those of [`OUTCOME`]; nothing if they are all NULL.
pub(super) fn read_outcome(row: &Row<'_>, base: usize, want: Want) -> Outcome<Option<End>> {
    let Some(seq) = row.get::<_, Option<i64>>(base)? else { return Ok(None) };
    let cell = |column, name| Cell { row, column: base + column, table: "outcome", seq, name };
    let code = cell(1, "state").integer()?;
    let state = tally::state(code)
        .ok_or_else(|| Failure::row("outcome", seq, format!("state is {code}")))?;
    let token = cell(2, "token").integer()? as u64;
    let at = cell(3, "at").integer()? as u64;
    let worker = cell(4, "worker").optional_text()?;
    let content_type = cell(5, "content_type").optional_text()?;
    let class = cell(6, "class").optional_integer()?;
    let error = cell(7, "error").optional_text()?;
    let checksum = cell(9, "checksum").integer()?;
    let (mut log, mut result) = (None, Payload::null());
    if want == Want::Whole {
        let data = cell(10, "result").optional_bytes()?.unwrap_or_default();
        log = cell(8, "log").optional_text()?;
        let mut sum = Sum::new();
        sum.number(seq as u64).number(code as u64).number(token).number(at);
        sum.option(worker.map(str::as_bytes)).option(content_type.map(str::as_bytes));
        sum.number(class.unwrap_or(0) as u64)
            .option(error.map(str::as_bytes))
            .option(log.map(str::as_bytes));
        sum.bytes(data);
        check_sum("outcome", seq, checksum, &sum)?;
        result = Payload::trusted(content_type.unwrap_or_default(), Bytes::copy_from_slice(data));
    }
    let error = match (class, error) {
        (Some(class), Some(message)) => {
            Some(TaskError { class: class_of("outcome", seq, class)?, message: message.into() })
        }
        _ => None,
    };
    Ok(Some(End {
        state,
        token: Token(token),
        at: Timestamp(at),
        worker: worker.unwrap_or_default().into(),
        result,
        error,
        log: log.map(Name::from),
    }))
}

/// An attempt and when the next one is due.
pub(super) struct StoredAttempt {
    pub(super) record: AttemptRecord,
    pub(super) retry_at: Option<Timestamp>,
}

impl StoredAttempt {
    /// Notes its worker, once, if that went away and the task was not put back since: a replay takes the time of the
    /// next attempt away from all earlier ones.
    pub(super) fn note_lost_worker(&self, lost: &mut Vec<Name>) {
        let gone = self.record.error.class == ErrorClass::WorkerLost && self.retry_at.is_some();
        if gone && !lost.contains(&self.record.worker) {
            lost.push(self.record.worker.clone());
        }
    }
}

/// Binds an attempt to the parameters 1 to 9, in the order of [`ATTEMPT`].
pub(super) fn bind_attempt(
    statement: &mut Statement<'_>,
    seq: Seq,
    record: &AttemptRecord,
    retry_at: Option<Timestamp>,
) -> Outcome<()> {
    statement.raw_bind_parameter(1, seq.0 as i64)?;
    statement.raw_bind_parameter(2, record.token.0 as i64)?;
    statement.raw_bind_parameter(3, record.at.0 as i64)?;
    statement.raw_bind_parameter(4, record.worker.as_str())?;
    statement.raw_bind_parameter(5, class_code(record.error.class))?;
    statement.raw_bind_parameter(6, record.error.message.as_str())?;
    statement.raw_bind_parameter(7, record.log.as_deref())?;
    statement.raw_bind_parameter(8, record.counted)?;
    statement.raw_bind_parameter(9, retry_at.map(|t| t.0 as i64))?;
    Ok(())
}

/// The attempt in a row with the columns of [`ATTEMPT`].
pub(super) fn read_attempt(row: &Row<'_>) -> Outcome<StoredAttempt> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "attempt", seq, name };
    let class = class_of("attempt", seq, cell(4, "class").integer()?)?;
    let record = AttemptRecord {
        token: Token(cell(1, "token").integer()? as u64),
        at: Timestamp(cell(2, "at").integer()? as u64),
        worker: cell(3, "worker").text()?.into(),
        error: TaskError { class, message: cell(5, "error").text()?.into() },
        log: cell(6, "log").optional_text()?.map(Name::from),
        counted: cell(7, "counted").integer()? != 0,
    };
    Ok(StoredAttempt {
        record,
        retry_at: cell(8, "retry_at").optional_integer()?.map(|t| Timestamp(t as u64)),
    })
}

/// How a task was put back, its payload apart, in a row with the columns of [`REPLAYED`].
pub(super) fn read_replayed(row: &Row<'_>) -> Outcome<(i64, Replay)> {
    let seq: i64 = row.get(0)?;
    let cell = |column, name| Cell { row, column, table: "replayed", seq, name };
    let due = cell(1, "due").optional_integer()?.map(|due| Timestamp(due as u64));
    let keep_edges = cell(2, "keep_edges").integer()? != 0;
    Ok((seq, Replay { due, payload: None, keep_edges }))
}

fn class_code(class: ErrorClass) -> i64 {
    match class {
        ErrorClass::Failed => 1,
        ErrorClass::Timeout => 2,
        ErrorClass::Crashed => 3,
        ErrorClass::WorkerLost => 4,
        ErrorClass::Cancelled => 5,
    }
}

fn class_of(table: &'static str, seq: i64, code: i64) -> Outcome<ErrorClass> {
    Ok(match code {
        1 => ErrorClass::Failed,
        2 => ErrorClass::Timeout,
        3 => ErrorClass::Crashed,
        4 => ErrorClass::WorkerLost,
        5 => ErrorClass::Cancelled,
        other => return Err(Failure::row(table, seq, format!("error class is {other}"))),
    })
}

/// One column of a row, and the words to complain with.
pub(super) struct Cell<'r, 's> {
    pub(super) row: &'r Row<'s>,
    pub(super) column: usize,
    pub(super) table: &'static str,
    pub(super) seq: i64,
    pub(super) name: &'static str,
}

impl<'r> Cell<'r, '_> {
    fn value(&self) -> Outcome<ValueRef<'r>> {
        Ok(self.row.get_ref(self.column)?)
    }

    fn wrong(&self) -> Failure {
        Failure::row(
            self.table,
            self.seq,
            format!("{} has the wrong type or is not UTF-8", self.name),
        )
    }

    pub(super) fn optional_integer(&self) -> Outcome<Option<i64>> {
        self.value()?.as_i64_or_null().map_err(|_| self.wrong())
    }

    pub(super) fn integer(&self) -> Outcome<i64> {
        self.value()?.as_i64().map_err(|_| self.wrong())
    }

    pub(super) fn optional_text(&self) -> Outcome<Option<&'r str>> {
        self.value()?.as_str_or_null().map_err(|_| self.wrong())
    }

    pub(super) fn text(&self) -> Outcome<&'r str> {
        self.value()?.as_str().map_err(|_| self.wrong())
    }

    pub(super) fn optional_bytes(&self) -> Outcome<Option<&'r [u8]>> {
        self.value()?.as_blob_or_null().map_err(|_| self.wrong())
    }

    pub(super) fn bytes(&self) -> Outcome<&'r [u8]> {
        self.value()?.as_blob().map_err(|_| self.wrong())
    }
}

pub(super) fn check_sum(table: &'static str, seq: i64, stored: i64, sum: &Sum) -> Outcome<()> {
    if stored == sum.finish() {
        return Ok(());
    }
    Err(Failure::row(table, seq, "its content does not match its checksum"))
}

/// The running sum of a row. It must never change: it is in files.
pub(super) struct Sum(u64);

impl Sum {
    const SEED: u64 = 0x243f_6a88_85a3_08d3;
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(super) fn new() -> Self {
        Self(Self::SEED)
    }

    pub(super) fn number(&mut self, value: u64) -> &mut Self {
        let product = u128::from(self.0 ^ Self::STEP) * u128::from(value ^ Self::SEED);
        // Adding the running value keeps what came before even when a factor happens to be zero.
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.0.rotate_left(29));
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64);
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.number(u64::from_le_bytes(*chunk));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.number(u64::from_le_bytes(last));
        }
        self
    }

    pub(super) fn option(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.number(1).bytes(bytes),
            None => self.number(0),
        }
    }

    /// All 64 bits.
    pub(super) fn whole(&self) -> i64 {
        self.0 as i64
    }

    pub(super) fn finish(&self) -> i64 {
        i64::from((self.0 ^ (self.0 >> 32)) as u32)
    }
}
