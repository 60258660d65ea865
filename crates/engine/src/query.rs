//! Reads: what is stored, with the present state of open tasks laid over it.
//!
//! Stored tasks are read on connections of their own, off the loop. The loop is asked only for what changes.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_store::{AttemptRecord, Reader, TaskRecord};
use divvy_types::view::{Attempt, Progress, TaskDetail, TaskSummary};
use divvy_types::{IdEnd, Name, Seq, TaskId, TaskSpec, TaskState, Timestamp, Token, WaitReason};
use tokio::sync::Semaphore;

use crate::core::Core;
use crate::handle::Handle;
use crate::request::Error;

/// The fewest digits of the start of an id.
pub(crate) const PREFIX_LEN_MIN: usize = 4;
/// Ids that are named when a shortened one fits several.
pub(crate) const CANDIDATES_MAX: usize = 5;

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
    /// The id that a text stands for: an id, or the start or the end of exactly one.
    pub async fn resolve(&self, text: &str) -> Result<TaskId, Error> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let digits = text.chars().filter(|c| *c != '-').count();
        let Some((low, high)) = TaskId::prefix_range(text).filter(|_| digits >= PREFIX_LEN_MIN)
        else {
            return Err(Error::NotFound(text.chars().take(64).collect()));
        };
        let end = IdEnd::parse(text);
        let read = move |reader: &mut dyn Reader| {
            let mut found = reader.ids_between(low, high, CANDIDATES_MAX)?;
            if let Some(end) = end {
                found.extend(reader.ids_ending(end, CANDIDATES_MAX)?);
            }
            Ok(found)
        };
        only(text, self.read(read).await?)?.ok_or_else(|| Error::NotFound(text.to_owned()))
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
        let mut task = detail(record, present, spawned_by);
        let tokens = task.history.iter().map(|attempt| attempt.token).collect();
        let began = self.began(tokens).await?;
        task.history.iter_mut().zip(began).for_each(|(attempt, began)| attempt.started = began);
        Ok(task)
    }

    /// How many kept tasks are in each final state.
    pub async fn final_counts(&self) -> Result<Vec<(TaskState, u64)>, Error> {
        self.read(|reader| reader.final_counts()).await
    }

    /// The present state of tasks; nothing for those that are final.
    pub(crate) async fn present(
        &self,
        keys: Vec<(TaskId, Seq, Option<Box<TaskSpec>>)>,
    ) -> Result<Vec<Option<Present>>, Error> {
        self.look(move |core| keys.into_iter().map(|key| Present::of(core, key)).collect()).await
    }

    /// When attempts began that are over, as far as that is remembered.
    pub(crate) async fn began(&self, tokens: Vec<Token>) -> Result<Vec<Option<Timestamp>>, Error> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        self.look(move |core| tokens.into_iter().map(|token| core.live.began(token)).collect())
            .await
    }

    /// Runs `read` on a connection of its own, off the loop.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut dyn Reader) -> Result<T, divvy_store::Error> + Send + 'static,
    {
        let answer = self.read_any(Box::new(move |reader| Box::new(read(reader)))).await?;
        let answer = answer.downcast::<Result<T, divvy_store::Error>>();
        Ok((*answer.expect("the answer to a read has the type that the read gives"))?)
    }

    // Knows one type of read, because the runtime's side of a thread is compiled anew for every type.
    async fn read_any(&self, read: Read) -> Result<Box<dyn Any + Send>, Error> {
        let readers = Arc::clone(&self.readers);
        let place = Arc::clone(&readers.places).acquire_owned().await;
        let place = place.map_err(|_| Error::Stopping)?;
        let task = tokio::task::spawn_blocking(move || {
            let taken = readers.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut reader) = taken else { return Err(Error::Stopping) };
            let answer = read(reader.as_mut());
            readers.free.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            // Only now: a caller that leaves early must not give away the place of a connection that is still out.
            drop(place);
            Ok(answer)
        });
        task.await.unwrap_or_else(|_| Err(Error::Store("a read of the store panicked".into())))
    }
}

/// A read whose answer has any type.
type Read = Box<dyn FnOnce(&mut dyn Reader) -> Box<dyn Any + Send> + Send>;

/// The one id that a shortened one fits, if there is one.
pub(crate) fn only<T: Ord + Copy + ToString>(
    text: &str,
    mut found: Vec<T>,
) -> Result<Option<T>, Error> {
    found.sort_unstable();
    found.dedup();
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let candidates = found.iter().take(CANDIDATES_MAX).map(T::to_string).collect();
    Err(Error::Ambiguous { text: text.to_owned(), candidates })
}

/// What the loop knows of an open task.
pub(crate) struct Present {
    pub(crate) state: TaskState,
    pub(crate) wait: Option<WaitReason>,
    pub(crate) worker: Option<Name>,
    pub(crate) attempts: u32,
    /// When the attempt that runs presumably began.
    pub(crate) began: Option<Timestamp>,
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
                began: None,
                progress: None,
            });
        }
        if let Some(status) = core.scheduler().status(seq).filter(|status| !status.settling) {
            return Some(Self {
                state: status.state,
                wait: status.wait,
                worker: status.worker,
                attempts: status.attempts,
                began: core.scheduler().began(seq),
                progress: core.live.of(seq).map(|news| news.progress.clone()),
            });
        }
        let wait = Some(core.scheduler().wait_reason_for_spilled(&spec));
        let state = TaskState::Ready;
        Some(Self { state, wait, worker: None, attempts: 0, began: None, progress: None })
    }
}

pub(crate) fn record_key(record: &TaskRecord) -> (TaskId, Seq, Option<Box<TaskSpec>>) {
    let open = record.outcome.is_none();
    (record.spec.id, record.seq, open.then(|| Box::new(record.spec.clone())))
}

/// A task as people see it: what is stored, with what the loop knows laid over it.
pub(crate) fn detail(
    record: TaskRecord,
    present: Option<Present>,
    spawned_by: Option<TaskId>,
) -> TaskDetail {
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
                started: None,
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
    let started = present.as_ref().and_then(|present| present.began);
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
    let (payload, terms) = (spec.payload, spec.terms);
    TaskDetail { summary, payload, result, terms, spawned_by, history, started }
}

fn shown(attempt: AttemptRecord) -> Attempt {
    let AttemptRecord { token, at, worker, error, log, counted } = attempt;
    Attempt { token, started: None, at, worker, error: Some(error), counted, log }
}
