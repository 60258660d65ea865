//! Decides how one situation is played with every way of moving tasks, and how the ways are shown side by side.

use std::time::Duration;

use divvy_types::settings::Strategy;

use crate::chart::{Axis, Bars, Chart, Lines};
use crate::experiment::{Error, Experiment, Progress, Settings};
use crate::report::number::{brief, count, percent};
use crate::report::{Report, Table};
use crate::sim::cluster::scenario::{STRATEGIES, settings as told};
use crate::sim::cluster::{Cluster, Outcome};

/// Points of a line that follows a run.
const POINTS: usize = 60;

/// A situation and what is said about it.
pub(super) struct Situation {
    pub(super) experiment: Experiment,
    pub(super) title: &'static str,
    pub(super) shows: &'static str,
    /// How many tasks, in full and in a quick run.
    pub(super) tasks: (usize, usize),
    /// The cluster for a way of moving tasks, a number of tasks and a seed.
    pub(super) cluster: fn(Strategy, usize, u64) -> Cluster,
}

/// The same situation, once per way.
pub(super) struct Runs {
    pub(super) none: Outcome,
    pub(super) pull: Outcome,
    pub(super) push: Outcome,
    pub(super) hybrid: Outcome,
}

impl Situation {
    /// Plays it in every way. The report has tables, charts and the common findings; the rest is the caller's.
    pub(super) fn play(
        &self,
        settings: &Settings,
        progress: &mut Progress<'_>,
    ) -> Result<(Report, Runs), Error> {
        let tasks = settings.size(self.tasks.0, self.tasks.1);
        let mut run = |place: usize| {
            let (name, strategy) = STRATEGIES[place];
            progress.step(name, place as u64, STRATEGIES.len() as u64)?;
            (self.cluster)(strategy, tasks, settings.seed).run()
        };
        let runs = Runs { none: run(0)?, pull: run(1)?, push: run(2)?, hybrid: run(3)? };
        let mut report = Report::new(self.experiment.name, self.title, self.shows);
        report.parameter("seed", settings.seed);
        self.parameters(&mut report, tasks);
        report.tables.push(runs.table());
        report.charts.push(runs.makespans());
        report.charts.push(runs.waits());
        report.charts.push(runs.progress());
        runs.find(&mut report);
        runs.judge(&mut report);
        Ok((report, runs))
    }

    fn parameters(&self, report: &mut Report, tasks: usize) {
        let cluster = (self.cluster)(Strategy::Hybrid, 1, 1);
        let balancing = told(Strategy::Hybrid).load_balancing;
        report.parameter("workers", cluster.members.len());
        report.parameter("tasks", tasks);
        report.parameter("messages travel", format!("{} ms", cluster.travel.as_millis()));
        let every = balancing.thresholds.rebalance_interval_sec;
        report.parameter("rebalance_interval_sec", every);
        let most = balancing.work_stealing.max_steal_per_cycle;
        report.parameter("max_steal_per_cycle", most);
        report.parameter("busy_threshold", balancing.thresholds.busy_threshold);
        report.parameter("idle_threshold", balancing.thresholds.idle_threshold);
    }
}

