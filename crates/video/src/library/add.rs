//! Adding a video, or finding the one that is there already.
//!
//! Who creates the record of the content decides the video's id; who creates or renews the video's record starts its
//! workflow. The workflow follows from the record alone and has a key, so that it may be started twice: whoever finds a
//! record without its workflow, because a process died in between, starts it.

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;
use divvy::types::{TaskId, WorkflowId};

use super::records::{self, Claim, address_record, content_record};
use super::{
    Added, Library, LibraryError, NO_WORKFLOW, NewVideo, Video, VideoId, VideoState, bad, now,
};
use crate::fleet::Fleet;
use crate::keys::Key;
use crate::plan::Plan;
use crate::recipe::{Recipe, SubtitleFile};
use crate::subtitles;
use crate::tasks::{Close, Fetch, PlanVideo, ProbeSource, urgency};

pub(crate) const TITLE_LEN_MAX: usize = 200;
const URL_LEN_MAX: usize = 2_048;
const PRIORITY_DEFAULT: u8 = 3;
/// The latest deadline: 30 days.
const DEADLINE_MS_MAX: u64 = 30 * 86_400_000;
/// Tries against others who add, cancel and remove the same video at the same time.
const TRIES: usize = 100;

impl Library {
    /// Adds a video, or finds the one that is there already.
    ///
    /// The same content with the same recipe is the same video: nothing is submitted, and its priority and deadline
    /// stay as they are. One that failed, was cancelled or lacks a part is made again under the same id, as far as it is
    /// not there; so is one for which there is a new provider of subtitles or scans. For an address the content
    /// is not known before it is fetched, so there the same address with the same recipe is the same video.
    pub async fn add(&self, new: NewVideo) -> Result<Added, LibraryError> {
        let wanted = Wanted::check(new)?;
        // No results of the source go between the look at it and the record that names it; it stays because of the look.
        let _order = self.order.read().await;
        let source = match wanted.source {
            None => None,
            Some(id) => Some(self.objects.blob(id).await?.ok_or_else(|| {
                bad("source", format!("{id} is not here; upload the file first"))
            })?),
        };
        self.check_subtitle_files(&wanted.recipe).await?;
        let claim = wanted.claim();
        for _ in 0..TRIES {
            let mine = Claim { video: fresh_id() };
            let id = if self.objects.create_record(&claim, &mine).await? {
                mine.video
            } else {
                match self.objects.record::<Claim>(&claim).await? {
                    Some(record) => record.value.video,
                    None => continue,
                }
            };
            if let Some((video, known)) = self.settle(id, &wanted, source).await? {
                self.forget_open();
                let estimated_ms = self.expected_ms(&video, known).await;
                return Ok(Added { video, known, estimated_ms });
            }
        }
        Err(bad("video", "is being added and removed by others at the same time; try again"))
    }

    /// Refuses files of subtitles that are not there or cannot be read.
    async fn check_subtitle_files(&self, recipe: &Recipe) -> Result<(), LibraryError> {
        for SubtitleFile { language, file } in &recipe.subtitle_files {
            let wrong =
                |problem: &str| bad("subtitle_files", format!("of `{language}`: {problem}"));
            let found = self.objects.blob(*file).await?;
            let found = found.ok_or_else(|| wrong("the file is not here; upload it first"))?;
            if found.size > subtitles::BYTES_MAX {
                return Err(wrong("the file is too large to be subtitles"));
            }
            let bytes = self.objects.get(*file).await?;
            subtitles::parse(&bytes).map_err(|problem| wrong(&format!("the file {problem}")))?;
        }
        Ok(())
    }

