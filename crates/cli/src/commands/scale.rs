//! `divvy scale`: how pools of workers stand, why, what they did, and what may be asked of them by hand.

use anyhow::Result;
use divvy::api::{Reply, parse_rows};
use divvy_autoscale::Change;
use divvy_autoscale::status::{PoolExplained, PoolStatus, Simulated, SimulatedStep, Trial};
use divvy_types::Timestamp;
use serde_json::json;

use super::Context;
use crate::args::scale::{Scale, Simulate};
use crate::exit::Code;
use crate::output::table::{Cell, Table, folded};
use crate::output::words;

/// Steps of a simulation that are shown: those at which something changes, the last ones of many.
const STEPS_MAX: usize = 20;

/// Does what is asked.
pub(super) async fn run(args: Scale, context: &Context) -> Result<Code> {
    match args {
        Scale::Status { pool } => status(pool.as_deref(), context).await,
        Scale::History { pool, limit } => history(&pool, limit, context).await,
        Scale::Explain { pool } => explain(&pool, context).await,
        Scale::Set { pool, workers } => {
            let body = json!({ "workers": workers.0 });
            let reply = context.api()?.put(&["pools", &pool, "workers"], &body).await?;
            let what = match workers.0 {
                Some(workers) => format!("holds {}", words::count(workers.into(), "worker")),
                None => "decides by itself again".to_owned(),
            };
            say(&pool, &what, &reply, context)
        }
        Scale::Pause { pool } => {
            let reply = context.api()?.post(&["pools", &pool, "pause"], &json!({})).await?;
            say(&pool, "is paused: it changes nothing until it is resumed", &reply, context)
        }
        Scale::Resume { pool } => {
            let reply = context.api()?.post(&["pools", &pool, "resume"], &json!({})).await?;
            say(&pool, "goes on", &reply, context)
        }
        Scale::Simulate(args) => simulate(args, context).await,
    }
}

fn say(pool: &str, what: &str, reply: &Reply, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        output.raw(reply.text())?;
    } else if output.is_quiet() {
        output.data(pool)?;
    } else {
        output.data(format_args!("pool {pool} {what}"))?;
    }
    Ok(Code::Done)
}

async fn status(pool: Option<&str>, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    let pools: Vec<PoolStatus> = match pool {
        Some(pool) => vec![api.get(&["pools", pool], &[]).await?.parse()?],
        None => parse_rows(&api.get(&["pools"], &[]).await?.rows()?.items)?,
    };
    if output.is_json() {
        pools.iter().try_for_each(|pool| output.object(&json!(pool)))?;
        return Ok(Code::Done);
    }
    if output.is_quiet() {
        pools.iter().try_for_each(|pool| output.data(&pool.name))?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&[
        "POOL",
        "DRIVER",
        ">WANTED",
        ">RUNNING",
        ">STARTING",
        ">LEAVING",
        ">TASKS",
        "BOUNDS",
        "=HOW",
    ]);
    pools.iter().for_each(|pool| table.row(row(pool)));
    table.print(output)?;
    for pool in &pools {
        output.data(format_args!(
            "{}: {}",
            pool.name,
            folded(&pool.reason, pool.name.len() + 2)
        ))?;
        if let Some(problem) = &pool.problem {
            output.data(format_args!("  {}", folded(problem, 2)))?;
        }
    }
    if pools.is_empty() {
        output.note("no pool; `divvy up --workers auto` has one, others are in divvy.yaml");
    }
    Ok(Code::Done)
}

fn row(pool: &PoolStatus) -> [Cell; 9] {
    let wanted: u32 = pool.wanted.values().sum();
    let how = match (pool.set, pool.paused) {
        (_, true) => "paused".to_owned(),
        (Some(set), _) => format!("set to {set}"),
        _ => word(&pool.policy),
    };
    let wanted_text = wanted.to_string();
    [
        pool.name.as_str().into(),
        pool.driver.as_str().into(),
        if pool.problem.is_some() { Cell::colored(wanted_text, "31") } else { wanted_text.into() },
        pool.running.to_string().into(),
        pool.starting.to_string().into(),
        pool.draining.to_string().into(),
        (pool.tasks_waiting + pool.tasks_running).to_string().into(),
        format!("{} to {}", pool.min, pool.max).into(),
        how.into(),
    ]
}

