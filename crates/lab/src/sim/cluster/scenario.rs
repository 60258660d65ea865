//! Decides what the known situations of uneven load look like, as clusters: each for any way of moving tasks.
//!
//! All but one fleet is ten workers of two slots. A worker takes tasks ahead of its slots, because only what waits at a
//! worker can be in the wrong place. Run times are around a second, so that figures in seconds read as tasks.

use std::time::Duration;

use divvy_types::settings::{PoisonAfter, Settings, Strategy};

use super::draw::{Arrivals, RunTime};
use super::setup::{Cluster, Load, Member, Turn};

/// Every way of moving tasks, with its name.
pub const STRATEGIES: [(&str, Strategy); 4] = [
    ("none", Strategy::None),
    ("pull", Strategy::Pull),
    ("push", Strategy::Push),
    ("hybrid", Strategy::Hybrid),
];

/// Workers of a usual fleet.
pub const WORKERS: u32 = 10;
/// Slots of each.
pub const SLOTS: u32 = 2;
/// Tasks that each takes ahead.
pub const PREFETCH: u32 = 20;
/// The priority of tasks that are protected from being moved.
pub const PROTECTED: u8 = 5;

const SECOND: Duration = Duration::from_secs(1);
const KIND: &str = "work";

/// The default settings with this way of moving tasks, and a look at the load every second instead of every thirty, so
/// that runs of a minute show what pushing does.
pub fn settings(strategy: Strategy) -> Settings {
    let mut settings = Settings::default();
    settings.load_balancing.strategy = strategy;
    settings.load_balancing.thresholds.rebalance_interval_sec = 1.0;
    settings.load_balancing.work_stealing.max_steal_per_cycle = 10;
    settings
}

/// All tasks come when there is one worker, which takes them all. Then nine others join.
pub fn hot_spot(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    hot_fleet(strategy, tasks, seed).load(early(tasks))
}

/// Like [`hot_spot`], but every fourth task is of a priority that is protected.
pub fn protection(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let protected = tasks / 4;
    hot_fleet(strategy, tasks, seed)
        .load(early(tasks - protected).priority(2))
        .load(early(protected).priority(PROTECTED))
}

/// Equal workers, random arrivals at 80 % of what they can do: there is little to gain.
pub fn uniform(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let load = Load::new(KIND, tasks)
        .arrive(Arrivals::Poisson { from: Duration::ZERO, per_second: capacity() * 0.8 })
        .run_for(RunTime::Exponential(SECOND));
    fleet(strategy, seed).load(load)
}

/// Three workers die with full queues, five seconds apart.
pub fn cascade(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let load = Load::new(KIND, tasks).run_for(between(0.5, 1.5));
    let mut cluster = fleet(strategy, seed).load(load);
    for (number, member) in cluster.members.iter_mut().take(3).enumerate() {
        member.turns.push((SECOND * 5 * (number as u32 + 1), Turn::Dies));
    }
    cluster
}

/// Two hundred tasks every fifteen seconds, one in ten of them twenty-five times as long as the others.
pub fn bursty(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let arrivals = Arrivals::Bursts { from: SECOND, every: SECOND * 15, size: 200 };
    let run_time = RunTime::Mixed { short: SECOND / 5, long: SECOND * 5, share: 0.1 };
    fleet(strategy, seed).load(Load::new(KIND, tasks).arrive(arrivals).run_for(run_time))
}

/// After three seconds one worker runs at a tenth of its speed.
pub fn slow_worker(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let load = Load::new(KIND, tasks).run_for(between(0.5, 1.5));
    let mut cluster = fleet(strategy, seed).load(load);
    cluster.members[0].turns.push((SECOND * 3, Turn::Speed(0.1)));
    cluster
}

/// All tasks are there. One worker dies every four seconds with a full queue and is back a second later, to the end.
pub fn flapping(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let load = Load::new(KIND, tasks).run_for(between(0.5, 1.5));
    let mut cluster = fleet(strategy, seed).load(load);
    let times = (tasks as f64 / capacity() / 5.0).ceil() as u32 + 2;
    let first = cluster.members.remove(0).flaps(SECOND * 4, SECOND, times);
    cluster.members.insert(0, first);
    // Where workers come and go all day, a task is not to blame for it.
    cluster.settings.poison_after = PoisonAfter(1_000);
    cluster.loads[0].task.retry.limit = 1_000;
    cluster
}

/// Workers from a quarter of the usual speed to four times that.
pub fn speeds(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let load = Load::new(KIND, tasks).run_for(between(0.5, 1.5));
    let mut cluster = fleet(strategy, seed).load(load);
    for (number, member) in cluster.members.iter_mut().enumerate() {
        member.speed = [0.25, 0.5, 1.0, 2.0, 4.0][number % 5];
    }
    cluster
}

fn fleet(strategy: Strategy, seed: u64) -> Cluster {
    Cluster::new(seed).settings(settings(strategy)).members(WORKERS, usual)
}

fn hot_fleet(strategy: Strategy, tasks: usize, seed: u64) -> Cluster {
    let mut cluster = fleet(strategy, seed);
    for (number, member) in cluster.members.iter_mut().enumerate() {
        match number {
            0 => member.prefetch = tasks as u32,
            _ => member.joins = SECOND,
        }
    }
    cluster
}

fn usual(number: u32) -> Member {
    Member::new(format!("worker-{number}"), SLOTS).prefetch(PREFETCH)
}

fn early(tasks: usize) -> Load {
    Load::new(KIND, tasks).arrive(Arrivals::Together { at: SECOND / 10 }).run_for(between(0.5, 1.5))
}

/// Tasks of a second that a usual fleet can run in a second.
fn capacity() -> f64 {
    f64::from(WORKERS * SLOTS)
}

fn between(least_s: f64, most_s: f64) -> RunTime {
    RunTime::Between(Duration::from_secs_f64(least_s), Duration::from_secs_f64(most_s))
}
