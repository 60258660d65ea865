//! `divvy explain`: why a task is where it is, and what moves it on.

use std::time::Duration;

use anyhow::Result;
use divvy_types::view::TaskDetail;
use divvy_types::{TaskState, WaitReason};

use super::Context;
use crate::args::tasks::OneTask;
use crate::exit::Code;
use crate::http::Api;
use crate::output::words;

/// Dependencies that are looked at one by one.
const PARENTS_MAX: usize = 10;

/// Explains.
pub(super) async fn run(args: &OneTask, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let reply = api.get(&["tasks", &args.id], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let task: TaskDetail = reply.parse()?;
    let summary = &task.summary;
    output.data(format_args!("{} {} is {}", summary.kind, summary.id, summary.state))?;
    for line in reasons(&task) {
        output.data(format_args!("  {line}"))?;
    }
    if summary.state == TaskState::Blocked {
        for line in parents(&api, &task).await? {
            output.data(format_args!("  {line}"))?;
        }
    }
    if let Some(cure) = next_step(&task) {
        output.data(format_args!("  next: {cure}"))?;
    }
    Ok(Code::Done)
}

fn reasons(task: &TaskDetail) -> Vec<String> {
    let (summary, now) = (&task.summary, words::now());
    let mut lines = Vec::new();
    lines.extend(summary.wait_text.clone());
    match summary.state {
        TaskState::Leased => {
            let worker = summary.worker.as_deref().unwrap_or("a worker");
            lines.push(format!("runs on {worker}, attempt {}", summary.attempts.max(1)));
            lines.extend(
                summary
                    .progress
                    .as_ref()
                    .map(|p| format!("progress {}/{} {}", p.done, p.total, p.message)),
            );
        }
        state if state.is_final() => {
            let ended = summary.ended_at.map(|at| words::relative(at, now)).unwrap_or_default();
            let took = summary.ended_at.map_or(Duration::ZERO, |at| at.since(summary.submitted_at));
            lines.push(format!("ended {ended}, {} after its submission", words::span(took)));
        }
        _ => {}
    }
    if let Some(error) = &summary.error {
        let counted = task
            .history
            .iter()
            .filter(|attempt| attempt.counted)
            .count()
            .max(summary.attempts as usize);
        let tries = words::count(counted as u64, "attempt");
        lines.push(format!("last error: {error} ({tries} of {} used)", task.terms.retry.limit + 1));
    }
    lines
}

async fn parents(api: &Api, task: &TaskDetail) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for edge in task.terms.after.iter().take(PARENTS_MAX) {
        let parent: TaskDetail = api.get(&["tasks", &edge.task.to_string()], &[]).await?.parse()?;
        let optional = if edge.optional { ", optional" } else { "" };
        let wait = parent.summary.wait_text.map(|text| format!(": {text}")).unwrap_or_default();
        lines.push(format!(
            "after {} {} ({}{optional}){wait}",
            parent.summary.kind, edge.task, parent.summary.state
        ));
    }
    if task.terms.after.len() > PARENTS_MAX {
        lines.push(format!(
            "and {} more: divvy task show {}",
            task.terms.after.len() - PARENTS_MAX,
            task.summary.id
        ));
    }
    Ok(lines)
}

fn next_step(task: &TaskDetail) -> Option<String> {
    let id = task.summary.id;
    match (task.summary.state, &task.summary.wait) {
        (TaskState::Dead, _) => Some(format!("divvy logs {id}, then divvy dead replay {id}")),
        (TaskState::Cancelled, _) => Some(format!("divvy task retry {id}")),
        (TaskState::Leased, _) => Some(format!("divvy logs -f {id}")),
        (_, Some(WaitReason::NoWorker { kind, workers, .. })) if *workers > 0 => {
            Some(format!("start a worker that serves it: divvy work --exec {kind}=PROGRAM"))
        }
        (_, Some(WaitReason::MissingCapability { missing, .. })) => {
            Some(format!("start a worker that has it: divvy work --caps {}", missing.join(",")))
        }
        (TaskState::Scheduled, _) => Some(format!("wait, or run it now: divvy task retry {id}")),
        _ => None,
    }
}
