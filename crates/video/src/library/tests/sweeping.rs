//! What goes by itself, and above all what does not.

use std::time::Duration;

use divvy::types::{Payload, TaskId, TaskSpec};
use divvy_objects::{NewUpload, Uploads};

use super::stage::{Theatre, new_video};
use super::{LibraryError, VideoState, ladder};
use crate::library::{REST, Sweep, Swept, Video, now};

const LOOK: Sweep = Sweep { dry_run: true, older_than_ms: 86_400_000 };

/// Makes a video look as if it had ended two days ago.
async fn backdate(theatre: &Theatre, video: &Video) {
    let objects = theatre.library.objects();
    let mut record = objects.record::<Video>(&video.id.record()).await.unwrap().unwrap().value;
    let two_days = u64::try_from((2 * REST).as_micros()).unwrap();
    record.ended_at = Some(now() - two_days);
    objects.put_record(&video.id.record(), &record).await.unwrap();
    // The library has to see it: it does not expect that what has ended changes.
    theatre.library.view(&video.id).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_was_never_added_goes_after_its_rest_and_not_before() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let never_added = theatre.upload(b"never added").await;
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default());
    theatre.age_blobs();
    let fresh = theatre.upload(b"just uploaded").await;

    let look = library.sweep(LOOK).await.unwrap();
    assert_eq!((look.dry_run, look.blobs, look.bytes), (true, 1, 11));
    assert_eq!(look.items.iter().map(|blob| blob.id).collect::<Vec<_>>(), [never_added]);
    assert!(theatre.has(never_added), "a look changes nothing");
    let swept = library.sweep(Sweep::default()).await.unwrap();
    assert_eq!(swept, Swept { dry_run: false, ..look });
    assert!(!theatre.has(never_added) && theatre.has(fresh));

    let too_soon = Sweep { dry_run: false, older_than_ms: 599_999 };
    let problem = library.sweep(too_soon).await.unwrap_err();
    assert!(matches!(problem, LibraryError::Bad { field: "older_than_ms", .. }), "{problem}");
    theatre.close().await;
}

#[tokio::test]
async fn half_an_upload_goes_when_nobody_went_on_with_it() {
    let theatre = Theatre::open().await;
    let uploads = Uploads::open(theatre.folder()).unwrap();
    let begin = || {
        let id = uploads.create(NewUpload { length: 9, ..NewUpload::default() }).unwrap().id;
        uploads.append(id, 0).unwrap().write(b"half").unwrap();
        id
    };
    let (left, going_on) = (begin(), begin());
    let folder = theatre.folder().root().join("uploads");
    let long_ago = std::time::SystemTime::now() - 2 * REST;
    for ending in ["part", "json"] {
        let file = std::fs::File::open(folder.join(format!("{left}.{ending}"))).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let look = theatre.library.sweep(LOOK).await.unwrap();
    assert_eq!((look.uploads, look.bytes, look.blobs), (1, 4, 0));
    assert!(uploads.upload(left).is_ok());
    theatre.library.sweep(Sweep::default()).await.unwrap();
    assert!(uploads.upload(left).is_err() && uploads.upload(going_on).is_ok());
    theatre.close().await;
}

#[tokio::test]
async fn nothing_that_a_video_or_any_record_uses_is_swept() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let source = theatre.upload(b"kept").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.finished(&video).await;
    let of_others = theatre.upload(b"of another program").await;
    let note = format!("see /api/v1/blobs/{of_others}");
    library.objects().put_record("team/notes", &[note]).await.unwrap();
    theatre.age_blobs();
    let before = theatre.blobs();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default());
    assert_eq!(theatre.blobs(), before);
    assert!(library.add(new_video(source, ladder(&[480]))).await.unwrap().known);
    theatre.close().await;
}

#[tokio::test]
async fn what_a_running_workflow_has_made_stays_however_long_it_takes() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_verify();
    let source = theatre.upload(b"slow").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.verify_begun().await;
    // The manifest is named by nothing but the result of a task.
    assert_eq!(library.view(&video.id).await.unwrap().video.manifest, None);
    theatre.age_blobs();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default());
    theatre.stage.release_verify();
    let view = theatre.finished(&video).await;
    assert_eq!(view.video.state, VideoState::Ready);
    for file in library.manifest(&video.id).await.unwrap().unwrap().files {
        assert!(theatre.has(file.blob), "{}", file.path);
    }
    theatre.close().await;
}

#[tokio::test]
async fn what_a_waiting_task_of_another_program_names_stays_until_it_has_ended() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let (named, hinted) = (theatre.upload(b"named").await, theatre.upload(b"hinted").await);
    let document = serde_json::json!({ "more": hinted });
    let document = theatre.upload(document.to_string().as_bytes()).await;
    let payload = Payload::from_value(&[named, document]).unwrap();
    let id = TaskId::from_key("waits for a worker");
    let spec = TaskSpec { payload, ..TaskSpec::new(id, "nobody.serves.this") };
    theatre.client.submit_specs(vec![spec]).await.unwrap();
    theatre.age_blobs();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default());
    theatre.client.cancel(id, None).await.unwrap();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap().blobs, 3);
    assert!(![named, hinted, document].into_iter().any(|blob| theatre.has(blob)));
    theatre.close().await;
}

