//! The thundering herd: ten thousand idle workers and one task.
//!
//! Compares three ways in which workers learn of a task: they ask once per second, they are all woken, or the server
//! gives the task to one of them. The first two are played on a model of a queue; the third is divvy's own scheduler,
//! driven directly, so its counts are those of a real server.

mod desk;
mod machine;

use std::time::Duration;

use desk::{Cost, Scene, Way};
use machine::Server;

use crate::chart::{Axis, Bars, Chart, Lines};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, counted};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "herd",
    summary: "10,000 idle workers and one task: who is woken",
    timing: Timing::Simulated,
    run,
};

const WORKERS: u32 = 10_000;
const PERIOD: Duration = Duration::from_secs(1);
const HANDLING: Duration = Duration::from_micros(5);
const TRAVEL: Duration = Duration::from_micros(500);
/// Tasks that arrive together.
const BURSTS: [u32; 5] = [1, 10, 100, 1_000, 10_000];
/// Tasks that run one after the other, to see whether the same workers always get them.
const IN_TURN: u32 = 1_000;
const MINUTE_S: f64 = 60.0;

/// One way, over all bursts.
struct Trace {
    name: &'static str,
    bursts: Vec<Means>,
}

/// Means over the trials of one burst.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    idle_per_s: f64,
    messages: f64,
    vain: f64,
    first_ms: f64,
    last_ms: f64,
    busy_ms: f64,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let trials = settings.size(40, 5);
    let ways = [
        ("ask each second, spread", Way::PollSpread),
        ("ask each second, in step", Way::PollInStep),
        ("wake all", Way::WakeAll),
    ];
    let total = ways.len() as u64 + 1;
    let mut traces = Vec::new();
    for (index, (name, way)) in ways.into_iter().enumerate() {
        progress.step(name, index as u64, total)?;
        traces.push(play(name, way, trials, settings.seed_of(index as u64)));
    }
    progress.step("divvy's scheduler", total - 1, total)?;
    let mut server = Server::with_workers(WORKERS);
    let idle = Idle { messages: server.messages_without_task(), timer: server.has_timer() };
    let divvy = push(&mut server);
    let used = server.workers_used(IN_TURN);
    traces.push(divvy.trace);

    let mut report = Report::new(
        EXPERIMENT.name,
        "The thundering herd",
        "Ten thousand workers have nothing to do. Then one task comes. A queue that workers ask again and again is \
         busy all the time; one that wakes everybody is busy for nothing at the worst moment; one that gives the task \
         to a single worker does what is needed and no more.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("workers", WORKERS);
    report.parameter("trials", trials);
    report.parameter("asked once per", "1 s");
    report.parameter("a message takes the queue", "5 µs");
    report.parameter("a message travels", "0.5 ms");
    report.parameter("wake-ups are sent", "in one go");
    report.tables.push(one_task(&traces));
    report.tables.push(bursts(&traces));
    report.charts.push(minute_chart(&traces));
    report.charts.push(burst_chart(&traces));
    report.charts.push(start_chart(&traces));
    find(&mut report, &traces, used);
    judge(&mut report, &idle, divvy.woken_by_one, divvy.all_started);
    Ok(report)
}

fn play(name: &'static str, way: Way, trials: u32, seed: u64) -> Trace {
    let mut random = fastrand::Rng::with_seed(seed);
    let bursts = BURSTS.map(|tasks| {
        let scene =
            Scene { workers: WORKERS, tasks, period: PERIOD, handling: HANDLING, travel: TRAVEL };
        let mut sum = Means::default();
        for _ in 0..trials {
            sum.add(&desk::play(way, &scene, &mut random));
        }
        sum.over(f64::from(trials))
    });
    Trace { name, bursts: bursts.into() }
}

