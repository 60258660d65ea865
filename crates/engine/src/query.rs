//! Reads: what is stored, with the present state of open tasks laid over it.
//!
//! Stored tasks are read on connections of their own, off the loop. The loop is asked only for what changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_store::{AttemptRecord, PageQuery, Reader, TaskRecord};
use divvy_types::alike::normalise;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{Attempt, DeadGroup, Page, Progress, TaskDetail, TaskSummary};
use divvy_types::{Name, Seq, TaskId, TaskSpec, TaskState, WaitReason, WorkflowId};
use tokio::sync::Semaphore;

use crate::core::Core;
use crate::handle::Handle;
use crate::request::Error;

/// Stored pages that are read to fill one page of a list whose filter fits few tasks.
const PAGES_AT_ONCE: usize = 20;
/// Open tasks that are looked at in memory for one page of a list.
const OPEN_SCAN_MAX: usize = 100_000;
/// Dead letters that are read to form groups.
const DEAD_SCAN_MAX: usize = 20_000;
/// The fewest digits of a shortened id.
pub(crate) const PREFIX_LEN_MIN: usize = 4;

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only these states; none means all.
    pub states: Vec<TaskState>,
    /// Only this kind; a trailing `*` matches any rest.
    pub kind: Option<Name>,
    /// Only this queue.
    pub queue: Option<Name>,
    /// Only this workflow.
    pub workflow: Option<WorkflowId>,
    /// Only tasks with this tag.
    pub tag: Option<Name>,
    /// Rows of the page.
    pub limit: usize,
    /// Where the page starts: `next` of the page before.
    pub after: Option<String>,
}

/// Connections for reads.
pub(crate) struct Readers {
    free: Mutex<Vec<Box<dyn Reader>>>,
    places: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(readers: Vec<Box<dyn Reader>>) -> Self {
        let places = Arc::new(Semaphore::new(readers.len()));
        Self { free: Mutex::new(readers), places }
    }
}

