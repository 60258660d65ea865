//! Uploads on a real disk.

use std::time::SystemTime;

use super::*;

fn uploads() -> (tempfile::TempDir, Uploads) {
    let place = tempfile::tempdir().unwrap();
    let uploads = Uploads::open(&Folder::open(place.path()).unwrap()).unwrap();
    (place, uploads)
}

fn of_length(length: u64) -> NewUpload {
    NewUpload { length, metadata: "filename YQ==".into(), expected: None }
}

fn files(uploads: &Uploads) -> usize {
    fs::read_dir(uploads.folder.root().join("uploads")).unwrap().count()
}

#[test]
fn pieces_become_one_blob_and_the_end_can_be_asked_for_again() {
    let (_place, uploads) = uploads();
    let id = uploads.create(of_length(6)).unwrap().id;
    for (offset, piece) in [(0, b"ab"), (2, b"cd"), (4, b"ef")] {
        assert_eq!(uploads.upload(id).unwrap().offset, offset);
        let mut appending = uploads.append(id, offset).unwrap();
        appending.write(piece).unwrap();
        assert_eq!(appending.finish().unwrap().offset, offset + 2);
    }
    let done = uploads.upload(id).unwrap();
    let blob = Blob { id: BlobId::of(b"abcdef"), size: 6 };
    assert_eq!((done.blob, done.offset), (Some(blob), 6));
    assert_eq!(done.metadata, "filename YQ==");
    assert_eq!(uploads.folder.verify(blob.id).unwrap(), blob);
    assert!(matches!(uploads.append(id, 6), Err(Error::UploadEnded(_))));
    assert!(matches!(uploads.append(id, 5), Err(Error::WrongOffset { expected: 6, .. })));
    assert!(uploads.hashes().is_empty());
}

#[test]
fn what_arrived_is_kept_over_a_restart_and_hashed_again() {
    let (place, first) = uploads();
    let id = first.create(of_length(4)).unwrap().id;
    let mut appending = first.append(id, 0).unwrap();
    appending.write(b"ab").unwrap();
    drop(appending);
    drop(first);
    let second = Uploads::open(&Folder::open(place.path()).unwrap()).unwrap();
    let mut appending = second.append(id, 2).unwrap();
    assert_eq!((appending.offset(), appending.missing()), (2, 2));
    appending.write(b"cd").unwrap();
    assert_eq!(appending.finish().unwrap().blob.unwrap().id, BlobId::of(b"abcd"));
}

#[test]
fn a_death_between_the_last_byte_and_the_name_is_made_good() {
    let (place, uploads) = uploads();
    let id = uploads.create(of_length(2)).unwrap().id;
    fs::write(uploads.data_path(id), b"ab").unwrap();
    let blob = Some(BlobId::of(b"ab"));
    uploads.write_note(id, &Note { new: of_length(2), blob }).unwrap();
    let uploads = Uploads::open(&Folder::open(place.path()).unwrap()).unwrap();
    assert_eq!(uploads.upload(id).unwrap().blob.map(|blob| blob.id), blob);
    assert_eq!(uploads.folder.verify(BlobId::of(b"ab")).unwrap().size, 2);
}

#[test]
fn the_rest_of_a_blob_begins_when_its_upload_is_finished() {
    let (_place, uploads) = uploads();
    let id = uploads.create(of_length(2)).unwrap().id;
    fs::write(uploads.data_path(id), b"ab").unwrap();
    let blob = Some(BlobId::of(b"ab"));
    uploads.write_note(id, &Note { new: of_length(2), blob }).unwrap();
    // Whoever received the last byte died, long ago.
    let long_ago = SystemTime::now() - 2 * UPLOAD_LIFE;
    File::open(uploads.data_path(id)).unwrap().set_modified(long_ago).unwrap();
    assert!(uploads.upload(id).unwrap().blob.is_some());
    assert!(uploads.folder.rested_blobs(UPLOAD_LIFE).unwrap().is_empty());
}

