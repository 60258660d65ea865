//! People use the pages of the library in a real browser, on a real `divvy up` with the real ffmpeg: they send a file,
//! see it being made, watch it, and have the last word on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::browser::Browser;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use divvy_e2e::video::{clip, ended, slow_ffmpeg};
use serde_json::{Value, json};
use tempfile::TempDir;

const VIDEO: &str = "document.querySelector('#video')";

/// A server with a worker.
struct Site {
    api: Api,
    folder: TempDir,
    server: Process,
}

impl Site {
    fn up(folder: TempDir, more: &[&str]) -> Result<Self> {
        let port = free_port()?;
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "up", "--json", "--workers", "1"]);
        command.args(["--slots", "process=2", "--data"]).arg(folder.path().join("data"));
        command.args(["--listen", &format!("127.0.0.1:{port}")]).args(more);
        Ok(Self { api: Api::on(port), server: serve_with(&mut command)?, folder })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.api.url())
    }

    /// Whether workers get the tasks of videos.
    async fn let_run(&self, wanted: bool) -> Result<()> {
        let action = if wanted { "resume" } else { "pause" };
        self.api.set(Method::POST, &format!("queues/video/{action}"), &json!({})).await?;
        Ok(())
    }

    async fn videos(&self) -> Result<Vec<Value>> {
        let list = self.api.get("videos").await?;
        list["items"].as_array().cloned().with_context(|| format!("no list: {list}"))
    }

    /// The one video that there is.
    async fn only_video(&self) -> Result<Value> {
        let [video] = <[Value; 1]>::try_from(self.videos().await?)
            .map_err(|videos| anyhow::anyhow!("one video expected: {videos:?}"))?;
        Ok(video)
    }

    async fn stop(self, page: Browser) -> Result<()> {
        page.close().await?;
        self.server.terminate()
    }
}

/// Chooses an entry of one of the menus of the player, with the mouse.
async fn choose(page: &mut Browser, menu: &str, entry: &str) -> Result<()> {
    page.click(&format!("[data-menu={menu}] > button")).await?;
    let item = format!(
        "[...document.querySelectorAll('[data-menu={menu}] [role=menuitemradio]')].find((item) => item.textContent === '{entry}')"
    );
    page.until(&item).await?;
    // The entries may be drawn anew at any time; what they choose stays the same.
    let choice = page.value(&format!("{item}.dataset.choice")).await?;
    page.click(&format!("[data-menu={menu}] [data-choice={choice}]")).await?;
    let checked =
        format!("document.querySelector('[data-menu={menu}] [aria-checked=true]')?.textContent");
    page.until(&format!("{checked} === '{entry}'")).await
}

/// Answers the question that the page asks before it does something.
async fn answer(page: &mut Browser, button: &str, yes: bool) -> Result<()> {
    page.click(button).await?;
    page.until("document.querySelector('#ask').open").await?;
    page.click(if yes { "#ask [value=yes]" } else { "#ask [value=no]" }).await
}

fn state_is(word: &str) -> String {
    format!("document.querySelector('#state')?.textContent === '{word}'")
}

