//! Callers that come by the hundred, say little and stay, or guess.

use divvy_client::{Channel, Target};
use divvy_proto::v1::work_client::WorkClient;
use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{Worker, World, hello, read, soon};

/// A server with a token and room for 96 connections, 32 of them not let in yet.
async fn small() -> World {
    let change = |options: &mut divvy_server::Options| {
        options.token = Some("secret-1".into());
        options.files = Some(128);
    };
    World::with(change, Default::default()).await
}

#[tokio::test]
async fn half_open_connections_shut_nobody_out() {
    let world = small().await;
    let channel = Channel::to(Target::new(world.url("")).token("secret-1")).unwrap();
    let client = WorkClient::with_origin(channel.clone(), channel.origin());
    let mut worker = Worker::connect(client, hello("w", &["noop"])).await.unwrap();
    let sayings: [&[u8]; 4] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000\r\n\r\n",
    ];
    let mut crowd = Vec::new();
    for number in 0..160 {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        // One that was closed already to make room is as good as any other.
        let _ = stream.write_all(sayings[number % sayings.len()]).await;
        crowd.push(stream);
    }
    assert_eq!(soon("health", world.get("/healthz")).await.status, 200);
    let submit = world.client.post(world.url("/api/v1/tasks")).bearer_auth("secret-1");
    let answer = soon("a submission", read(submit.json(&json!({"kind": "noop"})))).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(worker.granted().await.task.unwrap().kind, "noop");
    drop(crowd);
}

#[tokio::test]
async fn headers_have_the_same_bound_in_either_protocol() {
    let world = World::start().await;
    let value = "x".repeat(20 << 10);
    let one = [("x-a", value.as_str())];
    let two = [("x-a", value.as_str()), ("x-b", value.as_str())];
    assert_eq!(world.request(Method::GET, "/healthz", &one).await.status, 200);
    world.request(Method::GET, "/healthz", &two).await.refused(431, "headers_too_large");
}

#[tokio::test]
async fn who_guesses_tokens_is_not_looked_at_for_a_while() {
    let world = small().await;
    let right = [("authorization", "Bearer secret-1")];
    assert_eq!(world.request(Method::GET, "/api/v1/tasks", &right).await.status, 200);
    let mut statuses = Vec::new();
    for number in 0..40 {
        let guess = format!("Bearer {number}");
        let answer = world.request(Method::GET, "/", &[("authorization", &guess)]).await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses[0], 401);
    assert_eq!(statuses[39], 429, "{statuses:?}");
    let form = read(world.client.post(world.url("/sign-in")).body("token=secret-1")).await;
    assert_eq!(form.status, 429, "{}", form.text);
    // The connection that was let in before goes on.
    assert_eq!(world.request(Method::GET, "/api/v1/tasks", &right).await.status, 200);
    let stranger = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = stranger.get(world.url("/api/v1/tasks")).bearer_auth("secret-1");
    let refused = read(request).await;
    assert!(refused.refused(429, "too_many_guesses")["retry_after_ms"].is_number());
    assert_eq!(world.get("/healthz").await.status, 200);
}
