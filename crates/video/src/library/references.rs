//! What is used: names of blobs and results in records, documents and tasks.
//!
//! Names are found wherever they stand, whatever the data around them looks like, so that a new sort of result, and the
//! records of others, need no change here. In doubt something counts as used. Decides nothing about what is removed.

use std::collections::{BTreeSet, HashSet};

use divvy::objects::{BlobId, ObjectError};
use divvy::types::{Payload, TaskId, TaskState};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::index::{Entry, READS_AT_ONCE};
use super::{Library, LibraryError, bad};

/// Tasks that are read for the names in them. With more of them nothing is swept.
const TASKS_MAX: usize = 20_000;
/// A blob that is larger is no document.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// The names of results have this before them.
pub(super) const RESULTS: &str = "video/results";

/// Names of blobs and of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// Names of blobs: 64 hexadecimal digits.
    pub(super) blobs: HashSet<BlobId>,
    /// Keys of results: 32 hexadecimal digits.
    pub(super) keys: BTreeSet<String>,
}

impl Names {
    /// Takes the names in a document.
    pub(super) fn read(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.read_text(text),
            Value::Array(items) => items.iter().for_each(|item| self.read(item)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                self.read_text(name);
                self.read(field);
            }),
            _ => (),
        }
    }

    /// A name may be a part of a longer text, such as an address.
    fn read_text(&mut self, text: &str) {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        for run in text.split(|c| !is_digit(c)) {
            match run.len() {
                32 => self.keys.extend([run.to_owned()]),
                64 => self.blobs.extend(run.parse::<BlobId>().ok()),
                _ => (),
            }
        }
    }

    fn read_payload(&mut self, payload: &Payload) {
        match serde_json::from_slice(payload.data()) {
            Ok(value) => self.read(&value),
            Err(_) => self.read_text(&String::from_utf8_lossy(payload.data())),
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.blobs.extend(other.blobs);
        self.keys.extend(other.keys);
    }
}

impl Library {
    /// The names in all records but these, with the documents that they name; the videos are those given.
    pub(super) async fn named_by_records(
        &self,
        videos: &[Entry],
        but: &HashSet<String>,
    ) -> Result<Names, LibraryError> {
        let (mut used, mut plain) = (Names::default(), Names::default());
        used.blobs.extend(videos.iter().flat_map(Entry::blobs));
        let known: HashSet<&str> = videos.iter().map(|video| video.id.0.as_str()).collect();
        let is_known = |name: &str| {
            but.contains(name)
                || name.strip_prefix("video/library/").is_some_and(|id| known.contains(id))
        };
        let names = self.objects.record_names("").await?;
        let names = names.into_iter().filter(|name| !is_known(name.as_str()));
        let reads = names.map(|name| async move {
            let record = self.objects.record::<Value>(name.as_str()).await;
            record.map(|record| (name.as_str().starts_with(RESULTS), record))
        });
        let mut found = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        while let Some((is_result, record)) = found.try_next().await? {
            // What a result names is media, of which there is a lot, and never a document.
            let into = if is_result { &mut plain } else { &mut used };
            record.iter().for_each(|record| into.read(&record.value));
        }
        self.follow(&mut used).await?;
        used.extend(plain);
        Ok(used)
    }

