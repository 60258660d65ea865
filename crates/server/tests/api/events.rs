//! Server-sent events and followed logs.

use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message as Say;
use divvy_types::{TaskId, TaskSpec};
use serde_json::{Value, json};

use crate::world::{World, finished, hello, id, soon};

/// A stream of text that is read piece by piece.
pub(crate) struct Watcher {
    pub(crate) response: reqwest::Response,
    pub(crate) text: String,
}

impl Watcher {
    pub(crate) async fn start(world: &World, path: &str) -> Self {
        Self::read(world.client.get(world.url(path))).await
    }

    /// Comes back after the event with this id.
    pub(crate) async fn resume(world: &World, path: &str, last: &str) -> Self {
        Self::read(world.client.get(world.url(path)).header("last-event-id", last)).await
    }

    async fn read(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// The id of the event that was read last.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.text.lines().rev().find_map(|line| line.strip_prefix("id: "))
    }

    /// Reads until the text holds this; nothing if the stream ends before.
    pub(crate) async fn until(&mut self, wanted: &str) -> Option<()> {
        while !self.text.contains(wanted) {
            let piece = soon(wanted, self.response.chunk()).await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        Some(())
    }

    /// The data of the events of one sort that were read so far.
    pub(crate) fn events(&self, sort: &str) -> Vec<Value> {
        let blocks = self
            .text
            .split("\n\n")
            .filter(|block| block.lines().any(|line| line == format!("event: {sort}")));
        blocks
            .map(|block| {
                let data =
                    block.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
                serde_json::from_str(data).unwrap()
            })
            .collect()
    }
}

#[tokio::test]
async fn changes_are_told_as_they_happen_and_only_those_asked_for() {
    let world = World::start().await;
    let mut all = Watcher::start(&world, "/api/v1/events").await;
    let mut some =
        Watcher::start(&world, &format!("/api/v1/events?task={}&state=leased,done", id(2))).await;
    all.until("\n\n").await.unwrap();
    some.until("\n\n").await.unwrap();
    assert_eq!(all.response.headers()["content-type"], "text/event-stream");
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    for number in 1..=2 {
        world.post("/api/v1/tasks", &json!({"id": id(number), "kind": "noop"})).await.ok();
        let grant = worker.granted().await;
        worker.report(grant.task.unwrap().id, grant.token, finished("1")).await;
        assert!(worker.answered().await);
    }
    some.until(r#""state":"done""#).await.unwrap();
    let states: Vec<Value> =
        some.events("change").iter().map(|change| change["state"].clone()).collect();
    assert_eq!(states, [json!("leased"), json!("done")]);
    assert!(some.events("change").iter().all(|change| change["id"] == id(2)));
    assert!(some.last_id().is_some(), "events have ids: {}", some.text);
    all.until(&format!(r#"{{"id":"{}","kind":"noop","queue":"default","state":"done""#, id(2)))
        .await
        .unwrap();
    assert!(all.events("change").len() >= 4);
    world.get("/api/v1/events?state=x").await.refused(400, "invalid_field");
    world.get("/api/v1/events?task=zz").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_watcher_that_is_too_slow_hears_how_much_it_missed() {
    let options = divvy_engine::Options { changes: 16, ..divvy_engine::Options::default() };
    let world = World::with(|_| {}, options).await;
    let mut watcher = Watcher::start(&world, "/api/v1/events").await;
    watcher.until("\n\n").await.unwrap();
    // The thread of this test also serves the watcher: while it waits here, the watcher cannot keep up.
    let handle = world.handle.clone();
    let flood = std::thread::spawn(move || {
        let specs = (1..=500).map(|n| TaskSpec::new(TaskId(n), "noop")).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            handle.submit(specs).await.unwrap();
            // Changes are told after the answer: the next answer comes after the changes.
            handle.submit(vec![TaskSpec::new(TaskId(501), "noop")]).await.unwrap();
        });
    });
    flood.join().unwrap();
    watcher.until("event: lagged").await.unwrap();
    watcher.until("\"missed\":").await.unwrap();
    watcher.until("event: change").await.unwrap();
    let missed = watcher.events("lagged")[0]["missed"].as_u64().unwrap();
    assert!(missed >= 400, "{missed}");
}

#[tokio::test]
async fn a_watcher_that_comes_back_hears_what_happened_meanwhile() {
    let world = World::start().await;
    let submit = async |number: u128| {
        world.post("/api/v1/tasks", &json!({"id": id(number), "kind": "noop"})).await.ok();
    };
    let mut first = Watcher::start(&world, "/api/v1/events").await;
    submit(1).await;
    first.until(r#""state":"ready""#).await.unwrap();
    first.until("\n\n").await.unwrap();
    let last = first.last_id().unwrap().to_owned();
    drop(first);
    submit(2).await;
    let path = format!("/api/v1/events?task={}", id(2));
    let mut second = Watcher::resume(&world, &path, &last).await;
    second.until(r#""state":"ready""#).await.unwrap();
    assert!(second.events("lagged").is_empty(), "nothing was missed: {}", second.text);
    let mut stranger = Watcher::resume(&world, "/api/v1/events", "1-1").await;
    stranger.until("\"missed\":null}\n\n").await.unwrap();
    assert_eq!(stranger.events("lagged").len(), 1, "{}", stranger.text);
}

#[tokio::test]
async fn watchers_hear_the_end_when_the_server_stops() {
    let mut world = World::start().await;
    let mut watcher = Watcher::start(&world, "/api/v1/events").await;
    watcher.until("\n\n").await.unwrap();
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut follower =
        Watcher::start(&world, &format!("/api/v1/tasks/{}/log?follow=true", id(1))).await;
    world.shutdown.cancel();
    assert_eq!(watcher.until("never").await, None);
    assert_eq!(follower.until("never").await, None);
    soon("the end of the server", &mut world.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_followed_log_goes_on_until_the_task_is_final() {
    let world = World::start().await;
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    let task = grant.task.unwrap().id;
    let mut follower =
        Watcher::start(&world, &format!("/api/v1/tasks/{}/log?follow=true", id(1))).await;
    for line in ["first line\n", "second line\n"] {
        let news = v1::Progress {
            task: task.clone(),
            token: grant.token,
            log: line.into(),
            ..Default::default()
        };
        worker.say(Say::Heartbeat(v1::Heartbeat { progress: vec![news], load: None })).await;
        follower.until(line).await.unwrap();
    }
    assert_eq!(follower.text.matches("first line").count(), 1, "{}", follower.text);
    worker.report(task, grant.token, finished("1")).await;
    follower.until("a line of its log").await.unwrap();
    assert_eq!(follower.until("never").await, None, "ends with the task");
    world
        .get(&format!("/api/v1/tasks/{}/log?follow=perhaps", id(1)))
        .await
        .refused(400, "invalid_field");
}

#[tokio::test]
async fn an_abandoned_watcher_does_not_stay() {
    let world = World::start().await;
    let mut watcher = Watcher::start(&world, "/api/v1/events").await;
    watcher.until("\n\n").await.unwrap();
    assert_eq!(connections(&world).await, 2, "the watcher's and the one that asks");
    drop(watcher);
    soon("the end of the watcher's connection", async { while connections(&world).await != 1 {} })
        .await;
}

async fn connections(world: &World) -> u64 {
    let text = world.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix("divvy_connections "));
    line.expect("a figure").parse::<f64>().unwrap() as u64
}

#[tokio::test]
async fn how_far_a_task_is_reaches_those_who_asked_for_it_and_nobody_else() {
    let world = World::start().await;
    let mut plain = Watcher::start(&world, "/api/v1/events").await;
    let mut asked = Watcher::start(&world, "/api/v1/events?progress=true").await;
    asked.until("\n\n").await.unwrap();
    world.post("/api/v1/tasks", &json!({"id": id(1), "kind": "noop"})).await.ok();
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    let task = grant.task.unwrap().id;
    let (done, total) = (3, 8);
    let news =
        v1::Progress { task: task.clone(), token: grant.token, done, total, ..Default::default() };
    worker.say(Say::Heartbeat(v1::Heartbeat { progress: vec![news], load: None })).await;
    asked.until("event: progress").await.unwrap();
    asked.until(r#""total":8"#).await.unwrap();
    let told = asked.events("progress").remove(0);
    assert_eq!((&told["progress"]["done"], &told["id"]), (&3.into(), &json!(id(1))), "{told}");
    worker.report(task, grant.token, finished("1")).await;
    plain.until(r#""state":"done""#).await.unwrap();
    assert!(plain.events("progress").is_empty(), "{}", plain.text);
}
