//! `divvy explain`: why a task is where it is, who could run it, what became of its attempts, and what moves it on.

use std::time::Duration;

use anyhow::Result;
use divvy_types::need::offers;
use divvy_types::overview::TaskExplanation;
use divvy_types::view::{Candidate, PlacedBy, Placement, TaskDetail, TaskSummary};
use divvy_types::{TaskState, Timestamp, WaitReason, shell};

use super::Context;
use super::task::{progress, state_word, waits};
use crate::args::tasks::OneTask;
use crate::exit::Code;
use crate::output::Output;
use crate::output::table::{Cell, Table, folded};
use crate::output::words;
use divvy::api::Api;

/// Dependencies that are looked at one by one.
const PARENTS_MAX: usize = 10;
/// Workers that were compared which are listed.
const COMPARED_MAX: usize = 5;

/// Explains.
pub(super) async fn run(args: &OneTask, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let reply = api.get(&["tasks", &args.id, "explain"], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let task: TaskExplanation = reply.parse()?;
    let TaskSummary { id, kind, state, .. } = &task.summary;
    output.data(format_args!("{kind} {id} is {}", state_word(&task.summary)))?;
    let now = words::now();
    for (name, value) in facts(&task, now) {
        output.data(format_args!("  {name:<10} {}", folded(value.trim_end(), 13)))?;
    }
    if *state == TaskState::Blocked {
        for line in parents(&api, &task).await? {
            output.data(format_args!("  {line}"))?;
        }
    }
    print_candidates(&task.explanation.candidates, now, output)?;
    print_attempts(&task, now, output)?;
    if let Some(cure) = next_step(&task) {
        output.data(format_args!("  next       {}", folded(&cure, 13)))?;
    }
    Ok(Code::Done)
}

type Facts = Vec<(&'static str, String)>;

fn facts(task: &TaskExplanation, now: Timestamp) -> Facts {
    let (summary, explained) = (&task.summary, &task.explanation);
    let mut facts = Vec::new();
    let mut fact = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("why", waits(summary, now));
    fact("place", Some(format!("queue {}, priority {}", summary.queue, summary.priority)));
    fact("before it", explained.position.map(|before| words::count(before, "task")));
    let start =
        explained.estimated_start.map(|at| format!("expected {}", words::relative(at, now)));
    fact("start", start);
    let run = explained.estimated_run_ms.map(|ms| words::span(Duration::from_millis(ms)));
    fact("run time", run.map(|span| format!("about {span}")));
    fact("deadline", deadline(task, now));
    fact("worker", worker(task, now));
    let compared = explained.placement.as_ref().and_then(compared);
    fact("compared", compared);
    fact("progress", summary.progress.as_ref().and_then(progress));
    fact("ended", summary.ended_at.map(|at| ended(at, summary.submitted_at, now)));
    let tries = format!("{} of {} used", summary.attempts, task.attempts_max);
    fact("attempts", (summary.attempts > 0).then_some(tries));
    fact("error", summary.error.as_ref().map(ToString::to_string));
    facts
}

fn ended(at: Timestamp, submitted: Timestamp, now: Timestamp) -> String {
    let took = words::span(at.since(submitted));
    format!("{}, {took} after its submission", words::relative(at, now))
}

fn deadline(task: &TaskExplanation, now: Timestamp) -> Option<String> {
    let explained = &task.explanation;
    let at = words::relative(explained.deadline?, now);
    let verdict = match (task.summary.state.is_final(), explained.late) {
        (true, true) => "missed",
        (true, false) => "met",
        (false, true) => "expected to be missed",
        (false, false) => "expected to be met",
    };
    Some(format!("{at}, {verdict}"))
}

fn worker(task: &TaskExplanation, now: Timestamp) -> Option<String> {
    let name = task.summary.worker.as_deref()?;
    if task.summary.state != TaskState::Leased {
        return Some(format!("{name}, which ran it last"));
    }
    let attempt = task.summary.attempts.max(1);
    let Some(placement) = &task.explanation.placement else {
        return Some(format!("{name}, attempt {attempt}"));
    };
    let why = match placement.by {
        PlacedBy::Turn => "it had a place free, and this was its next task",
        PlacedBy::Score => "it had the best score of the free ones",
    };
    let since = words::relative(placement.at, now);
    Some(format!("{name}, attempt {attempt}, given {since}: {why}"))
}

fn compared(placement: &Placement) -> Option<String> {
    let first: Vec<String> = placement
        .compared
        .iter()
        .take(COMPARED_MAX)
        .map(|scored| format!("{} {:.2}", scored.worker, scored.score))
        .collect();
    let more = placement.compared.len().saturating_sub(COMPARED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")))
}

fn print_candidates(candidates: &[Candidate], now: Timestamp, output: &Output) -> Result<()> {
    let mut table = Table::new(&["WORKER", "CAN RUN IT", ">SCORE", "MADE OF"]);
    for candidate in candidates {
        let terms: Vec<String> = candidate
            .terms
            .iter()
            .map(|term| format!("{} {:+.2}", term.name, term.value))
            .collect();
        let score = candidate.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
        table.row([
            candidate.worker.as_str().into(),
            ability(candidate, now),
            score.into(),
            terms.join(", ").into(),
        ]);
    }
    table.print(output)?;
    Ok(())
}

fn ability(candidate: &Candidate, now: Timestamp) -> Cell {
    if !candidate.serves {
        return "does not serve it".into();
    }
    if !candidate.lacks.is_empty() {
        return Cell::colored(format!("lacks {}", candidate.lacks.join(", ")), "33");
    }
    if let Some(until) = candidate.quarantined_until.filter(|until| *until > now) {
        return Cell::colored(format!("rests, {}", words::relative(until, now)), "33");
    }
    if candidate.free { Cell::colored("yes, free", "32") } else { "yes, busy".into() }
}

fn print_attempts(task: &TaskExplanation, now: Timestamp, output: &Output) -> Result<()> {
    let mut table = Table::new(&[">ATTEMPT", "=ENDED", "WORKER", "END"]);
    for (number, attempt) in task.history.iter().enumerate() {
        let end = attempt.error.as_ref().map_or_else(|| "finished".to_owned(), ToString::to_string);
        let end = if attempt.counted { end } else { format!("{end} (not counted)") };
        table.row([
            (number + 1).to_string().into(),
            words::relative(attempt.at, now).into(),
            attempt.worker.as_str().into(),
            end.into(),
        ]);
    }
    table.print(output)?;
    Ok(())
}

async fn parents(api: &Api, task: &TaskExplanation) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for edge in task.after.iter().take(PARENTS_MAX) {
        let parent: TaskDetail = api.get(&["tasks", &edge.task.to_string()], &[]).await?.parse()?;
        let optional = if edge.optional { ", optional" } else { "" };
        let wait = waits(&parent.summary, words::now()).map(|text| format!(": {text}"));
        let wait = wait.unwrap_or_default();
        lines.push(format!(
            "after {} {} ({}{optional}){wait}",
            parent.summary.kind, edge.task, parent.summary.state
        ));
    }
    if task.after.len() > PARENTS_MAX {
        let more = task.after.len() - PARENTS_MAX;
        lines.push(format!("and {more} more: divvy task show {}", task.summary.id));
    }
    Ok(lines)
}

/// Whether a task runs only if its workflow ends in its way.
fn is_callback(task: &TaskExplanation) -> bool {
    task.summary.workflow.as_ref().is_some_and(|workflow| !workflow.role.is_member())
}

fn next_step(task: &TaskExplanation) -> Option<String> {
    let id = task.summary.id;
    match (task.summary.state, &task.summary.wait) {
        (TaskState::Dead, _) => Some(format!("divvy logs {id}, then divvy dead replay {id}")),
        // It was not called, because its workflow ended in the other way: nothing is amiss.
        (TaskState::Cancelled, _) if is_callback(task) => None,
        (TaskState::Cancelled, _) => Some(format!("divvy task retry {id}")),
        (TaskState::Leased, None) => Some(format!("divvy logs -f {id}")),
        (_, Some(WaitReason::NoWorker { kind, workers, .. })) if *workers > 0 => {
            let program = format!("{kind}=PROGRAM");
            let program = shell::word(&program);
            Some(format!("start a worker that serves it: divvy work --exec {program}"))
        }
        (_, Some(WaitReason::MissingCapability { missing, .. })) => {
            Some(format!("start a worker that has it: divvy work {}", offers(missing)))
        }
        (_, Some(WaitReason::QueuePaused { queue })) => {
            Some(format!("divvy queue resume {}", shell::word(queue)))
        }
        (_, Some(WaitReason::Limit { .. })) => Some("see how full it is: divvy limit list".into()),
        (_, Some(WaitReason::Elsewhere { worker, .. })) => Some(format!(
            "see what it failed of: divvy logs {id}; and how the worker does: divvy worker status {worker}"
        )),
        (_, Some(WaitReason::Quarantined { .. })) => Some("see why: divvy worker status".into()),
        (TaskState::Scheduled, _) => Some(format!("wait, or run it now: divvy task retry {id}")),
        _ => None,
    }
}
