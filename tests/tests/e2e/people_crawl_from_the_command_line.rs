//! `divvy crawl` as a person uses it, against the demo web: start, pause, resume, explain, export, and a server that is killed
//! in the middle.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{divvy, free_port, serve, serve_with};
use divvy_e2e::web::{Web, worker};
use serde_json::Value;

fn run(api: &Api, arguments: &[&str]) -> Result<Output> {
    Ok(divvy()?.args(["--server", api.url(), "--json", "crawl"]).args(arguments).output()?)
}

fn json(api: &Api, arguments: &[&str]) -> Result<Value> {
    let output = run(api, arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("no output")?;
    Ok(serde_json::from_str(line)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crawl_is_started_paused_explained_and_exported_and_survives_its_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let web = Web::start(&["--hosts", "60", "--pages", "8"])?;
    let (data, port) = (folder.path().join("data"), free_port()?);
    let api = Api::on(port);
    let mut server = serve(&data, port)?;
    let _worker = worker(&api, &data, "w")?;
    let (url, resolve, network) = (web.text("url"), web.text("resolve"), web.text("allow_private"));
    check_nobody_crawls_elsewhere_without_a_name(&api)?;
    let crawl = json(
        &api,
        &[
            "start",
            url,
            "--scope",
            "any",
            "--delay",
            "100ms",
            "--retry-wait",
            "1s",
            "--max-pages",
            "400",
            "--format",
            "jsonl,warc,graph",
            "--resolve",
            resolve,
            "--allow-private",
            network,
            "--shards",
            "3",
        ],
    )?;
    let id = crawl["id"].as_str().context("no id")?.to_owned();
    let path = format!("crawls/{id}");
    let pages = |crawl: &Value| crawl["totals"]["pages"].as_u64().unwrap_or(0);
    api.wait_until(&path, "the first pages", |crawl| pages(crawl) > 30).await?;
    json(&api, &["pause", &id[..6]])?;
    api.wait_until(&path, "a pause", |crawl| {
        crawl["state"] == "paused"
            && crawl["shards"]
                .as_array()
                .is_some_and(|all| all.iter().all(|one| one["state"] == "paused"))
    })
    .await?;
    let told = json(&api, &["explain", &id, &format!("{url}private/secret")])?;
    ensure!(told["fetched"] == false && told["rule"] == "robots", "{told}");
    let told = json(&api, &["explain", &id, url])?;
    ensure!(told["rule"] == "done", "{told}");
    check_blocking(&api, &id, url).await?;
    server.kill_nine()?;
    let mut command = divvy()?;
    command.arg("serve").arg("--data").arg(&data);
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--json"]);
    let _server = serve_with(&mut command)?;
    json(&api, &["resume", &id])?;
    let ended = json(&api, &["status", &id, "--wait"])?;
    ensure!(ended["state"] == "done" && pages(&ended) == 400, "{ended}");
    ensure!(ended["totals"]["impolite"] == 0, "{ended}");
    check_export(&api, &id, folder.path())?;
    let refused = run(&api, &["pause", &id])?;
    ensure!(!refused.status.success(), "a crawl that has ended cannot be paused");
    Ok(())
}

fn check_nobody_crawls_elsewhere_without_a_name(api: &Api) -> Result<()> {
    let refused = run(api, &["start", "https://example.org"])?;
    let said = String::from_utf8(refused.stderr)?;
    ensure!(!refused.status.success() && said.contains("--user-agent"), "{said}");
    Ok(())
}

/// A host is left alone and asked again. A name without its port means the host at every port.
async fn check_blocking(api: &Api, id: &str, url: &str) -> Result<()> {
    let path = format!("crawls/{id}");
    // A name without its port means the host at every port.
    let parked = |crawl: &Value| crawl["waiting"]["hosts_parked"].as_u64();
    json(api, &["block", id, "portal.test"])?;
    api.wait_until(&path, "a host left alone", |crawl| parked(crawl) == Some(1)).await?;
    let told = json(api, &["explain", id, &format!("{url}other")])?;
    ensure!(told["rule"] == "blocked", "{told}");
    json(api, &["block", id, "portal.test", "--undo"])?;
    api.wait_until(&path, "the host asked again", |crawl| parked(crawl) == Some(0)).await?;
    Ok(())
}

/// What was found is written whole, and nothing that robots.txt forbids is in it.
fn check_export(api: &Api, id: &str, folder: &Path) -> Result<()> {
    let out = folder.join("out");
    json(api, &["export", id, &out.display().to_string()])?;
    let lines = std::fs::read_to_string(out.join("pages.jsonl"))?;
    let mut urls: Vec<String> = Vec::new();
    for line in lines.lines() {
        let page: Value = serde_json::from_str(line)?;
        urls.push(page["url"].as_str().context("no url")?.to_owned());
    }
    ensure!(urls.len() >= 390, "{} pages were written", urls.len());
    // Hosts without a robots.txt, such as site0003, allow everything.
    let forbidden = ["portal.test", "site0001.test", "site0002.test"];
    let is_forbidden =
        |url: &String| url.contains("/private/") && forbidden.iter().any(|host| url.contains(host));
    ensure!(!urls.iter().any(is_forbidden), "robots.txt forbids it");
    ensure!(std::fs::read_to_string(out.join("links.tsv"))?.lines().count() > 400);
    let mut archived = 0;
    for shard in 0..3 {
        archived += check_archive(&out.join(format!("shard-{shard}/pages-00000.warc.gz")))?;
    }
    ensure!(archived >= 390, "{archived} answers were archived");
    Ok(())
}

/// How many answers are in an archive of pages, by the word of another program, which checks every digest too.
fn check_archive(path: &Path) -> Result<usize> {
    let warcio = tool("warcio")?;
    let checked = Command::new(&warcio).arg("check").arg(path).output()?;
    ensure!(checked.status.success(), "{}: {checked:?}", path.display());
    let listed = Command::new(&warcio).args(["index", "-f", "warc-type"]).arg(path).output()?;
    ensure!(listed.status.success(), "{}: {listed:?}", path.display());
    let text = String::from_utf8(listed.stdout)?;
    let responses = text.lines().filter(|line| line.contains("\"response\"")).count();
    let indexed = Command::new(tool("python3")?).args(["-c", READ_BY_INDEX]).arg(path).output()?;
    ensure!(indexed.status.success(), "{}: {indexed:?}", path.display());
    let indexed = String::from_utf8(indexed.stdout)?;
    ensure!(indexed.trim() == responses.to_string(), "{indexed} of {responses} are in the index");
    Ok(responses)
}

/// Reads each answer from where the index says that it is, by the same library, and the request after it; says how many.
const READ_BY_INDEX: &str = r#"
import io, sys
from warcio.archiveiterator import ArchiveIterator
archive = open(sys.argv[1], 'rb').read()
lines = open(sys.argv[1].replace('.warc.gz', '.cdx')).read().splitlines()
assert lines[0] == ' CDX N b a m s k r M S V g', lines[0]
for line in lines[1:]:
    _, date, url, _, status, digest, _, _, length, offset, name = line.split(' ')
    start, end = int(offset), int(offset) + int(length)
    assert sys.argv[1].endswith('/' + name), line
    records = ArchiveIterator(io.BytesIO(archive[start:end]), check_digests='raise')
    record = next(records)
    record.content_stream().read()
    said = record.rec_headers.get_header
    assert record.rec_type == 'response' and said('WARC-Target-URI') == url, line
    assert said('WARC-Payload-Digest') == 'sha1:' + digest, line
    assert ''.join(c for c in said('WARC-Date')[:19] if c.isdigit()) == date, line
    assert record.http_headers.get_statuscode() == status, line
    assert said('WARC-Protocol') == 'http/1.1', line
    assert next(records, None) is None, 'more than one record: ' + line
    request = next(ArchiveIterator(io.BytesIO(archive[end:])))
    assert request.rec_type == 'request', line
    asked = request.http_headers.get_header
    assert asked('host') in url and asked('user-agent') and 'gzip' in asked('accept-encoding'), line
print(len(lines) - 1)
"#;

/// A program of the test tools.
fn tool(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os("DIVVY_TEST_TOOLS") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir().context("no home folder")?.join(".cache/divvy-test/tools"),
    };
    let path = folder.join("venv/bin").join(name);
    ensure!(path.exists(), "there is no {}; scripts/test-tools installs it", path.display());
    Ok(path)
}