#[tokio::test]
async fn a_file_that_is_dropped_is_sent_and_made_and_plays_by_itself() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // So slow that the page has something to tell before the video is there.
    let slow = slow_ffmpeg(folder.path(), "1")?;
    let site = Site::up(folder, &["--ffmpeg", &slow])?;
    let file = clip(site.folder.path(), "holiday.mp4", "320x180", 4)?;
    // Nothing is made before someone looks.
    site.let_run(false).await?;
    let mut page = Browser::start().await?;
    page.open(&site.url("/videos")).await?;
    page.until("document.querySelector('#empty')?.hidden === false").await?;
    page.limit_uploads(Some(100_000)).await?;
    page.drop_file("#drop", &file).await?;
    let sent = "Number(document.querySelector('#uploads [role=progressbar]')?.getAttribute('aria-valuenow'))";
    page.until(&format!("{sent} > 0 && {sent} < 100")).await?;
    page.limit_uploads(None).await?;
    page.until("document.querySelector('.video[data-state=processing]')").await?;
    page.until("document.querySelector('#uploads').children.length === 0").await?;
    page.until("document.querySelector('.video .note').textContent === 'waiting for a worker'")
        .await?;

    page.click(".video").await?;
    page.until("document.querySelector('#curtain-title')?.textContent === 'Processing · 0 %'")
        .await?;
    page.value("window.told = []; new MutationObserver(() => told.push(document.querySelector('#curtain-title').textContent)).observe(document.querySelector('#curtain-title'), { childList: true })").await?;
    site.let_run(true).await?;
    page.until(&format!("{VIDEO}.currentTime > 0.2")).await?;
    page.until(&state_is("Ready")).await?;
    let told = page.value("told.filter((text) => /^Processing · [1-9]/.test(text)).length").await?;
    ensure!(told.as_u64() > Some(0), "no progress was shown: {}", page.value("told").await?);
    let video = site.only_video().await?;
    ensure!(video["title"] == "holiday" && video["state"] == "ready", "{video}");
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    site.stop(page).await
}

#[tokio::test]
async fn an_upload_goes_on_after_a_reload_and_its_video_is_cancelled_and_removed() -> Result<()> {
    let site = Site::up(tempfile::tempdir()?, &[])?;
    let file = clip(site.folder.path(), "long talk.mp4", "640x360", 4)?;
    site.let_run(false).await?;
    let mut page = Browser::start().await?;
    page.open(&site.url("/videos")).await?;
    page.click("#options summary").await?;
    page.click("#scan").await?;
    page.limit_uploads(Some(150_000)).await?;
    page.choose_file("#file", &file).await?;
    let sent = "Number(document.querySelector('#uploads [role=progressbar]')?.getAttribute('aria-valuenow'))";
    page.until(&format!("{sent} > 25")).await?;
    page.reload().await?;
    ensure!(page.dialogs() == ["beforeunload"], "nobody asked: {:?}", page.dialogs());
    page.until("document.querySelector('.broken')?.innerText.includes('choose the file again')")
        .await?;
    ensure!(site.videos().await?.is_empty(), "half a file became a video");

    page.limit_uploads(None).await?;
    page.choose_file("#file", &file).await?;
    page.until("document.querySelector('.video[data-state=processing]')").await?;
    page.until("document.querySelector('#uploads').children.length === 0").await?;
    ensure!(begun(&page) == 1, "the upload began anew: {:#?}", page.requests());
    ensure!(page.requests().iter().any(|request| offset(request) > 0), "it began at 0 again");
    let video = site.only_video().await?;
    ensure!(video["recipe"]["scan"] == true, "the options were forgotten: {video}");
    let source = video["source"]["id"].as_str().context("no source")?;
    let stored = reqwest::get(site.url(&format!("/api/v1/blobs/{source}"))).await?.bytes().await?;
    ensure!(stored[..] == std::fs::read(&file)?[..], "the file is not what was sent");

    page.click(".video").await?;
    answer(&mut page, "#cancel", false).await?;
    ensure!(site.only_video().await?["state"] == "processing", "a no was taken for a yes");
    answer(&mut page, "#cancel", true).await?;
    page.until(&state_is("Cancelled")).await?;
    ensure!(site.only_video().await?["state"] == "cancelled");
    page.click("#again").await?;
    page.until(&state_is("Processing")).await?;
    ensure!(site.only_video().await?["state"] == "processing");
    answer(&mut page, "#cancel", true).await?;
    answer(&mut page, "#remove", true).await?;
    page.until("document.querySelector('#empty')?.hidden === false").await?;
    ensure!(site.videos().await?.is_empty());
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    site.stop(page).await
}

