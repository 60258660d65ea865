//! What goes after a removal, and above all what does not, whenever something else happens.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use divvy::objects::{Blob, BlobId};

use super::stage::{Theatre, new_video};
use super::{Library, LibraryError, Video, VideoState, estimate, ladder};
use crate::keys::Key;
use crate::library::collect::Collected;
use crate::library::notes::{Leftovers, NOTES, Note};
use crate::library::{Sweep, VideoId};
use crate::recipe::{Recipe, SubtitleFile};
use crate::results;

/// Collects long after everything was last used.
async fn collect(theatre: &Theatre) -> Collected {
    theatre.age_blobs();
    theatre.library.collect(Leftovers::default(), false).await.unwrap()
}

/// A library that knows nothing but what is recorded, as after a restart.
fn opened_anew(theatre: &Theatre) -> Library {
    Library::new(theatre.client.clone(), theatre.library.objects().clone())
}

/// How many files of a video are not there.
async fn missing(theatre: &Theatre, id: &VideoId) -> usize {
    let manifest = theatre.library.manifest(id).await.unwrap().unwrap();
    manifest.files.iter().filter(|file| !theatre.has(file.blob)).count()
}

async fn notes(theatre: &Theatre) -> usize {
    theatre.library.objects().record_names(NOTES).await.unwrap().len()
}

async fn made(theatre: &Theatre, source: BlobId, recipe: Recipe) -> Video {
    let video = theatre.library.add(new_video(source, recipe)).await.unwrap().video;
    let made = theatre.finished(&video).await.video;
    assert_eq!(made.state, VideoState::Ready);
    made
}

#[tokio::test]
async fn removing_keeps_what_others_use_and_nothing_else() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"shared").await;
    let mut ids = Vec::new();
    for heights in [&[480][..], &[720, 480], &[720]] {
        let video = library.add(new_video(source, ladder(heights))).await.unwrap().video;
        theatre.finished(&video).await;
        ids.push(video.id);
    }
    let mut before = theatre.blobs();
    for (place, left) in [(0, &ids[1..]), (1, &ids[2..])] {
        assert!(library.remove(&ids[place]).await.unwrap() > 0, "its manifest at least");
        assert_eq!(theatre.blobs(), before, "what goes, goes later");
        let collected = collect(&theatre).await;
        assert_eq!((collected.removed, collected.waiting), (1, 0));
        assert_eq!(collected.gone.len(), before - theatre.blobs());
        assert!(!collected.gone.is_empty() && theatre.has(source));
        before = theatre.blobs();
        for id in left {
            assert_eq!(missing(&theatre, id).await, 0);
        }
    }
    let most = library.remove(&ids[2]).await.unwrap();
    let bytes: u64 = collect(&theatre).await.gone.iter().map(|blob| blob.size).sum();
    assert_eq!((theatre.blobs(), bytes), (0, most), "it was the last");
    let left = library.objects().record_names("video").await.unwrap();
    assert_eq!(left.iter().map(|name| name.as_str()).collect::<Vec<_>>(), [estimate::RECORD]);
    assert!(matches!(library.view(&ids[2]).await, Err(LibraryError::NoVideo(_))));
    assert!(matches!(library.remove(&ids[2]).await, Err(LibraryError::NoVideo(_))));
    theatre.close().await;
}

