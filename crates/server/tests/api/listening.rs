//! Taking a port, living with bad connections, and a durable store behind it all.

use std::net::SocketAddr;

use divvy_engine::Engine;
use divvy_server::{Error, Options, Server, Tokens};
use divvy_store::{MemoryStore, SqliteStore};
use divvy_types::Scopes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::world::{World, id, soon};

fn engine() -> divvy_engine::Handle {
    Engine::start(Box::new(MemoryStore::new()), Default::default()).unwrap().0
}

async fn bind_error(options: Options) -> Error {
    match Server::bind(options, engine()).await {
        Ok(server) => panic!("listens on {}", server.address()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_taken_port_is_refused_with_the_address_and_the_cure() {
    let world = World::start().await;
    let error = bind_error(Options::new(world.address)).await;
    assert!(matches!(error, Error::AddressInUse { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&world.address.to_string()) && text.contains("--listen"), "{text}");
}

#[tokio::test]
async fn an_address_for_others_needs_a_token() {
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let error = bind_error(Options::new(open)).await;
    assert!(matches!(error, Error::NotLoopback { .. }), "{error}");
    assert!(error.to_string().contains("divvy token create"), "{error}");
    let with = |token: &str| Options { token: Some(token.into()), ..Options::new(open) };
    assert!(Server::bind(with("0123456789abcdef"), engine()).await.is_ok());
    let error = bind_error(with("x")).await;
    assert!(matches!(error, Error::ShortToken { .. }), "{error}");
    assert!(error.to_string().contains("at least 16"), "{error}");
    let tokens = Tokens::default();
    tokens.create("ops", Scopes::ADMIN, None).unwrap();
    let options = Options { tokens, ..Options::new(open) };
    assert!(Server::bind(options, engine()).await.is_ok(), "a token that was made will do");
    for token in ["", "with space", "tab\t"] {
        let options = Options { token: Some(token.into()), ..Options::new(open) };
        assert!(matches!(bind_error(options).await, Error::BadToken));
    }
    let options = Options { allowed_hosts: vec!["http://x/".into()], ..Options::default() };
    assert!(matches!(bind_error(options).await, Error::BadHost(_)));
    let elsewhere = Options { listen: "192.0.2.1:0".parse().unwrap(), ..with("0123456789abcdef") };
    assert!(matches!(bind_error(elsewhere).await, Error::Listen { .. }));
}

#[tokio::test]
async fn bytes_that_are_no_http_hurt_nobody() {
    let world = World::start().await;
    let garbage: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\0\0\0\0",
    ];
    for bytes in garbage {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // A reset is as good an answer as any.
        let _ = soon("the end of the connection", stream.read_to_end(&mut answer)).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
    }
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_up_the_end() {
    let mut world = World::start().await;
    let silent = TcpStream::connect(world.address).await.unwrap();
    let mut half = TcpStream::connect(world.address).await.unwrap();
    half.write_all(b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut byte = [0];
    soon("an answer", half.read_exact(&mut byte)).await.unwrap();
    world.shutdown.cancel();
    soon("the end of the server", &mut world.running).await.unwrap().unwrap();
    assert!(TcpStream::connect(world.address).await.is_err(), "the port is free again");
    drop(silent);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for start in 0..2 {
        let store = SqliteStore::open(folder.path(), Default::default()).unwrap();
        let (handle, engine) = Engine::start(Box::new(store), Default::default()).unwrap();
        let server = Server::bind(Options::new(SocketAddr::from(([127, 0, 0, 1], 0))), handle)
            .await
            .unwrap();
        let url = format!("http://{}/api/v1/tasks", server.address());
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(server.run(shutdown.clone()));
        if start == 0 {
            let body = json!({"id": id(7), "kind": "noop", "payload": {"kept": true}});
            assert_eq!(client.post(&url).json(&body).send().await.unwrap().status(), 201);
        } else {
            let task: Value =
                client.get(format!("{url}/{}", id(7))).send().await.unwrap().json().await.unwrap();
            assert_eq!(task["payload"], json!({"kept": true}));
            assert_eq!(task["state"], "ready");
        }
        engine.stopper().stop();
        shutdown.cancel();
        soon("the end of the engine", engine.join()).await.unwrap();
        soon("the end of the server", running).await.unwrap().unwrap();
    }
}
