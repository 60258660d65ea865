//! A balancer whose policy is watched: the snapshot, the health scores and the detector agree on who is ill.

use std::time::Duration;

use divvy_placement::load::bottleneck::{Detector, Mitigation, Settings};
use divvy_placement::load::health::Scorer;
use divvy_placement::load::{Monitor, Watched};
use divvy_placement::{Balancer, Outcome, Pick, Policy, Request, TargetId, TargetSpec, View};

/// Picks the targets in turn.
struct InTurn {
    next: usize,
}

impl Policy for InTurn {
    fn name(&self) -> &'static str {
        "in-turn"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let fitting: Vec<TargetId> = view.fitting(request).map(|target| target.id).collect();
        if fitting.is_empty() {
            return view.none_fits(request);
        }
        self.next += 1;
        Pick::One(fitting[self.next % fitting.len()])
    }
}

struct World {
    balancer: Balancer<Watched<InTurn>>,
    detector: Detector,
    /// When each request ends, where, how long it took and how it ended.
    running: Vec<(Duration, TargetId, Duration, Outcome)>,
}

impl World {
    fn new(names: &[&str]) -> Self {
        let watched = Watched::new(InTurn { next: 0 }, Monitor::default());
        let mut balancer = Balancer::new(watched);
        for name in names {
            balancer.add(TargetSpec::new(*name).limit(8), Duration::ZERO).expect("a new name");
        }
        let detector = Detector::parallel(Settings::default()).expect("settings are good");
        Self { balancer, detector, running: Vec::new() }
    }

    /// Sends a request every 10 ms; the target decides how long it takes and how it ends.
    fn run(&mut self, seconds: u32, behaviour: impl Fn(&str) -> (u64, Outcome)) {
        for step in 0..seconds * 100 {
            let now = Duration::from_millis(10) * step;
            self.running.sort_by_key(|(end, ..)| *end);
            let done = self.running.partition_point(|(end, ..)| *end <= now);
            for (end, id, latency, outcome) in self.running.drain(..done) {
                self.balancer.finish(id, latency, outcome, end);
            }
            if let Some(id) = self.balancer.assign(&Request::default(), now).first() {
                let name = &self.balancer.targets().get(id).expect("it was picked").spec.name;
                let (millis, outcome) = behaviour(name);
                let latency = Duration::from_millis(millis);
                self.running.push((now + latency, id, latency, outcome));
            }
            if step % 100 == 99 {
                let snapshot = self.balancer.policy().monitor().snapshot(now);
                self.detector.observe_snapshot(&snapshot).expect("figures are good");
            }
        }
    }
}

#[test]
fn the_slow_and_the_failing_target_score_below_the_good_ones() {
    let mut world = World::new(&["good", "fine", "slow", "failing"]);
    world.run(20, |name| match name {
        "slow" => (200, Outcome::Success),
        "failing" => (20, Outcome::Failure),
        _ => (20, Outcome::Success),
    });
    let snapshot = world.balancer.policy().monitor().snapshot(Duration::from_secs(20));
    let scores = Scorer::default().score_all(&snapshot);
    let score = |name: &str| {
        let at = snapshot.targets.iter().position(|target| target.name == name);
        scores[at.expect("a target of this name")].1
    };
    assert!(score("good").score > 0.9, "{:?}", score("good"));
    assert!((score("good").score - score("fine").score).abs() < 0.05);
    assert!(score("slow").score < 0.7, "{:?}", score("slow"));
    assert_eq!(score("slow").worst().0, "latency");
    assert!(score("failing").score < 0.2, "{:?}", score("failing"));
    assert_eq!(score("failing").worst().0, "errors");
    // 100 requests per second in turn.
    assert!(snapshot.targets.iter().all(|target| (20.0..30.0).contains(&target.rate_in)));
    assert!(snapshot.load.jain < 0.6, "the slow target holds more at once");
}

#[test]
fn the_target_that_is_always_full_is_found_and_should_give_work_away() {
    let mut world = World::new(&["a", "b", "c"]);
    let behaviour = |name: &str| (if name == "c" { 800 } else { 20 }, Outcome::Success);
    world.run(20, behaviour);
    let findings = world.detector.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].stage, "c");
    assert_eq!(findings[0].mitigation, Mitigation::Move, "{}", findings[0]);
}

#[test]
fn a_target_that_left_is_in_no_snapshot() {
    let mut world = World::new(&["a", "b"]);
    world.run(2, |_| (20, Outcome::Success));
    let id = world.balancer.targets().by_name("a").expect("it was added").id;
    world.balancer.remove(id, Duration::from_secs(2)).expect("it is there");
    let snapshot = world.balancer.policy().monitor().snapshot(Duration::from_secs(2));
    assert_eq!(snapshot.targets.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["b"]);
}
