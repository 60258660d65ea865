//! `divvy video` against answers that are hard to get from a real server: every state, damaged data, ids that are
//! alike. The answers are of the real types; whole videos through real servers are tested end to end elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use divvy::objects::{Blob, BlobId};
use divvy_types::REFUSAL_MARK;
use divvy_video::Recipe;
use divvy_video::library::{
    Added, NewVideo, Stage, Sweep, Swept, Video, VideoId, VideoState, VideoView,
};
use divvy_video::manifest::{FileEntry, Manifest, Part};
use serde_json::{Value, json};

use crate::stack::{Ended, Folder, end};

/// What the answers come from.
#[derive(Default)]
struct Stored {
    views: BTreeMap<String, VideoView>,
    manifest: Option<Manifest>,
    blobs: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
}

type Shared = Arc<Mutex<Stored>>;

struct Answers {
    folder: Folder,
    url: String,
    stored: Shared,
    _runtime: tokio::runtime::Runtime,
}

impl Answers {
    fn new(views: impl IntoIterator<Item = VideoView>) -> Self {
        let views = views.into_iter().map(|view| (view.video.id.0.clone(), view)).collect();
        let stored = Arc::new(Mutex::new(Stored { views, ..Stored::default() }));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = router().with_state(stored.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { folder: Folder::new(), url, stored, _runtime: runtime }
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut command = self.folder.command(args);
        command.env("DIVVY_SERVER", &self.url);
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        end(command, "")
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.stored.lock().unwrap().asked)
    }
}

fn router() -> Router<Shared> {
    type Refusal = (StatusCode, [(&'static str, &'static str); 1], Json<Value>);
    type Answer = Result<Json<Value>, Refusal>;
    async fn view(State(stored): State<Shared>, Path(id): Path<String>) -> Answer {
        let error = json!({ "error": { "code": "no_video", "message": "there is no video" } });
        let view = stored.lock().unwrap().views.get(&id).map(|view| Json(json!(view)));
        view.ok_or((StatusCode::NOT_FOUND, [(REFUSAL_MARK, "no_video")], Json(error)))
    }
    async fn list(
        State(stored): State<Shared>,
        Query(asked): Query<BTreeMap<String, String>>,
    ) -> Json<Value> {
        let fits = |view: &&VideoView| {
            let is_wanted =
                |name: &str, fits: &dyn Fn(&String) -> bool| asked.get(name).is_none_or(fits);
            is_wanted("id", &|start| view.video.id.0.starts_with(start))
                && is_wanted("state", &|states| {
                    states.split(',').any(|state| state == view.video.state.as_str())
                })
        };
        let stored = stored.lock().unwrap();
        let items: Vec<&VideoView> = stored.views.values().filter(fits).collect();
        Json(json!({ "items": items, "next": null }))
    }
    async fn events(State(stored): State<Shared>, Path(id): Path<String>) -> String {
        let last = stored.lock().unwrap().views[&id].clone();
        let first = view_of(&id, VideoState::Processing);
        let frame = |view: &VideoView| format!("event: video\ndata: {}\n\n", json!(view));
        format!(": hello\n\n{}{}", frame(&first), frame(&last))
    }
    async fn manifest(State(stored): State<Shared>) -> Json<Value> {
        Json(json!(stored.lock().unwrap().manifest))
    }
    async fn blob(State(stored): State<Shared>, Path(id): Path<String>) -> Vec<u8> {
        stored.lock().unwrap().blobs[&id].clone()
    }
    async fn add(State(stored): State<Shared>, Json(new): Json<NewVideo>) -> Json<Value> {
        let mut stored = stored.lock().unwrap();
        stored.asked.push(json!(new).to_string());
        let video = stored.views.values().next().unwrap().video.clone();
        Json(json!(Added { video, known: true, estimated_ms: Some(90_000) }))
    }
    async fn act(
        State(stored): State<Shared>,
        Path((id, verb)): Path<(String, String)>,
    ) -> Json<Value> {
        let mut stored = stored.lock().unwrap();
        stored.asked.push(format!("{verb} {id}"));
        Json(json!(stored.views[&id].video))
    }
    async fn remove(State(stored): State<Shared>, Path(id): Path<String>) -> Json<Value> {
        stored.lock().unwrap().asked.push(format!("remove {id}"));
        Json(json!({ "bytes_at_most": 1536 }))
    }
    async fn sweep(State(stored): State<Shared>, Json(sweep): Json<Sweep>) -> Json<Value> {
        stored.lock().unwrap().asked.push(json!(sweep).to_string());
        let items = vec![Blob { id: BlobId::of(b"left"), size: 1536 }];
        let (dry_run, removed, waiting) = (sweep.dry_run, 1, 0);
        let (bytes, blobs, uploads, results) = (2048, 1, 1, 2);
        Json(json!(Swept { dry_run, bytes, blobs, uploads, results, removed, waiting, items }))
    }
    Router::new()
        .route("/api/v1/videos", get(list).post(add))
        .route("/api/v1/videos/sweep", post(sweep))
        .route("/api/v1/videos/{id}", get(view).delete(remove))
        .route("/api/v1/videos/{id}/events", get(events))
        .route("/api/v1/videos/{id}/manifest", get(manifest))
        .route("/api/v1/videos/{id}/{verb}", post(act))
        .route("/api/v1/blobs/{id}", get(blob))
}

