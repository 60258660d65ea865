//! People watch a server in a real browser, on a real `divvy` with real workers under load: every page, empty and full, in
//! both themes, on a desk and on a phone; they act on what they see, and stay when the server goes away and comes back.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::axe;
use divvy_e2e::browser::Browser;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The pages of lists: where they are, what is above them, and what they say while there is nothing.
const PAGES: [(&str, &str, &str); 12] = [
    ("/", "Overview", "Nothing has been submitted yet"),
    ("/tasks", "Tasks", "divvy submit"),
    ("/queues", "Queues", "divvy submit"),
    ("/workflows", "Workflows", "divvy run"),
    ("/workers", "Workers", "No worker is connected"),
    ("/limits", "Limits", "No limit is set"),
    ("/schedules", "Schedules", "Nothing is scheduled"),
    ("/dead", "Dead letters", "No dead letters"),
    ("/scale", "Scale", "No pool of workers"),
    ("/alerts", "Alerts", "Nothing needs you"),
    ("/lab", "Lab", "Experiments on the parts"),
    ("/plan", "Plan", "How many workers a load needs"),
];

/// A server without workers, and the address that it keeps.
struct Watched {
    api: Api,
    folder: TempDir,
    port: u16,
    server: Process,
}

impl Watched {
    fn start() -> Result<Self> {
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let server = serve(&folder, port, &[])?;
        Ok(Self { api: Api::on(port), folder, port, server })
    }

    /// Ends the server as a crash would, and starts it again on the same folder and port.
    fn kill(&mut self) -> Result<()> {
        self.server.kill_nine()
    }

    fn start_again(&mut self) -> Result<()> {
        self.server = serve(&self.folder, self.port, &[])?;
        Ok(())
    }

    fn worker(&self, name: &str) -> Result<Process> {
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "--server", self.api.url(), "work", "--name", name]);
        command.args(["--slots", "async=2,cpu=1", "--no-video", "--no-crawl", "--no-flow"]);
        Process::start(&mut command)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.api.url())
    }

    /// Submits tasks and says their ids.
    async fn submit(&self, tasks: &[Value]) -> Result<Vec<String>> {
        let (status, answer) = self.api.submit(tasks).await?;
        ensure!(status == 201, "{status} {answer}");
        serde_json::from_value(answer["ids"].clone()).context("no ids")
    }
}

fn serve(folder: &TempDir, port: u16, more: &[&str]) -> Result<Process> {
    let mut command = divvy()?;
    command.args(["--config", "/dev/null"]).args(more).args(["serve", "--json", "--data"]);
    command.arg(folder.path().join("data")).args(["--listen", &format!("127.0.0.1:{port}")]);
    serve_with(&mut command)
}

/// The page has what it shows: its heading stands there, and nothing is on its way.
fn shown(title: &str) -> String {
    format!(
        "document.querySelector('h1')?.textContent === {} && !document.querySelector('.loading')",
        json!(title)
    )
}

fn says(text: &str) -> String {
    format!("document.querySelector('main').innerText.includes({})", json!(text))
}

#[tokio::test]
async fn every_page_can_be_read_while_there_is_nothing() -> Result<()> {
    let watched = Watched::start()?;
    let (mut page, script) = (Browser::start().await?, axe::script()?);
    for (path, title, empty) in PAGES {
        page.open(&watched.url(path)).await?;
        page.until(&shown(title)).await?;
        page.until(&says(empty)).await?;
        axe::looked_at(&mut page, &script, path).await?;
    }
    page.close().await?;
    watched.server.terminate()
}

