//! Schedules over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{Answer, World, hello, read};

async fn put(world: &World, path: &str, body: &Value) -> Answer {
    read(world.client.put(world.url(path)).json(body)).await
}

async fn delete(world: &World, path: &str) -> Answer {
    world.request(Method::DELETE, path, &[]).await
}

const NIGHTLY: &str = "/api/v1/schedules/nightly";

#[tokio::test]
async fn a_schedule_is_set_shown_paused_and_removed() {
    let world = World::start().await;
    let body = json!({"cron": "0 3 * * *", "zone": "europe/berlin", "task": {"kind": "report", "payload": {"a": [1]}}});
    let set = put(&world, NIGHTLY, &body).await.ok();
    assert_eq!(set["words"], "at 03:00 every day, Europe/Berlin time");
    assert_eq!(set["schedule"]["zone"], "Europe/Berlin");
    assert_eq!(set["schedule"]["paused"], false);
    assert_eq!(set["schedule"]["task"]["payload"], json!({"a": [1]}));
    let next = set["next"].as_array().unwrap();
    assert_eq!(next.len(), 5);
    assert!(next.iter().all(|tick| tick["local"].as_str().unwrap().contains("T03:00:00+0")));
    assert_eq!(world.get(NIGHTLY).await.ok()["name"], "nightly");
    // What is shown can be sent back.
    put(&world, NIGHTLY, &set["schedule"]).await.ok();

    let paused = world.post(&format!("{NIGHTLY}/pause"), &json!({})).await.ok();
    assert_eq!((&paused["schedule"]["paused"], &paused["next"]), (&json!(true), &json!([])));
    assert_eq!(put(&world, NIGHTLY, &body).await.ok()["schedule"]["paused"], true);
    let resumed = world.post(&format!("{NIGHTLY}/resume"), &json!({})).await.ok();
    assert_eq!(resumed["next"].as_array().unwrap().len(), 5);

    let items = world.get("/api/v1/schedules").await.ok()["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 1);
    assert_eq!(delete(&world, NIGHTLY).await.ok(), json!({"name": "nightly", "removed": true}));
    assert_eq!(world.get("/api/v1/schedules").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_trigger_runs_the_task_with_its_payload() {
    let world = World::start().await;
    let body = json!({"cron": "@yearly", "task": {"kind": "report", "payload": {"n": 7}, "priority": 5, "queue": "night"}});
    put(&world, NIGHTLY, &body).await.ok();
    let answer = world.post(&format!("{NIGHTLY}/trigger"), &json!({})).await;
    assert_eq!(answer.status.as_u16(), 201);
    let id = answer.ok()["task"].as_str().unwrap().to_owned();
    let task = world.task(&id).await;
    assert_eq!(
        (&task["kind"], &task["payload"], &task["priority"], &task["queue"], &task["state"]),
        (&json!("report"), &json!({"n": 7}), &json!(5), &json!("night"), &json!("ready"))
    );
    assert!(task["run_at"].is_string(), "handlers can read when it was meant for: {task}");
    assert_eq!(world.get(NIGHTLY).await.ok()["last_task"], id);
    let mut worker = world.worker(hello("w", &["report"])).await.unwrap();
    assert_eq!(worker.granted().await.attempt, 1);
}

#[tokio::test]
async fn each_fault_names_its_field() {
    let world = World::start().await;
    let good = || json!({"cron": "@daily", "task": {"kind": "a"}});
    let with = |field: &str, value: Value| {
        let mut body = good();
        match field.strip_prefix("task.") {
            Some(field) => body["task"][field] = value,
            None => body[field] = value,
        }
        body
    };
    for (body, field, words) in [
        (with("cron", json!("0 25 * * *")), "cron", "hours `25`: expected 0 to 23"),
        (with("cron", json!("0 0 30 2 *")), "cron", "never comes"),
        (with("cron", json!("@never")), "cron", "is no macro"),
        (with("zone", json!("Berlin")), "zone", "such as Europe/Berlin"),
        (with("catch_up", json!("some")), "catch_up", "`skip`, `last`, `all`"),
        (with("overlap", json!("never")), "overlap", "`allow` or `skip`"),
        (with("jitter_ms", json!(90_000_000)), "jitter_ms", "at most 3600000"),
        (with("task.priority", json!(9)), "task.priority", "expected 1 to 5"),
        (with("task.kind", json!("")), "task.kind", "is empty"),
        (with("task.after", json!([])), "task.after", "unknown field"),
        (with("every", json!("1h")), "every", "unknown field"),
        (json!({"cron": "@daily"}), "task", "missing field"),
    ] {
        let error = put(&world, NIGHTLY, &body).await.refused(400, "invalid_field");
        assert_eq!(error["field"], field, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    put(&world, "/api/v1/schedules/%20x", &good()).await.refused(400, "invalid_field");
    world.request(Method::PUT, NIGHTLY, &[]).await.refused(400, "malformed_json");
    world.get(NIGHTLY).await.refused(404, "no_such_schedule");
    delete(&world, NIGHTLY).await.refused(404, "no_such_schedule");
    for verb in ["pause", "resume", "trigger"] {
        let answer = world.post(&format!("{NIGHTLY}/{verb}"), &json!({})).await;
        answer.refused(404, "no_such_schedule");
    }
    assert_eq!(world.get("/api/v1/schedules").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_schedule_is_previewed_without_being_set() {
    let world = World::start().await;
    let mut schedule =
        json!({"cron": "0 3 * * *", "zone": "Europe/Berlin", "task": {"kind": "noop"}});
    let shown = world.post("/api/v1/schedules/preview", &schedule).await.ok();
    assert!(shown["next"].as_array().unwrap().len() >= 3, "{shown}");
    assert!(shown["next"][0]["local"].as_str().unwrap().contains("03:00"), "{shown}");
    assert!(shown["words"].is_string(), "{shown}");
    assert_eq!(world.get("/api/v1/schedules").await.ok()["items"], json!([]));
    schedule["cron"] = json!("0 30 * *");
    let refused = world.post("/api/v1/schedules/preview", &schedule).await;
    assert_eq!(refused.json()["error"]["field"], "cron", "{}", refused.text);
}
