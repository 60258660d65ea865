//! The fan-out query: fifteen queries to six shards, and a timeout that learns from the answers.
//!
//! Fan-out, tracker and hedger are those of the guard crate, on a paused clock. One run is told query by query; many
//! runs compare the learned timeout with a fixed one, with waiting for all shards, and with asking slow shards twice.

mod shards;

use std::time::Duration;

use shards::{QUERIES, Query, Run, SHARDS, Way, ask_all};

use super::paused::{self, mean};
use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, percent};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fan-out",
    summary: "15 queries to 6 shards: a timeout that learns",
    timing: Timing::Simulated,
    run,
};

const DEFAULT_S: f64 = 0.5;

/// One way, over many runs.
struct Sums {
    way: Way,
    /// Per run: the share of all records that came.
    shares: Vec<f64>,
    took: Vec<Duration>,
    records: usize,
    timed_out: usize,
    failed: usize,
    hedges: u64,
    hedges_won: u64,
    /// Queries that were wrong in some way: see [`judge`].
    miscounted: usize,
    late: usize,
    left_over: usize,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let trials = settings.size(200, 20);
    let told = settings.seed_of(0);
    progress.step("fifteen queries", 0, trials + 1)?;
    let runs: Vec<Run> =
        Way::ALL.iter().map(|way| paused::run(ask_all(*way, told))).collect::<Result<_, _>>()?;
    let mut sums = Way::ALL.map(Sums::new);
    for trial in 0..trials {
        progress.step("many runs", trial + 1, trials + 1)?;
        for sums in &mut sums {
            sums.add(&paused::run(ask_all(sums.way, settings.seed_of(trial + 1)))?);
        }
    }

    let mut report = Report::new(
        EXPERIMENT.name,
        "A query to many shards, with a timeout that learns",
        "A query goes to six shards. Each takes 100 ms and a random spike, and one in ten fails. Waiting for all makes \
         the slowest shard the speed of the query; a timeout gives up some records for a bounded wait. The learned \
         timeout is twice the 90th percentile of the last 20 latencies.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("queries", QUERIES);
    report.parameter("shards", SHARDS);
    report.parameter("latency", "100 ms + exponential of mean 200 ms");
    report.parameter("failing", "10%");
    report.parameter("first timeout", "0.5 s");
    report.parameter("runs", trials);
    report.tables.push(queries(&runs[0]));
    report.tables.push(summary(&runs[0]));
    report.tables.push(compared(&runs));
    report.tables.push(many(&sums));
    report.charts.push(timeout_chart(&runs[0]));
    report.charts.push(records_chart(&runs));
    report.charts.push(trade_chart(&sums));
    find(&mut report, &runs, &sums);
    report.lesson(
        "Decide what a late record is worth before choosing a timeout. A multiple of a high quantile asks for nearly \
         everything; to be quick, take a lower quantile or factor, or a fixed budget of time.",
    );
    report.lesson("A failed shard is no slow shard: neither a longer wait nor a hedge brings its records; a retry does.");
    judge(&mut report, &runs[0], &sums);
    Ok(report)
}

impl Sums {
    fn new(way: Way) -> Self {
        Self {
            way,
            shares: Vec::new(),
            took: Vec::new(),
            records: 0,
            timed_out: 0,
            failed: 0,
            hedges: 0,
            hedges_won: 0,
            miscounted: 0,
            late: 0,
            left_over: 0,
        }
    }

    fn add(&mut self, run: &Run) {
        let records: usize = run.queries.iter().map(|query| query.records).sum();
        self.shares.push(records as f64 / run.records_possible as f64);
        self.records += records;
        self.hedges += run.hedges.sent;
        self.hedges_won += run.hedges.won;
        for query in &run.queries {
            self.took.push(query.took);
            self.timed_out += query.timed_out;
            self.failed += query.failed;
            let counted = query.responded + query.timed_out + query.failed;
            self.miscounted += usize::from(counted as u64 != SHARDS);
            self.late += usize::from(query.took > query.used_timeout + Duration::from_millis(1));
            self.left_over += query.left_over;
        }
    }

    fn queries(&self) -> f64 {
        self.took.len() as f64
    }

    fn share(&self) -> f64 {
        mean(self.shares.iter().copied())
    }

    fn mean_ms(&self) -> f64 {
        mean(self.took.iter().map(|took| paused::ms(*took)))
    }

