//! What a running server knows: when items came, which tasks each meant, and what it has learnt of run times.
//!
//! An item is a workflow, or a task that belongs to none. Run times are those that the connected workers have shown.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use divvy::api::{Api, parse_rows};
use divvy_lab::plan::fit::{Sample, Seen};
use divvy_lab::plan::input::{PerHour, Stage};
use divvy_lab::plan::{fit, history};
use divvy_types::view::{TaskDetail, TaskSummary, TierView, WorkerView, WorkflowSummary};
use divvy_types::{Name, TaskId, TaskState, Timestamp};

use crate::exit::Failure;

/// Rows of the history that are looked at, newest first.
const ROWS_MAX: usize = 200_000;
/// Rows that are asked for at once.
const PAGE: usize = 1_000;
/// Workflows whose tasks are looked at.
const WORKFLOWS_MAX: usize = 20;
/// Kinds that a worker runs so many times as many of at once as of others do not wait for the slots that those wait for.
const WIDE: u32 = 8;

/// What came, and what it consists of.
pub(crate) struct Past {
    pub(crate) per_hour: PerHour,
    /// How many items were counted.
    pub(crate) items: usize,
    workflows: Vec<WorkflowSummary>,
    kinds: Vec<Name>,
}

/// A task that is done.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) id: TaskId,
    pub(crate) kind: Name,
    pub(crate) seconds: f64,
}

