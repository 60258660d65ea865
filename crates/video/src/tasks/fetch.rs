//! Sources from the web, by our own client, which refuses private addresses.
//!
//! Every hop is checked, redirects are followed here, and a broken connection goes on where it broke if the server says
//! that the file is still the same. What a server says about the type or the length of a file is not trusted: bytes are
//! counted, and what they are is found out by the probe.

use std::path::Path;
use std::time::Duration;

use divvy::net;
use divvy::objects::Blob;
use divvy::prelude::*;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, ETAG, HeaderValue, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE,
};
use reqwest::{Response, StatusCode, Url};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use super::Fetch;
use crate::library::records;
use crate::room::Room;
use crate::studio::{FetchRules, Studio, failure};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// Times in a row that a connection may break without a byte.
const BREAKS_MAX: u32 = 4;
/// Bytes that are received between two looks at the room on the disk.
const ROOM_EVERY: u64 = 8 << 20;
/// How long a server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Brings a source here from its address.
pub(crate) async fn fetch(
    task: Fetch,
    State(studio): State<Studio>,
    attempt: Attempt,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Blob> {
    let video = records::current(studio.objects(), &task.video, attempt.workflow).await?;
    if let Some(source) = video.source {
        return Ok(source);
    }
    let folder = studio.folder()?;
    let path = folder.path().join("source");
    let room = studio.room().clone();
    let download = Download::open(&task.url, studio.fetch_rules(), &path, room).await?;
    tokio::select! {
        done = download.run(|received, total| progress.set(received, total)) => done?,
        () = cancel.cancelled() => return Err(Failure::cancelled()),
    }
    let blob = studio.objects().put_file(&path).await.map_err(failure)?;
    records::change(studio.objects(), &task.video, attempt.workflow, |video| {
        video.source = Some(blob);
    })
    .await?;
    Ok(blob)
}

/// A file on its way.
struct Download {
    client: reqwest::Client,
    url: Url,
    rules: FetchRules,
    file: File,
    room: Room,
    received: u64,
    /// Up to where there was room.
    room_until: u64,
    /// What tells whether the file at the server is still the one that was begun.
    validator: Option<HeaderValue>,
}

/// What became of one connection.
enum End {
    Whole,
    Broken(String),
}

impl Download {
    async fn open(url: &str, rules: FetchRules, path: &Path, room: Room) -> Outcome<Self> {
        let url = Url::parse(url)
            .map_err(|error| Failure::dead(format_args!("`{url}` is no address: {error}")))?;
        let client = net::client(rules.allow_private)?;
        let file = File::create_new(path).await?;
        Ok(Self { client, url, rules, file, room, received: 0, room_until: 0, validator: None })
    }

    /// Receives the whole file.
    async fn run(mut self, progress: impl Fn(u64, u64)) -> Outcome<()> {
        let mut breaks = 0;
        loop {
            let before = self.received;
            let problem = match self.connection(&progress).await? {
                End::Whole => break,
                End::Broken(problem) => problem,
            };
            breaks = if self.received > before { 0 } else { breaks + 1 };
            if breaks == BREAKS_MAX {
                return Err(Failure::retry(format_args!("{}: {problem}", self.url)));
            }
            tokio::time::sleep(Duration::from_millis(250 << breaks)).await;
        }
        if self.received == 0 {
            return Err(Failure::dead(format_args!("{} is an empty file", self.url)));
        }
        self.file.flush().await?;
        Ok(())
    }

    /// Receives as much as one connection gives.
    async fn connection(&mut self, progress: &impl Fn(u64, u64)) -> Outcome<End> {
        let mut response = match self.answer().await? {
            Ok(response) => response,
            Err(problem) => return Ok(End::Broken(problem)),
        };
        self.place(&response).await?;
        let total = response.content_length().map_or(0, |rest| self.received.saturating_add(rest));
        self.check_size(total)?;
        // What is told too small is noticed on the way.
        self.room.check(total.saturating_sub(self.received))?;
        self.room_until = self.received + ROOM_EVERY;
        loop {
            let chunk = match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                Err(_) => {
                    let silence = SILENCE_MAX.as_secs();
                    return Ok(End::Broken(format!("the server was silent for {silence} s")));
                }
                Ok(Err(error)) => return Ok(End::Broken(causes(&error))),
                Ok(Ok(None)) if self.received < total => {
                    return Ok(End::Broken("the connection ended too early".to_owned()));
                }
                Ok(Ok(None)) => return Ok(End::Whole),
                Ok(Ok(Some(chunk))) => chunk,
            };
            self.check_size(self.received.saturating_add(chunk.len() as u64))?;
            if self.received >= self.room_until {
                self.room.check(ROOM_EVERY)?;
                self.room_until = self.received + ROOM_EVERY;
            }
            self.file.write_all(&chunk).await?;
            self.received += chunk.len() as u64;
            progress(self.received, total);
        }
    }

    /// Asks for the rest of the file and follows redirects; what may be the network's fault is no failure yet.
    async fn answer(&self) -> Outcome<Result<Response, String>> {
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            net::check_url(&url, self.rules.allow_private).map_err(Failure::dead)?;
            let mut request = self.client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(validator) = self.validator.as_ref().filter(|_| self.received > 0) {
                let range = format!("bytes={}-", self.received);
                request = request.header(RANGE, range).header(IF_RANGE, validator);
            }
            let response = match tokio::time::timeout(SILENCE_MAX, request.send()).await {
                Err(_) => return Ok(Err("the server does not answer".to_owned())),
                Ok(Err(error)) => match net::refused(&error) {
                    Some(refused) => return Err(Failure::dead(refused)),
                    None => return Ok(Err(causes(&error))),
                },
                Ok(Ok(response)) => response,
            };
            let status = response.status();
            if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                url = next_hop(&url, &response)?;
                continue;
            }
            let temporary = status.is_server_error()
                || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
            return match status {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(Ok(response)),
                _ if temporary => Ok(Err(format!("the server answered {status}"))),
                _ => Err(Failure::dead(format_args!("{url}: the server answered {status}"))),
            };
        }
        let problem = format!("{}: more than {REDIRECTS_MAX} redirects", self.url);
        Err(Failure::dead(problem))
    }

    /// Goes to the place in the file where the answer begins: where the last one broke, or the beginning.
    async fn place(&mut self, response: &Response) -> Outcome<()> {
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            let begins = format!("bytes {}-", self.received);
            if self.received > 0 && range.is_some_and(|range| range.starts_with(&begins)) {
                return Ok(());
            }
            return Err(Failure::retry(format_args!(
                "{}: asked for the rest from byte {}, the server sent {}",
                self.url,
                self.received,
                range.unwrap_or("another part")
            )));
        }
        self.received = 0;
        self.file.set_len(0).await?;
        self.file.rewind().await?;
        let headers = response.headers();
        // A weak tag does not promise equal bytes.
        let tag = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
        self.validator = tag.or_else(|| headers.get(LAST_MODIFIED)).cloned();
        Ok(())
    }

    fn check_size(&self, bytes: u64) -> Outcome<()> {
        let max = self.rules.bytes_max;
        if bytes <= max {
            return Ok(());
        }
        Err(Failure::dead(format_args!(
            "{} has more than {max} bytes, which is the most that is fetched",
            self.url
        )))
    }
}

