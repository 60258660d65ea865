//! `divvy run`: a workflow from a YAML file.

use std::io::Read;

use anyhow::{Context as _, Result};
use divvy::api::Api;
use divvy_types::view::WorkflowView;
use divvy_types::{Submitted, TaskId, TaskSpec, TaskState};
use serde_json::{Map, Value, json};

use super::Context;
use crate::args::submit::Run;
use crate::exit::{Code, Failure};
use crate::output::table::{Cell, Table};
use crate::output::words;
use crate::watch::Watch;
use crate::workflow::{self, FILE_BYTES_MAX, Parsed};

/// Tasks that are listed by name; of more, those that failed.
const ROWS_MAX: usize = 500;
/// Errors that are told when a workflow failed.
const ERRORS_SHOWN_MAX: usize = 5;

/// Submits, and waits if asked.
pub(super) async fn run(args: &Run, context: &Context) -> Result<Code> {
    let output = &context.output;
    let workflow = read(args)?;
    let api = context.api()?;
    let submitted = submit(&api, &workflow, args, context).await?;
    if !args.wait {
        print_submitted(&workflow, &submitted, context)?;
        return Ok(Code::Done);
    }
    let specs = || workflow.tasks.iter().map(|(_, spec)| spec);
    output.note(format_args!(
        "workflow {} ({}): {}",
        workflow.name,
        workflow.id,
        words::count(workflow.tasks.len() as u64, "task")
    ));
    context.leaves_behind(
        "; the workflow goes on",
        format!("see how far it is: divvy workflow show {}", workflow.id),
    );
    let stages = specs().map(|spec| (spec.id, spec.kind.as_str()));
    let callbacks = specs().filter(|spec| is_callback(spec)).map(|spec| spec.id);
    let watch = Watch::new(&api, output, stages).in_workflow(workflow.id);
    let states = watch.with_callbacks(callbacks).run().await?;
    let state = |id: TaskId| states.get(&id).copied().unwrap_or(TaskState::Blocked);
    if output.is_json() {
        let tasks: Map<String, Value> = workflow
            .tasks
            .iter()
            .map(|(name, spec)| (name.clone(), json!({ "id": spec.id, "state": state(spec.id) })))
            .collect();
        output
            .object(&json!({ "workflow": workflow.id, "name": workflow.name, "tasks": tasks }))?;
    } else if output.is_quiet() {
        workflow.tasks.iter().try_for_each(|(_, spec)| output.data(spec.id))?;
    } else {
        let mut table = Table::new(&["TASK", "KIND", "=STATE", "=ID"]);
        let shown =
            |spec: &TaskSpec| workflow.tasks.len() <= ROWS_MAX || !is_good(spec, state(spec.id));
        for (name, spec) in workflow.tasks.iter().filter(|(_, spec)| shown(spec)).take(ROWS_MAX) {
            let state = state(spec.id);
            let state = Cell::colored(state.as_str(), words::state_color(state));
            table.row([
                name.as_str().into(),
                spec.kind.as_str().into(),
                state,
                spec.id.to_string().into(),
            ]);
        }
        table.print(output)?;
    }
    let good = workflow.tasks.iter().all(|(_, spec)| is_good(spec, state(spec.id)));
    if !good && !output.is_json() && !output.is_quiet() {
        say_why(&api, &workflow, context).await?;
    }
    Ok(if good { Code::Done } else { Code::Failed })
}

/// The first errors by the names of the file, and what to do next.
async fn say_why(api: &Api, workflow: &Parsed, context: &Context) -> Result<()> {
    let output = &context.output;
    let id = workflow.id.to_string();
    let view: WorkflowView = api.get(&["workflows", &id], &[]).await?.parse()?;
    for task in view.failed.iter().take(ERRORS_SHOWN_MAX) {
        let named = workflow.tasks.iter().find(|(_, spec)| spec.id == task.id);
        let name = named.map_or_else(|| task.id.to_string(), |(name, _)| name.clone());
        let why = task.error.as_ref().map_or_else(|| task.state.to_string(), ToString::to_string);
        output.note(format_args!("{name}: {why}"));
    }
    if view.failed.len() > ERRORS_SHOWN_MAX {
        output.note(format_args!("all that failed: divvy workflow show {id}"));
    }
    output.note(format_args!("retry what failed, and continue: divvy workflow resume {id} --wait"));
    Ok(())
}

