//! Decides who plays against whom: every policy, in every scenario, behind one balancer and behind many.
//!
//! Runs are independent and each has its own seed, so they are shared out over the cores of the machine; the result
//! does not depend on how many there are. Policies of one scenario and seed face the same requests.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use divvy_placement::policies::{JoinIdle, Kind, join_idle};
use divvy_placement::{Pick, Policy, Request, Target, View};

use crate::experiment::{Error, Progress, Settings};
use crate::sim::{self, Fleet, Outcome, Reports, Setup, Upset};

/// How many times as long the slower half needs.
pub(super) const SLOWER: f64 = 2.0;
/// How many times as long the target needs that turns slow.
pub(super) const TURNED_SLOW: f64 = 10.0;
/// The share of the usual time after which the failing target answers.
pub(super) const ERROR_SHARE: f64 = 0.01;
/// How many scenarios there are.
pub(super) const SCENARIOS: usize = 4;
/// How many runs may use the machine at once.
const THREADS_MAX: usize = 64;

/// What the targets are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// All alike, all the time.
    Equal,
    /// Every second one is slower.
    HalfSlower,
    /// One turns slow when half of the requests have come.
    TurnsSlow,
    /// One answers with errors, quickly, when half of the requests have come.
    Fails,
}

impl Scenario {
    /// All of them.
    pub(super) const ALL: [Self; SCENARIOS] =
        [Self::Equal, Self::HalfSlower, Self::TurnsSlow, Self::Fails];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::HalfSlower => "half 2× slower",
            Self::TurnsSlow => "one turns 10× slow",
            Self::Fails => "one fails fast",
        }
    }
}

/// A policy and what it is allowed to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// A policy as it is made by its name.
    Policy(Kind),
    /// Join-idle that believes only what targets say themselves.
    IdleByWord,
    /// Weighted round robin that was told the true speeds.
    SpeedsKnown,
    /// The shortest of the true queues, which no network can show: how good a choice could be at best.
    TrueQueues,
}

impl Contender {
    /// All of them; those that know more than is fair come last.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(Self::Policy).chain([
            Self::IdleByWord,
            Self::SpeedsKnown,
            Self::TrueQueues,
        ])
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Policy(kind) => kind.name(),
            Self::IdleByWord => "join-idle by word",
            Self::SpeedsKnown => "weighted by speed",
            Self::TrueQueues => "(true queues)",
        }
    }

    /// Whether it can win: it knows only what a balancer can know by itself.
    pub(super) fn is_fair(self) -> bool {
        matches!(self, Self::Policy(_) | Self::IdleByWord)
    }

    fn build(self, seed: u64) -> Box<dyn Policy> {
        match self {
            Self::Policy(kind) => kind.build(seed),
            Self::IdleByWord => {
                let settings =
                    join_idle::Settings { idle_by_count: false, ..join_idle::Settings::default() };
                Box::new(JoinIdle::new(settings, seed))
            }
            Self::SpeedsKnown => Kind::Weighted.build(seed),
            Self::TrueQueues => Box::new(Shortest(fastrand::Rng::with_seed(seed))),
        }
    }
}

/// The yardstick: the target with the fewest requests, known or reported; of equal ones, any.
struct Shortest(fastrand::Rng);

impl Policy for Shortest {
    fn name(&self) -> &'static str {
        "shortest"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let queue = |target: &Target| target.in_flight + target.queued;
        let least = view.fitting(request).map(queue).min();
        let shortest = || view.fitting(request).filter(|target| Some(queue(target)) == least);
        // One pass to count and one to fetch, so that nothing is allocated.
        let chosen = self.0.usize(..shortest().count().max(1));
        let target = shortest().nth(chosen);
        target.map_or_else(|| view.none_fits(request), |target| Pick::One(target.id))
    }
}

/// How much is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) targets: usize,
    pub(super) balancers: [usize; 2],
    pub(super) requests: u64,
    pub(super) seeds: u64,
}

/// What one contender did in one scenario, over all seeds. Times are in mean service times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    pub(super) p50: f64,
    pub(super) mean: f64,
    pub(super) p99: f64,
    /// The share of requests that ended in an error.
    pub(super) errors: f64,
    /// The share of requests after the upset that went to its target.
    pub(super) sent_to_upset: f64,
    /// Whether every queue stayed within bounds, with every seed.
    pub(super) is_stable: bool,
}

