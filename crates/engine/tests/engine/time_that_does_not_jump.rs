//! A clock that is set: what is under way keeps its length, and nothing is submitted twice or never.

use std::time::Duration;

use divvy_engine::Request;
use divvy_engine::clock::{Clock, STABLE};
use divvy_engine::core::Core;
use divvy_types::{FailureVerdict, TaskId, TaskState, Timestamp};

use crate::support::{World, failed, task};

const HOUR_US: u64 = 3_600_000_000;

/// Drives a world by a clock whose two sources the test sets.
struct Machine {
    world: World,
    clock: Clock,
    steady: Duration,
    /// What the wall clock is set away, in microseconds.
    set: i64,
}

impl Machine {
    fn new() -> Self {
        let world = World::new();
        let clock = Clock::new(world.now, Duration::ZERO, None);
        Self { world, clock, steady: Duration::ZERO, set: 0 }
    }

    /// Lets seconds pass, each with a sign of life of the worker if there is one.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.steady += Duration::from_secs(1);
            let true_time = 1_000_000_000 + self.steady.as_micros() as u64;
            let wall = Timestamp(true_time.saturating_add_signed(self.set));
            self.world.now = self.clock.read(wall, self.steady);
            let step = self.clock.take_step();
            if step > 0 {
                self.world.engine.clock_stepped(self.world.now, step).unwrap();
            }
            self.world.engine.pass_time(self.world.now).unwrap();
        }
    }

    fn core(&self) -> &Core {
        self.world.engine.core()
    }
}

#[test]
fn a_clock_set_back_by_an_hour_freezes_neither_retries_nor_leases() {
    let mut machine = Machine::new();
    let mut worker = machine.world.join("w", 2, vec![]);
    machine.world.submit(vec![task(1), task(2)]).unwrap();
    let granted = worker.grants();
    machine.set = -(HOUR_US.cast_signed());
    let verdict = FailureVerdict::RetryAfterMs(5_000);
    machine.world.report(&worker, TaskId(1), granted[0].token, failed(verdict));
    assert_eq!(machine.world.state(TaskId(1)), Some(TaskState::Scheduled));
    machine.pass(6);
    assert_eq!(worker.grants()[0].spec.id, TaskId(1), "the retry came after five seconds");
    machine.pass(26);
    assert_eq!(machine.core().worker_count(), 0, "a silent worker is given up after its lease");
}

#[test]
fn a_clock_set_forward_by_days_ends_no_lease_and_runs_no_retry_early() {
    let mut machine = Machine::new();
    let mut worker = machine.world.join("w", 3, vec![]);
    let mut bounded = task(1);
    bounded.timeout_ms = Some(40_000_000);
    let mut tomorrow = task(3);
    tomorrow.run_at = Some(machine.world.now.plus_ms(86_400_000));
    machine.world.submit(vec![bounded, task(2), tomorrow]).unwrap();
    let granted = worker.grants();
    let verdict = FailureVerdict::RetryAfterMs(3_600_000);
    machine.world.report(&worker, TaskId(2), granted[1].token, failed(verdict));
    machine.set = (9 * 24 * HOUR_US).cast_signed();
    let key = worker.key;
    let beat = |machine: &mut Machine| {
        let request = Request::Heartbeat { worker: key, progress: vec![] };
        machine.world.engine.step(machine.world.now, request).unwrap();
    };
    let before = machine.world.now;
    for _ in 0..62 {
        machine.pass(10);
        beat(&mut machine);
    }
    assert!(
        machine.world.now.since(before) > 9 * 24 * Duration::from_secs(3_600),
        "it is believed"
    );
    assert!(machine.steady < 11 * STABLE, "after ten minutes");
    let states = [1, 2].map(|id| machine.world.state(TaskId(id)));
    assert_eq!(states, [Some(TaskState::Leased), Some(TaskState::Scheduled)]);
    assert_eq!(machine.core().worker_count(), 1);
    assert_eq!(worker.grants()[0].spec.id, TaskId(3), "what was set for a point in time runs");
    // The retry comes an hour after the failure, by whatever clock.
    for _ in 0..300 {
        machine.pass(10);
        beat(&mut machine);
    }
    assert_eq!(worker.grants()[0].spec.id, TaskId(2));
}
