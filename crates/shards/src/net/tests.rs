//! Which addresses are reached, by name, by literal, by redirect of a resolver, directly and through the proxy.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use divvy::net::Reach;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::testing::{Server, connector, connector_with, page, secure_server};
use super::{ConnectError, Connector, NameError, Protocol, Proxy, Resolve, TableResolver, Target};

const LIMIT: Duration = Duration::from_secs(10);

fn target(url: &str) -> Target {
    Target::of(&url.parse().unwrap()).unwrap()
}

async fn refused(connector: &Connector, url: &str) -> ConnectError {
    connector.connect(&target(url), LIMIT).await.unwrap_err()
}

fn at(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

/// None of these is connected to: the rule stands before the socket.
#[tokio::test]
async fn addresses_that_are_not_of_the_web_are_refused_by_any_name_and_spelling() {
    let special = "0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.0.0.1 192.0.2.1 192.168.0.1 \
        198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 fc00::1 fe80::1 ff02::1 2001:db8::1 \
        ::ffff:10.0.0.1 64:ff9b::10.0.0.1 2002:a00:1::";
    for address in special.split_whitespace() {
        let parsed: IpAddr = address.parse().unwrap();
        let connector = connector_with(TableResolver::all_at(parsed), &[], []);
        let literal = if parsed.is_ipv6() { format!("[{address}]") } else { address.to_owned() };
        for url in ["http://name.test/".to_owned(), format!("https://{literal}/")] {
            let error = refused(&connector, &url).await;
            assert!(matches!(error, ConnectError::Address(_)), "{address} {url} {error}");
        }
    }
    let connector = connector_with(TableResolver::default(), &[], []);
    for url in ["http://2130706433/", "http://0x7f000001/", "http://0177.1/", "http://127.1/"] {
        assert!(matches!(refused(&connector, url).await, ConnectError::Address(_)), "{url}");
    }
}

#[tokio::test]
async fn one_private_address_among_others_refuses_the_name() {
    let mixed = TableResolver::default().with("mixed.test", at(&["127.0.0.1", "10.0.0.1"]));
    let connector = connector_with(mixed, &["127.0.0.0/8"], []);
    let error = refused(&connector, "http://mixed.test/").await.to_string();
    assert!(error.contains("10.0.0.1") && error.contains("--allow-private 10.0.0.1"), "{error}");
}

#[tokio::test]
async fn allowed_networks_are_reached_but_no_metadata_in_them() {
    let server = Server::start(|_| page("200 OK", "", b"")).await;
    let url = server.url("inside.test", "/").to_string();
    assert!(connector().connect(&target(&url), LIMIT).await.is_ok());
    let wide = connector_with(
        TableResolver::all_at("169.254.169.254".parse().unwrap()),
        &["0.0.0.0/0"],
        [],
    );
    assert!(matches!(refused(&wide, "http://metadata.test/").await, ConnectError::Address(_)));
}

/// Answers with one address first and with another ever after.
struct Rebinding {
    asked: AtomicUsize,
}

impl Resolve for Rebinding {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, NameError>> {
        let is_first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
        let answer = if is_first { "127.0.0.1" } else { "127.0.0.2" };
        Box::pin(std::future::ready(Ok(at(&[answer]))))
    }
}

#[tokio::test]
async fn the_connection_goes_to_the_very_address_that_was_checked() {
    let checked = Server::start(|_| page("200 OK", "", b"")).await;
    let port = checked.address.port();
    let _other =
        Server::start_at(Ipv4Addr::new(127, 0, 0, 2), port, |_| page("200 OK", "", b"")).await;
    let connector = connector_with(Rebinding { asked: AtomicUsize::new(0) }, &["127.0.0.1"], []);
    let url = checked.url("rebinding.test", "/").to_string();
    let connected = connector.connect(&target(&url), LIMIT).await.unwrap();
    assert_eq!(connected.address, checked.address, "resolved once");
    let error = refused(&connector, &url).await;
    assert!(matches!(error, ConnectError::Address(_)), "the next answer is checked, too: {error}");
}

#[tokio::test]
async fn nobody_else_is_asked_before_the_crawler_says_who_it_is() {
    // Not an address of loopback, though this machine answers it: nothing leaves it if the rule should fail.
    let unspecified = TableResolver::all_at(Ipv4Addr::UNSPECIFIED.into());
    let connector = connector_with(unspecified, &["0.0.0.0"], []);
    let error = refused(&connector, "http://far.test/").await;
    assert!(matches!(error, ConnectError::Unidentified(_)), "{error}");
    assert!(error.to_string().contains("--user-agent"), "{error}");
}

#[tokio::test]
async fn names_and_machines_that_are_not_there_are_told_apart() {
    let none = connector_with(TableResolver::default(), &["127.0.0.0/8"], []);
    let error = refused(&none, "http://nowhere.test/").await;
    assert!(matches!(error, ConnectError::Name(NameError::Unknown(_))), "{error}");
    let server = Server::start(|_| page("200 OK", "", b"")).await;
    let url = server.url("gone.test", "/").to_string();
    let several = TableResolver::default().with("gone.test", at(&["127.0.0.3", "127.0.0.1"]));
    let several = connector_with(several, &["127.0.0.0/8"], []);
    let connected = several.connect(&target(&url), LIMIT).await.unwrap();
    assert_eq!(connected.address, server.address, "the second address answers");
    let gone =
        connector_with(TableResolver::all_at("127.0.0.3".parse().unwrap()), &["127.0.0.0/8"], []);
    let error = refused(&gone, &url).await;
    assert!(matches!(error, ConnectError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn tls_agrees_on_a_protocol_and_believes_no_stranger() {
    let (address, root) = secure_server(&["h2", "http/1.1"]).await;
    let table = || TableResolver::all_at(address.ip());
    let url = format!("https://secure.test:{}/", address.port());
    let trusting = connector_with(table(), &["127.0.0.0/8"], [root.clone()]);
    assert_eq!(trusting.connect(&target(&url), LIMIT).await.unwrap().protocol, Protocol::Http2);
    let (old, old_root) = secure_server(&[]).await;
    let url_old = format!("https://secure.test:{}/", old.port());
    let plain = connector_with(table(), &["127.0.0.0/8"], [old_root]);
    assert_eq!(plain.connect(&target(&url_old), LIMIT).await.unwrap().protocol, Protocol::Http1);
    let error = refused(&plain, &url).await;
    assert!(matches!(error, ConnectError::Tls { .. }), "another authority: {error}");
    let other_name = format!("https://other.test:{}/", address.port());
    assert!(matches!(refused(&trusting, &other_name).await, ConnectError::Tls { .. }));
}

/// Sends a request to a proxy and reads all of its answer.
async fn through(proxy: &Proxy, request: &str) -> String {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_proxy_passes_requests_on_and_tunnels() {
    let server = Server::start(|_| {
        super::testing::Reply::SendAndClose(
            b"HTTP/1.1 200 OK\r\nkeep-alive: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"
                .to_vec(),
        )
    })
    .await;
    let proxy = Proxy::start(connector()).await.unwrap();
    let port = server.address.port();
    let get = format!(
        "GET http://a.test:{port}/x?y HTTP/1.1\r\nHost: lie.test\r\nProxy-Connection: keep-alive\r\nX-Hop: 1\r\n\
         Connection: close, x-hop\r\n\r\n"
    );
    let answer = through(&proxy, &get).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nhi"), "{answer}");
    let (_, seen) = server.seen().remove(0);
    assert!(
        seen.starts_with("GET /x?y HTTP/1.1\r\n")
            && seen.contains(&format!("host: a.test:{port}\r\n")),
        "{seen}"
    );
    let seen = seen.to_lowercase();
    assert!(
        !seen.contains("proxy-") && !seen.contains("x-hop") && seen.contains("divvybot"),
        "{seen}"
    );

    let inside = "GET /inside HTTP/1.1\r\n\r\n";
    let tunnelled =
        through(&proxy, &format!("CONNECT b.test:{port} HTTP/1.1\r\n\r\n{inside}")).await;
    assert!(
        tunnelled.starts_with("HTTP/1.1 200") && tunnelled.ends_with("\r\n\r\nhi"),
        "{tunnelled}"
    );
    assert_eq!(server.seen().pop().unwrap().1, inside);
    assert_eq!((proxy.counts().asked, proxy.counts().refused), (2, 0));
    assert!(proxy.counts().bytes > 0);
}

#[tokio::test]
async fn a_proxy_reaches_nothing_that_the_crawler_may_not() {
    let server = Server::start(|_| page("200 OK", "", b"secret")).await;
    let connector = Connector::new(
        std::sync::Arc::new(TableResolver::all_at(server.address.ip())),
        Reach::default(),
        super::tls_config([]).unwrap(),
        super::UserAgent::loopback(),
    );
    let proxy = Proxy::start(connector).await.unwrap();
    let port = server.address.port();
    let close = "HTTP/1.1\r\nConnection: close\r\n\r\n";
    let requests = [
        format!("CONNECT a.test:{port} {close}"),
        format!("CONNECT 127.0.0.1:{port} {close}"),
        format!("CONNECT a.test:25 {close}"),
        format!("GET http://a.test:{port}/ {close}"),
        format!("GET http://127.0.0.1:{port}/ {close}"),
        format!("GET ftp://a.test:{port}/ {close}"),
    ];
    for request in &requests {
        let answer = through(&proxy, request).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{request}{answer}");
    }
    assert!(through(&proxy, &format!("GET /local {close}")).await.starts_with("HTTP/1.1 403"));
    assert_eq!(proxy.counts().refused, requests.len() as u64 + 1);
    assert_eq!(server.seen(), []);
    let (address, flags) = (proxy.address(), proxy.chromium_flags().join(" "));
    assert!(flags.contains(&address.to_string()) && flags.contains("<-loopback>"), "{flags}");
}

#[tokio::test]
async fn a_proxy_ends_with_its_owner() {
    let proxy = Proxy::start(connector()).await.unwrap();
    let mut idle = TcpStream::connect(proxy.address()).await.unwrap();
    drop(proxy);
    let ended =
        tokio::time::timeout(LIMIT, idle.read(&mut [0])).await.expect("the proxy must hang up");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}