/// One contender with its scores: by number of balancers, then by scenario.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) contender: Contender,
    pub(super) scores: [[Score; SCENARIOS]; 2],
}

/// Plays all that these contenders can play.
pub(super) fn play(
    contenders: &[Contender],
    size: Size,
    settings: &Settings,
    progress: &mut Progress<'_>,
) -> Result<Vec<Standing>, Error> {
    let mut rounds = Vec::new();
    for contender in contenders.iter().copied() {
        for balancers in size.balancers {
            for scenario in Scenario::ALL {
                for seed in 0..size.seeds {
                    let seed = settings.seed_of(seed);
                    rounds.push(Round::new(contender, scenario, balancers, size, seed));
                }
            }
        }
    }
    let outcomes = play_all(&rounds, progress)?;
    let mut scores = outcomes.chunks(size.seeds as usize).map(score);
    let mut next = || scores.next().expect("every round was played");
    let standings = contenders.iter().copied().map(|contender| {
        let scores = [(); 2].map(|()| [(); SCENARIOS].map(|()| next()));
        Standing { contender, scores }
    });
    Ok(standings.collect())
}

/// One run of the simulator.
struct Round {
    contender: Contender,
    setup: Setup,
}

impl Round {
    fn new(
        contender: Contender,
        scenario: Scenario,
        balancers: usize,
        size: Size,
        seed: u64,
    ) -> Self {
        let mut setup = Setup {
            targets: size.targets,
            balancers,
            requests: size.requests,
            weights_known: contender == Contender::SpeedsKnown,
            seed,
            ..Setup::default()
        };
        match scenario {
            Scenario::Equal => {}
            Scenario::HalfSlower => setup.fleet = Fleet::HalfSlower { factor: SLOWER },
            Scenario::TurnsSlow => setup.upset = Upset::Slow { factor: TURNED_SLOW },
            Scenario::Fails => setup.upset = Upset::Fails { share: ERROR_SHARE },
        }
        if contender == Contender::TrueQueues {
            setup.reports = Reports::Exact;
        }
        Self { contender, setup }
    }

    fn play(&self) -> Result<Outcome, Error> {
        sim::run(&self.setup, &mut |seed| self.contender.build(seed))
    }
}

/// Plays all rounds on all cores; outcomes are in the order of the rounds.
fn play_all(rounds: &[Round], progress: &mut Progress<'_>) -> Result<Vec<Outcome>, Error> {
    let total = rounds.len() as u64;
    progress.step("policies", 0, total)?;
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    let next = AtomicUsize::new(0);
    let mut outcomes: Vec<Option<Outcome>> = rounds.iter().map(|_| None).collect();
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(threads);
        for _ in 0..threads {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(round) = rounds.get(at) else { break };
                    // Nobody listens any more when the run is stopped.
                    if send.send((at, round.play())).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (done, (at, outcome)) in receive.into_iter().enumerate() {
            outcomes[at] = Some(outcome?);
            progress.step(rounds[at].contender.name(), done as u64 + 1, total)?;
        }
        Ok::<(), Error>(())
    })?;
    Ok(outcomes.into_iter().map(|outcome| outcome.expect("every round was played")).collect())
}

/// The mean over seeds; one unstable seed is enough to be called unstable.
fn score(outcomes: &[Outcome]) -> Score {
    let service = Setup::default().service.as_secs_f64();
    let mean = |value: &dyn Fn(&Outcome) -> f64| {
        outcomes.iter().map(value).sum::<f64>() / outcomes.len() as f64
    };
    let times = |time: Duration| time.as_secs_f64() / service;
    Score {
        p50: mean(&|outcome| times(outcome.response.p50)),
        mean: mean(&|outcome| times(outcome.response.mean)),
        p99: mean(&|outcome| times(outcome.response.p99)),
        errors: mean(&Outcome::failed_share),
        sent_to_upset: mean(&|outcome| outcome.sent_to_upset),
        is_stable: outcomes.iter().all(Outcome::is_stable),
    }
}