/// Asks when items of this name came.
pub(crate) async fn ask(api: &Api, name: &str) -> Result<Past> {
    let workflows: Vec<WorkflowSummary> = rows(api, "workflows", "name", name).await?;
    let mut times: Vec<Timestamp> = workflows.iter().map(|workflow| workflow.started_at).collect();
    let mut kinds: Vec<Name> = Vec::new();
    if workflows.is_empty() {
        let tasks: Vec<TaskSummary> = rows(api, "tasks", "kind", name).await?;
        let alone = tasks.iter().filter(|task| task.workflow.is_none());
        times.extend(alone.clone().map(|task| task.submitted_at));
        kinds = alone.map(|task| task.kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
    }
    let seconds: Vec<f64> = times.iter().map(|at| at.0 as f64 / 1e6).collect();
    let Some(per_hour) = history::per_hour(&seconds) else {
        let what =
            if name == "*" { "nothing".to_owned() } else { format!("nothing named `{name}`") };
        let message = format!("the history of {} is empty: {what} has come yet", api.server());
        return Err(Failure::usage(message)
            .cure(
                "write arrivals.per_hour into the plan, or name workflows or a kind that there are",
            )
            .into());
    };
    Ok(Past { per_hour, items: times.len(), workflows, kinds })
}

/// What an item costs, by the run times that the server has learnt.
pub(crate) async fn stages(api: &Api, past: &Past) -> Result<Vec<Stage>> {
    let workers = workers(api).await?;
    let learnt = learnt(&workers);
    let mut samples = Vec::new();
    let ended = past.workflows.iter().filter(|workflow| workflow.open == 0 && workflow.failed == 0);
    for workflow in ended.take(WORKFLOWS_MAX) {
        let id = workflow.id.to_string();
        let tasks: Vec<TaskSummary> = rows(api, "tasks", "workflow", &id).await?;
        let done = tasks.into_iter().filter(|task| task.state == TaskState::Done);
        let ran = done.map(|task| {
            let seconds = seconds_of(&learnt, &task.kind)?;
            Ok(Ran { id: task.id, kind: task.kind, seconds })
        });
        samples.push(sample(api, 1.0, &ran.collect::<Result<Vec<Ran>>>()?).await?);
    }
    for kind in &past.kinds {
        // Tasks of other kinds are other items: one in so many is of this kind, which their mean stands for.
        let seen = Seen { seconds: vec![seconds_of(&learnt, kind)?], ..Seen::default() };
        samples.push(Sample { size_gb: 1.0, stages: [(Name::from("task"), seen)].into() });
    }
    if samples.is_empty() {
        let message =
            format!("no item at {} has ended yet, so none says what it takes", api.server());
        return Err(Failure::usage(message)
            .cure("write stages into the plan, or measure them with --calibrate FILE")
            .into());
    }
    mark_light(&mut samples, &workers);
    Ok(fit::stages(&samples))
}

/// The connected workers.
pub(crate) async fn workers(api: &Api) -> Result<Vec<WorkerView>> {
    Ok(parse_rows(&api.all(&["workers"]).await?)?)
}

/// Marks the stages whose tasks take no slot: those of the widest tiers of workers, beside narrow ones that the items
/// need too. Of items that need wide tiers only, these are what is scarce.
pub(crate) fn mark_light(samples: &mut [Sample], workers: &[WorkerView]) {
    let needed: BTreeSet<Name> =
        samples.iter().flat_map(|sample| sample.stages.keys().cloned()).collect();
    let (mut wide, mut narrow) = (BTreeSet::new(), BTreeSet::new());
    for worker in workers {
        let of = |tier: &TierView| -> Vec<Name> {
            tier.kinds.iter().filter(|kind| needed.contains(*kind)).cloned().collect()
        };
        let tiers: Vec<(Vec<Name>, u32)> = worker
            .tiers
            .iter()
            .map(|tier| (of(tier), tier.slots))
            .filter(|(kinds, _)| !kinds.is_empty())
            .collect();
        let least = tiers.iter().map(|(_, slots)| *slots).min().unwrap_or(0);
        for (kinds, slots) in tiers {
            let is_wide = slots >= least.saturating_mul(WIDE);
            if is_wide { wide.extend(kinds) } else { narrow.extend(kinds) }
        }
    }
    for (kind, seen) in samples.iter_mut().flat_map(|sample| &mut sample.stages) {
        seen.light = wide.contains(kind) && !narrow.contains(kind);
    }
}

/// The tasks of one item in the order in which they began, with what each kind waited for. Of those that began at one
/// moment, who stands first in `ran` was first.
pub(crate) async fn sample(api: &Api, size_gb: f64, ran: &[Ran]) -> Result<Sample> {
    let kinds: BTreeMap<TaskId, &Name> = ran.iter().map(|task| (task.id, &task.kind)).collect();
    let mut tasks = Vec::with_capacity(ran.len());
    for task in ran {
        let detail: TaskDetail = api.get(&["tasks", &task.id.to_string()], &[]).await?.parse()?;
        tasks.push((task, detail));
    }
    tasks.sort_by_key(|(_, detail)| detail.history.last().and_then(|attempt| attempt.started));
    let mut stages: BTreeMap<Name, Seen> = BTreeMap::new();
    let (mut groups, mut waits) = (BTreeMap::<Name, Vec<Name>>::new(), Vec::new());
    for (place, (Ran { kind, seconds, .. }, detail)) in tasks.into_iter().enumerate() {
        let fresh = || Seen { place, ..Seen::default() };
        let seen = stages.entry(kind.clone()).or_insert_with(fresh);
        seen.seconds.push(*seconds);
        let before = detail.terms.after.iter().map(|parent| parent.task).chain(detail.spawned_by);
        let before = before.filter_map(|parent| kinds.get(&parent));
        seen.after.extend(before.map(|parent| (*parent).clone()));
        if let Some(group) = &detail.terms.group {
            groups.entry(group.clone()).or_default().push(kind.clone());
        }
        waits.extend(detail.terms.after_groups.iter().map(|of| (kind.clone(), of.group.clone())));
    }
    for (kind, group) in waits {
        let members = groups.get(&group).cloned().unwrap_or_default();
        stages.entry(kind).or_default().after.extend(members);
    }
    Ok(Sample { size_gb, stages })
}

fn seconds_of(learnt: &BTreeMap<Name, f64>, kind: &Name) -> Result<f64> {
    learnt.get(kind).copied().ok_or_else(|| {
        Failure::usage(format!("no connected worker has learnt how long tasks of kind {kind} take"))
            .cure("connect a worker that has run some, or write stages into the plan")
            .into()
    })
}

/// Seconds of each kind, by all connected workers that have run it.
fn learnt(workers: &[WorkerView]) -> BTreeMap<Name, f64> {
    let mut sums: BTreeMap<Name, (f64, f64)> = BTreeMap::new();
    for skill in workers.iter().flat_map(|worker| &worker.skills) {
        if let Some(run_ms) = skill.run_ms {
            let (weight, sum) = sums.entry(skill.kind.clone()).or_default();
            let attempts = skill.attempts.max(1) as f64;
            *weight += attempts;
            *sum += attempts * run_ms / 1_000.0;
        }
    }
    sums.into_iter().map(|(kind, (weight, sum))| (kind, sum / weight)).collect()
}

async fn rows<T: serde::de::DeserializeOwned>(
    api: &Api,
    list: &str,
    filter: &str,
    value: &str,
) -> Result<Vec<T>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let mut query = vec![("limit", PAGE.to_string())];
        if value != "*" {
            query.push((filter, value.to_owned()));
        }
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&[list], &query).await?.rows()?;
        all.extend(parse_rows(&page.items)?);
        after = page.next;
        if after.is_none() || all.len() >= ROWS_MAX {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn worker(tiers: &[(&[&str], u32)]) -> WorkerView {
        let tier = |(kinds, slots): &(&[&str], u32)| {
            json!({
                "kinds": kinds, "credit": slots, "slots": slots, "leased": 0, "queue_length": 0, "finished": 0,
                "failed": 0,
            })
        };
        serde_json::from_value(json!({
            "name": "w", "key": 1, "queues": [], "kinds": [], "capabilities": [], "credit": 40, "leased": 0,
            "draining": false, "connected_at": "2026-01-01T00:00:00Z", "seen_at": "2026-01-01T00:00:00Z",
            "finished": 0, "failed": 0, "slots": 40, "tiers": tiers.iter().map(tier).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    /// Which of these kinds take no slot.
    fn light(kinds: &[&str], workers: &[WorkerView]) -> Vec<String> {
        let stages = kinds.iter().map(|kind| (Name::from(*kind), Seen::default())).collect();
        let mut samples = [Sample { size_gb: 1.0, stages }];
        mark_light(&mut samples, workers);
        let light = samples[0].stages.iter().filter(|(_, seen)| seen.light);
        light.map(|(kind, _)| kind.to_string()).collect()
    }

    #[test]
    fn kinds_with_many_places_beside_few_slots_are_light() {
        let usual = worker(&[(&["plan", "http"], 32), (&["encode"], 2)]);
        assert_eq!(light(&["plan", "encode"], std::slice::from_ref(&usual)), ["plan"]);
        // Where nothing else is needed, the many places are what there is.
        assert!(light(&["plan", "http"], std::slice::from_ref(&usual)).is_empty());
        // A worker where they are few makes them wait.
        let small = worker(&[(&["plan", "encode"], 2)]);
        assert!(light(&["plan", "encode"], &[usual, small]).is_empty());
        let near = worker(&[(&["plan"], 4), (&["encode"], 2)]);
        assert!(light(&["plan", "encode"], &[near]).is_empty());
    }
}
