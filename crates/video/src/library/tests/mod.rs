//! Whole videos on a private server: the library, the plan and the end of a video are the real ones, and so are the
//! server, the engine and the objects. The tasks in between store a few bytes under the keys of the plan, which is all
//! that the library sees of them.

mod removing;
pub(crate) mod stage;
mod sweeping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use divvy::objects::BlobId;
use divvy::prelude::*;
use divvy::types::TaskId;

use super::{Filter, Library, LibraryError, NewVideo, Video, VideoState};
use crate::estimate::{self, Estimates, Size};
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::tasks::{Encode, Publish, planned};
use stage::{DAMAGED, LONG, LONG_CHUNKS, Theatre, UNSEEN, new_video};

fn ladder(heights: &[u32]) -> Recipe {
    Recipe { ladder: heights.to_vec(), ..Recipe::default() }
}

#[tokio::test]
async fn the_same_content_again_costs_no_task_and_a_new_rung_only_that_rung() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"a clip").await;
    let first = library.add(new_video(source, ladder(&[480]))).await.unwrap();
    assert!(!first.known && first.estimated_ms.is_some());
    let view = theatre.finished(&first.video).await;
    assert_eq!((view.video.state, view.progress), (VideoState::Ready, 1.0));
    let encode = view.stages.iter().find(|stage| stage.name == "encode").unwrap();
    assert_eq!((encode.total, encode.done), (2, 2), "{:?}", view.stages);
    assert_eq!(view.duration_ms, Some(48_000));
    assert!(view.video.estimated_cpu_ms.unwrap() > 0);

    let again = library.add(new_video(source, ladder(&[480]))).await.unwrap();
    assert!(again.known && again.video.id == first.video.id);
    assert_eq!(again.estimated_ms, Some(0));
    assert_eq!(theatre.encodes().len(), 2);

    let more = library.add(new_video(source, ladder(&[720, 480]))).await.unwrap();
    assert!(!more.known && more.video.id != first.video.id);
    theatre.finished(&more.video).await;
    let rungs: Vec<Vec<u32>> = theatre.encodes().into_iter().skip(2).map(|e| e.rungs).collect();
    assert_eq!(rungs, [vec![0], vec![0]], "only the larger rung");
    let (listed, next) = library.list(None, &Filter::default(), 9).await.unwrap();
    assert_eq!((listed.len(), next), (2, None));
    assert_eq!(listed[0].video.id, more.video.id, "latest first");
    theatre.close().await;
}

#[tokio::test]
async fn of_many_additions_at_once_one_starts_a_workflow() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(b"popular").await;
    let adds = (0..8).map(|_| theatre.library.add(new_video(source, Recipe::default())));
    let added = futures_util::future::join_all(adds).await;
    let added: Vec<_> = added.into_iter().map(Result::unwrap).collect();
    assert_eq!(added.iter().filter(|added| !added.known).count(), 1);
    assert!(added.iter().all(|one| one.video.workflow == added[0].video.workflow));
    theatre.finished(&added[0].video).await;
    assert_eq!(theatre.encodes().len(), 2);
    theatre.close().await;
}

#[tokio::test]
async fn a_video_that_failed_says_why_and_is_made_again_under_its_id() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"bad").await;
    let first = library.add(new_video(source, Recipe::default())).await.unwrap().video;
    let view = theatre.failed(&first).await;
    assert_eq!(view.video.state, VideoState::Failed);
    assert_eq!(view.video.reason.as_deref(), Some("probe: not a video"));
    assert!(view.video.ended_at.is_some());

    theatre.stage.cured.store(true, Ordering::SeqCst);
    let second = library.add(new_video(source, Recipe::default())).await.unwrap();
    assert!(!second.known && second.video.id == first.id);
    assert_ne!(second.video.workflow, first.workflow);
    assert_eq!(theatre.finished(&second.video).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_scanner_that_comes_later_looks_at_a_video_that_is_there() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"unseen").await;
    let recipe = Recipe { scan: true, ..ladder(&[480]) };
    let first = library.add(new_video(source, recipe.clone())).await.unwrap().video;
    assert_eq!(theatre.finished(&first).await.video.state, VideoState::Ready, "nobody can scan");
    assert!(library.add(new_video(source, recipe.clone())).await.unwrap().known);

    let scanner = theatre.hire_scanner().await;
    let again = library.add(new_video(source, recipe.clone())).await.unwrap();
    assert!(!again.known && again.video.id == first.id);
    let view = theatre.finished(&again.video).await;
    assert!(view.stages.iter().any(|stage| stage.name == "scan" && stage.done == 1));
    assert_eq!(theatre.encodes().len(), 2, "nothing else was made again");
    assert!(library.add(new_video(source, recipe)).await.unwrap().known);
    scanner.leave().await;
    theatre.close().await;
}

