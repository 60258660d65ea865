//! The balancers: every policy against targets that are equal, unequal, turn slow or fail, alone and among many.
//!
//! A balancer that is alone knows all requests in flight; one of many sees only its own. The contest shows what that
//! costs each policy, and names the best by a stated rule (`ranking`). Then three backends are watched by a balancer
//! that learns, with the health that the library gives each of them.

mod adaptive;
mod contest;
mod ranking;
mod show;

#[cfg(test)]
mod tests;

use adaptive::{ALGORITHMS, BACKENDS, MISHAPS, Trial};
use contest::{Contender, Scenario, Size, Standing};
use divvy_placement::policies::Kind;
use ranking::{DRAWN, Rank, Ranking};

use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, count, counted, decimal, percent};
use crate::sim::Setup;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "balancers",
    summary: "all policies with equal, slow and failing targets",
    timing: Timing::Simulated,
    run,
};

/// Enough to see which queues grow; the figures themselves are rough.
const QUICK: Size = Size { targets: 12, balancers: [1, 6], requests: 7_500, seeds: 1 };
const FULL: Size = Size { targets: 50, balancers: [1, 20], requests: 300_000, seeds: 3 };

/// How far the default policy may fall behind the winner of any scenario, with one balancer.
const BEHIND_MAX: f64 = 1.25;
/// The least share of requests with which a backend shows how it is.
const SEEN_SHARE: f64 = 0.01;

/// Everything that came out.
struct Data {
    size: Size,
    standings: Vec<Standing>,
    /// With one balancer, and with many.
    rankings: [Ranking; 2],
    trials: Vec<Trial>,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let data = measure(settings.size(FULL, QUICK), settings, progress)?;
    let names = data.names();
    let mut report = Report::new(
        EXPERIMENT.name,
        "Balancers against slow and failing targets",
        "Every policy faces the same requests: with targets that are equal, half of them slower, one that turns slow \
         and one that answers with quick errors. Once one balancer sees everything, once many share the targets and \
         each sees only its own requests. Best over all scenarios is the policy that falls least behind the winner \
         of any scenario in p99; one whose queues grow without end anywhere cannot be it.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("targets", data.size.targets);
    report.parameter(
        "balancers",
        format!("{} and {}", data.size.balancers[0], data.size.balancers[1]),
    );
    report.parameter("load", Setup::default().load);
    report.parameter("requests per run", data.size.requests);
    report.parameter("runs per figure", data.size.seeds);
    report.parameter("service times", "exponential, queues first in first out");
    for (which, name) in names.iter().enumerate() {
        report.tables.push(show::summary(&data.standings, &data.rankings[which], which, name));
    }
    for at in 0..Scenario::ALL.len() {
        report.tables.push(show::scenario(&data.standings, at, data.size.balancers));
    }
    for mishap in MISHAPS {
        let trials: Vec<&Trial> =
            data.trials.iter().filter(|trial| trial.mishap == mishap).collect();
        report.tables.push(show::backends(&trials, mishap.name));
    }
    for (which, name) in names.iter().enumerate() {
        report.charts.push(show::heat(&data.standings, which, name));
    }
    report
        .charts
        .extend((0..Scenario::ALL.len()).map(|at| show::bars(&data.standings, at, &names)));
    let shown = [Kind::Weighted, Kind::AdaptiveP2c];
    let shown = data.trials.iter().filter(|trial| shown.contains(&trial.algorithm));
    report.charts.extend(shown.map(show::health));
    find(&mut report, &data);
    find_backends(&mut report, &data.trials);
    judge(&mut report, &data);
    Ok(report)
}

fn measure(size: Size, settings: &Settings, progress: &mut Progress<'_>) -> Result<Data, Error> {
    let contenders: Vec<Contender> = Contender::all().collect();
    let standings = contest::play(&contenders, size, settings, progress)?;
    let rankings = [0, 1].map(|which| Ranking::of(&standings, which, size.targets));
    let requests = settings.size(36_000, 6_000);
    let mut trials = Vec::new();
    for mishap in MISHAPS {
        for algorithm in ALGORITHMS {
            progress.step("three backends", trials.len() as u64, 6)?;
            trials.push(adaptive::play(algorithm, mishap, requests, settings.seed_of(99))?);
        }
    }
    Ok(Data { size, standings, rankings, trials })
}

impl Data {
    fn names(&self) -> [String; 2] {
        self.size.balancers.map(|balancers| counted(balancers as u64, "balancer"))
    }

