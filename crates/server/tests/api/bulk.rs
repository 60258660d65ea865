//! Many tasks at once: bulk actions by filter, dead letters replayed at a rate or with another payload, and tasks that
//! are skipped because of their unique key.

use divvy_proto::v1;
use serde_json::{Value, json};

use divvy_types::TaskId;

use crate::world::{World, failed, finished, hello, id};

const BULK: &str = "/api/v1/tasks/bulk";

fn count(answer: &Value) -> (u64, u64) {
    (answer["matched"].as_u64().unwrap(), answer["done"].as_u64().unwrap())
}

#[tokio::test]
async fn tasks_are_listed_and_treated_by_their_tag() {
    let world = World::start().await;
    let tasks: Vec<Value> = (1..=6u128)
        .map(|n| json!({"id": id(n), "kind": "a", "tags": if n % 2 == 0 { vec!["red", "even"] } else { vec!["red"] }}))
        .collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.ok();
    assert_eq!(world.task(&id(2)).await["tags"], json!(["red", "even"]));
    let listed = |query: &'static str| {
        let world = &world;
        async move { world.get(query).await.ok()["items"].as_array().unwrap().len() }
    };
    assert_eq!(listed("/api/v1/tasks?tag=red").await, 6);
    assert_eq!(listed("/api/v1/tasks?tag=even&state=ready").await, 3);
    assert_eq!(listed("/api/v1/tasks?tag=eve").await, 0, "a tag is matched whole");
    assert_eq!(listed("/api/v1/tasks?until=2100-01-01T00:00:00Z&kind=a").await, 6);
    assert_eq!(listed("/api/v1/tasks?since=2100-01-01T00:00:00Z").await, 0);
    assert_eq!(listed("/api/v1/tasks?ended_until=2100-01-01T00:00:00Z").await, 0, "all are open");
    assert_eq!(listed("/api/v1/tasks?worker=w").await, 0);
    assert_eq!(listed("/api/v1/tasks?workflow_name=w").await, 0);
    assert_eq!(listed("/api/v1/tasks?tag=red&limit=6").await, 6);
    let full = world.get("/api/v1/tasks?tag=red&limit=6").await.ok();
    assert!(full["next"].is_null(), "a full page that is the last says so: {full}");
    world.get("/api/v1/tasks?since=yesterday").await.refused(400, "invalid_field");
    world.get("/api/v1/tasks?colour=red").await.refused(400, "invalid_field");
    let body = json!({"action": "cancel", "filter": {"tag": "even"}});
    assert_eq!(count(&world.post(BULK, &body).await.ok()), (3, 3));
    assert_eq!(listed("/api/v1/tasks?tag=even&state=cancelled").await, 3);
    assert_eq!(world.task(&id(1)).await["state"], "ready");
}

#[tokio::test]
async fn a_dry_run_counts_and_the_real_one_does_what_was_counted() {
    let world = World::start().await;
    let tasks: Vec<Value> = (1..=60u128)
        .map(|n| json!({"id": id(n), "kind": if n <= 40 { "a.one" } else { "b" }, "queue": "q"}))
        .collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.ok();
    world.post("/api/v1/tasks", &json!({"id": id(99), "kind": "a.one"})).await.ok();

    let filter = json!({"kind": "a.*", "queue": "q", "state": ["ready"]});
    let body = json!({"action": "cancel", "filter": filter, "dry_run": true});
    let dry = world.post(BULK, &body).await.ok();
    assert_eq!(count(&dry), (40, 0));
    assert_eq!((&dry["by_kind"], &dry["by_state"]), (&json!({"a.one": 40}), &json!({"ready": 40})));
    assert_eq!(dry["sample"].as_array().unwrap().len(), 20);

    let part = json!({"action": "cancel", "filter": filter, "limit": 15, "reason": "flood"});
    let part = world.post(BULK, &part).await.ok();
    assert_eq!(count(&part), (15, 15));
    let rest = json!({"action": "cancel", "filter": filter, "after": part["next"]});
    assert_eq!(count(&world.post(BULK, &rest).await.ok()), (25, 25));
    let newest = world.task(&id(40)).await;
    assert_eq!(
        (&newest["state"], &newest["error"]["message"]),
        (&json!("cancelled"), &json!("flood"))
    );
    assert_eq!(world.task(&id(99)).await["state"], "ready", "another queue");
    assert_eq!(world.task(&id(41)).await["state"], "ready", "another kind");

    let retry = json!({"action": "retry", "filter": {"state": ["cancelled"], "kind": "a.one"}});
    assert_eq!(count(&world.post(BULK, &retry).await.ok()), (40, 40));
    let old = json!({"action": "cancel", "filter": {"older_than_ms": 3_600_000}});
    assert_eq!(count(&world.post(BULK, &old).await.ok()), (0, 0));
    assert_eq!(
        count(&world.post(BULK, &json!({"action": "cancel", "all": true})).await.ok()),
        (61, 61)
    );

    world.post(BULK, &json!({"action": "cancel"})).await.refused(400, "nothing_selected");
    world.post(BULK, &json!({"action": "burn", "all": true})).await.refused(400, "invalid_field");
    world
        .post(BULK, &json!({"action": "cancel", "filter": {"kinds": "a"}}))
        .await
        .refused(400, "invalid_field");
    world
        .post(BULK, &json!({"action": "cancel", "all": true, "after": "x"}))
        .await
        .refused(400, "bad_cursor");
}