    /// Makes the video under this id, or finds it; nothing if another one changed it meanwhile.
    async fn settle(
        &self,
        id: VideoId,
        wanted: &Wanted,
        source: Option<Blob>,
    ) -> Result<Option<(Video, bool)>, LibraryError> {
        let fresh = wanted.video(id, source);
        if self.objects.create_record(&fresh.id.record(), &fresh).await? {
            return Ok(Some((self.begin(fresh).await?, false)));
        }
        let Some(found) = records::read(&self.objects, &fresh.id).await? else { return Ok(None) };
        let again = match found.value.state {
            VideoState::Failed | VideoState::Cancelled | VideoState::Degraded => true,
            VideoState::Processing => false,
            VideoState::Ready | VideoState::NeedsReview => {
                self.has_new_makers(&found.value).await?
            }
        };
        match found.value.state {
            _ if again => {
                let name = fresh.id.record();
                if !self.objects.replace_record(&name, found.version, &fresh).await? {
                    return Ok(None);
                }
                Ok(Some((self.begin(fresh).await?, false)))
            }
            VideoState::Processing => {
                self.ensure_started(&found.value).await?;
                Ok(Some((found.value, true)))
            }
            _ => Ok(Some((found.value, true))),
        }
    }

    /// Whether someone is there now to write subtitles or to scan who was not when the video was planned, or another one.
    async fn has_new_makers(&self, video: &Video) -> Result<bool, LibraryError> {
        let Some(id) = video.plan.filter(|_| video.recipe.subtitles.is_some() || video.recipe.scan)
        else {
            return Ok(false);
        };
        let providers = Fleet::of(&self.client.workers().await?).providers;
        let Ok(former) = serde_json::from_slice::<Plan>(&self.objects.get(id).await?) else {
            return Ok(false);
        };
        let plan = Plan::new(former.probe.clone(), &video.recipe, &former.tools, &providers)?;
        let is_new = |now: Option<Key>, then: &Option<Key>| now.is_some() && now != *then;
        Ok(is_new(plan.subtitles, &former.subtitles) || is_new(plan.scan, &former.scan))
    }

    /// Starts the workflow of a video that was just recorded. If that fails the record says so, and the next addition
    /// begins anew.
    async fn begin(&self, video: Video) -> Result<Video, LibraryError> {
        self.note(&video);
        if let Err(error) = self.start(&video).await {
            let failed = |video: &mut Video| {
                video.state = VideoState::Failed;
                video.reason = Some(format!("its tasks could not be submitted: {error}"));
                video.ended_at = Some(now());
            };
            if let Err(failure) =
                records::change(&self.objects, &video.id, video.workflow_id(), failed).await
            {
                tracing::warn!(video = video.id.0, %failure, "a video without tasks stays recorded");
            }
            return Err(error);
        }
        Ok(video)
    }