/// How many uploads were begun.
fn begun(page: &Browser) -> usize {
    let begins = |request: &&Value| {
        let url = request["url"].as_str().unwrap_or_default();
        request["method"] == "POST" && url.ends_with("/api/v1/uploads")
    };
    page.requests().iter().filter(begins).count()
}

/// Where a request goes on with an upload; 0 for others.
fn offset(request: &Value) -> u64 {
    request["headers"]["Upload-Offset"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A clip of six seconds whose sound is in two languages.
fn clip_in_two_languages(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("two.mkv");
    let tone = |hertz: u32| format!("sine=frequency={hertz}:sample_rate=48000:duration=6");
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i"])
        .args(["testsrc2=size=320x180:rate=15:duration=6", "-f", "lavfi", "-i", &tone(440)])
        .args(["-f", "lavfi", "-i", &tone(880), "-map", "0", "-map", "1", "-map", "2"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac"])
        .args(["-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu"])
        .arg(&path)
        .status()?;
    ensure!(status.success(), "ffmpeg could not make the clip: {status}");
    Ok(path)
}

/// Programs that write one subtitle, and that flag every picture; the flags that offer them.
fn providers(folder: &Path) -> Result<[String; 4]> {
    let speech = "read -r line\necho '{\"provider\":\"ear\",\"version\":\"1\",\"model\":\"a\"}'\ncase \"$line\" in *transcribe*) echo '{\"start_ms\":0,\"end_ms\":6000,\"text\":\"Good morning\"}';; esac\necho '{\"done\":true}'\n";
    let scan = "read -r line\necho '{\"provider\":\"eye\",\"version\":\"1\",\"model\":\"a\"}'\nprintf '%s' \"$line\" | grep -o '\"at_ms\":[0-9]*' | while read -r at; do echo \"{$at,\\\"label\\\":\\\"any\\\",\\\"score\\\":0.97}\"; done\necho '{\"done\":true}'\n";
    let (ear, eye) = (folder.join("speech.sh"), folder.join("scan.sh"));
    std::fs::write(&ear, speech)?;
    std::fs::write(&eye, scan)?;
    let run = |path: &Path| format!("exec:/bin/sh {}", path.display());
    Ok(["--speech".to_owned(), run(&ear), "--scanner".to_owned(), run(&eye)])
}

#[tokio::test]
async fn the_controls_do_what_they_say_and_a_person_approves() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let flags = providers(folder.path())?;
    let site = Site::up(folder, &flags.each_ref().map(String::as_str))?;
    let source =
        divvy_e2e::video::upload(&site.api, &clip_in_two_languages(site.folder.path())?).await?;
    let recipe =
        json!({ "ladder": [180, 90], "preset": "ultrafast", "subtitles": "en", "scan": true });
    let added = divvy_e2e::video::add(&site.api, &source, &recipe).await?;
    let id = added["video"]["id"].as_str().context("no id")?.to_owned();
    let video = ended(&site.api, &id).await?;
    ensure!(video["state"] == "needs_review", "{video}");

    let mut page = Browser::start().await?;
    page.open(&site.url(&format!("/videos/{id}"))).await?;
    page.until(&format!("{VIDEO}.readyState >= 1")).await?;
    page.value(&format!("{VIDEO}.loop = true")).await?;
    page.click("#big-play").await?;
    page.until(&format!("{VIDEO}.currentTime > 0.2 && !{VIDEO}.paused")).await?;

    choose(&mut page, "quality", "90p").await?;
    page.until(&format!("{VIDEO}.videoWidth === 160")).await?;
    let german =
        |request: &Value| request["url"].as_str().is_some_and(|url| url.contains("/a/1_de/"));
    ensure!(!page.requests().iter().any(german), "German was loaded before it was wanted");
    choose(&mut page, "audio", "German").await?;
    page.until("performance.getEntriesByType('resource').some((entry) => /a\\/1_de\\/.*m4s$/.test(entry.name) && entry.responseStatus === 200)").await?;
    choose(&mut page, "subtitles", "English").await?;
    page.until("document.querySelector('#captions').textContent === 'Good morning'").await?;
    choose(&mut page, "subtitles", "Off").await?;
    page.until("document.querySelector('#captions').textContent === ''").await?;
    choose(&mut page, "speed", "1.5×").await?;
    page.until(&format!("{VIDEO}.playbackRate === 1.5")).await?;

    use_keys(&mut page).await?;

    page.click("#approve").await?;
    page.until(&state_is("Ready")).await?;
    page.until("document.querySelector('#banner').hidden && document.querySelector('#facts').innerText.includes('flagged, approved')").await?;
    ensure!(site.only_video().await?["state"] == "ready");
    ensure!(page.complaints().is_empty(), "{:#?}", page.complaints());
    site.stop(page).await
}

/// Full screen by button and key, and what the other keys do. The mouse was just used: keys mean the player all the same.
async fn use_keys(page: &mut Browser) -> Result<()> {
    page.press(" ").await?;
    page.until(&format!("{VIDEO}.paused")).await?;
    page.click("#fullscreen").await?;
    page.until("document.fullscreenElement?.id === 'frame'").await?;
    page.press("f").await?;
    page.until("!document.fullscreenElement").await?;
    page.press("f").await?;
    page.until("document.fullscreenElement?.id === 'frame'").await?;
    page.press("f").await?;
    page.until("!document.fullscreenElement").await?;
    page.value(&format!("{VIDEO}.currentTime = 0.5")).await?;
    page.press("ArrowRight").await?;
    page.until(&format!("Math.abs({VIDEO}.currentTime - 5.5) < 0.1")).await?;
    page.press("ArrowLeft").await?;
    page.until(&format!("Math.abs({VIDEO}.currentTime - 0.5) < 0.1")).await?;
    page.press("ArrowDown").await?;
    page.until(&format!("Math.abs({VIDEO}.volume - 0.9) < 0.01")).await?;
    page.press("ArrowUp").await?;
    page.until(&format!("{VIDEO}.volume > 0.99")).await?;
    page.press("m").await?;
    page.until(&format!("{VIDEO}.muted")).await?;
    page.click("#mute").await?;
    page.until(&format!("!{VIDEO}.muted")).await?;
    page.press("c").await?;
    page.until("document.querySelector('[data-menu=subtitles] > button').matches('.on')").await?;
    page.press(" ").await?;
    page.until(&format!("!{VIDEO}.paused")).await
}

#[tokio::test]
async fn whoever_signs_in_finds_all_pages_and_the_way_out() -> Result<()> {
    let (folder, port) = (tempfile::tempdir()?, free_port()?);
    let mut command = divvy()?;
    command.args(["--config", "/dev/null", "--token", "open-sesame", "serve", "--json", "--data"]);
    command.arg(folder.path()).args(["--listen", &format!("127.0.0.1:{port}")]);
    let server = serve_with(&mut command)?;
    let mut page = Browser::start().await?;
    let library = format!("http://127.0.0.1:{port}/videos");
    page.open(&library).await?;
    page.click("#token").await?;
    page.write("open-sesame").await?;
    page.click("button[type=submit]").await?;
    page.until("document.querySelector('#empty')?.hidden === false").await?;
    page.click("nav a[href='/']").await?;
    page.until("document.querySelector('h1')?.textContent === 'Overview'").await?;
    page.click("nav a[href='/videos']").await?;
    page.until("document.querySelector('#grid') && location.pathname === '/videos'").await?;
    page.click("header form button").await?;
    page.until("document.querySelector('#token')").await?;
    page.open(&library).await?;
    page.until("document.querySelector('#token') && !document.querySelector('#grid')").await?;
    page.close().await?;
    server.terminate()
}
