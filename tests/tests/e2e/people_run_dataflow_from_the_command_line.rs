//! `divvy flow` as a person uses it: a job is started and waited for, its result fetched and checked, others are watched,
//! explained, cancelled and removed; wrong input, forbidden files and a full disk are told with their place and the cure.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::flow::Place;
use divvy_e2e::process::{binary, divvy, free_port, serve_with};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_started_watched_explained_fetched_and_removed() -> Result<()> {
    let place = Place::up()?;
    let mut lines: Vec<String> =
        (0..5_000_u64).map(|at| format!("{:05}", at * 7_919 % 10_007)).collect();
    place.write("numbers.txt", &(lines.join("\n") + "\n"))?;
    lines.sort_unstable();
    let sort = ["flow", "sort", "--input", "numbers.txt", "--split", "5kB", "--single"];
    let told = place.good(&[&sort[..], &["--out", "sorted", "--timeline", "t.svg"]].concat())?;
    ensure!(told.contains("done") && told.contains("STAGE") && told.contains("SKEW"), "{told}");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(place.path().join("sorted/manifest.json"))?)?;
    ensure!(manifest["rows"] == 5_000, "{manifest}");
    let name = manifest["files"][0]["name"].as_str().context("no file")?;
    let found = std::fs::read_to_string(place.path().join("sorted").join(name))?;
    ensure!(found.lines().eq(lines.iter().map(String::as_str)), "the lines are not in order");
    ensure!(place.good(&["flow", "output"])? == found, "the latest result is printed");
    ensure!(std::fs::read_to_string(place.path().join("t.svg"))?.contains("<title>"));
    let list = place.good(&["flow", "list", "--json"])?;
    let job: Value = serde_json::from_str(list.lines().next().context("an empty list")?)?;
    let id = job["id"].as_str().context("no id")?;
    ensure!(job["state"] == "done" && job["stages"][0]["rows_in"].is_u64(), "{job}");
    let explained = place.good(&["flow", "explain", &id[..6]])?;
    ensure!(explained.lines().count() >= 2, "{explained}");
    let page = reqwest::get(format!("{}/flows/{id}", place.api.url())).await?;
    ensure!(page.status() == 200 && page.text().await?.contains("Stages"));
    let metrics = reqwest::get(format!("{}/metrics", place.api.url())).await?.text().await?;
    ensure!(metrics.contains("flow_jobs_ended_total{state=\"done\"} 1"), "{metrics}");
    let told = place.bad(&["flow", "cancel", id])?;
    ensure!(told.contains("ended already"), "{told}");
    place.good(&["flow", "remove", id])?;
    let told = place.bad(&["flow", "status", id])?;
    ensure!(told.contains("no job"), "{told}");
    ensure!(!place.path().join("data/flows").join(id).exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_sorted_is_checked_by_its_manifest() -> Result<()> {
    let place = Place::up()?;
    place.write("a.txt", "3 c\n1 a\n")?;
    place.write("b.txt", "5 b\n9 z\n")?;
    for name in ["a", "b"] {
        let (input, out) = (format!("{name}.txt"), format!("sorted-{name}"));
        place.good(&["flow", "sort", "--input", &input, "--out", &out])?;
    }
    let check = ["flow", "sort", "--check", "--input", "sorted-a"];
    let told = place.good(&check)?;
    ensure!(told.contains("1 files are in order: 2 records, 8 bytes"), "{told}");
    // As many rows and bytes, in order, but not those that were written.
    place.write("sorted-a/part-00000", "1 a\n3 d\n")?;
    let told = place.bad(&check)?;
    ensure!(told.contains("in order, but their checksum is"), "{told}");
    place.write("sorted-a/part-00000", "1 a\n")?;
    let told = place.bad(&check)?;
    ensure!(told.contains("their records are 1 instead of 2"), "{told}");
    // Of several folders the sums are compared, and nothing is known of a file without a manifest.
    place.write("sorted-a/part-00000", "1 a\n3 c\n")?;
    place.write("sorted-b/part-00000", "5 c\n9 z\n")?;
    let told = place.bad(&[&check[..], &["sorted-b"]].concat())?;
    ensure!(told.contains("in order, but their checksum is"), "{told}");
    place.write("later.txt", "4 d\n")?;
    let told = place.good(&[&check[..], &["later.txt"]].concat())?;
    ensure!(told.contains("2 files are in order: 3 records"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_cancelled_while_it_runs_leaves_nothing() -> Result<()> {
    let place = Place::without_workers()?;
    let _workers = [place.worker("one")?, place.worker("two")?];
    place.write("lines.txt", &"a line\n".repeat(500))?;
    place.write("events.jsonl", "{\"at\":1}\n")?;
    let sleeps = "if [ $DIVVY_FLOW_PART = 1 ]; then exec sleep 600; fi; cat";
    let inputs = ["--input", "lines.txt", "--split", "1kB", "--partitions", "1"];
    let map = ["--json", "flow", "mapreduce", "--map", sleeps, "--reduce", "cat"];
    let stream = ["--json", "flow", "stream", "--source", "events.jsonl", "--follow"];
    let begun = [
        (place.good(&[&map[..], &inputs].concat())?, "shuffle"),
        (place.good(&[&stream[..], &["--window", "10s"]].concat())?, "keep"),
    ];
    for (told, made) in begun {
        let job: Value = serde_json::from_str(&told)?;
        let id = job["id"].as_str().context("no id")?;
        let folder = place.path().join("data/flows").join(id);
        // The one has done a part and runs the other, the other has kept what it read.
        let goes_on = |_: &Value| {
            let entries = std::fs::read_dir(folder.join(made)).into_iter().flatten().flatten();
            let in_them = entries.flat_map(|entry| std::fs::read_dir(entry.path()));
            in_them.flatten().flatten().any(|file| !file.file_name().is_empty())
        };
        let path = format!("flows/{id}");
        place.api.wait_until(&path, "something to sweep", goes_on).await?;
        if made == "shuffle" {
            let told = place.bad(&["flow", "stop", id])?;
            ensure!(told.contains("is no stream"), "{told}");
        }
        place.good(&["flow", "cancel", id])?;
        let job = place.api.wait_until(&path, "the end", |job| job["state"] == "cancelled").await?;
        ensure!(job["summary"].is_null(), "{job}");
        // An attempt that hears of it late may write once more, and is swept once more.
        let is_swept = |_: &Value| {
            ["shuffle", "keep", "scratch"].iter().all(|name| !folder.join(name).exists())
        };
        place.api.wait_until(&path, "a clean folder", is_swept).await?;
        let told = place.bad(&["flow", "output", id])?;
        ensure!(told.contains("has no result"), "{told}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_told_with_its_place_and_the_cure() -> Result<()> {
    let place = Place::up()?;
    place.write("edges.tsv", "1\t2\n2\t3\nthis is no edge\n")?;
    let graph = ["flow", "graph", "degrees", "--edges", "edges.tsv", "--ids", "number"];
    let told = place.bad(&[&graph[..], &["--wait"]].concat())?;
    ensure!(told.contains("edges.tsv:3"), "{told}");
    let told = place.good(&[&graph[..], &["--wait", "--on-error", "skip"]].concat())?;
    ensure!(told.contains("1 wrong row\n") && told.contains("edges.tsv:3"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "nothing-here.txt"])?;
    ensure!(told.contains("nothing-here.txt"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "/etc/passwd", "--wait"])?;
    ensure!(told.contains("/etc/passwd") && told.contains("--flow-read /etc"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "edges.tsv", "--partitions", "0"])?;
    ensure!(told.contains("partitions"), "{told}");
    for flag in ["--window", "--lateness", "--idle-timeout"] {
        let stream = ["flow", "stream", "--source", "edges.tsv", flag, "-10s"];
        let told = place.bad(&stream)?;
        ensure!(told.contains(flag) && told.contains("`-10s` is not a span of time"), "{told}");
    }
    // A job that no worker may run waits, and says for what.
    let words =
        ["--json", "flow", "mapreduce", "--input", "edges.tsv", "--map", "cat", "--reduce", "cat"];
    let job: Value = serde_json::from_str(&place.good(&words)?)?;
    let path = format!("flows/{}", job["id"].as_str().context("no id")?);
    let says_why = |job: &Value| job["stages"][0]["notes"].to_string().contains("flow-commands");
    place.api.wait_until(&path, "the reason of the wait", says_why).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_the_job_with_its_place_and_the_cure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk)?;
    let input = folder.path().join("lines.txt");
    std::fs::write(&input, "a line that is long enough to fill a small disk\n".repeat(100_000))?;
    let port = free_port()?;
    let namespaces: &[&str] = if nix::unistd::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    // Only the jobs are on the small disk: the server itself has room.
    let script = "mkdir -p $1/data/flows && mount -t tmpfs -o size=3m tmpfs $1/data/flows && \
        exec $2 --config /dev/null up --json --workers 1 --no-video --data $1/data --listen $3 --flow-read $4";
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", script, "sh"]).arg(&disk).arg(binary()?);
    command.arg(format!("127.0.0.1:{port}")).arg(folder.path());
    let _server = serve_with(command.stderr(Stdio::null()))?;
    let api = Api::on(port);
    let mut sort = divvy()?;
    sort.args(["--server", api.url(), "flow", "sort", "--wait", "--input"]).arg(&input);
    let output = sort.output()?;
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    ensure!(!output.status.success(), "{told}");
    ensure!(told.contains("the disk is full") && told.contains("data/flows/"), "{told}");
    Ok(())
}
