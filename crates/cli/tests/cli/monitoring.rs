//! Figures for monitors: what there is stands in `docs/metrics.md`, a real Prometheus scrapes it, and what `contrib/` asks for
//! exists. With `DIVVY_DOCS=write` the page is written anew instead of compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::stack::{Folder, Guarded, Server, get, until};

/// What each label may be, and how many different values of it there can be.
const LABELS: &[(&str, &str, &str)] = &[
    ("band", "a band of priority of the crawler", "4"),
    ("key", "a key of a limit, such as a tenant", "1,000 limits and keys together"),
    ("limit", "the name of a limit", "1,000 limits and keys together"),
    ("name", "a rule of the alerts", "as many as there are rules"),
    ("pool", "a pool of workers", "1,000"),
    ("queue", "a queue; those beyond the first 1,000 are only in the totals", "1,000"),
    ("rule", "a rule that keeps links out of a crawl", "as many as there are rules"),
    ("state", "where a task, a host, a job or a video is", "7"),
    ("status", "the class of an HTTP status", "6"),
    ("version", "the version of the server", "1"),
    ("worker", "the name of a worker", "1,000"),
];

/// Labels of figures that a server without crawls, or one that has just started, has no samples of.
const UNSEEN: &[(&str, &str)] =
    &[("crawl_pages", "status"), ("crawl_links_refused", "rule"), ("video_videos", "state")];

/// A figure as a server tells it.
#[derive(Debug, Default)]
struct Figure {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    /// The names that a monitor asks for.
    series: BTreeSet<String>,
}

/// The figures of a page in the OpenMetrics text format.
fn figures(page: &str) -> BTreeMap<String, Figure> {
    let mut figures: BTreeMap<String, Figure> = BTreeMap::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            figures.entry(name.to_owned()).or_default().help =
                help.trim_end_matches('.').to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let figure = figures.entry(name.to_owned()).or_default();
            figure.kind = kind.to_owned();
            let ends: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            figure.series = ends.iter().map(|end| format!("{name}{end}")).collect();
        } else if let Some((series, labels)) =
            line.split_once('{').filter(|_| !line.starts_with('#'))
        {
            let figure =
                figures.values_mut().find(|figure| figure.series.contains(series)).unwrap();
            let labels = labels.rsplit_once('}').unwrap().0;
            let names = labels.split("\",").filter_map(|pair| pair.split_once('='));
            figure
                .labels
                .extend(names.map(|(name, _)| name.to_owned()).filter(|name| name != "le"));
        }
    }
    for (name, label) in UNSEEN {
        figures.get_mut(*name).unwrap().labels.insert((*label).to_owned());
    }
    figures
}

