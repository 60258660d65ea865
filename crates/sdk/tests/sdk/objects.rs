//! Objects at a real server: over HTTP with a cache, straight from its folder, and over connections that break.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::support::TestServer;
use divvy::Client;
use divvy::objects::{BlobId, ObjectError, Objects, Reach};
use divvy_objects::{Error as FolderError, Folder};
use divvy_store::MemoryStore;
use futures_util::TryStreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CACHE_BYTES: u64 = 10_000_000;

/// A server with objects, and a place for caches and files.
struct Scene {
    place: tempfile::TempDir,
    folder: Folder,
    server: Option<TestServer>,
}

impl Scene {
    async fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().join("objects")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server =
            TestServer::with_objects(MemoryStore::new(), address, Some(folder.clone())).await;
        Self { place, folder, server: Some(server) }
    }

    fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    /// Objects over HTTP, by way of `address`, with a cache of that name.
    fn remote(&self, address: SocketAddr, cache: &str, cache_bytes: u64) -> Objects {
        let cache = self.place.path().join(cache);
        let reach = Reach { folder: None, cache, cache_bytes };
        Objects::at_server(&Client::new(format!("http://{address}")).unwrap(), reach)
    }

    fn objects(&self) -> Objects {
        self.remote(self.address(), "cache", CACHE_BYTES)
    }

    fn file(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.place.path().join(name);
        fs::write(&path, data).unwrap();
        path
    }

    /// Stops the server and starts another on the same folder and address.
    async fn restart(&mut self) {
        let server = self.server.take().unwrap();
        let address = server.address();
        server.stop().await;
        let folder = Folder::open(self.folder.root()).unwrap();
        self.server =
            Some(TestServer::with_objects(MemoryStore::new(), address, Some(folder)).await);
    }
}

/// Passes connections on, and cuts the first ones after so many bytes in either direction.
struct Cutter {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Bytes that came from the server.
    received: Arc<AtomicU64>,
}

impl Cutter {
    async fn start(to: SocketAddr, cuts: usize, after: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let cut = Arc::new(AtomicUsize::new(0));
        let received = Arc::new(AtomicU64::new(0));
        let (counted, down) = (Arc::clone(&connections), Arc::clone(&received));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let Ok(far) = TcpStream::connect(to).await else { continue };
                tokio::spawn(pass(near, far, Arc::clone(&down), Arc::clone(&cut), cuts, after));
            }
        });
        Self { address, connections, received }
    }

    fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

async fn pass(
    mut near: TcpStream,
    mut far: TcpStream,
    received: Arc<AtomicU64>,
    cut: Arc<AtomicUsize>,
    cuts: usize,
    after: usize,
) {
    let (mut up, mut down) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    let mut passed = 0;
    loop {
        let count = tokio::select! {
            count = near.read(&mut up) => match count {
                Ok(count @ 1..) if far.write_all(&up[..count]).await.is_ok() => count,
                _ => return,
            },
            count = far.read(&mut down) => match count {
                Ok(count @ 1..) if near.write_all(&down[..count]).await.is_ok() => {
                    received.fetch_add(count as u64, Ordering::Relaxed);
                    count
                }
                _ => return,
            },
        };
        passed += count;
        if passed >= after && cut.load(Ordering::Relaxed) < cuts {
            cut.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

fn data(length: usize, salt: u8) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ salt).collect()
}

fn cached(scene: &Scene, cache: &str) -> usize {
    Folder::attach(scene.place.path().join(cache)).unwrap().blobs().count()
}

#[tokio::test]
async fn blobs_and_records_are_the_same_over_http_as_in_the_folder() {
    let scene = Scene::start().await;
    for objects in [scene.objects(), Objects::in_folder(scene.folder.clone())] {
        let blob = objects.put(b"hello".to_vec()).await.unwrap();
        assert_eq!(blob.id, BlobId::of(b"hello"));
        assert_eq!(objects.blob(blob.id).await.unwrap(), Some(blob));
        assert_eq!(objects.get(blob.id).await.unwrap(), b"hello");
        let absent = BlobId::of(b"absent");
        assert_eq!(objects.blob(absent).await.unwrap(), None);
        assert!(objects.local_file(absent).await.unwrap_err().is_no_blob());
        assert!(objects.open(absent, 0..1).await.unwrap_err().is_no_blob());
        for (part, expected) in [(0..5, "hello"), (1..3, "el"), (4..5, "o"), (2..2, "")] {
            let stream = objects.open(blob.id, part).await.unwrap();
            let steps: Vec<_> = stream.try_collect().await.unwrap();
            assert_eq!(steps.concat(), expected.as_bytes());
        }
        let error = objects.open(blob.id, 3..6).await.unwrap_err();
        assert!(matches!(error, ObjectError::Range { size: 5, .. }), "{error}");

        assert!(objects.create_record("a/b", &1).await.unwrap());
        assert!(!objects.create_record("a/b", &2).await.unwrap());
        let record = objects.record::<u32>("a/b").await.unwrap().unwrap();
        assert_eq!(record.value, 1);
        assert!(objects.replace_record("a/b", record.version, &3).await.unwrap());
        assert!(!objects.replace_record("a/b", record.version, &4).await.unwrap());
        objects.put_record("a/c", &5).await.unwrap();
        let names = objects.record_names("a").await.unwrap();
        assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["a/b", "a/c"]);
        assert_eq!(objects.update_record("a/c", |count: &mut u32| *count += 1).await.unwrap(), 6);
        for name in ["a/b", "a/c"] {
            assert!(objects.remove_record(name).await.unwrap());
            assert!(!objects.remove_record(name).await.unwrap());
        }
        assert!(objects.record::<u32>("a/b").await.unwrap().is_none());
        assert!(objects.remove_blob(blob.id).await.unwrap());
        assert!(!objects.remove_blob(blob.id).await.unwrap());
    }
}

