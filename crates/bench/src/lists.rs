//! Lists of tasks over a large store: how long one page takes, by what it asks for.
//!
//! Most tasks have ended over three days and lie in the files of those days; the others wait, or are dead letters. Each
//! list is asked for over HTTP, one after the other, on a server that does nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use divvy::api::Api;
use divvy_console::output::Output;
use divvy_console::output::table::Table;
use divvy_store::sqlite::{Options, SqliteStore};
use divvy_store::{Maintenance, Store as _};
use divvy_types::view::Page;
use divvy_types::{
    ErrorClass, Fact, Name, Payload, Seq, TaskError, TaskSpec, TaskState, Timestamp, Token,
    Workflow, WorkflowId, WorkflowRole,
};
use divvy_workload::private::{Place, Process};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::store_only::now;
use crate::submitter;

/// Tasks per commit while the store is filled.
const GROUP: u64 = 10_000;
const DAY_US: u64 = 86_400_000_000;
/// The time over which the tasks were submitted.
const SPAN_US: u64 = 3 * DAY_US;
/// What a list may take.
const TARGET_P95_MS: f64 = 50.0;

/// How many tasks, and how often each list is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tasks in the store
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    tasks: u64,
    /// Pages of each list
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    #[command(flatten)]
    place: Place,
}

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    tasks: u64,
    target_p95_ms: f64,
    /// Of the list that takes longest.
    worst_p95_ms: f64,
    lists: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    list: &'static str,
    p50_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    /// Rows of the first page.
    rows: usize,
    /// Whether the first page ends because enough was looked at.
    partial: bool,
}

/// Measures.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    let data = folder.path().join("data");
    output.note(format_args!("writing {} tasks …", args.tasks));
    let (filled, tasks) = (data.clone(), args.tasks);
    let began = tokio::task::spawn_blocking(move || fill(&filled, tasks)).await??;
    let (_server, url) = Process::server(&data)?;
    let api = Api::new(&url)?;
    let mut lists = Vec::new();
    for (list, query) in questions(began) {
        output.note(format_args!("listing: {list} …"));
        lists.push(measure(&api, list, &query, args.rounds).await?);
    }
    let worst_p95_ms = lists.iter().map(|row| row.p95_ms).fold(0.0, f64::max);
    Ok(Figures { tasks, target_p95_ms: TARGET_P95_MS, worst_p95_ms, lists })
}

