//! What is sent, over which connection, and what is kept from one request to the next.

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::fetch::{Purpose, Validators};
use crate::net::TableResolver;
use crate::net::testing::{Reply, Server, connector_with, page, secure_server};

#[tokio::test]
async fn a_page_comes_with_its_headers_and_its_text() {
    let body = b"<title>caf\xE9</title>";
    let server =
        Server::start(|_| page("200 OK", "content-type: text/html; charset=latin1\r\n", body))
            .await;
    let mut url = server.url("a.test", "/x?y=1#z");
    url.set_username("user").unwrap();
    url.set_password(Some("word")).unwrap();
    let fetched = get(&url).await.unwrap();
    assert_eq!(
        (fetched.status, &fetched.body[..], fetched.truncated),
        (200, body.as_slice(), None)
    );
    assert_eq!(fetched.charset().text(&fetched.body), "<title>café</title>");
    assert!(fetched.is_html() && fetched.redirect.is_none());
    assert_eq!((fetched.wire_bytes, fetched.address), (body.len() as u64, server.address));
    let (_, seen) = server.seen().remove(0);
    let port = server.address.port();
    assert!(seen.starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{seen}");
    for line in [
        &format!("host: a.test:{port}\r\n"),
        "user-agent: divvybot/",
        "accept-encoding: gzip, deflate, br, zstd\r\n",
    ] {
        assert!(seen.contains(line), "{line} in {seen}");
    }
    assert!(!seen.contains("cookie") && !seen.contains("authorization"), "{seen}");
}

#[tokio::test]
async fn one_connection_serves_a_host_until_it_rests() {
    let server = Server::start(|_| page("200 OK", "", b"x")).await;
    let fetcher = fetcher(|_| ());
    let mut session = Session::default();
    let (a, b) = (server.url("a.test", "/"), server.url("b.test", "/"));
    for url in [&a, &a, &b] {
        fetcher.fetch(Order::page(url), &mut session).await.unwrap();
    }
    session.rest(fetcher.limits().keep_alive / 2, fetcher.limits());
    fetcher.fetch(Order::page(&b), &mut session).await.unwrap();
    session.rest(fetcher.limits().keep_alive, fetcher.limits());
    assert!(!session.is_open());
    fetcher.fetch(Order::page(&b), &mut session).await.unwrap();
    let connections: Vec<usize> = server.seen().iter().map(|(connection, _)| *connection).collect();
    assert_eq!(connections, [0, 0, 1, 1, 2]);
}

#[tokio::test]
async fn a_connection_that_the_host_has_closed_is_replaced_and_nothing_is_asked_twice() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx".to_vec();
    let server = Server::start(move |_| Reply::SendAndClose(answer.clone())).await;
    // That it was closed is seen at once, not when a time is over.
    let fetcher = fetcher(|limits| limits.connect = Duration::from_secs(3_600));
    let mut session = Session::default();
    for path in ["/1", "/2", "/3"] {
        let url = server.url("a.test", path);
        let asked = fetcher.fetch(Order::page(&url), &mut session);
        let fetched =
            timeout(Duration::from_secs(20), asked).await.expect("the old connection is given up");
        if fetched.is_err() {
            // The end of the connection was still under way; the crawler asks again later.
            fetcher.fetch(Order::page(&url), &mut session).await.unwrap();
        }
    }
    let paths: Vec<String> =
        server.seen().iter().map(|(_, head)| head.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(paths, ["/1", "/2", "/3"]);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let facts = [
        ("/next#part", Some("/next")),
        ("//b.test/x", Some("http://b.test/x")),
        ("https://user:word@b.test/", Some("https://b.test/")),
        ("http://169.254.169.254/latest", Some("http://169.254.169.254/latest")),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("http://", None),
    ];
    for (location, expected) in facts {
        let headers = format!("location: {location}\r\n");
        let server = Server::start(move |_| page("302 Found", &headers, b"moved")).await;
        let url = server.url("a.test", "/first");
        let fetched = get(&url).await.unwrap();
        let expected = expected.map(|expected| url.join(expected).unwrap());
        assert_eq!((fetched.status, fetched.redirect), (302, expected), "{location}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn what_is_known_is_asked_for_only_if_it_changed() {
    let server = Server::start(|head| match head.contains("if-none-match: \"v1\"\r\n") {
        true => Reply::Send(b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec()),
        false => {
            page("200 OK", "etag: \"v1\"\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", b"x")
        }
    })
    .await;
    let url = server.url("a.test", "/");
    let first = get(&url).await.unwrap();
    let validators = first.validators();
    assert_eq!(validators.etag.as_deref(), Some("\"v1\""));
    let order = Order { url: &url, validators: Some(&validators), purpose: Purpose::Page };
    let again = fetcher(|_| ()).fetch(order, &mut Session::default()).await.unwrap();
    assert!(!first.is_unchanged() && again.is_unchanged() && again.body.is_empty());
    assert!(server.seen()[1].1.contains("if-modified-since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
    let hostile = Validators { etag: Some("x\r\nsmuggled: 1".to_owned()), last_modified: None };
    let order = Order { url: &url, validators: Some(&hostile), purpose: Purpose::Page };
    fetcher(|_| ()).fetch(order, &mut Session::default()).await.unwrap();
    assert!(!server.seen()[2].1.contains("smuggled"));
}

#[tokio::test]
async fn cookies_are_never_sent_back() {
    let server = Server::start(|_| page("200 OK", "set-cookie: id=7; Path=/\r\n", b"")).await;
    let (fetcher, mut session) = (fetcher(|_| ()), Session::default());
    for _ in 0..2 {
        let url = server.url("a.test", "/");
        fetcher.fetch(Order::page(&url), &mut session).await.unwrap();
    }
    let seen = server.seen();
    assert!(seen.len() == 2 && !seen.iter().any(|(_, head)| head.contains("cookie:")), "{seen:?}");
}

#[tokio::test]
async fn a_host_that_speaks_http_2_is_answered_in_it() {
    for (protocols, version) in [(["h2"].as_slice(), "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1")] {
        let (address, root) = secure_server(protocols).await;
        let connector =
            connector_with(TableResolver::all_at(address.ip()), &["127.0.0.0/8"], [root]);
        let fetcher = Fetcher::new(connector, Limits::default());
        let url: Url = format!("https://secure.test:{}/x", address.port()).parse().unwrap();
        let mut session = Session::default();
        for is_new in [true, false] {
            let fetched = fetcher.fetch(Order::page(&url), &mut session).await.unwrap();
            let body = String::from_utf8_lossy(&fetched.body).into_owned();
            assert!(body.starts_with(&format!("{version} /x")), "{body}");
            assert_eq!(fetched.timings.connect.is_some(), is_new);
            let sent = |name: &str| fetched.request[name].to_str().unwrap().to_owned();
            assert_eq!(sent("host"), format!("secure.test:{}", address.port()));
            assert!(
                sent("accept-encoding").contains("gzip") && sent("user-agent").contains("divvy")
            );
        }
    }
}
