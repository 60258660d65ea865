//! The mixed pipeline: fetch, normalise, store and aggregate, all in place and each on its tier.
//!
//! The tiers are those of the pool crate and the breaker is the guard crate's; times are this machine's. Why the
//! right architecture gains more with more sensors is worked out from the times of the stages in this run.

mod shown;
mod stages;

use std::num::NonZeroUsize;
use std::time::Duration;

use divvy_guard::breaker::{self, Breaker};
use divvy_guard::shell::breaker::Circuit;
use divvy_pool::tiers::Options;
use stages::{STORE, Stored, Timed, correct, naive, sensors};

use super::measured::{Stage, broken, stage};
use super::paused::ms;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, counted, percent};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "pipeline",
    summary: "12 to 48 sensors: inline against a tier per stage",
    timing: Timing::Measured,
    run,
};

const SIZES: [usize; 3] = [12, 24, 48];
const BLOCKING_THREADS: usize = 16;
const BATCHES: usize = 5;
const BATCH: usize = 12;
const FAILING: f64 = 0.15;
/// The batch in which the store is down, where it is, counted from 0.
const DOWN: usize = 2;

/// Both ways for one number of sensors.
struct Pair {
    sensors: usize,
    naive: Timed,
    correct: Timed,
}

impl Pair {
    fn speedup(&self) -> f64 {
        self.naive.total.as_secs_f64() / self.correct.total.as_secs_f64()
    }

    /// What the naive way does one after the other.
    fn in_turn(&self) -> Duration {
        self.naive.normalise + self.naive.store
    }

    /// What is left of it on the tiers.
    fn at_once(&self) -> Duration {
        self.correct.normalise + self.correct.store
    }

    /// The speedup that the times of single stages let expect: stages divide by the threads of their tier.
    fn expected(&self, workers: usize) -> f64 {
        let count = self.sensors as f64;
        let fetch = self.naive.fetch.as_secs_f64();
        let (normalise, store) =
            (self.naive.normalise.as_secs_f64() / count, self.naive.store.as_secs_f64() / count);
        let waves = self.sensors.div_ceil(BLOCKING_THREADS) as f64;
        let correct = fetch + normalise * (count / workers as f64).ceil() + store * waves;
        (fetch + count * (normalise + store)) / correct
    }
}

/// How the store behaves in the runs with a breaker.
struct Scene {
    name: &'static str,
    /// Whether the store fails in every call of one batch.
    goes_down: bool,
    open_for: Duration,
    batches: Vec<Stored>,
    opened: u64,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let rounds = settings.size(3, 1);
    let total = rounds * SIZES.len() as u64 + 3;
    let options = Options {
        blocking_threads: BLOCKING_THREADS,
        cpu_workers: workers,
        processes: 1,
        name: "divvy-lab".into(),
    };
    let stage = stage(options)?;
    let mut pairs = Vec::new();
    for (index, size) in SIZES.into_iter().enumerate() {
        let sensors = sensors(size, 0.0, settings.seed_of(size as u64));
        let (mut naives, mut corrects) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let what = format!("{size} sensors");
            progress.step(&what, index as u64 * rounds + round, total)?;
            naives.push(naive(&stage, &sensors)?);
            corrects.push(correct(&stage, &sensors, None)?.0);
        }
        let (naive, correct) = (median(naives), median(corrects));
        pairs.push(Pair { sensors: size, naive, correct });
    }
    let mut scenes = scenes();
    for (index, scene) in scenes.iter_mut().enumerate() {
        progress.step(scene.name, total - 3 + index as u64, total)?;
        store_batches(&stage, scene, settings)?;
    }

    let mut report = Report::new(
        EXPERIMENT.name,
        "A pipeline with every stage on its tier",
        "Readings are fetched (waiting), normalised (computing), stored (blocking) and aggregated. Written into one \
         coroutine, computing and storing hold up the event loop, so sensors wait for each other. With each stage on \
         its tier they do not. Then the store begins to fail, behind a breaker.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("fetching", "80 to 120 ms");
    report.parameter("normalising", format!("{} rounds of sine and cosine", stages::ROUNDS));
    report.parameter("storing", format!("{} ms", ms(STORE)));
    report.parameter("cpu workers", workers);
    report.parameter("blocking threads", BLOCKING_THREADS);
    report.parameter("event loop threads", 1u64);
    report.parameter("store fails", percent(FAILING));
    report.parameter("breaker opens after failures in a row", 3u64);
    report.parameter("rounds (the median is told)", rounds);
    report.tables.push(shown::speed(&pairs, workers));
    report.tables.push(shown::stage_times(&pairs));
    report.tables.push(shown::batches(&scenes));
    report.charts.push(shown::speed_chart(&pairs));
    report.charts.push(shown::speedup_chart(&pairs, workers));
    report.charts.push(shown::batch_chart(&scenes));
    find(&mut report, &pairs, &scenes, workers);
    report.lesson(
        "What one thread does in turn grows with the number of sensors; what tiers do at once grows with the number of \
         sensors divided by their threads. The wait that all share is paid once in both.",
    );
    report.lesson(
        "A breaker that counts failures in a row does nothing about a part that fails now and then. And calls that are \
         sent together are all under way before the first has failed: it protects the batches after.",
    );
    judge(&mut report, &pairs, &scenes);
    Ok(report)
}

