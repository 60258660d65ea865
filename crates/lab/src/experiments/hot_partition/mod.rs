//! The hot partition: nine in ten requests are suddenly for one key in a hundred.
//!
//! Twenty nodes own keys on a ring. When the heat comes, the owners of the hottest keys drown while the fleet as a
//! whole has room. Compares what can be done without a person: bound each node's load, copy hot keys, split them.
//! Answers three questions from its own figures: how is the heat found, how is it handled, at what price.

mod nodes;
mod show;
mod traffic;
mod trial;
mod ways;

#[cfg(test)]
mod tests;

use std::time::Duration;

use divvy_placement::hashing::hot;
use traffic::{HOT_KEYS, KEYS, Profile, Times};
use trial::{Case, LOAD, NODES, SERVICE, Trial};
use ways::Way;

use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, count, decimal, percent};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "hot-partition",
    summary: "90 % of the requests on 1 % of the keys",
    timing: Timing::Simulated,
    run,
};

/// Shares of reads: nearly all, half, hardly any.
const READS: [f64; 3] = [0.99, 0.5, 0.01];
/// Ways that are tried with even heat, where no single key is hot.
const EVEN_WAYS: [Way; 3] = [Way::Plain, Way::Bounded, Way::Replicated];
const FULL: Times = Times {
    heat_from: Duration::from_secs(20),
    heat_to: Duration::from_secs(80),
    end: Duration::from_secs(150),
};
const QUICK: Times = Times {
    heat_from: Duration::from_secs(5),
    heat_to: Duration::from_secs(30),
    end: Duration::from_secs(75),
};
/// How much longer than in the calm the slowest answers may take once the hot keys are known.
const SETTLED_WANTED: f64 = 2.0;

/// Everything that came out.
struct Data {
    /// Celebrities: by share of reads, then by way.
    mixes: Vec<(f64, Vec<(Way, Trial)>)>,
    /// Even heat, reads only but for one in a hundred.
    even: Vec<(Way, Trial)>,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (times, seeds) = settings.size((FULL, 3), (QUICK, 1));
    let data = measure(times, seeds, settings, progress)?;
    let hot = hot::Settings::default();
    let mut report = Report::new(
        EXPERIMENT.name,
        "The hot partition",
        "A ring shares out keys, not requests. When a few keys get nearly all requests, their owners drown although \
         the fleet has room. Here the heat comes and goes by itself, and so must what is done about it.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("runs per figure", seeds);
    report.parameter("nodes", NODES);
    report.parameter("keys", KEYS);
    report.parameter("hot keys", format!("{HOT_KEYS} get 90 %, the k-th 1/k of the first"));
    report.parameter("fleet load", percent(LOAD));
    report.parameter("mean operation", format!("{} ms", SERVICE.as_millis()));
    report.parameter(
        "heat",
        format!("from {} s to {} s", times.heat_from.as_secs(), times.heat_to.as_secs()),
    );
    report.parameter("a key is hot above", format!("{} of all requests", whole_percent(hot.share)));
    report.tables.push(show::answers(&data));
    report.tables.push(show::costs(&data));
    report.tables.push(show::detection(&data));
    report.tables.push(show::even(&data));
    report.tables.push(show::choices(&data));
    report.charts.push(show::over_time(&data.mixes[0], times));
    report.charts.push(show::p99_bars(&data));
    report.charts.push(show::peak_bars(&data));
    report.charts.push(show::work_bars(&data));
    find(&mut report, &data);
    judge(&mut report, &data);
    Ok(report)
}

fn measure(
    times: Times,
    seeds: u64,
    settings: &Settings,
    progress: &mut Progress<'_>,
) -> Result<Data, Error> {
    let total = (READS.len() * Way::ALL.len() + EVEN_WAYS.len()) as u64;
    let mut done = 0;
    let mut play = |case: Case| {
        let mut trials = Vec::new();
        for seed in 0..seeds {
            progress.step(case.way.name(), done, total)?;
            trials.push(trial::play(case, times, settings.seed_of(seed)));
        }
        done += 1;
        Ok::<_, Error>((case.way, Trial::mean_of(trials)))
    };
    let mut mixes = Vec::new();
    for read_share in READS {
        let case = |way| Case { way, profile: Profile::Celebrities, read_share };
        let trials: Result<Vec<_>, Error> =
            Way::ALL.into_iter().map(|way| play(case(way))).collect();
        mixes.push((read_share, trials?));
    }
    let case = |way| Case { way, profile: Profile::Even, read_share: READS[0] };
    let even: Result<Vec<_>, Error> = EVEN_WAYS.into_iter().map(|way| play(case(way))).collect();
    Ok(Data { mixes, even: even? })
}

impl Data {
    fn trial(&self, mix: usize, way: Way) -> &Trial {
        let found = self.mixes[mix].1.iter().find(|each| each.0 == way);
        &found.expect("every way was tried").1
    }

