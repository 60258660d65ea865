//! What dashboards follow: who asks, the numbers, the last day, and what happens to workers and queues.

use reqwest::Method;
use serde_json::{Value, json};

use crate::events::Watcher;
use crate::world::{World, failed, finished, hello, id, soon};
use divvy_proto::v1;

/// Lets a worker run so many tasks of the queue `mail`, of which the last fails.
async fn work(world: &World, name: &str, tasks: u128) {
    let mut worker = world.worker(hello(name, &["noop"])).await.unwrap();
    for number in 1..=tasks {
        let task = json!({"id": id(number), "kind": "noop", "queue": "mail"});
        world.post("/api/v1/tasks", &task).await.ok();
        let grant = worker.granted().await;
        let end = match number == tasks {
            true => failed("broke", v1::FailureVerdict::Dead),
            false => finished("1"),
        };
        worker.report(grant.task.unwrap().id, grant.token, end).await;
        assert!(worker.answered().await);
    }
}

/// Asks until an answer has what is wanted: what is told may be a moment old.
async fn until(world: &World, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let asking = async {
        loop {
            let answer = world.get(path).await.ok();
            if wanted(&answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(path, asking).await
}

fn sum(series: &Value) -> f64 {
    series.as_array().unwrap().iter().filter_map(Value::as_f64).sum()
}

#[tokio::test]
async fn the_overview_and_the_history_tell_what_was_done() {
    let world = World::start().await;
    let empty = world.get("/api/v1/overview").await.ok();
    assert_eq!((&empty["waiting"], &empty["oldest_wait_ms"]), (&json!(0), &Value::Null));
    assert_eq!((&empty["workers_wanted"], &empty["cost_per_hour"]), (&Value::Null, &Value::Null));
    work(&world, "w1", 3).await;
    world.post("/api/v1/tasks", &json!({"kind": "nobody-serves-it"})).await.ok();
    let told = until(&world, "/api/v1/overview", |told| told["dead"] == 1 && told["waiting"] == 1);
    let told = told.await;
    assert_eq!((&told["states"]["done"], &told["states"]["ready"]), (&json!(2), &json!(1)));
    assert_eq!(told["done_per_min"], 2.0);
    assert_eq!(told["failed_share"], 0.3333);
    assert!(told["oldest_wait_ms"].is_u64(), "{told}");
    let history = world.get("/api/v1/history?points=1").await.ok();
    assert!(sum(&history["series"]["done"]) > 0.0, "{history}");
    assert!(sum(&history["series"]["wait_p95_ms"]) > 0.0, "{history}");
    let mail = world.get("/api/v1/history?points=1&queue=mail").await.ok();
    assert!(sum(&mail["series"]["failed"]) > 0.0, "{mail}");
    let other = world.get("/api/v1/history?points=1&queue=other").await.ok();
    assert_eq!(sum(&other["series"]["done"]), 0.0, "{other}");
    for (query, field) in [
        ("points=0", "points"),
        ("points=5000", "points"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("from=yesterday", "from"),
    ] {
        let answer = world.get(&format!("/api/v1/history?{query}")).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["error"]["field"]),
            (400, &json!(field))
        );
    }
}

#[tokio::test]
async fn the_overview_tells_of_a_rule_that_is_broken_before_it_fires() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    let is_pending = |alert: &Value| alert["name"] == "no_worker" && alert["pending"] == true;
    let overview = until(&world, "/api/v1/overview", |overview| {
        overview["alerts"].as_array().unwrap().iter().any(is_pending)
    });
    let overview = overview.await;
    let alert = overview["alerts"].as_array().unwrap().iter().find(|alert| is_pending(alert));
    assert_eq!(alert.unwrap()["firing"], false, "{overview}");
}

#[tokio::test]
async fn the_history_is_there_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let start = || {
        let path = path.clone();
        World::with(|options| options.history = Some(path), divvy_engine::Options::default())
    };
    let mut first = start().await;
    work(&first, "w1", 3).await;
    let asked = "/api/v1/history?points=1&queue=mail";
    let before = until(&first, asked, |told| sum(&told["series"]["failed"]) > 0.0).await;
    first.shutdown.cancel();
    soon("the end of the server", &mut first.running).await.unwrap().unwrap();
    drop(first);
    let second = start().await;
    let after = until(&second, asked, |told| sum(&told["series"]["failed"]) > 0.0).await;
    assert!(sum(&after["series"]["done"]) > 0.0, "{before} {after}");
    assert_eq!(
        second.get("/api/v1/stats").await.ok()["engine"]["finished"],
        0,
        "it is another one"
    );
}

#[tokio::test]
async fn watchers_hear_the_numbers_and_what_happens_to_workers_and_queues() {
    let world = World::start().await;
    let mut watcher = Watcher::start(&world, "/api/v1/pulse").await;
    watcher.until("event: pulse").await.unwrap();
    let worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    watcher.until(r#""what":"came""#).await.unwrap();
    world.request(Method::POST, "/api/v1/queues/mail/pause", &[]).await.ok();
    watcher.until(r#""what":"paused""#).await.unwrap();
    let id = watcher.last_id().unwrap().to_owned();
    world.request(Method::POST, "/api/v1/workers/w1/drain", &[]).await.ok();
    watcher.until(r#""what":"draining""#).await.unwrap();
    let told = watcher.events("worker");
    let told: Vec<(&Value, &Value)> = told.iter().map(|it| (&it["worker"], &it["what"])).collect();
    let (w1, came, draining) = (json!("w1"), json!("came"), json!("draining"));
    assert_eq!(told, [(&w1, &came), (&w1, &draining)]);
    assert_eq!(watcher.events("queue")[0]["queue"], "mail");
    let pulse = watcher.events("pulse");
    assert!(pulse.iter().all(|pulse| pulse["overview"]["time"].is_string()), "{pulse:?}");
    drop(watcher);
    drop(worker);
    let mut back = Watcher::resume(&world, "/api/v1/pulse", &id).await;
    back.until(r#""what":"left""#).await.unwrap();
    let told: Vec<Value> = back.events("worker").iter().map(|it| it["what"].clone()).collect();
    assert_eq!(told, ["draining", "left"], "nothing is missed and nothing told twice");
    let mut late = Watcher::resume(&world, "/api/v1/pulse", "1-1").await;
    late.until("event: lagged").await.unwrap();
}

#[tokio::test]
async fn a_caller_is_told_what_it_may_do() {
    let open = World::start().await;
    let everything = json!(["read", "submit", "work", "admin"]);
    let told = open.get("/api/v1/me").await.ok();
    assert_eq!(told, json!({"scopes": everything, "token": null}));
    let token = "a-token-of-more-than-sixteen";
    let change = |options: &mut divvy_server::Options| options.token = Some(token.to_owned());
    let world = World::with(change, divvy_engine::Options::default()).await;
    let me = async |token: &str| {
        let header = format!("Bearer {token}");
        world.request(Method::GET, "/api/v1/me", &[("authorization", &header)]).await
    };
    assert_eq!(me(token).await.ok(), json!({"scopes": everything, "token": null}));
    let request = world.client.post(world.url("/api/v1/tokens")).bearer_auth(token);
    let made = request.json(&json!({"name": "ci", "scopes": ["submit"]})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    let told = me(made["secret"].as_str().unwrap()).await.ok();
    assert_eq!(told, json!({"scopes": ["submit"], "token": "ci"}));
    world.get("/api/v1/me").await.refused(401, "unauthorized");
}
