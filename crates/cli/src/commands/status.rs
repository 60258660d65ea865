//! `divvy status`: the health of the server on one screen, once or as it changes. Exit code 0 healthy, 1 degraded.
//!
//! What is wrong is the server's own judgement (`GET /api/v1/alerts`): a broken rule that is a fault makes it degraded,
//! a warning is only told.

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Result;
use divvy::api::{Api, parse_rows};
use divvy_autoscale::status::PoolStatus;
use divvy_types::alerts::{Alert, Alerts, Severity};
use divvy_types::overview::QueueStatus;
use divvy_types::view::WorkerView;
use serde_json::{Value, json};

use super::Context;
use crate::args::local::Status;
use crate::exit::Code;
use crate::output::Output;
use crate::output::table::{cut, folded, size};
use crate::output::visible::on_one_line;
use crate::output::words;

/// How often a watched server is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pools that the line about them names.
const POOLS_MAX: usize = 2;

/// Looks and judges, once or until Ctrl-C.
pub(super) async fn run(args: &Status, context: &Context) -> Result<Code> {
    let (api, output) = (context.api()?, &context.output);
    if args.watch {
        return watch(&api, output).await;
    }
    let look = Look::take(&api).await?;
    if output.is_json() {
        output.object(&look.json(&api))?;
    } else if !output.is_quiet() {
        look.lines(&api).iter().try_for_each(|line| output.data(line))?;
    }
    Ok(look.code())
}

/// Draws the screen anew on a terminal; elsewhere tells each change on a line of its own.
async fn watch(api: &Api, output: &Output) -> Result<Code> {
    let in_place = io::stdout().is_terminal() && !output.is_json();
    let mut interval = tokio::time::interval(LOOK_EVERY);
    let mut last = None;
    let mut screen = Screen::default();
    loop {
        interval.tick().await;
        let look = match Look::take(api).await {
            // A server that starts anew is worth the wait, one that cannot be asked is not.
            Err(error) if last.is_some() && error.is_temporary() => Err(error.to_string()),
            other => Ok(other?),
        };
        let seen = look.as_ref().map_or_else(Clone::clone, Look::in_short);
        if in_place {
            let lines =
                look.as_ref().map_or_else(|away| vec![away.clone()], |look| look.lines(api));
            screen.draw(&lines, output)?;
        } else if last.as_ref() != Some(&seen) {
            match &look {
                Ok(look) if output.is_json() => output.object(&look.json(api))?,
                Err(away) if output.is_json() => {
                    output.object(&json!({ "status": "away", "problems": [away] }))?
                }
                _ => output.data(format_args!("{}  {seen}", clock()))?,
            }
        }
        last = Some(seen);
    }
}

/// Lines that are drawn over themselves, below what the terminal showed before.
#[derive(Default)]
struct Screen {
    /// Rows that the last picture took.
    rows: usize,
}

impl Screen {
    fn draw(&mut self, lines: &[String], output: &Output) -> Result<()> {
        let (width, height) = size();
        let (picture, rows) = picture(lines, self.rows, width, height);
        self.rows = rows;
        // At once, so that nobody sees half of it.
        output.bytes(picture.as_bytes())?;
        Ok(())
    }
}

