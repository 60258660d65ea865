//! `divvy plan`: how many workers a load needs, at what cost and with what risk. The report goes to stdout, the page to a
//! file, progress to stderr.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use divvy_lab::Progress;
use divvy_lab::plan::answer::Error;
use divvy_lab::plan::input::Stage;
use divvy_lab::plan::replay::Course;
use divvy_lab::plan::{Answer, answer, fit, show};
use divvy_lab::report::{html, text};
use serde_json::json;

use super::Context;
use super::lab::{COLUMNS_MAX, Draft, StopOnDrop, bar};
use crate::args::plan::Plan as Args;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::output::table;
use crate::plan::check::{self, Compared, StageCost, Verdict};
use crate::plan::file::PlanFile;
use crate::plan::{history, samples};

/// Does what is asked.
pub(super) async fn run(args: &Args, context: &Context) -> Result<Code> {
    let output = &context.output;
    if !args.check.is_empty() {
        let compared = check::run(&args.check, args.slots, args.busy, context).await?;
        tell(&compared, output)?;
        return Ok(match compared.verdict {
            Verdict::Within => Code::Done,
            Verdict::NotWithin => Code::Failed,
            Verdict::Undecided => Code::Refused,
        });
    }
    let Some(path) = &args.file else {
        let measured = samples::measure(&args.calibrate, args.slots, context).await?;
        return print_stages(&fit::stages(&measured), output);
    };
    let mut file = PlanFile::read(path)?;
    if let Some(days) = args.days {
        file.plan.days = days;
    }
    if let Some(seeds) = args.seeds {
        file.plan.seeds = seeds;
    }
    let page = args.html.as_deref().map(Draft::at).transpose()?;
    if let Some(name) = &args.from_history {
        take_history(&mut file, name, context).await?;
    }
    if !args.calibrate.is_empty() {
        let measured = samples::measure(&args.calibrate, args.slots, context).await?;
        file.plan.stages = fit::stages(&measured);
        let count = args.calibrate.len();
        let words = format!("stages cost what they did with {count} samples on this machine");
        file.plan.assumptions.push(words);
    }
    let answer = find(&file, output).await?;
    let report = show::report(&answer);
    match output.is_json() {
        true => output.object(&answer)?,
        false => {
            let text = text::render(&report, table::width().min(COLUMNS_MAX), output.has_color());
            output.bytes(text.as_bytes())?;
        }
    }
    if let Some(page) = page {
        let lead = "How many workers a load needs, at what cost and with what risk: divvy's own scheduler and \
                    autoscaler in simulated time.";
        page.finish(&html::page_of("divvy plan", lead, &[report]), output)?;
    }
    match show::why_not(&answer) {
        None => Ok(Code::Done),
        Some(why) => {
            let failure = Failure::new(Code::Failed, why);
            Err(failure.cure("change the goal, the budget or the workers of the plan").into())
        }
    }
}

/// Takes arrivals of the server, and stages if the plan has none.
async fn take_history(file: &mut PlanFile, name: &str, context: &Context) -> Result<()> {
    let api = context.api()?;
    let past = history::ask(&api, name).await?;
    let words = format!("arrivals are those of {} items in the history of a server", past.items);
    file.plan.assumptions.push(words);
    if file.plan.stages.is_empty() {
        file.plan.stages = history::stages(&api, &past).await?;
        let words =
            "stages cost what the server's connected workers have learnt, whatever the size";
        file.plan.assumptions.push(words.into());
    }
    let arrivals = &mut file.plan.arrivals;
    arrivals.per_hour = Some(past.per_hour);
    arrivals.trace = None;
    arrivals.counts.clear();
    Ok(())
}

/// Searches off the async threads. If the caller goes away, the search is told to stop.
async fn find(file: &PlanFile, output: &Output) -> Result<Answer> {
    file.plan.check().map_err(|wrong| file.failure(&wrong))?;
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let (stopped, plan) = (Arc::clone(&stop.0), file.plan.clone());
    let bar = bar("plan", output);
    let shown = bar.clone();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = move || {
        let mut watch = |step: divvy_lab::experiment::Step<'_>| {
            shown.set_length(step.total);
            shown.set_position(step.done);
            shown.set_message(step.what.to_owned());
        };
        answer(&plan, threads, &mut Progress::new(&mut watch, &stopped))
    };
    let ended = tokio::task::spawn_blocking(work).await.context("the search broke off")?;
    bar.finish_and_clear();
    drop(stop);
    ended.map_err(|error| match error {
        Error::Wrong(wrong) => file.failure(&wrong).into(),
        Error::Run(error) => error.into(),
    })
}