    /// The names in every task that waits, runs or may be revived, and in all others of its workflow, with the
    /// documents that they name: what a task returned may be named nowhere else until the next one has read it.
    pub(super) async fn named_by_tasks(&self) -> Result<Names, LibraryError> {
        let states: Vec<TaskState> = TaskState::ALL
            .into_iter()
            .filter(|state| !state.is_final() || *state == TaskState::Dead)
            .collect();
        let too_many = || {
            let problem = format!(
                "cannot begin: more than {TASKS_MAX} tasks wait, run or are dead, and may name what would go; \
                 wait for them, or drop dead ones with `divvy dead drop`"
            );
            bad("sweep", problem)
        };
        let tasks = self.client.tasks_in(&states, TASKS_MAX).await?.ok_or_else(too_many)?;
        let entries = self.entries().await?;
        let known: HashSet<&str> = entries.iter().map(|one| one.workflow.as_str()).collect();
        // A dead task of a video that was removed is no reason to keep anything.
        let is_of_nobody = |kind: &str, workflow: Option<String>| {
            kind.starts_with("video.")
                && !workflow.is_some_and(|workflow| known.contains(workflow.as_str()))
        };
        let (mut ids, mut workflows) = (HashSet::<TaskId>::new(), HashSet::new());
        for task in tasks {
            let workflow = task.workflow.as_ref().map(|workflow| workflow.id);
            let is_dead = task.state == TaskState::Dead;
            if is_dead && is_of_nobody(&task.kind, workflow.map(|id| id.to_string())) {
                continue;
            }
            ids.insert(task.id);
            workflows.extend(workflow);
        }
        for workflow in workflows {
            let tasks = self.client.workflow_tasks(workflow).await?;
            ids.extend(tasks.into_iter().map(|task| task.id));
            if ids.len() > TASKS_MAX {
                return Err(too_many());
            }
        }
        let mut used = Names::default();
        for id in ids {
            let detail = match self.client.task(id).detail().await {
                // It ended and was forgotten since it was listed.
                Err(error) if error.code() == "no_such_task" => continue,
                detail => detail?,
            };
            used.read_payload(&detail.payload);
            detail.result.iter().for_each(|result| used.read_payload(result));
        }
        self.follow(&mut used).await?;
        Ok(used)
    }

    /// The names in the plan and the manifest of a video.
    pub(super) async fn documents(&self, video: &Entry) -> Result<Names, LibraryError> {
        let mut found = Names::default();
        for id in [video.plan, video.manifest].into_iter().flatten() {
            if let Some(value) = self.document(id).await? {
                found.read(&value);
            }
        }
        Ok(found)
    }

    /// Adds the names in the documents among these blobs.
    async fn follow(&self, names: &mut Names) -> Result<(), LibraryError> {
        let ids: Vec<BlobId> = names.blobs.iter().copied().collect();
        let reads = ids.into_iter().map(|id| self.document(id));
        let mut found = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        while let Some(value) = found.try_next().await? {
            value.iter().for_each(|value| names.read(value));
        }
        Ok(())
    }

    /// A blob as a document, if it is one. Trouble with reading it is an error: it may name what is used.
    async fn document(&self, id: BlobId) -> Result<Option<Value>, LibraryError> {
        let mut first = match self.objects.open(id, 0..1).await {
            Err(error) if error.is_no_blob() => return Ok(None),
            // An empty blob has no first byte.
            Err(ObjectError::Range { .. }) => return Ok(None),
            first => first?,
        };
        if first.size() > DOCUMENT_BYTES_MAX {
            return Ok(None);
        }
        if first.try_next().await?.as_deref() != Some(b"{") {
            return Ok(None);
        }
        match self.objects.get(id).await {
            Err(error) if error.is_no_blob() => Ok(None),
            bytes => Ok(serde_json::from_slice(&bytes?).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let ids = ["1", "2", "3", "4"].map(|text| BlobId::of(text.as_bytes()));
        let [plain, nested, within, key] = ids.map(|id| id.to_string());
        let value = json!({
            "plain": plain, "list": [{ "deep": nested }], "at": format!("/blobs/{within}?part=1"),
            key.as_str(): 1, "result": &key[..32], "not": format!("{plain}0"), "short": &plain[..31],
        });
        let mut names = Names::default();
        names.read(&value);
        assert_eq!(names.blobs, ids.into_iter().collect());
        assert_eq!(names.keys, [key[..32].to_owned()].into());
        let mut told = Names::default();
        told.read_payload(&Payload::new("text/plain", format!("use {plain}!")).unwrap());
        assert_eq!(told.blobs, [ids[0]].into());
    }
}