#[tokio::test]
async fn a_cancelled_video_keeps_what_was_done_for_a_day_and_its_source_for_good() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"given up").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.release_encodes(1);
    theatre.stage.encode_ended().await;
    library.cancel(&video.id).await.unwrap();
    theatre.ended(&video).await;
    theatre.age_blobs();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default(), "it may go on");

    backdate(&theatre, &video).await;
    let look = library.sweep(LOOK).await.unwrap();
    assert!(look.results > 0 && look.blobs > 0, "{look:?}");
    let swept = library.sweep(Sweep::default()).await.unwrap();
    assert_eq!(swept, Swept { dry_run: false, ..look });
    assert_eq!((theatre.blobs(), theatre.has(source)), (1, true));
    assert!(library.objects().record_names("video/results").await.unwrap().is_empty());

    theatre.stage.release_encodes(100);
    let done = theatre.encodes().len();
    let again = library.add(new_video(source, ladder(&[480]))).await.unwrap();
    assert_eq!(again.video.id, video.id);
    assert_eq!(theatre.finished(&again.video).await.video.state, VideoState::Ready);
    assert_eq!(theatre.encodes().len(), done + 2, "made anew");
    theatre.close().await;
}

#[tokio::test]
async fn results_stay_while_a_video_is_made_from_their_source() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"twice").await;
    let first = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&first).await;
    theatre.stage.release_encodes(1);
    theatre.stage.encode_ended().await;
    library.cancel(&first.id).await.unwrap();
    theatre.ended(&first).await;
    backdate(&theatre, &first).await;
    // The second one finds the chunk that the first one made, and waits with the others.
    let second = library.add(new_video(source, ladder(&[720, 480]))).await.unwrap().video;
    theatre.planned(&second).await;
    theatre.age_blobs();
    assert_eq!(library.sweep(Sweep::default()).await.unwrap(), Swept::default());
    theatre.stage.release_encodes(100);
    assert_eq!(theatre.finished(&second).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_sweep_and_an_addition_at_once_leave_no_video_without_its_source() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let (mut added, mut refused) = (0, 0);
    for number in 0..20_u32 {
        let source = theatre.upload(&number.to_le_bytes()).await;
        theatre.age_blobs();
        let add = async {
            // Every other time the sweep is first.
            if number % 2 == 1 {
                tokio::task::yield_now().await;
            }
            library.add(new_video(source, ladder(&[480]))).await
        };
        match tokio::join!(add, library.sweep(Sweep::default())) {
            (Ok(_), Ok(_)) => {
                assert!(theatre.has(source));
                added += 1;
            }
            (Err(LibraryError::Bad { field: "source", .. }), Ok(_)) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(added + refused, 20);
    assert!(added > 0);
    theatre.close().await;
}

#[tokio::test]
async fn what_a_removal_leaves_is_swept_later() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    let (source, other) = (theatre.upload(b"removed").await, theatre.upload(b"busy").await);
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.finished(&video).await;
    theatre.stage.hold_encodes();
    let busy = library.add(new_video(other, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&busy).await;
    assert!(library.remove(&video.id).await.unwrap() > 0);
    let swept = library.sweep(Sweep::default()).await.unwrap();
    assert_eq!(swept, Swept { waiting: 1, ..Swept::default() }, "all of it was just written");
    assert!(theatre.has(source));
    theatre.age_blobs();
    let look = library.sweep(LOOK).await.unwrap();
    assert!(look.blobs > 2 && look.removed == 1 && look.waiting == 0 && theatre.has(source));
    let swept = library.sweep(Sweep::default()).await.unwrap();
    assert_eq!(swept, Swept { dry_run: false, ..look });
    assert!(!theatre.has(source) && theatre.has(other));
    theatre.stage.release_encodes(100);
    assert_eq!(theatre.finished(&busy).await.video.state, VideoState::Ready);
    theatre.close().await;
}

#[tokio::test]
async fn a_server_removes_by_itself_what_a_cancelled_video_left_and_nothing_of_others() {
    let theatre = Theatre::open().await;
    let library = &theatre.library;
    theatre.stage.hold_encodes();
    let source = theatre.upload(b"given up").await;
    let video = library.add(new_video(source, ladder(&[480]))).await.unwrap().video;
    theatre.planned(&video).await;
    theatre.stage.release_encodes(1);
    theatre.stage.encode_ended().await;
    library.cancel(&video.id).await.unwrap();
    theatre.ended(&video).await;
    let of_others = theatre.upload(b"its name is kept elsewhere").await;
    backdate(&theatre, &video).await;
    theatre.age_blobs();
    let stop = tokio_util::sync::CancellationToken::new();
    let sweeping = tokio::spawn(library.clone().collect_always(Duration::ZERO, stop.clone()));
    let gone = async {
        while theatre.blobs() > 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    stop.cancel();
    sweeping.await.unwrap();
    assert!(theatre.has(source) && theatre.has(of_others));
    theatre.stage.release_encodes(100);
    theatre.close().await;
}