    /// The way with the lowest p99 once hot keys are known, of those whose queues stay within bounds.
    fn best(&self, mix: usize) -> Option<(Way, &Trial)> {
        let calm = self.mixes[mix].1.iter().filter(|(_, trial)| !trial.is_overloaded);
        let best = calm.min_by(|a, b| a.1.p99_settled.total_cmp(&b.1.p99_settled));
        best.map(|(way, trial)| (*way, trial))
    }
}

fn find(report: &mut Report, data: &Data) {
    let reads = |mix: usize| whole_percent(data.mixes[mix].0);
    let plain = data.trial(0, Way::Plain);
    report.finding(format!(
        "On a plain ring the busiest node gets {} times the mean work, and its queue {}: the p99 goes from {} to {} \
         mean operation times, at a fleet load of {}.",
        decimal(plain.peak, 1),
        if plain.is_overloaded { "grows for as long as the heat lasts" } else { "stays within bounds" },
        decimal(plain.p99_calm, 1),
        count(plain.p99 as u64),
        percent(LOAD)
    ));
    let found = data.trial(0, Way::Replicated);
    let times: Vec<f64> = found.found.iter().filter_map(|key| key.after_s).collect();
    report.finding(format!(
        "How is it detected? By counting the most frequent keys in fixed memory: {} of {} keys above the limit were \
         found in every run, the hottest {} s after the heat began and the last after {} s on average; {} keys per \
         run below the limit were called hot, {} of them below half of it.",
        times.len(),
        found.found.len(),
        times.first().map_or_else(|| "–".into(), |first| decimal(*first, 1)),
        decimal(times.iter().copied().fold(0.0, f64::max), 1),
        brief(found.false_alarms),
        brief(found.gross_alarms),
    ));
    for mix in 0..READS.len() {
        let Some((way, best)) = data.best(mix) else {
            report.finding(format!("With {} reads, every way has a node that drowns.", reads(mix)));
            continue;
        };
        report.finding(format!(
            "How is it handled without a person? With {} reads, \"{}\" settles best: a p99 of {} against {} in \
             the calm, with {} operations per request and {} copies.",
            reads(mix),
            way.name(),
            decimal(best.p99_settled, 1),
            decimal(best.p99_calm, 1),
            decimal(best.operations, 2),
            count(best.copies as u64),
        ));
    }
    find_price(report, data);
    report.lesson(
        "Detect by counting keys, not by watching nodes: a loaded node does not say which key to spread. Bound every \
         node's load as the net beneath, because it needs no detection and works at once.",
    );
    report.lesson(
        "Copy what is read, split what is written and can be added up; where both are frequent, neither helps much. \
         Spread only what is hot, and only while it is hot: every copy and every part is paid for by each write or read.",
    );
}

fn find_price(report: &mut Report, data: &Data) {
    let reads = |mix: usize| whole_percent(data.mixes[mix].0);
    let found = data.trial(0, Way::Replicated);
    let bounded = data.trial(0, Way::Bounded);
    report.finding(format!(
        "With {} reads, a bound needs no detection: its p99 over the whole heat is {} against {} with copies of hot \
         keys. It makes {} copies for that where the other makes {}.",
        reads(0),
        decimal(bounded.p99, 1),
        decimal(found.p99, 1),
        count(bounded.copies as u64),
        count(found.copies as u64),
    ));
    let last = READS.len() - 1;
    report.finding(format!(
        "What is the trade-off? Copies make writes dear: with {} reads, replicating takes {} operations per request, splitting {}. Parts make \
         reads dear: with {} reads it is {} against {}.",
        reads(last),
        decimal(data.trial(last, Way::Replicated).operations, 2),
        decimal(data.trial(last, Way::Split).operations, 2),
        reads(0),
        decimal(data.trial(0, Way::Replicated).operations, 2),
        decimal(data.trial(0, Way::Split).operations, 2),
    ));
    let even = |way: Way| data.even.iter().find(|each| each.0 == way).map(|each| &each.1);
    if let (Some(plain), Some(bounded), Some(copied)) =
        (even(Way::Plain), even(Way::Bounded), even(Way::Replicated))
    {
        report.finding(format!(
            "With the heat spread evenly over {HOT_KEYS} keys, {} key is above the limit, so copying hot keys leaves \
             the p99 at {} ({} without); bounded loads bring it to {}.",
            match trial::keys_above_limit(Profile::Even) {
                0 => "no".to_owned(),
                above => count(above as u64),
            },
            decimal(copied.p99_settled, 1),
            decimal(plain.p99_settled, 1),
            decimal(bounded.p99_settled, 1),
        ));
    }
    if let Some(cooled) = found.cooled_s {
        report.finding(format!(
            "{} s after the heat ended, no key was spread any more.",
            decimal(cooled, 0)
        ));
    }
}

/// A share that is a whole number of percent.
fn whole_percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn judge(report: &mut Report, data: &Data) {
    let detecting =
        || data.mixes.iter().flat_map(|(_, trials)| trials).filter(|each| each.0.detects());
    let missed: f64 = detecting().map(|(_, trial)| trial.missed).sum();
    report.verdict("hot keys that are never found", "0", brief(missed), missed == 0.0);
    let gross: f64 = detecting().map(|(_, trial)| trial.gross_alarms).sum();
    report.verdict(
        "keys below half of the limit that are called hot",
        "0",
        brief(gross),
        gross == 0.0,
    );
    let splits =
        || data.mixes.iter().flat_map(|(_, trials)| trials).filter(|each| each.0 == Way::Split);
    let short: u64 = splits().map(|(_, trial)| trial.reads_short).sum();
    let complete = splits().all(|(_, trial)| trial.is_complete);
    report.verdict(
        "reads of split keys that miss a write, and writes that are lost",
        "none",
        format!("{} reads, {} writes lost", count(short), if complete { "no" } else { "some" }),
        short == 0 && complete,
    );
    for (mix, (reads, _)) in data.mixes.iter().enumerate() {
        let best = data.best(mix);
        let ratio = best.map(|(_, trial)| trial.p99_settled / trial.p99_calm);
        report.verdict(
            format!(
                "p99 of the best way over the p99 in the calm, {} reads",
                whole_percent(*reads)
            ),
            format!("at most {}", decimal(SETTLED_WANTED, 1)),
            best.zip(ratio).map_or_else(
                || "every way drowns".into(),
                |((way, _), ratio)| format!("{} ({})", decimal(ratio, 2), way.name()),
            ),
            ratio.is_some_and(|ratio| ratio <= SETTLED_WANTED),
        );
    }
}