#[tokio::test]
async fn a_file_of_two_videos_goes_with_the_second() {
    let theatre = Theatre::open().await;
    let file = theatre.upload(b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n").await;
    let subtitle_files = vec![SubtitleFile { language: "en".into(), file }];
    let recipe = Recipe { subtitle_files, ..ladder(&[480]) };
    let sources = [theatre.upload(b"one").await, theatre.upload(b"two").await];
    let first = made(&theatre, sources[0], recipe.clone()).await;
    let second = made(&theatre, sources[1], recipe).await;
    theatre.library.remove(&first.id).await.unwrap();
    collect(&theatre).await;
    assert!(!theatre.has(sources[0]) && theatre.has(sources[1]) && theatre.has(file));
    theatre.library.remove(&second.id).await.unwrap();
    collect(&theatre).await;
    assert_eq!((theatre.blobs(), notes(&theatre).await), (0, 0));
    theatre.close().await;
}

#[tokio::test]
async fn a_video_that_is_added_before_the_round_keeps_its_source_and_finds_the_results() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"again").await;
    let first = made(&theatre, source, ladder(&[480])).await;
    library.remove(&first.id).await.unwrap();
    theatre.stage.hold_encodes();
    let encodes = theatre.encodes().len();
    let second = library.add(new_video(source, ladder(&[720, 480]))).await.unwrap().video;
    assert_ne!(second.id, first.id);
    theatre.planned(&second).await;
    // A result that is recorded after the removal, as others before it.
    theatre.stage.release_encodes(1);
    theatre.stage.encode_ended().await;
    let results = library.results_of(source).await.unwrap();
    let collected = collect(&theatre).await;
    assert_eq!(
        (collected.removed, collected.waiting, collected.read),
        (0, 1, 0),
        "no pass in vain"
    );
    // More may be recorded meanwhile.
    let kept = library.results_of(source).await.unwrap();
    assert!(results.iter().all(|result| kept.contains(result)), "{results:?} became {kept:?}");
    theatre.stage.release_encodes(100);
    assert_eq!(theatre.finished(&second).await.video.state, VideoState::Ready);
    let rungs = |task: &crate::tasks::Encode| task.rungs.len();
    let since: usize = theatre.encodes()[encodes..].iter().map(rungs).sum();
    assert_eq!(since, 2, "the new rung only");
    let collected = collect(&theatre).await;
    assert_eq!((collected.removed, notes(&theatre).await), (1, 0));
    assert!(missing(&theatre, &second.id).await == 0 && theatre.has(source));
    library.remove(&second.id).await.unwrap();
    collect(&theatre).await;
    assert_eq!(theatre.blobs(), 0);
    theatre.close().await;
}

#[tokio::test]
async fn a_source_that_was_just_stored_keeps_its_results_for_who_plans_with_them() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"fetched by someone").await;
    let video = made(&theatre, source, ladder(&[480])).await;
    library.remove(&video.id).await.unwrap();
    let results = library.results_of(source).await.unwrap();
    theatre.age_blobs();
    // As the task does that fetches it again, before the record of its video says so.
    theatre.upload(b"fetched by someone").await;
    let blobs = theatre.blobs();
    let collected = library.collect(Leftovers::default(), false).await.unwrap();
    assert_eq!((collected.removed, collected.waiting, theatre.blobs()), (0, 1, blobs));
    assert_eq!(library.results_of(source).await.unwrap(), results);
    assert_eq!(collect(&theatre).await.removed, 1);
    assert_eq!((theatre.blobs(), notes(&theatre).await), (0, 0));
    theatre.close().await;
}

#[tokio::test]
async fn what_only_a_task_knows_stays() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_verify();
    let source = theatre.upload(b"slow").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.verify_begun().await;
    let package = divvy::types::TaskId::from_key(&format!("{}/package/0", video.workflow));
    let result = theatre.client.task(package).detail().await.unwrap().result.unwrap();
    let manifest = result.parse::<crate::tasks::Written>().unwrap().manifest;
    // A list that this manifest names and that a removed video had too.
    let other = theatre.upload(b"of a removed video alone").await;
    let note = Note { blobs: vec![manifest, other], ..Note::default() };
    library.write_note(note).await.unwrap();
    collect(&theatre).await;
    assert!(theatre.has(manifest) && !theatre.has(other));
    theatre.stage.release_verify();
    assert_eq!(theatre.finished(&video).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_round_goes_on_while_another_video_has_tasks_that_are_not_there_yet() {
    let theatre = Theatre::open().await;
    let removed = made(&theatre, theatre.upload(b"removed").await, ladder(&[480])).await;
    theatre.library.remove(&removed.id).await.unwrap();
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"has just begun").await;
    let begun = theatre.library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&begun).await;
    let collected = collect(&theatre).await;
    assert_eq!((collected.removed, notes(&theatre).await), (1, 0));
    theatre.stage.release_encodes(100);
    assert_eq!(theatre.finished(&begun).await.video.state, VideoState::Ready);
    assert_eq!(missing(&theatre, &begun.id).await, 0);
    theatre.close().await;
}

