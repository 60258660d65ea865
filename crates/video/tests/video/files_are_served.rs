//! The API of the library and the files of videos, over real sockets.

use crate::web_support::{World, clip, video};
use divvy_video::library::VideoState;
use reqwest::Method;
use serde_json::Value;

async fn code(answer: reqwest::Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().len() > 10, "{body}");
    (status, body["error"]["code"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_file_is_sent_whole_or_in_part_and_nothing_else_is() {
    let world = World::start().await;
    let (manifest, parts) = clip::publish(&world.objects).await;
    let mut ready = video("clip00000001", "Clip");
    (ready.state, ready.manifest) = (VideoState::Ready, Some(manifest));
    world.record(&ready).await;
    let base = "/videos/clip00000001/files";

    // The second segment lies in the middle of its blob.
    let entry = parts.files.iter().find(|file| file.path == "v/180p/seg_00001.m4s").unwrap();
    assert!(entry.offset > 0);
    let blob = world.objects.get(entry.blob).await.unwrap();
    let range = usize::try_from(entry.offset).unwrap()
        ..usize::try_from(entry.offset + entry.length).unwrap();
    let expected = &blob[range];
    let path = format!("{base}/{}", entry.path);
    let whole = world.get(&path).await;
    assert_eq!(
        (whole.status().as_u16(), &whole.headers()["content-type"]),
        (200, &"video/mp4".parse().unwrap())
    );
    assert!(whole.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let tag = whole.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(whole.bytes().await.unwrap(), expected);

    let ask = |method: Method, name: &'static str, value: &str| {
        world.http.request(method, world.url(&path)).header(name, value).send()
    };
    let part = ask(Method::GET, "range", "bytes=10-19").await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.headers()["content-range"], format!("bytes 10-19/{}", entry.length));
    assert_eq!(part.bytes().await.unwrap(), &expected[10..20]);
    let behind = ask(Method::GET, "range", "bytes=99999999-").await.unwrap();
    assert_eq!(behind.headers()["content-range"], format!("bytes */{}", entry.length));
    assert_eq!(code(behind).await, (416, "no_such_range".to_owned()));
    assert_eq!(ask(Method::GET, "if-none-match", &tag).await.unwrap().status(), 304);
    for (range, version, status) in [
        ("bytes=1-2", tag.as_str(), 206),
        ("bytes=1-2", "\"another\"", 200),
        ("bytes=0-1,4-5", tag.as_str(), 200),
    ] {
        let request = world.http.get(world.url(&path)).header("range", range);
        let answer = request.header("if-range", version).send().await.unwrap();
        assert_eq!(answer.status(), status, "{range} {version}");
    }
    let head = ask(Method::HEAD, "accept", "*/*").await.unwrap();
    assert_eq!(head.headers()["content-length"], entry.length.to_string());
    assert!(head.bytes().await.unwrap().is_empty());

    for bad in
        ["nothing.mp4", "../../../etc/passwd", "..%2f..%2fobjects", "v/180p", "v//180p/init.mp4"]
    {
        // The address is sent as it is, without being tidied by the client.
        let answer = world.get(&format!("{base}/{bad}")).await;
        assert_eq!(answer.status(), 404, "{bad}");
    }
    let listed = world.get(&format!("{base}/manifest.json")).await.json::<Value>().await.unwrap();
    assert_eq!(listed["duration_ms"], 6_000);
    let brief = world.get("/api/v1/videos/clip00000001/manifest?segments=false").await;
    let brief = brief.json::<Value>().await.unwrap();
    assert!(
        brief["files"]
            .as_array()
            .unwrap()
            .iter()
            .all(|file| !file["path"].as_str().unwrap().ends_with(".m4s"))
    );
    world.stop().await;
}

#[tokio::test]
async fn only_the_wanted_part_of_a_blob_is_asked_of_the_server() {
    let world = World::start_with_copies().await;
    let cache = world.folder.path().join("cache");
    let (manifest, parts) = clip::publish(&world.objects).await;
    let mut ready = video("clip00000001", "Clip");
    (ready.state, ready.manifest) = (VideoState::Ready, Some(manifest));
    world.record(&ready).await;
    let entry = parts.files.iter().find(|file| file.path == "v/180p/seg_00001.m4s").unwrap();
    let blob = world.objects.get(entry.blob).await.unwrap();
    let begin = usize::try_from(entry.offset).unwrap();
    let path = format!("/videos/clip00000001/files/{}", entry.path);
    let whole = world.get(&path).await.bytes().await.unwrap();
    assert_eq!(whole, &blob[begin..begin + usize::try_from(entry.length).unwrap()]);
    let part = world.http.get(world.url(&path)).header("range", "bytes=5-8").send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.bytes().await.unwrap(), &blob[begin + 5..begin + 9]);
    let copies = divvy_objects::Folder::attach(cache).unwrap();
    let copies: Vec<_> = copies.blobs().map(|found| found.unwrap().0.id).collect();
    assert_eq!(copies, [manifest], "the manifest is read whole, media never");
    world.stop().await;
}

