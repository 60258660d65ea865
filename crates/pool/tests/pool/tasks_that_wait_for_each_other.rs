//! Tasks that end only together: one that is left in a queue while a worker sleeps would stop them all.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use divvy_pool::{Options, Placement, Pool, Shutdown, Start};

/// Far longer than any round takes; only a pool that is stuck needs it.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// As many tasks as workers, submitted one by one from `submitters` threads, round after round without a pause: so
/// workers that have just ended a task take from the queues beside those that were woken.
fn meet(options: Options, submitters: usize, rounds: usize) {
    let workers = options.workers;
    let what = format!("{options:?}");
    let pool = Arc::new(Pool::new(options).unwrap());
    for round in 0..rounds {
        let barrier = Arc::new(Barrier::new(workers));
        let (done, all_done) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            for submitter in 0..submitters {
                let share = workers / submitters + usize::from(submitter < workers % submitters);
                let (pool, barrier, done) = (&pool, &barrier, done.clone());
                let submit = move || {
                    for _ in 0..share {
                        let (barrier, done) = (Arc::clone(barrier), done.clone());
                        pool.submit(move || {
                            barrier.wait();
                            drop(done);
                        });
                    }
                };
                if submitters == 1 { submit() } else { drop(scope.spawn(submit)) }
            }
        });
        drop(done);
        if all_done.recv_timeout(STUCK_AFTER) == Err(RecvTimeoutError::Timeout) {
            let load = pool.load();
            // A pool that is stuck cannot be drained.
            std::mem::forget(pool);
            panic!("round {round} is stuck with {load:?} in {what}");
        }
    }
}

#[test]
fn no_task_waits_beside_a_sleeping_worker() {
    for placement in [Placement::Shared, Placement::RoundRobin, Placement::TwoChoices] {
        for workers in [2, 3, 8] {
            meet(Options { placement, ..Options::with_workers(workers) }, 1, 300);
        }
    }
    meet(Options::with_workers(8), 3, 100);
}

#[test]
fn threads_on_demand_are_there_when_tasks_need_each_other() {
    for workers in [2, 3, 8, 16] {
        for submitters in [1, 3] {
            for _ in 0..20 {
                let options = Options { start: Start::OnDemand, ..Options::with_workers(workers) };
                meet(options, submitters, 3);
            }
        }
    }
}

#[test]
fn a_drain_starts_the_threads_that_tasks_need() {
    for _ in 0..50 {
        let pool =
            Pool::new(Options { start: Start::OnDemand, ..Options::with_workers(8) }).unwrap();
        let barrier = Arc::new(Barrier::new(8));
        for _ in 0..8 {
            let barrier = Arc::clone(&barrier);
            pool.submit(move || {
                barrier.wait();
            });
        }
        let (done, all_done) = mpsc::channel();
        std::thread::spawn(move || {
            done.send(pool.shutdown(Shutdown::Drain).stats.total().processed)
        });
        assert_eq!(all_done.recv_timeout(STUCK_AFTER), Ok(8));
    }
}
