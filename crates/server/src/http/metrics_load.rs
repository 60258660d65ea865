//! The part of `GET /metrics` about how work is spread: steals, queues of workers, limits, alerts.

use std::collections::BTreeMap;
use std::fmt;

use divvy_autoscale::status::PoolStatus;
use divvy_http::figures::Page;
use divvy_types::alerts::Alert;
use divvy_types::overview::WorkerLoad;
use divvy_types::view::{LimitView, LoadMetrics, WorkerView};

use crate::alerts::Scene;
use crate::samples::{queue_variance, utilisation};

/// Workers and limits that get lines of their own. Bounds what a monitor has to store.
const NAMES_MAX: usize = 1_000;

/// Everything about load, limits and alerts.
pub(crate) fn write(
    page: &mut Page<'_>,
    scene: &Scene,
    workers: &[WorkerView],
    alerts: &[Alert],
) -> fmt::Result {
    moves(page, &scene.load)?;
    by_worker(page, &scene.workers, workers)?;
    limits(page, &scene.limits)?;
    pools(page, &scene.pool_list)?;
    let mut family = page.gauges("alert", "1 while an alert fires")?;
    for alert in alerts {
        family.add(&[("name", &alert.name)], f64::from(u8::from(alert.firing)))?;
    }
    let help = "1 while a rule is broken, and not for long enough to fire";
    let mut family = page.gauges("alert_pending", help)?;
    for alert in alerts {
        family.add(&[("name", &alert.name)], f64::from(u8::from(alert.pending)))?;
    }
    Ok(())
}

fn moves(page: &mut Page<'_>, load: &LoadMetrics) -> fmt::Result {
    for (name, help, value) in [
        ("steals", "Tasks that were asked back from a worker", load.total_steals),
        ("successful_steals", "Tasks that a worker gave back", load.successful_steals),
        ("failed_steals", "Tasks that were asked back and had begun already", load.failed_steals),
        ("tasks_migrated", "Tasks that another worker got then", load.tasks_migrated),
        ("rebalance_cycles", "Looks that moved something", load.rebalance_cycles),
    ] {
        page.counter(name, help, value)?;
    }
    for (name, help, value) in [
        ("steal_success_rate", "The share of steals that worked", load.success_rate),
        (
            "avg_task_wait_time_seconds",
            "The mean wait of a task from ready to granted",
            load.avg_task_wait_time,
        ),
        ("agent_count", "Connected workers", load.agent_count as f64),
        (
            "total_queued",
            "Tasks that wait for a worker or in a worker's queue",
            load.total_queued as f64,
        ),
        ("busy_agents", "Workers above the busy threshold", load.busy_agents as f64),
        ("idle_agents", "Workers below the idle threshold", load.idle_agents as f64),
    ] {
        page.gauge(name, help, value)?;
    }
    Ok(())
}

fn by_worker(page: &mut Page<'_>, loads: &[WorkerLoad], workers: &[WorkerView]) -> fmt::Result {
    let help = "The variance of the workers' queue lengths";
    page.gauge("queue_variance", help, queue_variance(loads))?;
    page.gauge("utilisation", "How much of all slots is in use", utilisation(loads))?;
    let help = "Tasks that a worker was given and has presumably not begun";
    let mut family = page.gauges("worker_queue_length", help)?;
    for (worker, length) in queue_lengths(loads).into_iter().take(NAMES_MAX) {
        family.add(&[("worker", worker)], length as f64)?;
    }
    let help = "The moving share of a worker's attempts that worked";
    let mut family = page.gauges("worker_success_rate", help)?;
    for (worker, rate) in success_rates(workers).into_iter().take(NAMES_MAX) {
        family.add(&[("worker", worker)], rate)?;
    }
    Ok(())
}

/// Queue lengths by name: one name may stand for several connections, and a series must not come twice.
fn queue_lengths(loads: &[WorkerLoad]) -> BTreeMap<&str, u64> {
    let mut lengths = BTreeMap::new();
    for load in loads {
        *lengths.entry(load.name.as_str()).or_default() += u64::from(load.queue_length);
    }
    lengths
}

/// The success of each worker by name; of several connections of one name, the worst.
fn success_rates(workers: &[WorkerView]) -> BTreeMap<&str, f64> {
    let mut rates: BTreeMap<&str, f64> = BTreeMap::new();
    for worker in workers {
        let rate = rates.entry(&worker.name).or_insert(worker.success_rate);
        *rate = rate.min(worker.success_rate);
    }
    rates
}

fn limits(page: &mut Page<'_>, limits: &[LimitView]) -> fmt::Result {
    type Figure = fn(&LimitView) -> u64;
    let figures: [(&str, &str, Figure); 2] = [
        ("limit_running", "Tasks that run under a limit", |limit| limit.running),
        ("limit_waiting", "Ready tasks that a limit keeps", |limit| limit.waiting),
    ];
    for (name, help, figure) in figures {
        let mut family = page.gauges(name, help)?;
        for limit in limits.iter().take(NAMES_MAX) {
            let key = limit.key.as_deref().unwrap_or_default();
            family.add(&[("limit", &limit.name), ("key", key)], figure(limit) as f64)?;
        }
    }
    Ok(())
}

fn pools(page: &mut Page<'_>, pools: &[PoolStatus]) -> fmt::Result {
    type Figure = fn(&PoolStatus) -> f64;
    let figures: [(&str, &str, Figure); 6] = [
        ("pool_wanted", "Workers that a pool wants", |pool| {
            pool.wanted.values().sum::<u32>().into()
        }),
        ("pool_running", "Workers of a pool that take tasks", |pool| pool.running.into()),
        ("pool_starting", "Workers that were asked for and take no tasks yet", |pool| {
            pool.starting.into()
        }),
        ("pool_draining", "Workers that end what they run and leave", |pool| pool.draining.into()),
        ("pool_cost_per_hour", "What the workers of a pool cost per hour", |pool| {
            pool.costs.per_hour
        }),
        ("pool_cost", "What a pool has cost so far", |pool| pool.costs.total),
    ];
    for (name, help, figure) in figures {
        let mut family = page.gauges(name, help)?;
        for pool in pools.iter().take(NAMES_MAX) {
            family.add(&[("pool", &pool.name)], figure(pool))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::http::metrics::{Moment, PREFIX, written};

    #[test]
    fn connections_of_one_name_are_one_series() {
        let load = |name: &str, queue_length| WorkerLoad {
            name: name.into(),
            key: 1,
            slots: 1,
            leased: queue_length,
            queue_length,
            draining: false,
            paused: false,
        };
        let scene =
            Scene { workers: vec![load("a", 2), load("b", 1), load("a", 3)], ..Scene::default() };
        let mut registry = Registry::with_prefix(PREFIX);
        let alerts = vec![Alert { name: "no_worker".into(), ..Alert::default() }];
        registry.register_collector(Box::new(Moment { scene, alerts, ..Moment::default() }));
        let text = written([&registry]);
        let length = "divvy_worker_queue_length{worker=\"a\"} 5.0\n";
        assert_eq!(text.matches(length).count(), 1, "{text}");
        assert!(text.contains("divvy_alert{name=\"no_worker\"} 0.0\n"), "{text}");
        assert!(text.contains("divvy_steals_total 0\n"), "{text}");
    }
}
