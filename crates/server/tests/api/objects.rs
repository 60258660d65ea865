//! Blobs and records over HTTP.

use divvy_objects::{BlobId, Folder};
use reqwest::Method;
use serde_json::json;

use crate::world::{Answer, World, read};

pub(crate) async fn with_objects(folder: &Folder) -> World {
    let folder = folder.clone();
    World::with(move |options| options.objects = Some(folder), Default::default()).await
}

pub(crate) fn folder() -> (tempfile::TempDir, Folder) {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    (place, folder)
}

async fn put(world: &World, id: BlobId, body: impl Into<reqwest::Body>) -> Answer {
    read(world.client.put(world.url(&format!("/api/v1/blobs/{id}"))).body(body)).await
}

#[tokio::test]
async fn a_server_without_a_folder_says_that_it_keeps_no_objects() {
    let world = World::start().await;
    let id = BlobId::of(b"");
    for path in ["/objects".into(), format!("/blobs/{id}"), "/records".into(), "/records/a".into()]
    {
        world.get(&format!("/api/v1{path}")).await.refused(404, "no_objects");
    }
    let tus = [("tus-resumable", "1.0.0"), ("upload-length", "1")];
    world.request(Method::POST, "/api/v1/uploads", &tus).await.refused(404, "no_objects");
}

#[tokio::test]
async fn a_blob_is_stored_under_its_hash_and_nothing_else() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let id = BlobId::of(b"hello");
    assert_eq!(put(&world, id, "hello").await.status, 201);
    let again = put(&world, id, "hello").await;
    assert_eq!((again.status.as_u16(), again.json()), (200, json!({"id": id, "size": 5})));
    let other = BlobId::of(b"other");
    put(&world, other, "hello").await.refused(422, "blob_mismatch");
    put(&world, other, "hello").await.refused(422, "blob_mismatch");
    let answer = world.get("/api/v1/blobs/not-a-hash").await;
    answer.refused(400, "bad_blob_id");
    assert_eq!(folder.blobs().count(), 1);
    assert_eq!(std::fs::read_dir(folder.root().join("tmp")).unwrap().count(), 0);

    let path = format!("/api/v1/blobs/{id}");
    assert_eq!(world.request(Method::DELETE, &path, &[]).await.ok()["removed"], true);
    world.request(Method::DELETE, &path, &[]).await.refused(404, "no_such_blob");
    world.get(&path).await.refused(404, "no_such_blob");
    assert_eq!(world.get("/api/v1/objects").await.ok()["identity"], folder.identity().unwrap());
}

#[tokio::test]
async fn a_blob_that_is_too_large_for_one_request_is_refused() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let id = BlobId::of(b"large");
    let path = format!("/api/v1/blobs/{id}");
    // Only the length is said: the answer comes before any body.
    let request = format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        (64 << 20) + 1
    );
    let answer = crate::uploads::exchange(&world, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("blob_too_large"), "{answer}");
}

#[tokio::test]
async fn ranges_and_caches_get_what_they_ask_for() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let data: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    let id = folder.put_blob(&mut &data[..]).unwrap().id;
    let url = world.url(&format!("/api/v1/blobs/{id}"));
    let tag = format!("\"{id}\"");
    let cases: [(&str, u16, &[u8], Option<&str>); 6] = [
        ("", 200, &data, None),
        ("bytes=0-0", 206, &data[..1], Some("bytes 0-0/300000")),
        ("bytes=100-199999", 206, &data[100..200_000], Some("bytes 100-199999/300000")),
        ("bytes=299999-", 206, &data[299_999..], Some("bytes 299999-299999/300000")),
        ("bytes=-7", 206, &data[299_993..], Some("bytes 299993-299999/300000")),
        ("bytes=0-1,5-6", 200, &data, None),
    ];
    for (range, status, body, content_range) in cases {
        let mut request = world.client.get(&url);
        if !range.is_empty() {
            request = request.header("range", range);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{range}");
        let headers = answer.headers().clone();
        assert_eq!(headers["etag"], tag.as_str());
        assert_eq!(headers["cache-control"], "private, max-age=31536000, immutable");
        assert_eq!(headers["content-length"], body.len().to_string().as_str(), "{range}");
        let told = headers.get("content-range").map(|value| value.to_str().unwrap());
        assert_eq!(told, content_range, "{range}");
        assert!(answer.bytes().await.unwrap() == body, "{range}");
    }
    let answer = read(world.client.get(&url).header("range", "bytes=300000-")).await;
    answer.refused(416, "no_such_range");
    assert_eq!(answer.headers["content-range"], "bytes */300000");
    let answer = read(world.client.get(&url).header("if-none-match", &tag)).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (304, ""));
    let answer = read(world.client.head(&url)).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    assert_eq!(answer.headers["content-length"], "300000");
    assert_eq!(answer.headers["accept-ranges"], "bytes");
}

