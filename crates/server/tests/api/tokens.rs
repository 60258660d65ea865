//! What each token allows, and how tokens come and go.

use divvy_client::{Channel, Target};
use divvy_proto::v1::SubmitRequest;
use divvy_proto::v1::submit_client::SubmitClient;
use divvy_proto::v1::work_client::WorkClient;
use divvy_types::{Scope, Scopes, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};
use tonic::Code;

use crate::world::{Answer, Worker, World, hello, read};

const OWNER: &str = "secret-1";

/// A server with a token of its own, and one more for each scope.
async fn world() -> World {
    World::with(|options| options.token = Some(OWNER.into()), Default::default()).await
}

async fn ask(world: &World, method: Method, path: &str, token: &str, body: &Value) -> Answer {
    let request = world.client.request(method, world.url(path)).bearer_auth(token);
    read(if body.is_null() { request } else { request.json(body) }).await
}

async fn make(world: &World, name: &str, scopes: &[&str]) -> String {
    let wanted = json!({ "name": name, "scopes": scopes });
    let made = ask(world, Method::POST, "/api/v1/tokens", OWNER, &wanted).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["secret"].as_str().unwrap().to_owned()
}

/// The scopes that an address needs, as the document tells them.
fn told(operation: &Value) -> Vec<&str> {
    let choices = operation["security"].as_array().unwrap().iter();
    choices.filter_map(|choice| choice["token"][0].as_str()).collect()
}

#[tokio::test]
async fn every_address_wants_the_scope_that_the_document_tells() {
    let world = world().await;
    let document = ask(&world, Method::GET, "/api/v1/openapi.json", OWNER, &Value::Null).await;
    let document = document.ok();
    let mut secrets = Vec::new();
    for scope in [Scope::Read, Scope::Submit, Scope::Work] {
        secrets.push((scope.name(), make(&world, scope.name(), &[scope.name()]).await));
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let needed = told(operation);
            let method: Method = method.to_ascii_uppercase().parse().unwrap();
            let filled =
                path.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
            let filled = filled.collect::<Vec<_>>().join("nothing");
            for (scope, secret) in &secrets {
                let request = world.client.request(method.clone(), world.url(&filled));
                // Only the beginning of the answer: events never end.
                let answer = request.bearer_auth(secret).send().await.unwrap();
                let is_missing =
                    answer.headers().get("divvy-code").is_some_and(|code| code == "scope_missing");
                let may = needed.is_empty() || needed.contains(scope);
                assert_eq!(!is_missing, may, "{method} {path} with {scope}: {}", answer.status());
            }
        }
    }
    for (method, path, scopes) in [
        ("get", "/api/v1/tasks", vec!["read", "work"]),
        ("get", "/api/v1/queues", vec!["read"]),
        ("post", "/api/v1/tasks", vec!["submit"]),
        ("post", "/api/v1/tasks/{id}/cancel", vec!["admin"]),
        ("put", "/api/v1/settings", vec!["admin"]),
        ("get", "/metrics", vec!["read"]),
        ("get", "/healthz", vec![]),
        ("get", "/api/v1/blobs/{id}", vec!["read", "work"]),
        ("put", "/api/v1/blobs/{id}", vec!["submit", "work"]),
        ("put", "/api/v1/records/{name}", vec!["work"]),
        ("get", "/api/v1/tokens", vec!["admin"]),
    ] {
        assert_eq!(told(&document["paths"][path][method]), scopes, "{method} {path}");
    }
}

#[tokio::test]
async fn a_missing_scope_is_named_with_the_cure() {
    let world = world().await;
    let secret = make(&world, "reader", &["read"]).await;
    let task = json!({ "kind": "noop" });
    let refused = ask(&world, Method::POST, "/api/v1/tasks", &secret, &task).await;
    let message = refused.refused(403, "scope_missing")["message"].to_string();
    assert!(message.contains("`submit`") && message.contains("`read`"), "{message}");
    assert!(message.contains("divvy token create NAME --scope submit"), "{message}");
    let secret = make(&world, "both", &["read", "submit"]).await;
    assert_eq!(ask(&world, Method::POST, "/api/v1/tasks", &secret, &task).await.status, 201);
    ask(&world, Method::GET, "/api/v1/tasks", &secret, &Value::Null).await.ok();
    let nothing = ask(&world, Method::GET, "/nothing", &secret, &Value::Null).await;
    nothing.refused(404, "no_such_address");
}