/// Work of every sort: done, waiting, dead, limited, scheduled, in a workflow. Returns a task and a workflow.
async fn fill(watched: &Watched) -> Result<(String, String)> {
    let api = &watched.api;
    api.set(Method::PUT, "limits/mail-api", &json!({ "rate": "1/m", "concurrency": 1 })).await?;
    let nightly =
        json!({ "cron": "0 3 * * *", "zone": "Europe/Berlin", "task": { "kind": "noop" } });
    api.set(Method::PUT, "schedules/nightly", &nightly).await?;
    let pool = json!({ "pools": { "encoders": { "driver": "print", "max": 4, "types": [{ "name": "small", "price_hour": 0.17 }] } } });
    api.set(Method::PATCH, "settings", &pool).await?;
    let dead = |number: u32| json!({ "kind": "fail", "payload": { "message": format!("no such customer {number} <b>here</b>"), "verdict": "dead" } });
    let limited = || json!({ "kind": "noop", "queue": "mail", "limits": ["mail-api/acme"] });
    let mut tasks: Vec<Value> = (0..12).map(|number| dead(number + 100)).collect();
    tasks.extend((0..4).map(|_| limited()));
    tasks.extend((1..=5).map(|priority| json!({ "kind": "noop", "priority": priority })));
    tasks.push(json!({ "kind": "noop", "needs": ["gpu"] }));
    let ids = watched.submit(&tasks).await?;
    let dead = |groups: &Value| groups["items"][0]["count"] == 12;
    api.wait_until("dead", "twelve dead letters", dead).await?;
    // These have the workers to themselves from now on, and leave some of their own waiting.
    let long = (0..9).map(|number| json!({ "kind": "sleep", "queue": "reports", "priority": number % 5 + 1, "payload": { "ms": 600_000 } }));
    watched.submit(&long.collect::<Vec<_>>()).await?;
    let workflow = uuid::Uuid::now_v7().to_string();
    let part = |id: &str, after: &[&str]| json!({ "id": id, "kind": "noop", "after": after, "workflow": { "id": workflow, "name": "publish" } });
    let names: Vec<String> = (0..3).map(|_| uuid::Uuid::now_v7().to_string()).collect();
    let parts =
        [part(&names[0], &[]), part(&names[1], &[&names[0]]), part(&names[2], &[&names[1]])];
    watched.submit(&parts).await?;
    Ok((ids[0].clone(), workflow))
}

#[tokio::test]
async fn every_page_can_be_read_under_load() -> Result<()> {
    let watched = Watched::start()?;
    let _workers = (watched.worker("left")?, watched.worker("right")?);
    let (task, workflow) = fill(&watched).await?;
    let (mut page, script) = (Browser::start().await?, axe::script()?);
    for (path, title, _) in PAGES {
        page.open(&watched.url(path)).await?;
        page.until(&shown(title)).await?;
        page.until(&says(full(path))).await?;
        axe::looked_at(&mut page, &script, path).await?;
    }
    for (path, words) in [
        (format!("/tasks/{task}"), "Attempt 1 began on"),
        (format!("/workflows/{workflow}"), "started"),
        ("/queues/reports".into(), "Ready by priority"),
    ] {
        page.open(&watched.url(&path)).await?;
        page.until("document.querySelector('h1') && !document.querySelector('.loading')").await?;
        page.until(&says(words)).await?;
        axe::looked_at(&mut page, &script, &path).await?;
    }
    page.open(&watched.url("/alerts")).await?;
    page.until(
        "[...document.querySelectorAll('.alert code')].some((one) => one.textContent === 'noop')",
    )
    .await?;
    ensure!(page.value("document.querySelector('main').innerText.includes('`')").await? == false);
    ensure!(page.value("document.querySelector('main b')?.textContent === 'here'").await? != true);
    page.close().await?;
    watched.server.terminate()
}

/// What a page says of the work that [`fill`] made.
fn full(path: &str) -> &'static str {
    match path {
        "/" => "Needs attention",
        "/tasks" => "sleep",
        "/queues" => "reports",
        "/workflows" => "publish",
        "/workers" => "left",
        "/limits" => "mail-api",
        "/schedules" => "nightly",
        "/dead" => "no such customer # <b>here</b>",
        "/scale" => "Why so many",
        "/alerts" => "gpu",
        _ => "",
    }
}

