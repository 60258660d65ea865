//! Experiments and plans from a page: one at a time, followed to the end, stopped before.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use divvy_server::lab::{Asked, Experiment, Lab, Laboratory, Prepared, Refused, Report, Step};
use divvy_types::experiment::{Cell, Drawing, Table, Timing};
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{World, soon};

/// A laboratory whose runs end when the test says so, or when they are stopped.
struct Bench(Mutex<Option<Receiver<()>>>);

impl Laboratory for Bench {
    fn experiments(&self) -> Vec<Experiment> {
        let (name, summary) = ("ring".to_owned(), "how even a ring is".to_owned());
        vec![Experiment { name, summary, timing: Timing::Simulated }]
    }

    fn prepare(&self, asked: Asked) -> Result<Prepared, Refused> {
        match asked {
            Asked::Experiment { name, .. } if name != "ring" => {
                Err(Refused::NoSuchExperiment(format!("no experiment is named `{name}`")))
            }
            Asked::Plan { text, .. } if text.is_empty() => {
                Err(Refused::BadPlan("is empty".to_owned()))
            }
            asked => {
                let gate = self.0.lock().unwrap().take();
                Ok(Box::new(move |tell, stop| {
                    tell(Step { what: "the first part", done: 1, total: 2 });
                    if let Some(gate) = gate {
                        // The test sends, or stops the run.
                        while gate.try_recv().is_err() && !stop.load(Ordering::Relaxed) {
                            std::thread::yield_now();
                        }
                    }
                    if stop.load(Ordering::Relaxed) {
                        return Err("it was stopped".to_owned());
                    }
                    Ok(report(&format!("{asked:?}")))
                }))
            }
        }
    }
}

fn report(shows: &str) -> Report {
    let mut report = Report::new("ring", "Rings", shows);
    report.parameter("seed", 7_u64);
    let mut table = Table::new("all").text("a").number("b", "ms", 1);
    table.row(["x".into(), 1.5.into()]);
    table.row(["y".into(), Cell::Empty]);
    report.tables.push(table);
    let (title, note, svg) = ("t".to_owned(), String::new(), "<svg></svg>".to_owned());
    report.charts.push(Drawing { title, note, svg });
    report
}

async fn until(world: &World, id: &Value, state: &str) -> Value {
    let path = format!("/api/v1/lab/runs/{}", id.as_str().unwrap());
    let asking = async {
        loop {
            let run = world.get(&path).await.ok();
            if run["state"] == state {
                return run;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(state, asking).await
}

#[tokio::test]
async fn one_run_at_a_time_is_followed_to_its_report_or_stopped() {
    let (send, gate) = sync_channel(1);
    let bench = Arc::new(Bench(Mutex::new(Some(gate))));
    let lab = Lab(Arc::clone(&bench) as Arc<dyn Laboratory>);
    let world = World::with(|options| options.lab = Some(lab), Default::default()).await;
    assert_eq!(world.get("/api/v1/lab").await.ok()["items"][0]["timing"], "simulated");
    let begun = world.post("/api/v1/lab/ring", &json!({"seed": 7, "quick": false})).await;
    assert_eq!(begun.status, 202);
    let id = begun.json()["id"].clone();
    let goes_on =
        world.post("/api/v1/plan", &json!({"plan": "x"})).await.refused(409, "run_goes_on");
    assert!(goes_on["message"].as_str().unwrap().contains("ring"), "{goes_on}");
    send.send(()).unwrap();
    let over = until(&world, &id, "done").await;
    assert_eq!(over["report"]["tables"][0]["rows"], json!([["x", 1.5], ["y", null]]));
    assert!(over["report"]["shows"].as_str().unwrap().contains("seed: 7, quick: false"), "{over}");
    let (_send, gate) = sync_channel(1);
    *bench.0.lock().unwrap() = Some(gate);
    let second = world.post("/api/v1/plan", &json!({"plan": "goal: {}"})).await.ok();
    let path = format!("/api/v1/lab/runs/{}", second["id"].as_str().unwrap());
    world.request(Method::DELETE, &path, &[]).await.ok();
    until(&world, &second["id"], "stopped").await;
    let runs = world.get("/api/v1/lab/runs").await.ok();
    let names: Vec<&Value> =
        runs["items"].as_array().unwrap().iter().map(|run| &run["name"]).collect();
    assert_eq!(names, ["plan", "ring"]);
    assert_eq!(runs["items"][1]["report"], Value::Null, "lists have no reports");
}

#[tokio::test]
async fn what_cannot_be_run_is_refused() {
    let world = World::start().await;
    world.get("/api/v1/lab").await.refused(404, "no_lab");
    let lab = Lab(Arc::new(Bench(Mutex::default())));
    let world = World::with(|options| options.lab = Some(lab), Default::default()).await;
    world.post("/api/v1/lab/rung", &json!({})).await.refused(404, "no_such_experiment");
    let refused = world.post("/api/v1/plan", &json!({"plan": ""})).await;
    assert_eq!(refused.refused(400, "invalid_field")["field"], "plan");
    world.get("/api/v1/lab/runs/9").await.refused(404, "no_such_run");
}
