//! A clock that is set forward: what lasts for a while keeps its length, what is set for a time is met.

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::{FailureVerdict, Seq, TaskState, WorkerKey};

const WEEK_MS: u64 = 7 * 86_400_000;

fn step(world: &mut World) {
    world.now = world.now.plus_ms(WEEK_MS);
    world.feed(Input::ClockStepped { by_us: WEEK_MS * 1_000 });
    world.feed(Input::TimePassed);
}

#[test]
fn leases_time_outs_and_retries_keep_their_lengths_over_a_step() {
    let mut world = World::new();
    world.join(1, 3);
    let mut bounded = spec(1);
    bounded.timeout_ms = Some(25_000);
    let mut tomorrow = spec(3);
    tomorrow.run_at = Some(world.now.plus_ms(86_400_000));
    world.submit(vec![bounded, spec(2), tomorrow]);
    let token = world.scheduler.lease_token(Seq(2)).unwrap();
    world.report(1, 2, token, failure(FailureVerdict::RetryAfterMs(20_000)));
    world.pass_ms(10_000);
    step(&mut world);
    assert_eq!(world.state(1), Some(TaskState::Leased), "neither lost nor overdue");
    assert_eq!(world.state(2), Some(TaskState::Scheduled), "its rest is not over");
    assert_eq!(world.state(3), Some(TaskState::Leased), "its time has come");
    world.pass_ms(9_999);
    assert_eq!(world.state(2), Some(TaskState::Scheduled));
    world.pass_ms(1);
    assert_eq!(world.state(2), Some(TaskState::Leased));
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    world.pass_ms(15_000);
    assert_ne!(world.state(1), Some(TaskState::Leased), "past its time and the grace");
    world.pass_ms(30_000);
    assert_eq!(world.scheduler.worker_count(), 0, "a silent worker is given up");
}
