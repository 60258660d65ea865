//! Lists, single things, and addresses that do not exist.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, finished, hello, id};

#[tokio::test]
async fn pages_follow_each_other_without_gaps_or_repetitions() {
    let world = World::start().await;
    let tasks: Vec<Value> = (1..=25)
        .map(|n| json!({"id": id(n), "kind": if n % 2 == 0 { "even.task" } else { "odd.task" }, "queue": "q"}))
        .collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.ok();
    for (filter, expected) in [
        ("", 25),
        ("&kind=even.*", 12),
        ("&state=ready&kind=odd.task", 13),
        ("&state=done,dead", 0),
    ] {
        let mut seen = Vec::new();
        let mut after = String::new();
        for _ in 0..20 {
            let page = world.get(&format!("/api/v1/tasks?limit=4{filter}{after}")).await.ok();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 4);
            seen.extend(items.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        let distinct: BTreeSet<&String> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len()), (expected, expected), "{filter}");
        assert!(seen.is_sorted_by(|a, b| a > b), "newest first: {seen:?}");
    }
    let both = world.get("/api/v1/tasks?state=ready&state=leased&queue=q&limit=1000").await.ok();
    assert_eq!(both["items"].as_array().unwrap().len(), 25);
    assert_eq!(world.get("/api/v1/tasks?queue=other").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_bad_parameter_is_named() {
    let world = World::start().await;
    for (query, field) in [
        ("state=running", "state"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("after=xyz", "after"),
        ("workflow=1", "workflow"),
        ("kind=a&kind=b", "kind"),
        ("colour=red", "colour"),
    ] {
        let answer = world.get(&format!("/api/v1/tasks?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert_eq!(answer.json()["error"]["field"], field, "{}", answer.text);
    }
}

#[tokio::test]
async fn an_id_may_be_shortened_as_long_as_it_is_clear() {
    let world = World::start().await;
    let (one, two) =
        ("0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e", "0198c0de-7a3b-7cc1-9e55-4f2a1b0c9d8e");
    world
        .post(
            "/api/v1/tasks",
            &json!({"tasks": [{"kind": "a", "id": one}, {"kind": "b", "id": two}]}),
        )
        .await
        .ok();
    assert_eq!(world.task("0198c0de-7a3b-7cc1-9e55-3").await["kind"], "a");
    assert_eq!(world.task(two).await["kind"], "b");
    world.get("/api/v1/tasks/0198c0de").await.refused(409, "ambiguous_id");
    assert_eq!(world.task("3f2a1b0c9d8e").await["kind"], "a");
    let both = world.get("/api/v1/tasks/1b0c9d8e").await;
    assert!(both.text.contains(one) && both.text.contains(two), "{}", both.text);
    both.refused(409, "ambiguous_id");
    world.get("/api/v1/tasks/b0c9d8e").await.refused(404, "not_found");
    world.get("/api/v1/tasks/ffff").await.refused(404, "not_found");
    world.get("/api/v1/tasks/nonsense").await.refused(404, "not_found");
    world.get(&format!("/api/v1/tasks/{}", id(404))).await.refused(404, "not_found");
}

#[tokio::test]
async fn kinds_are_told_with_who_runs_them_page_by_page() {
    let world = World::start().await;
    let _both = [
        world.worker(hello("w1", &["a", "b"])).await.unwrap(),
        world.worker(hello("w2", &["b"])).await.unwrap(),
    ];
    for kind in ["b", "c", "c"] {
        world.post("/api/v1/tasks", &json!({"kind": kind})).await.ok();
    }
    let first = world.get("/api/v1/kinds?limit=2").await.ok();
    let shown = |kind: &Value| {
        ["name", "workers", "slots", "waiting", "running"].map(|field| kind[field].clone())
    };
    let row = |name: &str, counts: [u64; 4]| {
        let [workers, slots, waiting, running] = counts.map(Value::from);
        [json!(name), workers, slots, waiting, running]
    };
    assert_eq!(shown(&first["items"][0]), row("a", [1, 8, 0, 0]));
    assert_eq!(shown(&first["items"][1]), row("b", [2, 16, 0, 1]));
    let rest = world.get("/api/v1/kinds?limit=2&after=b").await.ok();
    assert_eq!((&first["next"], rest.get("next")), (&json!("b"), None), "{rest}");
    assert_eq!(shown(&rest["items"][0]), row("c", [0, 0, 2, 0]));
}

#[tokio::test]
async fn what_does_not_exist_is_told_in_json() {
    let world = World::start().await;
    world.get("/api/v1/nothing").await.refused(404, "no_such_address");
    world.get("/api/v1/tasks/").await.refused(404, "no_such_address");
    world.get("/api/v1/queues/none").await.refused(404, "no_such_queue");
    world.get("/api/v1/workers/none").await.refused(404, "no_such_worker");
    world.post("/api/v1/workers/none/drain", &json!({})).await.refused(404, "no_such_worker");
    world.request(Method::DELETE, "/api/v1/tasks", &[]).await.refused(405, "method_not_allowed");
    world.request(Method::PUT, "/metrics", &[]).await.refused(405, "method_not_allowed");
    world.get("/api/v1/tasks/%ff%fe").await.refused(400, "invalid_path");
}

#[tokio::test]
async fn the_document_the_page_and_the_figures_are_served() {
    let world = World::start().await;
    let document = world.get("/api/v1/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let page = world.get("/").await;
    assert!(page.text.contains("divvy"));
    assert!(!page.text.contains("{{") && !page.text.contains("<script>"));
    assert!(!page.text.contains("/sign-out"), "nobody signed in");
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let parts = page.text.split('"').filter(|part| part.contains("/assets/"));
    let parts: Vec<&str> = parts.collect();
    assert!(parts.contains(&"/dash/assets/dash.js") && parts.contains(&"/assets/base.css"));
    for file in parts {
        assert_eq!(world.get(file).await.status.as_u16(), 200, "{file}");
    }
    for path in ["/tasks", "/tasks/any", "/workflows/any", "/queues/any", "/workers", "/scale"] {
        let other = world.get(path).await;
        assert_eq!(other.status.as_u16(), 200, "{path}");
        assert!(other.text.contains("dash.js"), "{path}");
    }
    let stats = world.get("/api/v1/stats").await.ok();
    assert_eq!(stats["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(stats["address"], world.address.to_string());
    assert!(stats["engine"]["ready"].is_u64() && stats["final"].is_object(), "{stats}");
}

#[tokio::test]
async fn metrics_are_well_formed_and_count() {
    let world = World::start().await;
    let queue = "odd \"name\" \\ here";
    let tasks: Vec<Value> = (0..3).map(|_| json!({"kind": "a", "queue": queue})).collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.ok();
    let answer = world.get("/metrics").await;
    assert_eq!(
        answer.headers["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let samples = parse_metrics(&answer.text);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<(String, String)> =
            labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        samples
            .iter()
            .find(|s| s.0 == name && s.1 == labels)
            .unwrap_or_else(|| panic!("{name} {labels:?}"))
            .2
    };
    assert_eq!(value("divvy_tasks_submitted_total", &[]), 3.0);
    assert_eq!(value("divvy_tasks", &[("state", "ready")]), 3.0);
    assert_eq!(value("divvy_queue_tasks", &[("queue", queue), ("state", "ready")]), 3.0);
    assert_eq!(value("divvy_queue_paused", &[("queue", queue)]), 0.0);
    assert!(value("divvy_commit_seconds_count", &[]) >= 1.0);
    assert_eq!(value("divvy_task_wait_seconds_count", &[]), 0.0);
    assert!(value("divvy_connections", &[]) >= 1.0);
}

#[tokio::test]
async fn waits_and_runs_are_told_as_histograms() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"kind": "a"})).await.ok();
    let mut worker = world.worker(hello("w1", &["a"])).await.unwrap();
    let grant = worker.granted().await;
    let task = grant.task.expect("a grant names its task").id;
    worker.report(task, grant.token, finished("null")).await;
    assert!(worker.answered().await);
    let samples = parse_metrics(&world.get("/metrics").await.text);
    for family in ["divvy_task_wait_seconds", "divvy_task_run_seconds"] {
        let name = format!("{family}_bucket");
        let buckets: Vec<f64> = samples.iter().filter(|s| s.0 == name).map(|s| s.2).collect();
        assert!(buckets.is_sorted() && buckets.last() == Some(&1.0), "{family}: {buckets:?}");
        assert!(samples.iter().any(|s| s.0 == format!("{family}_count") && s.2 == 1.0));
    }
}

type Sample = (String, Vec<(String, String)>, f64);

/// Reads the OpenMetrics text format strictly: each sample belongs to the family declared just before it.
fn parse_metrics(text: &str) -> Vec<Sample> {
    let text = text.strip_suffix("# EOF\n").expect("the text has an end");
    let mut family = String::new();
    let mut samples: Vec<Sample> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(
                !name.ends_with("_total"),
                "a counter's samples end so, not its family: {line}"
            );
            family = name.to_owned();
        } else if !line.starts_with("# HELP ") {
            let (name, labels, rest) = split_sample(line);
            assert!(name.starts_with(&family), "{name} stands under {family}");
            let value = rest.trim().parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(!samples.iter().any(|s| s.0 == name && s.1 == labels), "twice: {line}");
            samples.push((name, labels, value));
        }
    }
    samples
}

fn split_sample(line: &str) -> (String, Vec<(String, String)>, String) {
    let end = line.find(['{', ' ']).unwrap();
    let name = line[..end].to_owned();
    let mut labels = Vec::new();
    let mut rest = &line[end..];
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inner.split_once("=\"").unwrap();
            let mut value = String::new();
            let mut chars = after.char_indices();
            let close = loop {
                match chars.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().unwrap().1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            inner = &after[close + 1..];
            match inner.strip_prefix(',') {
                Some(more) => inner = more,
                None => break,
            }
        }
        rest = inner.strip_prefix('}').unwrap();
    }
    (name, labels, rest.to_owned())
}

#[tokio::test]
async fn queues_come_in_pages() {
    let world = World::start().await;
    let tasks: Vec<Value> =
        ["a", "b", "c"].iter().map(|queue| json!({"kind": "noop", "queue": queue})).collect();
    world.post("/api/v1/tasks", &json!({"tasks": tasks})).await.ok();
    let page = world.get("/api/v1/queues?limit=2").await.ok();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (2, &json!("b")));
    let page = world.get("/api/v1/queues?limit=2&after=b").await.ok();
    assert_eq!((page["items"][0]["name"].as_str(), &page["next"]), (Some("c"), &Value::Null));
    world.get("/api/v1/queues?limit=0").await.refused(400, "invalid_field");
    let api = divvy_client::Api::new(world.url("")).unwrap();
    assert_eq!(api.all(&["queues"]).await.unwrap().len(), 3);
}
