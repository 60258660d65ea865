//! Which stretches of task numbers may hold what a list asks for.
//!
//! Numbers are cut into blocks. Of each block it is known which *words* its tasks have (their kinds, queues, tags, last
//! workers and so on) and when they were submitted and ended. A list walks only blocks that have all of its words, and
//! tries every row there. A block may promise more than it holds, because words that no longer fit are not taken away;
//! it never promises less. So a word may be a hash, and the rest of a file costs a list nothing.
//!
//! What the main file holds is known in memory: noted with each group before its commit, gathered anew at each start
//! while the open tasks are read, and forgotten when the last task of a block has left. That takes a few bytes for each
//! task, and no write. Day files have two tables for it, filled when tasks move there; those of before lack them and
//! are walked whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_types::{ErrorClass, Fact, Select, TaskSpec, TaskState, Terms, Timestamp};
use rusqlite::{Connection, ToSql, params};

use super::failure::Outcome;
use super::row::{self, ATTEMPT, OUTCOME, Sum, TASK, TASK_COLUMNS, Want};
use crate::Outcome as End;

/// Numbers of one block. Few in tests, so that they need not store many.
pub(super) const BLOCK: i64 = if cfg!(test) { 4 } else { 64 };
/// Parts of a kind that can be asked for with a star behind their dot.
const PREFIXES_MAX: usize = 4;

/// The tables of a day file.
pub(super) const DAY: &str = "
CREATE TABLE word(word INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY(word, block)) WITHOUT ROWID;
CREATE TABLE block(
  block INTEGER PRIMARY KEY, submitted_first INTEGER NOT NULL, submitted_last INTEGER NOT NULL,
  ended_first INTEGER NOT NULL, ended_last INTEGER NOT NULL);
";

/// What a word speaks of.
#[derive(Clone, Copy)]
enum Of {
    Kind,
    /// The start of a kind up to a dot.
    KindStart,
    Queue,
    Tag,
    Worker,
    WorkflowName,
    Class,
    State,
}

fn word(of: Of, text: &str) -> i64 {
    let mut sum = Sum::new();
    sum.number(of as u64).bytes(text.as_bytes());
    sum.whole()
}

/// What a list asks for, in words: of each set a block must have one.
#[derive(Debug)]
pub(super) struct Wanted {
    sets: Vec<Vec<i64>>,
    submitted: Span,
    ended: Option<Span>,
    /// Submitted or ended by then; without it, ever.
    by: i64,
}

impl Wanted {
    /// Nothing if blocks cannot help.
    pub(super) fn of(select: &Select) -> Option<Self> {
        let mut sets = Vec::new();
        let exact = [
            (Of::Queue, &select.queue),
            (Of::Tag, &select.tag),
            (Of::Worker, &select.worker),
            (Of::WorkflowName, &select.workflow_name),
            (Of::Kind, &select.kind),
        ];
        for (of, name) in exact {
            let Some(name) = name.as_deref() else { continue };
            match (of, name.strip_suffix('*')) {
                (Of::Kind, Some(start)) if start.ends_with('.') => {
                    let short = start.matches('.').count() <= PREFIXES_MAX;
                    sets.extend(short.then(|| vec![word(Of::KindStart, start)]));
                }
                (Of::Kind | Of::WorkflowName, Some(_)) => {}
                _ => sets.push(vec![word(of, name)]),
            }
        }
        if let Some(class) = select.class {
            sets.push(vec![word(Of::Class, class.as_str())]);
        } else if select.error.is_some() {
            sets.push(CLASSES.iter().map(|class| word(Of::Class, class.as_str())).collect());
        }
        if !select.state.is_empty() && select.state.iter().all(|state| state.is_final()) {
            sets.push(select.state.iter().map(|state| word(Of::State, state.as_str())).collect());
        }
        let submitted = Span::within(select.since, select.until);
        let by = Span::within(None, select.older_than).last;
        let of_end = select.ended_since.or(select.ended_until).is_some();
        let ended = of_end.then(|| Span::within(select.ended_since, select.ended_until));
        let of_time = submitted != Span::ALL || ended.is_some() || by != Span::ALL.last;
        (of_time || !sets.is_empty()).then_some(Self { sets, submitted, ended, by })
    }
}

