//! What is used: names of blobs and results in records, documents and tasks.
//!
//! Names are found wherever they stand, whatever the data around them looks like, so that a new sort of result, and the
//! records of others, need no change here. In doubt something counts as used. Decides nothing about what is removed.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use divvy::objects::{BlobId, RecordName};
use divvy::types::{TaskId, TaskState};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use super::index::Entry;
use super::notes::NOTES;
use super::{Library, LibraryError, bad};

/// Results and tasks that are read at the same time. Nobody waits for a pass, and pages of the library must not wait for
/// it either.
const READS_AT_ONCE: usize = 2;
/// Tasks that are read for the names in them. With more of them nothing is swept.
const TASKS_MAX: usize = 20_000;
/// A blob that is larger is no document.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;
/// How a server refuses a question about a task that it does not know.
const NO_TASK: &str = "not_found";
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
    pub(super) fn read(&mut self, bytes: &[u8]) {
        each_name(bytes, &mut |name| match name.len() {
            32 => self.keys.extend([name.to_owned()]),
            _ => self.blobs.extend(name.parse::<BlobId>().ok()),
        });
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.blobs.extend(other.blobs);
        self.keys.extend(other.keys);
    }
}

/// Blobs that may go. Who finds the name of one strikes it out. However many names there are elsewhere, this has 33
/// bytes for each candidate.
#[derive(Debug)]
pub(super) struct Candidates {
    /// In order, each once.
    ids: Vec<BlobId>,
    struck: Vec<AtomicBool>,
    read: AtomicU64,
}

impl Candidates {
    pub(super) fn new(mut ids: Vec<BlobId>) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let struck = ids.iter().map(|_| AtomicBool::new(false)).collect();
        Self { ids, struck, read: AtomicU64::new(0) }
    }

    /// Lets a blob stay.
    pub(super) fn strike(&self, id: BlobId) {
        if let Ok(place) = self.ids.binary_search(&id) {
            self.struck[place].store(true, Ordering::Relaxed);
        }
    }

    /// Lets every blob stay that a document names.
    fn strike_all(&self, bytes: &[u8]) {
        self.read.fetch_add(1, Ordering::Relaxed);
        each_name(bytes, &mut |name| {
            if let Ok(id) = name.parse() {
                self.strike(id);
            }
        });
    }

    /// Whether a blob has to stay, or never was a candidate.
    pub(super) fn is_struck(&self, id: BlobId) -> bool {
        let place = self.ids.binary_search(&id);
        place.map_or(true, |place| self.struck[place].load(Ordering::Relaxed))
    }

    /// How many records and documents were read.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Tells the names in a document. A name may be a part of a longer text, such as an address.
fn each_name(bytes: &[u8], found: &mut dyn FnMut(&str)) {
    // Next to an escape, such as `\b`, a name is told apart only in the text that is meant.
    if bytes.contains(&b'\\')
        && let Ok(value) = serde_json::from_slice(bytes)
    {
        return each_text(&value, &mut |text| each_run(text.as_bytes(), found));
    }
    each_run(bytes, found);
}

fn each_text(value: &Value, found: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            found(name);
            each_text(field, found);
        }),
        _ => (),
    }
}

fn each_run(bytes: &[u8], found: &mut dyn FnMut(&str)) {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    for run in bytes.split(|byte| !is_digit(byte)) {
        if matches!(run.len(), 32 | 64)
            && let Ok(name) = std::str::from_utf8(run)
        {
            found(name);
        }
    }
}

impl Library {
    /// Strikes out what is named in any record but these, or in a document that it names; the videos are those given.
    pub(super) async fn strike_named(
        &self,
        candidates: &Arc<Candidates>,
        videos: &[Entry],
        but: HashSet<String>,
    ) -> Result<(), LibraryError> {
        videos.iter().flat_map(Entry::blobs).for_each(|id| candidates.strike(id));
        let documents = videos.iter().flat_map(|video| [video.plan, video.manifest]).flatten();
        self.strike_documents(candidates, documents.collect()).await?;
        let known: HashSet<String> = videos.iter().map(|video| video.id.record()).collect();
        let is_wanted = move |name: &RecordName| {
            let name = name.as_str();
            // What says which video has a content names that video, and no blob.
            !known.contains(name) && !but.contains(name) && !name.starts_with("video/content/")
        };
        let others = Arc::new(Mutex::new(Names::default()));
        let (struck, named) = (Arc::clone(candidates), Arc::clone(&others));
        let read = move |name: &RecordName, bytes: &[u8]| {
            struck.strike_all(bytes);
            // What a result names is media, of which there is a lot, and never a document.
            let is_plain = [RESULTS, NOTES].iter().any(|start| name.as_str().starts_with(start));
            if !is_plain {
                named.lock().unwrap_or_else(PoisonError::into_inner).read(bytes);
            }
        };
        self.objects.each_record("", is_wanted, read).await?;
        let others = std::mem::take(&mut *others.lock().unwrap_or_else(PoisonError::into_inner));
        self.strike_documents(candidates, others.blobs.into_iter().collect()).await
    }