/// Answers the question that stands in front of the page.
async fn agree(page: &mut Browser) -> Result<()> {
    page.until("document.querySelector('dialog[open] [type=submit]:enabled')").await?;
    page.click("dialog[open] [type=submit]").await?;
    page.until("!document.querySelector('dialog[open]')").await
}

/// Marks the first button that says this, so that it can be pressed.
async fn press(page: &mut Browser, words: &str) -> Result<()> {
    let find = format!(
        "[...document.querySelectorAll('main button:enabled')].find((one) => one.textContent.startsWith({}))",
        json!(words)
    );
    page.until(&find).await?;
    page.value(&format!("{find}.id = 'to-press'; 0")).await?;
    page.click("#to-press").await?;
    page.value("document.querySelector('#to-press')?.removeAttribute('id'); 0").await?;
    Ok(())
}

/// Writes into the field with this label, in place of what is there.
async fn write(page: &mut Browser, label: &str, text: &str) -> Result<()> {
    let label = format!(
        "[...document.querySelectorAll('dialog[open] label')].find((one) => one.textContent === {})",
        json!(label)
    );
    page.until(&label).await?;
    let field = format!("{label}.control");
    page.value(&format!("{field}.focus(); {field}.select()")).await?;
    page.write(text).await
}

/// Nobody is told of a rule for a while, and then others are told again.
async fn silence_and_end_it(page: &mut Browser, watched: &Watched) -> Result<()> {
    page.open(&watched.url("/alerts")).await?;
    press(page, "Silence").await?;
    page.until("document.querySelector('dialog[open] .command').innerText.trim() === 'divvy alert silence no_worker --for 1h'").await?;
    agree(page).await?;
    press(page, "Tell again").await?;
    ensure!(watched.api.get("alerts").await?["alerts"][0]["silenced_until"].is_string());
    agree(page).await?;
    ensure!(watched.api.get("alerts").await?["alerts"][0]["silenced_until"].is_null());
    Ok(())
}

#[tokio::test]
async fn what_is_asked_of_a_page_is_done_and_its_command_is_shown() -> Result<()> {
    let watched = Watched::start()?;
    let _worker = watched.worker("left")?;
    let api = &watched.api;
    let dead = json!({ "kind": "fail", "payload": { "message": "no such customer 7", "verdict": "dead" } });
    watched.submit(&[dead.clone(), dead]).await?;
    api.wait_until("dead", "two dead letters", |groups| groups["items"][0]["count"] == 2).await?;
    let mut page = Browser::start().await?;
    page.resize(1280, 900).await?;

    page.open(&watched.url("/limits")).await?;
    press(&mut page, "New limit").await?;
    write(&mut page, "Name", "mail-api").await?;
    write(&mut page, "Starts per key", "10/s").await?;
    page.until(
        "document.querySelector('dialog[open] .preview').innerText.includes('one every 100 ms')",
    )
    .await?;
    page.until("document.querySelector('dialog[open] .command').innerText.trim() === 'divvy limit set mail-api --rate 10/s'").await?;
    agree(&mut page).await?;
    page.until(&says("10/s per key")).await?;
    ensure!(api.get("limits").await?["items"][0]["limit"] == json!({ "rate": "10/s" }));

    page.open(&watched.url("/schedules")).await?;
    press(&mut page, "New schedule").await?;
    write(&mut page, "When", "0 25 * * *").await?;
    page.until("document.querySelector('dialog[open] .preview.bad')").await?;
    write(&mut page, "When", "0 18 L * *").await?;
    page.until("document.querySelectorAll('dialog[open] .ticks li').length === 5").await?;
    write(&mut page, "Name", "month-end").await?;
    write(&mut page, "Kind of task", "noop").await?;
    agree(&mut page).await?;
    page.until(&says("at 18:00 on the last day of the month")).await?;
    ensure!(api.get("schedules").await?["items"][0]["name"] == "month-end");

    silence_and_end_it(&mut page, &watched).await?;

    page.open(&watched.url("/workers")).await?;
    press(&mut page, "Pause").await?;
    agree(&mut page).await?;
    page.until("document.querySelector('.lane .chip')?.textContent === 'paused'").await?;
    ensure!(api.get("workers").await?["items"][0]["paused"] == true);

    page.open(&watched.url("/dead")).await?;
    press(&mut page, "Replay all").await?;
    page.until("document.querySelector('dialog[open]').innerText.includes('2 tasks are meant')")
        .await?;
    write(&mut page, "How fast", "10/s").await?;
    page.until("document.querySelector('dialog[open] .command').innerText.trim() === 'divvy dead replay --all --rate 10/s --yes'").await?;
    agree(&mut page).await?;
    page.until(&says("No dead letters")).await?;
    ensure!(api.get("dead").await?["items"] == json!([]));

    page.open(&watched.url("/lab?experiment=herd")).await?;
    press(&mut page, "Run").await?;
    page.until("document.querySelector('.drawing svg rect')?.getBBox().width > 0").await?;
    ensure!(
        page.complaints().iter().all(|one| one.contains("schedules/preview")),
        "{:#?}",
        page.complaints()
    );
    page.close().await?;
    watched.server.terminate()
}

