//! `divvy status`: the health of the server on one screen. Exit code 0 healthy, 1 degraded.

use std::time::Duration;

use anyhow::Result;
use divvy_types::view::{QueueView, WorkerView};
use serde_json::{Value, json};

use super::Context;
use crate::exit::Code;
use crate::http::parse_rows;
use crate::output::words;

/// Looks and judges.
pub(super) async fn run(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let ready = api.ready().await?;
    let stats = api.get(&["stats"], &[]).await?.value()?;
    let queues: Vec<QueueView> = parse_rows(&api.get(&["queues"], &[]).await?.rows()?.items)?;
    let workers: Vec<WorkerView> = parse_rows(&api.get(&["workers"], &[]).await?.rows()?.items)?;
    let problems = problems(ready, &stats, &queues, &workers);
    let code = if problems.is_empty() { Code::Done } else { Code::Failed };
    if output.is_json() {
        let health = if problems.is_empty() { "healthy" } else { "degraded" };
        output.object(&json!({
            "status": health, "problems": problems, "server": api.server(), "stats": stats,
            "workers": workers.len(), "queues": queues.len(),
        }))?;
        return Ok(code);
    }
    if output.is_quiet() {
        return Ok(code);
    }
    let uptime = Duration::from_millis(stats["uptime_ms"].as_u64().unwrap_or_default());
    let version = stats["version"].as_str().unwrap_or("?");
    let health = if problems.is_empty() { "healthy" } else { "degraded" };
    output.data(format_args!(
        "{health}   divvy {version} at {}, up {}",
        api.server(),
        words::span(uptime)
    ))?;
    let engine = &stats["engine"];
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let open = ["ready", "leased", "scheduled", "blocked"]
        .map(|name| format!("{name} {}", count(engine, name)));
    output.data(format_args!("open      {}", open.join("   ")))?;
    let ended = ["done", "dead", "cancelled"]
        .map(|name| format!("{name} {}", count(&stats["final"], name)));
    output.data(format_args!("ended     {}", ended.join("   ")))?;
    let held: u64 = workers.iter().map(|worker| u64::from(worker.leased)).sum();
    let paused = queues.iter().filter(|queue| queue.paused).count();
    output.data(format_args!(
        "workers   {} connected, holding {}",
        workers.len(),
        words::count(held, "task")
    ))?;
    output.data(format_args!("queues    {}, {paused} paused", queues.len()))?;
    for problem in problems {
        output.data(format_args!("problem   {problem}"))?;
    }
    Ok(code)
}

fn problems(
    ready: bool,
    stats: &Value,
    queues: &[QueueView],
    workers: &[WorkerView],
) -> Vec<String> {
    let mut problems = Vec::new();
    if !ready {
        problems
            .push("the server does not take work: it starts or stops; look at its log".to_owned());
    }
    if stats["engine"]["disk_full"].as_u64().unwrap_or_default() > 0 {
        problems.push(
            "the disk of the server is nearly full: no new tasks are taken; free some space"
                .to_owned(),
        );
    }
    let waiting: u64 = queues.iter().filter(|queue| !queue.paused).map(|queue| queue.ready).sum();
    let working = workers.iter().filter(|worker| !worker.draining).count();
    if waiting > 0 && working == 0 {
        let tasks = words::count(waiting, "task");
        problems
            .push(format!("{tasks} ready and no worker to run them; start one with `divvy work`"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(paused: bool) -> QueueView {
        let name = "mail".into();
        QueueView {
            name,
            paused,
            blocked: 0,
            scheduled: 0,
            ready: 3,
            leased: 0,
            oldest_ready_ms: Some(1),
        }
    }

    #[test]
    fn waiting_work_without_workers_is_a_problem_unless_it_is_paused() {
        let stats = json!({});
        assert_eq!(problems(true, &stats, &[queue(false)], &[]).len(), 1);
        assert!(problems(true, &stats, &[queue(true)], &[]).is_empty());
        assert!(problems(true, &stats, &[], &[]).is_empty());
    }

    #[test]
    fn a_full_disk_and_a_stopping_server_are_problems() {
        let stats = json!({ "engine": { "disk_full": 1 } });
        assert_eq!(problems(false, &stats, &[], &[]).len(), 2);
    }
}