fn view_of(id: &str, state: VideoState) -> VideoView {
    let failed = matches!(state, VideoState::Failed | VideoState::Degraded);
    let video = Video {
        id: VideoId(id.to_owned()),
        title: format!("Film {id}"),
        added_at: 1_700_000_000_000_000,
        url: None,
        source: Some(Blob { id: BlobId::of(b"source"), size: 1 << 20 }),
        recipe: Recipe::default(),
        priority: 3,
        deadline: None,
        workflow: "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e".to_owned(),
        state,
        reason: failed.then(|| "the subtitles failed".to_owned()),
        plan: None,
        manifest: None,
        ended_at: (state != VideoState::Processing).then_some(1_700_000_012_000_000),
        has_poster: true,
        length_ms: None,
        estimated_cpu_ms: None,
    };
    let stage = Stage {
        name: "encode".to_owned(),
        about: "Encode the picture".to_owned(),
        total: 4,
        done: 2,
        running: 2,
        failed: 0,
        progress: 0.6,
    };
    let (progress, remaining_ms) = (0.5, Some(30_000));
    VideoView { video, progress, stages: vec![stage], remaining_ms, duration_ms: Some(60_000) }
}

fn manifest_of(files: &[FileEntry]) -> Manifest {
    let manifest = json!({
        "probe": {
            "source": Blob { id: BlobId::of(b"source"), size: 6 }, "format": "mov", "audio": [],
            "video": {
                "index": 0, "codec": "h264", "width": 640, "height": 360, "pixel_format": "yuv420p",
                "rate": { "frames": 30, "seconds": 1 }, "frames": 60, "packets": 60, "start_us": 0,
                "variable_rate": false, "interlaced": false, "hdr": false, "keyframes": [0],
            },
        },
        "recipe": Recipe::default(), "tools": "5.1", "frames": 60, "duration_ms": 2_000, "repaired": 0,
        "renditions": [{
            "name": "360p", "width": 640, "height": 360, "frames": 60, "bitrate": 400_000, "bytes": 100_000,
        }],
        "tracks": [],
        "subtitles": Part::Skipped { reason: "not asked for".to_owned() },
        "scan": Part::Failed { reason: "the scanner crashed".to_owned() },
        "findings": null, "needs_review": false, "files": files,
        "cost": { "cpu_ms": 4_000, "wall_ms": 2_000 },
    });
    serde_json::from_value(manifest).unwrap()
}