impl Handle {
    /// The id that a text stands for: an id, or the beginning of exactly one.
    pub async fn resolve(&self, text: &str) -> Result<TaskId, Error> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let digits = text.chars().filter(|c| *c != '-').count();
        let Some((low, high)) = TaskId::prefix_range(text).filter(|_| digits >= PREFIX_LEN_MIN)
        else {
            return Err(Error::NotFound(text.chars().take(64).collect()));
        };
        let found = self.read(move |reader| reader.ids_between(low, high, 10)).await?;
        match found.as_slice() {
            [] => Err(Error::NotFound(text.to_owned())),
            [id] => Ok(*id),
            several => Err(Error::Ambiguous { prefix: text.to_owned(), count: several.len() }),
        }
    }

    /// A task whole.
    pub async fn task(&self, id: TaskId) -> Result<TaskDetail, Error> {
        let record = self.read(move |reader| reader.find(id)).await?;
        let record = record.ok_or_else(|| Error::NotFound(id.to_string()))?;
        let spawned_by = match record.spawned_by {
            Some(seq) => {
                self.read(move |reader| reader.get(seq)).await?.map(|parent| parent.spec.id)
            }
            None => None,
        };
        let present = self.present(vec![record_key(&record)]).await?.pop().flatten();
        Ok(detail(record, present, spawned_by))
    }

    /// One page of tasks, newest first.
    pub async fn tasks(&self, filter: TaskFilter) -> Result<Page<TaskSummary>, Error> {
        let cursor = match &filter.after {
            None => None,
            Some(text) => Some(Seq(text.parse().map_err(|_| Error::BadCursor(text.clone()))?)),
        };
        let limit = filter.limit.clamp(1, PAGE_ROWS_MAX);
        let only_open =
            !filter.states.is_empty() && filter.states.iter().all(|state| !state.is_final());
        let spilled = self.look(|core| core.scheduler().counts().spilled).await?;
        if only_open && spilled == 0 {
            return self.open_tasks(filter, cursor, limit).await;
        }
        let mut query = PageQuery {
            before: cursor,
            states: None,
            kind: filter.kind.clone(),
            queue: filter.queue.clone(),
            workflow: filter.workflow,
            tag: filter.tag.clone(),
            rows: limit,
        };
        if only_open {
            query.states = Some(Vec::new());
        } else if !filter.states.is_empty() && filter.states.iter().all(|state| state.is_final()) {
            query.states = Some(filter.states.clone());
        }
        let mut items = Vec::new();
        for _ in 0..PAGES_AT_ONCE {
            let asked = query.clone();
            let records = self.read(move |reader| reader.page(&asked)).await?;
            let Some(last) = records.last() else { return Ok(Page { items, next: None }) };
            query.before = Some(last.seq);
            let present = self.present(records.iter().map(record_key).collect()).await?;
            for (record, present) in records.into_iter().zip(present) {
                let seq = record.seq;
                let summary = detail(record, present, None).summary;
                if filter.states.is_empty() || filter.states.contains(&summary.state) {
                    items.push(summary);
                }
                if items.len() == limit {
                    return Ok(Page { items, next: Some(seq.0.to_string()) });
                }
            }
        }
        Ok(Page { items, next: query.before.map(|seq| seq.0.to_string()) })
    }

    /// Dead letters, grouped by kind, class and normalised error, largest group first.
    pub async fn dead_groups(&self) -> Result<Vec<DeadGroup>, Error> {
        let mut groups: BTreeMap<(Name, &'static str, String), DeadGroup> = BTreeMap::new();
        let mut query = PageQuery {
            states: Some(vec![TaskState::Dead]),
            rows: PAGE_ROWS_MAX,
            ..PageQuery::default()
        };
        let mut scanned = 0;
        while scanned < DEAD_SCAN_MAX {
            let asked = query.clone();
            let records = self.read(move |reader| reader.page(&asked)).await?;
            let Some(last) = records.last() else { break };
            query.before = Some(last.seq);
            scanned += records.len();
            for record in records {
                let Some(error) = record.outcome.and_then(|outcome| outcome.error) else {
                    continue;
                };
                let text = normalise(&error.message);
                let key = (record.spec.kind.clone(), error.class.as_str(), text.clone());
                let group = groups.entry(key).or_insert_with(|| DeadGroup {
                    kind: record.spec.kind.clone(),
                    class: error.class,
                    error: text,
                    count: 0,
                    sample: record.spec.id,
                });
                group.count += 1;
            }
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        Ok(groups)
    }

    /// How many kept tasks are in each final state.
    pub async fn final_counts(&self) -> Result<Vec<(TaskState, u64)>, Error> {
        self.read(|reader| reader.final_counts()).await
    }

    async fn open_tasks(
        &self,
        filter: TaskFilter,
        cursor: Option<Seq>,
        limit: usize,
    ) -> Result<Page<TaskSummary>, Error> {
        let (keys, next) = self
            .look(move |core| {
                let mut keys = Vec::new();
                let mut last = None;
                for (seq, state, spec) in core.scheduler().open_before(cursor).take(OPEN_SCAN_MAX) {
                    if keys.len() == limit {
                        return (keys, last);
                    }
                    last = Some(seq);
                    if filter.states.contains(&state) && fits(&filter, spec) {
                        keys.push((spec.id, seq));
                    }
                }
                let more = last
                    .is_some_and(|seq| core.scheduler().open_before(Some(seq)).next().is_some());
                (keys, if more { last } else { None })
            })
            .await?;
        let ids: Vec<TaskId> = keys.iter().map(|(id, _)| *id).collect();
        let records = self
            .read(move |reader| {
                ids.into_iter().filter_map(|id| reader.find(id).transpose()).collect()
            })
            .await?;
        let records: Vec<TaskRecord> = records;
        let present = self.present(records.iter().map(record_key).collect()).await?;
        let items = records
            .into_iter()
            .zip(present)
            .map(|(record, now)| detail(record, now, None).summary)
            .collect();
        Ok(Page { items, next: next.map(|seq| seq.0.to_string()) })
    }

    /// The present state of tasks; nothing for those that are final.
    async fn present(
        &self,
        keys: Vec<(TaskId, Seq, Option<Box<TaskSpec>>)>,
    ) -> Result<Vec<Option<Present>>, Error> {
        self.look(move |core| keys.into_iter().map(|key| Present::of(core, key)).collect()).await
    }

    /// Runs `read` on a connection of its own, off the loop.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Reader) -> Result<T, divvy_store::Error> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        let place = Arc::clone(&readers.places).acquire_owned().await;
        let place = place.map_err(|_| Error::Stopping)?;
        let task = tokio::task::spawn_blocking(move || {
            let taken = readers.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut reader) = taken else { return Err(Error::Stopping) };
            let result = read(reader.as_mut());
            readers.free.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            // Only now: a caller that leaves early must not give away the place of a connection that is still out.
            drop(place);
            Ok(result?)
        });
        task.await.unwrap_or_else(|_| Err(Error::Store("a read of the store panicked".into())))
    }
}

