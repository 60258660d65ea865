//! A crawl of a simulated web: the real frontier beside that of a textbook.
//!
//! Both get the same web, the same seeds and as many slots. Counted is what the hosts see: requests that come before the
//! delay is over, how many at once, and how many of what robots.txt forbids; and what the frontier takes in memory.

mod play;
mod side;
mod simple;
#[cfg(test)]
mod tests;
mod web;

use divvy_frontier::rules::Rules;
use play::{Outcome, Plan};
use side::{Real, Side};
use simple::Simple;
use web::Web;

use crate::chart::{Axis, Chart, Lines};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, decimal, percent};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "crawl",
    summary: "a polite frontier and a textbook's on one web",
    timing: Timing::Simulated,
    run,
};

const FULL: (u32, Plan) =
    (100_000, Plan { delay_ms: 1_000, slots: 500, seeds: 2_000, end_ms: 300_000 });
const QUICK: (u32, Plan) = (2_000, Plan { delay_ms: 1_000, slots: 50, seeds: 50, end_ms: 60_000 });
/// Addresses in memory in the way that spills, for each host.
const SPILL_PER_HOST: u64 = 1;
/// Bytes for each queued address in memory that are wanted, at most.
const BYTES_WANTED: f64 = 90.0;

/// The ways that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Real,
    Spilled,
    Simple,
}

impl Way {
    const ALL: [Self; 3] = [Self::Real, Self::Spilled, Self::Simple];

    fn name(self) -> &'static str {
        match self {
            Self::Real => "divvy",
            Self::Spilled => "divvy, little memory",
            Self::Simple => "textbook",
        }
    }

    fn frontier(self, web: Web, plan: &Plan, seed: u64) -> Box<dyn Side> {
        let hosts = u64::from(web.hosts);
        let expected = hosts * 20;
        let rules = Rules { delay_ms: plan.delay_ms, ..Rules::default() };
        match self {
            Self::Real => Box::new(Real::new(web, rules, expected, seed)),
            Self::Spilled => {
                let memory_max = hosts * SPILL_PER_HOST;
                Box::new(Real::new(
                    web,
                    Rules { memory_max, band_memory_max: 16, ..rules },
                    expected,
                    seed,
                ))
            }
            Self::Simple => Box::new(Simple::new(web, plan.delay_ms, expected)),
        }
    }
}

type Data = Vec<(Way, Outcome)>;

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (hosts, plan) = settings.size(FULL, QUICK);
    let data = measure(hosts, &plan, settings, progress)?;
    let mut report = Report::new(
        EXPERIMENT.name,
        "A crawl",
        "A crawler must never ask a host again before its delay is over, however many of its pages are known. The \
         textbook gives every address its time when it is found; divvy decides for hosts, when their time has come.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("hosts", hosts);
    report.parameter("slots", plan.slots);
    report.parameter("delay", format!("{} ms", plan.delay_ms));
    report.parameter("simulated", format!("{} s", plan.end_ms / 1_000));
    report.parameter("never answer / slow / traps", "2 / 5 / 1 of 100 hosts");
    report.tables.push(manners(&data, &plan));
    report.tables.push(memory(&data));
    report.charts.push(over_time(&data));
    find(&mut report, &data, &plan);
    judge(&mut report, &data);
    Ok(report)
}

fn measure(
    hosts: u32,
    plan: &Plan,
    settings: &Settings,
    progress: &mut Progress<'_>,
) -> Result<Data, Error> {
    let seed = settings.seed_of(0);
    let web = Web::new(hosts, seed);
    let mut data = Vec::new();
    for (done, way) in Way::ALL.into_iter().enumerate() {
        progress.step(way.name(), done as u64, Way::ALL.len() as u64)?;
        let mut side = way.frontier(web, plan, seed);
        let mut step = play::watched(progress, way.name(), done as u64, Way::ALL.len() as u64);
        data.push((way, play::play(&web, plan, &mut *side, &mut step)?));
    }
    Ok(data)
}

impl Outcome {
    fn rate(&self, plan: &Plan) -> f64 {
        self.pages as f64 / (plan.end_ms as f64 / 1_000.0)
    }
}

