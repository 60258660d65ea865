//! Who runs what: bands, affinity, stealing, groups, names, hooks, resizing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use divvy_pool::adaptive::Settings;
use divvy_pool::{Band, Options, Placement, Pool, Route, Shutdown, To};

/// Keeps a worker busy until dropped or told.
fn block(pool: &Pool, route: Route) -> (Receiver<usize>, Sender<()>) {
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    pool.submit_routed(route, move || {
        let name = thread::current().name().unwrap_or("").to_owned();
        let index = name.rsplit('-').next().and_then(|index| index.parse().ok());
        started.send(index.unwrap()).unwrap();
        let _ = released.recv();
    });
    (has_started, release)
}

fn on(worker: usize) -> Route {
    Route { band: Band::High, to: To::Worker(worker) }
}

#[test]
fn a_batch_does_not_overtake_what_was_submitted_before_it() {
    for placement in [Placement::Shared, Placement::RoundRobin] {
        let pool = Pool::new(Options { placement, ..Options::with_workers(1) }).unwrap();
        // The rounds meet the worker at different places of its turns.
        for _ in 0..8 {
            let (started, release) = block(&pool, Route::default());
            started.recv().unwrap();
            let (ran, order) = mpsc::channel();
            for number in 0..3 {
                let ran = ran.clone();
                pool.submit(move || ran.send(number).unwrap());
            }
            pool.submit_many((3..50).map(|number| {
                let ran = ran.clone();
                move || ran.send(number).unwrap()
            }));
            drop((release, ran));
            assert_eq!(order.iter().collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
        }
    }
}

#[test]
fn the_protected_band_runs_where_it_was_placed_even_if_others_are_idle() {
    let pool = Pool::new(Options::with_workers(4)).unwrap();
    let (started, release) = block(&pool, on(1));
    assert_eq!(started.recv().unwrap(), 1);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..500 {
        let seen = Arc::clone(&seen);
        pool.submit_routed(on(1), move || {
            seen.lock().unwrap().push(thread::current().name().unwrap().to_owned());
        });
    }
    // The others run all of this meanwhile and could have taken the protected tasks.
    let handles: Vec<_> = (0..500).map(|_| pool.run(|| ())).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert!(seen.lock().unwrap().is_empty());
    release.send(()).unwrap();
    pool.shutdown(Shutdown::Drain);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 500);
    assert!(seen.iter().all(|name| name == "divvy-pool-1"));
}

#[test]
fn the_protected_band_can_be_the_normal_one_or_none() {
    for (protected, band, stays) in [
        (Some(Band::High), Band::Normal, false),
        (Some(Band::Normal), Band::Normal, true),
        (Some(Band::Normal), Band::High, false),
        (None, Band::High, false),
    ] {
        let pool = Pool::new(Options { protected, ..Options::with_workers(2) }).unwrap();
        let (started, release) = block(&pool, on(0));
        let busy = started.recv().unwrap();
        let route = Route { band, to: To::Worker(busy) };
        let ran_on = pool.run_routed(route, || thread::current().name().map(str::to_owned));
        let name = if stays {
            // It cannot run anywhere else, so it is still there when its worker is free.
            pool.run(|| ()).join().unwrap();
            assert!(!ran_on.is_finished());
            release.send(()).unwrap();
            ran_on.join().unwrap().unwrap()
        } else {
            let name = ran_on.join().unwrap().unwrap();
            release.send(()).unwrap();
            name
        };
        assert_eq!(name == format!("divvy-pool-{busy}"), stays, "{protected:?} {band:?}");
    }
}

#[test]
fn the_high_band_runs_before_what_waited_longer() {
    let pool = Pool::new(Options::with_workers(1)).unwrap();
    let (started, release) = block(&pool, on(0));
    started.recv().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    pool.submit(note("normal"));
    pool.submit_to(0, note("normal"));
    pool.submit_many([note("normal"), note("normal")]);
    pool.submit_high(note("high"));
    pool.submit_routed(on(0), note("high"));
    release.send(()).unwrap();
    pool.shutdown(Shutdown::Drain);
    assert_eq!(*order.lock().unwrap(), ["high", "high", "normal", "normal", "normal", "normal"]);
}

#[test]
fn without_stealing_placed_tasks_stay() {
    let options = Options { stealing: false, ..Options::with_workers(3) };
    let pool = Pool::new(options).unwrap();
    let handles: Vec<_> = (0..300)
        .map(|index| {
            let route = Route { band: Band::Normal, to: To::Worker(index) };
            let run = move || (index, thread::current().name().map(str::to_owned));
            pool.run_routed(route, run)
        })
        .collect();
    for handle in handles {
        let (index, name) = handle.join().unwrap();
        assert_eq!(name, Some(format!("divvy-pool-{}", index % 3)));
    }
    let total = pool.shutdown(Shutdown::Drain).stats.total();
    assert_eq!((total.stolen, total.steal_attempts), (0, 0));
}

