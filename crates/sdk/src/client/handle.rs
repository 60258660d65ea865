//! A submitted task, seen by the one who submitted it.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use divvy_types::view::{Late, TaskDetail};
use divvy_types::{Conflict, TaskId, TaskState};
use serde::de::DeserializeOwned;

use super::Client;
use super::error::WaitError;
use super::{Error, Follow};

/// A task at a server, and the type of its result.
pub struct TaskHandle<O> {
    client: Client,
    id: TaskId,
    firsts: Firsts,
    late: Option<Late>,
    output: PhantomData<fn() -> O>,
}

/// Of the tasks of a submission, those that were not taken, and who has their unique key. Known when it was answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Firsts(Arc<OnceLock<HashMap<TaskId, TaskId>>>);

impl Firsts {
    /// Learns what became of the submission.
    pub(crate) fn learn(&self, conflicts: impl IntoIterator<Item = Conflict>) {
        let firsts = conflicts.into_iter().map(|conflict| (conflict.task, conflict.first));
        // A submission is answered once.
        let _ = self.0.set(firsts.collect());
    }

    fn of(&self, id: TaskId) -> Option<TaskId> {
        self.0.get()?.get(&id).copied()
    }
}

impl<O> TaskHandle<O> {
    pub(crate) fn new(client: Client, id: TaskId) -> Self {
        Self { client, id, firsts: Firsts::default(), late: None, output: PhantomData }
    }

    pub(crate) fn with_firsts(self, firsts: Firsts) -> Self {
        Self { firsts, ..self }
    }

    pub(crate) fn with_late(self, late: Option<Late>) -> Self {
        Self { late, ..self }
    }

    /// Its id.
    pub fn id(&self) -> TaskId {
        self.firsts.of(self.id).unwrap_or(self.id)
    }

    /// Whether this is a task that was there before: the one that was submitted has the same unique key and was not
    /// taken ([`OnConflict::Skip`](divvy_types::OnConflict::Skip)). A handle of a batch knows when the batch was sent.
    pub fn is_existing(&self) -> bool {
        self.firsts.of(self.id).is_some()
    }

    /// Whether it was expected to miss its deadline when it was submitted, and by how much. Nothing for a handle of a
    /// batch, whose answer names the late ones, and for a task that was submitted elsewhere.
    pub fn late(&self) -> Option<Late> {
        self.late
    }

    /// Everything that the server knows of it: state, why it waits, progress, attempts, result.
    pub async fn detail(&self) -> Result<TaskDetail, Error> {
        self.client.api().get(&["tasks", &self.id().to_string()], &[]).await?.parse()
    }

    /// Keeps it from running or asks it to stop; it is `leased` for as long as its handler goes on.
    pub async fn cancel(&self) -> Result<TaskState, Error> {
        self.client.cancel(self.id(), None).await
    }

    /// Puts it back if it is dead or cancelled, or runs it now if it waits for a time; see [`Client::retry`].
    pub async fn retry(&self) -> Result<TaskState, Error> {
        self.client.retry(self.id()).await
    }
}

impl<O: DeserializeOwned> TaskHandle<O> {
    /// Waits until the task is final and returns its result. Listens to the server's events and does not poll.
    pub async fn wait(&self) -> Result<O, WaitError> {
        loop {
            let mut follow = Follow::tasks(self.client.api(), [self.id()]);
            while follow.next().await?.is_some() {}
            let detail = self.detail().await?;
            // It may have been put back meanwhile.
            if detail.summary.state.is_final() {
                return output(&detail);
            }
        }
    }
}

/// The result of a final task, or how it ended instead.
fn output<O: DeserializeOwned>(detail: &TaskDetail) -> Result<O, WaitError> {
    let task = detail.summary.id;
    let error = detail.summary.error.clone();
    match detail.summary.state {
        TaskState::Done => {
            let result = detail.result.clone().unwrap_or_default();
            result.parse().map_err(|error| WaitError::Output { task, problem: error.to_string() })
        }
        TaskState::Dead => {
            let unknown = || {
                divvy_types::TaskError::new(
                    divvy_types::ErrorClass::Failed,
                    "no error was recorded",
                )
            };
            Err(WaitError::Dead { task, error: error.unwrap_or_else(unknown) })
        }
        _ => {
            let reason = error.map_or_else(
                || "no reason was given".to_owned(),
                |error| error.message.to_string(),
            );
            Err(WaitError::Cancelled { task, reason })
        }
    }
}

impl<O> Clone for TaskHandle<O> {
    fn clone(&self) -> Self {
        let handle = Self::new(self.client.clone(), self.id).with_late(self.late);
        handle.with_firsts(self.firsts.clone())
    }
}

impl<O> fmt::Debug for TaskHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskHandle").field(&self.id()).finish()
    }
}
