//! Names that a server knows, and which of them an argument takes.

use std::time::Duration;

use divvy::Client;
use divvy::api::Api;
use divvy_types::TaskId;
use divvy_workload::Listing;
use serde_json::Value;

use crate::config::{GlobalFlags, Settings};
use crate::output::ids::Shortener;
use crate::workloads::Workloads;

/// How long a server may take: somebody waits with a finger on the keyboard.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

const QUEUES: Listing = Listing::new("queues", "name");
const WORKERS: Listing = Listing::new("workers", "name");
const KINDS: Listing = Listing::new("workers", "kinds");
const LIMITS: Listing = Listing::new("limits", "name");
const SCHEDULES: Listing = Listing::new("schedules", "name");
const POOLS: Listing = Listing::new("pools", "name");
const TOKENS: Listing = Listing::new("tokens", "name");
const WORKFLOWS: Listing = Listing::new("workflows", "id");
const WORKFLOW_NAMES: Listing = Listing::new("workflows", "name");
const TASKS: Listing = Listing::new("tasks", "id");
const DEAD: Listing = TASKS.only("state", "dead");

/// Values of an argument that this binary knows by itself.
pub(super) fn known(path: &[&str], argument: &str) -> Vec<(String, String)> {
    match (path, argument) {
        (["alert", "silence"], "name") => {
            let rules = divvy_server::RULES.iter();
            return rules.map(|rule| (rule.name.to_owned(), rule.measures.to_owned())).collect();
        }
        (["lab", "run"], "names") => {}
        _ => return Vec::new(),
    }
    let all = divvy_lab::all().iter().map(|experiment| (experiment.name, experiment.summary));
    let all = all.chain([("all", "every experiment")]);
    all.map(|(name, about)| (name.to_owned(), about.to_owned())).collect()
}

/// The list that an argument takes its values from, if a server has one.
pub(super) fn list_of(path: &[&str], argument: &str, workloads: &Workloads) -> Option<Listing> {
    let command = path.first().copied().unwrap_or_default();
    if let Some(workload) = workloads.of_command(command) {
        return workload.listing(argument);
    }
    Some(match (command, argument) {
        ("queue", "name") | (_, "queue" | "queues") => QUEUES,
        ("worker", "name") | (_, "worker") => WORKERS,
        ("limit", "name") | (_, "limit" | "limits") => LIMITS,
        ("schedule", "name") => SCHEDULES,
        ("scale", "pool") => POOLS,
        ("token", "name") => TOKENS,
        ("workflow", "id") | (_, "workflow") => WORKFLOWS,
        ("workflow", "name") | (_, "workflow_name") => WORKFLOW_NAMES,
        ("dead", "ids") => DEAD,
        (_, "id" | "ids" | "tasks" | "after" | "optional_after") => TASKS,
        (_, "kind") => KINDS,
        _ => return None,
    })
}

/// The names in a list of the server that is meant, with what they stand for. None if it does not answer at once.
pub(super) fn ask(
    list: &Listing,
    given: &[(&str, String)],
    workloads: &Workloads,
) -> Vec<(String, String)> {
    let value = |name| given.iter().rev().find(|(id, _)| *id == name).map(|(_, value)| value);
    let flags = GlobalFlags {
        server: value("server").cloned().or_else(|| variable("DIVVY_SERVER")),
        token: value("token").cloned().or_else(|| variable("DIVVY_TOKEN")),
        ca: value("ca").cloned().or_else(|| variable("DIVVY_CA")).map(Into::into),
        color: None,
        config: value("config").cloned().or_else(|| variable("DIVVY_CONFIG")).map(Into::into),
    };
    let settings = Settings::load_for_client(&flags, workloads);
    let Some(target) = settings.ok().and_then(|(settings, _)| settings.target().ok()) else {
        return Vec::new();
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(client)) = (runtime, Client::new(target)) else { return Vec::new() };
    let rows = runtime.block_on(async {
        tokio::time::timeout(ANSWER_WITHIN, rows(client.api(), list)).await.ok().flatten()
    });
    let mut found: Vec<_> = rows.iter().flatten().flat_map(|row| names(row, list)).collect();
    if list.field == "id" {
        found = shortened(found);
    }
    found.sort();
    found.dedup_by(|one, other| one.0 == other.0);
    found
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

async fn rows(api: &Api, list: &Listing) -> Option<Vec<Value>> {
    let query: Vec<_> =
        list.query.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let page = api.get(&[list.path], &query).await.ok()?.rows().ok()?;
    let rows = page.items.iter().filter_map(|row| serde_json::from_str(row.get()).ok());
    Some(rows.collect())
}

/// The names in one row, and what else it says in a few words.
fn names(row: &Value, list: &Listing) -> Vec<(String, String)> {
    let about = ["kind", "name", "title", "state"].into_iter().filter(|field| *field != list.field);
    let about: Vec<&str> = about.filter_map(|field| row[field].as_str()).collect();
    let about = about.join(" ").replace(['\t', '\n'], " ");
    let text = |value: &Value| Some((value.as_str()?.to_owned(), about.clone()));
    match &row[list.field] {
        Value::Array(several) => several.iter().filter_map(text).collect(),
        one => text(one).into_iter().collect(),
    }
}

/// Ids of tasks and workflows in the form that lists show, and whole for those who type them from the start.
fn shortened(found: Vec<(String, String)>) -> Vec<(String, String)> {
    let ids: Vec<TaskId> = found.iter().filter_map(|(id, _)| id.parse().ok()).collect();
    let short = Shortener::new(ids);
    let both = |(id, about): (String, String)| {
        let end = id.parse().ok().map(|id| (short.short(id), about.clone()));
        end.into_iter().chain([(id, about)])
    };
    found.into_iter().flat_map(both).collect()
}