impl Means {
    fn add(&mut self, cost: &Cost) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.idle_per_s += cost.idle_messages as f64 / PERIOD.as_secs_f64();
        self.messages += cost.messages as f64;
        self.vain += cost.vain as f64;
        self.first_ms += ms(cost.first_start);
        self.last_ms += ms(cost.last_start);
        self.busy_ms += ms(cost.busy);
    }

    fn over(self, trials: f64) -> Self {
        Self {
            idle_per_s: self.idle_per_s / trials,
            messages: self.messages / trials,
            vain: self.vain / trials,
            first_ms: self.first_ms / trials,
            last_ms: self.last_ms / trials,
            busy_ms: self.busy_ms / trials,
        }
    }
}

/// What divvy's scheduler did while nothing happened.
struct Idle {
    messages: u64,
    timer: bool,
}

struct Pushed {
    trace: Trace,
    woken_by_one: u64,
    all_started: bool,
}

/// The counts are the scheduler's; the times are those of the same desk that sends that many messages.
fn push(server: &mut Server) -> Pushed {
    let (mut bursts, mut woken_by_one, mut all_started) = (Vec::new(), 0, true);
    for tasks in BURSTS {
        let burst = server.burst(tasks);
        if tasks == 1 {
            woken_by_one = burst.woken;
        }
        all_started &= burst.started == u64::from(tasks);
        let ms = |messages: u64| (HANDLING * (messages as u32 + 1)).as_secs_f64() * 1e3;
        let travel_ms = TRAVEL.as_secs_f64() * 1e3;
        bursts.push(Means {
            idle_per_s: 0.0,
            messages: burst.messages as f64,
            vain: (burst.woken - burst.started.min(burst.woken)) as f64,
            first_ms: ms(1) + travel_ms,
            last_ms: ms(burst.messages) + travel_ms,
            busy_ms: ms(burst.messages),
        });
    }
    Pushed { trace: Trace { name: "divvy: give to one", bursts }, woken_by_one, all_started }
}

fn one_task(traces: &[Trace]) -> Table {
    let mut table = Table::new("One task for 10,000 idle workers")
        .text("workers learn of it by")
        .number("messages while idle", "per s", 0)
        .number("messages for the task", "", 0)
        .number("asked in vain", "", 0)
        .number("task starts after", "ms", 2)
        .number("queue busy for", "ms", 2);
    for trace in traces {
        let one = trace.bursts[0];
        table.row([
            trace.name.into(),
            one.idle_per_s.into(),
            one.messages.into(),
            one.vain.into(),
            one.first_ms.into(),
            one.busy_ms.into(),
        ]);
    }
    table
}

fn bursts(traces: &[Trace]) -> Table {
    let mut table = Table::new("Tasks that arrive together: messages, and the last start")
        .number("tasks", "", 0)
        .text("way")
        .number("messages", "", 0)
        .number("per task", "", 1)
        .number("last start", "ms", 2);
    for (index, tasks) in BURSTS.iter().enumerate() {
        for trace in traces {
            let burst = trace.bursts[index];
            let each = burst.messages / f64::from(*tasks);
            table.row([
                (*tasks).into(),
                trace.name.into(),
                burst.messages.into(),
                each.into(),
                burst.last_ms.into(),
            ]);
        }
    }
    table
}

fn minute_chart(traces: &[Trace]) -> Chart {
    let axis = Axis::new("messages", "").log().precision(0);
    let shown = |value: f64| (value > 0.0).then_some(value);
    let bars = Bars::new(axis, traces.iter().map(|trace| trace.name))
        .series(
            "in a quiet minute",
            traces.iter().map(|trace| shown(trace.bursts[0].idle_per_s * MINUTE_S)),
        )
        .series("for one task", traces.iter().map(|trace| shown(trace.bursts[0].messages)));
    Chart::new("Messages of a quiet minute, and of the one task after it", bars)
        .note("Each step of the axis is ten times the one before.")
}

fn burst_chart(traces: &[Trace]) -> Chart {
    let x = Axis::new("tasks that arrive together", "").log().precision(0);
    let y = Axis::new("messages until all have started", "").log().precision(0);
    lines(traces, x, y, |burst| burst.messages, "Messages, by the number of tasks")
}

fn start_chart(traces: &[Trace]) -> Chart {
    let x = Axis::new("tasks that arrive together", "").log().precision(0);
    let y = Axis::new("the last task starts after", "ms").log().precision(2);
    lines(traces, x, y, |burst| burst.last_ms, "Time until the last task starts")
}

