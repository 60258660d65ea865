//! How many tasks per second, and how much processor time each, against rayon, tokio and a channel.
//!
//! One producer outside the pool; tasks of one addition ("tiny") or of about a microsecond; spread evenly or 70 % on
//! worker 0. Peers cannot place tasks, so they get the same tasks in both cases. `cargo run --release --example rates`
//! prints the median of several runs, all contenders in turn, so that noise falls on all alike. Arguments: a part of the name
//! of the contenders, and of the load, to run only those. With `STATS` set, what the pools counted is printed too.

#![allow(clippy::print_stdout, reason = "an example that prints a table")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use divvy_pool::{Options, Placement, Pool, Victim};

const ROUNDS: usize = 5;
const BATCH: u64 = 64;

/// Counts what ran: a line per thread, so that the count costs little.
struct Done([Padded; 256]);

#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicU64);

impl Done {
    fn sum(&self) -> u64 {
        self.0.iter().map(|line| line.0.load(Ordering::Acquire)).sum()
    }
}

thread_local! {
    static LINE: usize = {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) as usize % 256
    };
}

#[inline]
fn work(done: &Done, spins: u32) {
    let mut value = u64::from(spins);
    for _ in 0..spins {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(value);
    LINE.with(|line| done.0[*line].0.fetch_add(1, Ordering::Release));
}

fn process_time() -> Duration {
    let mut total = 0;
    if let Ok(threads) = std::fs::read_dir("/proc/self/task") {
        for thread in threads.flatten() {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            total += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Duration::from_nanos(total)
}

/// Runs one contender: `submit` gets the range of all tasks; then everything is waited for.
fn measure(count: u64, done: &Done, submit: impl FnOnce()) -> (f64, f64) {
    let (wall, processor, before) = (Instant::now(), process_time(), done.sum());
    submit();
    while done.sum() - before < count {
        // Spinning would take a processor from the workers and count as their time.
        std::thread::park_timeout(Duration::from_micros(50));
    }
    let processor = (process_time() - processor).as_nanos() as f64 / count as f64;
    (count as f64 / wall.elapsed().as_secs_f64() / 1e6, processor)
}

fn target(index: u64, uneven: bool, workers: usize) -> usize {
    // A fixed pattern of ten: seven on worker 0, three on the others in turn.
    if uneven && index % 10 < 7 { 0 } else { (index % workers as u64) as usize }
}

fn ours(pool: &Pool, done: &'static Done, count: u64, spins: u32, uneven: bool, batch: bool) {
    let workers = pool.workers();
    let task = move || work(done, spins);
    match (uneven, batch) {
        (false, false) => (0..count).for_each(|_| pool.submit(task)),
        (false, true) => {
            (0..count / BATCH).for_each(|_| pool.submit_many((0..BATCH).map(|_| task)))
        }
        (true, false) => {
            (0..count).for_each(|index| pool.submit_to(target(index, true, workers), task));
        }
        (true, true) => (0..count / BATCH).for_each(|index| {
            pool.submit_many_to(target(index, true, workers), (0..BATCH).map(|_| task));
        }),
    }
}

fn main() {
    let argument = |place| std::env::args().nth(place).unwrap_or_default();
    let (only, only_load) = (argument(1), argument(2));
    let done: &'static Done = Box::leak(Box::new(Done(std::array::from_fn(|_| Padded::default()))));
    println!("{:<34} {:>8} {:>10}", "contender", "M/s", "ns/task");
    for workers in [2_usize, 4] {
        for (kind, spins, count) in [("tiny", 0, 640_000), ("1us", 330, 192_000)] {
            for uneven in [false, true] {
                let load = if uneven { "70% on one" } else { "even" };
                let title = format!("{workers} workers, {kind}, {load}");
                if !title.contains(&only_load) {
                    continue;
                }
                println!("-- {title}");
                Contest::new(workers, spins, count, uneven, done).run(&only);
            }
        }
    }
}

type Contender<'a> = (&'a str, Box<dyn Fn() + 'a>);

/// What is compared on one load.
struct Contest {
    spins: u32,
    count: u64,
    uneven: bool,
    done: &'static Done,
    shared: Pool,
    turns: Pool,
    choices: Pool,
    rayon: rayon::ThreadPool,
    tokio: tokio::runtime::Runtime,
    channel: crossbeam_channel::Sender<Box<dyn FnOnce() + Send>>,
}

impl Contest {
    fn new(workers: usize, spins: u32, count: u64, uneven: bool, done: &'static Done) -> Self {
        let pool = |placement, victim| {
            let options = Options { placement, victim, ..Options::with_workers(workers) };
            Pool::new(options).expect("the options are right")
        };
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
        let (channel, receiver) = crossbeam_channel::unbounded::<Box<dyn FnOnce() + Send>>();
        for _ in 0..workers {
            let receiver = receiver.clone();
            std::thread::spawn(move || receiver.iter().for_each(|run| run()));
        }
        Self {
            spins,
            count,
            uneven,
            done,
            shared: pool(Placement::Shared, Victim::Random),
            turns: pool(Placement::RoundRobin, Victim::Random),
            choices: pool(Placement::TwoChoices, Victim::Busiest),
            rayon: rayon.expect("threads start"),
            tokio: tokio.expect("threads start"),
            channel,
        }
    }

    fn ours<'a>(&'a self, pool: &'a Pool, batch: bool) -> Box<dyn Fn() + 'a> {
        Box::new(move || ours(pool, self.done, self.count, self.spins, self.uneven, batch))
    }

    fn contenders(&self) -> Vec<Contender<'_>> {
        let (done, spins, count) = (self.done, self.spins, self.count);
        let mut contenders: Vec<Contender<'_>> = if self.uneven {
            vec![
                ("pool, random", self.ours(&self.turns, false)),
                ("pool, busiest", self.ours(&self.choices, false)),
                ("pool, batch", self.ours(&self.turns, true)),
            ]
        } else {
            vec![
                ("pool, shared", self.ours(&self.shared, false)),
                ("pool, round robin", self.ours(&self.turns, false)),
                ("pool, two choices", self.ours(&self.choices, false)),
                ("pool, shared, batch", self.ours(&self.shared, true)),
                ("pool, round robin, batch", self.ours(&self.turns, true)),
            ]
        };
        let rayon =
            move || (0..count).for_each(|_| self.rayon.spawn_fifo(move || work(done, spins)));
        let tokio = move || {
            (0..count).for_each(|_| drop(self.tokio.spawn(async move { work(done, spins) })));
        };
        let channel = move || {
            let send = || self.channel.send(Box::new(move || work(done, spins)));
            (0..count).for_each(|_| send().expect("the receivers live"));
        };
        contenders.push(("rayon spawn_fifo", Box::new(rayon)));
        contenders.push(("tokio spawn", Box::new(tokio)));
        contenders.push(("crossbeam channel", Box::new(channel)));
        contenders
    }

    fn run(&self, only: &str) {
        let mut contenders = self.contenders();
        contenders.retain(|(name, _)| name.contains(only));
        let mut results = vec![Vec::new(); contenders.len()];
        for _ in 0..ROUNDS {
            for ((_, submit), results) in contenders.iter().zip(&mut results) {
                results.push(measure(self.count, self.done, submit));
            }
        }
        for ((name, _), mut results) in contenders.iter().zip(results) {
            results.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (rate, time) = results[results.len() / 2];
            println!("{name:<34} {rate:>8.2} {time:>10.0}");
        }
        if std::env::var_os("STATS").is_some() {
            for pool in [&self.shared, &self.turns, &self.choices] {
                println!("{:?}", pool.stats().total());
            }
        }
    }
}
