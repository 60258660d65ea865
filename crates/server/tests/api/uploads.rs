//! Uploads by the tus protocol: resumed after cut connections and restarts, refused when they do not fit.

use divvy_objects::{BlobId, Folder};
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::objects::{folder, with_objects};
use crate::world::{Answer, World, read, soon};

const TUS: (&str, &str) = ("tus-resumable", "1.0.0");

/// Sends these bytes and reads an answer that ends.
pub(crate) async fn exchange(world: &World, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = vec![0; 4 << 10];
    let count = soon("an answer", stream.read(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

async fn begin(world: &World, length: usize, more: &[(&str, &str)]) -> String {
    let length = length.to_string();
    let mut headers = vec![TUS, ("upload-length", length.as_str())];
    headers.extend(more);
    let answer = world.request(Method::POST, "/api/v1/uploads", &headers).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.headers["location"].to_str().unwrap().to_owned()
}

async fn send(world: &World, path: &str, offset: u64, data: &[u8]) -> Answer {
    let request = world.client.patch(world.url(path)).header(TUS.0, TUS.1);
    let request = request.header("content-type", "application/offset+octet-stream");
    read(request.header("upload-offset", offset).body(data.to_vec())).await
}

async fn offset(world: &World, path: &str) -> u64 {
    let answer = world.request(Method::HEAD, path, &[TUS]).await;
    assert_eq!(answer.status, 200);
    answer.headers["upload-offset"].to_str().unwrap().parse().unwrap()
}

/// Asks until the upload stands there.
async fn stands_at(world: &World, path: &str, expected: u64) {
    soon("the offset", async { while offset(world, path).await != expected {} }).await;
}

/// Asks until more than that is here: then its sender is known to be at work.
async fn stands_beyond(world: &World, path: &str, start: u64) {
    soon("more data", async { while offset(world, path).await <= start {} }).await;
}

/// Sends the beginning of a longer piece, and leaves it at that.
async fn send_half(
    world: &World,
    path: &str,
    offset: u64,
    length: usize,
    data: &[u8],
) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\n\
         Content-Type: application/offset+octet-stream\r\nUpload-Offset: {offset}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(data).await.unwrap();
    stream
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 253) as u8).collect()
}

fn blob(answer: &Answer) -> BlobId {
    answer.headers["divvy-blob"].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn pieces_become_a_blob_that_is_named_at_the_end_and_later() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let data = data(3 << 20);
    let path = begin(&world, data.len(), &[("upload-metadata", "filename YS5tcDQ=")]).await;
    let (first, rest) = data.split_at(1_500_000);
    let answer = send(&world, &path, 0, first).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["upload-offset"]),
        (204, &"1500000".parse().unwrap())
    );
    assert!(!answer.headers.contains_key("divvy-blob"));
    let answer = send(&world, &path, 1_500_000, rest).await;
    assert_eq!((answer.status.as_u16(), blob(&answer)), (204, BlobId::of(&data)));
    let answer = world.request(Method::HEAD, &path, &[TUS]).await;
    assert_eq!(blob(&answer), BlobId::of(&data));
    assert_eq!(answer.headers["upload-offset"], answer.headers["upload-length"]);
    assert_eq!(answer.headers["upload-metadata"], "filename YS5tcDQ=");
    assert_eq!(answer.headers["tus-resumable"], "1.0.0");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(folder.verify(BlobId::of(&data)).unwrap().size, 3 << 20);
}

#[tokio::test]
async fn what_came_before_a_connection_was_cut_is_kept() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let data = data(2_500_000);
    let path = begin(&world, data.len(), &[]).await;
    drop(send_half(&world, &path, 0, data.len(), &data[..1_200_000]).await);
    stands_at(&world, &path, 1_200_000).await;
    let answer = soon("the end of the first sender", async {
        loop {
            let answer = send(&world, &path, 1_200_000, &data[1_200_000..]).await;
            if answer.status != 423 {
                return answer;
            }
        }
    });
    assert_eq!(blob(&answer.await), BlobId::of(&data));
}

