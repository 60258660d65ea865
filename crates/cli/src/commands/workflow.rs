//! `divvy workflow`: lists, shows, cancels and resumes workflows.

use anyhow::Result;
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::{
    CancelledWorkflow, ResumedWorkflow, SelectWorkflows, TaskSummary, WorkflowCounts,
    WorkflowState, WorkflowSummary, WorkflowTask, WorkflowView,
};
use divvy_types::{TaskId, TaskState, WorkflowId, WorkflowRole};
use serde_json::json;

use super::Context;
use super::filter::{as_query, pairs};
use super::task::state_cell;
use crate::args::workflows::{CancelWorkflow, OneWorkflow, ResumeWorkflow, Workflow, WorkflowList};
use crate::exit::Code;
use crate::output::ids::Shortener;
use crate::output::table::{Cell, Table};
use crate::output::words;
use crate::watch::Watch;
use divvy::api::{Api, parse_rows};

/// How often a wait looks for tasks that came to be while it waited.
const WAIT_ROUNDS_MAX: usize = 1_000;

/// Does what is asked.
pub(super) async fn run(args: Workflow, context: &Context) -> Result<Code> {
    match args {
        Workflow::List(args) => list(&args, context).await,
        Workflow::Show(args) => show(&args, context).await,
        Workflow::Cancel(args) => cancel(&args, context).await,
        Workflow::Resume(args) => resume(&args, context).await,
    }
}

async fn list(args: &WorkflowList, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let select = SelectWorkflows { state: args.state.clone(), name: args.name.clone() };
    let filter = pairs(&select)?;
    let (mut rows, mut after) = (Vec::new(), args.after.clone());
    // A page may be short because much was looked at for few that fit.
    loop {
        let mut query = as_query(&filter);
        query.push(("limit", (args.limit as usize - rows.len()).to_string()));
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["workflows"], &query).await?.rows()?;
        rows.extend(page.items);
        after = page.next;
        if after.is_none() || rows.len() >= args.limit as usize {
            break;
        }
    }
    if output.is_json() {
        rows.iter().try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let workflows: Vec<WorkflowSummary> = parse_rows(&rows)?;
    if output.is_quiet() {
        workflows.iter().try_for_each(|workflow| output.data(workflow.id))?;
        return Ok(Code::Done);
    }
    let now = words::now();
    let short = Shortener::new(workflows.iter().map(|workflow| TaskId(workflow.id.0)));
    let mut table =
        Table::new(&["=ID", "NAME", "=STATE", ">OVER", ">FAILED", "=STARTED", "=ENDED"]);
    for workflow in &workflows {
        let ended = workflow.ended_at.map_or_else(|| "-".to_owned(), |at| words::relative(at, now));
        table.row([
            short.short(TaskId(workflow.id.0)).into(),
            workflow.name.as_str().into(),
            workflow_cell(workflow.state),
            format!("{}/{}", workflow.total - workflow.open, workflow.total).into(),
            workflow.failed.to_string().into(),
            words::relative(workflow.started_at, now).into(),
            ended.into(),
        ]);
    }
    table.print(output)?;
    if let Some(next) = after {
        output.note(format_args!("there may be more: add --after {next}"));
    }
    Ok(Code::Done)
}

/// A state in the colour of tasks that are so.
fn workflow_cell(state: WorkflowState) -> Cell {
    let alike = match state {
        WorkflowState::Open => TaskState::Leased,
        WorkflowState::Succeeded => TaskState::Done,
        WorkflowState::Failed => TaskState::Dead,
    };
    Cell::colored(state.as_str(), words::state_color(alike))
}