#[tokio::test]
async fn a_failed_video_keeps_the_results_of_its_source_because_it_may_be_resumed() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"resumed").await;
    let removed = made(&theatre, source, ladder(&[480])).await;
    let failed = made(&theatre, source, ladder(&[720])).await;
    let mut record = failed.clone();
    (record.state, record.plan, record.manifest) = (VideoState::Failed, None, None);
    library.objects().put_record(&failed.id.record(), &record).await.unwrap();
    library.remove(&removed.id).await.unwrap();
    let results = library.results_of(source).await.unwrap();
    library.view(&failed.id).await.unwrap();
    assert_eq!(collect(&theatre).await.waiting, 1);
    assert_eq!(library.results_of(source).await.unwrap(), results);
    library.remove(&failed.id).await.unwrap();
    assert_eq!(collect(&theatre).await.removed, 2);
    assert!(library.results_of(source).await.unwrap().is_empty() && !theatre.has(source));
    theatre.close().await;
}

#[tokio::test]
async fn a_removal_that_was_killed_after_its_note_leaves_the_video_whole() {
    let theatre = Theatre::open().await;
    let source = theatre.upload(b"half removed").await;
    let video = made(&theatre, source, ladder(&[480])).await;
    let note = theatre.library.note_of(&video, vec![source]).await.unwrap();
    theatre.library.write_note(note).await.unwrap();
    let (blobs, results) = (theatre.blobs(), theatre.library.results_of(source).await.unwrap());
    theatre.age_blobs();
    let library = opened_anew(&theatre);
    let collected = library.collect(Leftovers::default(), false).await.unwrap();
    assert!(collected.gone.is_empty() && collected.results == 0);
    assert_eq!((theatre.blobs(), notes(&theatre).await), (blobs, 0));
    assert_eq!(library.results_of(source).await.unwrap(), results);
    library.remove(&video.id).await.unwrap();
    theatre.age_blobs();
    library.collect(Leftovers::default(), false).await.unwrap();
    assert_eq!(theatre.blobs(), 0);
    theatre.close().await;
}

#[tokio::test]
async fn a_round_that_is_killed_at_any_moment_goes_on_and_takes_nothing_of_others() {
    let theatre = Theatre::open().await;
    let (source, other) = (theatre.upload(b"killed").await, theatre.upload(b"stays").await);
    let alone = theatre.upload(b"of one video").await;
    let removed = [
        made(&theatre, alone, ladder(&[480])).await,
        made(&theatre, source, ladder(&[480])).await,
        made(&theatre, source, ladder(&[720])).await,
    ];
    let kept = made(&theatre, source, ladder(&[720, 480])).await;
    let apart = made(&theatre, other, ladder(&[480])).await;
    for video in &removed {
        theatre.library.remove(&video.id).await.unwrap();
    }
    // Each round dies a little later than the one before it, after which the server starts again.
    let mut deaths = 0;
    for steps in 0.. {
        theatre.age_blobs();
        let library = opened_anew(&theatre);
        let has_ended = {
            let mut round = pin!(library.collect(Leftovers::default(), false));
            let mut left = steps;
            poll_fn(|context| match round.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done.unwrap())),
                Poll::Pending if left == 0 => Poll::Ready(None),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await
        };
        for video in [&kept, &apart] {
            assert_eq!(missing(&theatre, &video.id).await, 0, "after {steps} steps");
        }
        if has_ended.is_some() && notes(&theatre).await == 0 {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 0);
    theatre.library.remove(&kept.id).await.unwrap();
    theatre.library.remove(&apart.id).await.unwrap();
    collect(&theatre).await;
    assert_eq!((theatre.blobs(), notes(&theatre).await), (0, 0), "nothing was forgotten");
    theatre.close().await;
}

