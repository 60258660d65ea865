//! Settings, limits, load, alerts and explanations over HTTP.

use std::time::Duration;

use divvy_proto::v1;
use divvy_server::{FileSections, SettingsFile};
use divvy_types::Timestamp;
use divvy_types::settings::PoisonAfter;
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{Answer, World, failed, hello, id, read, soon};

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Answer {
    read(world.client.request(method, world.url(path)).json(body)).await
}

#[tokio::test]
async fn settings_are_replaced_merged_and_refused_whole() {
    let world = World::start().await;
    let path = "/api/v1/settings";
    let first = world.get(path).await.ok();
    assert_eq!(first["settings"]["load_balancing"]["thresholds"]["busy_threshold"], 5);
    assert_eq!(first["file_sections"], json!([]));
    let patch = json!({"load_balancing": {"strategy": "pull"}, "limits": {"api": {"rate": "5/s"}}});
    let merged = send(&world, Method::PATCH, path, &patch).await.ok();
    assert_eq!(merged["settings"]["load_balancing"]["strategy"], "pull");
    assert_eq!(merged["settings"]["limits"]["api"]["rate"], "5/s");
    let bad = json!({"poison_after": 9, "limits": {"b": {"concurrency": 0}}});
    let error = send(&world, Method::PATCH, path, &bad).await.refused(400, "invalid_setting");
    assert_eq!(error["field"], "limits.b.concurrency");
    assert_eq!(world.get(path).await.ok()["settings"], merged["settings"], "nothing is half done");
    let unknown = json!({"load_balancing": {"strtegy": "pull"}});
    let error = send(&world, Method::PUT, path, &unknown).await.refused(400, "invalid_field");
    assert_eq!(error["field"], "load_balancing.strtegy");
    let replaced = send(&world, Method::PUT, path, &json!({"poison_after": 7})).await.ok();
    assert_eq!(replaced["settings"]["poison_after"], 7);
    assert_eq!(replaced["settings"]["load_balancing"]["strategy"], "hybrid", "left out is default");
    world.request(Method::PUT, path, &[]).await.refused(400, "malformed_json");
}

#[tokio::test]
async fn a_section_of_the_file_is_refused_to_others() {
    let file = SettingsFile::new("divvy.yaml".into());
    let shown = file.clone();
    let world = World::with(move |options| options.settings_file = shown, Default::default()).await;
    let sections = FileSections { poison_after: Some(PoisonAfter(8)), ..FileSections::default() };
    file.apply(&world.handle, sections, Timestamp(1)).await.unwrap();
    let path = "/api/v1/settings";
    let view = world.get(path).await.ok();
    assert_eq!(view["settings"]["poison_after"], 8);
    assert_eq!(
        (&view["file"], &view["file_sections"]),
        (&json!("divvy.yaml"), &json!(["poison_after"]))
    );
    let refused = send(&world, Method::PATCH, path, &json!({"poison_after": 2})).await;
    let error = refused.refused(409, "set_by_file");
    assert!(error["message"].as_str().unwrap().contains("divvy.yaml"), "{error}");
    let other = json!({"ordering": {"ageing_sec": 5}});
    assert_eq!(send(&world, Method::PATCH, path, &other).await.ok()["settings"]["poison_after"], 8);
    let ghost = json!({"kinds": {"noop": {"limits": ["ghost"]}}});
    let refused = send(&world, Method::PATCH, path, &ghost).await.refused(400, "invalid_setting");
    assert_eq!(refused["field"], "kinds.noop.limits");
    // The file itself may change it, and a bad one changes nothing.
    let bad = FileSections { poison_after: Some(PoisonAfter(0)), ..FileSections::default() };
    file.apply(&world.handle, bad, Timestamp(2)).await.unwrap_err();
    let view = world.get(path).await.ok();
    assert_eq!(view["settings"]["poison_after"], 8);
    assert!(view["reload_error"].as_str().unwrap().contains("poison_after is 0"), "{view}");
    assert!(firing(&world).await.contains(&"settings_reload".to_owned()));
}

#[tokio::test]
async fn limits_and_queues_are_set_one_by_one() {
    let world = World::start().await;
    let limit = json!({"rate": "10/m", "concurrency": 2});
    let set = send(&world, Method::PUT, "/api/v1/limits/api", &limit).await.ok();
    assert_eq!((&set["name"], &set["limit"]), (&json!("api"), &limit));
    assert_eq!(world.get("/api/v1/limits").await.ok()["items"][0]["limit"], limit);
    send(&world, Method::PUT, "/api/v1/limits/a%2Fb", &limit).await.refused(400, "invalid_setting");
    send(&world, Method::PUT, "/api/v1/limits/api", &json!({}))
        .await
        .refused(400, "invalid_setting");
    world.request(Method::DELETE, "/api/v1/limits/api", &[]).await.ok();
    world.request(Method::DELETE, "/api/v1/limits/api", &[]).await.refused(404, "no_such_setting");

    let queue = json!({"weight": 3, "fair_by": "time", "fair_weights": {"acme": 5}});
    let set = send(&world, Method::PUT, "/api/v1/queues/video", &queue).await.ok();
    assert_eq!((&set["weight"], &set["ready"]), (&json!(3), &json!(0)));
    let list = world.get("/api/v1/queues").await.ok();
    assert_eq!(list["items"][0]["fair_weights"], json!({"acme": 5}), "a queue with settings only");
    world.post("/api/v1/tasks", &json!({"kind": "noop", "queue": "video"})).await.ok();
    let shown = world.get("/api/v1/queues/video").await.ok();
    assert_eq!((&shown["ready"], &shown["weight"]), (&json!(1), &json!(3)));
    let bad = json!({"weight": 0});
    send(&world, Method::PUT, "/api/v1/queues/video", &bad).await.refused(400, "invalid_setting");
}