async fn show(args: &OneWorkflow, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.get(&["workflows", &args.id], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    print(&reply.parse()?, context)
}

fn print(workflow: &WorkflowView, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_quiet() {
        output.data(workflow.id)?;
        return Ok(Code::Done);
    }
    let now = words::now();
    let state = match workflow.state {
        WorkflowState::Open => format!("open, {} % over", workflow.percent),
        ended => ended.as_str().to_owned(),
    };
    output.data(format_args!("{:<10} {}", "id", workflow.id))?;
    output.data(format_args!("{:<10} {}", "name", workflow.name))?;
    output.data(format_args!("{:<10} {state}", "state"))?;
    let members = words::count(workflow.total, "task");
    output.data(format_args!("{:<10} {members}: {}", "members", counted(&workflow.counts)))?;
    let started = words::relative(workflow.started_at, now);
    output.data(format_args!("{:<10} {started} ({})", "started", workflow.started_at))?;
    if let Some(ended) = workflow.ended_at {
        output.data(format_args!("{:<10} {} ({ended})", "ended", words::relative(ended, now)))?;
    }
    print_tasks("FAILED", &workflow.failed, context)?;
    print_tasks("AFTERWARDS", &workflow.callbacks, context)?;
    if workflow.state == WorkflowState::Failed {
        output.note(format_args!(
            "retry what failed, and continue: divvy workflow resume {}",
            workflow.id
        ));
    }
    Ok(Code::Done)
}

/// The counts that are not zero, in words.
fn counted(counts: &WorkflowCounts) -> String {
    let all = [
        (counts.done, "done"),
        (counts.leased.saturating_sub(counts.queued), "running"),
        (counts.queued, "queued at workers"),
        (counts.ready, "ready"),
        (counts.scheduled, "scheduled"),
        (counts.blocked, "blocked"),
        (counts.dead, "dead"),
        (counts.cancelled, "cancelled"),
    ];
    let parts = all.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn print_tasks(heading: &'static str, tasks: &[WorkflowTask], context: &Context) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let short = Shortener::new(tasks.iter().map(|task| task.id));
    let mut table = Table::new(&[heading, "KIND", "=STATE", "NOTE"]);
    for task in tasks {
        let when = match task.role {
            WorkflowRole::Member => None,
            WorkflowRole::OnSuccess => Some("on success".to_owned()),
            WorkflowRole::OnFailure => Some("on failure".to_owned()),
        };
        let error = task.error.as_ref().map(ToString::to_string);
        let note: Vec<String> = when.into_iter().chain(error).collect();
        table.row([
            short.short(task.id).into(),
            task.kind.as_str().into(),
            state_cell(task.state),
            note.join("; ").into(),
        ]);
    }
    table.print(&context.output)?;
    Ok(())
}

async fn cancel(args: &CancelWorkflow, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let body = args.reason.as_ref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let reply = api.post(&["workflows", &args.workflow.id, "cancel"], &body).await?;
    let cancelled: CancelledWorkflow = reply.parse()?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(cancelled.id)?;
    } else {
        let tasks = words::count(cancelled.cancelled, "task");
        output.data(format_args!("{tasks} cancelled or told to stop"))?;
    }
    if args.wait {
        wait(&api, cancelled.id, context).await?;
    }
    Ok(Code::Done)
}

async fn resume(args: &ResumeWorkflow, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let body = json!({ "include_cancelled": args.include_cancelled });
    let reply = api.post(&["workflows", &args.workflow.id, "resume"], &body).await?;
    let resumed: ResumedWorkflow = reply.parse()?;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(resumed.id)?;
    } else {
        output.data(format_args!("{} put back", words::count(resumed.resumed, "task")))?;
        if resumed.left > 0 {
            output.note(format_args!(
                "{} failed and stay so: people cancelled them, or they depend on one that stays \
                 failed; see divvy workflow show {}, and --include-cancelled",
                words::count(resumed.left, "task"),
                resumed.id
            ));
        }
    }
    if !args.wait {
        return Ok(Code::Done);
    }
    let state = wait(&api, resumed.id, context).await?;
    Ok(if state == WorkflowState::Succeeded { Code::Done } else { Code::Failed })
}

/// Waits until all tasks of a workflow are final, those included that come to be meanwhile.
async fn wait(api: &Api, id: WorkflowId, context: &Context) -> Result<WorkflowState> {
    context.leaves_behind("", format!("see how far it is: divvy workflow show {id}"));
    for _ in 0..WAIT_ROUNDS_MAX {
        let open = open_tasks(api, id).await?;
        if open.is_empty() {
            break;
        }
        let stages = open.iter().map(|task| (task.id, task.kind.as_str()));
        let callback = |task: &&TaskSummary| {
            task.workflow.as_ref().is_some_and(|workflow| !workflow.role.is_member())
        };
        let callbacks = open.iter().filter(callback).map(|task| task.id);
        let watch = Watch::new(api, &context.output, stages).in_workflow(id);
        watch.with_callbacks(callbacks).run().await?;
    }
    let view: WorkflowView = api.get(&["workflows", &id.to_string()], &[]).await?.parse()?;
    if !context.output.is_json() && !context.output.is_quiet() {
        let (state, counts) = (view.state.as_str(), counted(&view.counts));
        context.output.data(format_args!("workflow {} {state}: {counts}", view.name))?;
    }
    Ok(view.state)
}

async fn open_tasks(api: &Api, id: WorkflowId) -> Result<Vec<TaskSummary>> {
    let mut open: Vec<TaskSummary> = Vec::new();
    let mut after = None;
    loop {
        let mut query = vec![("workflow", id.to_string()), ("limit", PAGE_ROWS_MAX.to_string())];
        query.extend(after.map(|cursor| ("after", cursor)));
        let page = api.get(&["tasks"], &query).await?.rows()?;
        let rows: Vec<TaskSummary> = parse_rows(&page.items)?;
        open.extend(rows.into_iter().filter(|task| !task.state.is_final()));
        after = page.next;
        if after.is_none() {
            return Ok(open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_that_say_something_are_told() {
        let counts = WorkflowCounts {
            done: 3,
            leased: 3,
            queued: 1,
            blocked: 2,
            ..WorkflowCounts::default()
        };
        assert_eq!(counted(&counts), "3 done, 2 running, 1 queued at workers, 2 blocked");
        assert_eq!(counted(&WorkflowCounts::default()), "");
    }
}