    fn p99_ms(&self) -> f64 {
        paused::ms(paused::quantile(&mut self.took.clone(), 0.99).unwrap_or_default())
    }
}

fn queries(run: &Run) -> Table {
    let mut table = Table::new("Fifteen queries with the learned timeout")
        .text("query")
        .number("shards responded", "", 0)
        .number("shards timed out", "", 0)
        .number("shards failed", "", 0)
        .number("total records", "", 0)
        .number("used timeout", "s", 3)
        .number("took", "s", 3);
    for (index, query) in run.queries.iter().enumerate() {
        table.row([
            format!("q{}", index + 1).into(),
            query.responded.into(),
            query.timed_out.into(),
            query.failed.into(),
            query.records.into(),
            query.used_timeout.as_secs_f64().into(),
            query.took.as_secs_f64().into(),
        ]);
    }
    table
}

fn summary(run: &Run) -> Table {
    let responded = || run.queries.iter().map(|query| query.responded);
    let mut table = Table::new("Summary of the fifteen queries")
        .number("fewest shards responded", "", 0)
        .number("most", "", 0)
        .number("mean", "", 2)
        .number("total records", "", 0)
        .number("final suggested timeout", "s", 3);
    table.row([
        responded().min().into(),
        responded().max().into(),
        mean(responded().map(|count| count as f64)).into(),
        total(run).into(),
        run.suggested.as_secs_f64().into(),
    ]);
    table
}

fn total(run: &Run) -> usize {
    run.queries.iter().map(|query| query.records).sum()
}

fn took_s(run: &Run) -> f64 {
    run.queries.iter().map(|query| query.took.as_secs_f64()).sum()
}

fn compared(runs: &[Run]) -> Table {
    let mut table = Table::new("The same fifteen queries in four ways")
        .text("way")
        .number("total records", "", 0)
        .number("of those there are", "%", 1)
        .number("shards timed out", "", 0)
        .number("time in all", "s", 2)
        .number("longest query", "s", 2)
        .number("hedges", "", 0);
    for (way, run) in Way::ALL.iter().zip(runs) {
        let sum = |count: fn(&Query) -> usize| run.queries.iter().map(count).sum::<usize>();
        let longest = run.queries.iter().map(|query| query.took).max().unwrap_or_default();
        table.row([
            way.name().into(),
            total(run).into(),
            (total(run) as f64 / run.records_possible as f64 * 100.0).into(),
            sum(|query| query.timed_out).into(),
            took_s(run).into(),
            longest.as_secs_f64().into(),
            run.hedges.sent.into(),
        ]);
    }
    table
}

fn many(sums: &[Sums]) -> Table {
    let mut table = Table::new("Many runs of fifteen queries")
        .text("way")
        .number("records per query", "", 1)
        .number("of those there are", "%", 1)
        .number("shards too late", "%", 1)
        .number("mean time", "ms", 0)
        .number("p99", "ms", 0)
        .number("hedges per query", "", 2)
        .number("won", "%", 0);
    for one in sums {
        let asked = one.queries() * SHARDS as f64;
        let won = one.hedges_won as f64 / one.hedges as f64 * 100.0;
        table.row([
            one.way.name().into(),
            (one.records as f64 / one.queries()).into(),
            (one.share() * 100.0).into(),
            (one.timed_out as f64 / asked * 100.0).into(),
            one.mean_ms().into(),
            one.p99_ms().into(),
            (one.hedges as f64 / one.queries()).into(),
            Some(won).filter(|won| won.is_finite()).into(),
        ]);
    }
    table
}

fn timeout_chart(run: &Run) -> Chart {
    let points = |value: fn(&Query) -> Option<Duration>| {
        let points = run.queries.iter().enumerate();
        let points = points.map(move |(index, query)| (index as f64 + 1.0, value(query)));
        points.filter_map(|(at, value)| Some((at, value?.as_secs_f64()))).collect::<Vec<_>>()
    };
    let x = Axis::new("query", "").precision(0);
    let y = Axis::new("seconds", "s").precision(2).to(0.0);
    let lines = Lines::new(x, y)
        .steps("used timeout", points(|query| Some(query.used_timeout)))
        .line("slowest answer", points(|query| query.slowest))
        .mark(Mark::new(DEFAULT_S, "default 0.5 s"));
    Chart::new("How the timeout follows the latencies", lines)
        .note("The timeout is twice the 90th percentile of the last 20 answers.")
}

fn records_chart(runs: &[Run]) -> Chart {
    let x = Axis::new("query", "").precision(0);
    let y = Axis::new("records so far", "").precision(0);
    let mut lines = Lines::new(x, y);
    for (way, run) in Way::ALL.iter().zip(runs) {
        let sums = run.queries.iter().scan(0, |sum, query| {
            *sum += query.records;
            Some(*sum as f64)
        });
        let points = sums.enumerate().map(|(index, sum)| (index as f64 + 1.0, sum));
        lines = lines.line(way.name(), points.collect::<Vec<_>>());
    }
    Chart::new("Records that came, by the number of queries", lines)
}

fn trade_chart(sums: &[Sums]) -> Chart {
    let bars = Bars::new(
        Axis::new("time of a query", "ms").precision(0),
        sums.iter().map(|one| format!("{}: {} of records", one.way.name(), percent(one.share()))),
    )
    .series("mean", sums.iter().map(|one| Some(one.mean_ms())))
    .series("p99", sums.iter().map(|one| Some(one.p99_ms())));
    Chart::new("What a share of the records costs, over many runs", bars)
}

fn find(report: &mut Report, runs: &[Run], sums: &[Sums]) {
    let told = &runs[0];
    let used = || told.queries.iter().map(|query| query.used_timeout.as_secs_f64());
    let adapted = told
        .queries
        .iter()
        .position(|query| (query.used_timeout.as_secs_f64() - DEFAULT_S).abs() > f64::EPSILON);
    report.finding(match adapted {
        None => "The timeout stayed at its default: fewer than five answers came.".into(),
        Some(query) => format!(
            "The first {} used the default of 0.5 s; from then on the timeout followed the answers, between {} s and \
             {} s, and ended at {} s.",
            if query == 1 { "query".into() } else { format!("{query} queries") },
            brief(used().skip(query).fold(f64::INFINITY, f64::min)),
            brief(used().skip(query).fold(0.0, f64::max)),
            brief(told.suggested.as_secs_f64()),
        ),
    });
    let [adaptive, hedged, fixed, all] = sums else { unreachable!("there are four ways") };
    report.finding(format!(
        "Over many runs the learned timeout gets {} of the records in {} ms on average; half a second gets {} in {} ms; \
         waiting for all gets {} in {} ms.",
        percent(adaptive.share()),
        brief(adaptive.mean_ms()),
        percent(fixed.share()),
        brief(fixed.mean_ms()),
        percent(all.share()),
        brief(all.mean_ms()),
    ));
    report.finding(format!(
        "The slowest hundredth of the queries takes {} ms or more when all are waited for, {} ms with the learned \
         timeout, {} ms with the fixed one.",
        brief(all.p99_ms()),
        brief(adaptive.p99_ms()),
        brief(fixed.p99_ms()),
    ));
    report.finding(format!(
        "Asking slow shards a second time cost {} extra questions per query ({} of all), of which {} answered first; \
         the mean time went from {} ms to {} ms and the share of records from {} to {}.",
        brief(hedged.hedges as f64 / hedged.queries()),
        percent(hedged.hedges as f64 / (hedged.queries() * SHARDS as f64)),
        percent(hedged.hedges_won as f64 / hedged.hedges.max(1) as f64),
        brief(adaptive.mean_ms()),
        brief(hedged.mean_ms()),
        percent(adaptive.share()),
        percent(hedged.share()),
    ));
    let asked = all.queries() * SHARDS as f64;
    report.finding(format!(
        "Even who waits for all misses {} of the records: {} of the answers were failures.",
        percent(1.0 - all.share()),
        percent(all.failed as f64 / asked),
    ));
}

fn judge(report: &mut Report, told: &Run, sums: &[Sums]) {
    let sum = |count: fn(&Sums) -> usize| sums.iter().map(count).sum::<usize>();
    let queries = count(sums.iter().map(|one| one.took.len() as u64).sum());
    let zero = |report: &mut Report, what: &str, found: usize| {
        report.verdict(what, "0", format!("{found} of {queries}"), found == 0);
    };
    zero(report, "queries whose shards do not add up to six", sum(|one| one.miscounted));
    zero(report, "queries that outlived their timeout by more than 1 ms", sum(|one| one.late));
    zero(report, "shards at work after their query was answered", sum(|one| one.left_over));
    let first = told.queries[0].used_timeout.as_secs_f64();
    report.verdict("timeout of the first query", "0.5 s", format!("{first} s"), first == DEFAULT_S);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tried;

    #[test]
    fn claims_hold_for_any_seed_and_a_run_repeats() {
        for seed in 1..=4 {
            let report = tried(EXPERIMENT, seed);
            assert_eq!(report.met(), (4, 4), "{:?}", report.verdicts);
            assert_eq!(report.tables[0].rows.len(), QUERIES);
        }
        let [first, again] = [3, 3].map(|seed| serde_json::to_string(&tried(EXPERIMENT, seed)));
        assert_eq!(first.unwrap(), again.unwrap());
        assert_ne!(tried(EXPERIMENT, 3).tables, tried(EXPERIMENT, 4).tables);
    }

    #[test]
    fn a_longer_wait_brings_more_records_and_hedges_bring_time() {
        let mut sums = Way::ALL.map(Sums::new);
        for seed in 0..30 {
            for one in &mut sums {
                one.add(&paused::run(ask_all(one.way, seed)).unwrap());
            }
        }
        let [adaptive, hedged, fixed, all] = &sums;
        assert!(fixed.share() < adaptive.share() && adaptive.share() < all.share());
        assert!(fixed.mean_ms() < adaptive.mean_ms() && adaptive.mean_ms() < all.mean_ms());
        assert!(hedged.mean_ms() < adaptive.mean_ms(), "{} ms", hedged.mean_ms());
        // One success pays for a fifth of a hedge.
        assert!(hedged.hedges as f64 <= 0.2 * hedged.queries() * SHARDS as f64);
        assert!(hedged.hedges > 0 && hedged.hedges_won <= hedged.hedges);
    }
}
