//! Alerts over HTTP: who is told, how often, by what, and who is not.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::{Router, routing};
use divvy_server::{AlertOptions, FileSections, SettingsFile};
use divvy_types::Timestamp;
use divvy_types::payload::{from_base64, to_base64};
use reqwest::{Method, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::world::{World, hello, soon};

/// Somebody who is told, and refuses the first calls.
#[derive(Clone, Default)]
struct Receiver {
    calls: Arc<Mutex<Vec<Call>>>,
    refuses: Arc<Mutex<u32>>,
    came: Arc<Notify>,
}

#[derive(Clone, Debug)]
struct Call {
    id: String,
    taken: bool,
    body: Value,
}

const KEY: [u8; 32] = [7; 32];

impl Receiver {
    async fn listen(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/hook", routing::post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    /// Waits until so many calls were taken, and returns what they told: name and state.
    async fn told(&self, count: usize) -> Vec<(String, String)> {
        let all = soon("a call", async {
            loop {
                let came = self.came.notified();
                let taken: Vec<Value> = self.taken();
                if taken.len() >= count {
                    return taken;
                }
                came.await;
            }
        });
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pair = |body: &Value| (text(&body["data"]["name"]), text(&body["data"]["state"]));
        all.await.iter().map(pair).collect()
    }

    fn taken(&self) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.taken).map(|call| call.body.clone()).collect()
    }
}

async fn take(State(receiver): State<Receiver>, request: Request) -> StatusCode {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let header = |name: &str| parts.headers[name].to_str().unwrap().to_owned();
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    let signature = header("webhook-signature");
    let signed = from_base64(signature.strip_prefix("v1,").unwrap()).unwrap();
    let text = [id.as_bytes(), b".", at.as_bytes(), b".", &body].concat();
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &KEY), &text, &signed).unwrap();
    let refuses = {
        let mut refuses = receiver.refuses.lock().unwrap();
        let before = *refuses;
        *refuses = before.saturating_sub(1);
        before > 0
    };
    let body = serde_json::from_slice(&body).unwrap();
    receiver.calls.lock().unwrap().push(Call { id, taken: !refuses, body });
    receiver.came.notify_one();
    if refuses { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
}

/// A server that tells this address, at once, when there is no worker.
async fn watched(file: &Path, hook: SocketAddr) -> World {
    let settings = SettingsFile::new("divvy.yaml".into());
    let (shown, file) = (settings.clone(), file.to_owned());
    let change = |options: &mut divvy_server::Options| {
        options.settings_file = shown;
        options.alerts_file = Some(file);
    };
    let world = World::with(change, divvy_engine::Options::default()).await;
    let alerts: AlertOptions = serde_json::from_value(json!({
        "rules": {
            "no_worker": {"for_sec": 0, "calm_sec": 0},
            // The disk of whoever runs this test is no business of it.
            "disk_low": {"enabled": false},
        },
        "sinks": {"ops": {"webhook": {
            "url": format!("http://{hook}/hook"), "secret": format!("whsec_{}", to_base64(&KEY)),
        }}},
    }))
    .unwrap();
    let sections = FileSections { alerts: Some(alerts), ..FileSections::default() };
    settings.apply(&world.handle, sections, Timestamp(1)).await.unwrap();
    world
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[tokio::test]
async fn an_alert_is_told_once_and_its_end_once_though_the_receiver_is_away_and_the_server_restarts()
 {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("alerts.json");
    let receiver = Receiver::default();
    *receiver.refuses.lock().unwrap() = 1;
    let hook = receiver.listen().await;
    let mut world = watched(&file, hook).await;
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    let alerts = world.get("/api/v1/alerts").await.ok();
    let rule = alerts["alerts"].as_array().unwrap().iter().find(|it| it["name"] == "no_worker");
    let rule = rule.unwrap();
    assert_eq!((&rule["firing"], &rule["value"]), (&json!(true), &json!(1.0)), "{rule}");
    assert!(rule["since"].is_string() && rule["cure"].is_string(), "{rule}");
    let sink = json!({"name": "ops", "kind": "webhook", "to": format!("http://{hook}")});
    assert_eq!(alerts["sinks"], json!([sink]));

    assert_eq!(receiver.told(1).await, pairs(&[("no_worker", "fired")]));
    let ids: Vec<String> = receiver.calls.lock().unwrap().iter().map(|it| it.id.clone()).collect();
    assert_eq!(ids.len(), 2, "refused once, then taken");
    assert_eq!(ids[0], ids[1], "a repetition has the same id");
    let task = world.task(&ids[0]).await;
    assert_eq!((&task["kind"], &task["queue"]), (&json!("divvy.alert"), &json!("divvy-alerts")));
    world.stop_engine();
    world.shutdown.cancel();
    soon("the end of the server", &mut world.running).await.unwrap().unwrap();

    // The file tells the next server that it fires and that others know; with nothing to do, it is over.
    let world = watched(&file, hook).await;
    assert_eq!(receiver.told(2).await[1..], pairs(&[("no_worker", "resolved")]));
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    world.get("/api/v1/alerts").await.ok();
    assert_eq!(receiver.told(3).await[2..], pairs(&[("no_worker", "fired")]));
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    worker.granted().await;
    world.get("/api/v1/alerts").await.ok();
    assert_eq!(receiver.told(4).await[3..], pairs(&[("no_worker", "resolved")]));
    let history = world.get("/api/v1/alerts").await.ok()["history"].clone();
    let states: Vec<&str> =
        history.as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["resolved", "fired", "resolved", "fired"]);
    assert_eq!(receiver.taken().len(), 4, "each once");
}

#[tokio::test]
async fn nobody_is_told_during_a_silence_and_a_test_is_told_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    let world = watched(&folder.path().join("alerts.json"), receiver.listen().await).await;
    let silence = "/api/v1/alerts/no_worker/silence";
    let silenced = world.post(silence, &json!({"for_sec": 3_600})).await.ok();
    assert!(silenced["silenced_until"].is_string(), "{silenced}");
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    let alerts = world.get("/api/v1/alerts").await.ok();
    assert_eq!(alerts["history"][0]["state"], "fired", "people who look see it");
    assert_eq!(world.post("/api/v1/alerts/test", &json!({})).await.status, StatusCode::ACCEPTED);
    assert_eq!(receiver.told(1).await, pairs(&[("test", "test")]), "and nothing before it");
    world.request(Method::DELETE, silence, &[]).await.ok();
    world.get("/api/v1/alerts").await.ok();
    assert_eq!(receiver.told(2).await[1..], pairs(&[("no_worker", "fired")]));

    world
        .post("/api/v1/alerts/no_such/silence", &json!({"for_sec": 1}))
        .await
        .refused(404, "no_such_alert");
    world.post(silence, &json!({"for_sec": 0})).await.refused(400, "invalid_field");
    world.post(silence, &json!({})).await.refused(400, "invalid_field");
    // The courier that delivers is no worker of people.
    let text = world.get("/metrics").await.text;
    assert!(text.contains("divvy_alert{name=\"no_worker\"} 1.0\n"), "{text}");
}
