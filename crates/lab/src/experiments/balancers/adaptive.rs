//! Decides how three backends look to a balancer that learns: one of them turns slow, or fails, half-way.
//!
//! The balancer is the library's, with its monitor beside the policy. Once per second the monitor's view is scored for
//! health, and the last score before the requests end is reported: after that the queues only drain.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use divvy_placement::load::{Monitor, Snapshot, Watched, health};
use divvy_placement::policies::Kind;
use divvy_placement::{Event, Pick, Policy, Request, View};

use crate::experiment::Error;
use crate::sim::{self, Outcome, Setup, Upset};

/// The backends; the first is the one that something happens to.
pub(super) const BACKENDS: [&str; 3] = ["api1", "api2", "api3"];
/// The ways to choose.
pub(super) const ALGORITHMS: [Kind; 3] =
    [Kind::Weighted, Kind::LeastConnections, Kind::AdaptiveP2c];
/// The share of what all three can do that is asked of them: two can bear it alone.
pub(super) const LOAD: f64 = 0.6;
const PERIOD: Duration = Duration::from_secs(1);

/// What happens to the first backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mishap {
    pub(super) name: &'static str,
    upset: Upset,
}

/// All of them.
pub(super) const MISHAPS: [Mishap; 2] = [
    Mishap { name: "api1 turns 10× slow", upset: Upset::Slow { factor: 10.0 } },
    Mishap { name: "api1 fails", upset: Upset::Fails { share: 0.1 } },
];

/// One algorithm through one mishap.
pub(super) struct Trial {
    pub(super) algorithm: Kind,
    pub(super) mishap: Mishap,
    pub(super) outcome: Outcome,
    /// Moments and health of the backends then.
    pub(super) health: Vec<(Duration, [f64; BACKENDS.len()])>,
    /// The view when the last request came, with its health.
    pub(super) last: Snapshot,
    pub(super) last_health: Vec<health::Health>,
}

/// Plays one algorithm through one mishap.
pub(super) fn play(
    algorithm: Kind,
    mishap: Mishap,
    requests: u64,
    seed: u64,
) -> Result<Trial, Error> {
    let setup = Setup {
        targets: BACKENDS.len(),
        load: LOAD,
        requests,
        upset: mishap.upset,
        seed,
        ..Setup::default()
    };
    let seen = Rc::new(RefCell::new(Seen::default()));
    let outcome = sim::run(&setup, &mut |seed| {
        let watched = Watched::new(algorithm.build(seed), Monitor::default());
        Box::new(Nurse { watched, seen: Rc::clone(&seen), next: PERIOD, left: requests })
    })?;
    let Seen { health, last } = seen.take();
    let (last, last_health) = last.expect("the last request was seen");
    Ok(Trial { algorithm, mishap, outcome, health, last, last_health })
}

/// What was seen while requests came.
#[derive(Default)]
struct Seen {
    health: Vec<(Duration, [f64; BACKENDS.len()])>,
    last: Option<(Snapshot, Vec<health::Health>)>,
}

/// A watched policy that writes the health of the targets down.
struct Nurse {
    watched: Watched<Box<dyn Policy + Send>>,
    seen: Rc<RefCell<Seen>>,
    /// When to look again.
    next: Duration,
    /// Requests that are still to come.
    left: u64,
}

impl Nurse {
    fn look(&mut self, now: Duration) {
        let snapshot = self.watched.monitor().snapshot(now);
        let all = health::Scorer::default().score_all(&snapshot);
        let all: Vec<health::Health> = all.into_iter().map(|(_, health)| health).collect();
        let mut seen = self.seen.borrow_mut();
        seen.health.push((now, std::array::from_fn(|at| all[at].score)));
        seen.last = Some((snapshot, all));
    }
}

impl Policy for Nurse {
    fn name(&self) -> &'static str {
        self.watched.name()
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        self.left -= 1;
        if now >= self.next || self.left == 0 {
            self.next = now + PERIOD;
            self.look(now);
        }
        self.watched.pick(request, view, now)
    }

    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        self.watched.on_event(event, now);
    }
}
