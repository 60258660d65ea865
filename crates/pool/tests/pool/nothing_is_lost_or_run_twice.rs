//! Every task that was submitted runs exactly once, whatever happens around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use divvy_pool::{Band, Options, Placement, Pool, Route, Shutdown, Start, To, Victim};
use proptest::prelude::*;

/// One mark per task.
#[derive(Clone)]
struct Marks(Arc<Vec<AtomicU32>>);

impl Marks {
    fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| AtomicU32::new(0)).collect()))
    }

    fn task(&self, index: usize) -> impl FnOnce() + Send + 'static {
        let marks = Arc::clone(&self.0);
        move || {
            marks[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn assert_once_each(&self) {
        for (index, mark) in self.0.iter().enumerate() {
            assert_eq!(mark.load(Ordering::Relaxed), 1, "task {index}");
        }
    }
}

fn variants(workers: usize) -> Vec<Options> {
    let base = Options { workers_max: workers + 2, ..Options::with_workers(workers) };
    let placements = [
        Placement::Shared,
        Placement::RoundRobin,
        Placement::LeastLoaded,
        Placement::TwoChoices,
        Placement::Hierarchical,
    ];
    let mut variants: Vec<Options> =
        placements.map(|placement| Options { placement, ..base.clone() }).into();
    variants.push(Options { victim: Victim::Busiest, ..base.clone() });
    variants.push(Options { stealing: false, placement: Placement::RoundRobin, ..base.clone() });
    variants.push(Options { protected: None, groups: 2.min(workers), ..base.clone() });
    variants.push(Options { protected: Some(Band::Normal), ..base.clone() });
    variants.push(Options { start: Start::OnDemand, ..base });
    variants
}

/// Submits a mixture of everything from several threads at once.
fn flood(pool: &Arc<Pool>, marks: &Marks, submitters: usize, each: usize) {
    thread::scope(|scope| {
        for submitter in 0..submitters {
            scope.spawn(move || {
                let range = submitter * each..(submitter + 1) * each;
                let (singles, batch) =
                    (range.start..range.start + each / 2, range.start + each / 2..range.end);
                for index in singles {
                    match index % 6 {
                        0 => pool.submit(marks.task(index)),
                        1 => pool.submit_to(index, marks.task(index)),
                        2 => pool.submit_high(marks.task(index)),
                        3 => pool.submit_keyed(index as u64, marks.task(index)),
                        4 => {
                            let route = Route { band: Band::High, to: To::Worker(index) };
                            pool.submit_routed(route, marks.task(index));
                        }
                        _ => {
                            // Submitted from inside.
                            let (inner, task) = (Arc::clone(pool), marks.task(index));
                            pool.submit(move || inner.submit(task));
                        }
                    }
                }
                let batch: Vec<usize> = batch.collect();
                for (turn, part) in batch.chunks(97).enumerate() {
                    let tasks = part.iter().map(|index| marks.task(*index));
                    if turn % 2 == 0 {
                        pool.submit_many(tasks);
                    } else {
                        pool.submit_many_to(turn, tasks);
                    }
                }
            });
        }
    });
}

#[test]
fn many_submitters_with_every_way_to_submit() {
    for workers in [1, 2, 5] {
        for options in variants(workers) {
            let text = format!("{options:?}");
            let (submitters, each) = (3, 4_000);
            let marks = Marks::new(submitters * each);
            let pool = Arc::new(Pool::new(options).unwrap());
            flood(&pool, &marks, submitters, each);
            // The last task that holds the pool may still be running.
            while Arc::strong_count(&pool) > 1 {
                thread::yield_now();
            }
            let report = Arc::into_inner(pool).unwrap().shutdown(Shutdown::Drain);
            assert!(report.left.is_empty(), "{text}");
            marks.assert_once_each();
            let nested = (0..submitters)
                .flat_map(|submitter| submitter * each..submitter * each + each / 2)
                .filter(|index| index % 6 == 5)
                .count();
            let total = report.stats.total();
            assert_eq!(total.processed as usize, submitters * each + nested, "{text}");
            assert!(total.steals <= total.steal_attempts && total.steals <= total.stolen, "{text}");
            assert!(total.wakes <= total.parks, "{text}");
            assert_eq!(total.panics, 0);
        }
    }
}

#[test]
fn resizing_under_load() {
    for options in variants(3) {
        let slots = options.workers_max;
        let marks = Marks::new(30_000);
        let pool = Arc::new(Pool::new(options).unwrap());
        thread::scope(|scope| {
            let resizer = scope.spawn(|| {
                for round in 0..300 {
                    pool.resize(1 + round * 7 % slots).unwrap();
                    thread::yield_now();
                }
            });
            flood(&pool, &marks, 3, 10_000);
            resizer.join().unwrap();
        });
        while Arc::strong_count(&pool) > 1 {
            thread::yield_now();
        }
        drop(pool);
        marks.assert_once_each();
    }
}

#[test]
fn tasks_that_submit_trees_of_tasks() {
    fn grow(pool: &Arc<Pool>, leaves: &Arc<AtomicUsize>, depth: u32) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for _ in 0..2 {
            let (inner, leaves) = (Arc::clone(pool), Arc::clone(leaves));
            pool.submit(move || grow(&inner, &leaves, depth - 1));
        }
    }
    let leaves = Arc::new(AtomicUsize::new(0));
    let pool = Arc::new(Pool::new(Options::with_workers(4)).unwrap());
    grow(&pool, &leaves, 14);
    while Arc::strong_count(&pool) > 1 {
        thread::yield_now();
    }
    drop(pool);
    assert_eq!(leaves.load(Ordering::Relaxed), 1 << 14);
}

