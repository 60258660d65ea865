//! Submission over HTTP: what is accepted, and that each bad input is refused with its field and changes nothing.

use serde_json::{Value, json};

use crate::world::{World, id, read};

#[tokio::test]
async fn the_same_id_is_the_same_task_and_another_spec_is_refused() {
    let world = World::start().await;
    let spec = json!({"id": id(7), "kind": "noop", "payload": {"a": 1}});
    let first = world.post("/api/v1/tasks", &spec).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.json(), json!({"accepted": 1, "known": 0, "ids": [id(7)]}));
    let again = world.post("/api/v1/tasks", &spec).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json(), json!({"accepted": 0, "known": 1, "ids": [id(7)]}));
    let other = world
        .post("/api/v1/tasks", &json!({"id": id(7), "kind": "noop", "payload": {"a": 2}}))
        .await;
    let error = other.refused(409, "id_taken");
    assert_eq!(error["field"], "id");
    assert_eq!(world.task(&id(7)).await["payload"], json!({"a": 1}));
}

#[tokio::test]
async fn the_server_makes_ids_and_a_batch_keeps_its_order() {
    let world = World::start().await;
    let answer = world
        .post("/api/v1/tasks", &json!({"tasks": [{"kind": "a"}, {"kind": "b"}, {"kind": "c"}]}))
        .await;
    assert_eq!(answer.status, 201);
    let answer = answer.json();
    assert_eq!(answer["accepted"], 3);
    for (at, kind) in ["a", "b", "c"].iter().enumerate() {
        let id = answer["ids"][at].as_str().unwrap();
        assert_eq!(&id[14..15], "7", "a UUIDv7");
        assert_eq!(world.task(id).await["kind"], *kind);
    }
}

#[tokio::test]
async fn a_task_of_an_unknown_kind_waits_and_says_why() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "nobody.knows"})).await.ok();
    let task = world.task(&id(1)).await;
    assert_eq!(task["state"], "ready");
    assert_eq!(task["wait"]["reason"], "no_worker");
    assert_eq!(task["wait"]["kind"], "nobody.knows");
    assert!(task["wait_text"].as_str().unwrap().contains("nobody.knows"), "{task}");
}

#[tokio::test]
async fn each_bad_field_is_refused_with_its_name_and_nothing_is_kept() {
    let world = World::start().await;
    let long = "k".repeat(129);
    let unknown = id(99);
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!({"kind": "a", "prio": 1}), "invalid_field", "prio"),
        (json!({"kind": 5}), "invalid_field", "kind"),
        (json!({"payload": 5}), "invalid_field", "kind"),
        (json!({"kind": long}), "invalid_field", "kind"),
        (json!({"kind": "a", "queue": long}), "invalid_field", "queue"),
        (json!({"kind": "a", "priority": "high"}), "invalid_field", "priority"),
        (json!({"kind": "a", "priority": 6}), "invalid_field", "priority"),
        (json!({"kind": "a", "id": "7"}), "invalid_field", "id"),
        (json!({"kind": "a", "run_at": "tomorrow"}), "invalid_field", "run_at"),
        (json!({"kind": "a", "timeout_ms": 0}), "invalid_field", "timeout_ms"),
        (json!({"kind": "a", "needs": vec!["x"; 17]}), "invalid_field", "needs"),
        (json!({"kind": "a", "retry": {"limit": 5000}}), "invalid_field", "retry.limit"),
        (
            json!({"kind": "a", "workflow": {"id": id(1), "name": "w".repeat(300)}}),
            "invalid_field",
            "workflow.name",
        ),
        (json!({"kind": "a", "id": id(1), "after": [id(1)]}), "self_dependency", "after"),
        (json!({"kind": "a", "id": id(1), "after": [unknown]}), "unknown_dependency", "after"),
        (json!({"kind": "a", "after": vec![unknown; 1001]}), "too_many_dependencies", "after"),
        (
            json!({"tasks": [
                {"kind": "a", "id": id(1), "after": [id(2)]},
                {"kind": "a", "id": id(2), "after": [id(1)]},
            ]}),
            "dependency_cycle",
            "after",
        ),
        (
            json!({"tasks": [{"kind": "ok", "id": id(1)}, {"kind": "a", "priority": 0}]}),
            "invalid_field",
            "tasks[1].priority",
        ),
        (json!([{"kind": "a"}]), "invalid_field", ""),
    ];
    for (body, code, field) in cases {
        let error = world.post("/api/v1/tasks", &body).await.refused(400, code);
        if !field.is_empty() {
            assert_eq!(error["field"], field, "{error}");
        }
    }
    let list = world.get("/api/v1/tasks").await.ok();
    assert_eq!(list["items"], json!([]), "a refused batch leaves nothing behind");
}

