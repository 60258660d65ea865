//! `divvy events`: changes of tasks as they happen, a line each, until Ctrl-C.

use std::io::{self, IsTerminal};

use anyhow::Result;
use divvy::api::{Api, Error, Frame, Frames, Patience};
use divvy_types::view::{Progress, TaskChange};
use divvy_types::{TaskState, WorkflowId};

use super::Context;
use super::filter::workflow;
use crate::args::tasks::Events;
use crate::exit::Code;
use crate::output::Output;
use crate::output::ids::Shortener;
use crate::output::table::{cut, width};
use crate::output::visible::on_one_line;

/// Follows.
pub(super) async fn run(args: &Events, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let workflow = workflow(&api, args.workflow.as_deref()).await?;
    let query = query(args, workflow);
    let mut frames = Frames::open(&api, &["events"], &query).await?;
    output.note("changes of tasks, as they happen; Ctrl-C ends this");
    loop {
        while let Some(frame) = frames.next().await.ok().flatten() {
            print(&frame, output)?;
        }
        output.note("the server is away; changes that happen meanwhile are not shown");
        frames = reopen(&api, &query).await?;
        output.note("it is back");
    }
}

fn query(args: &Events, workflow: Option<WorkflowId>) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    if !args.state.is_empty() {
        let states: Vec<&str> = args.state.iter().map(|state| state.as_str()).collect();
        query.push(("state", states.join(",")));
    }
    query.extend(args.kind.clone().map(|kind| ("kind", kind)));
    query.extend(args.queue.clone().map(|queue| ("queue", queue)));
    query.extend(workflow.map(|workflow| ("workflow", workflow.to_string())));
    if !args.tasks.is_empty() {
        query.push(("task", args.tasks.join(",")));
    }
    query
}

/// Opens the stream again, as soon as the server is back.
async fn reopen(api: &Api, query: &[(&str, String)]) -> Result<Frames, Error> {
    let mut patience = Patience::default();
    loop {
        match Frames::open(api, &["events"], query).await {
            Ok(frames) => return Ok(frames),
            Err(error) => patience.bear(error).await?,
        }
    }
}

fn print(frame: &Frame, output: &Output) -> Result<()> {
    match frame.name.as_str() {
        "change" if output.is_json() => output.raw(&frame.data)?,
        "change" => {
            let change: TaskChange = serde_json::from_str(&frame.data)?;
            if output.is_quiet() {
                output.data(change.id)?;
            } else {
                output.data(shown(&change))?;
            }
        }
        "lagged" => {
            output.note("some changes are missing here: they came faster than they were read")
        }
        _ => {}
    }
    Ok(())
}

/// A change on one line. On a terminal it fits there, with a short id; programs get it whole.
fn shown(change: &TaskChange) -> String {
    if io::stdout().is_terminal() {
        let short = Shortener::new([]).short(change.id);
        return cut(&line(change, &short), width());
    }
    line(change, &change.id.to_string())
}

/// The time of day in UTC, the state, the task, and what is worth knowing besides.
fn line(change: &TaskChange, id: &str) -> String {
    let at = change.at.to_string();
    let clock = at.get(11..19).unwrap_or(&at).to_owned();
    let (state, note) = match (change.state, &change.progress, &change.error, &change.worker) {
        (_, Some(Progress { done, total, message }), _, _) => {
            ("running", format!("  {done} of {total} {message}"))
        }
        // The worker runs it or lets it wait for a slot: the change does not tell which.
        (TaskState::Leased, _, _, Some(worker)) => ("assigned", format!("  to {worker}")),
        (TaskState::Done, _, _, Some(worker)) => ("done", format!("  on {worker}")),
        (state, _, Some(error), _) => (state.as_str(), format!("  {error}")),
        (state, _, _, Some(worker)) => (state.as_str(), format!("  on {worker}")),
        (state, ..) => (state.as_str(), String::new()),
    };
    on_one_line(&format!("{clock}  {state:<9}  {id}  {kind}{note}", kind = change.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_line() {
        let json = r#"{"id":"0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e","kind":"noop","queue":"default",
            "state":"dead","at":"2026-11-16T12:08:24.846851Z","worker":"w",
            "error":{"class":"failed","message":"two\nlines"}}"#;
        let change: TaskChange = serde_json::from_str(json).unwrap();
        let text = line(&change, &change.id.to_string());
        let start = "12:08:24  dead       0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e  noop  ";
        assert!(text.starts_with(start) && !text.contains('\n'), "{text}");
        let assigned = TaskChange { state: TaskState::Leased, error: None, ..change };
        let text = line(&assigned, "0198c0de");
        assert_eq!(text, "12:08:24  assigned   0198c0de  noop  to w");
        let progress = Progress { done: 3, total: 8, message: "frames".into() };
        let text = line(&TaskChange { progress: Some(progress), ..assigned }, "0198c0de");
        assert_eq!(text, "12:08:24  running    0198c0de  noop  3 of 8 frames");
    }
}
