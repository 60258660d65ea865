//! `divvy crawl export --format parquet`: where DuckDB is installed, the rows are those of the JSON lines, in columns that have
//! types; where it is not, the cure is told and nothing is left.
//!
//! DuckDB is the provider that `scripts/providers` has installed for this user.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::duckdb;
use divvy_e2e::process::{divvy, free_port, serve};
use divvy_e2e::web::{Web, worker};
use serde_json::Value;

/// Compares rows with lines, and says what the columns are.
const COMPARE: &str = r#"
import datetime, json, sys, duckdb
c = duckdb.connect()
rows = [json.loads(row) for (row,) in c.execute("""SELECT to_json(p)::VARCHAR FROM
    (SELECT * REPLACE (epoch_ms(fetched_at) AS fetched_at) FROM 'parquet/pages.parquet') p""").fetchall()]
lines = [json.loads(line) for line in open("lines/pages.jsonl")]
for line in lines:
    at = datetime.datetime.fromisoformat(line["fetched_at"])
    line["fetched_at"] = round(at.timestamp() * 1000)
    for flag in ("truncated", "rendered"):
        line.setdefault(flag, False)
    for link in line["links"]:
        link.setdefault("rel", None)
    for column in rows[0]:
        line.setdefault(column, None)
assert rows == lines, next((row, line) for row, line in zip(rows, lines) if row != line)
assert any(row["error"] for row in rows) or any(row["status"] != 200 for row in rows)
assert any(row["extracted"] for row in rows) and any(row["links"] for row in rows)
print(len(rows))
for column in c.execute("DESCRIBE SELECT * FROM 'parquet/pages.parquet'").fetchall():
    print(column[0], column[1])
"#;
const TYPES: [&str; 8] = [
    "url VARCHAR",
    "status SMALLINT",
    "fetched_at TIMESTAMP WITH TIME ZONE",
    "bytes BIGINT",
    "robots STRUCT(noindex BOOLEAN, nofollow BOOLEAN)",
    "links STRUCT(url VARCHAR, rel VARCHAR)[]",
    "depth INTEGER",
    "extracted MAP(VARCHAR, VARCHAR[])",
];

fn run(api: &Api, folder: &Path, arguments: &[&str], providers: Option<&Path>) -> Result<Output> {
    let mut command = divvy()?;
    command.args(["--server", api.url(), "--json", "crawl"]).args(arguments).current_dir(folder);
    Ok(command.envs(providers.map(|folder| ("DIVVY_PROVIDERS", folder))).output()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_has_the_rows_of_the_lines_in_columns_with_types() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let web = Web::start(&["--hosts", "20", "--pages", "6"])?;
    let (data, port) = (folder.path().join("data"), free_port()?);
    let api = Api::on(port);
    let _server = serve(&data, port)?;
    let _worker = worker(&api, &data, "w")?;
    let (url, resolve, network) = (web.text("url"), web.text("resolve"), web.text("allow_private"));
    let rules = ["--scope", "any", "--delay", "20ms", "--max-pages", "60", "--shards", "2"];
    let near = ["--resolve", resolve, "--allow-private", network, "--extract", "h=h1"];
    let start = [&["start", url, "--wait", "--format", "jsonl,graph"], &rules[..], &near].concat();
    let ended = run(&api, folder.path(), &start, None)?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let crawls: Value = api.get("crawls").await?;
    let id = crawls["items"][0]["id"].as_str().context("no id")?;

    for (to, format) in [("lines", "jsonl"), ("parquet", "parquet")] {
        let done = run(&api, folder.path(), &["export", id, to, "--format", format], None)?;
        ensure!(done.status.success(), "{to}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let names = |of: &str| -> Result<Vec<String>> {
        let entries = std::fs::read_dir(folder.path().join(of))?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    ensure!(names("lines")? == ["pages.jsonl"] && names("parquet")? == ["pages.parquet"]);
    let compared =
        Command::new(duckdb::python()?).args(["-c", COMPARE]).current_dir(&folder).output()?;
    ensure!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    let said = String::from_utf8(compared.stdout)?;
    // Sitemaps count as pages and have no line.
    let rows: usize = said.lines().next().context("no count")?.parse()?;
    ensure!(rows > 50, "{said}");
    for kind in TYPES {
        ensure!(said.lines().any(|line| line == kind), "{kind}: {said}");
    }

    // Nobody has installed it, and JSON lines are no Parquet.
    let nothing = tempfile::tempdir()?;
    for (to, format, expected) in [
        ("none", "parquet", "divvy flow provider install duckdb"),
        ("-", "parquet", "only JSON lines"),
    ] {
        let export = ["export", id, to, "--format", format];
        let refused = run(&api, folder.path(), &export, Some(nothing.path()))?;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        ensure!(!refused.status.success() && said.contains(expected), "{said}");
        ensure!(!folder.path().join(to).exists(), "{to} was begun");
    }
    Ok(())
}