#[tokio::test]
async fn of_many_who_count_at_once_none_is_lost() {
    let scene = Scene::start().await;
    let counting = (0..8).map(|_| {
        let objects = scene.objects();
        tokio::spawn(async move {
            for _ in 0..5 {
                objects.update_record("count", |count: &mut u32| *count += 1).await.unwrap();
            }
        })
    });
    for counting in counting.collect::<Vec<_>>() {
        counting.await.unwrap();
    }
    let count = scene.objects().record::<u32>("count").await.unwrap().unwrap();
    assert_eq!(count.value, 40);
}

#[tokio::test]
async fn a_file_is_sent_once_and_not_again() {
    let scene = Scene::start().await;
    let cutter = Cutter::start(scene.address(), 0, 0).await;
    let objects = scene.remote(cutter.address, "cache", CACHE_BYTES);
    let data = data(300_000, 1);
    let path = scene.file("a.bin", &data);
    let blob = objects.put_file(&path).await.unwrap();
    assert_eq!((blob.id, blob.size), (BlobId::of(&data), 300_000));
    assert_eq!(objects.put_file(&path).await.unwrap(), blob);
    assert_eq!(objects.put(data).await.unwrap(), blob);
    assert_eq!(scene.folder.verify(blob.id).unwrap(), blob);
    let uploads = fs::read_dir(scene.folder.root().join("uploads")).unwrap();
    assert_eq!(uploads.count(), 1, "one note of one finished upload");
    assert!(objects.put_file(Path::new("/does/not/exist")).await.is_err());
}

#[tokio::test]
async fn an_upload_and_a_download_go_on_after_every_cut() {
    let scene = Scene::start().await;
    let data = data(5_000_000, 2);
    let path = scene.file("a.bin", &data);
    let cutter = Cutter::start(scene.address(), 3, 1_500_000).await;
    let blob = scene.remote(cutter.address, "cache", CACHE_BYTES).put_file(&path).await.unwrap();
    assert_eq!(scene.folder.verify(blob.id).unwrap().id, BlobId::of(&data));
    assert!(cutter.connections.load(Ordering::Relaxed) > 3);

    let cutter = Cutter::start(scene.address(), 3, 1_500_000).await;
    let objects = scene.remote(cutter.address, "cache", CACHE_BYTES);
    let file = objects.local_file(blob.id).await.unwrap();
    assert!(fs::read(file.path()).unwrap() == data);
    assert!(cutter.connections.load(Ordering::Relaxed) > 3);
    // From zero after each cut it would be more than 9.5 million.
    assert!(cutter.received() < 6_500_000, "{} bytes", cutter.received());
    let again = objects.local_file(blob.id).await.unwrap();
    assert_eq!(again.path(), file.path());
}

