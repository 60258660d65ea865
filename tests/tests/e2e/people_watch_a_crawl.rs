//! People watch a crawl in a real browser while it goes: its page follows by itself, answers what they ask, does what they
//! want, and can be read by everybody, light and dark, on a desk and on a phone.

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::axe;
use divvy_e2e::browser::Browser;
use divvy_e2e::process::{free_port, serve};
use divvy_e2e::web::{Web, worker};
use serde_json::json;

/// The number of pages that the page tells.
const PAGES: &str =
    "Number(document.querySelector('#pages').textContent.replaceAll(/[^0-9]/g, ''))";

fn state_is(word: &str) -> String {
    format!("document.querySelector('#state')?.textContent === '{word}'")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_a_crawl_follows_it_and_everybody_can_read_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let web = Web::start(&["--hosts", "60", "--pages", "20"])?;
    let (data, port) = (folder.path().join("data"), free_port()?);
    let api = Api::on(port);
    let server = serve(&data, port)?;
    let _worker = worker(&api, &data, "crawler")?;
    let new = json!({
        "seeds": [web.text("url")],
        "rules": {
            "scope": "any", "delay_ms": 500, "shards": 2,
            "resolve": [web.text("resolve")], "allow_private": [web.text("allow_private")],
        },
    });
    let crawl = api.set(Method::POST, "crawls", &new).await?;
    let id = crawl["id"].as_str().context("no id")?;
    let (mut page, script) = (Browser::start().await?, axe::script()?);
    page.open(&format!("{}/crawls/{id}", api.url())).await?;

    // It follows by itself: what was loaded stays loaded, and its numbers grow.
    page.value("window.isSame = true").await?;
    page.until(&format!("{PAGES} > 0")).await?;
    let before = page.value(PAGES).await?;
    page.until(&format!("{PAGES} > {before} && window.isSame")).await?;
    for rows in ["#host-rows tr", "#shard-rows tr", "#tail li", "#statuses li", "#rules dt"] {
        page.until(&format!("document.querySelectorAll('{rows}').length > 1")).await?;
    }
    page.until("document.querySelector('#polite').textContent === '0 early'").await?;

    // It says why and why not.
    page.click("#url").await?;
    page.write(&format!("{}private/secret", web.text("url"))).await?;
    page.click("#ask button").await?;
    page.until("document.querySelector('#answer').textContent.includes('robots.txt')").await?;

    // It does what people want; a crawl that is paused stands still while it is looked at.
    page.click("#pause").await?;
    page.until(&state_is("Paused")).await?;
    page.until("document.querySelector('#pause').textContent === 'Resume'").await?;
    axe::looked_at(&mut page, &script, "the page of a crawl").await?;
    page.click("#pause").await?;
    page.until("document.querySelector('#pause').textContent === 'Pause'").await?;
    page.click("#stop").await?;
    page.until(&state_is("Stopped")).await?;

    page.open(&format!("{}/crawls", api.url())).await?;
    page.until("document.querySelector('#things').children.length === 1").await?;
    axe::looked_at(&mut page, &script, "the list of crawls").await?;
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    page.close().await?;
    server.terminate()
}
