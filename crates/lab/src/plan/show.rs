//! Decides how an answer is told: one report with tables, sentences, charts and verdicts, in plain words.

use divvy_autoscale::policy_name;

use super::answer::{Answer, Fleet, Judged, Times};
use super::input::{Stage, Worker};
use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::report::number::{brief, count, counted, decimal, percent};
use crate::report::{Cell, Report, Table};

/// Points of a line of completion times.
const POINTS: usize = 100;

/// The answer as a report.
pub fn report(answer: &Answer) -> Report {
    let plan = &answer.plan;
    let title = if plan.title.is_empty() { "how many workers" } else { &plan.title };
    let mut report = Report::new("plan", title, asked(answer));
    report.tables.push(first_guess(answer));
    report.tables.push(fleets(answer));
    report.tables.push(times(answer));
    report.tables.push(split(answer));
    report.tables.push(sensitivity(answer));
    report.tables.push(assumptions(answer));
    find(&mut report, answer);
    charts(&mut report, answer);
    judge(&mut report, answer);
    report
}

fn asked(answer: &Answer) -> String {
    let (plan, load) = (&answer.plan, &answer.load);
    format!(
        "{} {}s a day, {} in the busiest hour, {} of work each on average. {} % of them are to be done within {}.",
        count(load.items_day.round() as u64),
        plan.item,
        count(load.peak_items_hour.round() as u64),
        span(load.work_sec),
        plain(plan.goal.percentile),
        span(plan.goal.within_sec),
    )
}

fn first_guess(answer: &Answer) -> Table {
    let (load, guess) = (&answer.load, &answer.guess);
    let mut table = Table::new("First guess: one queue, random arrivals, no boots (Erlang C)")
        .text("hour")
        .number("busy slots", "", 1)
        .number("slots needed", "", 0)
        .text("workers");
    let workers = |slots: Option<u32>| match (slots, answer.plan.worker(&guess.worker)) {
        (Some(slots), Some(worker)) => format!("{} {}", slots.div_ceil(worker.slots), worker.name),
        _ => "none are enough".into(),
    };
    let rows = [
        ("average", load.busy_slots, guess.slots),
        ("busiest", load.peak_busy_slots, guess.peak_slots),
    ];
    for (name, busy, slots) in rows {
        table.row([name.into(), busy.into(), slots.into(), workers(slots).into()]);
    }
    table
}

fn all(answer: &Answer) -> impl Iterator<Item = &Judged> {
    std::iter::once(&answer.best).chain(&answer.others)
}

fn fleets(answer: &Answer) -> Table {
    let mut table = Table::new("Fleets, simulated")
        .text("fleet")
        .text("workers")
        .number("late", "%", 2)
        .number("used", "%", 0)
        .number("a month", "", 0)
        .text("goal");
    for judged in all(answer) {
        table.row([
            judged.name.as_str().into(),
            words(&judged.fleet).into(),
            (judged.missed * 100.0).into(),
            (judged.utilisation * 100.0).into(),
            judged.month.into(),
            if judged.met { "met" } else { "missed" }.into(),
        ]);
    }
    table
}

fn times(answer: &Answer) -> Table {
    let mut table = Table::new("Times from arrival, over all seeds")
        .text("fleet")
        .text("until")
        .text("p50")
        .text("p95")
        .text("p99");
    for judged in all(answer) {
        let mut row = |until: &str, times: &Times| {
            let cells = [times.p50, times.p95, times.p99].map(|time| told(time).into());
            let [p50, p95, p99] = cells;
            table.row([judged.name.as_str().into(), until.into(), p50, p95, p99]);
        };
        row("start", &judged.start);
        row("done", &judged.end);
        if let Some(times) = &judged.urgent_end {
            row("done, priority", times);
        }
    }
    table
}

fn split(answer: &Answer) -> Table {
    let mut table = Table::new("What the cheapest fleet costs in a month of 30 days")
        .text("workers")
        .number("always there", "", 0)
        .number("on top", "", 0)
        .number("share", "%", 0);
    for (name, split) in &answer.best.split {
        let share = (split.base + split.burst) / answer.best.month.max(1e-9) * 100.0;
        table.row([name.as_str().into(), split.base.into(), split.burst.into(), share.into()]);
    }
    table
}

