//! The three-tier handler: ten requests that parse, call an old blocking client and wait, each on its right tier.
//!
//! The tiers are those of the pool crate. Parsing runs in real child processes, fetching on real threads; times are
//! this machine's. Each tier is also tried alone, so that its own share of the gain can be seen.

mod handler;

use std::time::{Duration, Instant};

use divvy_pool::tiers::{Options, Tier};
use handler::{Handled, PER_RECORD, RECORDS, Request, Way, handle, requests};

use super::measured::{Stage, broken, stage};
use super::paused::{mean, ms};
use crate::chart::{Axis, Bars, Chart, Timeline};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, percent};
use crate::report::{Report, Table};

pub(crate) use handler::parse;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "three-tier",
    summary: "10 requests on three tiers, and one after the other",
    timing: Timing::Measured,
    run,
};

const REQUESTS: usize = 10;
const THREADS: usize = 10;
const PROCESSES: usize = 4;

/// One way and its median run.
struct Timed {
    way: Way,
    took: Duration,
    handled: Vec<Handled>,
}

/// Where the time of the requests went.
struct Shares {
    process: Duration,
    parsing: Duration,
    blocking: Duration,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let rounds = settings.size(5, 1);
    let total = rounds * Way::ALL.len() as u64;
    let options = Options {
        blocking_threads: THREADS,
        processes: PROCESSES,
        cpu_workers: 1,
        name: "divvy-lab".into(),
    };
    let stage = stage(options)?;
    let all = requests(REQUESTS, settings.seed_of(0));
    // The first process and the first threads of a machine pay for those after them.
    serve(&stage, Way::Tiers, &all[..PROCESSES])?;
    let mut timed = Vec::new();
    for (index, way) in Way::ALL.into_iter().enumerate() {
        let mut runs = Vec::new();
        for round in 0..rounds {
            progress.step(way.name(), index as u64 * rounds + round, total)?;
            runs.push(serve(&stage, way, &all)?);
        }
        runs.sort_by_key(|run| run.took);
        timed.push(runs.swap_remove(runs.len() / 2));
    }

    let mut report = Report::new(
        EXPERIMENT.name,
        "Each kind of work on its own tier",
        "A request parses a chunk of CSV (computing), then asks an old client that blocks (waiting on a thread). In \
         sequence every request waits for all before it. On one event loop, whatever computes or blocks holds up \
         everybody. On the right tiers, requests wait only for themselves.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("requests", REQUESTS);
    report.parameter("records each", RECORDS);
    report.parameter("parsing a record", format!("{} ms", ms(PER_RECORD)));
    report.parameter("fetching", "50 to 100 ms");
    report.parameter("blocking threads", THREADS);
    report.parameter("processes", PROCESSES);
    report.parameter("event loop threads", 1u64);
    report.parameter("rounds (the median is told)", rounds);
    report.tables.push(ways(&timed));
    report.tables.push(requests_table(&timed[3]));
    report.tables.push(shares_table(&timed));
    report.charts.push(speed_chart(&timed));
    report.charts.push(timeline(&timed));
    find(&mut report, &timed, &all);
    report.lesson(
        "Ask of each step what it does while it lasts: waits without a thread (async), blocks a thread (blocking), or \
         computes (cpu or process). The step on the wrong tier sets the pace of all others.",
    );
    report.lesson(
        "A process costs its start. Use it for code that may crash, leak or speak another language, or for chunks \
         that compute much longer than a start takes; else the cpu tier does the same for less.",
    );
    judge(&mut report, &timed);
    Ok(report)
}

/// Handles all requests in one way.
fn serve(stage: &Stage, way: Way, requests: &[Request]) -> Result<Timed, Error> {
    let start = Instant::now();
    let one = |request: &Request| handle(request.clone(), way, stage.tiers.clone(), start);
    let handled = stage.runtime.block_on(async {
        let mut handled = Vec::with_capacity(requests.len());
        if way == Way::Sequential {
            for request in requests {
                handled.push(one(request).await?);
            }
            return Ok(handled);
        }
        let running: Vec<_> =
            requests.iter().map(|request| stage.tiers.run_on_async(one(request))).collect();
        for one in running {
            handled.push(one.await.map_err(|error| broken(error.to_string()))??);
        }
        Ok::<_, Error>(handled)
    })?;
    Ok(Timed { way, took: start.elapsed(), handled })
}

impl Timed {
    fn shares(&self) -> Shares {
        let sum = |span: fn(&Handled) -> Duration| self.handled.iter().map(span).sum();
        Shares {
            process: sum(|one| one.parsed_at - one.began),
            parsing: sum(|one| one.parsing),
            blocking: sum(|one| one.ended - one.parsed_at),
        }
    }

    fn speedup(&self, sequential: &Self) -> f64 {
        sequential.took.as_secs_f64() / self.took.as_secs_f64()
    }

