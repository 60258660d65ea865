//! One verb on all tasks that fit a filter: counted first, then asked about, then done in slices.

use std::collections::BTreeMap;

use anyhow::Result;
use divvy_types::{Select, TaskId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Context;
use super::filter::select;
use crate::args::bulk::TaskSelection;
use crate::confirm::confirm;
use crate::exit::Code;
use crate::output::ids::Shortener;
use crate::output::table::Table;
use crate::output::words;
use divvy::api::Api;

/// Tasks of one request.
const SLICE: u64 = 20_000;

/// A verb and its words.
pub(super) struct Verb {
    /// What the server calls it.
    pub(super) action: &'static str,
    /// What was done.
    pub(super) past: &'static str,
    /// Why, for a cancel.
    pub(super) reason: Option<String>,
    /// Which priority, for a reprioritise.
    pub(super) priority: Option<u8>,
}

/// Reasons that are told.
const REASONS_MAX: usize = 3;

#[derive(Deserialize)]
struct Left {
    why: String,
}

#[derive(Default, Deserialize)]
struct Report {
    matched: u64,
    done: u64,
    #[serde(default)]
    left: Vec<Left>,
    by_kind: BTreeMap<String, u64>,
    by_state: BTreeMap<String, u64>,
    sample: Vec<TaskId>,
    next: Option<String>,
}

impl Report {
    fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.done += other.done;
        for (sums, counts) in
            [(&mut self.by_kind, other.by_kind), (&mut self.by_state, other.by_state)]
        {
            for (name, count) in counts {
                *sums.entry(name).or_default() += count;
            }
        }
        if self.sample.is_empty() {
            self.sample = other.sample;
        }
        self.left.extend(other.left);
        self.left.truncate(REASONS_MAX);
        self.next = other.next;
    }
}

/// Does it, or says what it would do.
pub(super) async fn run(verb: &Verb, selection: &TaskSelection, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    if selection.dry_run || !selection.yes {
        let found = treat(&api, verb, selection, true, context).await?;
        let tasks = words::count(found.matched, "task");
        if selection.dry_run {
            if !output.is_json() {
                print(&found, context)?;
                output.data(format_args!("{tasks} would be {}", verb.past))?;
            }
            return Ok(Code::Done);
        }
        if found.matched > 0 {
            if !output.is_json() && !output.is_quiet() {
                print(&found, context)?;
            }
            confirm(&format!("{} {tasks}?", verb.action), &context.output)?;
        }
    }
    let report = treat(&api, verb, selection, false, context).await?;
    if !output.is_json() {
        let tasks = words::count(report.matched, "task");
        output.data(format_args!("{} of {tasks} {}", report.done, verb.past))?;
        for left in &report.left {
            output.note(format_args!("not {}: {}", verb.past, left.why));
        }
    }
    Ok(Code::Done)
}

/// Goes through all tasks that fit, slice by slice; with `--json` each answer is printed as it comes.
async fn treat(
    api: &Api,
    verb: &Verb,
    selection: &TaskSelection,
    dry_run: bool,
    context: &Context,
) -> Result<Report> {
    let shown = context.output.is_json() && dry_run == selection.dry_run;
    let filter = select(api, &selection.select, &selection.state).await?;
    let mut body = body(verb, selection, &filter, dry_run);
    let mut report = Report::default();
    loop {
        let left = selection.limit.map_or(SLICE, |limit| (limit - report.matched).min(SLICE));
        body.insert("limit".to_owned(), left.into());
        let reply = api.post(&["tasks", "bulk"], &body).await?;
        if shown {
            context.output.raw(reply.text())?;
        }
        report.add(reply.parse()?);
        let enough = selection.limit.is_some_and(|limit| report.matched >= limit);
        match &report.next {
            Some(next) if !enough => body.insert("after".to_owned(), next.as_str().into()),
            _ => return Ok(report),
        };
        if !dry_run {
            context.output.note(format_args!("{} {} so far", report.done, verb.past));
        }
    }
}

fn body(
    verb: &Verb,
    selection: &TaskSelection,
    filter: &Select,
    dry_run: bool,
) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("action".to_owned(), verb.action.into());
    body.insert("filter".to_owned(), json!(filter));
    body.insert("all".to_owned(), selection.all.into());
    body.insert("dry_run".to_owned(), dry_run.into());
    body.extend(verb.priority.map(|priority| ("priority".to_owned(), priority.into())));
    body.extend(verb.reason.as_ref().map(|why| ("reason".to_owned(), why.as_str().into())));
    body
}

/// What was found: by state and kind, and a few ids.
fn print(report: &Report, context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_quiet() {
        report.sample.iter().try_for_each(|id| output.data(id))?;
        return Ok(());
    }
    if report.matched == 0 {
        return Ok(());
    }
    let mut table = Table::new(&[">COUNT", "=WHAT", "NAME"]);
    for (what, counts) in [("state", &report.by_state), ("kind", &report.by_kind)] {
        for (name, count) in counts {
            let name = if name == "leased" { "running, or queued at a worker" } else { name };
            table.row([count.to_string().into(), what.into(), name.into()]);
        }
    }
    table.print(output)?;
    let short = Shortener::new(report.sample.iter().copied());
    let some: Vec<String> = report.sample.iter().take(3).map(|id| short.short(*id)).collect();
    output.data(format_args!("such as {}", some.join(" ")))?;
    Ok(())
}