/// The word of a policy or another value that JSON writes as a word.
fn word(value: &impl serde::Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

async fn history(pool: &str, limit: usize, context: &Context) -> Result<Code> {
    let output = &context.output;
    let rows = context.api()?.get(&["pools", pool, "history"], &[]).await?.rows()?.items;
    if output.is_json() {
        rows.iter().take(limit).try_for_each(|row| output.raw(row.get()))?;
        return Ok(Code::Done);
    }
    let changes: Vec<Change> = parse_rows(&rows)?;
    let mut table = Table::new(&["=WHEN", ">FROM", ">TO", "WHY"]);
    let now = words::now();
    for change in changes.iter().take(limit) {
        table.row([
            words::relative(change.at, now).into(),
            change.from.to_string().into(),
            change.to.to_string().into(),
            change.reason.as_str().into(),
        ]);
    }
    table.print(output)?;
    if changes.is_empty() {
        output.note("this pool has not changed yet");
    }
    Ok(Code::Done)
}

async fn explain(pool: &str, context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.get(&["pools", pool, "explain"], &[]).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let told: PoolExplained = reply.parse()?;
    lines(&told, words::now()).iter().try_for_each(|line| output.data(line))?;
    Ok(Code::Done)
}

fn lines(told: &PoolExplained, now: Timestamp) -> Vec<String> {
    let status = &told.status;
    let wanted: u32 = status.wanted.values().sum();
    let mut lines = vec![
        format!(
            "pool      {}, {} to {} workers by {}, driver {}",
            status.name,
            status.min,
            status.max,
            word(&status.policy),
            status.driver
        ),
        format!("goal      {}", status.goal),
        format!(
            "workers   wanted {wanted}   running {}   starting {}   leaving {}",
            status.running, status.starting, status.draining
        ),
        format!("tasks     waiting {}   running {}", status.tasks_waiting, status.tasks_running),
        format!(
            "decided   {}: {}",
            words::relative(status.decided_at, now),
            folded(&status.reason, 10)
        ),
    ];
    if let Some(bound) = status.bound {
        lines.push(format!("bound     {}", bound.words()));
    }
    if let Some(problem) = &status.problem {
        lines.push(format!("problem   {}", folded(problem, 10)));
    }
    let costs = &status.costs;
    if costs.total > 0.0 || costs.per_hour > 0.0 {
        lines.push(format!(
            "cost      {:.2} per hour, {:.2} so far (always at the maximum {:.2}, HPA {:.2})",
            costs.per_hour, costs.total, costs.fixed_total, costs.hpa_total
        ));
    }
    if let Some(energy) = costs.energy_kwh {
        lines.push(format!("energy    {energy:.3} kWh so far"));
    }
    for text in
        told.explanation.iter().flat_map(|explanation| &explanation.words).chain(&told.notes)
    {
        lines.push(format!("          {}", folded(text, 10)));
    }
    for worker in &told.workers {
        let state = if worker.draining { ", leaves" } else { "" };
        lines.push(format!(
            "worker    {} ({}): runs {}, {} in line, {} affinity keys{state}",
            worker.name, worker.worker_type, worker.running, worker.queued, worker.affinity_keys
        ));
    }
    lines
}

async fn simulate(args: Simulate, context: &Context) -> Result<Code> {
    let Simulate { pool, policy, min, max, goal } = args;
    let output = &context.output;
    let trial = Trial { policy, min, max, goal };
    let reply = context.api()?.post(&["pools", &pool, "simulate"], &trial).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let simulated: Simulated = reply.parse()?;
    let changes = changing(&simulated.steps);
    let headings =
        ["=WHEN", ">WAITED", ">WOULD WAIT", ">THERE WERE", ">WOULD BE", ">WANTED", "WHY"];
    let mut table = Table::new(&headings);
    let now = words::now();
    for step in changes.iter().skip(changes.len().saturating_sub(STEPS_MAX)) {
        table.row([
            words::relative(step.at, now).into(),
            step.waiting.to_string().into(),
            step.would_wait.to_string().into(),
            step.workers.to_string().into(),
            step.would_work.to_string().into(),
            step.wanted.to_string().into(),
            step.reason.as_str().into(),
        ]);
    }
    table.print(output)?;
    output.data(format_args!(
        "{} by {} with {} to {}: {}, cost {:.2}",
        words::count(simulated.steps.len() as u64, "sample"),
        word(&simulated.policy),
        simulated.min,
        simulated.max,
        words::count(simulated.changes.into(), "change"),
        simulated.costs.total
    ))?;
    output.note(
        "what arrived is what was seen; who works and what waits follows; nothing was changed",
    );
    Ok(Code::Done)
}

/// Steps at which something else is wanted than before.
fn changing(steps: &[SimulatedStep]) -> Vec<&SimulatedStep> {
    let first = steps.first().into_iter();
    let later =
        steps.windows(2).filter(|pair| pair[0].wanted != pair[1].wanted).map(|pair| &pair[1]);
    first.chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_fits_the_screen_and_names_what_holds() {
        let status = PoolStatus {
            name: "encoders".into(),
            driver: "exec".into(),
            max: 10,
            wanted: [("small".into(), 3)].into(),
            running: 2,
            starting: 1,
            reason: "120 tasks wait and have to start within 30 s".into(),
            bound: Some(divvy_autoscale::Bound::Maximum),
            ..PoolStatus::default()
        };
        let told = PoolExplained { status, ..PoolExplained::default() };
        let text = lines(&told, Timestamp(0)).join("\n");
        assert!(text.contains("encoders, 0 to 10 workers by objective, driver exec"), "{text}");
        assert!(text.contains("wanted 3   running 2   starting 1"), "{text}");
        assert!(text.contains("the maximum of the pool holds"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