    /// Whether every request has all its records and the label of its first one.
    fn right(&self) -> usize {
        let right = self.handled.iter().filter(|one| {
            let label = format!("item_{}", one.number * RECORDS + 1);
            one.parsed == RECORDS && one.label == label
        });
        right.count()
    }
}

fn ways(timed: &[Timed]) -> Table {
    let mut table = Table::new("Ten requests at once, by where parsing and fetching run")
        .text("way")
        .text("parsing on")
        .text("fetching on")
        .number("total", "ms", 1)
        .number("speedup", "×", 2)
        .number("right results", "", 0);
    for one in timed {
        let (parsing, fetching) = match one.way {
            Way::Sequential => ("the caller", "the caller"),
            Way::Threads => ("event loop", Tier::Blocking.as_str()),
            Way::Processes => (Tier::Process.as_str(), "event loop"),
            Way::Tiers => (Tier::Process.as_str(), Tier::Blocking.as_str()),
        };
        table.row([
            one.way.name().into(),
            parsing.into(),
            fetching.into(),
            ms(one.took).into(),
            one.speedup(&timed[0]).into(),
            one.right().into(),
        ]);
    }
    table
}

fn requests_table(tiers: &Timed) -> Table {
    let mut table = Table::new("The ten requests on three tiers")
        .number("request", "", 0)
        .number("parsed", "", 0)
        .text("metadata")
        .number("process tier", "ms", 1)
        .number("parsing itself", "ms", 1)
        .number("blocking tier", "ms", 1)
        .number("done at", "ms", 1);
    for one in &tiers.handled {
        table.row([
            one.number.into(),
            one.parsed.into(),
            one.label.as_str().into(),
            ms(one.parsed_at - one.began).into(),
            ms(one.parsing).into(),
            ms(one.ended - one.parsed_at).into(),
            ms(one.ended).into(),
        ]);
    }
    table
}

fn shares_table(timed: &[Timed]) -> Table {
    let mut table = Table::new("Where the time of the requests went, all ten added up")
        .text("way")
        .number("parsing and the way there", "ms", 1)
        .number("of it parsing", "ms", 1)
        .number("fetching", "ms", 1)
        .number("share of parsing", "%", 0)
        .number("share of fetching", "%", 0);
    for one in timed {
        let shares = one.shares();
        let whole = (shares.process + shares.blocking).as_secs_f64();
        table.row([
            one.way.name().into(),
            ms(shares.process).into(),
            ms(shares.parsing).into(),
            ms(shares.blocking).into(),
            (shares.process.as_secs_f64() / whole * 100.0).into(),
            (shares.blocking.as_secs_f64() / whole * 100.0).into(),
        ]);
    }
    table
}

fn speed_chart(timed: &[Timed]) -> Chart {
    let bars =
        Bars::new(Axis::new("time for ten requests", "ms"), timed.iter().map(|one| one.way.name()))
            .series("total", timed.iter().map(|one| Some(ms(one.took))))
            .highlight(timed.len() - 1);
    Chart::new("Ten requests, by where their work runs", bars)
}

fn timeline(timed: &[Timed]) -> Chart {
    let mut timeline = Timeline::new(Axis::new("time", "ms").precision(0), ["parsing", "fetching"]);
    let spans = |one: &Handled| {
        let [began, parsed, ended] = [one.began, one.parsed_at, one.ended].map(ms);
        [(began, parsed, 0, String::new()), (parsed, ended, 1, String::new())]
    };
    timeline = timeline.row("in sequence", timed[0].handled.iter().flat_map(spans));
    for one in &timed[3].handled {
        timeline = timeline.row(format!("three tiers, request {}", one.number), spans(one));
    }
    Chart::new("Who waits for whom", timeline)
        .note("Parsing on three tiers includes the wait for one of the processes and its start.")
}

fn find(report: &mut Report, timed: &[Timed], requests: &[Request]) {
    let [sequential, threads, processes, tiers] = timed else {
        unreachable!("there are four ways")
    };
    report.finding(format!(
        "In sequence the ten requests took {} ms, on three tiers {} ms: {} times as fast.",
        brief(ms(sequential.took)),
        brief(ms(tiers.took)),
        brief(tiers.speedup(sequential)),
    ));
    report.finding(format!(
        "Alone, the blocking tier brings a speedup of {}, the process tier one of {}: {} of the time in sequence is \
         fetching, so that is where the gain lies.",
        brief(threads.speedup(sequential)),
        brief(processes.speedup(sequential)),
        percent(sequential.shares().blocking.as_secs_f64() / sequential.took.as_secs_f64()),
    ));
    let each = |sum: Duration| ms(sum) / REQUESTS as f64;
    let (shares, inline) = (tiers.shares(), sequential.shares());
    report.finding(format!(
        "Parsing a chunk takes {} ms in place; on the process tier a request waits {} ms for it, because a process has \
         to start and {PROCESSES} share the {REQUESTS} chunks.",
        brief(each(inline.process)),
        brief(each(shares.process)),
    ));
    let (both, alone) = (ms(tiers.took), ms(threads.took));
    report.finding(match both < alone {
        true => format!(
            "So the process tier saves {} ms over parsing on the event loop.",
            brief(alone - both)
        ),
        false => format!(
            "For chunks this small the process tier costs more than it saves: parsing on the event loop was {} ms \
             faster in all.",
            brief(both - alone)
        ),
    });
    let longest = requests.iter().map(|request| ms(request.fetch)).fold(0.0, f64::max);
    report.finding(format!(
        "No way can be faster than the slowest fetch, {} ms here; three tiers needed {} times that, and the mean \
         request {} ms.",
        brief(longest),
        brief(ms(tiers.took) / longest),
        brief(mean(tiers.handled.iter().map(|one| ms(one.ended)))),
    ));
}

fn judge(report: &mut Report, timed: &[Timed]) {
    let right: usize = timed.iter().map(Timed::right).sum();
    let all = REQUESTS * Way::ALL.len();
    report.verdict(
        "requests with all records and the right label, in all ways",
        all.to_string(),
        right.to_string(),
        right == all,
    );
    let speedup = timed[3].speedup(&timed[0]);
    report.verdict(
        "three tiers against the sequence",
        "faster",
        format!("{} times as fast", brief(speedup)),
        speedup > 1.0,
    );
}