/// What draws these lines over a picture of so many rows, and how many rows it takes. What does not fit is cut: a row that
/// the terminal wraps or scrolls away could not be drawn over.
fn picture(lines: &[String], before: usize, width: usize, height: usize) -> (String, usize) {
    let rows: Vec<String> = lines
        .iter()
        .flat_map(|line| line.split('\n'))
        .map(|row| cut(&on_one_line(row), width))
        .take(height.saturating_sub(1))
        .collect();
    let mut text = if before > 0 { format!("\x1b[{before}A\r") } else { String::new() };
    for row in &rows {
        text.push_str(row);
        // The rest of a longer row of before goes, and nothing blinks.
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    (text, rows.len())
}

/// The time of day in UTC.
fn clock() -> String {
    let now = words::now().to_string();
    now.get(11..19).unwrap_or(&now).to_owned()
}

/// What a server says of itself at one moment.
struct Look {
    stats: Value,
    queues: Vec<QueueStatus>,
    workers: Vec<WorkerView>,
    pools: Vec<PoolStatus>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Look {
    async fn take(api: &Api) -> Result<Self, divvy::api::Error> {
        let ready = api.ready().await?;
        let stats = api.get(&["stats"], &[]).await?.value()?;
        let queues = parse_rows(&api.all(&["queues"]).await?)?;
        let workers = parse_rows(&api.get(&["workers"], &[]).await?.rows()?.items)?;
        let pools = parse_rows(&api.get(&["pools"], &[]).await?.rows()?.items)?;
        let alerts: Alerts = api.get(&["alerts"], &[]).await?.parse()?;
        let problems = problems(ready, &alerts.alerts);
        let warnings = broken(&alerts.alerts, Severity::Warning);
        Ok(Self { stats, queues, workers, pools, problems, warnings })
    }

    fn code(&self) -> Code {
        if self.problems.is_empty() { Code::Done } else { Code::Failed }
    }

    fn health(&self) -> &'static str {
        if self.problems.is_empty() { "healthy" } else { "degraded" }
    }

    fn json(&self, api: &Api) -> Value {
        json!({
            "status": self.health(), "problems": self.problems, "warnings": self.warnings,
            "server": api.server(), "stats": self.stats,
            "workers": self.workers.len(), "queues": self.queues.len(), "pools": self.pools,
        })
    }

    /// What makes this look another one than the last, as a line.
    fn in_short(&self) -> String {
        let problems: String =
            self.problems.iter().chain(&self.warnings).map(|text| format!("; {text}")).collect();
        let workers = words::count(self.workers.len() as u64, "worker");
        format!("{}: {}, {}, {workers}{problems}", self.health(), self.open(", "), self.ended(", "))
    }

    fn open(&self, gap: &str) -> String {
        let engine = &self.stats["engine"];
        let count = |name: &str| engine[name].as_u64().unwrap_or_default();
        let queued = count("queued");
        let running = count("leased").saturating_sub(queued);
        let rest = counts(engine, &["ready", "scheduled", "blocked"], gap);
        format!("running {running}{gap}queued at workers {queued}{gap}{rest}")
    }

    fn ended(&self, gap: &str) -> String {
        counts(&self.stats["final"], &["done", "dead", "cancelled"], gap)
    }

    fn lines(&self, api: &Api) -> Vec<String> {
        let uptime = Duration::from_millis(self.stats["uptime_ms"].as_u64().unwrap_or_default());
        let version = self.stats["version"].as_str().unwrap_or("?");
        let paused = self.queues.iter().filter(|status| status.queue.paused).count();
        let mut lines = vec![
            format!(
                "{:<10}divvy {version} at {}, up {}",
                self.health(),
                api.server(),
                words::span(uptime)
            ),
            format!("open      {}", self.open("   ")),
            format!("ended     {}", self.ended("   ")),
            format!("workers   {} connected", self.workers.len()),
            format!("queues    {}, {paused} paused", self.queues.len()),
        ];
        if !self.pools.is_empty() {
            lines.insert(4, format!("pools     {}", pools(&self.pools)));
        }
        for (word, texts) in [("problem", &self.problems), ("warning", &self.warnings)] {
            lines.extend(texts.iter().map(|text| format!("{word:<10}{}", folded(text, 10))));
        }
        lines
    }
}

/// The first pools in a line: how many workers each has of how many it wants.
fn pools(pools: &[PoolStatus]) -> String {
    let one = |pool: &PoolStatus| {
        let wanted: u32 = pool.wanted.values().sum();
        format!("{} {} of {wanted} ({} to {})", pool.name, pool.running, pool.min, pool.max)
    };
    let more = pools.len().saturating_sub(POOLS_MAX);
    let first: Vec<String> = pools.iter().take(POOLS_MAX).map(one).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

fn counts(of: &Value, names: &[&str], gap: &str) -> String {
    let count = |name: &&str| format!("{name} {}", of[*name].as_u64().unwrap_or_default());
    names.iter().map(count).collect::<Vec<_>>().join(gap)
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
    let broken =
        alerts.iter().filter(|alert| alert.needs_attention() && alert.severity == severity);
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
    fn a_picture_is_drawn_over_the_one_before_it() {
        let lines = ["one\n  more".to_owned(), "a long line of text".to_owned()];
        let (text, rows) = picture(&lines, 0, 10, 24);
        assert_eq!((text.as_str(), rows), ("one\x1b[K\n  more\x1b[K\na long li…\x1b[K\n\x1b[J", 3));
        let (text, rows) = picture(&lines[1..], rows, 80, 24);
        assert_eq!((text.as_str(), rows), ("\x1b[3A\ra long line of text\x1b[K\n\x1b[J", 1));
        assert_eq!(picture(&lines, 0, 80, 3).1, 2, "no more than the terminal has");
    }

    #[test]
    fn faults_are_problems_and_warnings_are_not() {
        let alert = |name: &str, pending, severity| Alert {
            name: name.to_owned().into(),
            pending,
            severity,
            text: name.to_owned(),
            cure: Some("act".to_owned()),
            ..Alert::default()
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
