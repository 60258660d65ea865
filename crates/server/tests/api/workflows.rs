//! Workflows as a whole: callbacks, the view, cancel and resume.

use divvy_proto::v1;
use serde_json::{Value, json};

use crate::world::{World, failed, hello, id};

const FLOW: &str = "0198c0de-0000-7000-8000-000000000007";

fn task(number: u128, role: &str, after: &[u128]) -> Value {
    let after: Vec<String> = after.iter().map(|number| id(*number)).collect();
    json!({
        "id": id(number), "kind": "noop", "after": after, "retry": {"limit": 0},
        "workflow": {"id": FLOW, "name": "nightly", "role": role},
    })
}

async fn submit(world: &World, tasks: Vec<Value>) {
    world.post("/api/v1/tasks", &json!({ "tasks": tasks })).await.ok();
}

#[tokio::test]
async fn a_failed_workflow_calls_back_is_shown_and_is_resumed() {
    let world = World::start().await;
    let roles = [("member", 1, vec![]), ("member", 2, vec![1]), ("member", 3, vec![2])];
    let callbacks = [("on_success", 8, vec![]), ("on_failure", 9, vec![])];
    let tasks = roles.into_iter().chain(callbacks);
    submit(&world, tasks.map(|(role, number, after)| task(number, role, &after)).collect()).await;
    let flow = format!("/api/v1/workflows/{FLOW}");
    let open = world.get(&flow).await.ok();
    assert_eq!(
        (&open["state"], &open["total"], &open["percent"]),
        (&json!("open"), &json!(3), &json!(0))
    );
    assert_eq!((&open["counts"]["ready"], &open["counts"]["blocked"]), (&json!(1), &json!(2)));
    assert_eq!(open["callbacks"][0]["state"], "blocked");
    let waiting = world.task(&id(8)).await;
    assert_eq!(waiting["wait"], json!({"reason": "workflow_open", "open": 3}));

    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    for (number, works) in [(1, true), (2, false), (9, true)] {
        let grant = worker.granted().await;
        assert_eq!(grant.task.as_ref().unwrap().id, uuid(number));
        let end = if works {
            crate::world::finished("null")
        } else {
            failed("broke", v1::FailureVerdict::Dead)
        };
        worker.report(grant.task.unwrap().id, grant.token, end).await;
        assert!(worker.answered().await);
    }
    let over = world.get(&flow).await.ok();
    assert_eq!((&over["state"], &over["percent"]), (&json!("failed"), &json!(100)));
    assert_eq!(over["failed"][0]["error"]["message"], "broke");
    assert_eq!(over["failed"][1]["state"], "cancelled");
    assert!(over["ended_at"].is_string(), "{over}");

    let resumed = world.post(&format!("{flow}/resume"), &json!({})).await.ok();
    assert_eq!(resumed, json!({"id": FLOW, "resumed": 2, "callbacks": 1, "left": 0}));
    for number in [2, 3, 8] {
        let grant = worker.granted().await;
        assert_eq!(grant.task.as_ref().unwrap().id, uuid(number));
        worker.report(grant.task.unwrap().id, grant.token, crate::world::finished("null")).await;
        assert!(worker.answered().await);
    }
    assert_eq!(world.get(&flow).await.ok()["state"], "succeeded");
}

