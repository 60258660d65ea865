//! What people do: pause, cancel, retry, and look after dead letters.

use divvy_proto::v1;
use serde_json::{Value, json};

use crate::world::{Worker, World, failed, hello, id};

#[tokio::test]
async fn a_paused_queue_grants_nothing_until_it_is_resumed() {
    let world = World::start().await;
    let paused = world.post("/api/v1/queues/video/pause", &json!({})).await.ok();
    assert_eq!(paused, json!({"name": "video", "paused": true}));
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop", "queue": "video"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    worker.hear().await.unwrap();
    let task = world.task(&id(1)).await;
    assert_eq!(
        (&task["state"], &task["wait"]["reason"]),
        (&json!("ready"), &json!("queue_paused"))
    );
    let queue = world.get("/api/v1/queues/video").await.ok();
    assert_eq!((&queue["paused"], &queue["ready"]), (&json!(true), &json!(1)));
    assert_eq!(world.get("/api/v1/queues").await.ok()["items"][0]["name"], "video");
    // No body and no content type at all are fine where nothing has to be said.
    world.request(reqwest::Method::POST, "/api/v1/queues/video/resume", &[]).await.ok();
    assert_eq!(worker.granted().await.attempt, 1);
    world.post("/api/v1/queues/%20x/pause", &json!({})).await.refused(400, "invalid_field");
}

#[tokio::test]
async fn a_cancelled_task_can_be_retried_and_a_finished_state_cannot() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let cancel = format!("/api/v1/tasks/{}/cancel", id(1));
    assert_eq!(
        world.post(&cancel, &json!({"reason": "wrong file"})).await.ok()["state"],
        "cancelled"
    );
    let task = world.task(&id(1)).await;
    assert!(task["error"]["message"].as_str().unwrap().contains("wrong file"), "{task}");
    world.post(&cancel, &json!({})).await.refused(409, "conflict");
    world.post(&cancel, &json!({"because": "x"})).await.refused(400, "invalid_field");
    world.post(&cancel, &json!({"reason": "r".repeat(300)})).await.refused(400, "invalid_field");
    let retry = format!("/api/v1/tasks/{}/retry", id(1));
    assert_eq!(world.post(&retry, &json!({})).await.ok()["state"], "ready");
    world.post(&retry, &json!({})).await.refused(409, "conflict");
    world
        .post(&format!("/api/v1/tasks/{}/retry", id(9)), &json!({}))
        .await
        .refused(404, "not_found");
}

#[tokio::test]
async fn dead_letters_are_grouped_replayed_and_dropped_by_selection() {
    let world = World::start().await;
    let mut worker = world.worker(hello("w1", &["a.one", "a.two"])).await.unwrap();
    for number in 1..=6u128 {
        let kind = if number <= 4 { "a.one" } else { "a.two" };
        world.post("/api/v1/tasks", &json!({"id": id(number), "kind": kind})).await.ok();
        die(&mut worker, &format!("disk {number} broke after {} s", number * 7)).await;
    }
    let groups = world.get("/api/v1/dead").await.ok();
    assert_eq!(groups["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&groups["items"][0]["kind"], &groups["items"][0]["count"]),
        (&json!("a.one"), &json!(4))
    );
    let time = |at: &Value| at.as_str().unwrap().to_owned();
    for group in groups["items"].as_array().unwrap() {
        assert!(time(&group["first"]) <= time(&group["last"]), "{group}");
        let trend: Vec<u64> = serde_json::from_value(group["trend"].clone()).unwrap();
        assert_eq!((trend.len(), json!(trend.iter().sum::<u64>())), (24, group["count"].clone()));
    }
    let (first, last) = (&groups["items"][0]["trend"][0], &groups["items"][1]["trend"][23]);
    assert!(*first != 0 && *last != 0, "over the time of all of them: {groups}");
    let attempt = world.task(&id(1)).await["history"][0].clone();
    assert!(time(&attempt["started"]) <= time(&attempt["at"]), "{attempt}");
    let group_error = groups["items"][0]["error"].clone();
    let few = world.get("/api/v1/dead?kind=a.two&error=disk%205&worker=w1").await.ok();
    assert_eq!(few["items"][0]["count"], 1, "{few}");
    assert_eq!(world.get("/api/v1/dead?class=timeout").await.ok()["items"], json!([]));
    world.get("/api/v1/dead?state=done").await.refused(400, "invalid_field");

    let replay = "/api/v1/dead/replay";
    world.post(replay, &json!({})).await.refused(400, "nothing_selected");
    world.post(replay, &json!({"kinds": "a"})).await.refused(400, "invalid_field");
    let count =
        |answer: &Value| (answer["matched"].as_u64().unwrap(), answer["done"].as_u64().unwrap());
    let dry = world.post(replay, &json!({"kind": "a.*", "dry_run": true})).await.ok();
    assert_eq!(count(&dry), (6, 0));
    let by_group = world
        .post(replay, &json!({"error": group_error, "kind": "a.one", "dry_run": true}))
        .await
        .ok();
    assert_eq!(count(&by_group), (4, 0));
    assert_eq!(count(&world.post(replay, &json!({"error": "disk 3"})).await.ok()), (1, 1));
    assert_eq!(worker.granted().await.attempt, 1, "attempts start anew");
    assert_eq!(
        count(&world.post("/api/v1/dead/drop", &json!({"ids": [id(1), id(3)]})).await.ok()),
        (1, 1)
    );
    assert_eq!(world.task(&id(1)).await["state"], "cancelled");
    assert_eq!(world.task(&id(3)).await["state"], "leased");
    assert_eq!(count(&world.post("/api/v1/dead/drop", &json!({"all": true})).await.ok()), (4, 4));
    assert_eq!(world.get("/api/v1/dead").await.ok()["items"], json!([]));
    world.post(replay, &json!({"ids": ["zzzz"]})).await.refused(404, "not_found");
}

async fn die(worker: &mut Worker, message: &str) {
    let grant = worker.granted().await;
    worker
        .report(grant.task.unwrap().id, grant.token, failed(message, v1::FailureVerdict::Dead))
        .await;
    assert!(worker.answered().await);
}
