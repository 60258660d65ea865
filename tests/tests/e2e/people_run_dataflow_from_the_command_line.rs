//! `divvy flow` as a person uses it: a job is started and waited for, its result fetched and checked, others are watched,
//! explained, cancelled and removed; wrong input, forbidden files and a full disk are told with their place and the cure.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, binary, divvy, free_port, serve_with};
use serde_json::Value;

struct Place {
    _server: Process,
    api: Api,
    folder: tempfile::TempDir,
}

impl Place {
    /// A server with a worker that stands in the folder of the inputs.
    fn up() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "up", "--json", "--workers", "1", "--no-video"]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--data"]);
        command.arg(folder.path().join("data")).current_dir(folder.path());
        let server = serve_with(command.stderr(Stdio::null()))?;
        Ok(Self { _server: server, api: Api::on(port), folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.path().join(name), text)?)
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = divvy()?;
        command.args(["--server", self.api.url()]).args(arguments).current_dir(self.path());
        Ok(command.output()?)
    }

    /// What a command that works says.
    fn good(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {told}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// What a command that does not work says, wherever.
    fn bad(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told).into_owned();
        ensure!(!output.status.success(), "{arguments:?} worked: {told}");
        Ok(told)
    }
}

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
async fn what_is_wrong_is_told_with_its_place_and_the_cure() -> Result<()> {
    let place = Place::up()?;
    place.write("edges.tsv", "1\t2\n2\t3\nthis is no edge\n")?;
    let graph = ["flow", "graph", "degrees", "--edges", "edges.tsv", "--ids", "number"];
    let told = place.bad(&[&graph[..], &["--wait"]].concat())?;
    ensure!(told.contains("edges.tsv:3"), "{told}");
    let told = place.good(&[&graph[..], &["--wait", "--on-error", "skip"]].concat())?;
    ensure!(told.contains("1 wrong rows") && told.contains("edges.tsv:3"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "nothing-here.txt"])?;
    ensure!(told.contains("nothing-here.txt"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "/etc/passwd", "--wait"])?;
    ensure!(told.contains("/etc/passwd") && told.contains("--flow-read /etc"), "{told}");
    let told = place.bad(&["flow", "sort", "--input", "edges.tsv", "--partitions", "0"])?;
    ensure!(told.contains("partitions"), "{told}");
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