const CLASSES: [ErrorClass; 5] = [
    ErrorClass::Failed,
    ErrorClass::Timeout,
    ErrorClass::Crashed,
    ErrorClass::WorkerLost,
    ErrorClass::Cancelled,
];

/// The first and the last of some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: i64,
    last: i64,
}

impl Default for Span {
    /// Of no times.
    fn default() -> Self {
        Self { first: i64::MAX, last: i64::MIN }
    }
}

impl Span {
    const ALL: Self = Self { first: i64::MIN, last: i64::MAX };

    /// All times from one on and before another.
    fn within(since: Option<Timestamp>, before: Option<Timestamp>) -> Self {
        let time = |at: Timestamp| i64::try_from(at.0).unwrap_or(i64::MAX);
        Self {
            first: since.map_or(i64::MIN, time),
            last: before.map_or(i64::MAX, |at| time(at).saturating_sub(1)),
        }
    }

    fn add(&mut self, at: Timestamp) {
        let at = i64::try_from(at.0).unwrap_or(i64::MAX);
        (self.first, self.last) = (self.first.min(at), self.last.max(at));
    }

    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// What is known of a block.
#[derive(Debug, Default)]
pub(super) struct Block {
    submitted: Span,
    ended: Span,
    /// In order.
    words: Vec<i64>,
}

impl Block {
    fn add(&mut self, word: i64) {
        if let Err(place) = self.words.binary_search(&word) {
            self.words.insert(place, word);
        }
    }

    pub(super) fn add_task(&mut self, at: Timestamp, kind: &str, queue: &str, terms: &Terms) {
        self.submitted.add(at);
        self.add(word(Of::Kind, kind));
        for (dot, _) in kind.match_indices('.').take(PREFIXES_MAX) {
            self.add(word(Of::KindStart, &kind[..=dot]));
        }
        self.add(word(Of::Queue, queue));
        for tag in &terms.tags {
            self.add(word(Of::Tag, tag));
        }
        if let Some(workflow) = &terms.workflow {
            self.add(word(Of::WorkflowName, &workflow.name));
        }
    }

    fn add_spec(&mut self, at: Timestamp, spec: &TaskSpec) {
        self.add_task(at, &spec.kind, &spec.queue, &spec.terms);
    }

    fn add_end(
        &mut self,
        state: TaskState,
        at: Timestamp,
        worker: &str,
        class: Option<ErrorClass>,
    ) {
        self.ended.add(at);
        self.add(word(Of::State, state.as_str()));
        self.add_attempt(worker, class);
    }

    pub(super) fn add_attempt(&mut self, worker: &str, class: Option<ErrorClass>) {
        if !worker.is_empty() {
            self.add(word(Of::Worker, worker));
        }
        if let Some(class) = class {
            self.add(word(Of::Class, class.as_str()));
        }
    }

    pub(super) fn add_outcome(&mut self, end: &End) {
        let class = end.error.as_ref().map(|error| error.class);
        self.add_end(end.state, end.at, &end.worker, class);
    }