#[tokio::test]
async fn a_download_that_a_dead_worker_began_is_finished_by_the_next_one() {
    let scene = Scene::start().await;
    let data = data(6_000_000, 5);
    let id = scene.folder.put_blob(&mut &data[..]).unwrap().id;
    let cutter = Cutter::start(scene.address(), usize::MAX, 2_500_000).await;
    {
        let first = scene.remote(cutter.address, "cache", CACHE_BYTES);
        let fetching = first.local_file(id);
        tokio::pin!(fetching);
        let folder = scene.place.path().join("cache/uploads");
        let arrived = || {
            let files = fs::read_dir(&folder).into_iter().flatten();
            let sizes = files.map(|file| file.unwrap().metadata().map_or(0, |found| found.len()));
            sizes.max().unwrap_or(0)
        };
        while arrived() < 2_000_000 {
            tokio::select! {
                done = &mut fetching => panic!("{done:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let counter = Cutter::start(scene.address(), 0, 0).await;
    let second = scene.remote(counter.address, "cache", CACHE_BYTES);
    let file = second.local_file(id).await.unwrap();
    assert!(fs::read(file.path()).unwrap() == data);
    assert!(counter.received() < 4_100_000, "{} bytes", counter.received());
}

#[tokio::test]
async fn an_upload_that_was_given_up_goes_on_in_the_next_call_after_a_restart() {
    let mut scene = Scene::start().await;
    let data = data(6_000_000, 3);
    let path = scene.file("film.mp4", &data);
    // The connection is cut and the client goes away, as when a person presses Ctrl-C.
    let cutter = Cutter::start(scene.address(), usize::MAX, 2_500_000).await;
    let first = scene.remote(cutter.address, "cache", CACHE_BYTES);
    {
        let sending = first.upload_file(&path, |_, _| {});
        tokio::pin!(sending);
        let folder = scene.folder.root().join("uploads");
        let arrived = || {
            let files = fs::read_dir(&folder).unwrap();
            let sizes = files.map(|file| file.unwrap().metadata().map_or(0, |found| found.len()));
            sizes.max().unwrap_or(0)
        };
        while arrived() < 1_000_000 {
            tokio::select! {
                done = &mut sending => panic!("{done:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    scene.restart().await;
    let sent = Arc::new(AtomicU64::new(0));
    let cutter_url = cutter.address;
    drop(cutter);
    // The memory of the upload belongs to the address, so the second call uses the same one.
    let again = scene.remote(cutter_url, "cache", CACHE_BYTES);
    let least = Arc::clone(&sent);
    let resumed = again.upload_file(&path, move |done, total| {
        assert!(done <= total);
        least.store(done, Ordering::Relaxed);
    });
    let blob = resumed.await.unwrap();
    assert_eq!(blob.id, BlobId::of(&data));
    assert_eq!(sent.load(Ordering::Relaxed), data.len() as u64);
    assert_eq!(scene.folder.verify(blob.id).unwrap().size, data.len() as u64);
    let notes = fs::read_dir(scene.folder.root().join("uploads")).unwrap();
    assert_eq!(notes.count(), 1, "the same upload went on");
    assert_eq!(fs::read_dir(scene.place.path().join("cache/resume")).unwrap().count(), 0);
}

#[tokio::test]
async fn many_who_want_a_blob_at_once_fetch_it_once() {
    let scene = Scene::start().await;
    let data = data(400_000, 4);
    let id = scene.folder.put_blob(&mut &data[..]).unwrap().id;
    let counter = Cutter::start(scene.address(), 0, 0).await;
    // The slots of two workers of one machine, which share a cache.
    let workers = [(); 2].map(|()| scene.remote(counter.address, "cache", CACHE_BYTES));
    let wanting: Vec<_> = (0..8)
        .map(|slot| {
            let objects = workers[slot % 2].clone();
            tokio::spawn(async move { objects.local_file(id).await.unwrap() })
        })
        .collect();
    for wanting in wanting {
        let file = wanting.await.unwrap();
        assert_eq!(fs::read(file.path()).unwrap().len(), data.len());
    }
    assert!(counter.received() < 500_000, "{} bytes", counter.received());
    assert_eq!(cached(&scene, "cache"), 1);
    let partial = fs::read_dir(scene.place.path().join("cache/uploads")).unwrap();
    assert_eq!(partial.count(), 0);
}

#[tokio::test]
async fn the_cache_evicts_what_was_not_used_for_longest_and_nobody_holds() {
    let scene = Scene::start().await;
    let objects = scene.remote(scene.address(), "small", 250_000);
    let ids: Vec<_> = (0..4)
        .map(|salt| scene.folder.put_blob(&mut &data(100_000, 10 + salt)[..]).unwrap().id)
        .collect();
    let is_cached = |id: BlobId| {
        let folder = Folder::attach(scene.place.path().join("small")).unwrap();
        folder.blob(id).unwrap().is_some()
    };
    let held = objects.local_file(ids[0]).await.unwrap();
    drop(objects.local_file(ids[1]).await.unwrap());
    drop(objects.local_file(ids[2]).await.unwrap());
    assert_eq!([0, 1, 2].map(|at| is_cached(ids[at])), [true, false, true]);
    drop(objects.local_file(ids[3]).await.unwrap());
    assert_eq!([0, 1, 2, 3].map(|at| is_cached(ids[at])), [true, false, false, true]);
    assert!(held.path().exists());
    drop(held);
    let large = scene.folder.put_blob(&mut &data(300_000, 20)[..]).unwrap().id;
    let file = objects.local_file(large).await.unwrap();
    assert!(file.path().exists(), "larger than the cache, and needed all the same");
    assert_eq!(cached(&scene, "small"), 1);
}

#[tokio::test]
async fn whoever_finds_a_blob_keeps_it_from_being_swept() {
    let scene = Scene::start().await;
    let rest = std::time::Duration::from_secs(86_400);
    let data = data(100_000, 6);
    let path = scene.file("a.bin", &data);
    let id = scene.folder.put_blob(&mut &data[..]).unwrap().id;
    let here = Objects::in_folder(scene.folder.clone());
    let there = scene.objects();
    let age = || {
        let file = fs::File::open(scene.folder.blob_path(id)).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * rest).unwrap();
    };
    for step in 0..5 {
        age();
        let found = match step {
            0 => here.blob(id).await.unwrap().unwrap(),
            1 => there.blob(id).await.unwrap().unwrap(),
            2 => here.put(data.clone()).await.unwrap(),
            3 => there.put(data.clone()).await.unwrap(),
            _ => there.put_file(&path).await.unwrap(),
        };
        assert_eq!(found.id, id);
        assert_eq!(here.remove_rested_blob(id, rest).await.unwrap(), None, "step {step}");
    }
    age();
    assert!(matches!(there.rested_blobs(rest).await, Err(ObjectError::Elsewhere)));
    assert_eq!(there.remove_rested_blob(id, rest).await.unwrap(), None, "nobody there knows");
    assert_eq!(here.rested_blobs(rest).await.unwrap().len(), 1);
    assert!(here.remove_rested_blob(id, rest).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_blob_of_the_server_is_refused_and_not_kept() {
    let scene = Scene::start().await;
    let id = scene.folder.put_blob(&mut &b"abc"[..]).unwrap().id;
    fs::write(scene.folder.blob_path(id), b"abX").unwrap();
    let error = scene.objects().local_file(id).await.unwrap_err();
    assert!(matches!(error, ObjectError::Folder(FolderError::Mismatch { .. })), "{error}");
    assert_eq!(cached(&scene, "cache"), 0);
}

#[tokio::test]
async fn the_folder_of_the_server_is_used_directly_and_any_other_is_not() {
    let scene = Scene::start().await;
    let other = Folder::open(scene.place.path().join("other")).unwrap();
    let url = format!("http://{}", scene.address());
    let at = |folder: PathBuf| {
        let cache = scene.place.path().join("cache");
        let reach = Reach { folder: Some(folder), cache, cache_bytes: CACHE_BYTES };
        Objects::at_server(&Client::new(&url).unwrap(), reach)
    };
    let direct = at(scene.folder.root().to_owned());
    let path = scene.file("a.bin", b"direct");
    let mut told = Vec::new();
    let blob = direct.upload_file(&path, |done, total| told.push((done, total))).await.unwrap();
    assert_eq!(told.last(), Some(&(6, 6)));
    let file = direct.local_file(blob.id).await.unwrap();
    assert_eq!(file.path(), scene.folder.blob_path(blob.id));
    assert!(!scene.place.path().join("cache").exists());
    for elsewhere in [other.root().to_owned(), scene.place.path().join("nothing")] {
        let objects = at(elsewhere);
        let blob = objects.put(b"over the network".to_vec()).await.unwrap();
        assert!(scene.folder.blob(blob.id).unwrap().is_some());
        let file = objects.local_file(blob.id).await.unwrap();
        assert!(file.path().starts_with(scene.place.path().join("cache")));
    }
    assert_eq!(other.blobs().count(), 0);
}

#[tokio::test]
async fn a_server_without_objects_says_so() {
    let place = tempfile::tempdir().unwrap();
    let server = TestServer::start().await;
    let reach = Reach { folder: None, cache: place.path().join("cache"), cache_bytes: 1 };
    let objects = Objects::at_server(&Client::new(server.url()).unwrap(), reach);
    let error = objects.record::<u32>("a").await.unwrap_err();
    assert!(error.to_string().contains("keeps no objects"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn all_records_are_read_without_being_kept_until_nobody_waits() {
    let scene = Scene::start().await;
    let here = Objects::in_folder(scene.folder.clone());
    for number in 0..9 {
        here.put_record(&format!("many/{number}"), &number).await.unwrap();
    }
    here.put_record("other", &1).await.unwrap();
    let found = Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = found.clone();
    let is_wanted = |name: &divvy::objects::RecordName| !name.as_str().ends_with('3');
    let read = move |name: &divvy::objects::RecordName, bytes: &[u8]| {
        assert!(name.as_str().as_bytes().ends_with(bytes));
        into.lock().unwrap().push(name.to_string());
    };
    here.each_record("many", is_wanted, read).await.unwrap();
    assert_eq!(found.lock().unwrap().len(), 8);

    // It is given up at the first record, and reads no other.
    let (begun, seen) = std::sync::mpsc::channel();
    let (go_on, gone) = std::sync::mpsc::channel::<()>();
    let (told, over) = tokio::sync::oneshot::channel::<()>();
    let mut told = Some(told);
    let counted = Arc::new(AtomicUsize::new(0));
    let count = counted.clone();
    let read = move |_: &divvy::objects::RecordName, _: &[u8]| {
        // Kept until the thread ends.
        let _ = &mut told;
        count.fetch_add(1, Ordering::SeqCst);
        begun.send(()).unwrap();
        gone.recv().unwrap();
    };
    let reading = tokio::spawn(async move { here.each_record("", |_| true, read).await });
    tokio::task::spawn_blocking(move || seen.recv().unwrap()).await.unwrap();
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    go_on.send(()).unwrap();
    assert!(over.await.is_err(), "the thread has ended");
    assert_eq!(counted.load(Ordering::SeqCst), 1);

    let there = scene.objects();
    assert!(matches!(
        there.each_record("", |_| true, |_, _| ()).await,
        Err(ObjectError::Elsewhere)
    ));
}

#[tokio::test]
async fn documents_are_read_among_blobs_that_are_none() {
    let scene = Scene::start().await;
    let here = Objects::in_folder(scene.folder.clone());
    let mut ids = Vec::new();
    for bytes in [&b"{\"a\":1}"[..], b"", b"media", b"{\"too large\":1}", b"{\"b\":2}"] {
        ids.push(here.put(bytes.to_vec()).await.unwrap().id);
    }
    ids.insert(2, BlobId::of(b"never stored"));
    let read = |into: &mut Vec<String>, bytes: &[u8]| {
        into.push(String::from_utf8(bytes.to_vec()).unwrap());
    };
    let found = here.read_documents(ids.clone(), 7, vec!["first".to_owned()], read).await.unwrap();
    assert_eq!(found, ["first", "{\"a\":1}", "{\"b\":2}"]);
    let there = scene.objects();
    assert!(matches!(
        there.read_documents(ids, 7, Vec::new(), read).await,
        Err(ObjectError::Elsewhere)
    ));
}
