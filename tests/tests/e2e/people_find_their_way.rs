//! People find their way on the dashboard in a real browser: with keys, filters and links; what they point at stays where it
//! is; and they act on many tasks, or on a workflow, at once.

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::browser::Browser;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use serde_json::{Value, json};
use tempfile::TempDir;

const ROWS: &str = "document.querySelectorAll('tr[data-row]').length";

fn serve(folder: &TempDir, port: u16) -> Result<Process> {
    let mut command = divvy()?;
    command.args(["--config", "/dev/null", "serve", "--json", "--data"]);
    command.arg(folder.path().join("data")).args(["--listen", &format!("127.0.0.1:{port}")]);
    serve_with(&mut command)
}

async fn submit(api: &Api, tasks: &[Value]) -> Result<()> {
    let (status, answer) = api.submit(tasks).await?;
    ensure!(status == 201, "{status} {answer}");
    Ok(())
}

fn waiting(queue: &str, count: usize) -> Vec<Value> {
    vec![json!({ "kind": "noop", "queue": queue }); count]
}

/// Presses the first button that says this.
async fn press(page: &mut Browser, words: &str) -> Result<()> {
    let all = "[...document.querySelectorAll('main button:enabled')]";
    let find = format!("{all}.find((one) => one.textContent.trim() === {})", json!(words));
    page.until(&find).await?;
    page.value(&format!("{find}.id = 'to-press'; 0")).await?;
    page.click("#to-press").await?;
    page.value("document.querySelector('#to-press')?.removeAttribute('id'); 0").await?;
    Ok(())
}

/// What the open question says, once it is asked.
async fn question(page: &mut Browser) -> Result<String> {
    page.until("document.querySelector('dialog[open] [type=submit]:enabled')").await?;
    let text = page.value("document.querySelector('dialog[open]').innerText").await?;
    text.as_str().map(str::to_owned).context("the question has no text")
}

async fn agree(page: &mut Browser) -> Result<()> {
    page.click("dialog[open] [type=submit]").await?;
    page.until("!document.querySelector('dialog[open]')").await
}

#[tokio::test]
async fn keys_and_filters_lead_on_and_nothing_moves_under_the_pointer() -> Result<()> {
    let (folder, port) = (tempfile::tempdir()?, free_port()?);
    let server = serve(&folder, port)?;
    let api = Api::on(port);
    submit(&api, &waiting("mail", 3)).await?;
    submit(&api, &waiting("slow", 2)).await?;
    let mut page = Browser::start().await?;
    page.resize(1280, 900).await?;
    page.open(&format!("http://127.0.0.1:{port}/tasks")).await?;
    page.until(&format!("{ROWS} === 5")).await?;

    let first = "document.querySelector('tr[data-row] .mono').textContent";
    page.hover("tr[data-row]", 0.5).await?;
    let pointed_at = page.value(first).await?;
    submit(&api, &waiting("mail", 2)).await?;
    page.until("document.querySelector('.table-news')?.textContent.startsWith('2 new rows')")
        .await?;
    ensure!(page.value(first).await? == pointed_at && page.value(ROWS).await? == 5, "a row moved");
    page.hover("h1", 0.5).await?;
    page.until(&format!("{ROWS} === 7 && !document.querySelector('.table-news')")).await?;

    page.press("/").await?;
    page.until("document.activeElement.matches('[data-search]')").await?;
    page.write("queue:slow").await?;
    page.press("Enter").await?;
    page.until(&format!("location.search === '?queue=slow' && {ROWS} === 2")).await?;
    page.value("document.activeElement.blur(); history.back(); 0").await?;
    page.until(&format!("location.search === '' && {ROWS} === 7")).await?;

    for key in ["g", "q"] {
        page.press(key).await?;
    }
    page.until(&format!("location.pathname === '/queues' && {ROWS} === 2")).await?;
    page.until("document.querySelector('nav [aria-current]').textContent === 'Queues'").await?;
    for key in ["j", "j", "Enter"] {
        page.press(key).await?;
    }
    page.until("location.pathname === '/queues/slow'").await?;
    page.press("p").await?;
    page.until("document.querySelector('.live').innerText.includes('Paused')").await?;
    page.press("p").await?;
    page.until("document.querySelector('.live').innerText.includes('Live')").await?;
    page.press("?").await?;
    page.until("document.querySelector('dialog[open] h2')?.textContent === 'Keys'").await?;
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    page.close().await?;
    server.terminate()
}