    fn may_hold(&self, wanted: &Wanted) -> bool {
        let has = |word: &i64| self.words.binary_search(word).is_ok();
        self.submitted.meets(&wanted.submitted)
            && wanted.ended.is_none_or(|ended| self.ended.meets(&ended))
            && self.submitted.first.min(self.ended.first) <= wanted.by
            && wanted.sets.iter().all(|set| set.iter().any(has))
    }
}

/// The blocks of some tasks, by their number.
#[derive(Debug, Default)]
pub(super) struct Gathered(BTreeMap<i64, Block>);

impl Gathered {
    pub(super) fn of(&mut self, seq: i64) -> &mut Block {
        self.0.entry(seq.div_euclid(BLOCK)).or_default()
    }
}

/// The blocks of the main file, shared by the store and its readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Whether all that the file held at the start has been gathered.
    whole: bool,
    blocks: Gathered,
}

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what was gathered at the start.
    pub(super) fn start_with(&self, blocks: Gathered) {
        *self.lock() = Known { whole: true, blocks };
    }

    /// Takes facts into account, before they are committed: a reader that finds them finds their words too.
    pub(super) fn note(&self, facts: &[Fact]) {
        let mut known = self.lock();
        for fact in facts {
            if let Fact::Submitted { seq, at, spec, .. } = fact {
                known.blocks.of(seq.0 as i64).add_spec(*at, spec);
                continue;
            }
            if let Fact::Replayed { seq, .. } = fact {
                // It may come back from a day file, and what happens to it in the same group is noted here.
                known.blocks.of(seq.0 as i64);
            }
            let number = fact.seq().map(|seq| (seq.0 as i64).div_euclid(BLOCK));
            let Some(block) = number.and_then(|number| known.blocks.0.get_mut(&number)) else {
                continue;
            };
            match fact {
                Fact::Finished { at, worker, .. } => {
                    block.add_end(TaskState::Done, *at, worker, None);
                }
                Fact::Dead { at, worker, error, .. } => {
                    block.add_end(TaskState::Dead, *at, worker, Some(error.class));
                }
                Fact::Cancelled { at, .. } | Fact::Dropped { at, .. } => {
                    block.add_end(TaskState::Cancelled, *at, "", Some(ErrorClass::Cancelled));
                }
                Fact::Held { worker, .. } => block.add_attempt(worker, None),
                Fact::AttemptFailed { worker, error, .. } => {
                    block.add_attempt(worker, Some(error.class));
                }
                _ => {}
            }
        }
    }

    /// Takes a task into account that comes back from a day file.
    pub(super) fn note_task(&self, record: &crate::TaskRecord) {
        let mut known = self.lock();
        let block = known.blocks.of(record.seq.0 as i64);
        block.add_spec(record.submitted_at, &record.spec);
        for attempt in &record.attempts {
            block.add_attempt(&attempt.worker, Some(attempt.error.class));
        }
        if let Some(end) = &record.outcome {
            block.add_outcome(end);
        }
    }

    /// Forgets the blocks of tasks that left the main file, if nothing is left in them.
    pub(super) fn forget_empty(&self, conn: &Connection, gone: &[i64]) -> Outcome<()> {
        let mut numbers: Vec<i64> = gone.iter().map(|seq| seq.div_euclid(BLOCK)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut statement =
            conn.prepare_cached("SELECT 1 FROM task WHERE seq >= ?1 AND seq < ?2 LIMIT 1")?;
        for number in numbers {
            if !statement.exists(params![number * BLOCK, (number + 1) * BLOCK])? {
                self.lock().blocks.0.remove(&number);
            }
        }
        Ok(())
    }

    /// The stretches below `before` that may hold what is wanted, highest first; nothing if that is not known.
    pub(super) fn stretches(&self, wanted: &Wanted, before: i64) -> Option<Vec<Range<i64>>> {
        let known = self.lock();
        if !known.whole {
            return None;
        }
        let below = known.blocks.0.range(..=before.div_euclid(BLOCK)).rev();
        let fitting = below.filter(|(_, block)| block.may_hold(wanted)).map(|(number, _)| *number);
        Some(joined(fitting))
    }
}

/// Blocks, highest first, as stretches of numbers.
fn joined(numbers: impl Iterator<Item = i64>) -> Vec<Range<i64>> {
    let mut stretches: Vec<Range<i64>> = Vec::new();
    for number in numbers {
        let (low, high) = (number * BLOCK, (number + 1) * BLOCK);
        match stretches.last_mut() {
            Some(last) if last.start == high => last.start = low,
            _ => stretches.push(low..high),
        }
    }
    stretches
}

fn has_tables(day: &Connection) -> Outcome<bool> {
    let sql = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'word'";
    Ok(day.prepare_cached(sql)?.exists([])?)
}

