//! One run: users arrive whatever happens, D is slow for a while, and everything is written down.

use std::sync::Arc;
use std::time::Duration;

use divvy_guard::shed::Priority;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::chain::{Acts, Chain, Guards, Request, SERVICES, Served, THREADS};
use crate::experiments::paused;

/// Users per second.
pub(super) const RATE: f64 = 100.0;
/// The share of requests that need D.
pub(super) const DEEP: f64 = 0.6;
/// An answer that comes later is of no use.
pub(super) const IN_TIME: Duration = Duration::from_secs(1);
/// After this a user goes away.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often threads are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// When what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// From when to when D is slow.
    pub(super) slow: [Duration; 2],
    /// When the last user comes.
    pub(super) ends: Duration,
}

/// What a user saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The full answer in time.
    Full,
    /// A smaller answer in time.
    Degraded,
    /// An error or a refusal.
    Error,
    /// An answer that came too late, or none before the user went away.
    TooLate,
}

impl Seen {
    pub(super) const ALL: [Self; 4] = [Self::Full, Self::Degraded, Self::Error, Self::TooLate];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full answer",
            Self::Degraded => "degraded answer",
            Self::Error => "refused or failed",
            Self::TooLate => "too late",
        }
    }

    /// Whether it helps the user.
    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Full | Self::Degraded)
    }
}

/// One user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Visit {
    pub(super) at: Duration,
    pub(super) is_deep: bool,
    pub(super) waited: Duration,
    pub(super) seen: Seen,
}

/// A look at the threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) at: Duration,
    /// Threads that are taken, by service.
    pub(super) taken: [usize; SERVICES.len()],
    /// Requests that wait for a thread, by service.
    pub(super) waiting: [usize; SERVICES.len()],
}

impl Look {
    pub(super) fn is_saturated(&self, service: usize) -> bool {
        self.taken[service] >= THREADS[service]
    }
}

/// All that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Day {
    pub(super) plan: Plan,
    pub(super) visits: Vec<Visit>,
    pub(super) looks: Vec<Look>,
    pub(super) acts: Acts,
}

impl Day {
    /// Users who came while D was slow.
    pub(super) fn in_trouble(&self) -> impl Iterator<Item = &Visit> {
        self.visits
            .iter()
            .filter(|visit| (self.plan.slow[0]..self.plan.slow[1]).contains(&visit.at))
    }

    /// The share of these users who saw this.
    pub(super) fn share<'a>(
        visits: impl Iterator<Item = &'a Visit>,
        is: impl Fn(Seen) -> bool,
    ) -> f64 {
        paused::mean(visits.map(|visit| f64::from(u8::from(is(visit.seen)))))
    }

    /// Users per second of arrival who were helped: one number per second.
    pub(super) fn goodput(&self) -> Vec<(f64, f64)> {
        let seconds = self.plan.ends.as_secs() as usize;
        let mut counts = vec![0.0; seconds];
        for visit in self.visits.iter().filter(|visit| visit.seen.is_good()) {
            counts[(visit.at.as_secs() as usize).min(seconds - 1)] += 1.0;
        }
        counts.into_iter().enumerate().map(|(second, count)| (second as f64 + 0.5, count)).collect()
    }

    /// The median wait of users who need D, by the second in which they came.
    pub(super) fn deep_waits(&self) -> Vec<(f64, Duration)> {
        let mut seconds = vec![Vec::new(); self.plan.ends.as_secs() as usize];
        for visit in self.visits.iter().filter(|visit| visit.is_deep) {
            if let Some(second) = seconds.get_mut(visit.at.as_secs() as usize) {
                second.push(visit.waited);
            }
        }
        let medians = seconds.iter_mut().enumerate().filter_map(|(second, waits)| {
            Some((second as f64 + 0.5, paused::quantile(waits, 0.5)?))
        });
        medians.collect()
    }

    /// When a service had no free thread for the first time, and for how long in all.
    pub(super) fn saturation(&self, service: usize) -> (Option<Duration>, Duration) {
        let full = || self.looks.iter().filter(|look| look.is_saturated(service));
        (full().next().map(|look| look.at), LOOK * full().count() as u32)
    }

    /// How long after D was well again all users of a whole second were helped; nothing if that never came.
    pub(super) fn recovery(&self) -> Option<Duration> {
        let well = self.plan.slow[1];
        let bad = self.visits.iter().filter(|visit| visit.at >= well && visit.seen != Seen::Full);
        let last_bad = bad.map(|visit| visit.at).max();
        let last = last_bad.map_or(Duration::ZERO, |at| at - well);
        (well + last + Duration::from_secs(1) <= self.plan.ends).then_some(last)
    }
}

/// Plays a plan under some guards. Users come at the same moments with the same requests, whatever the guards.
pub(super) async fn play(guards: Guards, plan: Plan, seed: u64) -> Day {
    let chain = Chain::new(guards, plan.slow, seed);
    let start = Instant::now();
    let watched = Arc::clone(&chain);
    let looks = tokio::spawn(async move {
        let mut looks = Vec::new();
        while start.elapsed() <= plan.ends {
            looks.push(look(&watched, start.elapsed()));
            sleep(LOOK).await;
        }
        looks
    });
    let mut users = Vec::new();
    for (at, request) in arrivals(plan, seed) {
        sleep_until(start + at).await;
        let chain = Arc::clone(&chain);
        users.push(tokio::spawn(async move {
            let began = Instant::now();
            // The request goes on when the user has gone: nobody tells A.
            let asked = tokio::spawn(chain.ask(request));
            let answer = timeout(PATIENCE, asked).await;
            let waited = began.elapsed();
            let seen = match answer {
                Ok(Ok(Ok(_))) if waited > IN_TIME => Seen::TooLate,
                Ok(Ok(Ok(Served::Full))) => Seen::Full,
                Ok(Ok(Ok(Served::Degraded))) => Seen::Degraded,
                Ok(_) => Seen::Error,
                Err(_) => Seen::TooLate,
            };
            Visit { at, is_deep: request.is_deep, waited, seen }
        }));
    }
    let mut visits = Vec::with_capacity(users.len());
    for user in users {
        visits.push(user.await.expect("no user panics"));
    }
    let looks = looks.await.expect("looking does not panic");
    Day { plan, visits, looks, acts: chain.acts() }
}

fn look(chain: &Chain, at: Duration) -> Look {
    let (mut taken, mut waiting) = ([0; SERVICES.len()], [0; SERVICES.len()]);
    for service in 0..SERVICES.len() {
        (taken[service], waiting[service]) = chain.load(service);
    }
    Look { at, taken, waiting }
}

fn arrivals(plan: Plan, seed: u64) -> Vec<(Duration, Request)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut at, mut arrivals) = (0.0, Vec::new());
    loop {
        at -= (1.0 - random.f64()).ln() / RATE;
        if at >= plan.ends.as_secs_f64() {
            return arrivals;
        }
        let is_deep = random.f64() < DEEP;
        let priority = Priority::new(random.u8(1..=5)).expect("one to five");
        arrivals.push((Duration::from_secs_f64(at), Request { is_deep, priority }));
    }
}
