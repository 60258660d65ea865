//! `divvy run`: a workflow from a YAML file.

use std::io::Read;

use anyhow::{Context as _, Result};
use divvy_types::{TaskId, TaskSpec, TaskState};
use serde_json::{Map, Value, json};

use super::Context;
use crate::args::submit::Run;
use crate::exit::Code;
use crate::output::table::{Cell, Table};
use crate::output::words;
use crate::watch::Watch;
use crate::workflow::{self, FILE_BYTES_MAX, Parsed};

/// Submits, and waits if asked.
pub(super) async fn run(args: &Run, context: &Context) -> Result<Code> {
    let output = &context.output;
    let workflow = read(args)?;
    let api = context.api()?;
    let specs: Vec<TaskSpec> = workflow.tasks.iter().map(|(_, spec)| spec.clone()).collect();
    // One batch, because it is accepted whole or not at all.
    let reply = api.post(&["tasks"], &json!({ "tasks": specs })).await?.value()?;
    if !args.wait {
        print_submitted(&workflow, &reply, context)?;
        return Ok(Code::Done);
    }
    output.note(format_args!(
        "workflow {} ({}): {}",
        workflow.name,
        workflow.id,
        words::count(specs.len() as u64, "task")
    ));
    let stages = specs.iter().map(|spec| (spec.id, spec.kind.as_str()));
    let states = Watch::new(&api, output, stages).in_workflow(workflow.id).run().await?;
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
        for (name, spec) in &workflow.tasks {
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
    Ok(if good { Code::Done } else { Code::Failed })
}

/// Whether a task ended as it should. One that was not called back because the workflow ended otherwise has.
fn is_good(spec: &TaskSpec, state: TaskState) -> bool {
    let callback = spec.workflow.as_ref().is_some_and(|workflow| !workflow.role.is_member());
    state == TaskState::Done || (callback && state == TaskState::Cancelled)
}

fn read(args: &Run) -> Result<Parsed> {
    if args.file != "-" {
        let yaml = crate::yaml::read_text(args.file.as_ref(), FILE_BYTES_MAX)?;
        return workflow::parse(&args.file, &yaml, args.key.as_deref());
    }
    let mut yaml = String::new();
    std::io::stdin()
        .take(FILE_BYTES_MAX)
        .read_to_string(&mut yaml)
        .context("cannot read standard input")?;
    workflow::parse("(standard input)", &yaml, args.key.as_deref())
}

fn print_submitted(workflow: &Parsed, reply: &Value, context: &Context) -> Result<()> {
    let output = &context.output;
    if output.is_json() {
        let tasks: Map<String, Value> =
            workflow.tasks.iter().map(|(name, spec)| (name.clone(), json!(spec.id))).collect();
        return output.object(&json!({
            "workflow": workflow.id, "name": workflow.name, "tasks": tasks,
            "accepted": reply["accepted"], "known": reply["known"],
        }));
    }
    if output.is_quiet() {
        workflow.tasks.iter().try_for_each(|(_, spec)| output.data(spec.id))?;
        return Ok(());
    }
    let mut table = Table::new(&["TASK", "KIND", "=ID"]);
    for (name, spec) in &workflow.tasks {
        table.row([name.as_str().into(), spec.kind.as_str().into(), spec.id.to_string().into()]);
    }
    table.print(output)?;
    output.note(format_args!("follow it: divvy workflow show {}", workflow.id));
    Ok(())
}