#[tokio::test]
async fn grpc_wants_scopes_too() {
    let world = world().await;
    let submit = make(&world, "submit", &["submit"]).await;
    let work = make(&world, "work", &["work"]).await;
    let channel = |token: &str| Channel::to(Target::new(world.url("")).token(token)).unwrap();
    let submitter = |token: &str| {
        let channel = channel(token);
        SubmitClient::with_origin(channel.clone(), channel.origin())
    };
    let worker = |token: &str| {
        let channel = channel(token);
        WorkClient::with_origin(channel.clone(), channel.origin())
    };
    submitter(&submit).submit(SubmitRequest::default()).await.unwrap();
    let status = submitter(&work).submit(SubmitRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert_eq!(status.metadata().get("divvy-code").unwrap(), "scope_missing");
    assert!(status.message().contains("`submit`"), "{status}");
    Worker::connect(worker(&work), hello("w", &["a"])).await.unwrap();
    let refused = Worker::connect(worker(&submit), hello("w", &["a"])).await;
    let status = refused.err().expect("refused");
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    assert!(status.message().contains("`work`"), "{status}");
}

#[tokio::test]
async fn a_token_is_listed_without_its_secret_and_ends_when_it_is_revoked() {
    let world = world().await;
    let secret = make(&world, "ci", &["read"]).await;
    let tasks = || ask(&world, Method::GET, "/api/v1/tasks", &secret, &Value::Null);
    tasks().await.ok();
    let again = json!({ "name": "ci", "scopes": ["admin"] });
    let again = ask(&world, Method::POST, "/api/v1/tokens", OWNER, &again).await;
    again.refused(409, "token_exists");
    let none = json!({ "name": "none", "scopes": [] });
    let none = ask(&world, Method::POST, "/api/v1/tokens", OWNER, &none).await;
    none.refused(400, "invalid_field");
    let listed = ask(&world, Method::GET, "/api/v1/tokens", OWNER, &Value::Null).await;
    assert!(!listed.text.contains(&secret) && !listed.text.contains("hash"), "{}", listed.text);
    let listed = &listed.json()["items"][0];
    assert_eq!((&listed["name"], &listed["scopes"]), (&json!("ci"), &json!(["read"])));
    assert!(listed["created_at"].is_string() && listed["last_used_at"].is_string(), "{listed}");

    let form = world.client.post(world.url("/sign-in")).header("origin", world.url(""));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let form = form.body(format!("token={secret}")).build().unwrap();
    let signed_in = client.build().unwrap().execute(form).await.unwrap();
    let cookie = signed_in.headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = [("cookie", cookie.split(';').next().unwrap())];
    world.request(Method::GET, "/api/v1/tasks", &cookie).await.ok();
    let pause = world.request(Method::POST, "/api/v1/queues/q/pause", &cookie).await;
    pause.refused(403, "scope_missing");

    let path = "/api/v1/tokens/ci";
    ask(&world, Method::DELETE, path, OWNER, &Value::Null).await.ok();
    ask(&world, Method::DELETE, path, OWNER, &Value::Null).await.refused(404, "no_such_token");
    tasks().await.refused(401, "unauthorized");
    world.request(Method::GET, "/api/v1/tasks", &cookie).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn an_expired_token_says_since_when() {
    let tokens = divvy_server::Tokens::default();
    let old = tokens.create("old", Scopes::ADMIN, Some(Timestamp(1_000_000))).unwrap();
    let world = World::with(|options| options.tokens = tokens, Default::default()).await;
    let refused = ask(&world, Method::GET, "/api/v1/tasks", &old.secret, &Value::Null).await;
    let message = refused.refused(401, "unauthorized")["message"].to_string();
    assert!(message.contains("1970-01-01T00:00:01"), "{message}");
}

#[tokio::test]
async fn the_first_token_closes_an_open_server_and_nobody_is_locked_out() {
    let world = World::start().await;
    let path = "/api/v1/tokens";
    world
        .post(path, &json!({ "name": "ci", "scopes": ["read"] }))
        .await
        .refused(409, "no_admin_left");
    world.get("/api/v1/tasks").await.ok();
    let made = world.post(path, &json!({ "name": "ops", "scopes": ["admin"] })).await;
    let ops = made.json()["secret"].as_str().unwrap().to_owned();
    world.get("/api/v1/tasks").await.refused(401, "unauthorized");
    let ci = json!({ "name": "ci", "scopes": ["read"] });
    assert_eq!(ask(&world, Method::POST, path, &ops, &ci).await.status, 201);
    let last = ask(&world, Method::DELETE, "/api/v1/tokens/ops", &ops, &Value::Null).await;
    last.refused(409, "no_admin_left");
    ask(&world, Method::DELETE, "/api/v1/tokens/ci", &ops, &Value::Null).await.ok();
    ask(&world, Method::DELETE, "/api/v1/tokens/ops", &ops, &Value::Null).await.ok();
    world.get("/api/v1/tasks").await.ok();
}