#[tokio::test]
async fn a_sweep_can_be_looked_at_before_it_is_done() {
    let world = World::start().await;
    let blob = world.objects.put(b"never added".to_vec()).await.unwrap().id;
    let folder = divvy_objects::Folder::attach(world.folder.path().join("objects")).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(90_000);
    std::fs::File::open(folder.blob_path(blob)).unwrap().set_modified(long_ago).unwrap();
    let ask = |body: &'static str| {
        let post = world.http.post(world.url("/api/v1/videos/sweep"));
        post.header("content-type", "application/json").body(body)
    };
    let look = ask(r#"{"dry_run": true}"#).send().await.unwrap().json::<Value>().await.unwrap();
    assert_eq!((&look["blobs"], &look["items"][0]["size"]), (&1.into(), &11.into()), "{look}");
    let swept = ask("{}").send().await.unwrap().json::<Value>().await.unwrap();
    assert_eq!((&swept["bytes"], &swept["dry_run"]), (&11.into(), &false.into()));
    assert!(folder.blob(blob).unwrap().is_none());
    for bad in [r#"{"older_than_ms": 1}"#, r#"{"older_than_ms": "1d"}"#, r#"{"older_then_ms": 1}"#]
    {
        let (status, name) = code(ask(bad).send().await.unwrap()).await;
        assert!(status == 400 && name.starts_with("invalid_"), "{bad}: {status} {name}");
    }
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_there_is_said_with_a_reason() {
    let world = World::start().await;
    world.record(&video("busy00000001", "Busy")).await;
    for (path, status, expected) in [
        ("/videos/busy00000001/files/master.m3u8", 404, "not_ready"),
        ("/api/v1/videos/busy00000001/manifest", 404, "not_ready"),
        ("/videos/nothing00000/files/master.m3u8", 404, "no_such_video"),
        ("/api/v1/videos/nothing00000", 404, "no_such_video"),
        ("/api/v1/videos/nothing00000/events", 404, "no_such_video"),
        ("/api/v1/videos?limit=0", 400, "invalid_field"),
        ("/api/v1/videos?colour=red", 400, "invalid_field"),
        ("/api/v1/videos/busy00000001/approve", 405, "method_not_allowed"),
        ("/videos/assets/nothing.js", 404, "no_such_file"),
    ] {
        assert_eq!(code(world.get(path).await).await, (status, expected.to_owned()), "{path}");
    }
    assert_eq!(world.get("/videos/nothing00000").await.status(), 404);
    let large = format!(r#"{{"title":"{}"}}"#, "x".repeat(64 << 10));
    for (media, body, status, expected) in [
        ("application/json", r#"{"recipe":{"crf":"x"}}"#, 400, "invalid_field"),
        ("application/json", r#"{"recipe":"#, 400, "malformed_json"),
        ("application/json", "[]", 400, "invalid_field"),
        ("text/plain", "{}", 415, "unsupported_media_type"),
        ("application/json", &large, 413, "body_too_large"),
    ] {
        let post = world.http.post(world.url("/api/v1/videos")).header("content-type", media);
        let found = code(post.body(body.to_owned()).send().await.unwrap()).await;
        assert_eq!(found, (status, expected.to_owned()), "{body:.20}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_list_comes_in_parts_and_events_end_with_the_video() {
    let world = World::start().await;
    for n in 1..=3 {
        let mut one = video(&format!("video000000{n}"), "One");
        one.added_at += n;
        one.state = VideoState::Failed;
        world.record(&one).await;
    }
    let first = world.get("/api/v1/videos?limit=2").await.json::<Value>().await.unwrap();
    // A page costs what is on it: what is elsewhere in the list is not even read.
    let elsewhere = video("video0000001", "One").id.record();
    let whole = world.objects.record::<Value>(&elsewhere).await.unwrap().unwrap().value;
    world.objects.put_record(&elsewhere, &"no video").await.unwrap();
    assert_eq!(world.get("/api/v1/videos?limit=2").await.status(), 200);
    world.objects.put_record(&elsewhere, &whole).await.unwrap();
    let next = "1800000000000002.video0000002";
    assert_eq!((&first["items"][0]["id"], &first["next"]), (&"video0000003".into(), &next.into()));
    let wrong = world.get("/api/v1/videos?after=video0000002").await;
    assert_eq!(code(wrong).await.0, 400);
    let rest = world.get(&format!("/api/v1/videos?limit=2&after={next}")).await;
    let rest = rest.json::<Value>().await.unwrap();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));

    // Nothing runs, so nothing is asked again and again: all who watch hear of the change itself.
    let made = video("video0000004", "Four");
    world.record(&made).await;
    let path = "/api/v1/videos/video0000004/events";
    let mut library = world.get("/api/v1/videos/events").await;
    let watchers = [world.get(path).await, world.get(path).await];
    let cancel = world.url("/api/v1/videos/video0000004/cancel");
    assert_eq!(world.http.post(cancel).send().await.unwrap().status(), 200);
    for watcher in watchers {
        let text = watcher.text().await.unwrap();
        assert!(
            text.contains("\"state\":\"processing\"") && text.contains("\"state\":\"cancelled\""),
            "{text}"
        );
    }

    let mut heard = String::new();
    while !heard.contains("event: changed\n") {
        heard.push_str(std::str::from_utf8(&library.chunk().await.unwrap().unwrap()).unwrap());
    }

    let events = world.get("/api/v1/videos/video0000001/events").await;
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    let text = events.text().await.unwrap();
    assert!(text.contains("event: video\n") && text.contains("\"state\":\"failed\""), "{text}");
    world.stop().await;
}

#[tokio::test]
async fn videos_are_picked_by_state_and_by_the_start_of_their_id() {
    let world = World::start().await;
    let mut made = video("video0000004", "Four");
    world.record(&made).await;
    for n in 1..=3 {
        let mut one = video(&format!("video000000{n}"), "One");
        one.added_at += n;
        one.state = VideoState::Failed;
        world.record(&one).await;
    }
    let picked = async |query: &str| {
        let page = world.get(&format!("/api/v1/videos?{query}")).await;
        let page = page.json::<Value>().await.unwrap();
        let ids = page["items"].as_array().unwrap().iter().map(|item| item["id"].clone());
        ids.collect::<Vec<_>>()
    };
    let after = "1800000000000002.video0000002";
    assert_eq!(picked("state=failed,ready&limit=1").await, ["video0000003"]);
    assert_eq!(picked(&format!("state=failed&after={after}")).await, ["video0000001"]);
    assert_eq!(picked("state=processing").await, ["video0000004"]);
    assert_eq!(picked("id=video0000002").await, ["video0000002"]);
    assert_eq!(code(world.get("/api/v1/videos?state=lost").await).await.0, 400);
    // A task has made it, which nobody told the library; what was read a moment ago is believed for a second.
    made.state = VideoState::Ready;
    world.record(&made).await;
    let ready = async { while picked("state=ready").await != ["video0000004"] {} };
    tokio::time::timeout(crate::web_support::PATIENCE, ready).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn the_pages_need_the_token_too() {
    let world = World::start_with_token("secret-1").await;
    let page =
        world.http.get(world.url("/videos")).header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 401);
    assert!(page.text().await.unwrap().contains("action=\"/sign-in\""));
    assert_eq!(code(world.get("/api/v1/videos").await).await, (401, "unauthorized".to_owned()));
    let form = world
        .http
        .post(world.url("/sign-in"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body("token=secret-1&next=%2Fvideos");
    let answer = form.send().await.unwrap();
    let cookie =
        answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let page = world.http.get(world.url("/videos")).header("cookie", cookie).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    world.stop().await;
}