/// The run in the middle.
fn median(mut runs: Vec<Timed>) -> Timed {
    runs.sort_by_key(|run| run.total);
    runs[runs.len() / 2]
}

fn scenes() -> [Scene; 3] {
    let scene = |name, goes_down, open_ms| Scene {
        name,
        goes_down,
        open_for: Duration::from_millis(open_ms),
        batches: Vec::new(),
        opened: 0,
    };
    [
        scene("15% fail (open 2 s)", false, 2_000),
        scene("batch 3 down (open 2 s)", true, 2_000),
        scene("batch 3 down (open 0.1 s)", true, 100),
    ]
}

fn store_batches(stage: &Stage, scene: &mut Scene, settings: &Settings) -> Result<(), Error> {
    let rules =
        breaker::Settings { open_for: scene.open_for, ..breaker::Settings::for_quick_recovery() };
    let circuit = Circuit::without_runtime(Breaker::new(rules).map_err(broken)?);
    for batch in 0..BATCHES {
        let mut sensors = sensors(BATCH, FAILING, settings.seed_of(1_000 + batch as u64));
        if scene.goes_down && batch == DOWN {
            sensors.iter_mut().for_each(|sensor| sensor.store_fails = true);
        }
        scene.batches.push(correct(stage, &sensors, Some(&circuit))?.1);
    }
    scene.opened = circuit.breaker().metrics(circuit.now()).opened;
    Ok(())
}

fn find(report: &mut Report, pairs: &[Pair], scenes: &[Scene], workers: usize) {
    for pair in pairs {
        report.finding(format!(
            "{} sensors: {} ms in place, {} ms on tiers, a speedup of {}.",
            pair.sensors,
            brief(ms(pair.naive.total)),
            brief(ms(pair.correct.total)),
            brief(pair.speedup()),
        ));
    }
    let (first, last) = (&pairs[0], &pairs[pairs.len() - 1]);
    let grows = pairs.windows(2).all(|pair| pair[0].speedup() < pair[1].speedup());
    report.finding(format!(
        "The speedup {} with the number of sensors. From {} to {} sensors, what is done in turn in place went from {} \
         ms to {} ms, and the same work on tiers from {} ms to {} ms, while the fetching that both wait for stayed at \
         about {} ms: its share of the time in place fell from {} to {}.",
        if grows { "grows" } else { "did not always grow in this run" },
        first.sensors,
        last.sensors,
        brief(ms(first.in_turn())),
        brief(ms(last.in_turn())),
        brief(ms(first.at_once())),
        brief(ms(last.at_once())),
        brief(ms(last.correct.fetch)),
        percent(first.naive.fetch.as_secs_f64() / first.naive.total.as_secs_f64()),
        percent(last.naive.fetch.as_secs_f64() / last.naive.total.as_secs_f64()),
    ));
    report.finding(format!(
        "From the times of single stages, {} workers and {} threads let expect speedups of {}.",
        workers,
        BLOCKING_THREADS,
        pairs.iter().map(|pair| brief(pair.expected(workers))).collect::<Vec<_>>().join(", "),
    ));
    for scene in scenes {
        let sum = |count: fn(&Stored) -> usize| scene.batches.iter().map(count).sum::<usize>();
        report.finding(format!(
            "{}: the breaker opened {}; of {} readings {} were stored, {} failed and {} were refused at once.",
            scene.name,
            counted(scene.opened, "time"),
            BATCHES * BATCH,
            sum(|stored| stored.successes),
            sum(|stored| stored.failures),
            sum(|stored| stored.fast_fails),
        ));
    }
}

