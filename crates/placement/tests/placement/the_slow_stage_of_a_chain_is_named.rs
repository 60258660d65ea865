//! A chain of five stages with queues between them: the slow one is named, and none is when all keep pace.

use std::collections::VecDeque;

use divvy_placement::load::bottleneck::{Detector, Mitigation, Sample, Settings};

const NAMES: [&str; 5] = ["read", "decode", "resize", "encode", "store"];
/// Steps of the simulation in one second, and between two samples.
const STEPS: u64 = 1_000;

/// One stage: some places, a time per item, and a queue before it.
struct Stage {
    places: usize,
    service_steps: u64,
    queue: VecDeque<u64>,
    /// When each item in work is done, and when it came.
    working: Vec<(u64, u64)>,
    came: u64,
    went: u64,
    waited_steps: u64,
    queue_sum: u64,
    busy_sum: u64,
}

impl Stage {
    fn new(places: usize, service_steps: u64) -> Self {
        Self {
            places,
            service_steps,
            queue: VecDeque::new(),
            working: Vec::new(),
            came: 0,
            went: 0,
            waited_steps: 0,
            queue_sum: 0,
            busy_sum: 0,
        }
    }

    fn sample(&mut self) -> Sample {
        let per_second = |sum: u64| sum as f64 / STEPS as f64;
        let sample = Sample {
            utilisation: per_second(self.busy_sum) / self.places as f64,
            queued: per_second(self.queue_sum),
            rate_in: self.came as f64,
            rate_out: self.went as f64,
            latency_seconds: self.waited_steps as f64 / self.went.max(1) as f64 / STEPS as f64,
        };
        (self.came, self.went, self.waited_steps) = (0, 0, 0);
        (self.queue_sum, self.busy_sum) = (0, 0);
        sample
    }
}

/// The chain; a stage whose successor's queue is at `queue_max` keeps its finished item and is blocked.
struct Chain {
    stages: Vec<Stage>,
    queue_max: usize,
    random: fastrand::Rng,
}

impl Chain {
    fn new(service_steps: [u64; 5], queue_max: usize) -> Self {
        let stages = service_steps.map(|steps| Stage::new(4, steps)).into();
        Self { stages, queue_max, random: fastrand::Rng::with_seed(42) }
    }

    fn push(&mut self, at: usize, now: u64) {
        self.stages[at].came += 1;
        self.stages[at].queue.push_back(now);
    }

    fn step(&mut self, now: u64, arrivals_per_second: u64) {
        if self.random.u64(..STEPS) < arrivals_per_second && self.stages[0].queue.len() < 10_000 {
            self.push(0, now);
        }
        for at in (0..self.stages.len()).rev() {
            self.finish(at, now);
            let stage = &mut self.stages[at];
            while stage.working.len() < stage.places && !stage.queue.is_empty() {
                let came = stage.queue.pop_front().expect("it is not empty");
                let service = stage.service_steps / 2 + self.random.u64(..=stage.service_steps);
                stage.working.push((now + service, came));
            }
            stage.queue_sum += stage.queue.len() as u64;
            stage.busy_sum += stage.working.len() as u64;
        }
    }

    fn finish(&mut self, at: usize, now: u64) {
        let mut index = 0;
        while index < self.stages[at].working.len() {
            let (done, came) = self.stages[at].working[index];
            let is_blocked =
                self.stages.get(at + 1).is_some_and(|next| next.queue.len() >= self.queue_max);
            if done > now || is_blocked {
                index += 1;
                continue;
            }
            self.stages[at].working.swap_remove(index);
            self.stages[at].went += 1;
            self.stages[at].waited_steps += now - came;
            if at + 1 < self.stages.len() {
                self.push(at + 1, now);
            }
        }
    }

    /// Runs for some seconds with a sample of every stage each second.
    fn run(&mut self, seconds: u64, arrivals_per_second: u64) -> Detector {
        let mut detector = Detector::chain(NAMES, Settings::default()).expect("settings are good");
        for now in 0..seconds * STEPS {
            self.step(now, arrivals_per_second);
            if (now + 1).is_multiple_of(STEPS) {
                for (name, stage) in NAMES.iter().zip(&mut self.stages) {
                    detector.observe(name, stage.sample()).expect("a sample of a known stage");
                }
            }
        }
        detector
    }
}

#[test]
fn the_slow_stage_is_named_wherever_it_is() {
    for slow in 0..5 {
        // Four places of 20 ms serve 200 a second; the slow stage serves 80.
        let mut service_steps = [20; 5];
        service_steps[slow] = 50;
        let findings = Chain::new(service_steps, usize::MAX).run(12, 110).findings();
        let names: Vec<&str> = findings.iter().map(|finding| finding.stage.as_str()).collect();
        assert_eq!(names, [NAMES[slow]], "{findings:?}");
        assert_eq!(findings[0].mitigation, Mitigation::Add, "{}", findings[0]);
    }
}

#[test]
fn stages_that_are_blocked_by_a_slow_one_are_told_to_wait_for_it() {
    let findings = Chain::new([20, 20, 20, 50, 20], 10).run(30, 110).findings();
    assert_eq!(findings[0].stage, "encode", "{findings:?}");
    assert!(findings.len() > 1, "the stages before it are full: {findings:?}");
    for finding in &findings[1..] {
        assert_eq!(finding.mitigation, Mitigation::MendFirst("encode".into()), "{finding}");
    }
}

#[test]
fn no_stage_is_named_while_all_keep_pace() {
    let findings = Chain::new([20; 5], usize::MAX).run(12, 110).findings();
    assert_eq!(findings, []);
}

#[test]
fn arrivals_that_outrun_a_stage_by_far_are_to_be_shed() {
    let findings = Chain::new([20, 20, 100, 20, 20], usize::MAX).run(12, 150).findings();
    assert_eq!(findings[0].stage, "resize");
    assert_eq!(findings[0].mitigation, Mitigation::Shed, "{}", findings[0]);
}