type Query = Vec<(&'static str, String)>;

/// What is asked for. The store is as [`facts_of`] fills it, from the time `began` on.
fn questions(began: Timestamp) -> Vec<(&'static str, Query)> {
    let at = |part: u64| Timestamp(began.0 + SPAN_US / 1_000 * part).to_string();
    let query = |pairs: &[(&'static str, &str)]| -> Query {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    };
    vec![
        ("all", query(&[])),
        ("deep pages of all", query(&[("limit", "100"), DEEP])),
        ("state=done", query(&[("state", "done")])),
        ("state=dead", query(&[("state", "dead")])),
        ("state=ready", query(&[("state", "ready")])),
        ("state=leased, of which there is none", query(&[("state", "leased")])),
        ("kind=needle, one task", query(&[("kind", "needle")])),
        ("kind=needle and ready, none", query(&[("kind", "needle"), ("state", "ready")])),
        ("kind=mail.*", query(&[("kind", "mail.*")])),
        ("queue and state", query(&[("queue", "queue-3"), ("state", "cancelled")])),
        ("a tag of one in a thousand", query(&[("tag", "rare")])),
        ("a tag and a kind, none", query(&[("tag", "rare"), ("kind", "needle")])),
        ("worker", query(&[("worker", "worker-7")])),
        ("a worker with one task", query(&[("worker", "worker-once")])),
        ("a time window", query(&[("since", &at(300)), ("until", &at(301))])),
        ("a time window of ends", query(&[("ended_since", &at(300)), ("ended_until", &at(301))])),
        ("older than the oldest", query(&[("until", &at(0))])),
        ("workflow", query(&[("workflow", &WorkflowId(7).to_string())])),
        ("deep pages of a tag", query(&[("tag", "rare"), ("limit", "10"), DEEP])),
        ("error class", query(&[("class", "timeout")])),
        ("error text of many", query(&[("error", "status 503")])),
        ("error text of old ones only", query(&[("error", "the one and only")])),
    ]
}

/// Stands for following `next` from page to page.
const DEEP: (&str, &str) = ("after", "");

async fn measure(api: &Api, list: &'static str, query: &Query, rounds: u32) -> anyhow::Result<Row> {
    let deep = query.iter().any(|(name, _)| *name == DEEP.0);
    let plain: Query = query.iter().filter(|(name, _)| *name != DEEP.0).cloned().collect();
    let mut times = Histogram::<u64>::new(3)?;
    let (mut first, mut after) = (None, None);
    // The first page opens files.
    for round in 0..=rounds {
        let mut query: Vec<(&str, String)> = plain.clone();
        query.extend(after.take().map(|next| ("after", next)));
        let started = Instant::now();
        let page: Page<serde_json::Value> = api.get(&["tasks"], &query).await?.parse()?;
        let took = started.elapsed();
        if round > 0 {
            times.record(took.as_micros() as u64)?;
        }
        after = page.next.clone().filter(|_| deep);
        first.get_or_insert((page.items.len(), page.partial));
    }
    let (rows, partial) = first.context("no page was asked for")?;
    let ms = |part: f64| times.value_at_quantile(part) as f64 / 1e3;
    Ok(Row { list, p50_ms: ms(0.5), p95_ms: ms(0.95), max_ms: ms(1.0), rows, partial })
}

/// Fills a store, lets it move what has ended, and says when the first task was submitted.
fn fill(dir: &Path, tasks: u64) -> anyhow::Result<Timestamp> {
    let mut store = SqliteStore::open(dir, Options::default())?;
    store.recover(&mut |_| {})?;
    let end = now();
    let began = Timestamp(end.0.saturating_sub(SPAN_US));
    let mut verdicts = Vec::new();
    let mut first = 0;
    while first < tasks {
        let count = GROUP.min(tasks - first);
        let mut facts = Vec::new();
        for (number, spec) in (first..).zip(submitter::specs(count, "noop")) {
            let at = Timestamp(began.0 + SPAN_US / tasks * number);
            facts_of(number, tasks, spec, at, &mut facts);
        }
        store.commit(&facts, &mut verdicts)?;
        first += count;
    }
    while store.maintain(end, end)? == Maintenance::More {}
    Ok(began)
}

/// A task, and how it ended: of a hundred, fifty-seven are done, two are cancelled, one is dead, and forty wait.
fn facts_of(number: u64, tasks: u64, mut spec: TaskSpec, at: Timestamp, facts: &mut Vec<Fact>) {
    const KINDS: [&str; 7] =
        ["noop", "mail.send", "mail.read", "video.encode", "video.probe", "report", "sync"];
    // Anything that is not a pattern of the numbers themselves.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let oldest = number == tasks / 20;
    spec.kind = if oldest { "needle" } else { KINDS[(mixed % 7) as usize] }.into();
    spec.queue = format!("queue-{}", mixed / 7 % 5).into();
    let tag = if mixed % 1_000 == 3 { Some("rare".into()) } else { None };
    spec.tags = tag.into_iter().chain(mixed.is_multiple_of(3).then(|| "blue".into())).collect();
    if number % 100 < 10 {
        let id = WorkflowId(1 + u128::from(number / 10_000));
        let (name, role) = (format!("flow-{}", number / 10_000).into(), WorkflowRole::Member);
        spec.workflow = Some(Box::new(Workflow { id, name, role }));
    }
    let (seq, spec) = (Seq(number + 1), Arc::new(spec));
    facts.push(Fact::Submitted { seq, at, spec, spawned_by: None, spilled: None });
    let worker: Name =
        if oldest { "worker-once".into() } else { format!("worker-{}", mixed % 20).into() };
    let (token, at) = (Token::new(1, number + 1), at.plus_ms(1_000));
    let state = match mixed / 35 % 100 {
        _ if oldest => TaskState::Done,
        0..57 => TaskState::Done,
        57..59 => TaskState::Cancelled,
        59 => TaskState::Dead,
        _ => return,
    };
    facts.push(match state {
        TaskState::Done => {
            let result = Payload::null();
            Fact::Finished { seq, token, at, worker, result, log: None }
        }
        TaskState::Cancelled => {
            Fact::Cancelled { seq, at, reason: Name::const_new("no longer wanted"), spilled: None }
        }
        _ => {
            let class =
                if mixed.is_multiple_of(2) { ErrorClass::Timeout } else { ErrorClass::Failed };
            let text =
                if number < tasks / 50 { "the one and only" } else { "status 503 from the host" };
            Fact::Dead { seq, token, at, worker, error: TaskError::new(class, text), log: None }
        }
    });
}

impl Figures {
    /// Prints them for people.
    pub(crate) fn print(&self, output: &Output) -> anyhow::Result<()> {
        let mut table = Table::new(&["=LIST", ">P50 MS", ">P95 MS", ">MAX MS", ">ROWS", "PARTIAL"]);
        for row in &self.lists {
            table.row([
                row.list.into(),
                format!("{:.1}", row.p50_ms).into(),
                format!("{:.1}", row.p95_ms).into(),
                format!("{:.1}", row.max_ms).into(),
                row.rows.to_string().into(),
                if row.partial { "yes" } else { "no" }.into(),
            ]);
        }
        table.print(output)?;
        output.data("")?;
        output.data(format_args!("{:<36} {:>12}", "worst_p95_ms", self.worst_p95_ms))?;
        output.data(format_args!("{:<36} {:>12}", "target_p95_ms", self.target_p95_ms))?;
        Ok(())
    }
}
