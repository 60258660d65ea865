//! Calls of kind `http`: where they may go, and what answers mean.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict};
use divvy_worker::Registry;
use divvy_worker::builtin::{Builtins, register};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::fake_server::{detached, within};

/// A web server with fixed answers by path, which keeps what it was asked.
struct Web {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    async fn start(answers: HashMap<&'static str, String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answers, kept) = (Arc::new(answers), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&answers), Arc::clone(&kept)));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn answer(
    stream: TcpStream,
    answers: Arc<HashMap<&'static str, String>>,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let length = request
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
    let answer = answers
        .get(path.as_str())
        .cloned()
        .unwrap_or_else(|| reply("404 Not Found", "", "nothing here"));
    asked.lock().unwrap().push(request + &String::from_utf8_lossy(&body));
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn registry(allow_private: bool) -> Registry {
    let mut registry = Registry::new();
    register(&mut registry, &Builtins { allow_private, ..Builtins::default() }).unwrap();
    registry
}

async fn call(allow_private: bool, payload: Value) -> AttemptOutcome {
    let registry = registry(allow_private);
    within(registry.execute(detached("http", &payload.to_string()).0)).await
}

fn result(outcome: AttemptOutcome) -> Value {
    match outcome {
        AttemptOutcome::Finished { result, .. } => result.parse().unwrap(),
        other => panic!("expected a finish, got {other:?}"),
    }
}

fn failure(outcome: AttemptOutcome) -> (FailureVerdict, String) {
    match outcome {
        AttemptOutcome::Failed(failure) => {
            assert_eq!(failure.error.class, ErrorClass::Failed);
            (failure.verdict, failure.error.message.to_string())
        }
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn special_addresses_are_refused_in_every_spelling() {
    let web = Web::start(HashMap::new()).await;
    let port = web.address.split_once(':').unwrap().1;
    let hosts = "127.0.0.1 localhost 2130706433 0x7f000001 0177.0.0.1 127.1 0 0.0.0.0 [::1] [::] [::ffff:127.0.0.1] \
        [::ffff:7f00:1] [64:ff9b::127.0.0.1] 169.254.169.254 10.0.0.1 192.168.0.1 172.16.0.1 100.64.0.1 [fd00::1] \
        [fe80::1] 224.0.0.1 255.255.255.255 %31%32%37.0.0.1";
    for host in hosts.split_whitespace() {
        let (verdict, message) =
            failure(call(false, json!({"url": format!("http://{host}:{port}/")})).await);
        assert_eq!(verdict, FailureVerdict::Dead, "{host}: {message}");
        assert!(
            message.contains("this worker may reach") && message.contains("--allow-"),
            "{host}: {message}"
        );
    }
    assert!(web.asked().is_empty(), "nothing may have been asked");
    for url in ["file:///etc/passwd", "ftp://example.com/", "gopher://x/", "data:,x"] {
        let (verdict, message) = failure(call(false, json!({"url": url})).await);
        assert_eq!(verdict, FailureVerdict::Dead);
        assert!(message.contains("is not http or https"), "{message}");
    }
}

#[tokio::test]
async fn redirects_are_checked_bounded_and_lose_secrets() {
    let inner = Web::start(HashMap::from([("/", reply("200 OK", "", "inside"))])).await;
    let to_file = reply("302 Found", "location: file:///etc/passwd\r\n", "");
    let moved = reply("302 Found", &format!("location: http://{}/\r\n", inner.address), "");
    let kept = reply("307 Temporary Redirect", "location: /echo\r\n", "");
    let circle = reply("302 Found", "location: /circle\r\n", "");
    let echo = reply("200 OK", "", "echo");
    let answers = [
        ("/file", to_file),
        ("/moved", moved),
        ("/kept", kept),
        ("/circle", circle),
        ("/echo", echo),
    ];
    let web = Web::start(HashMap::from(answers)).await;
    let url = |path: &str| format!("http://{}{path}", web.address);
    let headers = json!({
        "authorization": "Bearer secret", "x-api-key": "secret", "x-trace": "secret", "accept": "text/plain",
    });

    assert!(
        failure(call(true, json!({"url": url("/file")})).await).1.contains("is not http or https")
    );
    let circle = failure(call(true, json!({"url": url("/circle")})).await);
    assert!(circle.1.contains("more than 5 redirects"), "{circle:?}");
    web.asked();

    let outcome =
        call(true, json!({"url": url("/moved"), "body": {"a": 1}, "headers": headers})).await;
    assert_eq!(result(outcome)["body"], "inside");
    let asked = inner.asked().remove(0);
    assert!(
        asked.starts_with("GET / ")
            && asked.contains("accept: text/plain")
            && !asked.contains("secret"),
        "{asked}"
    );
    assert!(web.asked()[0].contains("Bearer secret"));

    let outcome =
        call(true, json!({"url": url("/kept"), "body": {"a": 1}, "headers": headers})).await;
    assert_eq!(result(outcome)["status"], 200);
    let asked = web.asked().remove(1);
    assert!(
        asked.starts_with("POST /echo ")
            && asked.ends_with(r#"{"a":1}"#)
            && asked.contains("secret"),
        "{asked}"
    );
    assert!(asked.contains("content-type: application/json"), "{asked}");
    assert_eq!(
        result(call(true, json!({"url": url("/kept"), "expect_status": 307})).await)["status"],
        307
    );
}

#[tokio::test]
async fn answers_decide_what_follows() {
    let answers = [
        ("/ok", reply("200 OK", "x-kind: test\r\n", "höhe")),
        ("/large", reply("200 OK", "", &"ä".repeat(200_000))),
        ("/busy", reply("503 Service Unavailable", "retry-after: 3\r\n", "come back")),
        ("/slow-down", reply("429 Too Many Requests", "", "")),
        ("/broken", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this".to_owned()),
    ];
    let web = Web::start(HashMap::from(answers)).await;
    let get = |path: &str| call(true, json!({"url": format!("http://{}{path}", web.address)}));

    let ok = result(get("/ok").await);
    assert_eq!(
        (&ok["status"], &ok["body"], &ok["headers"]["x-kind"]),
        (&json!(200), &json!("höhe"), &json!("test"))
    );
    assert!(ok["elapsed_ms"].is_u64() && ok.get("truncated").is_none());
    let large = result(get("/large").await);
    assert_eq!(
        (large["body"].as_str().unwrap().len(), &large["truncated"]),
        (256 << 10, &json!(true))
    );
    assert_eq!(
        failure(get("/busy").await),
        (
            FailureVerdict::RetryAfterMs(3_000),
            "status 503 Service Unavailable: come back".to_owned()
        )
    );
    assert_eq!(failure(get("/slow-down").await).0, FailureVerdict::Retry);
    assert_eq!(failure(get("/broken").await).0, FailureVerdict::Retry);
    let missing = failure(get("/missing").await);
    assert_eq!(missing, (FailureVerdict::Dead, "status 404 Not Found: nothing here".to_owned()));
    let url = format!("http://{}/missing", web.address);
    assert_eq!(
        result(call(true, json!({"url": url, "expect_status": [200, 404]})).await)["status"],
        404
    );
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(
        failure(call(true, json!({"url": format!("http://{closed}/")})).await).0,
        FailureVerdict::Retry
    );
}

#[tokio::test]
async fn a_host_that_keeps_failing_is_left_alone_and_its_tasks_snooze() {
    let answers = [
        ("/down", reply("500 Internal Server Error", "", "")),
        ("/busy", reply("429 Too Many Requests", "retry-after: 7\r\n", "")),
        ("/ok", reply("200 OK", "", "")),
    ];
    let (web, other) = (Web::start(HashMap::from(answers)).await, Web::start(HashMap::new()).await);
    let registry = registry(true);
    let get = |address: &str, path: &str| {
        let payload = json!({"url": format!("http://{address}{path}")}).to_string();
        within(registry.execute(detached("http", &payload).0))
    };
    // A host that asks for patience is not down, and neither is one that has no such page.
    for _ in 0..6 {
        let (verdict, _) = failure(get(&web.address, "/busy").await);
        assert_eq!(verdict, FailureVerdict::RetryAfterMs(7_000));
        assert_eq!(failure(get(&web.address, "/none").await).0, FailureVerdict::Dead);
    }
    for _ in 0..5 {
        assert_eq!(failure(get(&web.address, "/down").await).0, FailureVerdict::Retry);
    }
    assert_eq!(web.asked().len(), 17);
    for _ in 0..3 {
        let (verdict, message) = failure(get(&web.address, "/ok").await);
        let FailureVerdict::SnoozeMs(wait_ms) = verdict else { panic!("{verdict:?}") };
        assert!((1..=7_000).contains(&wait_ms), "{wait_ms}");
        let words = format!("host `{}` keeps failing; it is tried again in", web.address);
        assert!(message.starts_with(&words), "{message}");
    }
    assert!(web.asked().is_empty(), "it is not called at all");
    assert_eq!(failure(get(&other.address, "/ok").await).0, FailureVerdict::Dead, "404 of another");
}

#[tokio::test]
async fn a_bad_payload_is_dead_and_names_the_field() {
    let cases = [
        (json!({}), "missing field `url`"),
        (json!({"url": "not a url"}), "url `not a url` is not a URL"),
        (json!({"url": "http://x/", "metod": "GET"}), "unknown field `metod`"),
        (json!({"url": "http://x/", "method": "CONNECT"}), "method `CONNECT`"),
        (json!({"url": "http://x/", "headers": {"Host": "y"}}), "headers: `Host` cannot be set"),
        (json!({"url": "http://x/", "headers": {"a": "b\r\nc: d"}}), "headers: the value of `a`"),
        (json!({"url": "http://x/", "timeout_ms": 0}), "timeout_ms is 0"),
    ];
    for (payload, words) in cases {
        let (verdict, message) = failure(call(true, payload).await);
        assert_eq!(verdict, FailureVerdict::Dead);
        assert!(message.starts_with("payload of `http`: ") && message.contains(words), "{message}");
    }
}