    fn standing(&self, contender: Contender) -> &Standing {
        let found = self.standings.iter().find(|standing| standing.contender == contender);
        found.expect("every contender has played")
    }
}

fn find(report: &mut Report, data: &Data) {
    for (which, name) in data.names().iter().enumerate() {
        let ranking = &data.rankings[which];
        let winners = Scenario::ALL.iter().zip(&ranking.winners).map(|(scenario, winner)| {
            let who = winner.map_or_else(
                || "nobody is stable".into(),
                |(contender, p99)| format!("{} ({})", contender.name(), decimal(p99, 1)),
            );
            format!("{}: {who}", scenario.name())
        });
        let winners: Vec<String> = winners.collect();
        report.finding(format!("Lowest p99 with {name} – {}.", winners.join("; ")));
        report.finding(overall(ranking, name));
        unstable(report, data, which, name);
    }
    let equal = |contender: Contender, which: usize| data.standing(contender).scores[which][0].p99;
    let least = Contender::Policy(Kind::LeastConnections);
    report.finding(format!(
        "On equal targets, least-connections has a p99 of {} with {} and {} with {}. The shortest of the true queues \
         would give {} with {1} and {} with {3}: the difference is what not seeing the others' requests costs.",
        decimal(equal(least, 0), 1),
        data.names()[0],
        decimal(equal(least, 1), 1),
        data.names()[1],
        decimal(equal(Contender::TrueQueues, 0), 1),
        decimal(equal(Contender::TrueQueues, 1), 1),
    ));
    let fair = 1.0 / data.size.targets as f64;
    let drawn = data.rankings[0].ranks.iter().filter(|rank| rank.is_drawn);
    let drawn: Vec<String> = drawn
        .map(|rank| {
            let score = data.standing(rank.contender).scores[0][Scenario::ALL.len() - 1];
            format!("{} ({})", rank.contender.name(), percent(score.sent_to_upset))
        })
        .collect();
    report.finding(format!(
        "A failing target, one of {}, would get {} of the requests by blind choice. With one balancer it gets more \
         from those to whom it only looks free: {}.",
        data.size.targets,
        percent(fair),
        list(&drawn)
    ));
    report.lesson(
        "Look at who sees what before choosing: a scan for the fewest requests in flight is close to the best with \
         one balancer, and loses most of its worth with many, unless targets say who is idle.",
    );
    report.lesson(
        "Choosing by load alone runs into targets that fail quickly. Count failures in the policy, or put a breaker \
         or a health check beside it that marks the target down.",
    );
}

fn overall(ranking: &Ranking, name: &str) -> String {
    let say = |rank: Option<Rank>| match rank.and_then(|rank| rank.worst.map(|worst| (rank, worst)))
    {
        Some((rank, (ratio, _))) if ratio <= 1.0 => {
            format!("{} (the winner of every scenario)", rank.contender.name())
        }
        Some((rank, (ratio, scenario))) => format!(
            "{} (at most {} times the best, in \"{}\")",
            rank.contender.name(),
            decimal(ratio, 2),
            scenario.name()
        ),
        None => "none, for all are unstable somewhere".into(),
    };
    let (best, wary) = (ranking.best(), ranking.best_wary());
    if best == wary {
        return format!("Best over all scenarios with {name}: {}.", say(best));
    }
    format!(
        "Best over all scenarios with {name}: {}; of those that a failing target does not draw: {}.",
        say(best),
        say(wary)
    )
}

fn unstable(report: &mut Report, data: &Data, which: usize, name: &str) {
    for (at, scenario) in Scenario::ALL.into_iter().enumerate() {
        let bad = data.standings.iter().filter(|standing| !standing.scores[which][at].is_stable);
        let bad: Vec<String> = bad.map(|standing| standing.contender.name().into()).collect();
        if !bad.is_empty() {
            report.finding(format!(
                "Queues grow without end with {name} in \"{}\" under {}.",
                scenario.name(),
                list(&bad)
            ));
        }
    }
}

fn find_backends(report: &mut Report, trials: &[Trial]) {
    for trial in trials.iter().filter(|trial| trial.algorithm == Kind::AdaptiveP2c) {
        let health = trial.last_health.iter().zip(BACKENDS);
        let health: Vec<String> =
            health.map(|(health, name)| format!("{name} {}", decimal(health.score, 2))).collect();
        report.finding(format!(
            "Three backends, {}: adaptive-p2c gave {} {} of the requests since, against {} under weighted; health at \
             the end: {}.",
            trial.mishap.name,
            BACKENDS[0],
            percent(trial.outcome.sent_to_upset),
            percent(same_mishap(trials, trial, Kind::Weighted).outcome.sent_to_upset),
            health.join(", ")
        ));
        if !is_seen(trial) {
            report.finding(format!(
                "A score needs evidence: {} got too few requests since to look ill under adaptive-p2c; under \
                 weighted, which goes on asking, its health is {}.",
                BACKENDS[0],
                decimal(same_mishap(trials, trial, Kind::Weighted).last_health[0].score, 2)
            ));
        }
    }
}

/// Whether the backend with the mishap still got enough requests to show how it is.
fn is_seen(trial: &Trial) -> bool {
    trial.outcome.sent_to_upset >= SEEN_SHARE
}

fn same_mishap<'a>(trials: &'a [Trial], as_in: &Trial, algorithm: Kind) -> &'a Trial {
    let same = |trial: &&Trial| trial.mishap == as_in.mishap && trial.algorithm == algorithm;
    trials.iter().find(same).expect("every algorithm went through every mishap")
}

