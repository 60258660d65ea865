//! Streams that go on as a person uses them: their results are there while they go on, they are stopped with what they have
//! read, and what is fed to them through a pipe or from the server's own events ends as its person wants.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::axe;
use divvy_e2e::browser::Browser;
use divvy_e2e::flow::Place;
use divvy_e2e::process::binary;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A command that feeds a stream; ended with the test.
struct Feeder(Child);

impl Feeder {
    fn start(command: &mut Command) -> Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(piped.spawn()?))
    }

    /// The id of its flow, which it prints first.
    fn flow(&mut self) -> Result<String> {
        let stdout = self.0.stdout.as_mut().context("no output")?;
        let mut id = [0; 13];
        stdout.read_exact(&mut id)?;
        Ok(std::str::from_utf8(&id)?.trim().to_owned())
    }

    fn say(&mut self, text: &str) -> Result<()> {
        let stdin = self.0.stdin.as_mut().context("no input")?;
        stdin.write_all(text.as_bytes())?;
        Ok(stdin.flush()?)
    }

    /// Presses Ctrl-C.
    fn interrupt(&self) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGINT)?)
    }

    /// How it ends, and what it has said for people.
    fn end(mut self) -> Result<(ExitStatus, String)> {
        let mut told = String::new();
        self.0.stderr.take().context("no errors")?.read_to_string(&mut told)?;
        Ok((self.0.wait()?, told))
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One event each second from this one on.
fn events(from: u64, count: u64) -> String {
    (from..from + count).map(|nth| format!("{{\"at\":{}}}\n", nth * 1_000)).collect()
}

/// How many events the windows of a result hold.
fn counts(result: &str) -> Result<Vec<u64>> {
    let count = |line: &str| {
        let row: Value = serde_json::from_str(line)?;
        row["count"].as_u64().context("no count")
    };
    result.lines().map(count).collect()
}

/// Waits until a stream has read so many events, or more.
async fn read(place: &Place, id: &str, events: u64) -> Result<Value> {
    let has_read = |flow: &Value| flow["stages"][0]["stream"]["events"].as_u64() >= Some(events);
    place.api.wait_until(&format!("flows/{id}"), "events that were read", has_read).await
}

async fn done(place: &Place, id: &str) -> Result<Value> {
    let path = format!("flows/{id}");
    place.api.wait_until(&path, "the end", |flow| flow["state"] == "done").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_goes_on_shows_its_results_and_is_stopped_with_them() -> Result<()> {
    let place = Place::up()?;
    place.write("events.jsonl", &events(0, 97))?;
    let stream =
        ["-q", "flow", "stream", "--source", "events.jsonl", "--follow", "--window", "10s"];
    let id = place.good(&stream)?.trim().to_owned();
    let flow = read(&place, &id, 97).await?;
    let figures = &flow["stages"][0]["stream"];
    ensure!(
        *figures
            == json!({"events": 97, "late": 0, "windows_open": 1, "watermark_ms": 96_000, "lag_ms": 0}),
        "{flow}"
    );
    let so_far = place.good(&["flow", "output", &id[..6]])?;
    ensure!(counts(&so_far)? == [10; 9], "{so_far}");
    place.good(&["flow", "output", &id, "--out", "so-far"])?;
    ensure!(std::fs::read_to_string(place.path().join("so-far/part-00000"))? == so_far);
    let listed = place.api.get(&format!("flows/{id}/output")).await?;
    ensure!(listed["rows"] == 9 && listed["files"][0]["xxh3"] == "", "{listed}");
    let metrics = reqwest::get(format!("{}/metrics", place.api.url())).await?.text().await?;
    ensure!(metrics.contains("flow_windows_open 1"), "{metrics}");

    let mut page = Browser::start().await?;
    page.open(&format!("{}/flows/{id}", place.api.url())).await?;
    let text = |of: &str| format!("document.getElementById('{of}').textContent");
    page.until(&format!("{}.includes('1 window open')", text("watermark-note"))).await?;
    page.until(&format!("{}.includes('9 rows')", text("files"))).await?;
    page.until(&format!("{} === '97'", text("input"))).await?;
    ensure!(page.value(&text("state")).await? == "Running");
    axe::agrees(&mut page, &axe::script()?, "the page of a stream").await?;
    page.click("#stop").await?;
    page.until(&format!("{} === 'Done'", text("state"))).await?;
    page.until(&format!("{}.includes('10 rows')", text("files"))).await?;
    ensure!(page.value("document.getElementById('stop').hidden").await? == json!(true));
    ensure!(page.complaints().is_empty(), "{:?}", page.complaints());
    page.close().await?;

    done(&place, &id).await?;
    let all = place.good(&["flow", "output", &id])?;
    ensure!(all.starts_with(&so_far) && counts(&all)?[9..] == [7], "{all}");
    let told = place.bad(&["flow", "stop", &id])?;
    ensure!(told.contains("ended already"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_a_pipe_do_not_wait_and_ctrl_c_ends_the_feed() -> Result<()> {
    let place = Place::up()?;
    for more in [&[][..], &["--wait"]] {
        let stream = ["-q", "flow", "stream", "--source", "-", "--window", "10s"];
        let mut feeder = Feeder::start(&mut place.command(&[&stream[..], more].concat())?)?;
        let id = feeder.flow()?;
        feeder.say(&events(0, 3))?;
        read(&place, &id, 3).await?;
        // These come soon after a segment, and nothing comes after them but half of a line.
        feeder.say(&events(3, 9))?;
        feeder.say("{\"at\":")?;
        read(&place, &id, 12).await?;
        feeder.interrupt()?;
        let (status, told) = feeder.end()?;
        ensure!(status.code() == Some(130), "{status} {told}");
        ensure!(told.contains("the feed has ended") && told.contains(&id), "{told}");
        done(&place, &id).await?;
        let result = place.good(&["flow", "output", &id])?;
        ensure!(counts(&result)? == [10, 2], "{result}");
    }
    // One that is ended from elsewhere needs no feed any more.
    let stream = ["flow", "stream", "--source", "-", "--window", "10s"];
    let mut feeder = Feeder::start(&mut place.command(&stream)?)?;
    let id = feeder.flow()?;
    place.good(&["flow", "cancel", &id])?;
    let (status, told) = feeder.end()?;
    ensure!(!status.success() && told.contains("is cancelled: the feed ends"), "{told}");
    // A pipe that ends is the end of the stream, and of the command that waits for it.
    let stream = ["flow", "stream", "--source", "-", "--window", "10s", "--out", "windows"];
    let mut feeder = Feeder::start(&mut place.command(&stream)?)?;
    feeder.say(events(0, 25).trim_end())?;
    drop(feeder.0.stdin.take());
    let (status, told) = feeder.end()?;
    ensure!(status.success(), "{told}");
    let result = std::fs::read_to_string(place.path().join("windows/part-00000"))?;
    ensure!(counts(&result)? == [10, 10, 5], "{result}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_tasks_are_a_stream_until_ctrl_c() -> Result<()> {
    let place = Place::up()?;
    let stream = ["-q", "flow", "stream", "--source", "events", "--window", "1h"];
    let stream = [&stream[..], &["--group-by", "kind", "--agg", "count"]].concat();
    let mut feeder = Feeder::start(&mut place.command(&stream)?)?;
    let id = feeder.flow()?;
    // Changes are told from when the feed listens on, so there are some until one is told.
    let spool = || -> Result<bool> {
        let entries = std::fs::read_dir(place.path())?.flatten();
        let is_spool = |name: &str| name.starts_with("divvy-stream-");
        let mut spools = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_spool));
        let texts = spools.find_map(|spool| std::fs::read_dir(spool.path()).ok());
        let mut texts = texts.into_iter().flatten().flatten();
        Ok(texts.any(|file| {
            std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains("counted"))
        }))
    };
    while !spool()? {
        let (status, answer) = place.api.submit(&[json!({ "kind": "counted" })]).await?;
        ensure!(status < 300, "{answer}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    feeder.interrupt()?;
    let (_, told) = feeder.end()?;
    ensure!(told.contains("the feed has ended"), "{told}");
    done(&place, &id).await?;
    let result = place.good(&["flow", "output", &id])?;
    ensure!(result.contains("\"kind\":\"counted\""), "{result}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_waits_for_a_stream_that_has_enough_to_do() -> Result<()> {
    const SEGMENTS_MAX: usize = 16;
    const LINES: u64 = 1_000;
    let place = Place::without_workers()?;
    let stream = ["-q", "flow", "stream", "--source", "-", "--spool", "spool", "--window", "1h"];
    let mut feeder = Feeder::start(&mut place.command(&stream)?)?;
    let id = feeder.flow()?;
    let mut pipe = feeder.0.stdin.take().context("no input")?;
    // More than so many segments of four megabytes, and what is on the way to them.
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let text = "x".repeat(100_000);
        (0..LINES).try_for_each(|nth| writeln!(pipe, "{{\"at\":{nth},\"text\":\"{text}\"}}"))
    });
    let spool = place.path().join("spool");
    let segments = || std::fs::read_dir(&spool).map_or(0, Iterator::count);
    let is_full = |_: &Value| segments() >= SEGMENTS_MAX;
    place.api.wait_until(&format!("flows/{id}"), "a full spool", is_full).await?;
    // Nothing tells that somebody waits, so it is looked at for a while.
    let looks = std::cell::Cell::new(0);
    let is_over = |_: &Value| looks.replace(looks.get() + 1) > 50 || segments() > SEGMENTS_MAX;
    place.api.wait_until(&format!("flows/{id}"), "some looks", is_over).await?;
    ensure!(!writer.is_finished() && segments() <= SEGMENTS_MAX);
    let _worker = place.worker("one")?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let (status, told) = feeder.end()?;
    ensure!(status.success(), "{told}");
    done(&place, &id).await?;
    ensure!(counts(&place.good(&["flow", "output", &id])?)? == [LINES]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_whose_disk_is_full_ends_with_a_failure_and_the_cure() -> Result<()> {
    let place = Place::up()?;
    std::fs::create_dir(place.path().join("spool"))?;
    let namespaces: &[&str] = if nix::unistd::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let script = "mount -t tmpfs -o size=1m tmpfs spool && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", script, "sh"]).arg(binary()?);
    command.args(["--server", place.api.url(), "flow", "stream", "--source", "-", "--wait"]);
    command.args(["--window", "10s", "--spool", "spool"]).current_dir(place.path());
    let mut feeder = Feeder::start(&mut command)?;
    let text = "x".repeat(100_000);
    let lines: String =
        (0..50).map(|nth| format!("{{\"at\":{nth},\"text\":\"{text}\"}}\n")).collect();
    // It may end before it has read all of them.
    let _ = feeder.say(&lines);
    let (status, told) = feeder.end()?;
    ensure!(!status.success() && told.contains("No space left on device"), "{told}");
    ensure!(told.contains("divvy flow stop"), "{told}");
    Ok(())
}
