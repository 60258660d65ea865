//! Handles, scopes, panics and the end of a pool.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use divvy_pool::{Band, JoinError, Options, Pool, Route, Shutdown, To};

fn pool(workers: usize) -> Pool {
    Pool::new(Options::with_workers(workers)).unwrap()
}

#[test]
fn a_handle_gives_the_value() {
    let pool = pool(2);
    let handles: Vec<_> = (0..1000_u64).map(|n| pool.run(move || n * n)).collect();
    let sum: u64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    assert_eq!(sum, (0..1000_u64).map(|n| n * n).sum());
}

#[test]
fn a_handle_can_be_awaited() {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let pool = pool(1);
    let (release, released) = mpsc::channel::<()>();
    let mut handle = pin!(pool.run(move || released.recv().is_ok()));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    assert!(handle.as_mut().poll(&mut context).is_pending());
    release.send(()).unwrap();
    let value = loop {
        match handle.as_mut().poll(&mut context) {
            Poll::Ready(value) => break value,
            Poll::Pending => thread::park(),
        }
    };
    assert!(value.unwrap());
}

#[test]
fn a_panic_reaches_its_handle_and_the_worker_lives_on() {
    let pool = pool(1);
    let error = pool.run(|| -> u8 { panic!("soup is {}", "cold") }).join().unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: soup is cold");
    pool.submit(|| panic!("nobody hears this"));
    assert_eq!(pool.run(|| 7).join().unwrap(), 7);
    let stats = pool.shutdown(Shutdown::Drain).stats;
    assert_eq!((stats.total().processed, stats.total().panics), (3, 2));
}

#[test]
fn a_payload_that_panics_when_dropped_is_contained() {
    struct Nasty;
    impl Drop for Nasty {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    let pool = pool(1);
    pool.submit(|| std::panic::panic_any(Nasty));
    assert_eq!(pool.run(|| 7).join().unwrap(), 7);
}

#[test]
fn a_task_may_wait_for_its_own_tasks_even_with_one_worker() {
    fn sum(pool: &Arc<Pool>, from: u64, to: u64) -> u64 {
        if to - from < 4 {
            return (from..to).sum();
        }
        let middle = from.midpoint(to);
        let inner = Arc::clone(pool);
        let right = pool.run(move || sum(&inner, middle, to));
        sum(pool, from, middle) + right.join().unwrap()
    }
    for workers in [1, 3] {
        let pool = Arc::new(pool(workers));
        let inner = Arc::clone(&pool);
        let total = pool.run(move || sum(&inner, 0, 5000)).join().unwrap();
        assert_eq!(total, (0..5000).sum());
    }
}

#[test]
fn a_protected_task_of_the_own_worker_can_be_waited_for() {
    let pool = Arc::new(pool(1));
    let inner = Arc::clone(&pool);
    let value = pool.run(move || {
        let route = Route { band: Band::High, to: To::Worker(0) };
        inner.run_routed(route, || 7).join().unwrap()
    });
    assert_eq!(value.join().unwrap(), 7);
}

#[test]
fn a_dropped_task_cancels_its_handle() {
    let pool = pool(1);
    let (release, released) = mpsc::channel::<()>();
    let (started, has_started) = mpsc::channel();
    pool.submit(move || {
        started.send(()).unwrap();
        let _ = released.recv();
    });
    has_started.recv().unwrap();
    // More than the worker can run between its release and the end.
    let handles: Vec<_> = (0..100_000).map(|n| pool.run(move || n)).collect();
    drop(release);
    let report = pool.shutdown(Shutdown::Now);
    let left = report.left.len();
    drop(report);
    let results = handles.into_iter().map(divvy_pool::Handle::join);
    assert_eq!(results.filter(|result| matches!(result, Err(JoinError::Cancelled))).count(), left);
}

#[test]
fn drop_runs_what_waits_and_what_that_submits() {
    let count = Arc::new(AtomicUsize::new(0));
    let pool = pool(3);
    for _ in 0..1000 {
        let count = Arc::clone(&count);
        pool.submit(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }
    drop(pool);
    assert_eq!(count.load(Ordering::Relaxed), 1000);
}

#[test]
fn the_last_owner_may_be_a_task_of_the_pool() {
    let pool = Arc::new(pool(2));
    let (sender, receiver) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (inner, second) = (Arc::clone(&pool), sender.clone());
    pool.submit(move || {
        released.recv().unwrap();
        inner.submit(move || second.send("nested").unwrap());
        drop(inner);
        sender.send("first").unwrap();
    });
    drop(pool);
    release.send(()).unwrap();
    let mut seen = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    seen.sort_unstable();
    assert_eq!(seen, ["first", "nested"]);
}

#[test]
fn scoped_tasks_borrow_and_change_what_is_around_them() {
    for workers in [1, 4] {
        let pool = pool(workers);
        let mut numbers = vec![1_u64; 10_000];
        let total = AtomicUsize::new(0);
        let answer = pool.scope(|scope| {
            for part in numbers.chunks_mut(100) {
                let total = &total;
                scope.spawn(move || {
                    part.iter_mut().for_each(|number| *number += 1);
                    total.fetch_add(part.len(), Ordering::Relaxed);
                });
            }
            "done"
        });
        assert_eq!((answer, total.into_inner()), ("done", 10_000));
        assert!(numbers.iter().all(|number| *number == 2));
    }
}

#[test]
fn scopes_nest_on_the_workers() {
    fn count(pool: &Pool, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let (left, right) = pool.join(|| count(pool, depth - 1), || count(pool, depth - 1));
        left + right
    }
    for workers in [1, 2, 4] {
        let pool = pool(workers);
        assert_eq!(count(&pool, 12), 1 << 12);
        let pool = Arc::new(pool);
        let inner = Arc::clone(&pool);
        assert_eq!(pool.run(move || count(&inner, 12)).join().unwrap(), 1 << 12);
    }
}

#[test]
fn scoped_tasks_start_scoped_tasks() {
    let pool = pool(2);
    let count = AtomicUsize::new(0);
    pool.scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 100);
}

#[test]
fn a_thread_may_start_tasks_in_the_scope_of_the_only_worker() {
    let pool = Arc::new(pool(1));
    let inner = Arc::clone(&pool);
    let count = pool.run(move || {
        let count = AtomicUsize::new(0);
        inner.scope(|scope| {
            thread::scope(|threads| {
                threads.spawn(|| {
                    scope.spawn(|| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                });
            });
        });
        count.into_inner()
    });
    assert_eq!(count.join().unwrap(), 1);
}

#[test]
fn a_scope_waits_for_all_and_goes_on_with_the_first_panic() {
    let pool = pool(2);
    let ended = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for index in 0..20 {
                let ended = &ended;
                scope.spawn(move || {
                    ended.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(index, 7, "seven");
                });
            }
        });
    }));
    let payload = result.unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("seven"));
    assert_eq!(ended.into_inner(), 20);
    assert_eq!(pool.shutdown(Shutdown::Drain).stats.total().panics, 1);
}

#[test]
fn a_panic_in_the_body_of_a_scope_waits_for_its_tasks() {
    let pool = pool(2);
    let ended = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    ended.fetch_add(1, Ordering::Relaxed);
                });
            }
            panic!("body");
        });
    }));
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"body"));
    assert_eq!(ended.into_inner(), 100);
}