/// A published video of three files in two blobs.
fn published() -> Answers {
    let mut view = view_of("7k2m4q8xw1zd", VideoState::Ready);
    view.video.manifest = Some(BlobId::of(b"manifest"));
    let answers = Answers::new([view]);
    let (media, list) = (b"0123456789".to_vec(), b"#EXTM3U".to_vec());
    let entry = |path: &str, bytes: &[u8], offset, length| FileEntry {
        path: path.to_owned(),
        blob: BlobId::of(bytes),
        offset,
        length,
    };
    let mut stored = answers.stored.lock().unwrap();
    stored.manifest = Some(manifest_of(&[
        entry("master.m3u8", &list, 0, 7),
        entry("v/360p/seg_00000.m4s", &media, 0, 4),
        entry("v/360p/seg_00001.m4s", &media, 4, 6),
    ]));
    for bytes in [media, list] {
        stored.blobs.insert(BlobId::of(&bytes).to_string(), bytes);
    }
    drop(stored);
    answers
}

#[test]
fn a_wait_ends_as_the_video_does() {
    for (state, code, word) in [
        (VideoState::Ready, 0, "ready"),
        (VideoState::Degraded, 0, "warning: a00000000000 can be watched, but the subtitles failed"),
        (VideoState::NeedsReview, 0, "divvy video approve a00000000000"),
        (VideoState::Failed, 1, "the subtitles failed"),
        (VideoState::Cancelled, 1, "cancelled"),
    ] {
        let answers = Answers::new([view_of("a00000000000", state)]);
        let ended = answers.run(&["video", "wait", "a0"]).expect(code);
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(word), "{ended:?}");
        let json = answers.run(&["video", "wait", "a0", "--json"]).expect(code).json();
        assert_eq!(json[0]["state"], serde_json::to_value(state).unwrap());
    }
}

#[test]
fn a_list_is_a_table_that_fits_and_can_be_cut_down_to_states() {
    let answers = Answers::new([
        view_of("a00000000000", VideoState::Processing),
        view_of("b00000000000", VideoState::Failed),
    ]);
    let table = answers.run(&["video", "list"]).expect(0).stdout;
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    assert!(
        table.contains("1.0 MiB") && table.contains("50%") && table.contains("1:00"),
        "{table}"
    );
    let ids = answers.run(&["video", "list", "-q", "--state", "failed,ready"]).expect(0).stdout;
    assert_eq!(ids, "b00000000000\n");
    assert_eq!(answers.run(&["video", "list", "--json", "--limit", "1"]).expect(0).json().len(), 1);
    assert!(answers.run(&["video", "list", "--state", "lost"]).expect(2).stderr.contains("lost"));
}

#[test]
fn ids_may_be_short_but_must_fit_one_video() {
    let answers = Answers::new([
        view_of("ab0000000000", VideoState::Ready),
        view_of("ac0000000000", VideoState::Ready),
    ]);
    assert_eq!(answers.run(&["video", "cancel", "ab", "-q"]).expect(0).line(), "ab0000000000");
    assert_eq!(answers.asked(), ["cancel ab0000000000"]);
    let error = answers.run(&["video", "approve", "ab", "a"]).expect(2).stderr;
    assert!(error.contains("ab0000000000, ac0000000000"), "{error}");
    assert!(answers.asked().is_empty(), "one that is not clear stops all");
    answers.run(&["video", "show", "zz"]).expect(4);
    answers.run(&["video", "show", "zz0000000000"]).expect(4);
}