#[test]
fn a_wrong_offset_a_second_sender_and_too_much_data_are_refused() {
    let (_place, uploads) = uploads();
    let id = uploads.create(of_length(3)).unwrap().id;
    let mut appending = uploads.append(id, 0).unwrap();
    assert!(matches!(uploads.append(id, 0), Err(Error::UploadBusy(_))));
    assert!(matches!(uploads.remove(id), Err(Error::UploadBusy(_))));
    appending.write(b"ab").unwrap();
    assert!(matches!(appending.write(b"cd"), Err(Error::UploadTooLong { length: 3, .. })));
    drop(appending);
    for found in [0, 1, 3] {
        assert!(matches!(uploads.append(id, found), Err(Error::WrongOffset { expected: 2, .. })));
    }
    uploads.remove(id).unwrap();
    assert!(matches!(uploads.upload(id), Err(Error::NoUpload(_))));
    assert!(matches!(uploads.append(id, 0), Err(Error::NoUpload(_))));
    assert_eq!(files(&uploads), 0);
}

#[test]
fn data_that_is_not_what_was_announced_is_thrown_away() {
    let (_place, uploads) = uploads();
    let expected = BlobId::of(b"abc");
    let new = NewUpload { length: 3, metadata: String::new(), expected: Some(expected) };
    let id = uploads.create(new.clone()).unwrap().id;
    let mut appending = uploads.append(id, 0).unwrap();
    appending.write(b"abX").unwrap();
    assert!(matches!(appending.finish(), Err(Error::Mismatch { .. })));
    assert_eq!((files(&uploads), uploads.folder.blobs().count()), (0, 0));
    let fetched = UploadId::of(expected);
    uploads.create_as(fetched, new.clone()).unwrap();
    uploads.append(fetched, 0).unwrap().write(b"ab").unwrap();
    assert_eq!(uploads.create_as(fetched, new).unwrap().offset, 2);
}

#[test]
fn an_upload_that_rests_is_given_up_and_one_at_work_is_not() {
    let (_place, uploads) = uploads();
    let (resting, working) = (
        uploads.create(of_length(9)).unwrap().id,
        uploads.create(NewUpload { length: 8, ..NewUpload::default() }).unwrap().id,
    );
    let young = uploads.create(of_length(7)).unwrap().id;
    let _held = uploads.append(working, 0).unwrap();
    let long_ago = SystemTime::now() - 2 * UPLOAD_LIFE;
    for id in [resting, working] {
        for path in [uploads.data_path(id), uploads.note_path(id)] {
            File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
    }
    fs::write(uploads.data_path(young), b"abc").unwrap();
    assert_eq!(uploads.resting(UPLOAD_LIFE).unwrap(), [(resting, 0)]);
    assert!(uploads.upload(resting).is_ok(), "a look changes nothing");
    assert_eq!(uploads.expire(UPLOAD_LIFE).unwrap(), [(resting, 0)]);
    assert!(matches!(uploads.upload(resting), Err(Error::NoUpload(_))));
    assert!(uploads.upload(working).is_ok() && uploads.upload(young).is_ok());
}

#[test]
fn sizes_have_limits_and_an_empty_upload_is_an_empty_blob() {
    let (_place, uploads) = uploads();
    let error = uploads.create(of_length(UPLOAD_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.code(), "upload_too_large");
    let metadata = "x".repeat(UPLOAD_METADATA_MAX + 1);
    let error = uploads.create(NewUpload { metadata, ..NewUpload::default() }).unwrap_err();
    assert_eq!(error.code(), "metadata_too_large");
    let id = uploads.create(of_length(0)).unwrap().id;
    let done = uploads.append(id, 0).unwrap().finish().unwrap();
    assert_eq!(done.blob.unwrap().id, BlobId::of(b""));
}

#[test]
fn what_is_kept_free_for_tasks_is_not_taken_by_blobs() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let uploads = Uploads::open(&folder).unwrap();
    let id = uploads.create(of_length(4)).unwrap().id;
    let greedy = Uploads::open(&folder.clone().leaving_free(u64::MAX)).unwrap();
    let mut appending = greedy.append(id, 0).unwrap();
    assert!(matches!(appending.write(b"abcd"), Err(Error::Full { .. })));
    drop(appending);
    assert_eq!(uploads.upload(id).unwrap().offset, 0, "nothing of it was taken");
    assert!(matches!(greedy.create(of_length(1)), Err(Error::Full { .. })));
    let full = folder.clone().leaving_free(u64::MAX);
    assert!(matches!(full.put_blob(&mut &b"abcd"[..]), Err(Error::Full { .. })));
    assert!(folder.put_blob(&mut &b"abcd"[..]).is_ok());
    assert!(full.put_blob_as(BlobId::of(b"abcd"), &mut &b""[..]).is_ok(), "it is here already");
}
