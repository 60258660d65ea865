//! What happened between two looks at the engine, besides tasks: to workers, queues, and tasks that moved between workers.
//!
//! Nothing is recorded for it while it happens: a look tells how things are, and what is different is what happened. What
//! came and went between two looks is not told; a connection that was replaced is, because connections have numbers.

use std::collections::BTreeMap;

use divvy_scheduler::Stolen;
use divvy_types::alerts::Alert;
use divvy_types::pulse::{
    AlertEvent, AlertNews, PulseEvent, QueueEvent, QueueNews, StealEvent, StolenBy, WorkerEvent,
    WorkerNews,
};
use divvy_types::settings::QueueSettings;
use divvy_types::{Name, Timestamp};

/// What a look tells of workers and queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scenery {
    /// By the number of the connection.
    pub(super) workers: BTreeMap<u64, WorkerSeen>,
    /// Queues that are paused.
    pub(super) paused: Vec<Name>,
    /// What is set about queues.
    pub(super) settings: BTreeMap<Name, QueueSettings>,
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerSeen {
    pub(super) name: Name,
    pub(super) draining: bool,
    pub(super) paused: bool,
    pub(super) away: bool,
}

/// What is different.
pub(super) fn changes(at: Timestamp, before: &Scenery, after: &Scenery) -> Vec<PulseEvent> {
    let mut events = Vec::new();
    for (key, worker) in &before.workers {
        if !after.workers.contains_key(key) {
            events.push(of_worker(at, *key, worker, WorkerNews::Left));
        }
    }
    for (key, worker) in &after.workers {
        let news = match before.workers.get(key) {
            None => vec![WorkerNews::Came],
            Some(before) => differences(before, worker),
        };
        events.extend(news.into_iter().map(|what| of_worker(at, *key, worker, what)));
    }
    let queue =
        |queue: &Name, what| PulseEvent::Queue(QueueEvent { at, queue: queue.clone(), what });
    let ended = before.paused.iter().filter(|name| !after.paused.contains(name));
    events.extend(ended.map(|name| queue(name, QueueNews::Resumed)));
    let begun = after.paused.iter().filter(|name| !before.paused.contains(name));
    events.extend(begun.map(|name| queue(name, QueueNews::Paused)));
    let removed = before.settings.keys().filter(|name| !after.settings.contains_key(*name));
    let set = after.settings.iter().filter(|(name, set)| before.settings.get(*name) != Some(set));
    let set = removed.chain(set.map(|(name, _)| name));
    events.extend(set.map(|name| queue(name, QueueNews::Set)));
    events
}

fn differences(before: &WorkerSeen, after: &WorkerSeen) -> Vec<WorkerNews> {
    let mut news = Vec::new();
    match (before.away, after.away) {
        (false, true) => news.push(WorkerNews::Away),
        (true, false) => news.push(WorkerNews::Back),
        _ => {}
    }
    if after.draining && !before.draining {
        news.push(WorkerNews::Draining);
    }
    match (before.paused, after.paused) {
        (false, true) => news.push(WorkerNews::Paused),
        (true, false) => news.push(WorkerNews::Resumed),
        _ => {}
    }
    news
}

fn of_worker(at: Timestamp, key: u64, worker: &WorkerSeen, what: WorkerNews) -> PulseEvent {
    PulseEvent::Worker(WorkerEvent { at, worker: worker.name.clone(), key, what })
}

/// Tasks that moved, added up by who had them and who has them now.
pub(super) fn steals<'a>(
    at: Timestamp,
    stolen: impl IntoIterator<Item = &'a Stolen>,
) -> Vec<PulseEvent> {
    let mut counts: BTreeMap<(&Name, &Name, StolenBy), u64> = BTreeMap::new();
    for Stolen { from, to, by, .. } in stolen {
        *counts.entry((from, to, *by)).or_default() += 1;
    }
    let event = |((from, to, by), count): ((&Name, &Name, StolenBy), u64)| {
        PulseEvent::Steal(StealEvent { at, from: from.clone(), to: to.clone(), count, by })
    };
    counts.into_iter().map(event).collect()
}

