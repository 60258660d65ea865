//! A part that hangs gets a twin on another worker; the first of the two that is done counts, the other is cancelled, and the
//! result is that of a part that does not hang. A server that was killed meanwhile finds the twin again.

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::flow::Place;
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_twin_of_a_part_that_hangs_brings_the_same_result() -> Result<()> {
    let mut place = Place::without_workers()?;
    let _workers = [place.worker("one")?, place.worker("two")?];
    let lines: String = (0..4_000).map(|nth| format!("line {nth}\n")).collect();
    place.write("lines.txt", &lines)?;
    // Whoever is first at the first part hangs; whoever comes after waits until it may go on.
    let folder = place.path().display().to_string();
    let map = format!(
        "if [ $DIVVY_FLOW_PART = 0 ]; then if mkdir {folder}/first 2> /dev/null; then exec sleep 600; fi; mkdir {folder}/second; \
         while [ ! -e {folder}/go ]; do sleep 0.1; done; fi; cat"
    );
    let start = ["--json", "flow", "mapreduce", "--input", "lines.txt", "--split", "10kB"];
    let told = place.good(&[&start[..], &["--map", &map]].concat())?;
    let flow: Value = serde_json::from_str(&told)?;
    let id = flow["id"].as_str().context("no id")?;
    let path = format!("flows/{id}");
    let has_twin = |flow: &Value| flow["stages"][0]["twins"] == 1;
    let seen = place.api.wait_until(&path, "a twin", has_twin).await?;
    ensure!(seen["state"] == "running", "{seen}");
    let runs = |_: &Value| place.path().join("second").exists();
    place.api.wait_until(&path, "a twin that runs", runs).await?;
    // The twin ends while nobody hears of it.
    place.kill_server()?;
    place.write("go", "")?;
    place.serve_again()?;
    let done = place.api.wait_until(&path, "the end", |flow| flow["state"] == "done").await?;
    ensure!(done["stages"][0]["twins"] == 1, "{done}");
    ensure!(place.good(&["flow", "output", id])? == lines, "the lines are not the same");
    let cancelled = format!("tasks?tag=flow:{id}&state=cancelled");
    let is_one = |page: &Value| page["items"].as_array().is_some_and(|all| all.len() == 1);
    place.api.wait_until(&cancelled, "the end of the one that hangs", is_one).await?;
    let tasks = place.api.all_tasks(&format!("tag=flow:{id}")).await?;
    let parts = done["stages"][0]["parts"].as_u64().context("no parts")?;
    ensure!(tasks.len() as u64 == parts + 1, "{tasks:?}");
    Ok(())
}
