//! Taking a port, living with bad connections, and a durable store behind it all.

use std::net::SocketAddr;
use std::path::Path;

use divvy_client::Channel;
use divvy_engine::Engine;
use divvy_proto::v1;
use divvy_proto::v1::to_worker::Message as Heard;
use divvy_proto::v1::work_client::WorkClient;
use divvy_server::{Error, Options, Server, Tokens};
use divvy_store::{MemoryStore, SqliteStore};
use divvy_types::Scopes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{Worker, World, finished, hello, id, read, soon};

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

/// A server on a folder that outlives it.
struct Lasting {
    url: String,
    engine: Engine,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
}

impl Lasting {
    async fn start(folder: &Path) -> Self {
        let store = SqliteStore::open(folder, Default::default()).unwrap();
        let (handle, engine) = Engine::start(Box::new(store), Default::default()).unwrap();
        let server = Server::bind(Options::new(SocketAddr::from(([127, 0, 0, 1], 0))), handle)
            .await
            .unwrap();
        let url = format!("http://{}", server.address());
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(server.run(shutdown.clone()));
        Self { url, engine, shutdown, running }
    }

    async fn submit(&self, task: &Value) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(format!("{}/api/v1/tasks", self.url)).json(task);
        assert_eq!(request.send().await.unwrap().status(), 201);
    }

    async fn task(&self, id: &str) -> Value {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        read(client.get(format!("{}/api/v1/tasks/{id}", self.url))).await.ok()
    }

    async fn worker(&self, hello: v1::Hello) -> Worker {
        let channel = Channel::to(self.url.clone()).unwrap();
        let client = WorkClient::with_origin(channel.clone(), channel.origin());
        Worker::connect(client, hello).await.unwrap()
    }

    async fn stop(self) {
        self.engine.stopper().stop();
        self.shutdown.cancel();
        soon("the end of the engine", self.engine.join()).await.unwrap();
        soon("the end of the server", self.running).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Lasting::start(folder.path()).await;
    server.submit(&json!({"id": id(7), "kind": "noop", "payload": {"kept": true}})).await;
    server.stop().await;
    let server = Lasting::start(folder.path()).await;
    let task = server.task(&id(7)).await;
    assert_eq!(task["payload"], json!({"kept": true}));
    assert_eq!(task["state"], "ready");
    server.stop().await;
}

#[tokio::test]
async fn when_an_attempt_began_that_still_runs_is_told_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Lasting::start(folder.path()).await;
    server.submit(&json!({"id": id(7), "kind": "noop"})).await;
    let mut worker = server.worker(hello("w", &["noop"])).await;
    let grant = worker.granted().await;
    let began = server.task(&id(7)).await["started"].clone();
    assert!(began.is_string(), "{began}");
    server.stop().await;
    drop(worker);

    let server = Lasting::start(folder.path()).await;
    assert_eq!(server.task(&id(7)).await["started"], began, "while its worker is not back");
    let task = grant.task.unwrap().id;
    let held = vec![v1::Lease { task: task.clone(), token: grant.token }];
    let mut worker = server.worker(v1::Hello { held, ..hello("w", &["noop"]) }).await;
    assert!(matches!(worker.hear().await, Ok(Some(Heard::Welcome(_)))));
    assert_eq!(server.task(&id(7)).await["started"], began, "when it is");
    worker.report(task, grant.token, finished("1")).await;
    assert!(worker.answered().await);
    let done = server.task(&id(7)).await;
    assert_eq!((&done["state"], &done["history"][0]["started"]), (&json!("done"), &began));
    server.stop().await;
}