fn judge(report: &mut Report, pairs: &[Pair], scenes: &[Scene]) {
    let same = pairs.iter().filter(|pair| {
        pair.naive.aggregate == pair.correct.aggregate && pair.naive.aggregate.count == pair.sensors
    });
    let same = same.count();
    report.verdict(
        "sizes at which both ways come to the same mean and deviation",
        pairs.len().to_string(),
        same.to_string(),
        same == pairs.len(),
    );
    let batches = || scenes.iter().flat_map(|scene| &scene.batches);
    let whole = batches()
        .filter(|stored| stored.successes + stored.failures + stored.fast_fails == BATCH)
        .count();
    report.verdict(
        "batches whose counts add up to 12",
        batches().count().to_string(),
        whole.to_string(),
        whole == batches().count(),
    );
    let least = pairs.iter().map(Pair::speedup).fold(f64::INFINITY, f64::min);
    report.verdict("least speedup of the tiers", "above 1", brief(least), least > 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tried;

    #[test]
    fn both_ways_agree_and_batches_add_up() {
        let report = tried(EXPERIMENT, 5);
        // The third verdict is about speed, which a busy machine may spoil.
        assert!(report.verdicts[..2].iter().all(|verdict| verdict.met), "{:?}", report.verdicts);
        assert_eq!(report.tables[0].rows.len(), SIZES.len());
        assert_eq!(report.tables[2].rows.len(), 3 * BATCHES);
    }

    #[test]
    fn a_store_that_goes_down_opens_the_breaker_for_the_batches_after() {
        let stage = stage(Options { blocking_threads: 16, ..Options::default() }).unwrap();
        let [_, mut down, _] = scenes();
        // So long that it cannot have closed again by the end, however slow the machine.
        down.open_for = Duration::from_secs(600);
        store_batches(&stage, &mut down, &Settings { seed: 3, quick: true }).unwrap();
        assert_eq!(down.opened, 1);
        let sums: Vec<usize> = down
            .batches
            .iter()
            .map(|stored| stored.successes + stored.failures + stored.fast_fails)
            .collect();
        assert_eq!(sums, [BATCH; BATCHES]);
        assert_eq!(down.batches[DOWN].successes, 0);
        for after in &down.batches[DOWN + 1..] {
            assert_eq!(after.fast_fails, BATCH, "{:?}", down.batches);
        }
    }

    #[test]
    fn the_expected_speedup_follows_from_the_stages() {
        let times = |fetch, normalise, store| Timed {
            fetch: Duration::from_millis(fetch),
            normalise: Duration::from_millis(normalise),
            store: Duration::from_millis(store),
            total: Duration::from_millis(fetch + normalise + store),
            aggregate: stages::Aggregate { count: 12, mean: 0.0, deviation: 0.0 },
        };
        let pair = Pair { sensors: 12, naive: times(100, 120, 240), correct: times(100, 60, 20) };
        // 100 + 12 × 30 against 100 + 10 × 6 + 20.
        assert!((pair.expected(2) - 460.0 / 180.0).abs() < 1e-9);
        assert!((pair.speedup() - 460.0 / 180.0).abs() < 1e-9);
    }
}