fn sensitivity(answer: &Answer) -> Table {
    let goal = format!("p{}", plain(answer.plan.goal.percentile));
    let mut table = Table::new("The same fleet with a fifth less and a fifth more of each input")
        .text("input")
        .text(format!("-20 %: {goal}"))
        .number("late", "%", 1)
        .number("a month", "", 0)
        .text(format!("+20 %: {goal}"))
        .number("late", "%", 1)
        .number("a month", "", 0);
    for row in &answer.sensitivity {
        let [less, more] = [&row.less, &row.more].map(|effect| {
            let mark = if effect.met { "" } else { ", missed" };
            let time: Cell = format!("{}{mark}", told(effect.goal_sec)).into();
            [time, (effect.missed * 100.0).into(), effect.month.into()]
        });
        table.row([Cell::from(row.input.as_str())].into_iter().chain(less).chain(more));
    }
    table
}

/// Everything that was assumed: what the plan says, and what the simulation adds.
fn assumptions(answer: &Answer) -> Table {
    let plan = &answer.plan;
    let mut table = Table::new("What is assumed").text("about").text("assumption");
    let mut row = |about: &str, words: String| table.row([about.into(), words.into()]);
    let random = if plan.arrivals.evenly { "at equal distances" } else { "at random (Poisson)" };
    let from = match plan.arrivals.counts.is_empty() {
        true => "as many as the plan says for each hour",
        false => "as many as the trace says for each interval",
    };
    row("arrivals", format!("{from}, {random} within it; every day is alike"));
    for class in &plan.sizes {
        let size = match (class.from_gb, class.to_gb, class.mean_gb) {
            (Some(from), Some(to), _) if from == to => format!("all of {} GB", brief(from)),
            (Some(from), Some(to), _) => {
                format!("{} to {} GB, evenly over orders of magnitude", brief(from), brief(to))
            }
            (_, _, mean) => format!("around {} GB (exponential)", brief(mean.unwrap_or(0.0))),
        };
        row("sizes", format!("{} %: {size}", plain(class.share)));
    }
    for stage in &plan.stages {
        row("stage", stage_words(stage));
    }
    for worker in &plan.workers {
        row("worker", worker_words(worker));
    }
    if plan.priority > 0.0 {
        let share = plain(plan.priority);
        row("priority", format!("{share} % of {}s have priority 5, the others 3", plan.item));
    }
    let deadlines = match plan.goal.deadline {
        true => "tasks carry their deadline",
        false => "tasks carry no deadline, so that they go in the order in which they became ready",
    };
    row("order", format!("divvy's scheduler with default settings; {deadlines}"));
    row("money", "a worker is paid from asking for it until it is gone; a month has 720 hours; nothing but workers is counted".into());
    row(
        "draining",
        "a worker that is no longer wanted ends its tasks first; until then it is called back before another is started".into(),
    );
    row("failures", "no task fails but those on spot workers that are taken away".into());
    row("start", "the minimum is there at the start, nothing waits then, and the autoscaler knows no earlier day".into());
    let in_days = |days: f64| match plain(days).as_str() {
        "1" => "one day".to_owned(),
        days => format!("{days} days"),
    };
    let seeds = counted(u64::from(plan.seeds), "seed");
    row(
        "seeds",
        format!(
            "fleets are judged by {} of {seeds}, and must meet the goal on each seed; they were found with {} of {} other seeds; the largest load and the table of inputs use the hardest of these; {} runs in all",
            in_days(plan.horizon_sec() / 86_400.0),
            in_days(answer.searched.days),
            answer.searched.seeds,
            answer.runs,
        ),
    );
    for words in &plan.assumptions {
        row("the plan", words.clone());
    }
    table
}

fn stage_words(stage: &Stage) -> String {
    let mut words = format!("{}: {} s", stage.name, brief(stage.sec));
    if stage.sec_per_gb > 0.0 {
        words.push_str(&format!(" + {} s per GB", brief(stage.sec_per_gb)));
    }
    if let Some(piece) = stage.piece_gb {
        words.push_str(&format!(", in pieces of {} GB side by side", brief(piece)));
    }
    if let Some(tasks) = stage.tasks {
        words.push_str(&format!(", {tasks} side by side"));
    }
    if stage.spread > 0.0 {
        words.push_str(&format!(", give or take {} %", brief(stage.spread)));
    }
    if let Some(share) = stage.share {
        words.push_str(&format!(", for {} % of the items", brief(share)));
    }
    if stage.light {
        words.push_str(", without a slot");
    }
    if !stage.after.is_empty() {
        words.push_str(&format!(", after {}", stage.after.join(", ")));
    }
    words
}