#[tokio::test]
async fn an_optional_part_that_fails_leaves_a_degraded_video() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(b"mumbling").await;
    let recipe = Recipe { subtitles: Some("en".into()), ..ladder(&[480]) };
    let video = theatre.library.add(new_video(source, recipe)).await.unwrap().video;
    // The dead task calls the end of the workflow, which must not spoil what was published.
    let view = theatre.failed(&video).await;
    assert_eq!(view.video.state, VideoState::Degraded);
    assert!(view.video.reason.unwrap().contains("subtitles failed"));
    assert!(theatre.library.manifest(&video.id).await.unwrap().is_some());
    theatre.close().await;
}

#[tokio::test]
async fn thumbnails_that_fail_leave_a_degraded_video() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(UNSEEN).await;
    let video = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    let view = theatre.failed(&video).await;
    assert_eq!(view.video.state, VideoState::Degraded);
    assert_eq!(view.video.reason.unwrap(), "thumbnails failed: ffmpeg took no picture");
    assert!(!view.video.has_poster);
    theatre.close().await;
}

#[tokio::test]
async fn a_damaged_source_leaves_a_degraded_video_that_says_so() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(DAMAGED).await;
    let video = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    let view = theatre.finished(&video).await;
    assert_eq!(view.video.state, VideoState::Degraded);
    assert!(view.video.reason.unwrap().contains("2 frames are made up or show faults"));
    theatre.close().await;
}

#[tokio::test]
async fn a_flagged_video_waits_for_a_person() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"doubtful").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    assert_eq!(theatre.finished(&video).await.video.state, VideoState::NeedsReview);
    assert_eq!(library.approve(&video.id).await.unwrap().state, VideoState::Ready);
    assert_eq!(library.approve(&video.id).await.unwrap().state, VideoState::Ready);
    let problem = library.cancel(&video.id).await.unwrap_err().to_string();
    assert!(problem.contains("is ready and has no tasks to stop"), "{problem}");
    theatre.close().await;
}

#[tokio::test]
async fn progress_grows_with_chunks_and_a_cancelled_video_stops() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"long").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.encode_begun().await;
    let before = library.view(&video.id).await.unwrap();
    assert!(before.remaining_ms.unwrap() > 0 && before.progress < 1.0);
    theatre.stage.release_encodes(1);
    theatre.stage.encode_ended().await;
    theatre.stage.encode_begun().await;
    let after = library.view(&video.id).await.unwrap();
    assert!(after.progress > before.progress, "{} then {}", before.progress, after.progress);

    let cancelled = library.cancel(&video.id).await.unwrap();
    assert_eq!(cancelled.state, VideoState::Cancelled);
    theatre.stage.release_encodes(100);
    let again = library.cancel(&video.id).await.unwrap();
    assert_eq!(again.state, VideoState::Cancelled);
    let view = library.view(&video.id).await.unwrap();
    assert!(view.progress >= after.progress && view.remaining_ms.is_none());
    let restarted = library.add(new_video(source, ladder(&[480]))).await.unwrap();
    assert!(!restarted.known && restarted.video.id == video.id);
    assert_eq!(theatre.finished(&restarted.video).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_video_whose_workflow_was_cancelled_from_outside_is_seen_as_cancelled() {
    let theatre = Theatre::open().await;
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"unlucky").await;
    let new = new_video(source, ladder(&[480]));
    let video = theatre.library.add(new.clone()).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.encode_begun().await;
    let known = theatre.library.add(new).await.unwrap();
    assert!(known.known && known.estimated_ms > Some(0));
    theatre.client.cancel_workflow(video.workflow_id().unwrap(), None).await.unwrap();
    theatre.ended(&video).await;
    let view = theatre.library.view(&video.id).await.unwrap();
    assert_eq!(view.video.state, VideoState::Cancelled);
    assert!(view.video.reason.is_some() && view.video.ended_at.is_some());
    theatre.close().await;
}

