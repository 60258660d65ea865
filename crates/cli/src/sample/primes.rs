//! The sample of `divvy up --sample primes`, which needs nothing but this binary: counts primes with many processes and
//! checks the total.
//!
//! One task splits the numbers into ranges, one task per range counts, and the last adds up and compares with the
//! known value. Each step is this binary as a child process of a worker, so the sample uses nothing but what ships,
//! and takes the same way as a program in any language.

use std::time::Instant;

use anyhow::Result;
use divvy_types::view::TaskDetail;
use divvy_types::{
    Dependency, Name, Payload, TaskId, TaskSpec, TaskState, Workflow, WorkflowId, WorkflowRole,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::commands::submit::send;
use crate::exit::{Code, Failure};
use crate::output::ids::fresh;
use crate::output::{Output, words};
use crate::values::Program;
use crate::watch::Watch;
use divvy::api::Api;

const SPLIT: &str = "sample.split";
const COUNT: &str = "sample.count";
const SUM: &str = "sample.sum";
/// Ranges, and so tasks, of the fan-out.
const PARTS: usize = 16;
/// Numbers below this are looked at.
const LIMIT: u64 = 3_000_000;
/// How many primes there are below [`LIMIT`].
const PRIMES: u64 = 216_816;

/// What the last step returns.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Total {
    pub(crate) primes: u64,
    pub(crate) below: u64,
    pub(crate) parts: usize,
}

/// The programs that workers must allow for the sample: this binary.
pub(crate) fn programs(this: &str) -> Vec<Program> {
    let program = |kind: &str, step: &str| Program {
        name: Name::from(kind),
        words: vec![this.to_owned(), "sample-step".to_owned(), step.to_owned()],
    };
    vec![program(SPLIT, "split"), program(COUNT, "count"), program(SUM, "sum")]
}

/// Submits the sample, shows it, and prints the result.
pub(crate) async fn run(api: &Api, output: &Output, workers: u32) -> Result<()> {
    let started = Instant::now();
    let workflow = Workflow {
        id: WorkflowId(fresh()),
        name: Name::from("sample"),
        role: WorkflowRole::Member,
    };
    let specs = specs(&workflow)?;
    let sum = specs.last().expect("the sample has a last task").id;
    let processes = if workers == 1 { "process" } else { "processes" };
    output.note(format_args!(
        "sample: counting primes below {LIMIT} in {PARTS} parts on {workers} worker {processes}"
    ));
    send(api, &specs, false).await?;
    let stages = specs.iter().map(|spec| (spec.id, spec.kind.as_str()));
    let states = Watch::new(api, output, stages).in_workflow(workflow.id).run().await?;
    let detail: TaskDetail = api.get(&["tasks", &sum.to_string()], &[]).await?.parse()?;
    if states.get(&sum) != Some(&TaskState::Done) {
        let why = detail.summary.error.map(|error| error.to_string()).unwrap_or_default();
        let failure = Failure::new(Code::Failed, format!("the sample failed: {why}"));
        return Err(failure
            .cure(format!("divvy --server {} task list --state dead,cancelled", api.server()))
            .into());
    }
    let result = detail.result.unwrap_or_default();
    if output.is_json() {
        let total: Total = result.parse()?;
        output.object(
            &json!({ "sample": total, "elapsed_ms": started.elapsed().as_millis() as u64 }),
        )?;
        return Ok(());
    }
    let total: Total = result.parse()?;
    let line = format!(
        "sample: {} primes below {}, as expected; {} tasks took {}",
        total.primes,
        total.below,
        specs.len(),
        words::span(started.elapsed()),
    );
    output.data(line)?;
    Ok(())
}

fn specs(workflow: &Workflow) -> Result<Vec<TaskSpec>> {
    let task = |kind: &str, payload: serde_json::Value, after: Vec<TaskId>| -> Result<TaskSpec> {
        let mut spec = TaskSpec::new(TaskId(fresh()), kind);
        spec.payload = Payload::from_value(&payload)?;
        spec.after = after.into_iter().map(|task| Dependency { task, optional: false }).collect();
        spec.workflow = Some(Box::new(workflow.clone()));
        Ok(spec)
    };
    let split = task(SPLIT, json!({ "below": LIMIT, "parts": PARTS }), Vec::new())?;
    let mut specs = vec![split];
    for part in 0..PARTS {
        specs.push(task(COUNT, json!({ "part": part }), vec![specs[0].id])?);
    }
    let counts = specs[1..].iter().map(|spec| spec.id).collect();
    specs.push(task(SUM, json!({ "below": LIMIT, "expected": PRIMES }), counts)?);
    Ok(specs)
}
