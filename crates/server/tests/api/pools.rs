//! Pools of workers over the API: from the settings to what is wanted, by hand and by what waits.

use std::time::Duration;

use divvy_client::Channel;
use divvy_engine::WorkerHello;
use divvy_proto::keda::external_scaler_client::ExternalScalerClient;
use divvy_proto::keda::{GetMetricsRequest, MetricSpec, ScaledObjectRef};
use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message as Say;
use divvy_types::{TaskId, TaskSpec};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::world::{Answer, World, hello, read, soon};

const SETTINGS: &str = "/api/v1/settings";

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Answer {
    read(world.client.request(method, world.url(path)).json(body)).await
}

async fn set(world: &World, workers: Value) -> Answer {
    send(world, Method::PUT, "/api/v1/pools/p/workers", &workers).await
}

fn pools(settings: &Value) -> Value {
    json!({ "pools": { "p": settings } })
}

/// A server with one pool whose workers nobody starts.
async fn world() -> World {
    let world = World::start().await;
    let pool = pools(&json!({
        "driver": "print", "min": 0, "max": 4, "policy": "queue", "goal": "p95 start within 1 s",
    }));
    send(&world, Method::PATCH, SETTINGS, &pool).await.ok();
    world.shown("p", |pool| pool["max"] == 4).await;
    world
}