#[tokio::test]
async fn what_tasks_took_is_learnt_and_urgency_reaches_them() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(b"costly").await;
    let new = NewVideo {
        priority: Some(5),
        deadline_ms: Some(600_000),
        title: Some("A title".into()),
        ..new_video(source, ladder(&[480]))
    };
    let video = theatre.library.add(new).await.unwrap().video;
    theatre.finished(&video).await;
    let learnt = theatre.library.objects().record::<Estimates>(estimate::RECORD).await.unwrap();
    let (size, learnt) = (Size::source(6, &Recipe::default()), learnt.unwrap().value);
    assert_ne!(Estimates::default().expected(&size), learnt.expected(&size));
    let workflow = video.workflow_id().unwrap();
    let tasks = theatre.client.workflow_tasks(workflow).await.unwrap();
    let plan = theatre.library.view(&video.id).await.unwrap().video.plan.unwrap();
    let plan: Plan =
        serde_json::from_slice(&theatre.library.objects().get(plan).await.unwrap()).unwrap();
    let sizes: BTreeMap<TaskId, Size> = planned(&plan, workflow).into_iter().collect();
    let mut kinds = BTreeSet::new();
    for task in tasks.iter().filter(|task| sizes.contains_key(&task.id)) {
        if task.kind != Publish::KIND {
            assert!(learnt.knows(&sizes[&task.id]), "{} does not learn", task.kind);
            kinds.insert(task.kind.strip_prefix("video.").unwrap());
        }
    }
    let expected = ["audio", "encode", "frames", "mux", "package", "sprite", "verify"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    let encode = tasks.iter().find(|task| task.kind == Encode::KIND).unwrap();
    assert_eq!(encode.priority, 5);
    let terms = theatre.client.task(encode.id).detail().await.unwrap().terms;
    assert_eq!(terms.deadline.map(|at| at.0), video.deadline);
    assert_eq!(terms.affinity.as_deref(), Some(source.to_string().as_str()));
    assert!(terms.cost_hint.unwrap() > 0 && terms.timeout_ms.unwrap() >= 60_000);
    assert!(terms.needs.iter().any(|need| need.starts_with("ffmpeg=")), "{:?}", terms.needs);
    theatre.close().await;
}

#[tokio::test]
async fn the_remaining_time_counts_what_is_ahead_and_nothing_else() {
    let theatre = Theatre::open().await;
    theatre.stage.hold_encodes();
    // Whoever looks has looked at nothing before.
    let remaining = async |video: &Video| {
        let library = Library::new(theatre.client.clone(), theatre.library.objects().clone());
        library.view(&video.id).await.unwrap().remaining_ms.unwrap()
    };
    let source = theatre.upload(b"first").await;
    let first = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&first).await;
    // The only slot is held from here on, so that the others stay as large as their sources say.
    theatre.stage.encode_begun().await;
    let alone = remaining(&first).await;
    let add = async |name: &[u8], priority: u8, deadline_ms: Option<u64>| {
        let source = theatre.upload(name).await;
        let new = new_video(source, ladder(&[480]));
        let new = NewVideo { priority: Some(priority), deadline_ms, ..new };
        let added = theatre.library.add(new).await.unwrap();
        (added.video, added.estimated_ms.unwrap())
    };
    let own = {
        let size = Size::source(6, &Recipe::default());
        u64::try_from(Estimates::default().expected(&size).as_millis()).unwrap()
    };
    assert!(alone > 2 * own, "{alone} and {own}");
    let near = |found: u64, expected: u64| {
        assert!(found.abs_diff(expected) <= 3, "{found} instead of {expected}");
    };
    let (equal, promised) = add(b"second", 3, None).await;
    near(promised, alone + own);
    near(remaining(&equal).await, alone + own);
    near(remaining(&first).await, alone + own);
    let (low, promised) = add(b"third.", 1, None).await;
    near(promised, alone + 2 * own);
    near(remaining(&first).await, alone + own);
    let (high, promised) = add(b"fourth", 5, Some(7_200_000)).await;
    near(promised, own);
    let (sooner, promised) = add(b"fifth.", 5, Some(3_600_000)).await;
    near(promised, own);
    near(remaining(&high).await, 2 * own);
    near(remaining(&first).await, alone + 3 * own);
    near(remaining(&low).await, alone + 4 * own);
    for video in [&first, &equal, &low, &high, &sooner] {
        theatre.library.cancel(&video.id).await.unwrap();
    }
    theatre.close().await;
}