/// The page that people read.
fn contract(figures: &BTreeMap<String, Figure>) -> String {
    let mut text = "\
# Figures for monitors

`GET /metrics` has them in the OpenMetrics text format, which Prometheus reads. This page is made from what a server tells
(`DIVVY_DOCS=write cargo test -p divvy-cli monitoring`) and is a contract: a name, a type or a label changes only with a line
in the [changelog](../CHANGELOG.md). [The guide](guides/monitoring.md) tells what to look at first.

The name of a counter is asked for with `_total` behind it, a histogram with `_bucket`, `_sum` and `_count`. Durations are in
seconds. Counters begin at 0 when the server starts.

## Labels

Ids, payloads and errors of tasks are never labels. So the number of series that a server tells at a time is bounded.

| label | what it is | at most |
|---|---|---|
"
    .to_owned();
    for (label, what, most) in LABELS {
        writeln!(text, "| `{label}` | {what} | {most} |").unwrap();
    }
    let part = |name: &str| match name {
        name if name.starts_with("crawl_") => "Crawls",
        name if name.starts_with("flow_") => "Dataflow",
        name if name.starts_with("video_") => "Videos",
        _ => "The server",
    };
    for title in ["The server", "Crawls", "Dataflow", "Videos"] {
        write!(
            text,
            "\n## {title}\n\n| figure | type | labels | what it is |\n|---|---|---|---|\n"
        )
        .unwrap();
        for (name, figure) in figures.iter().filter(|(name, _)| part(name) == title) {
            let labels: Vec<String> =
                figure.labels.iter().map(|label| format!("`{label}`")).collect();
            let (kind, labels, help) = (&figure.kind, labels.join(", "), &figure.help);
            writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
    }
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// A server with a worker that did something, so that every label has a value.
fn busy() -> (Server, String) {
    let server = Server::start(Folder::new(), &["up", "--workers", "auto"]);
    server.run(&["limit", "set", "api", "--concurrency", "1"]).expect(0);
    server
        .run(&["submit", "sleep", "--payload", r#"{"ms": 600000}"#, "--limit", "api/acme"])
        .expect(0);
    server.run(&["submit", "noop", "--wait"]).expect(0);
    let address = server.address().to_owned();
    (server, address)
}

/// Names of figures in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| word.starts_with("divvy_")).map(ToOwned::to_owned).collect()
}

#[test]
fn every_figure_is_in_the_contract_and_what_contrib_names_exists() {
    let (_server, address) = busy();
    let found = figures(&get(&address, "/metrics").unwrap());
    for (name, figure) in &found {
        assert!(!figure.help.is_empty() && !figure.kind.is_empty(), "{name}: {figure:?}");
        for label in &figure.labels {
            assert!(
                LABELS.iter().any(|(known, ..)| known == label),
                "{name} has the unbounded label {label}"
            );
        }
    }
    let page = repository().join("docs/metrics.md");
    let text = contract(&found);
    if std::env::var("DIVVY_DOCS").is_ok_and(|wish| wish == "write") {
        std::fs::write(&page, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        kept == text,
        "docs/metrics.md is not what the server tells; write it anew: DIVVY_DOCS=write cargo test -p divvy-cli monitoring\n{text}"
    );
    let series: BTreeSet<&String> = found.values().flat_map(|figure| &figure.series).collect();
    for file in ["contrib/grafana/divvy.json", "contrib/prometheus/divvy.rules.yml"] {
        let names = named(&read(file));
        assert!(names.len() > 5, "{file} names {names:?}");
        for name in names {
            assert!(series.contains(&name), "{file} names {name}, which the server does not tell");
        }
    }
}

/// A real Prometheus that scrapes a server every second.
struct Prometheus {
    _process: Guarded,
    _folder: Folder,
    address: String,
}

impl Prometheus {
    fn start(server: &str) -> Self {
        let folder = Folder::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = read("contrib/prometheus/prometheus.yml");
        let config = config
            .replace("127.0.0.1:7171", server)
            .replace("15s", "1s\n  evaluation_interval: 1s");
        folder.write("prometheus.yml", &config);
        folder.write("divvy.rules.yml", &read("contrib/prometheus/divvy.rules.yml"));
        let address = format!("127.0.0.1:{port}");
        let process = Command::new("prometheus")
            .arg(format!("--web.listen-address={address}"))
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus is installed by scripts/prepare");
        Self { _process: Guarded(process), _folder: folder, address }
    }

    fn ask(&self, path: &str) -> Option<Value> {
        serde_json::from_str(&get(&self.address, path)?).ok()
    }

    /// What an expression gives now.
    fn query(&self, expression: &str) -> Vec<Value> {
        let escaped: String = expression.bytes().fold(String::new(), |mut text, byte| {
            write!(text, "%{byte:02X}").unwrap();
            text
        });
        let answer = self.ask(&format!("/api/v1/query?query={escaped}"));
        let answer = answer.unwrap_or_else(|| panic!("{expression} is refused"));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }
}

#[test]
fn a_real_prometheus_scrapes_a_server_and_understands_rules_and_dashboard() {
    let (_server, address) = busy();
    let prometheus = Prometheus::start(&address);
    until("Prometheus runs", || prometheus.ask("/api/v1/status/runtimeinfo"));
    until("the server is scraped", || {
        prometheus.query("up{job=\"divvy\"}").first().filter(|up| up["value"][1] == "1").cloned()
    });
    until("a figure has the value that the server told", || {
        let done = prometheus.query("divvy_tasks_finished_total");
        done.first().filter(|done| done["value"][1] == "1").cloned()
    });
    let dashboard: Value = serde_json::from_str(&read("contrib/grafana/divvy.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut empty = Vec::new();
    for target in targets {
        let expression = target["expr"].as_str().unwrap().replace("$job", "divvy");
        if prometheus.query(&expression).is_empty() {
            empty.push(expression);
        }
    }
    // Rates need two scrapes, and no alert should fire.
    empty
        .retain(|expression| !expression.contains("rate(") && !expression.contains("divvy_alert{"));
    assert_eq!(empty, Vec::<String>::new(), "these show nothing");
    let healthy = until("all rules were tried", || {
        let rules = prometheus.ask("/api/v1/rules")?;
        let groups = rules["data"]["groups"].as_array()?.clone();
        let all: Vec<Value> =
            groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
        all.iter().all(|rule| rule["health"] != "unknown").then_some(all)
    });
    assert!(healthy.len() >= 8 && healthy.iter().all(|rule| rule["health"] == "ok"), "{healthy:?}");
}