#[tokio::test]
async fn load_and_rebalance_tell_what_each_worker_carries() {
    let world = World::start().await;
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    worker.granted().await;
    let load = world.get("/api/v1/load").await.ok();
    assert_eq!(load["workers"][0]["name"], "w1");
    assert_eq!(load["workers"][0]["leased"], 1);
    for name in ["total_steals", "success_rate", "agent_count", "queue_variance", "samples"] {
        assert!(!load[name].is_null(), "{name}: {load}");
    }
    let heartbeat = v1::from_worker::Message::Heartbeat(v1::Heartbeat::default());
    worker.say(heartbeat).await;
    let samples = soon("a sample", async {
        loop {
            let load = world.get("/api/v1/load").await.ok();
            if load["samples"][0].is_object() {
                return load["samples"].clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert_eq!(samples.await[0]["queue_lengths"], json!({"w1": 0}));
    let planned = world.post("/api/v1/rebalance?dry_run=true", &json!({})).await.ok();
    assert_eq!(planned, json!({"dry_run": true, "moves": []}));
    let done = world.request(Method::POST, "/api/v1/rebalance", &[]).await.ok();
    assert_eq!(done["dry_run"], false);
    world.post("/api/v1/rebalance?dry=1", &json!({})).await.refused(400, "invalid_field");
}

#[tokio::test]
async fn alerts_follow_what_is_wrong_and_are_figures_too() {
    let world = World::start().await;
    assert_eq!(firing(&world).await, Vec::<String>::new());
    world.post("/api/v1/tasks", &json!({"kind": "noop"})).await.ok();
    assert_eq!(firing(&world).await, ["no_worker"]);
    let mut worker = world.worker(hello("w1", &["other"])).await.unwrap();
    worker.hear().await.unwrap();
    assert_eq!(firing(&world).await, ["no_capable_worker"]);
    let text = world.get("/metrics").await.text;
    for line in [
        "divvy_alert_pending{name=\"no_capable_worker\"} 1.0",
        "divvy_alert{name=\"no_worker\"} 0.0",
        "divvy_worker_queue_length{worker=\"w1\"} 0.0",
        "divvy_worker_success_rate{worker=\"w1\"} 1.0",
        "divvy_steals_total 0",
        "divvy_avg_task_wait_time_seconds 0.0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
    }
    let mut able = world.worker(hello("w2", &["noop"])).await.unwrap();
    able.granted().await;
    assert_eq!(firing(&world).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_task_is_explained_while_it_waits_runs_and_after_it_died() {
    let world = World::start().await;
    let task = json!({"id": id(1), "kind": "noop", "retry": {"limit": 0}});
    world.post("/api/v1/tasks", &task).await.ok();
    let path = format!("/api/v1/tasks/{}/explain", id(1));
    let waits = world.get(&path).await.ok();
    assert_eq!(waits["wait"]["reason"], "no_worker");
    assert_eq!((&waits["kind"], &waits["attempts_max"]), (&json!("noop"), &json!(1)));
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    let runs = world.get(&path).await.ok();
    assert_eq!((&runs["state"], &runs["worker"]), (&json!("leased"), &json!("w1")));
    let end = failed("the disk broke", v1::FailureVerdict::Retry);
    worker.report(grant.task.unwrap().id, grant.token, end).await;
    assert!(worker.answered().await);
    let dead = world.get(&path).await.ok();
    assert_eq!((&dead["state"], &dead["worker"]), (&json!("dead"), &json!("w1")));
    assert_eq!(dead["history"].as_array().unwrap().len(), 1);
    assert!(dead["history"][0]["error"]["message"].as_str().unwrap().contains("disk broke"));
    assert!(dead["history"][0].get("log").is_none(), "logs are elsewhere");
    world.get(&format!("/api/v1/tasks/{}/explain", id(9))).await.refused(404, "not_found");
}

async fn firing(world: &World) -> Vec<String> {
    let alerts = world.get("/api/v1/alerts").await.ok();
    let broken = alerts["alerts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|alert| alert["firing"] == true || alert["pending"] == true);
    broken.map(|alert| alert["name"].as_str().unwrap().to_owned()).collect()
}