#[tokio::test]
async fn a_task_has_the_time_to_copy_a_large_source() {
    let theatre = Theatre::open().await;
    theatre.stage.hold_encodes();
    let mut limits = Vec::new();
    for size in [1_000, 5_001_000] {
        let source = theatre.upload(&vec![7; size]).await;
        let video = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
        theatre.planned(&video).await;
        let tasks = theatre.client.workflow_tasks(video.workflow_id().unwrap()).await.unwrap();
        let encode = tasks.iter().find(|task| task.kind == Encode::KIND).unwrap();
        let terms = theatre.client.task(encode.id).detail().await.unwrap().terms;
        limits.push(terms.timeout_ms.unwrap());
        theatre.library.cancel(&video.id).await.unwrap();
    }
    assert_eq!(limits[1], limits[0] + 5_000, "a second for each million bytes");
    theatre.close().await;
}

#[tokio::test]
async fn what_is_not_there_is_said_so() {
    let theatre = Theatre::open().await;
    let library: &Library = &theatre.library;
    let nothing = BlobId::of(b"never uploaded");
    let problem = library.add(new_video(nothing, Recipe::default())).await.unwrap_err().to_string();
    assert!(
        problem.starts_with("source") && problem.contains("upload the file first"),
        "{problem}"
    );
    for id in ["nothing", "../library", ""] {
        let found = library.view(&super::VideoId(id.to_owned())).await;
        assert!(matches!(found, Err(LibraryError::NoVideo(_))), "{id}");
    }
    let wrong = Recipe { crf: 99, ..Recipe::default() };
    let problem = library.add(new_video(nothing, wrong)).await.unwrap_err().to_string();
    assert!(problem.starts_with("crf"), "{problem}");
    assert!(library.list(None, &Filter::default(), 9).await.unwrap().0.is_empty());
    assert!(library.objects().record_names("video").await.unwrap().is_empty(), "nothing half done");
    theatre.close().await;
}

#[tokio::test]
async fn a_record_without_its_workflow_is_started_by_the_next_addition() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"orphan").await;
    let donor = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.finished(&donor).await;
    // As if the process had died between the record and the submission.
    let mut orphan = donor.clone();
    orphan.added_at += 1;
    orphan.workflow = super::add::workflow_of(&orphan.id, orphan.added_at).to_string();
    library.objects().put_record(&orphan.id.record(), &orphan).await.unwrap();
    let added = library.add(new_video(source, ladder(&[480]))).await.unwrap();
    assert!(added.known);
    assert_eq!(theatre.finished(&added.video).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_video_of_many_chunks_is_joined_by_one_edge() {
    let theatre = Theatre::open().await;
    theatre.stage.hold_encodes();
    let source = theatre.upload(LONG).await;
    let video = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    let tasks = theatre.client.workflow_tasks(video.workflow_id().unwrap()).await.unwrap();
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for task in &tasks {
        *kinds.entry(task.kind.as_str()).or_default() += 1;
    }
    let encodes = kinds.remove("video.encode").unwrap();
    assert!(encodes > LONG_CHUNKS / 2, "{encodes}");
    let others: u64 = kinds.values().sum();
    assert!(others < 20, "nothing but one of each sort: {kinds:?}");
    let mux = TaskId::from_key(&format!("{}/mux/0", video.workflow));
    let mux = theatre.client.task(mux).detail().await.unwrap();
    assert!(mux.terms.after.is_empty() && mux.terms.after_groups.len() == 1);
    // The sound may be done already; the encodes are held.
    let wait = mux.summary.wait_text.unwrap();
    let told = [encodes, encodes + 1].map(|open| {
        let open =
            if open == 1 { "1 task is open".into() } else { format!("{open} tasks are open") };
        format!("waits for the group `streams`; {open} in it")
    });
    assert!(told.contains(&wait.to_string()), "{wait}");
    theatre.library.cancel(&video.id).await.unwrap();
    theatre.stage.release_encodes(1);
    theatre.close().await;
}