#[test]
fn what_ends_now_is_run_or_handed_back() {
    for options in variants(2) {
        let marks = Marks::new(20_000);
        let pool = Pool::new(options).unwrap();
        for index in 0..10_000 {
            pool.submit_to(index, marks.task(index));
        }
        pool.submit_many((10_000..20_000).map(|index| marks.task(index)));
        let report = pool.shutdown(Shutdown::Now);
        assert_eq!(report.stats.total().processed as usize + report.left.len(), 20_000);
        report.left.into_iter().for_each(divvy_pool::Task::run);
        marks.assert_once_each();
    }
}

/// A step of a random story.
#[derive(Clone, Debug)]
enum Step {
    Submit(usize),
    To(usize, usize),
    Many(usize),
    High(usize),
    Resize(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1_usize..50).prop_map(Step::Submit),
        (0_usize..6, 1_usize..50).prop_map(|(worker, count)| Step::To(worker, count)),
        (1_usize..300).prop_map(Step::Many),
        (1_usize..20).prop_map(Step::High),
        (1_usize..=4).prop_map(Step::Resize),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_story_runs_every_task_once(
        steps in proptest::collection::vec(step(), 1..30),
        stealing: bool,
        now: bool,
        busiest: bool,
    ) {
        let victim = if busiest { Victim::Busiest } else { Victim::Random };
        let placement = Placement::RoundRobin;
        let base = Options::with_workers(2);
        let pool = Pool::new(Options { workers_max: 4, stealing, victim, placement, ..base }).unwrap();
        let marks = Marks::new(30 * 300);
        let mut next = 0;
        let mut take = |count: usize| {
            next += count;
            next - count..next
        };
        for step in steps {
            match step {
                Step::Submit(count) => take(count).for_each(|index| pool.submit(marks.task(index))),
                Step::To(worker, count) => {
                    take(count).for_each(|index| pool.submit_to(worker, marks.task(index)));
                }
                Step::Many(count) => pool.submit_many(take(count).map(|index| marks.task(index))),
                Step::High(count) => take(count).for_each(|index| pool.submit_high(marks.task(index))),
                Step::Resize(workers) => pool.resize(workers).unwrap(),
            }
        }
        let submitted = take(0).start;
        let report = pool.shutdown(if now { Shutdown::Now } else { Shutdown::Drain });
        prop_assert_eq!(report.stats.total().processed as usize + report.left.len(), submitted);
        report.left.into_iter().for_each(divvy_pool::Task::run);
        for mark in &marks.0[..submitted] {
            prop_assert_eq!(mark.load(Ordering::Relaxed), 1);
        }
    }
}