#[test]
fn removal_asks_first_and_says_what_it_may_free() {
    let answers = Answers::new([view_of("ab0000000000", VideoState::Ready)]);
    let error = answers.run(&["video", "remove", "ab"]).expect(5).stderr;
    assert!(error.contains("--yes") && answers.asked().is_empty(), "{error}");
    let said = answers.run(&["video", "remove", "ab", "--yes"]).expect(0).stdout;
    assert!(said.contains("removed; up to 1.5 KiB are freed later"), "{said}");
    assert_eq!(answers.asked(), ["remove ab0000000000"]);
    let json = answers.run(&["video", "remove", "ab", "--yes", "--json"]).expect(0).json();
    assert_eq!((&json[0]["removed"], &json[0]["bytes_at_most"]), (&json!(true), &json!(1536)));
}

#[test]
fn a_sweep_shows_what_and_how_much() {
    let answers = Answers::new([]);
    let said = answers.run(&["video", "sweep", "--dry-run"]).expect(0).stdout;
    assert!(
        said.starts_with("would remove 2.0 KiB (1 blob, 1 unfinished upload, 2 results"),
        "{said}"
    );
    assert!(said.contains("1.5 KiB") && said.contains(&BlobId::of(b"left").to_string()), "{said}");
    assert_eq!(answers.asked(), [r#"{"dry_run":true,"older_than_ms":86400000}"#]);
    let said = answers.run(&["video", "sweep", "--older-than", "2h"]).expect(0).stdout;
    assert!(said.starts_with("removed 2.0 KiB") && said.lines().count() == 1, "{said}");
    assert_eq!(answers.asked(), [r#"{"dry_run":false,"older_than_ms":7200000}"#]);
    let json = answers.run(&["video", "sweep", "--json"]).expect(0).json();
    assert_eq!(json[0]["bytes"], 2048);
    answers.run(&["video", "sweep", "--older-than", "yesterday"]).expect(2);
}

#[test]
fn a_known_address_is_said_to_be_known() {
    let answers = Answers::new([view_of("ab0000000000", VideoState::Ready)]);
    let args =
        ["video", "add", "https://example.org/a.mp4", "--ladder", "480", "--deadline", "30m"];
    let said = answers.run(&args).expect(0).stdout;
    assert!(said.contains("known") && said.contains("/videos/ab0000000000"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let new: Value = serde_json::from_str(&answers.asked()[0]).unwrap();
    assert_eq!((&new["url"], &new["deadline_ms"]), (&args[2].into(), &1_800_000.into()));
    assert_eq!(new["recipe"]["ladder"], json!([480]));
}

#[test]
fn a_published_video_shows_its_results() {
    let answers = published();
    let said = answers.run(&["video", "show", "7k"]).expect(0).stdout;
    for word in
        ["640x360", "skipped: not asked for", "FAILED: the scanner crashed", "encode", "4.0s"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let json = answers.run(&["video", "show", "7k", "--json"]).expect(0).json().remove(0);
    assert_eq!(json["published"]["renditions"][0]["name"], "360p");
}

#[test]
fn an_export_has_every_file_or_nothing() {
    let answers = published();
    let out = answers.folder.path().join("out");
    answers.run(&["video", "export", "7k", "out"]).expect(0);
    assert_eq!(std::fs::read(out.join("v/360p/seg_00001.m4s")).unwrap(), b"456789");
    assert_eq!(std::fs::read(out.join("master.m3u8")).unwrap(), b"#EXTM3U");
    assert!(out.join("manifest.json").is_file());
    answers.run(&["video", "export", "7k", "out"]).expect(5);
    answers.run(&["video", "export", "7k", "out", "--force"]).expect(0);
    let id = BlobId::of(b"0123456789").to_string();
    answers.stored.lock().unwrap().blobs.insert(id, b"0123456780".to_vec());
    let error = answers.run(&["video", "export", "7k", "bad/place"]).expect(1).stderr;
    assert!(error.contains("is damaged"), "{error}");
    assert_eq!(std::fs::read_dir(answers.folder.path().join("bad")).unwrap().count(), 0);
    answers.run(&["video", "export", "7k", "out", "--force"]).expect(1);
    assert!(out.join("master.m3u8").is_file(), "what was there stays");
}