#[tokio::test]
async fn too_many_edges_in_all_are_refused() {
    let world = World::start().await;
    let after: Vec<String> = (1..=1_000).map(id).collect();
    let parents = (1..=1_000).map(|n| json!({"kind": "a", "id": id(n)}));
    let tasks: Vec<Value> =
        parents.chain((0..101).map(|_| json!({"kind": "b", "after": after}))).collect();
    world
        .post("/api/v1/tasks", &json!({"tasks": tasks}))
        .await
        .refused(400, "too_many_dependencies");
}

#[tokio::test]
async fn malformed_json_is_refused_with_line_and_column() {
    let world = World::start().await;
    let error = world
        .post_text("/api/v1/tasks", "{\n  \"kind\": noop}")
        .await
        .refused(400, "malformed_json");
    assert!(error["message"].as_str().unwrap().contains("line 2 column 12"), "{error}");
    world.post_text("/api/v1/tasks", "").await.refused(400, "malformed_json");
    world.post_text("/api/v1/tasks", "{\"kind\":\"a\"").await.refused(400, "malformed_json");
    let deep =
        format!("{{\"kind\":\"a\",\"payload\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    let error = world.post_text("/api/v1/tasks", deep).await.refused(400, "invalid_field");
    assert_eq!(error["field"], "payload");
    let deep = "[".repeat(1_000_000);
    world.post_text("/api/v1/tasks", deep).await.refused(400, "invalid_field");
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_the_caller_hears_it() {
    let world = World::start().await;
    let payload = "x".repeat((1 << 20) + 1);
    let error = world.post("/api/v1/tasks", &json!({"kind": "a", "payload": payload})).await;
    assert_eq!(error.refused(413, "payload_too_large")["field"], "payload");
    let tasks: Vec<Value> = (0..10_001).map(|_| json!({"kind": "a"})).collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.refused(413, "batch_too_large");
    let body = format!("{{\"kind\":\"a\",\"payload\":\"{}\"}}", "x".repeat(33 << 20));
    world.post_text("/api/v1/tasks", body).await.refused(413, "body_too_large");
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_say_that_it_is_json_is_refused() {
    let world = World::start().await;
    for content_type in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        let request =
            world.client.post(world.url("/api/v1/tasks")).header("content-type", content_type);
        read(request.body(r#"{"kind":"a"}"#)).await.refused(415, "unsupported_media_type");
    }
    let request = world.client.post(world.url("/api/v1/tasks")).body(r#"{"kind":"a"}"#);
    read(request).await.refused(415, "unsupported_media_type");
    let request = world
        .client
        .post(world.url("/api/v1/tasks"))
        .header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(read(request.body(r#"{"kind":"a"}"#)).await.status, 201);
}

#[tokio::test]
async fn a_stopped_engine_is_told_as_unavailable() {
    let world = World::start().await;
    assert_eq!(world.get("/readyz").await.status, 200);
    world.stop_engine();
    while world.handle.is_running() {
        tokio::task::yield_now().await;
    }
    world.post("/api/v1/tasks", &json!({"kind": "a"})).await.refused(503, "stopping");
    world.get("/readyz").await.refused(503, "stopping");
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_task_that_will_be_late_is_told_or_refused() {
    let world = World::start().await;
    let past = json!({"kind": "noop", "id": id(1), "deadline": "2020-01-01T00:00:00Z"});
    let batch = json!({"tasks": [{"kind": "noop", "id": id(2)}, past]});
    let error =
        world.post("/api/v1/tasks?strict=true", &batch).await.refused(409, "deadline_unmeetable");
    assert_eq!(error["field"], "deadline");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&id(1)) && message.contains("2020-01-01"), "{message}");
    world.get(&format!("/api/v1/tasks/{}", id(2))).await.refused(404, "not_found");

    let answer = world.post("/api/v1/tasks?strict=false", &batch).await.ok();
    assert_eq!((&answer["accepted"], &answer["late_total"]), (&json!(2), &json!(1)));
    let late = &answer["late"][0];
    assert_eq!((&late["task"], answer["late"].as_array().unwrap().len()), (&json!(id(1)), 1));
    assert!(late["deadline"].as_str().unwrap().starts_with("2020-01-01T00:00:00"), "{late}");
    assert!(late["expected_end"].as_str().unwrap() > "2024", "{late}");
    let far = json!({"kind": "noop", "deadline": "2120-01-01T00:00:00Z"});
    let answer = world.post("/api/v1/tasks?strict=1", &far).await.ok();
    assert_eq!(answer["accepted"], 1);
    assert!(answer.get("late").is_none() && answer.get("late_total").is_none(), "{answer}");
    let error = world.post("/api/v1/tasks?strict=maybe", &far).await.refused(400, "invalid_field");
    assert_eq!(error["field"], "strict");
    world.post("/api/v1/tasks?stict=true", &far).await.refused(400, "invalid_field");
}