#[tokio::test]
async fn a_video_that_is_added_at_any_moment_of_a_round_is_whole() {
    let theatre = Theatre::open().await;
    let mut refused = 0;
    for (number, steps) in (0..60_u32).step_by(3).enumerate() {
        let bytes = format!("raced {number}").into_bytes();
        let source = theatre.upload(&bytes).await;
        let first = made(&theatre, source, ladder(&[480])).await;
        theatre.library.remove(&first.id).await.unwrap();
        theatre.age_blobs();
        let new = new_video(source, ladder(&[720, 480]));
        let library = theatre.library.clone();
        let mut round = pin!(theatre.library.collect(Leftovers::default(), false));
        let (mut left, mut adding) = (steps, None);
        poll_fn(|context| {
            if left == 0 && adding.is_none() {
                let (library, new) = (library.clone(), new.clone());
                adding = Some(tokio::spawn(async move { library.add(new).await }));
            }
            left = left.saturating_sub(1);
            round.as_mut().poll(context).map(Result::unwrap)
        })
        .await;
        let adding = adding.unwrap_or_else(|| tokio::spawn(async move { library.add(new).await }));
        let added = match adding.await.unwrap() {
            Err(LibraryError::Bad { field: "source", .. }) => {
                refused += 1;
                continue;
            }
            added => added.unwrap().video,
        };
        assert_eq!(theatre.finished(&added).await.video.state, VideoState::Ready, "{steps}");
        collect(&theatre).await;
        assert!(missing(&theatre, &added.id).await == 0 && theatre.has(source), "{steps}");
    }
    assert!(refused < 20, "some are in time");
    theatre.close().await;
}

#[tokio::test]
async fn what_a_task_recorded_after_its_video_was_gone_is_found() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"too late").await;
    let video = made(&theatre, source, ladder(&[480])).await;
    library.remove(&video.id).await.unwrap();
    collect(&theatre).await;
    let late = theatre.upload(b"a late chunk").await;
    let key = Key::of("encode", source, &"late");
    let blob = Blob { id: late, size: 12 };
    results::commit(library.objects(), source, &key, blob).await.unwrap();
    theatre.age_blobs();
    let swept = library.sweep(Sweep::default()).await.unwrap();
    assert_eq!((swept.results, swept.blobs, theatre.blobs()), (1, 1, 0));
    theatre.close().await;
}

#[tokio::test]
async fn a_thousand_removals_cost_one_pass() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let model = made(&theatre, theatre.upload(b"model").await, ladder(&[480])).await;
    let mut ids = Vec::new();
    for number in 0..1_000_u32 {
        let source = theatre.upload(&number.to_le_bytes()).await;
        let id = VideoId(format!("many{number:08}"));
        let source = Some(Blob { id: source, size: 4 });
        let (plan, manifest) = (None, None);
        let video = Video { id: id.clone(), source, plan, manifest, ..model.clone() };
        library.objects().put_record(&id.record(), &video).await.unwrap();
        ids.push(id);
    }
    let library = opened_anew(&theatre);
    library.remove(&ids[0]).await.unwrap();
    theatre.age_blobs();
    let one = library.collect(Leftovers::default(), false).await.unwrap();
    assert_eq!((one.removed, one.gone.len()), (1, 1));
    for id in &ids[1..] {
        library.remove(id).await.unwrap();
    }
    theatre.age_blobs();
    let many = library.collect(Leftovers::default(), false).await.unwrap();
    assert_eq!((many.removed, many.gone.len(), notes(&theatre).await), (999, 999, 0));
    assert_eq!(many.read, one.read, "the same pass, and no other");
    assert_eq!(missing(&theatre, &model.id).await, 0);
    theatre.close().await;
}
