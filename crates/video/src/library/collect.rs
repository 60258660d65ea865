//! What goes, of what was [noted](super::notes): everything that nobody names. One pass over the library serves all notes
//! that there are, and nobody waits for it: additions wait only while the results of one source are removed.
//!
//! A blob goes if the pass found its name nowhere and it was neither stored nor asked for since ten minutes before the pass
//! began. That covers whatever is written down while the pass goes on: whoever stores a blob, finds it to be there or adds
//! a video on it, renews its time under the lock of its file, and writes its name down within ten minutes.
//!
//! Results go before blobs, and with care, because plans count on them: none of a source goes while a video of it is being
//! made or may be resumed, or after its source was stored or asked for, as by a task that fetches it. Such a note waits for
//! the next round.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use divvy::objects::{Blob, BlobId};
use tokio_util::sync::CancellationToken;

use super::index::Entry;
use super::notes::{Leftovers, Note};
use super::references::{Candidates, Names};
use super::sweep::REST_MIN;
use super::{Library, LibraryError, REST, VideoId};

/// How often a server looks for notes.
const EVERY: Duration = Duration::from_secs(600);
/// When it looks for the first time.
pub const FIRST_AFTER: Duration = Duration::from_secs(120);
/// Between two rounds there is this many times as long as the first of them took.
const PAUSE: u32 = 9;
/// How often a server looks for what cancelled videos left.
const LEFTOVERS_EVERY: Duration = Duration::from_secs(86_400);

/// What a round removed, or would remove.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) gone: Vec<Blob>,
    pub(super) results: usize,
    /// Removed videos of which nothing is left.
    pub(super) removed: u64,
    /// Removed videos of which something stays for now.
    pub(super) waiting: u64,
    /// Records and documents that were read for it.
    pub(super) read: u64,
}

/// A note whose turn it is.
#[derive(Debug)]
struct Ready {
    /// Its record; none if it is only looked at.
    name: Option<String>,
    note: Note,
    /// The other videos of its sources.
    sharing: Vec<Entry>,
    /// The results that go with it.
    results: Vec<String>,
}

/// What became of notes, by the videos that they are of.
#[derive(Debug, Default)]
struct Verdicts {
    ended: BTreeSet<VideoId>,
    waiting: BTreeSet<VideoId>,
}