#[tokio::test]
async fn a_workflow_is_watched_and_resumed_and_many_tasks_are_put_back() -> Result<()> {
    let (folder, port) = (tempfile::tempdir()?, free_port()?);
    let server = serve(&folder, port)?;
    let api = Api::on(port);
    let id = uuid::Uuid::now_v7().to_string();
    let bad = uuid::Uuid::now_v7().to_string();
    let workflow = json!({ "id": id, "name": "publish" });
    let part = json!({ "kind": "noop", "group": "parts", "workflow": workflow });
    let mut tasks = vec![part; 12];
    let dead = json!({ "message": "no such customer", "verdict": "dead" });
    tasks.push(json!({ "id": bad, "kind": "fail", "payload": dead, "workflow": workflow }));
    tasks.push(json!({ "kind": "noop", "after": [bad], "workflow": workflow }));
    submit(&api, &tasks).await?;
    let mut page = Browser::start().await?;
    page.resize(1280, 900).await?;
    page.open(&format!("http://127.0.0.1:{port}/workflows/{id}")).await?;
    let node = "document.querySelector('.dag-node.is-folded')?.textContent";
    page.until(&format!("{node}?.includes('0/12 done')")).await?;

    // The drawing follows what a worker does.
    let mut command = divvy()?;
    command.args(["--config", "/dev/null", "--server", api.url(), "work", "--name", "left"]);
    command.args(["--no-video", "--no-crawl", "--no-flow"]);
    let worker = Process::start(&mut command)?;
    page.until(&format!("{node}?.includes('12/12 done')")).await?;
    page.until("document.querySelector('.title-line .chip')?.textContent === 'failed'").await?;
    page.until("document.querySelector('.dag-node.is-dead')").await?;
    worker.terminate()?;
    page.click(".dag-node.is-folded").await?;
    page.until("document.querySelectorAll('.dag-node').length === 14").await?;
    press(&mut page, "Waterfall").await?;
    page.until("document.querySelectorAll('.waterfall li').length === 14").await?;
    ensure!(page.value("location.search").await? == "?view=waterfall");

    press(&mut page, "Retry failed and resume").await?;
    let asked = question(&mut page).await?;
    ensure!(asked.contains(&format!("divvy workflow resume {id}")), "{asked}");
    agree(&mut page).await?;
    page.until("document.querySelector('.title-line .chip')?.textContent === 'open'").await?;

    page.open(&format!("http://127.0.0.1:{port}/tasks?kind=noop&state=blocked")).await?;
    page.until(&format!("{ROWS} === 1")).await?;
    press(&mut page, "Reprioritise").await?;
    let asked = question(&mut page).await?;
    let twin = "divvy task reprioritise --priority 5 --kind noop --state blocked";
    ensure!(asked.contains("1 task") && asked.contains(twin), "{asked}");
    agree(&mut page).await?;
    let changed = |list: &Value| list["items"][0]["priority"] == 5;
    api.wait_until("tasks?state=blocked", "the new priority", changed).await?;
    press(&mut page, "Cancel").await?;
    ensure!(question(&mut page).await?.contains("Cancel 1 task?"));
    agree(&mut page).await?;
    let cancelled = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
    api.wait_until("tasks?state=blocked", "nothing that is blocked", cancelled).await?;
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    page.close().await?;
    server.terminate()
}