/// Whether a task ended as it should. One that was not called back because the workflow ended otherwise has.
fn is_good(spec: &TaskSpec, state: TaskState) -> bool {
    state == TaskState::Done || (is_callback(spec) && state == TaskState::Cancelled)
}

/// Whether a task runs only if the workflow ends in its way.
fn is_callback(spec: &TaskSpec) -> bool {
    spec.workflow.as_ref().is_some_and(|workflow| !workflow.role.is_member())
}

/// Submits the tasks, in several batches if they are too many for one.
async fn submit(api: &Api, workflow: &Parsed, args: &Run, context: &Context) -> Result<Submitted> {
    let batches = workflow.batches();
    let count = batches.len();
    let mut all = Submitted::default();
    for (number, batch) in batches.into_iter().enumerate() {
        let sent = api.post(&["tasks"], &json!({ "tasks": batch })).await;
        let sent = sent.map_err(|error| cut_off(error, number, workflow, args))?;
        let submitted: Submitted = sent.parse()?;
        all.accepted += submitted.accepted;
        all.known += submitted.known;
        if count > 1 {
            let sent = u64::from(all.accepted + all.known);
            context.output.note(format_args!("{} submitted", words::count(sent, "task")));
        }
    }
    Ok(all)
}

/// What to do when a part of a workflow is there and the next part is not.
fn cut_off(
    error: divvy::api::Error,
    batches: usize,
    workflow: &Parsed,
    args: &Run,
) -> anyhow::Error {
    if batches == 0 {
        return error.into();
    }
    let again = match &args.key {
        Some(_) => "run this again: what is there is known by its key".to_owned(),
        None => format!("take the part that is there back: divvy workflow cancel {}", workflow.id),
    };
    let failure = Failure::from(error);
    let message = format!("only a part of the workflow was submitted: {}", failure.message);
    Failure { message, ..failure }.cure(again).into()
}

fn read(args: &Run) -> Result<Parsed> {
    if args.file != "-" {
        let yaml = crate::yaml::read_text(args.file.as_ref(), FILE_BYTES_MAX)?;
        return workflow::parse(&args.file, &yaml, args.key.as_deref());
    }
    let mut yaml = String::new();
    std::io::stdin()
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut yaml)
        .context("cannot read standard input")?;
    if yaml.len() as u64 > FILE_BYTES_MAX {
        let text = format!("standard input has more than {FILE_BYTES_MAX} bytes");
        return Err(Failure::usage(text).into());
    }
    workflow::parse("(standard input)", &yaml, args.key.as_deref())
}

fn print_submitted(workflow: &Parsed, submitted: &Submitted, context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        let tasks: Map<String, Value> =
            workflow.tasks.iter().map(|(name, spec)| (name.clone(), json!(spec.id))).collect();
        return output.object(&json!({
            "workflow": workflow.id, "name": workflow.name, "tasks": tasks,
            "accepted": submitted.accepted, "known": submitted.known,
        }));
    }
    if output.is_quiet() {
        workflow.tasks.iter().try_for_each(|(_, spec)| output.data(spec.id))?;
        return Ok(());
    }
    let mut table = Table::new(&["TASK", "KIND", "=ID"]);
    for (name, spec) in workflow.tasks.iter().take(ROWS_MAX) {
        table.row([name.as_str().into(), spec.kind.as_str().into(), spec.id.to_string().into()]);
    }
    table.print(output)?;
    if workflow.tasks.len() > ROWS_MAX {
        output.note(format_args!("and {} more", workflow.tasks.len() - ROWS_MAX));
    }
    output.note(format_args!("follow it: divvy workflow show {}", workflow.id));
    Ok(())
}