/// The stretches of a day file below `before` that may hold what is wanted, highest first; nothing if the file does not
/// know.
pub(super) fn of_day(
    day: &Connection,
    wanted: &Wanted,
    before: i64,
) -> Outcome<Option<Vec<Range<i64>>>> {
    if !has_tables(day)? {
        return Ok(None);
    }
    let ended = wanted.ended.unwrap_or(Span::ALL);
    let (low, high) = (0, before.div_euclid(BLOCK));
    let mut values: Vec<&dyn ToSql> = vec![
        &low,
        &high,
        &wanted.submitted.first,
        &wanted.submitted.last,
        &ended.first,
        &ended.last,
        &wanted.by,
    ];
    // Along the first word, if there is one that every task must have.
    let (lone, others): (Vec<_>, Vec<_>) = wanted.sets.iter().partition(|set| set.len() == 1);
    let mut lone = lone.into_iter();
    let mut sql = "SELECT b.block FROM ".to_owned();
    match lone.next() {
        Some(set) => {
            values.push(&set[0]);
            sql.push_str("word w CROSS JOIN block b ON b.block = w.block WHERE w.word = ?8 AND w.block BETWEEN ?1 AND ?2");
        }
        None => sql.push_str("block b WHERE b.block BETWEEN ?1 AND ?2"),
    }
    sql.push_str(
        " AND b.submitted_first <= ?4 AND b.submitted_last >= ?3 AND b.ended_first <= ?6 AND b.ended_last >= ?5
         AND min(b.submitted_first, b.ended_first) <= ?7",
    );
    for set in lone.chain(others) {
        let from = values.len() + 1;
        values.extend(set.iter().map(|word| word as &dyn ToSql));
        let places: Vec<String> =
            (from..=values.len()).map(|number| format!("?{number}")).collect();
        let places = places.join(", ");
        sql.push_str(&format!(
            " AND EXISTS(SELECT 1 FROM word x WHERE x.word IN ({places}) AND x.block = b.block)"
        ));
    }
    sql.push_str(" ORDER BY b.block DESC");
    let mut statement = day.prepare_cached(&sql)?;
    let found = statement.query_map(&values[..], |row| row.get(0))?;
    Ok(Some(joined(found.collect::<Result<Vec<i64>, _>>()?.into_iter())))
}

/// Takes the tasks into account that were just copied into a day file, in the transaction of the caller.
pub(super) fn note_copied(day: &Connection) -> Outcome<()> {
    if !has_tables(day)? {
        return Ok(());
    }
    let mut blocks = Gathered::default();
    let mut statement = day.prepare_cached(&format!(
        "SELECT {TASK}, {OUTCOME} FROM main.slice s CROSS JOIN main.task t ON t.seq = s.seq
         JOIN main.outcome o ON o.seq = s.seq"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let task = row::read_task(row, Want::NoPayload)?;
        let block = blocks.of(task.seq.0 as i64);
        block.add_spec(task.at, &task.spec);
        if let Some(end) = row::read_outcome(row, TASK_COLUMNS, Want::NoPayload)? {
            block.add_outcome(&end);
        }
    }
    let mut statement = day.prepare_cached(&format!(
        "SELECT {ATTEMPT} FROM main.attempt WHERE seq IN (SELECT seq FROM main.slice)"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let attempt = row::read_attempt(row)?.record;
        blocks.of(row.get(0)?).add_attempt(&attempt.worker, Some(attempt.error.class));
    }
    let mut add_word = day.prepare_cached("INSERT OR IGNORE INTO main.word VALUES(?1, ?2)")?;
    let mut add_block = day.prepare_cached(
        "INSERT INTO main.block VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(block) DO UPDATE SET
           submitted_first = min(submitted_first, excluded.submitted_first),
           submitted_last = max(submitted_last, excluded.submitted_last),
           ended_first = min(ended_first, excluded.ended_first),
           ended_last = max(ended_last, excluded.ended_last)",
    )?;
    for (number, block) in &blocks.0 {
        for word in &block.words {
            add_word.execute(params![word, number])?;
        }
        let Block { submitted, ended, .. } = block;
        add_block.execute(params![
            number,
            submitted.first,
            submitted.last,
            ended.first,
            ended.last
        ])?;
    }
    Ok(())
}