/// What the hosts saw.
fn manners(data: &Data, plan: &Plan) -> Table {
    let mut table = Table::new("What the hosts see")
        .text("frontier")
        .number("pages", "", 0)
        .number("pages/s", "", 1)
        .number("hosts asked", "", 0)
        .number("too early", "", 0)
        .number("of all requests", "%", 2)
        .number("at one host at once", "", 0)
        .number("forbidden by robots.txt", "", 0)
        .number("to hosts that never answer", "", 0)
        .number("pages of traps", "%", 1);
    for (way, outcome) in data {
        let log = &outcome.log;
        table.row([
            way.name().into(),
            outcome.pages.into(),
            outcome.rate(plan).into(),
            log.reached().into(),
            log.early.into(),
            (log.early as f64 / log.requests.max(1) as f64 * 100.0).into(),
            log.at_once.into(),
            log.forbidden.into(),
            log.to_dead.into(),
            (log.traps as f64 / outcome.pages.max(1) as f64 * 100.0).into(),
        ]);
    }
    table
}

/// What the frontier takes.
fn memory(data: &Data) -> Table {
    let mut table = Table::new("What the queues take, without what was seen")
        .text("frontier")
        .number("queued", "", 0)
        .number("in memory", "", 0)
        .number("memory", "MB", 1)
        .number("for each queued", "bytes", 1);
    for (way, outcome) in data {
        table.row([
            way.name().into(),
            outcome.queued.into(),
            outcome.in_memory.into(),
            (outcome.bytes as f64 / 1e6).into(),
            (outcome.bytes as f64 / outcome.queued.max(1) as f64).into(),
        ]);
    }
    table
}

fn over_time(data: &Data) -> Chart {
    let lines =
        Lines::new(Axis::new("time", "s").precision(0), Axis::new("pages", "").precision(0));
    let lines = data
        .iter()
        .fold(lines, |lines, (way, outcome)| lines.line(way.name(), outcome.curve.iter().copied()));
    Chart::new("Pages over time", lines)
        .note("The textbook is quick because it does not wait where it must.")
}

fn find(report: &mut Report, data: &Data, plan: &Plan) {
    let of = |way| &data.iter().find(|each| each.0 == way).expect("every way was played").1;
    let (real, spilled, simple) = (of(Way::Real), of(Way::Spilled), of(Way::Simple));
    let early = |outcome: &Outcome| outcome.log.early as f64 / outcome.log.requests.max(1) as f64;
    report.finding(format!(
        "The textbook sends {} of its requests before the delay is over, and {} at once to one host; divvy sends {} too \
         early and at most {} at once.",
        percent(early(simple)),
        count(simple.log.at_once.into()),
        count(real.log.early),
        count(real.log.at_once.into()),
    ));
    report.finding(format!(
        "Politely, {} slots fetch {} pages/s from {} hosts; impolitely {} pages/s from {}.",
        count(plan.slots as u64),
        brief(real.rate(plan)),
        count(real.log.reached()),
        brief(simple.rate(plan)),
        count(simple.log.reached()),
    ));
    report.finding(format!(
        "With memory for {} of {} queued addresses divvy takes {} MB instead of {} MB and fetches {} pages/s.",
        count(spilled.in_memory),
        count(spilled.queued),
        decimal(spilled.bytes as f64 / 1e6, 1),
        decimal(real.bytes as f64 / 1e6, 1),
        brief(spilled.rate(plan)),
    ));
    report.lesson(
        "Queue addresses by host and let a heap of hosts decide when: a host that is in flight is in no heap, so no \
         number of workers can ask it twice.",
    );
}

fn judge(report: &mut Report, data: &Data) {
    for (way, outcome) in data.iter().filter(|each| each.0 != Way::Simple) {
        let log = &outcome.log;
        let what = |what: &str| format!("{}: {what}", way.name());
        report.verdict(what("requests too early"), "none", count(log.early), log.early == 0);
        report.verdict(
            what("at one host at once"),
            "1",
            count(log.at_once.into()),
            log.at_once <= 1,
        );
        report.verdict(
            what("pages that robots.txt forbids"),
            "none",
            count(log.forbidden),
            log.forbidden == 0,
        );
    }
    let real = &data[0].1;
    let each = real.bytes as f64 / real.queued.max(1) as f64;
    let measured = format!("{} bytes", decimal(each, 1));
    let target = format!("at most {BYTES_WANTED} bytes");
    report.verdict("memory for each queued address", target, measured, each <= BYTES_WANTED);
}