impl Runs {
    pub(super) fn all(&self) -> [(&'static str, &Outcome); 4] {
        let [none, pull, push, hybrid] = STRATEGIES.map(|(name, _)| name);
        [(none, &self.none), (pull, &self.pull), (push, &self.push), (hybrid, &self.hybrid)]
    }

    fn table(&self) -> Table {
        let mut table = Table::new("The same tasks, with every way of moving them")
            .text("stealing")
            .number("all done after", "s", 1)
            .number("wait p50", "s", 2)
            .number("wait p99", "s", 2)
            .number("steals tried", "", 0)
            .number("won", "", 0)
            .number("Jain", "", 3);
        for (name, outcome) in self.all() {
            let waits = outcome.waits(|_| true);
            table.row([
                name.into(),
                outcome.makespan().as_secs_f64().into(),
                waits.p50.as_secs_f64().into(),
                waits.p99.as_secs_f64().into(),
                outcome.load.total_steals.into(),
                outcome.load.successful_steals.into(),
                outcome.evenness().into(),
            ]);
        }
        table
    }

    fn makespans(&self) -> Chart {
        let all = self.all();
        let bars = Bars::new(Axis::new("all done after", "s"), all.map(|(name, _)| name))
            .series("", all.map(|(_, outcome)| Some(outcome.makespan().as_secs_f64())));
        Chart::new("Time until the last task was done", bars)
    }

    fn waits(&self) -> Chart {
        let all = self.all();
        let times = |pick: fn(&Outcome) -> Duration| {
            all.map(|(_, outcome)| Some(pick(outcome).as_secs_f64()))
        };
        let axis = Axis::new("wait from ready to start", "s").precision(2);
        let bars = Bars::new(axis, all.map(|(name, _)| name))
            .series("half wait less than", times(|outcome| outcome.waits(|_| true).p50))
            .series("99 % wait less than", times(|outcome| outcome.waits(|_| true).p99));
        Chart::new("How long tasks waited", bars)
    }

    fn progress(&self) -> Chart {
        let y = Axis::new("tasks done", "").precision(0);
        let mut lines = Lines::new(Axis::new("time", "s"), y);
        for (name, outcome) in self.all() {
            let mut ends: Vec<Duration> =
                outcome.lives.iter().filter_map(|life| life.ended).collect();
            ends.sort_unstable();
            let point = |number: usize| {
                let done = (number * ends.len()).div_ceil(POINTS);
                let at = done.checked_sub(1).map_or(Duration::ZERO, |last| ends[last]);
                (at.as_secs_f64(), done as f64)
            };
            lines = lines.line(name, (0..=POINTS).map(point));
        }
        Chart::new("Tasks done over time", lines)
            .note("A long flat end is one worker that still has tasks while the others have none.")
    }

    fn find(&self, report: &mut Report) {
        let seconds = |outcome: &Outcome| outcome.makespan().as_secs_f64();
        let all = self.all();
        let first = all.iter().map(|(_, outcome)| seconds(outcome)).fold(f64::INFINITY, f64::min);
        let best: Vec<&str> = all
            .iter()
            .filter(|(_, outcome)| seconds(outcome) <= first * 1.01)
            .map(|(name, _)| *name)
            .collect();
        report.finding(format!(
            "All tasks were done after {} s without stealing and after {} s with hybrid stealing ({} of that); \
             within 1 % of the earliest: {}.",
            brief(seconds(&self.none)),
            brief(seconds(&self.hybrid)),
            percent(seconds(&self.hybrid) / seconds(&self.none)),
            best.join(", ")
        ));
        let p99 = |outcome: &Outcome| outcome.waits(|_| true).p99.as_secs_f64();
        report.finding(format!(
            "99 % of the tasks waited less than {} s without stealing, {} s with pull, {} s with push, {} s with both.",
            brief(p99(&self.none)),
            brief(p99(&self.pull)),
            brief(p99(&self.push)),
            brief(p99(&self.hybrid))
        ));
        let hybrid = &self.hybrid.load;
        report.finding(format!(
            "Hybrid stealing asked for {} tasks back and got {} of them; Jain's index of the workers' busy time went \
             from {} to {}.",
            count(hybrid.total_steals),
            count(hybrid.successful_steals),
            brief(self.none.evenness()),
            brief(self.hybrid.evenness())
        ));
    }

    fn judge(&self, report: &mut Report) {
        let problems: Vec<String> = self
            .all()
            .into_iter()
            .filter_map(|(name, outcome)| {
                Some(format!("{name}: {}", outcome.check_ended_once().err()?))
            })
            .collect();
        let found = if problems.is_empty() { "all".into() } else { problems.join("; ") };
        report.verdict(
            "tasks that end exactly once, in every run",
            "all",
            found,
            problems.is_empty(),
        );
    }

    /// Adds the target that hybrid stealing needs at most this share of the time that no stealing needs.
    pub(super) fn judge_makespan(&self, report: &mut Report, most: f64) {
        let share = self.hybrid.makespan().as_secs_f64() / self.none.makespan().as_secs_f64();
        report.verdict(
            "time with hybrid stealing, of that without",
            format!("≤ {}", percent(most)),
            percent(share),
            share <= most,
        );
    }

    /// Adds the target that the longest waits with hybrid stealing are at most this share of those without.
    pub(super) fn judge_wait(&self, report: &mut Report, most: f64) {
        let p99 = |outcome: &Outcome| outcome.waits(|_| true).p99.as_secs_f64();
        let share = p99(&self.hybrid) / p99(&self.none);
        report.verdict(
            "wait p99 with hybrid stealing, of that without",
            format!("≤ {}", percent(most)),
            percent(share),
            share <= most,
        );
    }
}
