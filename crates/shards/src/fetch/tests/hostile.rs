//! Servers that mean no good, or are broken: each is told apart by what the crawler does about it.

use std::time::Duration;

use super::*;
use crate::fetch::{Course, Purpose, Truncation};
use crate::net::testing::{Reply, Server, page};

const SHORT: Duration = Duration::from_millis(60);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nx";

async fn saying(bytes: impl Into<Vec<u8>>) -> Server {
    let bytes = bytes.into();
    Server::start(move |_| Reply::SendAndClose(bytes.clone())).await
}

async fn hanging_after(bytes: &'static [u8]) -> Server {
    Server::start(move |_| Reply::SendAndHang(bytes.to_vec())).await
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_left_in_time() {
    let server = hanging_after(b"").await;
    let error = fetcher(|limits| limits.first_byte = SHORT)
        .fetch(Order::page(&server.url("a.test", "/")), &mut Session::default())
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::FirstByte { limit, .. } if limit <= SHORT), "{error}");
    assert_eq!(error.trouble(), Trouble::Timeout);
}

#[tokio::test]
async fn a_page_that_does_not_end_is_left_in_time() {
    let server = hanging_after(HEAD).await;
    let error = fetcher(|limits| limits.whole = SHORT)
        .fetch(Order::page(&server.url("a.test", "/")), &mut Session::default())
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Whole { .. }), "{error}");
}

#[tokio::test]
async fn a_page_that_drips_is_too_slow() {
    let server = hanging_after(HEAD).await;
    let fetcher = fetcher(|limits| limits.slow_window = SHORT);
    assert_eq!(trouble(&fetcher, &server.url("a.test", "/")).await, Trouble::TooSlow);
}

#[tokio::test]
async fn headers_are_bounded_in_number_and_in_size() {
    let many = |count: usize| {
        let headers: String = (0..count).map(|number| format!("x-{number}: y\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n")
    };
    let large = |bytes: usize| {
        format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(bytes))
    };
    let fetcher = fetcher(|_| ());
    for head in [many(101), many(5_000), large(65 * 1024), large(2_000_000)] {
        let server = saying(head).await;
        assert_eq!(trouble(&fetcher, &server.url("a.test", "/")).await, Trouble::Headers);
    }
    for head in [many(99), large(60 * 1024)] {
        let server = saying(head).await;
        assert_eq!(get(&server.url("a.test", "/")).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn what_is_not_http_is_told_from_what_broke() {
    let facts: [(&[u8], Trouble, Course); 5] = [
        (b"220 mail.test ESMTP\r\n\r\n", Trouble::Malformed, Course::Once),
        (b"HTTP/1.1 999999 Odd\r\n\r\n", Trouble::Malformed, Course::Once),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxy",
            Trouble::Malformed,
            Course::Once,
        ),
        (b"", Trouble::Broken, Course::Retry),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", Trouble::Broken, Course::Retry),
    ];
    for (bytes, expected, course) in facts {
        let server = saying(bytes).await;
        let found = trouble(&fetcher(|_| ()), &server.url("a.test", "/")).await;
        assert_eq!(
            (found, found.course()),
            (expected, course),
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[tokio::test]
async fn what_cannot_be_reached_says_whether_to_try_again() {
    let gone = Server::start(|_| page("200 OK", "", b"")).await.url("a.test", "/");
    let fetcher = fetcher(|_| ());
    let refused: Url = "http://10.0.0.1/".parse().unwrap();
    let port: Url = "http://a.test:25/".parse().unwrap();
    assert_eq!(trouble(&fetcher, &refused).await.course(), Course::Drop);
    assert_eq!(trouble(&fetcher, &port).await, Trouble::Refused);
    // The server has ended; nobody else listens there.
    let found = trouble(&fetcher, &gone).await;
    assert!(matches!(found, Trouble::Connect | Trouble::Broken), "{found:?}");
    assert_eq!(found.course(), Course::Retry);
}

#[tokio::test]
async fn a_page_without_end_is_cut_and_its_connection_is_not_used_again() {
    let server = Server::start(|_| page("200 OK", "", &vec![b'x'; 5 * 1024 * 1024])).await;
    let fetcher = fetcher(|_| ());
    let url = server.url("a.test", "/");
    let mut session = Session::default();
    let fetched = fetcher.fetch(Order::page(&url), &mut session).await.unwrap();
    assert_eq!((fetched.body.len(), fetched.truncated), (4 * 1024 * 1024, Some(Truncation::Wire)));
    assert!(!session.is_open());
    let order = Order { url: &url, validators: None, purpose: Purpose::Robots };
    let robots = fetcher.fetch(order, &mut session).await.unwrap();
    assert_eq!(robots.body.len(), divvy_frontier::robots::BYTES_MAX + 1);
}