fn next_hop(url: &Url, response: &Response) -> Outcome<Url> {
    let location = response.headers().get(LOCATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(location);
    url.join(&text).map_err(|error| {
        Failure::dead(format_args!("{url} sends on to `{text}`, which is no address: {error}"))
    })
}

/// An error with what caused it: the outer ones of network libraries say little.
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives these answers, one per connection, and then closes it; it keeps what it was asked.
    async fn server(answers: Vec<Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/clip.mp4", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let keep = asked.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    stream.read_line(&mut head).await.unwrap();
                }
                keep.lock().unwrap().push(head.to_ascii_lowercase());
                stream.write_all(&answer).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        (url, asked)
    }

    fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n\r\n{body}").into_bytes()
    }

    async fn fetched(url: &str, rules: FetchRules) -> Outcome<String> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("source");
        let room = Room::at(place.path());
        Download::open(url, rules, &path, room).await?.run(|_, _| ()).await?;
        Ok(std::fs::read_to_string(path).unwrap())
    }

    #[tokio::test]
    async fn a_file_for_which_there_is_no_room_is_not_begun_and_waits() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("source");
        let (url, _) = server(vec![answer("200 OK", "Content-Length: 10", "0123456789")]).await;
        let room = Room::at(place.path()).leaving_free(u64::MAX);
        let download = Download::open(&url, OPEN, &path, room).await.unwrap();
        let failure = download.run(|_, _| ()).await.unwrap_err();
        let verdict = failure.verdict();
        assert!(matches!(verdict, divvy::types::FailureVerdict::SnoozeMs(_)), "{failure}");
        assert_eq!(std::fs::metadata(path).unwrap().len(), 0);
    }

    const OPEN: FetchRules = FetchRules { allow_private: true, bytes_max: 100 };

    #[tokio::test]
    async fn a_broken_connection_goes_on_where_it_broke() {
        let headers = "Content-Length: 10\r\nETag: \"1\"";
        let rest = "Content-Length: 6\r\nContent-Range: bytes 4-9/10";
        let (url, asked) = server(vec![
            answer("200 OK", headers, "0123"),
            answer("206 Partial Content", rest, "456789"),
        ])
        .await;
        assert_eq!(fetched(&url, OPEN).await.unwrap(), "0123456789");
        let asked = asked.lock().unwrap();
        assert!(!asked[0].contains("range:"), "{asked:?}");
        assert!(asked[1].contains("range: bytes=4-") && asked[1].contains("if-range: \"1\""));
    }

    #[tokio::test]
    async fn a_file_that_has_changed_or_has_no_tag_is_fetched_anew() {
        for tag in ["ETag: \"1\"", "ETag: W/\"1\"", "X-Nothing: 1"] {
            let first = answer("200 OK", &format!("Content-Length: 10\r\n{tag}"), "0123");
            let second = answer("200 OK", "Content-Length: 3\r\nETag: \"2\"", "new");
            let (url, asked) = server(vec![first, second]).await;
            assert_eq!(fetched(&url, OPEN).await.unwrap(), "new");
            let ranged = asked.lock().unwrap()[1].contains("range:");
            assert_eq!(ranged, tag == "ETag: \"1\"", "{tag}");
        }
    }

    #[tokio::test]
    async fn private_addresses_are_refused_at_every_hop() {
        let strict = FetchRules { allow_private: false, ..OPEN };
        for url in ["http://127.0.0.1:1/a", "http://[::1]:1/a", "http://localhost:1/a", "ftp://a/b"]
        {
            let failure = fetched(url, strict).await.unwrap_err();
            assert_eq!(failure.verdict(), divvy::types::FailureVerdict::Dead, "{url}: {failure}");
        }
        let (url, _) = server(vec![answer("302 Found", "Location: file:///etc/passwd", "")]).await;
        let failure = fetched(&url, OPEN).await.unwrap_err();
        assert!(failure.message().contains("is not http or https"), "{failure}");
    }

    #[tokio::test]
    async fn what_is_too_large_or_missing_or_empty_is_dead_at_once() {
        let cases = [
            (answer("200 OK", "Content-Length: 101", ""), "more than 100 bytes"),
            (answer("200 OK", "X-Length: none", &"x".repeat(101)), "more than 100 bytes"),
            (answer("404 Not Found", "Content-Length: 0", ""), "answered 404"),
            (answer("200 OK", "Content-Length: 0", ""), "is an empty file"),
        ];
        for (answer, expected) in cases {
            let (url, _) = server(vec![answer]).await;
            let failure = fetched(&url, OPEN).await.unwrap_err();
            assert!(failure.message().contains(expected), "{failure}");
            assert_eq!(failure.verdict(), divvy::types::FailureVerdict::Dead);
        }
    }

    #[tokio::test]
    async fn redirects_are_followed_but_not_for_ever() {
        let hop = || answer("302 Found", "Location: /again", "");
        let (url, asked) = server(vec![hop(), answer("200 OK", "Content-Length: 2", "ok")]).await;
        assert_eq!(fetched(&url, OPEN).await.unwrap(), "ok");
        assert!(asked.lock().unwrap()[1].starts_with("get /again"));
        let (url, _) = server((0..6).map(|_| hop()).collect()).await;
        let failure = fetched(&url, OPEN).await.unwrap_err();
        assert!(failure.message().contains("more than 5 redirects"), "{failure}");
    }
}
