//! `divvy alert`: lists alerts, silences one, and tries out who is told. `list` ends with exit code 1 while a fault fires.

use anyhow::Result;
use divvy_types::alerts::{
    Alert as Rule, AlertState, AlertTest, Alerts, NewSilence, Severity, Silenced,
};

use super::Context;
use crate::args::alerts::{Alert, Silence};
use crate::exit::Code;
use crate::output::table::{Cell, Table, folded};
use crate::output::words;

/// How long a silence is unless told otherwise.
const SILENCE_SEC: u64 = 3_600;
/// Where the texts of a list begin.
const INDENT: usize = 10;

/// Does what is asked.
pub(super) async fn run(args: Alert, context: &Context) -> Result<Code> {
    match args {
        Alert::List { all, history } => list(all, history, context).await,
        Alert::Silence(args) => silence(&args, context).await,
        Alert::Test => test(context).await,
    }
}

async fn list(all: bool, history: bool, context: &Context) -> Result<Code> {
    let output = &context.output;
    let alerts: Alerts = context.api()?.get(&["alerts"], &[]).await?.parse()?;
    if history {
        return show_history(&alerts, context);
    }
    let is_fault = |rule: &Rule| rule.firing && rule.severity == Severity::Fault;
    let code = if alerts.alerts.iter().any(is_fault) { Code::Failed } else { Code::Done };
    let shown: Vec<&Rule> =
        alerts.alerts.iter().filter(|rule| all || rule.needs_attention()).collect();
    if output.is_json() {
        shown.iter().try_for_each(|rule| output.object(&serde_json::to_value(rule)?))?;
    } else if output.is_quiet() {
        shown.iter().try_for_each(|rule| output.data(&rule.name))?;
    } else if all {
        let mut table =
            Table::new(&["=RULE", "=STATE", "=SEVERITY", ">VALUE", ">FIRES AT", "TEXT"]);
        for rule in &shown {
            table.row(row(rule));
        }
        table.print(output)?;
    } else {
        shown.iter().try_for_each(|rule| tell(rule, &alerts, context))?;
    }
    if shown.is_empty() {
        output.note("no alert fires; see all rules with `divvy alert list --all`");
    }
    Ok(code)
}

fn state(rule: &Rule) -> &'static str {
    match (rule.firing, rule.pending) {
        (true, _) => "fires",
        (false, true) => "pending",
        (false, false) => "well",
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Fault => "fault",
        Severity::Warning => "warning",
    }
}

fn row(rule: &Rule) -> [Cell; 6] {
    let color = if rule.severity == Severity::Fault { "31" } else { "33" };
    let state = if rule.firing { Cell::colored(state(rule), color) } else { state(rule).into() };
    [
        rule.name.as_str().into(),
        state,
        severity(rule.severity).into(),
        number(rule.value).into(),
        number(rule.fires_at).into(),
        rule.text.as_str().into(),
    ]
}

/// Not more digits than anyone reads.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn tell(rule: &Rule, alerts: &Alerts, context: &Context) -> Result<()> {
    let output = &context.output;
    let since = rule.since.map(|at| words::relative(at, alerts.time)).unwrap_or_default();
    let word = state(rule);
    let kind = severity(rule.severity);
    output.data(format_args!("{:<INDENT$}{} ({kind}, since {since})", word, rule.name))?;
    output.data(format_args!("{:INDENT$}{}", "", folded(&rule.text, INDENT)))?;
    if let Some(cure) = &rule.cure {
        output.data(format_args!("{:INDENT$}cure: {}", "", folded(cure, INDENT)))?;
    }
    if let Some(until) = rule.silenced_until {
        let until = words::relative(until, alerts.time);
        output.data(format_args!("{:INDENT$}silenced, ends {until}", ""))?;
    }
    Ok(())
}

fn show_history(alerts: &Alerts, context: &Context) -> Result<Code> {
    let output = &context.output;
    if output.is_json() {
        let rows = alerts.history.iter();
        rows.map(serde_json::to_value).try_for_each(|row| output.object(&row?))?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["=WHEN", "=RULE", "=WHAT", "=SEVERITY", "TEXT"]);
    for change in &alerts.history {
        let what = change.state.as_str();
        let color = if change.state == AlertState::Fired { "33" } else { "32" };
        table.row([
            words::relative(change.at, alerts.time).into(),
            change.name.as_str().into(),
            Cell::colored(what, color),
            severity(change.severity).into(),
            change.text.as_str().into(),
        ]);
    }
    table.print(output)?;
    if alerts.history.is_empty() {
        output.note("no alert has fired yet");
    }
    Ok(Code::Done)
}

async fn silence(args: &Silence, context: &Context) -> Result<Code> {
    let (api, output, name) = (context.api()?, &context.output, &args.name);
    let reply = if args.end {
        api.delete(&["alerts", name, "silence"]).await?
    } else {
        let for_sec = args.span.map_or(SILENCE_SEC, |span| span.as_ms().div_ceil(1_000));
        api.post(&["alerts", name, "silence"], &NewSilence { for_sec }).await?
    };
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let silenced: Silenced = reply.parse()?;
    match silenced.silenced_until {
        _ if output.is_quiet() => output.data(name)?,
        Some(until) => {
            output.data(format_args!("nobody is told of {name} until {until}"))?;
        }
        None => output.data(format_args!("others are told of {name} again"))?,
    }
    Ok(Code::Done)
}

async fn test(context: &Context) -> Result<Code> {
    let output = &context.output;
    let reply = context.api()?.post(&["alerts", "test"], &serde_json::json!({})).await?;
    if output.is_json() {
        output.raw(reply.text())?;
        return Ok(Code::Done);
    }
    let test: AlertTest = reply.parse()?;
    for sent in &test.sent {
        if output.is_quiet() {
            output.data(sent.task)?;
        } else {
            output.data(format_args!("{} is told by task {}", sent.sink, sent.task))?;
        }
    }
    match test.sent.as_slice() {
        [] => output.note("only the log of the server is told; add alerts.sinks to its divvy.yaml"),
        [first, ..] => {
            output.note(format_args!("see whether it arrives: divvy wait {}", first.task));
        }
    }
    Ok(Code::Done)
}