    async fn ensure_started(&self, video: &Video) -> Result<(), LibraryError> {
        let Some(workflow) = video.workflow_id() else { return self.start(video).await };
        match self.client.workflow(workflow).await {
            Err(error) if error.code() == NO_WORKFLOW => self.start(video).await,
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    async fn start(&self, video: &Video) -> Result<(), LibraryError> {
        self.client.start(workflow(video)).await?;
        Ok(())
    }

    /// How long a video is expected to take: a new one by the size of its source.
    async fn expected_ms(&self, video: &Video, known: bool) -> Option<u64> {
        if video.state.is_final() {
            return Some(0);
        }
        if known && let Ok(view) = self.view(&video.id).await {
            return view.remaining_ms;
        }
        let estimates = self.estimates().await;
        let known = self.known(video, &[], &estimates).await;
        let rest = self.rest(video, &known, &[], &estimates).await?;
        Some(self.on_the_clock(video, rest).await)
    }
}

/// What is to be added, checked.
struct Wanted {
    source: Option<BlobId>,
    url: Option<String>,
    title: String,
    recipe: Recipe,
    priority: u8,
    deadline_ms: Option<u64>,
}

impl Wanted {
    fn check(new: NewVideo) -> Result<Self, LibraryError> {
        let NewVideo { source, url, title, recipe, priority, deadline_ms } = new;
        let url = match (source, url) {
            (Some(_), Some(_)) => {
                return Err(bad("url", "is given together with a source; give one of the two"));
            }
            (None, None) => {
                return Err(bad("source", "is missing; give the blob of an upload, or a url"));
            }
            (Some(_), None) => None,
            (None, Some(url)) => Some(check_url(&url)?),
        };
        let priority = priority.unwrap_or(PRIORITY_DEFAULT);
        if !(1..=5).contains(&priority) {
            return Err(bad("priority", format!("is {priority}, expected 1 to 5; 5 goes first")));
        }
        if let Some(ms) = deadline_ms.filter(|ms| !(1..=DEADLINE_MS_MAX).contains(ms)) {
            let problem = format!("is {ms}, expected 1 to {DEADLINE_MS_MAX} milliseconds from now");
            return Err(bad("deadline_ms", problem));
        }
        let title = match title {
            Some(title) => check_title(&title)?,
            None => usual_title(source, url.as_deref()),
        };
        Ok(Self { source, url, title, recipe: recipe.canonical()?, priority, deadline_ms })
    }

    /// The record that makes equal additions meet.
    fn claim(&self) -> String {
        match (self.source, &self.url) {
            (Some(source), _) => content_record(source, &self.recipe),
            (None, url) => address_record(url.as_deref().unwrap_or_default(), &self.recipe),
        }
    }

    fn video(&self, id: VideoId, source: Option<Blob>) -> Video {
        let added_at = now();
        let workflow = workflow_of(&id, added_at).to_string();
        Video {
            id,
            title: self.title.clone(),
            added_at,
            url: self.url.clone(),
            source,
            recipe: self.recipe.clone(),
            priority: self.priority,
            deadline: self.deadline_ms.map(|ms| added_at.saturating_add(ms * 1_000)),
            workflow,
            state: VideoState::Processing,
            reason: None,
            plan: None,
            manifest: None,
            has_poster: false,
            ended_at: None,
            length_ms: None,
            estimated_cpu_ms: None,
        }
    }
}

/// The beginning of a video's tasks; its plan spawns the rest.
fn workflow(video: &Video) -> Workflow {
    let mut workflow =
        Workflow::new(format!("video {}", video.title)).key(key(&video.id, video.added_at));
    let urgent = |video: &Video| {
        let video = video.clone();
        move |options: TaskOptions| urgency(options, &video)
    };
    let id = &video.id;
    let probe = ProbeSource { video: id.clone(), source: video.source };
    let plan = PlanVideo { video: id.clone() };
    let fetched = video
        .url
        .clone()
        .filter(|_| video.source.is_none())
        .map(|url| workflow.add_with(Fetch { video: id.clone(), url }, urgent(video)));
    let probed = workflow.add_with(probe, urgent(video));
    if let Some(fetched) = fetched {
        workflow.wait_for(probed, fetched);
    }
    let planned = workflow.add_with(plan, urgent(video));
    workflow.wait_for(planned, probed);
    workflow.on_failure(Close { video: id.clone() });
    workflow
}

/// One key per addition: a video that is made again has another workflow.
fn key(id: &VideoId, added_at: u64) -> String {
    format!("video/{}/{added_at}", id.0)
}

/// The id that the workflow of this addition has.
pub(super) fn workflow_of(id: &VideoId, added_at: u64) -> WorkflowId {
    WorkflowId(TaskId::from_key(&key(id, added_at)).0)
}

fn check_url(url: &str) -> Result<String, LibraryError> {
    if url.len() > URL_LEN_MAX {
        return Err(bad("url", format!("has {} characters, at most {URL_LEN_MAX}", url.len())));
    }
    let parsed = reqwest::Url::parse(url)
        .map_err(|error| bad("url", format!("is no address: {error}; give https://…")))?;
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(bad("url", "must begin with http:// or https:// and name a host"));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(bad("url", "must not carry a name or a password, which everybody would see"));
    }
    Ok(parsed.into())
}

/// The title without spaces around it, if it can be one.
pub(crate) fn check_title(title: &str) -> Result<String, LibraryError> {
    let title = title.trim();
    if title.is_empty() || title.chars().any(char::is_control) {
        return Err(bad("title", "must be text without line breaks, and not empty"));
    }
    match title.chars().count() {
        0..=TITLE_LEN_MAX => Ok(title.to_owned()),
        count => Err(bad("title", format!("has {count} characters, at most {TITLE_LEN_MAX}"))),
    }
}

/// The end of the address, or of the source's name.
fn usual_title(source: Option<BlobId>, url: Option<&str>) -> String {
    let parsed = url.and_then(|url| reqwest::Url::parse(url).ok());
    let file = parsed.as_ref().and_then(|url| {
        let last = url.path_segments()?.next_back()?;
        Some(last.chars().filter(|c| !c.is_control()).take(TITLE_LEN_MAX).collect::<String>())
    });
    let host = || parsed.as_ref().and_then(|url| url.host_str().map(str::to_owned));
    let short = || source.map(|id| id.to_string()[..12].to_owned());
    file.filter(|name| !name.is_empty()).or_else(host).or_else(short).unwrap_or_default()
}

fn fresh_id() -> VideoId {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    // The bits of such an id that follow from the time would make ids alike.
    let mixed = blake3::hash(uuid::Uuid::now_v7().as_bytes());
    let random = mixed.as_bytes().iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte));
    let letter = |place: u32| LETTERS[(random / 36_u128.pow(place) % 36) as usize] as char;
    VideoId((0..12).map(letter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> NewVideo {
        serde_json::from_value(serde_json::json!({ "url": "https://example.com/a/clip.mp4" }))
            .unwrap()
    }

    fn problem(new: NewVideo) -> String {
        Wanted::check(new).err().unwrap().to_string()
    }

    #[test]
    fn what_cannot_be_is_told_with_its_field() {
        let source = Some(BlobId::of(b""));
        let cases = [
            (NewVideo { url: None, ..new() }, "source is missing"),
            (NewVideo { source, ..new() }, "url is given together"),
            (NewVideo { url: Some("ftp://a/b".into()), ..new() }, "url must begin"),
            (NewVideo { url: Some("clip.mp4".into()), ..new() }, "url is no address"),
            (NewVideo { url: Some("https://me:it@a/b".into()), ..new() }, "url must not carry"),
            (NewVideo { priority: Some(6), ..new() }, "priority is 6"),
            (NewVideo { deadline_ms: Some(0), ..new() }, "deadline_ms is 0"),
            (NewVideo { title: Some("a\nb".into()), ..new() }, "title must be text"),
            (NewVideo { title: Some("x".repeat(201)), ..new() }, "title has 201"),
        ];
        for (new, expected) in cases {
            let problem = problem(new);
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert!(serde_json::from_str::<NewVideo>(r#"{"urll":"x"}"#).is_err());
    }

    #[test]
    fn equal_recipes_meet_and_others_do_not() {
        let claim = |recipe: Recipe| Wanted::check(NewVideo { recipe, ..new() }).unwrap().claim();
        let usual = Recipe::default();
        let same = Recipe { ladder: vec![480, 720, 1080], ..usual.clone() };
        assert_eq!(claim(usual.clone()), claim(same));
        let other = Recipe { crf: 22, ..usual.clone() };
        assert_ne!(claim(usual), claim(other));
    }

    #[test]
    fn a_title_is_found_and_ids_are_names_of_records() {
        assert_eq!(Wanted::check(new()).unwrap().title, "clip.mp4");
        let url = |url: &str| NewVideo { url: Some(url.into()), ..new() };
        assert_eq!(Wanted::check(url("https://example.com/")).unwrap().title, "example.com");
        let (one, two) = (fresh_id(), fresh_id());
        assert!(
            one != two && one.0.len() == 12 && one.0.bytes().all(|b| b.is_ascii_alphanumeric())
        );
    }

    #[test]
    fn the_workflow_follows_from_the_record_alone() {
        let video = Wanted::check(new()).unwrap().video(fresh_id(), None);
        assert_eq!(workflow(&video).len(), 4, "fetch, probe, plan, close");
        assert_eq!(video.workflow_id(), Some(workflow_of(&video.id, video.added_at)));
        let uploaded = Video { source: Some(Blob { id: BlobId::of(b"1"), size: 1 }), ..video };
        assert_eq!(workflow(&uploaded).len(), 3, "nothing is fetched that is here");
    }
}
