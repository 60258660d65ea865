//! The open tasks in memory: compact rows, and an index from task numbers to rows (`pages`).

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use divvy_types::{Name, Seq, TaskSpec, TaskState, Timestamp, Token};

use crate::pages::{PAGE, Pages, VACANT};

/// Where a task's row is.
pub(crate) type Row = u32;

/// Stands for no worker.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What a task takes besides its payload and its edges.
const TASK_BYTES: usize = 400;
/// What an edge takes: in the spec, in the task and in the one that it waits for.
const EDGE_BYTES: usize = 64;

/// One open task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) seq: Seq,
    pub(crate) spec: Arc<TaskSpec>,
    /// When it became ready; while it is scheduled, when it is due.
    pub(crate) ready_at: Timestamp,
    /// When it came into its state.
    pub(crate) since: Timestamp,
    /// When its present attempt presumably began; see `places`.
    pub(crate) begun: Timestamp,
    /// Of its present or last attempt under this server start, or of one before it that is recorded; otherwise zero.
    pub(crate) token: Token,
    /// What few tasks have, apart.
    pub(crate) links: Option<Box<Links>>,
    pub(crate) class: u32,
    /// Where it is ready, while it is.
    pub(crate) stream: u32,
    /// Who holds it, while it is leased.
    pub(crate) worker: u32,
    /// Attempts that failed and count.
    pub(crate) attempts: u32,
    /// What its fair key was charged for the run time of this attempt.
    pub(crate) charged_ms: u32,
    pub(crate) state: TaskState,
    /// Whether an attempt has failed or was put off.
    pub(crate) retried: bool,
    /// Whether its last attempt ended without a fact: the worker gave it back, or never got it; or is only known to have
    /// been granted before this server start.
    pub(crate) given_back: bool,
    /// Whether its present attempt is recorded as held.
    pub(crate) held: bool,
    /// Whether its worker was told to stop it because of a cancel.
    pub(crate) stopping: bool,
    /// Whether it is from before this server start.
    pub(crate) recovered: bool,
    /// Whether an attempt saved data for a later one.
    pub(crate) checkpointed: bool,
}

/// Ties to other tasks, and rare things.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// In the order of `spec.after`.
    pub(crate) parents: Vec<Edge>,
    /// A task that was cancelled may be put back while a dependency still lists it: an edge counts only for the life
    /// that made it. 0 is the first.
    pub(crate) life: u32,
    /// Edges that have not settled.
    pub(crate) missing: u32,
    /// Tasks that wait for this one.
    pub(crate) dependents: Vec<Edge>,
    pub(crate) spawned_by: Option<Seq>,
    /// Why it is to be cancelled, once its worker answers.
    pub(crate) cancel: Option<Name>,
    /// Until when its worker may take to answer.
    pub(crate) stop_by: Timestamp,
    /// Who ran it before the restart.
    pub(crate) holder: Option<Name>,
    /// Whether it waits for the end of its workflow.
    pub(crate) callback: bool,
    /// Whether it waits for groups of its workflow.
    pub(crate) groups: Awaits,
    /// Whether the retries of its kind were spent when its last attempt failed.
    pub(crate) over_budget: bool,
    /// Until when it is kept from the worker that it failed on, while it is ready; zero if it is not.
    pub(crate) kept_until: Timestamp,
    /// Workers that went away while they held it, each name once.
    pub(crate) lost_workers: Vec<Name>,
}

/// Whether a task waits for groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// For none.
    #[default]
    Nothing,
    /// It is blocked until all of them have settled.
    Now,
    /// It was let go.
    Before,
}

/// A dependency, seen from either end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) seq: Seq,
    pub(crate) optional: bool,
    /// Which life of the dependent made it; see [`Links::life`].
    pub(crate) life: u32,
}

impl Task {
    pub(crate) fn links(&mut self) -> &mut Links {
        self.links.get_or_insert_default()
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.spec.payload.data().len()
    }

    /// The index of its priority band, lowest first.
    pub(crate) fn band(&self) -> usize {
        band_of(self.spec.priority)
    }
}

/// What a task takes in memory; an estimate.
pub(crate) fn bytes_of(spec: &TaskSpec) -> usize {
    let edges = spec.after.len() + spec.after_groups.len();
    TASK_BYTES + spec.payload.data().len() + edges * EDGE_BYTES
}

/// The index of the band of a priority, lowest first.
pub(crate) fn band_of(priority: u8) -> usize {
    usize::from(priority.clamp(1, 5)) - 1
}

/// All open tasks in memory.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    rows: Vec<Option<Task>>,
    free: Vec<Row>,
    pages: Pages,
    /// What they take in memory, as far as it depends on what was submitted.
    bytes: usize,
}

impl Tasks {
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// What all of them take in memory; an estimate.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn insert(&mut self, task: Task) -> Row {
        let seq = task.seq;
        self.bytes += bytes_of(&task.spec);
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = Some(task);
                row
            }
            None => {
                let row =
                    Row::try_from(self.rows.len()).expect("fewer open tasks in memory than 2^32");
                self.rows.push(Some(task));
                row
            }
        };
        self.pages.insert(seq, row);
        row
    }

    pub(crate) fn row_of(&self, seq: Seq) -> Option<Row> {
        let row = self.pages.get(seq.0 / PAGE)?.rows[(seq.0 % PAGE) as usize];
        (row != VACANT).then_some(row)
    }

    pub(crate) fn find(&self, seq: Seq) -> Option<&Task> {
        self.row_of(seq).map(|row| &self[row])
    }

    /// The task in a row that was noted earlier, if there is one now.
    pub(crate) fn at(&self, row: Row) -> Option<&Task> {
        self.rows.get(row as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn remove(&mut self, row: Row) -> Task {
        let task = self.rows[row as usize].take().expect("a row in use");
        self.free.push(row);
        self.pages.remove(task.seq);
        self.bytes -= bytes_of(&task.spec);
        task
    }

    /// All of them, in no particular order.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.rows.iter_mut().flatten()
    }

    /// Tasks with smaller numbers than `before`, greatest first.
    pub(crate) fn newest_first(&self, before: Option<Seq>) -> impl Iterator<Item = &Task> {
        let end = before.map_or(u64::MAX, |seq| seq.0);
        let pages = self.pages.down_from(end / PAGE);
        pages
            .flat_map(|page| page.rows.iter().rev())
            .filter_map(|row| if *row == VACANT { None } else { self.at(*row) })
            .filter(move |task| task.seq.0 < end)
    }
}

impl Index<Row> for Tasks {
    type Output = Task;
    fn index(&self, row: Row) -> &Task {
        self.rows[row as usize].as_ref().expect("a row in use")
    }
}

impl IndexMut<Row> for Tasks {
    fn index_mut(&mut self, row: Row) -> &mut Task {
        self.rows[row as usize].as_mut().expect("a row in use")
    }
}