impl Library {
    /// Removes what removed and cancelled videos left, until the server stops; begins after some time, because a server
    /// that has just started has more urgent things to read.
    pub async fn collect_always(self, first_after: Duration, shutdown: CancellationToken) {
        let mut looked: Option<Instant> = None;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(first_after) => (),
        }
        loop {
            let round = async {
                let began = Instant::now();
                if looked.is_none_or(|at| at.elapsed() >= LEFTOVERS_EVERY) {
                    match self.leftovers(REST).await {
                        Ok(left) => report(self.note_leftovers(left).await),
                        Err(error) => report(Err(error)),
                    }
                    looked = Some(began);
                }
                match self.collect(Leftovers::default(), false).await {
                    Ok(done) if done.gone.is_empty() && done.results == 0 => (),
                    Ok(Collected { gone, results, removed, waiting, read }) => {
                        let bytes: u64 = gone.iter().map(|blob| blob.size).sum();
                        let blobs = gone.len();
                        tracing::info!(
                            bytes,
                            blobs,
                            results,
                            removed,
                            waiting,
                            read,
                            "removed what nobody uses"
                        );
                    }
                    Err(error) => report(Err(error)),
                }
                tokio::time::sleep(EVERY.max(began.elapsed().saturating_mul(PAUSE))).await;
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = round => (),
            }
        }
    }

    /// Removes what notes list and nobody uses, or tells what that would be, with what would be noted.
    pub(super) async fn collect(
        &self,
        left: Leftovers,
        dry_run: bool,
    ) -> Result<Collected, LibraryError> {
        let _one = self.collecting.lock().await;
        let notes = self.notes().await?.into_iter().map(|(name, note)| (Some(name), note));
        let notes = notes.chain(left.notes.into_iter().map(|note| (None, note)));
        let notes: Vec<(Option<String>, Note)> = notes.collect();
        if notes.is_empty() {
            return Ok(Collected::default());
        }
        // From here on, whatever gets a new name is renewed too.
        let began = Instant::now();
        let mut videos = self.entries().await?;
        for video in &mut videos {
            if left.cancelled.iter().any(|cancelled| cancelled.id == video.id) {
                video.plan = None;
            }
        }
        let mut verdicts = Verdicts::default();
        let mut ready = self.ready(notes, &videos, &mut verdicts).await?;
        if ready.is_empty() {
            return Ok(verdicts.into_collected(Vec::new(), 0, 0));
        }
        self.note_results(&mut ready, dry_run).await?;
        let but = ready.iter().flat_map(|one| one.results.iter().chain(&one.name)).cloned();
        let but: HashSet<String> = but.collect();
        let listed = ready.iter().flat_map(|one| one.note.blobs.iter().copied());
        let candidates = Arc::new(Candidates::new(listed.collect()));
        self.strike_named(&candidates, &videos, but).await?;
        self.strike_unpublished(&candidates, &videos).await?;

        let rest = || REST_MIN + began.elapsed();
        let (mut quiet, mut results) = (Vec::new(), HashSet::new());
        for one in ready {
            if self.forget_results(&one, rest(), dry_run).await? {
                results.extend(one.results.iter().cloned());
                quiet.push(one);
            } else {
                // Its results stay, and so does what they name.
                one.note.blobs.iter().for_each(|blob| candidates.strike(*blob));
                verdicts.add(&one.note, false);
            }
        }
        let mut gone = HashMap::new();
        for one in quiet {
            let has_ended =
                self.forget_blobs(&one, &candidates, rest(), dry_run, &mut gone).await?;
            verdicts.add(&one.note, has_ended);
            if let Some(name) = one.name.filter(|_| has_ended && !dry_run) {
                self.objects.remove_record(&name).await?;
            }
        }
        let gone = gone.into_values().collect();
        Ok(verdicts.into_collected(gone, results.len(), candidates.read()))
    }

    /// The notes of sources of which no video may go on, with the results that nobody else has planned.
    async fn ready(
        &self,
        notes: Vec<(Option<String>, Note)>,
        videos: &[Entry],
        verdicts: &mut Verdicts,
    ) -> Result<Vec<Ready>, LibraryError> {
        let mut by_source: HashMap<BlobId, Vec<&Entry>> = HashMap::new();
        for video in videos {
            if let Some(source) = video.source {
                by_source.entry(source).or_default().push(video);
            }
        }
        let mut ready = Vec::new();
        for (name, note) in notes {
            let of = note.sources.iter().filter_map(|source| by_source.get(source)).flatten();
            let mut sharing: Vec<Entry> = of.map(|video| (*video).clone()).collect();
            sharing.sort_by(|one, other| one.id.cmp(&other.id));
            if sharing.iter().any(Entry::may_go_on) {
                verdicts.add(&note, false);
                continue;
            }
            let results = self.results_of_note(&note, &sharing).await?;
            ready.push(Ready { name, note, sharing, results });
        }
        Ok(ready)
    }

    /// The results that go with a note: all of its sources, unless a video that stays has a plan for them.
    async fn results_of_note(
        &self,
        note: &Note,
        sharing: &[Entry],
    ) -> Result<Vec<String>, LibraryError> {
        let planned: Vec<&Entry> = sharing.iter().filter(|video| video.plan.is_some()).collect();
        let mut used = Names::default();
        for video in &planned {
            used.extend(self.documents(video).await?);
        }
        let mine: HashSet<&str> = note.keys.iter().map(String::as_str).collect();
        let mut results = Vec::new();
        for source in &note.sources {
            results.extend(self.results_of(*source).await?);
        }
        results.retain(|name| {
            let key = name.rsplit('/').next().unwrap_or_default();
            planned.is_empty() || (mine.contains(key) && !used.keys.contains(key))
        });
        Ok(results)
    }

    /// Notes what results name that go, as far as it is not noted yet: afterwards nothing would tell.
    async fn note_results(
        &self,
        ready: &mut Vec<Ready>,
        dry_run: bool,
    ) -> Result<(), LibraryError> {
        let mut new = Vec::new();
        for one in ready.iter_mut() {
            let mut found = self.named_by_results(&one.results).await?;
            one.note.blobs.iter().for_each(|blob| {
                found.remove(blob);
            });
            if found.is_empty() {
                continue;
            }
            one.note.blobs.extend(&found);
            if !dry_run {
                let names = Names { blobs: found, ..Names::default() };
                let note = Note::of(one.note.video.clone(), Vec::new(), names);
                new.extend(self.write_note(note).await?);
            }
        }
        let ready_to_go = |(name, note)| Ready {
            name: Some(name),
            note,
            sharing: Vec::new(),
            results: Vec::new(),
        };
        ready.extend(new.into_iter().map(ready_to_go));
        Ok(())
    }

    /// Removes the results of a note, unless something has happened to its sources since the pass began; says whether
    /// nothing has.
    async fn forget_results(
        &self,
        one: &Ready,
        rest: Duration,
        dry_run: bool,
    ) -> Result<bool, LibraryError> {
        if one.results.is_empty() {
            return Ok(true);
        }
        // No video is added on a source while its results go, and none is fetched: that ends with storing the source.
        let _alone = self.order.write().await;
        if !dry_run && self.index().of_sources(&one.note.sources) != one.sharing {
            return Ok(false);
        }
        let mut held = Vec::new();
        for source in &one.note.sources {
            match self.objects.hold_rested_blob(*source, rest).await? {
                Some(rested) => held.push(rested),
                None if self.objects.look_at(*source).await?.is_some() => return Ok(false),
                None => (),
            }
        }
        if !dry_run {
            for name in &one.results {
                self.objects.remove_record(name).await?;
            }
        }
        Ok(true)
    }

    /// Removes the blobs of a note that nobody named; says whether none has to wait.
    async fn forget_blobs(
        &self,
        one: &Ready,
        candidates: &Candidates,
        rest: Duration,
        dry_run: bool,
        gone: &mut HashMap<BlobId, Blob>,
    ) -> Result<bool, LibraryError> {
        let mut has_ended = true;
        for id in one.note.blobs.iter().copied() {
            if candidates.is_struck(id) || gone.contains_key(&id) {
                continue;
            }
            let rested = match dry_run {
                true => self.objects.hold_rested_blob(id, rest).await?.map(|rested| rested.blob),
                false => self.objects.remove_rested_blob(id, rest).await?,
            };
            match rested {
                Some(blob) => {
                    gone.insert(id, blob);
                }
                None => has_ended &= self.objects.look_at(id).await?.is_none(),
            }
        }
        Ok(has_ended)
    }
}

impl Verdicts {
    fn add(&mut self, note: &Note, has_ended: bool) {
        let of = if has_ended { &mut self.ended } else { &mut self.waiting };
        of.extend(note.video.clone());
    }

    fn into_collected(self, gone: Vec<Blob>, results: usize, read: u64) -> Collected {
        // A video may have several notes.
        let removed = self.ended.difference(&self.waiting).count() as u64;
        Collected { gone, results, removed, waiting: self.waiting.len() as u64, read }
    }
}

fn report(done: Result<(), LibraryError>) {
    if let Err(error) = done {
        tracing::warn!(%error, "cannot look for what nobody uses");
    }
}
