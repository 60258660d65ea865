//! `divvy flow aggregate` on Parquet: where DuckDB is installed the result is that of the same rows as CSV, and what is
//! wrong with a file is told; where it is not, the cure is.
//!
//! DuckDB is the provider that `scripts/providers` has installed for this user.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::duckdb;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use serde_json::Value;

/// All words whose answers do not depend on how rows are divided.
const AGG: &str = "count, count(t), sum(x), sum(h), min(x), max(h), min(d), distinct(t), p50(x), \
    p99(h), top(2,b), top(3,g), histogram(x)";
/// Twenty row groups of rows with numbers, text, dates and nothing, and files that are wrong.
const MAKE: &str = r#"
import duckdb
c = duckdb.connect()
c.execute("""CREATE TABLE t AS SELECT 'k' || (i % 7) AS k, i AS x, i * 0.25::DOUBLE AS h,
    CASE WHEN i % 5 = 0 THEN NULL ELSE 'a, "b" ' || (i % 11) END AS t, DATE '2024-02-27' + (i % 4)::INT AS d,
    i % 3 = 0 AS b, (i % 4) * 1e20 AS g, {'deep': i} AS s, [i] AS l FROM range(41000) r(i)""")
c.execute("COPY t TO 'rows.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
c.execute("COPY (SELECT * EXCLUDE (s, l) FROM t) TO 'rows.csv' (HEADER)")
c.execute("COPY (SELECT 'two' || chr(10) || 'lines' AS k, 1 AS x) TO 'lines[1].parquet' (FORMAT parquet)")
c.execute("""COPY (SELECT CASE WHEN i = 5000 THEN 'five' ELSE i::VARCHAR END AS x FROM range(9000) r(i))
    TO 'word.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)""")
whole = open("rows.parquet", "rb").read()
open("cut.parquet", "wb").write(whole[:len(whole) // 2])
open("hole.parquet", "wb").write(whole[:5000] + bytes(30000) + whole[35000:])
"#;

struct Place {
    _server: Process,
    api: Api,
    folder: tempfile::TempDir,
}

impl Place {
    /// A server with a worker that finds the providers of this folder, or those of this user.
    async fn up(providers: Option<&Path>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "up", "--json", "--workers", "1", "--no-video"]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--data"]);
        command.arg(folder.path().join("data")).current_dir(folder.path());
        command.envs(providers.map(|folder| ("DIVVY_PROVIDERS", folder)));
        let server = serve_with(command.stderr(Stdio::null()))?;
        let api = Api::on(port);
        let is_there = |page: &Value| page["items"][0]["capabilities"].to_string().contains("flow");
        api.wait_until("workers", "a worker", is_there).await?;
        Ok(Self { _server: server, api, folder })
    }

    /// Runs an aggregation and waits for it; whether it went well, and all that was told.
    fn aggregate(&self, words: &[&str]) -> Result<(bool, String)> {
        let mut command = divvy()?;
        command.args(["--server", self.api.url(), "flow", "aggregate"]).args(words);
        let output = command.current_dir(self.folder.path()).output()?;
        let told = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
    }

    /// What an aggregation that works has written.
    fn result(&self, input: &str, words: &[&str]) -> Result<String> {
        let out = format!("{input}.out");
        let (went_well, told) = self.aggregate(
            &[&["--input", input, "--out", &out, "--partitions", "3"], words].concat(),
        )?;
        ensure!(went_well, "{told}");
        let mut parts: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(self.folder.path().join(out))? {
            parts.push(entry?.path());
        }
        parts.retain(|path| path.to_string_lossy().contains("part-"));
        parts.sort();
        let texts = parts.iter().map(std::fs::read_to_string).collect::<Result<Vec<_>, _>>()?;
        Ok(texts.concat())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_gives_what_the_same_rows_give_as_csv() -> Result<()> {
    let place = Place::up(None).await?;
    let made =
        Command::new(duckdb::python()?).args(["-c", MAKE]).current_dir(&place.folder).status()?;
    ensure!(made.success());
    let words = ["--group-by", "k,b", "--agg", AGG, "--split", "150kB"];
    let expected = place.result("rows.csv", &words)?;
    ensure!(expected.lines().count() == 15, "{expected}");
    ensure!(place.result("rows.parquet", &words)? == expected, "Parquet differs from CSV");
    let jobs: Value = place.api.get("flows").await?;
    let partial = &jobs["items"][0]["stages"][0];
    ensure!(partial["parts"].as_u64() > Some(2) && partial["rows_in"] == 41_000, "{partial}");
    // Signs of patterns in a name, and line ends in text.
    let whole = place.result("lines[1].parquet", &["--group-by", "k", "--agg", "sum(x)"])?;
    ensure!(whole == "k,sum(x)\n\"two\nlines\",1\n", "{whole}");

    for (input, column, expected) in [
        (
            "rows.parquet",
            "nowhere",
            "rows.parquet: there is no column `nowhere`; the file has k, x",
        ),
        ("rows.parquet", "s", "rows.parquet: column `s` is nested (STRUCT(deep BIGINT))"),
        ("rows.parquet", "l", "rows.parquet: column `l` is nested (BIGINT[])"),
        ("cut.parquet", "x", "cut.parquet: it is no whole Parquet file"),
        ("hole.parquet", "t", "hole.parquet: it is no whole Parquet file"),
        ("word.parquet", "x", "word.parquet:5001: column x is `five`, not a number"),
    ] {
        let words = ["--input", input, "--agg", &format!("sum({column})"), "--wait"];
        let (went_well, told) = place.aggregate(&words)?;
        ensure!(!went_well && told.contains(expected), "{input}, {column}: {told}");
    }
    let words = ["--input", "word.parquet", "--agg", "sum(x)", "--on-error", "skip", "--wait"];
    let (went_well, told) = place.aggregate(&words)?;
    ensure!(went_well && told.contains("word.parquet:5001"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_duckdb_the_cure_is_told() -> Result<()> {
    let nothing = tempfile::tempdir()?;
    let place = Place::up(Some(nothing.path())).await?;
    std::fs::write(place.folder.path().join("a.parquet"), "PAR1")?;
    let words = ["--input", "a.parquet", "--agg", "count"];
    let (went_well, told) = place.aggregate(&words)?;
    ensure!(!went_well && told.contains("divvy flow provider install duckdb"), "{told}");
    let doctor = divvy()?.arg("doctor").env("DIVVY_PROVIDERS", nothing.path()).output()?;
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(told.contains("divvy flow provider install duckdb"), "{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_waits_for_duckdb_says_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, port) = (folder.path().join("data"), free_port()?);
    std::fs::write(folder.path().join("a.parquet"), "PAR1")?;
    let _server = divvy_e2e::process::serve(&data, port)?;
    let api = Api::on(port);
    let mut start = divvy()?;
    start.args(["--server", api.url(), "--json", "flow", "aggregate", "--agg", "count"]);
    start.args(["--input", "a.parquet"]).current_dir(folder.path());
    let started = start.output()?;
    ensure!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let job: Value = serde_json::from_slice(&started.stdout)?;
    let id = job["id"].as_str().context("no id")?;
    // A worker comes that has none.
    let mut work = divvy()?;
    work.args(["--server", api.url(), "work", "--no-video", "--objects"]).arg(data.join("objects"));
    work.env("DIVVY_PROVIDERS", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let _worker = Process::start(&mut work)?;
    let cure = "divvy flow provider install duckdb";
    let says_it = |job: &Value| job["stages"][0]["notes"].to_string().contains(cure);
    api.wait_until(&format!("flows/{id}"), "the reason of the wait", says_it).await?;
    let explained: Value = api.get(&format!("flows/{id}/explain")).await?;
    let lines = explained["lines"].as_array().context("no lines")?;
    let waits = |line: &Value| line.to_string().contains("no worker has duckdb");
    ensure!(lines.iter().any(waits), "{explained}");
    Ok(())
}