fn judge(report: &mut Report, data: &Data) {
    let default = Contender::Policy(Kind::default());
    let ranks = &data.rankings[0].ranks;
    let rank = ranks.iter().find(|rank| rank.contender == default);
    let ratio = rank.and_then(|rank| rank.worst).map(|worst| worst.0);
    let best = data.rankings[0].best().map_or("none", |rank| rank.contender.name());
    report.verdict(
        format!(
            "p99 of the default, {}, over the winner of any scenario, one balancer",
            default.name()
        ),
        format!("at most {} times", brief(BEHIND_MAX)),
        ratio.map_or_else(
            || "unstable".into(),
            |ratio| format!("{} times (best: {best})", decimal(ratio, 2)),
        ),
        ratio.is_some_and(|ratio| ratio <= BEHIND_MAX),
    );
    let stable = data.rankings.iter().all(|ranking| ranking.winners.iter().all(Option::is_some));
    let words = if stable { "yes" } else { "no" };
    report.verdict("a policy is stable in every scenario", "yes", words, stable);
    let wary = Contender::Policy(Kind::AdaptiveP2c);
    let fails = Scenario::ALL.len() - 1;
    let sent = data.standing(wary).scores[0][fails].sent_to_upset * data.size.targets as f64;
    report.verdict(
        "adaptive-p2c gives a failing target, of its fair share",
        format!("at most {} times", brief(DRAWN)),
        format!("{} times", decimal(sent, 2)),
        sent <= DRAWN,
    );
    let seen = || data.trials.iter().filter(|trial| is_seen(trial));
    let ill = seen().filter(|trial| {
        let others = trial.last_health[1..].iter().map(|health| health.score);
        trial.last_health[0].score < others.fold(f64::INFINITY, f64::min)
    });
    let (ill, all) = (ill.count() as u64, seen().count() as u64);
    report.verdict(
        "the backend with the mishap has the lowest health, if it is still asked",
        format!("in all {} such trials", count(all)),
        format!("in {}", count(ill)),
        ill == all,
    );
}

fn list(words: &[String]) -> String {
    match words {
        [] => "none".into(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