/// Rules that broke, and rules that hold again.
pub(super) fn alerts(at: Timestamp, before: &[Alert], after: &[Alert]) -> Vec<PulseEvent> {
    let fires = |list: &[Alert], name: &str| list.iter().any(|it| it.firing && it.name == name);
    let event = |what, alert: &Alert| {
        PulseEvent::Alert(Box::new(AlertEvent { at, what, alert: alert.clone() }))
    };
    let resolved = before.iter().filter(|it| it.firing && !fires(after, &it.name));
    let resolved = resolved.map(|alert| {
        let alert = Alert { firing: false, cure: None, ..alert.clone() };
        event(AlertNews::Resolved, &alert)
    });
    let fired = after.iter().filter(|it| it.firing && !fires(before, &it.name));
    resolved.chain(fired.map(|alert| event(AlertNews::Fired, alert))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn worker(name: &str) -> WorkerSeen {
        WorkerSeen { name: name.into(), draining: false, paused: false, away: false }
    }

    fn told(events: &[PulseEvent]) -> Vec<(&'static str, Value)> {
        let value = |event: &PulseEvent| {
            let mut value = serde_json::to_value(event).unwrap();
            value.as_object_mut().unwrap().remove("at");
            (event.name(), value)
        };
        events.iter().map(value).collect()
    }

    #[test]
    fn what_is_different_between_two_looks_is_told_once() {
        let before = Scenery {
            workers: [(1, worker("a")), (2, worker("b")), (3, worker("c"))].into(),
            paused: vec!["old".into()],
            settings: [("gone".into(), QueueSettings::default())].into(),
        };
        let mut after = before.clone();
        assert_eq!(changes(Timestamp(1), &before, &after), []);
        after.workers.remove(&1);
        after.workers.insert(4, worker("a"));
        after.workers.insert(2, WorkerSeen { draining: true, away: true, ..worker("b") });
        after.workers.insert(3, WorkerSeen { paused: true, ..worker("c") });
        after.paused = vec!["new".into()];
        after.settings =
            [("mail".into(), QueueSettings { weight: Some(3), ..QueueSettings::default() })].into();
        let worker = |name: &str, key: u64, what: &str| {
            ("worker", json!({ "worker": name, "key": key, "what": what }))
        };
        let queue = |name: &str, what: &str| ("queue", json!({ "queue": name, "what": what }));
        assert_eq!(
            told(&changes(Timestamp(1), &before, &after)),
            [
                worker("a", 1, "left"),
                worker("b", 2, "away"),
                worker("b", 2, "draining"),
                worker("c", 3, "paused"),
                worker("a", 4, "came"),
                queue("old", "resumed"),
                queue("new", "paused"),
                queue("gone", "set"),
                queue("mail", "set"),
            ]
        );
        let back = told(&changes(Timestamp(1), &after, &before));
        assert!(
            back.contains(&worker("b", 2, "back")) && back.contains(&worker("c", 3, "resumed"))
        );
    }

    #[test]
    fn steals_of_one_pair_are_one_event() {
        let stolen = |number, from: &str, to: &str, by| Stolen {
            number,
            from: from.into(),
            to: to.into(),
            by,
        };
        let list = [
            stolen(1, "a", "b", StolenBy::Pull),
            stolen(2, "a", "b", StolenBy::Pull),
            stolen(3, "a", "b", StolenBy::Push),
            stolen(4, "c", "b", StolenBy::Pull),
        ];
        let one = |from: &str, count: u64, by: &str| {
            ("steal", json!({ "from": from, "to": "b", "count": count, "by": by }))
        };
        let expected = [one("a", 2, "pull"), one("a", 1, "push"), one("c", 1, "pull")];
        assert_eq!(told(&steals(Timestamp(1), &list)), expected);
    }

    #[test]
    fn an_alert_is_told_when_it_fires_and_when_it_is_over() {
        let alert = |name: &str| -> Alert {
            let alert = json!({
                "name": name, "firing": true, "severity": "fault", "text": "it is so", "cure": "do that",
            });
            serde_json::from_value(alert).unwrap()
        };
        let pending = |name: &str| Alert { firing: false, pending: true, ..alert(name) };
        let before = [alert("a"), alert("b"), pending("c"), pending("d")];
        let after = [pending("a"), alert("b"), alert("c"), pending("e")];
        let events = alerts(Timestamp(1), &before, &after);
        let told = told(&events);
        let what: Vec<(&Value, &Value, &Value)> = told
            .iter()
            .map(|(_, it)| (&it["what"], &it["alert"]["name"], &it["alert"]["firing"]))
            .collect();
        let (resolved, fired) = (json!("resolved"), json!("fired"));
        let (a, c, yes, no) = (json!("a"), json!("c"), json!(true), json!(false));
        assert_eq!(what, [(&resolved, &a, &no), (&fired, &c, &yes)]);
    }
}