#[tokio::test]
async fn an_upload_goes_on_after_a_restart_of_the_server() {
    let (_place, folder) = folder();
    let data = data(4_000_000);
    let mut world = with_objects(&folder).await;
    let path = begin(&world, data.len(), &[]).await;
    assert_eq!(send(&world, &path, 0, &data[..600_000]).await.status, 204);
    let open = send_half(&world, &path, 600_000, 3_400_000, &data[600_000..2_500_000]).await;
    stands_beyond(&world, &path, 600_000).await;
    world.shutdown.cancel();
    soon("the end of the server", &mut world.running).await.unwrap().unwrap();
    drop((open, world));
    let world = with_objects(&Folder::open(folder.root()).unwrap()).await;
    let stands = offset(&world, &path).await as usize;
    assert!((600_001..=2_500_000).contains(&stands), "{stands}");
    let answer = send(&world, &path, stands as u64, &data[stands..]).await;
    assert_eq!(blob(&answer), BlobId::of(&data));
}

#[tokio::test]
async fn of_two_senders_the_second_is_refused_and_harms_nothing() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let data = data(2_000_000);
    let path = begin(&world, data.len(), &[]).await;
    let mut first = send_half(&world, &path, 0, data.len(), &data[..1_500_000]).await;
    stands_beyond(&world, &path, 0).await;
    send(&world, &path, offset(&world, &path).await, b"x").await.refused(423, "upload_busy");
    world.request(Method::DELETE, &path, &[TUS]).await.refused(423, "upload_busy");
    first.write_all(&data[1_500_000..]).await.unwrap();
    let mut answer = vec![0; 4 << 10];
    let count = soon("an answer", first.read(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert!(answer.contains(&BlobId::of(&data).to_string()), "{answer}");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_the_reason() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let path = begin(&world, 10, &[]).await;
    send(&world, &path, 4, b"abc").await.refused(409, "wrong_offset");
    assert_eq!(send(&world, &path, 0, b"abc").await.status, 204);
    send(&world, &path, 0, b"abc").await.refused(409, "wrong_offset");
    send(&world, &path, 3, &[0; 8]).await.refused(413, "upload_too_long");
    assert_eq!(offset(&world, &path).await, 3);
    let answer = world.request(Method::PATCH, &path, &[TUS, ("upload-offset", "3")]).await;
    answer.refused(415, "unsupported_media_type");
    let answer = world.request(Method::PATCH, &path, &[("upload-offset", "3")]).await;
    answer.refused(412, "tus_version");
    assert_eq!(answer.headers["tus-version"], "1.0.0");
    for (headers, status, code) in [
        (vec![TUS], 400, "invalid_field"),
        (vec![TUS, ("upload-length", "-1")], 400, "invalid_field"),
        (vec![TUS, ("upload-length", "9999999999999999")], 413, "upload_too_large"),
        (vec![TUS, ("upload-length", "1"), ("divvy-blob", "x")], 400, "bad_blob_id"),
        (vec![("tus-resumable", "0.2.0"), ("upload-length", "1")], 412, "tus_version"),
    ] {
        world.request(Method::POST, "/api/v1/uploads", &headers).await.refused(status, code);
    }
    assert_eq!(world.request(Method::DELETE, &path, &[TUS]).await.status, 204);
    world.request(Method::DELETE, &path, &[TUS]).await.refused(404, "no_such_upload");
    send(&world, &path, 3, b"x").await.refused(404, "no_such_upload");
    assert_eq!(world.request(Method::HEAD, &path, &[TUS]).await.status, 404);
}

#[tokio::test]
async fn data_that_is_not_what_was_announced_is_thrown_away() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let announced = BlobId::of(b"hello").to_string();
    let path = begin(&world, 5, &[("divvy-blob", &announced)]).await;
    send(&world, &path, 0, b"hallo").await.refused(422, "blob_mismatch");
    assert_eq!(world.request(Method::HEAD, &path, &[TUS]).await.status, 404);
    assert_eq!(folder.blobs().count(), 0);
    let path = begin(&world, 5, &[("divvy-blob", &announced)]).await;
    assert_eq!(blob(&send(&world, &path, 0, b"hello").await).to_string(), announced);
}

#[tokio::test]
async fn an_empty_upload_is_whole_at_once_and_abilities_are_told() {
    let (_place, folder) = folder();
    let world = with_objects(&folder).await;
    let headers = [TUS, ("upload-length", "0")];
    let answer = world.request(Method::POST, "/api/v1/uploads", &headers).await;
    assert_eq!((answer.status.as_u16(), blob(&answer)), (201, BlobId::of(b"")));
    let answer = world.request(Method::OPTIONS, "/api/v1/uploads", &[]).await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.headers["tus-version"], "1.0.0");
    assert_eq!(answer.headers["tus-extension"], "creation,termination");
}