/// Prints stages as they stand in a plan.
fn print_stages(stages: &[Stage], output: &Output) -> Result<Code> {
    if output.is_json() {
        output.object(&json!({ "stages": stages }))?;
        return Ok(Code::Done);
    }
    output.data("stages:")?;
    for stage in stages {
        // A line of JSON is a line of YAML.
        output.data(format_args!("  - {}", serde_json::to_string(&rounded(stage))?))?;
    }
    Ok(Code::Done)
}

fn rounded(stage: &Stage) -> Stage {
    let digits = |value: f64| (value * 1e4).round() / 1e4;
    Stage {
        sec: digits(stage.sec),
        sec_per_gb: digits(stage.sec_per_gb),
        spread: stage.spread.round(),
        ..stage.clone()
    }
}

fn tell(compared: &Compared, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.object(compared);
    }
    let Compared { predicted, measured, in_hindsight, by_size, items, slots, .. } = compared;
    output.data(format_args!("{items} items, {slots} slot(s); seconds from arrival to done"))?;
    let heads = ["PERCENTILE", ">PREDICTED", ">MEASURED", ">OFF", ">IN HINDSIGHT", "BY SIZE"];
    let mut table = table::Table::new(&heads);
    let (middle, between) = (&by_size.middle, (by_size.p50_between, by_size.p95_between));
    let times = |course: &Course| [course.p50, course.p95];
    let rows = [("p50", compared.off_p50, between.0), ("p95", compared.off_p95, between.1)];
    for (place, (name, off, (least, most))) in rows.into_iter().enumerate() {
        let of = |course: &Course| times(course)[place];
        table.row([
            name.into(),
            format!("{:.2}", of(predicted)).into(),
            format!("{:.2}", of(measured)).into(),
            format!("{:+.1} %", off * 100.0).into(),
            format!("{:.2}", of(in_hindsight)).into(),
            format!("{:.2} ({least:.2} to {most:.2})", of(middle)).into(),
        ]);
    }
    table.print(output)?;
    tell_stages(compared, output)?;
    tell_rounds(compared, output)?;
    let within = format!("{:.0} %", compared.within * 100.0);
    let verdict = match compared.verdict {
        Verdict::Within => format!("within {within}"),
        Verdict::NotWithin => format!("NOT within {within}"),
        Verdict::Undecided => format!(
            "undecided: the speed of this machine changed during the check, and a verdict\n\
             would be about the machine. What the two rounds predict is more than {within}\n\
             apart; check again when the machine does nothing else"
        ),
    };
    output.data(verdict)?;
    Ok(())
}

/// Says whether the machine was the same before and after.
fn tell_rounds(compared: &Compared, output: &Output) -> Result<()> {
    let Compared { before, after, apart, .. } = compared;
    let mut table = table::Table::new(&["ROUND", ">SECONDS", ">P50 PREDICTED", ">P95 PREDICTED"]);
    for (name, round) in [("before", before), ("after", after)] {
        let values = [round.cost_sec, round.p50, round.p95];
        let [cost, p50, p95] = values.map(|value| format!("{value:.2}"));
        table.row([name.into(), cost.into(), p50.into(), p95.into()]);
    }
    let shares = [apart.cost, apart.p50, apart.p95];
    let [cost, p50, p95] = shares.map(|share| format!("{:+.1} %", share * 100.0));
    table.row(["apart".into(), cost.into(), p50.into(), p95.into()]);
    output.data("\nfiles measured one by one, before and after they came")?;
    table.print(output)?;
    Ok(())
}

/// Says why a prediction is off: what was expected of each stage, and what it took.
fn tell_stages(compared: &Compared, output: &Output) -> Result<()> {
    let heads = ["STAGE", ">TASKS", ">PREDICTED", ">MEASURED", ">OFF", ">BY SIZE"];
    let mut table = table::Table::new(&heads);
    let mut sums = [0.0; 4];
    let mut row = |name: &str, [tasks, predicted, measured, by_size]: [f64; 4]| {
        let off = match measured > 0.0 {
            true => format!("{:+.1} %", (predicted / measured - 1.0) * 100.0),
            false => String::from("-"),
        };
        table.row([
            name.into(),
            format!("{tasks}").into(),
            format!("{predicted:.2}").into(),
            format!("{measured:.2}").into(),
            off.into(),
            format!("{by_size:.2}").into(),
        ]);
    };
    for StageCost { name, predicted, measured, by_size } in compared.stages() {
        let costs = [measured.tasks, predicted.sec, measured.sec, by_size.sec];
        sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
        row(name, costs);
    }
    row("all", sums);
    output.data("\nseconds that the stages took in all, and their tasks")?;
    table.print(output)?;
    let percent = |course: &Course| format!("{:.0} %", course.busy * 100.0);
    let (told, found) = (percent(&compared.predicted), percent(&compared.measured));
    output.data(format_args!("slots in use: {told} predicted, {found} measured"))?;
    Ok(())
}