impl World {
    /// Waits until a pool is as wished.
    async fn shown(&self, pool: &str, is: impl Fn(&Value) -> bool) -> Value {
        soon("what was wished of the pool", async {
            loop {
                let answer = self.get(&format!("/api/v1/pools/{pool}")).await;
                if answer.status.is_success() && is(&answer.json()) {
                    return answer.json();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }
}

#[tokio::test]
async fn a_pool_at_zero_wants_workers_when_tasks_come_and_counts_those_that_say_that_they_are_its()
{
    let world = world().await;
    assert_eq!(world.shown("p", |_| true).await["wanted"], json!({ "worker": 0 }));
    let tasks = (1..=500).map(|number| TaskSpec::new(TaskId(number), "k")).collect();
    world.handle.submit(tasks).await.unwrap();
    let pool = world.shown("p", |pool| pool["wanted"]["worker"].as_u64() > Some(0)).await;
    assert_eq!((&pool["tasks_waiting"], &pool["running"]), (&json!(500), &json!(0)), "{pool}");
    assert!(pool["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{pool}");
    let (outbox, _inbox) = mpsc::channel(64);
    let hello = WorkerHello {
        name: "w".into(),
        kinds: vec!["k".into()],
        capabilities: vec!["pool=p".into()],
        credit: 1,
        slots: 1,
        ..WorkerHello::default()
    };
    world.handle.connect(hello, outbox).await.unwrap();
    let pool = world.shown("p", |pool| pool["running"] == 1).await;
    assert_eq!(pool["tasks_running"], 1, "{pool}");
    let history = world.get("/api/v1/pools/p/history").await.ok();
    assert_eq!(history["items"][0]["from"], 0, "{history}");
    let told = world.get("/api/v1/pools/p/explain").await.ok();
    assert_eq!(told["workers"][0]["name"], "w", "{told}");
    assert!(
        told["explanation"]["words"].as_array().is_some_and(|words| !words.is_empty()),
        "{told}"
    );
    let metrics = world.get("/metrics").await.text;
    assert!(metrics.contains("divvy_pool_running{pool=\"p\"} 1.0\n"), "{metrics}");
    let tried = json!({ "policy": "fixed", "max": 7 });
    let tried = world.post("/api/v1/pools/p/simulate", &tried).await.ok();
    assert!(tried["steps"].as_array().unwrap().iter().all(|step| step["wanted"] == 7), "{tried}");
}

#[tokio::test]
async fn a_pool_is_told_how_many_requests_come() {
    let world = world().await;
    // A task that waits keeps the pool from resting.
    world.handle.submit(vec![TaskSpec::new(TaskId(1), "k")]).await.unwrap();
    let rate = |told: &Value| told["sample"]["requests_per_second"].as_f64();
    let explained = || async { world.get("/api/v1/pools/p/explain").await.ok() };
    soon("requests over HTTP", async { while rate(&explained().await) < Some(1.0) {} }).await;
    let told = explained().await;
    assert!(told["explanation"]["inputs"]["kinds"]["requests"].is_null(), "no work: {told}");
}

#[tokio::test]
async fn what_two_pools_can_run_is_counted_once_and_that_is_told() {
    let world = World::start().await;
    let one = |max: u32, kinds: &[&str]| json!({ "driver": "print", "max": max, "kinds": kinds });
    let both = json!({ "pools": { "large": one(30, &["k"]), "small": one(10, &["k", "own"]) } });
    send(&world, Method::PATCH, SETTINGS, &both).await.ok();
    world.shown("small", |pool| pool["max"] == 10).await;
    let task = |number: u128| TaskSpec::new(TaskId(number), if number > 400 { "own" } else { "k" });
    world.handle.submit((1..=404).map(task).collect()).await.unwrap();
    let waiting = |count: u64| move |pool: &Value| pool["tasks_waiting"] == count;
    // 40 workers at most, 30 of them in the one and 10 in the other.
    world.shown("large", waiting(300)).await;
    world.shown("small", waiting(104)).await;
    let told = world.get("/api/v1/pools/large/explain").await.ok();
    let note = "75 % of the tasks of kind k count here, because small can run them too";
    assert_eq!(told["notes"], json!([note]), "{told}");
}

#[tokio::test]
async fn a_pool_goes_by_what_its_workers_say_of_their_machines() {
    let world = World::start().await;
    let target =
        json!({ "driver": "print", "min": 1, "max": 8, "policy": "target", "kinds": ["k"] });
    send(&world, Method::PATCH, SETTINGS, &pools(&target)).await.ok();
    world.shown("p", |pool| pool["max"] == 8).await;
    let mut said = hello("w", &["k"]);
    said.capabilities = vec!["pool=p".into()];
    let mut worker = world.worker(said).await.unwrap();
    world.handle.submit(vec![TaskSpec::new(TaskId(1), "k")]).await.unwrap();
    worker.granted().await;
    world.shown("p", |pool| pool["tasks_running"] == 1).await;
    let load = v1::MachineLoad { cpu: Some(0.25), memory: Some(0.5) };
    worker.say(Say::Heartbeat(v1::Heartbeat { progress: vec![], load: Some(load) })).await;
    let told = soon("what the worker said", async {
        loop {
            let told = world.get("/api/v1/pools/p/explain").await.ok();
            if told["sample"]["cpu"].is_number() {
                return told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let told = told.await;
    assert_eq!((&told["sample"]["cpu"], &told["sample"]["memory"]), (&json!(0.25), &json!(0.5)));
    assert_eq!(told["explanation"]["inputs"]["used"], 0.5, "the fuller of the two: {told}");
    assert!(told["sample"]["p95_sec"].as_f64().is_some_and(|p95| p95 < 60.0), "{told}");
}

#[tokio::test]
async fn a_number_is_held_by_hand_and_bad_ones_are_refused() {
    let world = world().await;
    let error = set(&world, json!({ "workers": 5 })).await.refused(400, "invalid_setting");
    assert!(error["message"].as_str().unwrap().contains("has 0 to 4"), "{error}");
    set(&world, json!({ "workers": 3 })).await.ok();
    world.shown("p", |pool| pool["wanted"]["worker"] == 3 && pool["set"] == 3).await;
    set(&world, json!({ "workers": null })).await.ok();
    world.shown("p", |pool| pool["set"].is_null()).await;
    world.post("/api/v1/pools/p/pause", &json!({})).await.ok();
    world.shown("p", |pool| pool["paused"] == true).await;
    world.post("/api/v1/pools/p/resume", &json!({})).await.ok();
    for path in ["", "/history", "/explain"] {
        world.get(&format!("/api/v1/pools/x{path}")).await.refused(404, "no_such_setting");
    }
    let bad = pools(&json!({ "min": 5, "max": 2 }));
    let error = send(&world, Method::PATCH, SETTINGS, &bad).await;
    let error = error.refused(400, "invalid_setting");
    assert!(error["message"].as_str().unwrap().contains("pools.p.min is 5"), "{error}");
    let bad = pools(&json!({ "types": [{ "price_hour": -1 }] }));
    let error = send(&world, Method::PATCH, SETTINGS, &bad).await;
    assert!(
        error.refused(400, "invalid_setting")["message"].as_str().unwrap().contains("price_hour")
    );
}

#[tokio::test]
async fn a_driver_that_fails_raises_an_alert() {
    let world = World::start().await;
    let pool = pools(&json!({
        "driver": { "exec": { "command": ["/nowhere/at/all"] } }, "min": 1, "max": 2,
    }));
    send(&world, Method::PATCH, SETTINGS, &pool).await.ok();
    let pool = world.shown("p", |pool| pool["problem"].is_string()).await;
    assert!(pool["problem"].as_str().unwrap().contains("cannot be started"), "{pool}");
    let alerts = world.get("/api/v1/alerts").await.ok();
    let firing =
        alerts["alerts"].as_array().unwrap().iter().find(|one| one["name"] == "pools_differ");
    assert_eq!(firing.unwrap()["firing"], true, "{alerts}");
    // A pool of local workers on a server that has nobody to start them is told as plainly.
    let pool = pools(&json!({ "driver": "local", "min": 1, "max": 2 }));
    send(&world, Method::PATCH, SETTINGS, &pool).await.ok();
    let pool = world.shown("p", |pool| pool["driver"] == "local" && pool["problem"].is_string());
    assert!(pool.await["problem"].as_str().unwrap().contains("divvy up"));
}

#[tokio::test]
async fn keda_asks_how_many_workers_a_pool_wants() {
    let world = world().await;
    let channel = Channel::to(world.url("")).unwrap();
    let origin = channel.origin();
    let mut keda = ExternalScalerClient::with_origin(channel, origin);
    let object = |pool: &str| ScaledObjectRef {
        name: "encoders".into(),
        namespace: "media".into(),
        scaler_metadata: [("pool".to_owned(), pool.to_owned())].into(),
    };
    let active = keda.is_active(object("p")).await.unwrap().into_inner();
    assert!(!active.result, "nothing is to be done");
    let mut told = keda.stream_is_active(object("p")).await.unwrap().into_inner();
    assert!(!soon("the first word", told.message()).await.unwrap().unwrap().result);
    set(&world, json!({ "workers": 3 })).await.ok();
    assert!(soon("the change", told.message()).await.unwrap().unwrap().result);
    let spec = keda.get_metric_spec(object("p")).await.unwrap().into_inner();
    assert_eq!(spec.metric_specs.len(), 1);
    let MetricSpec { metric_name, target_size, target_size_float } = spec.metric_specs[0].clone();
    assert_eq!((target_size, target_size_float), (1, 1.0));
    let asked = GetMetricsRequest { scaled_object_ref: Some(object("p")), metric_name };
    let values = keda.get_metrics(asked).await.unwrap().into_inner().metric_values;
    assert_eq!((values[0].metric_value, values[0].metric_value_float), (3, 3.0));
    let status = keda.is_active(object("x")).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    let status = keda.is_active(ScaledObjectRef::default()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
}

#[tokio::test]
async fn keda_names_its_token_in_the_metadata_of_the_trigger() {
    let world = World::with(|options| options.token = Some("secret-1".into()), Default::default());
    let world = world.await;
    let channel = Channel::to(world.url("")).unwrap();
    let origin = channel.origin();
    let mut keda = ExternalScalerClient::with_origin(channel, origin);
    let object = |named: &[(&str, &str)]| ScaledObjectRef {
        name: "encoders".into(),
        namespace: "media".into(),
        scaler_metadata: [("pool", "x")]
            .iter()
            .chain(named)
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    };
    let status = keda.is_active(object(&[])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
    assert!(status.message().contains("tokenFromEnv"), "{status}");
    let status = keda.get_metric_spec(object(&[("token", "wrong")])).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
    for key in ["token", "tokenFromEnv"] {
        let asked = Some(object(&[(key, "secret-1")]));
        let asked = GetMetricsRequest { scaled_object_ref: asked, metric_name: String::new() };
        let status = keda.get_metrics(asked).await.unwrap_err();
        assert_eq!(
            status.code(),
            tonic::Code::NotFound,
            "it may ask, there is no such pool: {status}"
        );
    }
}
