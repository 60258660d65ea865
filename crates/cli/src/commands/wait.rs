//! `divvy wait`: blocks until tasks are final. Exit code 1 if any of them is not done, 6 when the time is over.

use std::collections::HashMap;

use anyhow::Result;
use divvy_types::view::TaskDetail;
use divvy_types::{TaskId, TaskState};

use super::Context;
use super::submit::leave_behind;
use crate::args::tasks::Wait;
use crate::exit::Code;
use crate::output::ids::Shortener;
use crate::output::table::{Cell, Table};
use crate::output::words;
use crate::watch::Watch;
use divvy::api::Api;

/// More rows than this say nothing that a count does not.
const ROWS_MAX: usize = 100;

/// Waits.
pub(super) async fn run(args: &Wait, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let mut ids = Vec::with_capacity(args.tasks.ids.len());
    for text in &args.tasks.ids {
        ids.push(resolve(&api, text).await?);
    }
    leave_behind(&ids, context);
    let timeout = args.timeout.map(|timeout| timeout.0);
    let tasks = ids.iter().map(|id| (*id, "tasks"));
    let states = Watch::new(&api, output, tasks).for_at_most(timeout).run().await?;
    if output.is_quiet() {
        for id in &ids {
            output.data(id)?;
        }
        return Ok(verdict(&states));
    }
    print_ends(&api, &ids, &states, context).await
}

/// The whole id of a task that is named by its id, or the end or the start of it.
pub(super) async fn resolve(api: &Api, text: &str) -> Result<TaskId> {
    match text.parse() {
        Ok(id) => Ok(id),
        Err(_) => Ok(api.get(&["tasks", text], &[]).await?.parse::<TaskDetail>()?.summary.id),
    }
}

fn verdict(states: &HashMap<TaskId, TaskState>) -> Code {
    if states.values().all(|state| *state == TaskState::Done) { Code::Done } else { Code::Failed }
}

/// Prints how tasks ended: all of them if they are few, otherwise those that failed, and a count.
pub(super) async fn print_ends(
    api: &Api,
    ids: &[TaskId],
    states: &HashMap<TaskId, TaskState>,
    context: &Context,
) -> Result<Code> {
    let output = &context.output;
    let many = ids.len() > ROWS_MAX && !output.is_json();
    let failed = |id: &TaskId| states.get(id).is_some_and(|state| *state != TaskState::Done);
    let shown: Vec<TaskId> = ids.iter().filter(|id| !many || failed(id)).copied().collect();
    let short = Shortener::new(shown.iter().copied());
    let mut table = Table::new(&["=ID", "KIND", "=STATE", ">ATTEMPTS", "RESULT"]);
    let rows = if many { ROWS_MAX } else { shown.len() };
    for id in shown.iter().take(rows) {
        let reply = api.get(&["tasks", &id.to_string()], &[]).await?;
        if output.is_json() {
            output.raw(reply.text())?;
            continue;
        }
        let task: TaskDetail = reply.parse()?;
        let state = task.summary.state;
        let end = match (&task.summary.error, &task.result) {
            (Some(error), _) if state != TaskState::Done => error.to_string(),
            (_, Some(result)) => result.json_text().unwrap_or("(bytes)").to_owned(),
            _ => String::new(),
        };
        table.row([
            short.short(*id).into(),
            task.summary.kind.as_str().into(),
            Cell::colored(state.as_str(), words::state_color(state)),
            task.summary.attempts.to_string().into(),
            end.into(),
        ]);
    }
    table.print(output)?;
    if many {
        let done = states.values().filter(|state| **state == TaskState::Done).count();
        output.data(format_args!(
            "{} done, {} failed",
            words::count(done as u64, "task"),
            states.len() - done
        ))?;
    }
    Ok(verdict(states))
}