#[tokio::test]
async fn a_page_stays_while_its_server_is_killed_and_comes_back() -> Result<()> {
    let mut watched = Watched::start()?;
    let gone = |number: u32| json!({ "kind": "fail", "payload": { "message": format!("gone {number}"), "verdict": "dead" } });
    let _worker = watched.worker("left")?;
    watched.submit(&[gone(1)]).await?;
    let counted = |count: u64| move |groups: &Value| groups["items"][0]["count"] == count;
    watched.api.wait_until("dead", "a dead letter", counted(1)).await?;
    let mut page = Browser::start().await?;
    page.open(&watched.url("/dead")).await?;
    page.until("document.querySelector('.group-count b')?.textContent === '1'").await?;
    page.until("document.querySelector('.live')?.innerText.includes('Live')").await?;
    page.value("window.stays = true").await?;

    watched.kill()?;
    page.until("document.querySelector('.live')?.innerText.includes('Reconnecting')").await?;
    watched.start_again()?;
    // What happens before the page is back is not told to it, and must be seen nevertheless.
    watched.submit(&[gone(2), gone(3)]).await?;
    page.until("document.querySelector('.live')?.innerText.includes('Live')").await?;
    watched.api.wait_until("dead", "three dead letters", counted(3)).await?;
    page.until("document.querySelector('.group-count b')?.textContent === '3'").await?;
    ensure!(page.value("window.stays").await? == true, "the page was loaded anew");
    page.close().await?;
    tokio::time::timeout(Duration::from_secs(60), async { watched.server.terminate() }).await?
}

#[tokio::test]
async fn who_may_only_read_is_offered_nothing_else() -> Result<()> {
    let (folder, port) = (tempfile::tempdir()?, free_port()?);
    let server = serve(&folder, port, &["--token", "open-sesame"])?;
    let client = reqwest::Client::new();
    let token = client
        .post(format!("http://127.0.0.1:{port}/api/v1/tokens"))
        .bearer_auth("open-sesame")
        .json(&json!({ "name": "looker", "scopes": ["read"] }))
        .send()
        .await?;
    let token: Value = token.json().await?;
    let secret = token["secret"].as_str().with_context(|| format!("no token: {token}"))?;
    let mut page = Browser::start().await?;
    for (secret, buttons) in [(secret, 0), ("open-sesame", 1)] {
        page.open(&format!("http://127.0.0.1:{port}/limits")).await?;
        page.click("#token").await?;
        page.write(secret).await?;
        page.click("button[type=submit]").await?;
        page.until(&says("No limit is set")).await?;
        let offers = "[...document.querySelectorAll('main button')].filter((one) => one.textContent.startsWith('New limit')).length";
        page.until(&format!("{offers} === {buttons}")).await?;
        page.click("header form button").await?;
        page.until("document.querySelector('#token')").await?;
    }
    page.close().await?;
    server.terminate()
}