    /// Strikes out what only the tasks of videos know that are being made, or may be resumed: the copy of a source before
    /// it is planned, and the manifest and its lists before they are published.
    pub(super) async fn strike_unpublished(
        &self,
        candidates: &Arc<Candidates>,
        videos: &[Entry],
    ) -> Result<(), LibraryError> {
        let open = videos.iter().filter(|video| video.may_go_on());
        let tasks: Vec<TaskId> = open.flat_map(Entry::tasks_with_names).collect();
        let asks = tasks.into_iter().map(|id| async move {
            match self.client.task(id).detail().await {
                // It was not spawned yet, or it ended long ago and was forgotten.
                Err(error) if error.code() == NO_TASK => Ok(None),
                detail => detail.map(|detail| detail.result),
            }
        });
        let mut results = stream::iter(asks).buffer_unordered(READS_AT_ONCE);
        let mut names = Names::default();
        while let Some(result) = results.try_next().await? {
            result.iter().for_each(|result| names.read(result.data()));
        }
        names.blobs.iter().for_each(|id| candidates.strike(*id));
        self.strike_documents(candidates, names.blobs.into_iter().collect()).await
    }

    /// Strikes out what the documents among these blobs name.
    async fn strike_documents(
        &self,
        candidates: &Arc<Candidates>,
        ids: Vec<BlobId>,
    ) -> Result<(), LibraryError> {
        let into = Arc::clone(candidates);
        let read = |into: &mut Arc<Candidates>, bytes: &[u8]| into.strike_all(bytes);
        self.objects.read_documents(ids, DOCUMENT_BYTES_MAX, into, read).await?;
        Ok(())
    }

    /// The blobs that these results name.
    pub(super) async fn named_by_results(
        &self,
        results: &[String],
    ) -> Result<HashSet<BlobId>, LibraryError> {
        let mut names = Names::default();
        let reads = results.iter().cloned();
        let reads = reads.map(|name| async move { self.objects.record::<Value>(&name).await });
        let mut found = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        while let Some(record) = found.try_next().await? {
            if let Some(record) = record {
                each_text(&record.value, &mut |text| names.read(text.as_bytes()));
            }
        }
        Ok(names.blobs)
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
                Err(error) if error.code() == NO_TASK => continue,
                detail => detail?,
            };
            used.read(detail.payload.data());
            detail.result.iter().for_each(|result| used.read(result.data()));
        }
        let ids = used.blobs.iter().copied().collect();
        self.read_documents(ids, used).await
    }

    /// The names in the plan and the manifest of a video.
    pub(super) async fn documents(&self, video: &Entry) -> Result<Names, LibraryError> {
        let ids = [video.plan, video.manifest].into_iter().flatten().collect();
        self.read_documents(ids, Names::default()).await
    }

    /// Adds the names in the documents among these blobs. Trouble with reading one is an error: it may name what is used.
    async fn read_documents(&self, ids: Vec<BlobId>, into: Names) -> Result<Names, LibraryError> {
        Ok(self.objects.read_documents(ids, DOCUMENT_BYTES_MAX, into, Names::read).await?)
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
        names.read(value.to_string().as_bytes());
        assert_eq!(names.blobs, ids.into_iter().collect());
        assert_eq!(names.keys, [key[..32].to_owned()].into());
        let mut told = Names::default();
        told.read(format!("use {plain}!").as_bytes());
        assert_eq!(told.blobs, [ids[0]].into());
    }

    #[test]
    fn a_name_after_an_escape_is_found() {
        let id = BlobId::of(b"1");
        for before in ["\u{8}", "\u{c}", "\u{1}", "\n", "\\", "\""] {
            let mut names = Names::default();
            let text = json!({ "at": format!("{before}{id}{before}") }).to_string();
            names.read(text.as_bytes());
            assert_eq!(names.blobs, [id].into(), "{text}");
        }
    }

    #[test]
    fn candidates_stay_when_they_are_named_and_others_are_none() {
        let [named, left, other] = ["1", "2", "3"].map(|text| BlobId::of(text.as_bytes()));
        let candidates = Candidates::new(vec![left, named, left]);
        candidates.strike_all(json!([other, { "deep": named }]).to_string().as_bytes());
        assert!(candidates.is_struck(named) && candidates.is_struck(other));
        assert!(!candidates.is_struck(left));
        assert_eq!(candidates.read(), 1);
    }
}