fn lines(traces: &[Trace], x: Axis, y: Axis, value: fn(&Means) -> f64, title: &str) -> Chart {
    let mut lines = Lines::new(x, y);
    for trace in traces {
        let values = trace.bursts.iter().map(value);
        lines = lines.line(trace.name, BURSTS.iter().map(|tasks| f64::from(*tasks)).zip(values));
    }
    Chart::new(title, lines).note("Both axes grow by ratio.")
}

fn find(report: &mut Report, traces: &[Trace], used: u64) {
    let [spread, step, wake, divvy] = traces else { unreachable!("there are four ways") };
    let (asked, woken, given) = (spread.bursts[0], wake.bursts[0], divvy.bursts[0]);
    let minute = asked.idle_per_s * MINUTE_S;
    report.finding(format!(
        "Workers that ask each second send and get {} messages in a quiet minute; divvy's scheduler sends none.",
        brief(minute)
    ));
    report.finding(format!(
        "For one task, waking all costs {} messages and {} questions in vain; giving it to one worker costs {}.",
        brief(woken.messages),
        brief(woken.vain),
        counted(given.messages as u64, "message")
    ));
    report.finding(format!(
        "After a wake-up of all, the queue is busy for {} ms with workers that get nothing; whatever comes in that \
         time waits behind them.",
        brief(woken.busy_ms)
    ));
    report.finding(format!(
        "Pollers that have fallen into step start a task after {} ms on average, against {} ms when their moments are \
         spread, and {} ms when it is given to a worker.",
        brief(step.bursts[0].first_ms),
        brief(asked.first_ms),
        brief(given.first_ms)
    ));
    let last = BURSTS.len() - 1;
    report.finding(format!(
        "When there is a task for every worker, waking all costs only {} times the messages of divvy: the herd is a \
         problem of little work, not of much.",
        brief(wake.bursts[last].messages / divvy.bursts[last].messages)
    ));
    report.finding(format!(
        "{} tasks one after the other went to {} of the {} workers.",
        count(u64::from(IN_TURN)),
        count(used),
        count(u64::from(WORKERS))
    ));
    report.lesson(
        "Let the side that knows of the work choose one worker and tell only that one. Waiting then costs nothing, \
         and one task costs one message, however many wait.",
    );
    report.lesson(
        "If polling cannot be avoided, spread the moments by chance and keep them spread: equal periods without \
         jitter fall into step after a restart.",
    );
}

fn judge(report: &mut Report, idle: &Idle, woken_by_one: u64, all_started: bool) {
    let timer = if idle.timer { ", a timer runs" } else { ", no timer runs" };
    report.verdict(
        "messages to idle workers before there is a task",
        "0, and no timer",
        format!("{}{timer}", idle.messages),
        idle.messages == 0 && !idle.timer,
    );
    report.verdict("workers woken by one task", "1", woken_by_one.to_string(), woken_by_one == 1);
    let words = if all_started { "all" } else { "not all" };
    report.verdict("tasks of every burst started at once", "all", words, all_started);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn quick(seed: u64) -> Report {
        let stop = AtomicBool::new(false);
        let mut ignore = |_: crate::experiment::Step<'_>| {};
        run(&Settings { seed, quick: true }, &mut Progress::new(&mut ignore, &stop)).unwrap()
    }

    #[test]
    fn one_task_wakes_one_worker_and_a_run_repeats() {
        let report = quick(7);
        assert_eq!(report.met(), (3, 3), "{:?}", report.verdicts);
        assert_eq!(report, quick(7));
        assert_ne!(report.tables, quick(8).tables);
    }

    #[test]
    fn a_run_that_is_asked_to_stop_stops() {
        let stop = AtomicBool::new(true);
        let mut ignore = |_: crate::experiment::Step<'_>| {};
        let ended = run(&Settings::default(), &mut Progress::new(&mut ignore, &stop));
        assert!(matches!(ended, Err(Error::Stopped)));
    }
}
