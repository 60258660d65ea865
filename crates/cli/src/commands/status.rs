//! `divvy status`: the health of the server on one screen. Exit code 0 healthy, 1 degraded.
//!
//! What is wrong is the server's own judgement (`GET /api/v1/alerts`): a broken rule that is a fault makes it degraded,
//! a warning is only told.

use std::time::Duration;

use anyhow::Result;
use divvy_types::overview::{Alert, Alerts, QueueStatus, Severity};
use divvy_types::view::WorkerView;
use serde_json::{Value, json};

use super::Context;
use crate::exit::Code;
use crate::output::table::folded;
use crate::output::words;
use divvy::api::parse_rows;

/// Looks and judges.
pub(super) async fn run(context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let ready = api.ready().await?;
    let stats = api.get(&["stats"], &[]).await?.value()?;
    let queues: Vec<QueueStatus> = parse_rows(&api.all(&["queues"]).await?)?;
    let workers: Vec<WorkerView> = parse_rows(&api.get(&["workers"], &[]).await?.rows()?.items)?;
    let alerts: Alerts = api.get(&["alerts"], &[]).await?.parse()?;
    let problems = problems(ready, &alerts.alerts);
    let warnings = broken(&alerts.alerts, Severity::Warning);
    let code = if problems.is_empty() { Code::Done } else { Code::Failed };
    if output.is_json() {
        let health = if problems.is_empty() { "healthy" } else { "degraded" };
        output.object(&json!({
            "status": health, "problems": problems, "warnings": warnings,
            "server": api.server(), "stats": stats,
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
    let paused = queues.iter().filter(|status| status.queue.paused).count();
    output.data(format_args!(
        "workers   {} connected, holding {}",
        workers.len(),
        words::count(held, "task")
    ))?;
    output.data(format_args!("queues    {}, {paused} paused", queues.len()))?;
    for (word, lines) in [("problem", problems), ("warning", warnings)] {
        for line in lines {
            output.data(format_args!("{word}   {}", folded(&line, 10)))?;
        }
    }
    Ok(code)
}

fn problems(ready: bool, alerts: &[Alert]) -> Vec<String> {
    let mut problems = Vec::new();
    if !ready {
        problems
            .push("the server does not take work: it starts or stops; look at its log".to_owned());
    }
    problems.extend(broken(alerts, Severity::Fault));
    problems
}

fn broken(alerts: &[Alert], severity: Severity) -> Vec<String> {
    let broken = alerts.iter().filter(|alert| alert.firing && alert.severity == severity);
    broken
        .map(|alert| match &alert.cure {
            Some(cure) => format!("{}; {cure}", alert.text),
            None => alert.text.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_problems_and_warnings_are_not() {
        let alert = |name: &str, firing, severity| Alert {
            name: name.to_owned().into(),
            firing,
            severity,
            text: name.to_owned(),
            cure: Some("act".to_owned()),
        };
        let alerts = [
            alert("disk", true, Severity::Fault),
            alert("file", false, Severity::Fault),
            alert("busy", true, Severity::Warning),
        ];
        assert_eq!(problems(true, &alerts), ["disk; act"]);
        assert_eq!(problems(false, &alerts).len(), 2);
        assert_eq!(broken(&alerts, Severity::Warning), ["busy; act"]);
    }
}