fn worker_words(worker: &Worker) -> String {
    let mut words = format!(
        "{}: {} at speed {}, {} an hour, boots in {}",
        worker.name,
        counted(u64::from(worker.slots), "slot"),
        brief(worker.speed),
        decimal(worker.price_hour, 3),
        span(worker.boot_sec),
    );
    if worker.spot {
        words.push_str(&format!(
            ", spot: each is taken away {} times an hour, {} after it is told",
            brief(worker.interruptions_hour),
            span(worker.notice_sec)
        ));
    }
    words.push_str(&format!(", at most {}", count(u64::from(worker.max))));
    words
}

fn find(report: &mut Report, answer: &Answer) {
    let (plan, load, best) = (&answer.plan, &answer.load, &answer.best);
    report.finding(format!(
        "By Little's law {} {}s a day with {} of work each keep {} slots busy on average and {} in the busiest hour, \
         however long they may take.",
        count(load.items_day.round() as u64),
        plan.item,
        span(load.work_sec),
        brief(load.busy_slots),
        brief(load.peak_busy_slots),
    ));
    let every = span(answer.fastest_sec);
    report.finding(format!(
        "{} % of the {}s could be done within {every} if none ever waited: that is the least a goal can ask.",
        plain(plan.goal.percentile),
        plan.item,
    ));
    if answer.met {
        report.finding(format!(
            "Cheapest of the fleets that were tried: {}. It costs {} a month, and {} of the {}s are late.",
            words(&best.fleet),
            decimal(best.month, 0),
            percent(best.missed),
            plan.item,
        ));
    }
    if let Some((low, high)) = best.missed_between {
        report.finding(format!(
            "With 95 % confidence {} to {} % of them are late, by how far the simulated days differ; on the worst seed {} % are.",
            decimal(low * 100.0, 2),
            decimal(high * 100.0, 2),
            decimal(best.missed_worst * 100.0, 2),
        ));
    }
    for other in &answer.others {
        let verb = if other.met { "meets" } else { "misses" };
        report.finding(format!(
            "{} ({}) {verb} the goal with {} late, at {} a month.",
            capital(&other.name),
            words(&other.fleet),
            percent(other.missed),
            decimal(other.month, 0),
        ));
    }
    if best.interrupted_day > 0.0 {
        report.finding(format!(
            "{} spot workers are taken away in a day, and {} attempts are lost with them and run again.",
            brief(best.interrupted_day),
            brief(best.lost_day),
        ));
    }
    if let Some(largest) = &answer.largest_load {
        let at_least = if largest.at_least { "at least " } else { "" };
        report.finding(format!(
            "The same fleet meets the goal up to {at_least}{} times the load: {} {}s a day, at {} a month.",
            decimal(largest.factor, 2),
            count(largest.items_day as u64),
            plan.item,
            decimal(largest.month, 0),
        ));
    }
    report.findings.extend(why_not(answer));
}

/// Why the goal or the budget is missed, and what would do.
pub fn why_not(answer: &Answer) -> Option<String> {
    let plan = &answer.plan;
    if let Some(relaxed) = &answer.relaxed {
        let cause = match relaxed.possible {
            true => "no fleet within the max of its types meets the goal".to_owned(),
            false => format!(
                "no number of workers meets the goal: {} % of the {}s need {} even if none waits",
                plain(plan.goal.percentile),
                plan.item,
                span(answer.fastest_sec)
            ),
        };
        let would = match (&relaxed.fleet, relaxed.month) {
            (Some(fleet), Some(month)) => format!(
                "; the cheapest fixed fleet that would do for {} is {}, at {} a month",
                span(relaxed.within_sec),
                words(fleet),
                decimal(month, 0)
            ),
            _ => String::new(),
        };
        let cure = if relaxed.possible {
            ""
        } else {
            "; cut the stages into smaller pieces, or take faster workers"
        };
        return Some(format!("{cause}{would}{cure}"));
    }
    if !answer.met {
        return Some(
            "no fleet that was tried meets the goal on every seed; allow more workers or more time"
                .into(),
        );
    }
    match (answer.within_budget, plan.budget_month) {
        (Some(false), Some(budget)) => Some(format!(
            "the budget of {} a month is too small: the cheapest fleet that meets the goal costs {}",
            decimal(budget, 0),
            decimal(answer.best.month, 0)
        )),
        _ => None,
    }
}

