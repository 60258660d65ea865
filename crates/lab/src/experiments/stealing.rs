//! Work stealing: 100 tasks of 10 to 100 ms, 70 of them on the first of four workers.
//!
//! The same tasks run on the real pool without stealing and with it, from a random victim and from the busiest. Tasks
//! sleep instead of computing, so that the run shows the spreading on a machine with any number of processors. Which
//! task takes how long is drawn from the seed; who steals what is up to the threads.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use divvy_pool::{Options, Pool, Shutdown, Stats, Victim};

use crate::chart::{Axis, Bars, Chart, Mark, Timeline};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::experiments::measured::broken;
use crate::report::number::{brief, counted, percent};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "stealing",
    summary: "70 of 100 tasks on one worker; others steal them",
    timing: Timing::Measured,
    run,
};

const WORKERS: usize = 4;
const TASKS: usize = 100;
const ON_FIRST: usize = 70;

thread_local! {
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// One task: where it is put and how long it takes.
#[derive(Clone, Copy)]
struct Work {
    home: usize,
    length: Duration,
}

/// One task as it ran.
#[derive(Clone, Copy)]
struct Ran {
    home: usize,
    worker: usize,
    from: Duration,
    to: Duration,
}

/// One way, and what came of it.
struct Trial {
    name: &'static str,
    ran: Vec<Ran>,
    makespan: Duration,
    stats: Stats,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    // A tenth of the length shows the same in a tenth of the time.
    let scale = settings.size(1.0, 0.1);
    let work = draw(settings.seed, scale);
    let ways = [
        ("no stealing", None),
        ("steal from a random worker", Some(Victim::Random)),
        ("steal from the busiest", Some(Victim::Busiest)),
    ];
    let mut trials = Vec::new();
    for (index, (name, victim)) in ways.into_iter().enumerate() {
        progress.step(name, index as u64, ways.len() as u64)?;
        trials.push(play(name, victim, &work, settings.seed)?);
    }
    let sum: Duration = work.iter().map(|work| work.length).sum();
    let ideal = sum / WORKERS as u32;

    let mut report = Report::new(
        EXPERIMENT.name,
        "Work stealing",
        "Four workers, a hundred tasks, and seventy of the tasks are put on the first worker. Without stealing three \
         workers finish early and watch. With stealing a worker that has nothing to do takes half of what waits at \
         another, so all finish together.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("workers", WORKERS as u64);
    report.parameter("tasks", TASKS as u64);
    report.parameter("put on the first worker", ON_FIRST as u64);
    let (from, to) = (brief(10.0 * scale), brief(100.0 * scale));
    report.parameter("a task takes", format!("{from} to {to} ms"));
    report.parameter("all tasks take", format!("{} s", brief(sum.as_secs_f64())));
    report.tables.push(summary(&trials, ideal));
    report.tables.extend(trials.iter().map(per_worker));
    report.charts.push(makespans(&trials, ideal));
    report.charts.extend(trials.iter().map(timeline));
    find(&mut report, &trials, ideal);
    judge(&mut report, &trials);
    report.lesson(
        "Place tasks where they belong and let idle workers correct the mistakes: nobody has to know the lengths of \
         tasks in advance.",
    );
    Ok(report)
}

fn draw(seed: u64, scale: f64) -> Vec<Work> {
    let mut random = fastrand::Rng::with_seed(seed);
    let one = |number| {
        let home = if number < ON_FIRST { 0 } else { random.usize(1..WORKERS) };
        Work { home, length: Duration::from_secs_f64((0.01 + 0.09 * random.f64()) * scale) }
    };
    (0..TASKS).map(one).collect()
}

fn play(
    name: &'static str,
    victim: Option<Victim>,
    work: &[Work],
    seed: u64,
) -> Result<Trial, Error> {
    let pool = Pool::new(Options {
        stealing: victim.is_some(),
        victim: victim.unwrap_or_default(),
        seed,
        on_start: Some(Arc::new(|worker| WORKER.set(worker))),
        ..Options::with_workers(WORKERS)
    })
    .map_err(broken)?;
    let ran = Arc::new(Mutex::new(Vec::with_capacity(work.len())));
    let begin = Instant::now();
    for Work { home, length } in work.iter().copied() {
        let ran = Arc::clone(&ran);
        pool.submit_to(home, move || {
            let from = begin.elapsed();
            std::thread::sleep(length);
            let (worker, to) = (WORKER.get(), begin.elapsed());
            let mut ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
            ran.push(Ran { home, worker, from, to });
        });
    }
    let stats = pool.shutdown(Shutdown::Drain).stats;
    let ran = std::mem::take(&mut *ran.lock().unwrap_or_else(PoisonError::into_inner));
    let makespan = ran.iter().map(|ran| ran.to).max().unwrap_or_default();
    Ok(Trial { name, ran, makespan, stats })
}

impl Trial {
    fn busy(&self, worker: usize) -> Duration {
        let own = self.ran.iter().filter(|ran| ran.worker == worker);
        own.map(|ran| ran.to.saturating_sub(ran.from)).sum()
    }

    fn moved(&self) -> usize {
        self.ran.iter().filter(|ran| ran.home != ran.worker).count()
    }

    /// How much of the time of all workers, up to the last end, was spent on tasks.
    fn utilisation(&self) -> f64 {
        let busy: Duration = (0..WORKERS).map(|worker| self.busy(worker)).sum();
        busy.as_secs_f64() / (self.makespan.as_secs_f64() * WORKERS as f64)
    }
}

fn summary(trials: &[Trial], ideal: Duration) -> Table {
    let mut table = Table::new("The same tasks, three ways")
        .text("way")
        .number("all done after", "s", 2)
        .number("over the ideal", "×", 2)
        .number("busy", "%", 0)
        .number("tasks moved", "", 0)
        .number("attempts to steal", "", 0)
        .number("of them successful", "", 0);
    for trial in trials {
        let total = trial.stats.total();
        table.row([
            trial.name.into(),
            trial.makespan.as_secs_f64().into(),
            (trial.makespan.as_secs_f64() / ideal.as_secs_f64()).into(),
            (trial.utilisation() * 100.0).into(),
            (trial.moved() as f64).into(),
            (total.steal_attempts as f64).into(),
            (total.steals as f64).into(),
        ]);
    }
    table
}

fn per_worker(trial: &Trial) -> Table {
    let mut table = Table::new(format!("Each worker: {}", trial.name))
        .text("worker")
        .number("put on it", "", 0)
        .number("processed", "", 0)
        .number("stolen", "", 0)
        .number("steal attempts", "", 0)
        .number("busy", "s", 2)
        .number("idle", "s", 2);
    for (worker, stats) in trial.stats.workers.iter().enumerate() {
        let put = trial.ran.iter().filter(|ran| ran.home == worker).count();
        table.row([
            worker.to_string().into(),
            (put as f64).into(),
            (stats.processed as f64).into(),
            (stats.stolen as f64).into(),
            (stats.steal_attempts as f64).into(),
            trial.busy(worker).as_secs_f64().into(),
            stats.idle.as_secs_f64().into(),
        ]);
    }
    table
}

fn makespans(trials: &[Trial], ideal: Duration) -> Chart {
    let names = trials.iter().map(|trial| trial.name);
    let values = trials.iter().map(|trial| Some(trial.makespan.as_secs_f64()));
    let bars = Bars::new(Axis::new("all tasks done after", "s").precision(2), names)
        .series("time", values)
        .mark(Mark::new(ideal.as_secs_f64(), "ideal"));
    Chart::new("Time until all tasks are done", bars)
        .note("The ideal is the sum of all tasks over the number of workers.")
}

fn timeline(trial: &Trial) -> Chart {
    let mut chart = Timeline::new(Axis::new("time", "s").precision(2), ["own task", "stolen task"]);
    for worker in 0..WORKERS {
        let own = trial.ran.iter().filter(|ran| ran.worker == worker);
        let kind = |ran: &Ran| usize::from(ran.home != ran.worker);
        let spans =
            own.map(|ran| (ran.from.as_secs_f64(), ran.to.as_secs_f64(), kind(ran), String::new()));
        chart = chart.row(format!("worker {worker}"), spans);
    }
    Chart::new(format!("Who ran what: {}", trial.name), chart)
}

fn find(report: &mut Report, trials: &[Trial], ideal: Duration) {
    let [without, with @ ..] = trials else { return };
    for trial in with {
        report.finding(format!(
            "With \"{}\": done {} times as soon as without stealing, {} over the ideal; {} moved in {}.",
            trial.name,
            brief(without.makespan.as_secs_f64() / trial.makespan.as_secs_f64()),
            percent(trial.makespan.as_secs_f64() / ideal.as_secs_f64() - 1.0),
            counted(trial.moved() as u64, "task"),
            counted(trial.stats.total().steals, "theft"),
        ));
    }
    report.finding(format!(
        "Without stealing the workers are busy {} of the time: the first had {} of the work, and the others watched.",
        percent(without.utilisation()),
        percent(without.busy(0).as_secs_f64() / without.ran.iter().map(Ran::length_s).sum::<f64>()),
    ));
}

impl Ran {
    fn length_s(&self) -> f64 {
        self.to.saturating_sub(self.from).as_secs_f64()
    }
}

fn judge(report: &mut Report, trials: &[Trial]) {
    for trial in trials {
        report.verdict(
            format!("{}: every task ran once", trial.name),
            counted(TASKS as u64, "task"),
            counted(trial.ran.len() as u64, "task"),
            trial.ran.len() == TASKS && trial.stats.total().processed == TASKS as u64,
        );
    }
    for trial in &trials[1..] {
        // Nobody is idle while others have work, so the last worker ends at most one task after the first. The lengths
        // are those that were seen: a sleep may take longer than it was asked to.
        let lengths = || trial.ran.iter().map(Ran::length_s);
        let bound_s = lengths().sum::<f64>() / WORKERS as f64 + lengths().fold(0.0, f64::max);
        report.verdict(
            format!("{}: no worker idle while others have work", trial.name),
            format!("done within {} s", brief(bound_s)),
            format!("{} s", brief(trial.makespan.as_secs_f64())),
            trial.makespan.as_secs_f64() <= bound_s,
        );
    }
}
