//! Decides what two ways of the old school cost: workers that ask again and again, and a queue that wakes them all.
//!
//! The queue is one desk. It handles one message after the other, each for the same time; a message travels for the
//! same time in each direction. Wake-ups are sent in one go, before the desk reads again, as a broadcast under a lock
//! does. Workers that ask get a task or an empty answer. Real queues differ in these times, not in the counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Time since the start, in nanoseconds.
type Nanos = u64;

/// How workers learn that there is a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Each asks once per period, at a moment of its own.
    PollSpread,
    /// Each asks once per period, all at the same moment, as after a common restart.
    PollInStep,
    /// All sleep, and all are woken when tasks arrive.
    WakeAll,
}

/// What is played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) workers: u32,
    /// Tasks that arrive together, after one quiet period.
    pub(super) tasks: u32,
    /// How often a worker asks.
    pub(super) period: Duration,
    /// How long the queue is busy with one message.
    pub(super) handling: Duration,
    /// How long a message travels.
    pub(super) travel: Duration,
}

/// What it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Messages in the quiet period before the tasks.
    pub(super) idle_messages: u64,
    /// Messages from the arrival until all is quiet again; for pollers, until the last task is taken.
    pub(super) messages: u64,
    /// Questions after the arrival that got an empty answer.
    pub(super) vain: u64,
    /// From the arrival until the first task starts.
    pub(super) first_start: Duration,
    /// From the arrival until the last task starts.
    pub(super) last_start: Duration,
    /// How long the queue was busy after the arrival.
    pub(super) busy: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Ask,
}

/// Plays a scene once.
pub(super) fn play(way: Way, scene: &Scene, random: &mut fastrand::Rng) -> Cost {
    let nanos = |time: Duration| time.as_nanos() as Nanos;
    let (period, handling, travel) =
        (nanos(scene.period), nanos(scene.handling), nanos(scene.travel));
    let arrival = period + random.u64(..period);
    let mut events = BinaryHeap::from([Reverse((arrival, Event::Arrival))]);
    for _ in 0..scene.workers {
        match way {
            Way::PollSpread => events.push(Reverse((random.u64(..period), Event::Ask))),
            Way::PollInStep => events.push(Reverse((0, Event::Ask))),
            Way::WakeAll => {}
        }
    }
    let (mut cost, mut free_at, mut waiting, mut started) = (Cost::default(), 0, 0, 0);
    while let Some(Reverse((now, event))) = events.pop() {
        free_at = Nanos::max(now, free_at) + handling;
        if now >= arrival {
            cost.busy += scene.handling;
        }
        match event {
            Event::Arrival => {
                waiting = scene.tasks;
                for _ in 0..if way == Way::WakeAll { scene.workers } else { 0 } {
                    free_at += handling;
                    cost.busy += scene.handling;
                    cost.messages += 1;
                    events.push(Reverse((free_at + 2 * travel, Event::Ask)));
                }
                continue;
            }
            // A question and its answer. The quiet time that is counted is one whole period.
            Event::Ask if now < period => cost.idle_messages += 2,
            Event::Ask if now < arrival => {}
            Event::Ask => cost.messages += 2,
        }
        if waiting > 0 {
            waiting -= 1;
            started += 1;
            let after = Duration::from_nanos(free_at + travel - arrival);
            cost.last_start = after;
            if started == 1 {
                cost.first_start = after;
            }
            if started == scene.tasks && way != Way::WakeAll {
                break;
            }
            // The worker is busy now and asks no more.
            continue;
        }
        cost.vain += u64::from(now >= arrival);
        if way != Way::WakeAll {
            events.push(Reverse((now + period, Event::Ask)));
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENE: Scene = Scene {
        workers: 1_000,
        tasks: 1,
        period: Duration::from_secs(1),
        handling: Duration::from_micros(5),
        travel: Duration::from_micros(500),
    };

    #[test]
    fn waking_all_costs_three_messages_per_worker_whatever_there_is_to_do() {
        for tasks in [1, 10] {
            let scene = Scene { tasks, ..SCENE };
            let cost = play(Way::WakeAll, &scene, &mut fastrand::Rng::with_seed(1));
            assert_eq!((cost.idle_messages, cost.messages), (0, 3_000));
            assert_eq!(cost.vain, 1_000 - u64::from(tasks));
            assert_eq!(cost.busy, SCENE.handling * 2_001);
        }
    }

    #[test]
    fn pollers_ask_all_the_time_and_in_step_they_are_late() {
        let mut random = fastrand::Rng::with_seed(1);
        let spread = play(Way::PollSpread, &SCENE, &mut random);
        assert_eq!(spread.idle_messages, 2_000);
        assert!(spread.last_start < Duration::from_millis(30), "{spread:?}");
        let scene = Scene { tasks: 2_000, ..SCENE };
        let costs: Vec<Cost> =
            (0..50).map(|_| play(Way::PollInStep, &SCENE, &mut random)).collect();
        assert!(costs.iter().any(|cost| cost.last_start > Duration::from_millis(500)));
        assert!(costs.iter().all(|cost| cost.first_start == cost.last_start));
        let more_than_workers = play(Way::WakeAll, &scene, &mut random);
        assert_eq!(more_than_workers.vain, 0);
    }
}