fn judge(report: &mut Report, answer: &Answer) {
    let (plan, best) = (&answer.plan, &answer.best);
    let what = format!("p{} from arrival to done", plain(plan.goal.percentile));
    let measured = told(best.end.goal);
    report.verdict(what, format!("within {}", span(plan.goal.within_sec)), measured, answer.met);
    if let (Some(within), Some(budget)) = (answer.within_budget, plan.budget_month) {
        let (target, found) = (format!("at most {}", decimal(budget, 0)), decimal(best.month, 0));
        report.verdict("money in a month", target, found, within);
    }
}

fn charts(report: &mut Report, answer: &Answer) {
    let plan = &answer.plan;
    let hours = Axis::new("since the start", "h").precision(0);
    let mut workers = Lines::new(hours.clone(), Axis::new("workers", "").precision(0));
    for judged in all(answer) {
        workers = workers.steps(judged.name.as_str(), judged.workers.iter().copied());
    }
    let workers = Chart::new("Workers that are paid for", workers).note("On the first seed.");
    report.charts.push(workers);
    let rates = plan.rates();
    let busy = rates.iter().flat_map(|rate| {
        let busy = rate.per_sec() * answer.load.work_sec;
        [(rate.from_sec / 3_600.0, busy), (rate.to_sec / 3_600.0, busy)]
    });
    let load =
        Lines::new(hours, Axis::new("busy slots", "").precision(0)).line("arrivals × work", busy);
    report.charts.push(Chart::new("Slots that what comes would keep busy", load));
    let minutes = Axis::new("from arrival to done", "min");
    let mut done = Lines::new(minutes, Axis::new("done", "%"));
    for judged in all(answer) {
        let ends = &judged.ends;
        let point = |number: usize| {
            let place = (ends.len() * number / POINTS).min(ends.len().saturating_sub(1));
            (
                ends.get(place).copied().unwrap_or(f64::NAN) / 60.0,
                100.0 * number as f64 / POINTS as f64,
            )
        };
        done = done.line(
            judged.name.as_str(),
            (1..=POINTS).map(point).filter(|(time, _)| time.is_finite()),
        );
    }
    let done = done
        .mark(Mark::new(plan.goal.percentile, "goal"))
        .moment(plan.goal.within_sec / 60.0, "goal");
    report.charts.push(Chart::new("How many are done when", done));
    let names: Vec<&str> = all(answer).map(|judged| judged.name.as_str()).collect();
    let mut costs = Bars::new(Axis::new("a month", "").precision(0), names)
        .series("", all(answer).map(|judged| Some(judged.month)));
    if let Some(budget) = plan.budget_month {
        costs = costs.mark(Mark::new(budget, "budget"));
    }
    report.charts.push(Chart::new("What each fleet costs", costs));
    let inputs: Vec<&str> = answer.sensitivity.iter().map(|row| row.input.as_str()).collect();
    let minutes = |time: Option<f64>| time.map(|time| time / 60.0);
    let axis = Axis::new(format!("p{} from arrival to done", plain(plan.goal.percentile)), "min");
    let bars = Bars::new(axis, inputs)
        .series("a fifth less", answer.sensitivity.iter().map(|row| minutes(row.less.goal_sec)))
        .series("a fifth more", answer.sensitivity.iter().map(|row| minutes(row.more.goal_sec)))
        .mark(Mark::new(plan.goal.within_sec / 60.0, "goal"));
    report.charts.push(Chart::new("What each input matters to the cheapest fleet", bars));
}

/// A fleet in words.
pub fn words(fleet: &Fleet) -> String {
    match fleet {
        Fleet::Fixed(counts) => {
            let each: Vec<String> =
                counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
            each.join(" + ")
        }
        Fleet::Scaled(scaled) => {
            let mixed = match scaled.types.len() {
                1 => String::new(),
                _ => format!(", at least {} not spot", percent(scaled.on_demand)),
            };
            let (min, max, types) = (scaled.min, scaled.max, scaled.types.join(" or "));
            format!(
                "{min} to {max} {types} as needed{mixed}, by policy {}",
                policy_name(scaled.policy)
            )
        }
    }
}

fn told(time: Option<f64>) -> String {
    time.map_or_else(|| "not done".into(), span)
}

/// A time in its two largest units.
fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{} s", brief(seconds)),
        10..60 => format!("{whole} s"),
        60..3_600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60),
    }
}

/// A number without needless decimals.
fn plain(value: f64) -> String {
    format!("{}", (value * 1_000.0).round() / 1_000.0)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