/// What the loop knows of an open task.
struct Present {
    state: TaskState,
    wait: Option<WaitReason>,
    worker: Option<Name>,
    attempts: u32,
    progress: Option<Progress>,
}

impl Present {
    /// `spec` is given for a task without an outcome, which may wait in the store only.
    fn of(core: &Core, (id, seq, spec): (TaskId, Seq, Option<Box<TaskSpec>>)) -> Option<Self> {
        let spec = spec?;
        if core.is_departing(id) {
            // Its end is being written: until that can be read, it is what it was.
            return Some(Self {
                state: TaskState::Leased,
                wait: None,
                worker: None,
                attempts: 1,
                progress: None,
            });
        }
        if let Some(status) = core.scheduler().status(seq).filter(|status| !status.settling) {
            return Some(Self {
                state: status.state,
                wait: status.wait,
                worker: status.worker,
                attempts: status.attempts,
                progress: core.live.of(seq).map(|news| news.progress.clone()),
            });
        }
        let wait = Some(core.scheduler().wait_reason_for_spilled(&spec));
        Some(Self { state: TaskState::Ready, wait, worker: None, attempts: 0, progress: None })
    }
}

fn record_key(record: &TaskRecord) -> (TaskId, Seq, Option<Box<TaskSpec>>) {
    let open = record.outcome.is_none();
    (record.spec.id, record.seq, open.then(|| Box::new(record.spec.clone())))
}

fn fits(filter: &TaskFilter, spec: &TaskSpec) -> bool {
    let kind = filter.kind.as_ref().is_none_or(|wanted| match wanted.strip_suffix('*') {
        Some(prefix) => spec.kind.starts_with(prefix),
        None => spec.kind == *wanted,
    });
    kind && filter.queue.as_ref().is_none_or(|queue| spec.queue == *queue)
        && filter.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
        && filter
            .workflow
            .is_none_or(|id| spec.workflow.as_ref().is_some_and(|workflow| workflow.id == id))
}

fn detail(record: TaskRecord, present: Option<Present>, spawned_by: Option<TaskId>) -> TaskDetail {
    let TaskRecord { submitted_at, mut spec, attempts, counted, outcome, .. } = record;
    // The summary has it, and a task that only has a workflow needs no box for its terms.
    let workflow = spec.workflow.is_some().then(|| spec.workflow.take()).flatten();
    let last_error = attempts.last().map(|attempt| attempt.error.clone());
    let last_worker = attempts.last().map(|attempt| attempt.worker.clone());
    let mut history: Vec<Attempt> = attempts.into_iter().map(shown).collect();
    let (mut result, mut ended_at, mut error) = (None, None, last_error);
    let mut state = present.as_ref().map_or(TaskState::Ready, |present| present.state);
    let mut worker = present.as_ref().and_then(|present| present.worker.clone()).or(last_worker);
    if let Some(outcome) = outcome {
        state = outcome.state;
        ended_at = Some(outcome.at);
        error = outcome.error.clone();
        if !outcome.worker.is_empty() {
            worker = Some(outcome.worker.clone());
            history.push(Attempt {
                token: outcome.token,
                at: outcome.at,
                worker: outcome.worker,
                error: outcome.error,
                counted: true,
                log: outcome.log,
            });
        }
        result = (outcome.state == TaskState::Done).then_some(outcome.result);
    }
    let wait =
        present.as_ref().and_then(|present| present.wait.clone()).filter(|_| !state.is_final());
    let summary = TaskSummary {
        id: spec.id,
        kind: spec.kind,
        queue: spec.queue,
        priority: spec.priority,
        state,
        wait_text: wait.as_ref().map(ToString::to_string),
        wait,
        attempts: present.as_ref().map_or(counted, |present| present.attempts),
        worker,
        progress: present.and_then(|present| present.progress),
        error,
        submitted_at,
        ended_at,
        workflow: workflow.map(|workflow| *workflow),
    };
    TaskDetail { summary, payload: spec.payload, result, terms: spec.terms, spawned_by, history }
}

fn shown(attempt: AttemptRecord) -> Attempt {
    let AttemptRecord { token, at, worker, error, log, counted } = attempt;
    Attempt { token, at, worker, error: Some(error), counted, log }
}
