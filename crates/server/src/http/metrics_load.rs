//! The part of `GET /metrics` about how work is spread: steals, queues of workers, limits, alerts.

use divvy_types::overview::WorkerLoad;
use divvy_types::view::{LimitView, LoadMetrics};

use crate::alerts::{Scene, judge};
use crate::http::metrics::Text;
use crate::samples::{queue_variance, utilisation};

/// Workers and limits that get lines of their own. Bounds what a monitor has to store.
const NAMES_MAX: usize = 1_000;

/// Everything about load, limits and alerts.
pub(crate) fn write(text: &mut Text, scene: &Scene, rates: &[(String, f64)]) {
    moves(text, &scene.load);
    workers(text, &scene.workers, rates);
    limits(text, &scene.limits);
    text.head("divvy_alert", "gauge", "1 while a rule about the health of the server is broken.");
    for alert in judge(scene) {
        text.line("divvy_alert", &[("name", &alert.name)], u8::from(alert.firing));
    }
}

fn moves(text: &mut Text, load: &LoadMetrics) {
    for (name, help, value) in [
        ("divvy_total_steals", "Tasks that were asked back from a worker.", load.total_steals),
        ("divvy_successful_steals", "Tasks that a worker gave back.", load.successful_steals),
        (
            "divvy_failed_steals",
            "Tasks that were asked back and had begun already.",
            load.failed_steals,
        ),
        ("divvy_tasks_migrated", "Tasks that another worker got then.", load.tasks_migrated),
        ("divvy_rebalance_cycles", "Looks that moved something.", load.rebalance_cycles),
    ] {
        text.one(name, "counter", help, &[], value);
    }
    for (name, help, value) in [
        ("divvy_steal_success_rate", "The share of steals that worked.", load.success_rate),
        (
            "divvy_avg_task_wait_time_seconds",
            "The mean wait of a task from ready to granted.",
            load.avg_task_wait_time,
        ),
        ("divvy_agent_count", "Connected workers.", load.agent_count as f64),
        (
            "divvy_total_queued",
            "Tasks that wait for a worker or in a worker's queue.",
            load.total_queued as f64,
        ),
        ("divvy_busy_agents", "Workers above the busy threshold.", load.busy_agents as f64),
        ("divvy_idle_agents", "Workers below the idle threshold.", load.idle_agents as f64),
    ] {
        text.one(name, "gauge", help, &[], value);
    }
}

fn workers(text: &mut Text, loads: &[WorkerLoad], rates: &[(String, f64)]) {
    let help = "The variance of the workers' queue lengths.";
    text.one("divvy_queue_variance", "gauge", help, &[], queue_variance(loads));
    let help = "How much of all slots is in use.";
    text.one("divvy_utilisation", "gauge", help, &[], utilisation(loads));
    if loads.is_empty() {
        return;
    }
    let help = "Tasks that a worker was given and has presumably not begun.";
    text.head("divvy_worker_queue_length", "gauge", help);
    for load in merged(loads).into_iter().take(NAMES_MAX) {
        text.line("divvy_worker_queue_length", &[("worker", load.0)], load.1);
    }
    let help = "The moving share of a worker's attempts that worked.";
    text.head("divvy_worker_success_rate", "gauge", help);
    for (worker, rate) in rates.iter().take(NAMES_MAX) {
        text.line("divvy_worker_success_rate", &[("worker", worker)], rate);
    }
}

/// Queue lengths by name: one name may stand for several connections, and a series must not come twice.
fn merged(loads: &[WorkerLoad]) -> std::collections::BTreeMap<&str, u64> {
    let mut lengths = std::collections::BTreeMap::new();
    for load in loads {
        *lengths.entry(load.name.as_str()).or_default() += u64::from(load.queue_length);
    }
    lengths
}

fn limits(text: &mut Text, limits: &[LimitView]) {
    let limits = &limits[..limits.len().min(NAMES_MAX)];
    if limits.is_empty() {
        return;
    }
    type Figure = fn(&LimitView) -> u64;
    let figures: [(&str, &str, Figure); 2] = [
        ("divvy_limit_running", "Tasks that run under a limit.", |limit| limit.running),
        ("divvy_limit_waiting", "Ready tasks that a limit keeps.", |limit| limit.waiting),
    ];
    for (name, help, figure) in figures {
        text.head(name, "gauge", help);
        for limit in limits {
            let key = limit.key.as_deref().unwrap_or_default();
            text.line(name, &[("limit", &limit.name), ("key", key)], figure(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_one_name_are_one_series() {
        let load = |name: &str, queue_length| WorkerLoad {
            name: name.into(),
            key: 1,
            slots: 1,
            leased: queue_length,
            queue_length,
            draining: false,
        };
        let scene =
            Scene { workers: vec![load("a", 2), load("b", 1), load("a", 3)], ..Scene::default() };
        let mut text = Text::default();
        write(&mut text, &scene, &[("a".into(), 0.5)]);
        let text = text.into_string();
        assert_eq!(
            text.matches("divvy_worker_queue_length{worker=\"a\"} 5\n").count(),
            1,
            "{text}"
        );
        assert!(text.contains("divvy_worker_success_rate{worker=\"a\"} 0.5\n"), "{text}");
        assert!(text.contains("divvy_alert{name=\"no_worker\"} 0\n"), "{text}");
        assert!(text.contains("divvy_total_steals 0\n"), "{text}");
    }
}