#[tokio::test]
async fn a_workflow_is_cancelled_whole_and_found_by_the_start_of_its_id() {
    let world = World::start().await;
    let tasks = [task(1, "member", &[]), task(2, "member", &[1]), task(8, "on_failure", &[])];
    submit(&world, tasks.to_vec()).await;
    let listed = async |query: &str| {
        let list = world.get(&format!("/api/v1/workflows{query}")).await.ok();
        list["items"].as_array().unwrap().clone()
    };
    let items = listed("").await;
    let told = ["id", "name", "state", "total", "open", "failed", "percent"];
    let told: Vec<&Value> = told.iter().map(|field| &items[0][field]).collect();
    assert_eq!(json!(told), json!([FLOW, "nightly", "open", 2, 2, 0, 0]));
    assert!(items[0]["started_at"].is_string() && items[0].get("ended_at").is_none());
    for (query, count) in [
        ("?state=open&name=night*", 1),
        ("?state=failed,succeeded", 0),
        ("?name=night", 0),
        ("?name=nightly&limit=1", 1),
    ] {
        assert_eq!(listed(query).await.len(), count, "{query}");
    }
    world.get("/api/v1/workflows?state=late").await.refused(400, "invalid_field");
    let cancel = "/api/v1/workflows/0198c0de/cancel";
    world.post(cancel, &json!({"because": 1})).await.refused(400, "invalid_field");
    let cancelled = world.post(cancel, &json!({"reason": "wrong input"})).await.ok();
    assert_eq!(cancelled, json!({"id": FLOW, "cancelled": 3}));
    let dependent = world.task(&id(2)).await;
    assert!(dependent["error"]["message"].as_str().unwrap().contains("wrong input"));
    let again = world.post(cancel, &json!({})).await.ok();
    assert_eq!(again["cancelled"], 0);
    let resume = format!("/api/v1/workflows/{FLOW}/resume");
    let left = world.post(&resume, &json!({})).await.ok();
    assert_eq!((&left["resumed"], &left["left"]), (&json!(0), &json!(2)));
    let all = world.post(&resume, &json!({"include_cancelled": true})).await.ok();
    assert_eq!((&all["resumed"], &all["left"]), (&json!(2), &json!(0)));
    assert_eq!(world.get("/api/v1/workflows/0198").await.ok()["counts"]["blocked"], 1);
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_so() {
    let world = World::start().await;
    let nobody = "/api/v1/workflows/0198c0de-0000-7000-8000-00000000ffff";
    world.get(nobody).await.refused(404, "no_such_workflow");
    world.post(&format!("{nobody}/cancel"), &json!({})).await.refused(404, "no_such_workflow");
    world.post(&format!("{nobody}/resume"), &json!({})).await.refused(404, "no_such_workflow");
    world.get("/api/v1/workflows/zz").await.refused(404, "no_such_workflow");
    world.get("/api/v1/workflows?limit=0").await.refused(400, "invalid_field");
    assert_eq!(world.get("/api/v1/workflows").await.ok()["items"], json!([]));
}

fn uuid(number: u128) -> Vec<u8> {
    let text = id(number).replace('-', "");
    (0..16).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn a_workflow_is_shown_as_a_graph_in_one_answer() {
    let world = World::start().await;
    let mut tasks = vec![task(1, "member", &[])];
    for number in 2..=4 {
        let mut member = task(number, "member", &[1]);
        member["group"] = json!("parts");
        tasks.push(member);
    }
    let mut last = task(5, "member", &[]);
    last["after_groups"] = json!([{"group": "parts", "optional": true}]);
    last["tags"] = json!(["join"]);
    tasks.extend([last, task(9, "on_success", &[])]);
    submit(&world, tasks).await;
    let mut worker = world.worker(hello("w1", &["noop"])).await.unwrap();
    let grant = worker.granted().await;
    worker.report(grant.task.unwrap().id, grant.token, crate::world::finished("null")).await;
    assert!(worker.answered().await);
    let graph = world.get(&format!("/api/v1/workflows/{FLOW}/graph")).await.ok();
    let (name, state) = (&graph["name"], &graph["state"]);
    assert_eq!(
        (name, state, &graph["truncated"]),
        (&json!("nightly"), &json!("open"), &json!(false))
    );
    let nodes = graph["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 6);
    assert_eq!((&nodes[0]["state"], &nodes[0]["name"]), (&json!("done"), &json!("noop")));
    assert!(nodes[0]["started"].is_string() && nodes[0]["ended"].is_string(), "{graph}");
    assert_eq!((&nodes[1]["state"], &nodes[1]["worker"]), (&json!("leased"), &json!("w1")));
    assert_eq!((&nodes[1]["attempt"], &nodes[1]["group"]), (&json!(1), &json!("parts")));
    assert_eq!((&nodes[4]["state"], &nodes[4]["name"]), (&json!("blocked"), &json!("join")));
    assert!(nodes[4]["wait_reason"].as_str().unwrap().contains("parts"), "{graph}");
    assert_eq!(nodes[5]["role"], "on_success");
    let edges = graph["edges"].as_array().unwrap();
    let edge = |from: u128, to: u128, optional: bool| json!({"from": id(from), "to": id(to), "optional": optional, "spawned": false});
    let expected = [(1, 2), (1, 3), (1, 4)].map(|(from, to)| edge(from, to, false));
    let grouped = [(2, 5), (3, 5), (4, 5)].map(|(from, to)| edge(from, to, true));
    assert_eq!(*edges, [expected, grouped].concat());
    let group = &graph["groups"][0];
    assert_eq!((&group["name"], &group["total"]), (&json!("parts"), &json!(3)));
    assert_eq!(group["by_state"]["leased"], 3);
    let unknown = "0198c0de-0000-7000-8000-00000000ffff";
    world.get(&format!("/api/v1/workflows/{unknown}/graph")).await.refused(404, "no_such_workflow");
}