#[tokio::test]
async fn dead_letters_are_replayed_one_with_another_payload_and_many_at_a_rate() {
    let world = World::start().await;
    let mut worker = world.worker(hello("w1", &["mail"])).await.unwrap();
    for number in 1..=4u128 {
        world
            .post("/api/v1/tasks", &json!({"id": id(number), "kind": "mail", "payload": {"to": 1}}))
            .await
            .ok();
        let grant = worker.granted().await;
        let end = failed(&format!("no host {number}"), v1::FailureVerdict::Dead);
        worker.report(grant.task.unwrap().id, grant.token, end).await;
        assert!(worker.answered().await);
    }
    let replay = "/api/v1/dead/replay";
    let many = json!({"ids": [id(1), id(2)], "payload": {"to": 2}});
    assert_eq!(world.post(replay, &many).await.refused(400, "invalid_field")["field"], "payload");
    let drop = json!({"all": true, "rate": "1/s"});
    assert_eq!(
        world.post("/api/v1/dead/drop", &drop).await.refused(400, "invalid_field")["field"],
        "rate"
    );
    let rate = json!({"all": true, "rate": "fast"});
    assert_eq!(world.post(replay, &rate).await.refused(400, "invalid_field")["field"], "rate");
    let other = json!({"class": "timeout", "dry_run": true});
    assert_eq!(count(&world.post(replay, &other).await.ok()), (0, 0));

    let fixed = json!({"ids": [id(1)], "payload": {"to": 2}});
    assert_eq!(count(&world.post(replay, &fixed).await.ok()), (1, 1));
    let grant = worker.granted().await;
    assert_eq!(grant.task.unwrap().payload, r#"{"to":2}"#.as_bytes());
    assert_eq!(world.task(&id(1)).await["payload"], json!({"to": 2}));

    let group = json!({"kind": "mail", "class": "failed", "error": "no host #", "rate": "1/h"});
    let answer = world.post(replay, &group).await.ok();
    assert_eq!(count(&answer), (3, 3));
    assert!(answer["last_due"].is_string(), "{answer}");
    let mut states = Vec::new();
    for number in 2..=4u128 {
        let task = world.task(&id(number)).await;
        states.push(task["state"].as_str().unwrap().to_owned());
    }
    states.sort();
    assert_ne!(states[0], "scheduled", "one goes at once");
    assert_eq!(states[1..], ["scheduled", "scheduled"], "the others one hour after another");
}

#[tokio::test]
async fn a_submit_says_which_tasks_were_skipped_and_why() {
    let world = World::start().await;
    let keyed = |number: u128, policy: &str| json!({"id": id(number), "kind": "noop", "unique": {"key": "daily", "on_conflict": policy}});
    let first = world.post("/api/v1/tasks", &keyed(1, "skip")).await.ok();
    assert_eq!(first.get("conflicts"), None, "{first}");
    let second = world.post("/api/v1/tasks", &keyed(2, "skip")).await;
    assert_eq!(second.status.as_u16(), 200);
    assert_eq!(second.json()["conflicts"], json!([{"task": id(2), "first": id(1)}]));
    assert_eq!(second.json()["accepted"], 0);
    let refused = world.post("/api/v1/tasks", &keyed(3, "refuse")).await.refused(409, "not_unique");
    assert_eq!(refused["field"], "unique.key");
    assert!(refused["message"].as_str().unwrap().contains(&id(1)), "{refused}");
    let replaced = world.post("/api/v1/tasks", &keyed(4, "replace")).await;
    assert_eq!(replaced.status.as_u16(), 201);
    assert_eq!(world.task(&id(1)).await["state"], "cancelled");
    let limited = json!({"kind": "noop", "limits": ["api"]});
    let refused = world.post("/api/v1/tasks", &limited).await.refused(400, "invalid_field");
    assert_eq!(refused["field"], "limits");
}

#[tokio::test]
async fn waiting_tasks_get_another_priority_and_their_turn_with_it() {
    let world = World::start().await;
    for (number, queue) in [(1, "mail"), (2, "mail"), (3, "urgent"), (4, "urgent")] {
        let after = if number == 4 { vec![id(1)] } else { vec![] };
        let task = json!({"id": id(number), "kind": "noop", "queue": queue, "after": after});
        world.post("/api/v1/tasks", &task).await.ok();
    }
    let mut body = json!({
        "action": "reprioritise", "filter": {"queue": "urgent"}, "priority": 5, "dry_run": true,
    });
    let dry = world.post("/api/v1/tasks/bulk", &body).await.ok();
    assert_eq!((&dry["matched"], &dry["done"]), (&json!(2), &json!(0)));
    assert_eq!(world.task(&id(3)).await["priority"], 3);
    body["dry_run"] = json!(false);
    let done = world.post("/api/v1/tasks/bulk", &body).await.ok();
    assert_eq!((&done["matched"], &done["done"]), (&json!(2), &json!(2)));
    assert_eq!(world.task(&id(3)).await["priority"], 5, "it is durable");
    let one = format!("/api/v1/tasks/{}/reprioritise", id(2));
    world.post(&one, &json!({"priority": 4})).await.ok();
    world.post(&one, &json!({"priority": 0})).await.refused(400, "invalid_field");
    let mut worker = world.worker(v1::Hello { credit: 1, ..hello("w1", &["noop"]) }).await.unwrap();
    for number in [3, 2, 1, 4] {
        let grant = worker.granted().await;
        let task = grant.task.unwrap();
        assert_eq!(TaskId::from_slice(&task.id).unwrap().to_string(), id(number));
        if number == 3 {
            let one = format!("/api/v1/tasks/{}/reprioritise", id(3));
            world.post(&one, &json!({"priority": 1})).await.refused(409, "conflict");
        }
        worker.report(task.id, grant.token, finished("1")).await;
        assert!(worker.answered().await);
    }
}