#[test]
fn equal_keys_go_to_the_same_worker() {
    let options = Options { stealing: false, ..Options::with_workers(4) };
    let pool = Pool::new(options).unwrap();
    let name_of = |key| {
        let route = Route { band: Band::Normal, to: To::Key(key) };
        pool.run_routed(route, || thread::current().name().unwrap().to_owned()).join().unwrap()
    };
    let names: Vec<String> = (0..64).map(name_of).collect();
    assert_eq!(names, (0..64).map(name_of).collect::<Vec<_>>());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn work_placed_on_a_busy_worker_is_stolen() {
    let pool = Pool::new(Options::with_workers(2)).unwrap();
    let (started, release) = block(&pool, on(0));
    started.recv().unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..100 {
        let sender = sender.clone();
        pool.submit_to(0, move || sender.send(()).unwrap());
    }
    pool.submit_many_to(
        0,
        (0..100).map(|_| {
            let sender = sender.clone();
            move || sender.send(()).unwrap()
        }),
    );
    for _ in 0..200 {
        receiver.recv().unwrap();
    }
    release.send(()).unwrap();
    let stats = pool.shutdown(Shutdown::Drain).stats;
    assert_eq!((stats.workers[0].processed, stats.workers[1].processed), (1, 200));
    assert!(stats.workers[1].stolen >= 200 && stats.workers[1].steals > 1);
}

#[test]
fn all_workers_run_at_once_when_there_is_work_for_all() {
    // The barrier opens only if every worker has been woken.
    for placement in [Placement::Shared, Placement::RoundRobin, Placement::TwoChoices] {
        let pool = Pool::new(Options { placement, ..Options::with_workers(6) }).unwrap();
        for _ in 0..50 {
            let barrier = Arc::new(Barrier::new(7));
            let wait = || {
                let barrier = Arc::clone(&barrier);
                move || {
                    barrier.wait();
                }
            };
            pool.submit_many((0..3).map(|_| wait()));
            (0..3).for_each(|_| pool.submit(wait()));
            barrier.wait();
        }
    }
}

#[test]
fn a_batch_that_lands_on_one_worker_wakes_all_others() {
    let pool = Pool::new(Options::with_workers(4)).unwrap();
    for _ in 0..50 {
        let barrier = Arc::new(Barrier::new(5));
        pool.submit_many_to(
            2,
            (0..4).map(|_| {
                let barrier = Arc::clone(&barrier);
                move || {
                    barrier.wait();
                }
            }),
        );
        barrier.wait();
    }
}

#[test]
fn names_hooks_and_stack_sizes_are_as_set() {
    let hooks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&hooks);
    let pool = Pool::new(Options {
        name: "cook".into(),
        stack_bytes: Some(16 << 20),
        on_start: Some(Arc::new(move |index| {
            count.fetch_add(index + 1, Ordering::Relaxed);
            assert_ne!(index, 2, "a panic in a hook is contained and counted");
        })),
        ..Options::with_workers(3)
    })
    .unwrap();
    fn deep(depth: usize) -> usize {
        let frame = std::hint::black_box([depth; 64]);
        if depth == 0 { 0 } else { 1 + deep(frame[0] - 1) }
    }
    // About 10 MiB of frames: more than a thread gets without being asked.
    assert_eq!(pool.run(|| deep(10_000)).join().unwrap(), 10_000);
    let name = pool.run(|| thread::current().name().unwrap().to_owned()).join().unwrap();
    assert!(name.starts_with("cook-"), "{name}");
    assert_eq!(pool.shutdown(Shutdown::Drain).stats.total().panics, 1);
    assert_eq!(hooks.load(Ordering::Relaxed), 1 + 2 + 3);
}

#[test]
fn a_worker_that_leaves_hands_its_queues_on() {
    let options = Options { workers_max: 3, ..Options::with_workers(2) };
    let pool = Pool::new(options).unwrap();
    let (started, release) = block(&pool, on(1));
    started.recv().unwrap();
    let handle = pool.run_routed(on(1), || thread::current().name().map(str::to_owned));
    pool.resize(1).unwrap();
    assert_eq!(pool.workers(), 1);
    release.send(()).unwrap();
    assert_eq!(handle.join().unwrap().unwrap(), "divvy-pool-0");
    // What is placed on a worker that is gone goes round.
    pool.run_routed(on(1), || ()).join().unwrap();
    pool.resize(3).unwrap();
    let name = pool.run_routed(on(2), || thread::current().name().map(str::to_owned));
    assert_eq!(name.join().unwrap().unwrap(), "divvy-pool-2");
    for workers in [0, 4] {
        let text = pool.resize(workers).unwrap_err().to_string();
        assert_eq!(text, format!("option `workers` is {workers}; it must be 1 to 3"));
    }
}

#[test]
fn load_shows_what_waits_and_who_works() {
    let pool = Pool::new(Options::with_workers(2)).unwrap();
    let blocked: Vec<_> = (0..2).map(|worker| block(&pool, on(worker))).collect();
    blocked.iter().for_each(|(started, _)| assert!(started.recv().is_ok()));
    pool.submit(|| {});
    pool.submit_many_to(1, (0..10).map(|_| || {}));
    let load = pool.load();
    assert_eq!((load.busy, load.searching, load.sleeping), (2, 0, 0));
    assert_eq!((load.shared, load.queued[1], load.waiting()), (1, 10, 11));
}

#[test]
fn an_adaptive_pool_grows_under_load_and_shrinks_without() {
    let settings = Settings {
        workers_max: 4,
        interval: std::time::Duration::from_millis(1),
        shrink_after: 2,
        ..Settings::default()
    };
    let pool = Pool::new(Options { adaptive: Some(settings), ..Options::with_workers(1) }).unwrap();
    // Four tasks that end only together need four workers.
    let barrier = Arc::new(Barrier::new(5));
    pool.submit_many((0..4).map(|_| {
        let barrier = Arc::clone(&barrier);
        move || {
            barrier.wait();
        }
    }));
    barrier.wait();
    while pool.workers() > 1 {
        thread::yield_now();
    }
    pool.run(|| ()).join().unwrap();
}