#[tokio::test]
async fn a_record_is_created_once_and_replaced_by_who_knows_it() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let url = world.url("/api/v1/records/video/a1");
    let write = |body: &'static str, condition: Option<(&'static str, String)>| {
        let mut request =
            world.client.put(&url).header("content-type", "application/json").body(body);
        if let Some((name, value)) = condition {
            request = request.header(name, value);
        }
        read(request)
    };
    let create = || Some(("if-none-match", "*".to_owned()));
    let first = write("{\"n\":1}", create()).await;
    assert_eq!(first.status, 201, "{}", first.text);
    write("{\"n\":2}", create()).await.refused(412, "record_changed");
    let seen = read(world.client.get(&url)).await;
    assert_eq!(seen.ok(), json!({"n": 1}));
    let tag = seen.headers["etag"].to_str().unwrap().to_owned();
    assert_eq!(first.headers["etag"], tag.as_str());
    assert_eq!(write("{\"n\":2}", Some(("if-match", tag.clone()))).await.status, 200);
    write("{\"n\":3}", Some(("if-match", tag.clone()))).await.refused(412, "record_changed");
    assert_eq!(write("{\"n\":4}", None).await.status, 200);
    for (name, value) in [("if-match", "*"), ("if-match", "abc"), ("if-none-match", "\"x\"")] {
        let error = write("{}", Some((name, value.into()))).await.refused(400, "invalid_field");
        assert_eq!(error["field"], name);
    }
    write("{", None).await.refused(400, "malformed_json");
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let request = world.client.put(&url).header("content-type", "application/json").body(large);
    read(request).await.refused(413, "record_too_large");
    assert_eq!(read(world.client.get(&url)).await.ok(), json!({"n": 4}));
    assert_eq!(read(world.client.delete(&url)).await.ok()["removed"], true);
    read(world.client.get(&url)).await.refused(404, "no_such_record");
    read(world.client.delete(&url)).await.refused(404, "no_such_record");
}

#[tokio::test]
async fn records_are_listed_in_pages_and_stay_in_their_folder() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    for name in ["a/1", "a/2", "a/3/x", "b/1"] {
        folder.put_record(&name.parse().unwrap(), b"{}").unwrap();
    }
    let page = world.get("/api/v1/records?prefix=a&limit=2").await.ok();
    assert_eq!(page, json!({"items": ["a/1", "a/2"], "next": "a/2"}));
    let page = world.get("/api/v1/records?prefix=a&limit=2&after=a/2").await.ok();
    assert_eq!(page, json!({"items": ["a/3/x"]}));
    assert_eq!(world.get("/api/v1/records").await.ok()["items"].as_array().unwrap().len(), 4);
    for bad in ["..", "%2e%2e/records", "a/../../x"] {
        let answer = world.get(&format!("/api/v1/records?prefix={bad}")).await;
        assert_eq!(answer.refused(400, "bad_record_name")["field"], "prefix");
    }
    // Sent by hand: a client would resolve the dots before it asks.
    for path in ["a/../b", "a/%2e%2e/b", "../x"] {
        let request = format!("GET /api/v1/records/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = crate::uploads::exchange(&world, request.as_bytes()).await;
        assert!(answer.contains("bad_record_name"), "{path}: {answer}");
    }
    world.get("/api/v1/records?limit=0").await.refused(400, "invalid_field");
}

#[tokio::test]
async fn objects_are_behind_the_token_too() {
    let (_place, folder) = folder();
    let change = |options: &mut divvy_server::Options| {
        options.objects = Some(folder.clone());
        options.token = Some("secret-1".into());
    };
    let world = World::with(change, Default::default()).await;
    let id = folder.put_blob(&mut &b"x"[..]).unwrap().id;
    let blob = format!("/api/v1/blobs/{id}");
    for (method, path) in [
        (Method::GET, blob.as_str()),
        (Method::DELETE, &blob),
        (Method::PUT, "/api/v1/records/a"),
        (Method::POST, "/api/v1/uploads"),
    ] {
        world.request(method, path, &[]).await.refused(401, "unauthorized");
    }
}
