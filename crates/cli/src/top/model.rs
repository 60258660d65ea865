//! What `divvy top` shows and what a key means. Pure: looks and keys come in, wishes go out.
//!
//! Four lists stand below the overview: queues, workers, dead letters, alerts. What cannot be taken back (to drain a
//! worker, to run dead letters again) is asked for first. Each wish can tell the command that does the same.

use std::collections::VecDeque;

use divvy_types::shell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::look::Look;

/// Looks whose rates the small chart shows.
const RATES_MAX: usize = 60;

/// One of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Queues,
    Workers,
    Dead,
    Alerts,
}

impl Pane {
    pub(super) const ALL: [Self; 4] = [Self::Queues, Self::Workers, Self::Dead, Self::Alerts];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Queues => "Queues",
            Self::Workers => "Workers",
            Self::Dead => "Dead letters",
            Self::Alerts => "Alerts",
        }
    }

    /// What it may be sorted by, the usual first.
    pub(super) fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Queues => &["oldest wait", "ready", "running", "name"],
            Self::Workers => &["name", "load", "queue", "failed"],
            Self::Dead => &["count", "kind"],
            Self::Alerts => &["urgency", "name"],
        }
    }

    fn place(self) -> usize {
        self as usize
    }
}

/// Something to ask of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    PauseQueue { name: String, pause: bool },
    PauseWorker { name: String, pause: bool },
    DrainWorker { name: String },
    RetryDead { kind: String, class: String, error: String, count: u64 },
    Silence { name: String, end: bool },
}

impl Wish {
    /// The command that does the same.
    pub(super) fn command(&self) -> String {
        let verb = |pause: bool| if pause { "pause" } else { "resume" };
        match self {
            Self::PauseQueue { name, pause } => {
                format!("divvy queue {} {}", verb(*pause), shell::word(name))
            }
            Self::PauseWorker { name, pause } => {
                format!("divvy worker {} {}", verb(*pause), shell::word(name))
            }
            Self::DrainWorker { name } => format!("divvy worker drain {}", shell::word(name)),
            Self::RetryDead { kind, error, .. } => {
                format!(
                    "divvy dead replay --kind {} --error {}",
                    shell::word(kind),
                    shell::word(error)
                )
            }
            Self::Silence { name, end: false } => format!("divvy alert silence {name} --for 1h"),
            Self::Silence { name, end: true } => format!("divvy alert silence {name} --end"),
        }
    }

    /// What is asked before it is done; nothing if it can be taken back.
    fn question(&self) -> Option<String> {
        match self {
            Self::DrainWorker { name } => Some(format!("drain worker {name}?")),
            Self::RetryDead { kind, count, .. } => Some(format!("run {count} of {kind} again?")),
            _ => None,
        }
    }
}

/// What follows from a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    Quit,
    Do(Wish),
}

/// Everything that is shown.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) server: String,
    pub(super) look: Look,
    /// Why the server cannot be looked at, if that is so.
    pub(super) away: Option<String>,
    pub(super) pane: Pane,
    /// The chosen row of each list, and its order.
    chosen: [usize; 4],
    orders: [usize; 4],
    pub(super) frozen: bool,
    pub(super) help: bool,
    /// What waits for a yes.
    pub(super) asked: Option<Wish>,
    /// What was said last.
    pub(super) said: Option<String>,
    /// Tasks done per minute at the last looks.
    pub(super) rates: VecDeque<u64>,
}

impl Model {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), ..Self::default() }
    }

    /// Takes a new look.
    pub(super) fn take(&mut self, look: Look) {
        if self.rates.len() == RATES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(look.done_per_min.round() as u64);
        self.look = look;
        self.away = None;
        self.sort();
        for pane in Pane::ALL {
            let last = self.rows(pane).saturating_sub(1);
            let chosen = &mut self.chosen[pane.place()];
            *chosen = (*chosen).min(last);
        }
    }

    /// The server cannot be looked at.
    pub(super) fn lose(&mut self, problem: String) {
        self.away = Some(problem);
    }

    pub(super) fn say(&mut self, text: String) {
        self.said = Some(text);
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn order(&self) -> &'static str {
        self.pane.orders()[self.orders[self.pane.place()]]
    }

    pub(super) fn chosen(&self) -> usize {
        self.chosen[self.pane.place()]
    }

    fn rows(&self, pane: Pane) -> usize {
        match pane {
            Pane::Queues => self.look.queues.len(),
            Pane::Workers => self.look.workers.len(),
            Pane::Dead => self.look.dead.len(),
            Pane::Alerts => self.look.alerts.len(),
        }
    }

    /// Says what a key means.
    pub(super) fn press(&mut self, key: KeyEvent) -> Act {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Act::Quit;
        }
        self.said = None;
        if let Some(wish) = self.asked.take() {
            return match key.code {
                KeyCode::Char('y' | 'Y') => Act::Do(wish),
                _ => Act::Nothing,
            };
        }
        if std::mem::take(&mut self.help) {
            return Act::Nothing;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Act::Quit,
            KeyCode::Char('?') => self.help = true,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char(digit @ '1'..='4') => {
                self.pane = Pane::ALL[digit as usize - '1' as usize]
            }
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.turn(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.turn(3),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Home | KeyCode::Char('g') => self.chosen[self.pane.place()] = 0,
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Char('s') => {
                let order = &mut self.orders[self.pane.place()];
                *order = (*order + 1) % self.pane.orders().len();
                self.sort();
            }
            KeyCode::Char(word) => return self.wish(word),
            _ => {}
        }
        Act::Nothing
    }

    fn turn(&mut self, by: usize) {
        self.pane = Pane::ALL[(self.pane.place() + by) % Pane::ALL.len()];
    }

    fn step(&mut self, by: isize) {
        let last = self.rows(self.pane).saturating_sub(1);
        let chosen = &mut self.chosen[self.pane.place()];
        *chosen = chosen.saturating_add_signed(by).min(last);
    }

    /// What a letter asks for in this list.
    fn wish(&mut self, letter: char) -> Act {
        let Some(wish) = self.wished(letter) else { return Act::Nothing };
        if wish.question().is_none() {
            return Act::Do(wish);
        }
        self.asked = Some(wish);
        Act::Nothing
    }

    fn wished(&self, letter: char) -> Option<Wish> {
        let row = self.chosen();
        match (self.pane, letter) {
            (Pane::Queues, 'p') => {
                let queue = &self.look.queues.get(row)?.queue;
                Some(Wish::PauseQueue { name: queue.name.to_string(), pause: !queue.paused })
            }
            (Pane::Workers, 'p') => {
                let worker = self.look.workers.get(row)?;
                Some(Wish::PauseWorker { name: worker.name.to_string(), pause: !worker.paused })
            }
            (Pane::Workers, 'd') => {
                Some(Wish::DrainWorker { name: self.look.workers.get(row)?.name.to_string() })
            }
            (Pane::Dead, 'r') => {
                let group = self.look.dead.get(row)?;
                let class = serde_json::to_value(group.class).ok()?.as_str()?.to_owned();
                let (kind, error) = (group.kind.to_string(), group.error.clone());
                Some(Wish::RetryDead { kind, class, error, count: group.count })
            }
            (Pane::Alerts, 'x') => {
                let alert = self.look.alerts.get(row)?;
                let end = alert.silenced_until.is_some();
                Some(Wish::Silence { name: alert.name.to_string(), end })
            }
            _ => None,
        }
    }

    /// What is asked, if something waits for a yes.
    pub(super) fn question(&self) -> Option<String> {
        let wish = self.asked.as_ref()?;
        Some(format!("{} (y/n)   {}", wish.question()?, wish.command()))
    }

    fn sort(&mut self) {
        use std::cmp::Reverse;
        let order = |pane: Pane| pane.orders()[self.orders[pane.place()]];
        let look = &mut self.look;
        match order(Pane::Queues) {
            "ready" => look.queues.sort_by_key(|it| Reverse(it.queue.ready)),
            "running" => look.queues.sort_by_key(|it| Reverse(it.queue.leased)),
            "name" => look.queues.sort_by(|a, b| a.queue.name.cmp(&b.queue.name)),
            _ => look.queues.sort_by_key(|it| Reverse(it.queue.oldest_ready_ms)),
        }
        match order(Pane::Workers) {
            "load" => look.workers.sort_by_key(|worker| Reverse(worker.leased)),
            "queue" => look.workers.sort_by_key(|worker| Reverse(worker.queue_length)),
            "failed" => look.workers.sort_by_key(|worker| Reverse(worker.failed)),
            _ => look.workers.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        match order(Pane::Dead) {
            "kind" => look.dead.sort_by(|a, b| a.kind.cmp(&b.kind)),
            _ => look.dead.sort_by_key(|group| Reverse(group.count)),
        }
        match order(Pane::Alerts) {
            "name" => look.alerts.sort_by(|a, b| a.name.cmp(&b.name)),
            _ => look.alerts.sort_by_key(|alert| {
                let warns = alert.severity != divvy_types::alerts::Severity::Fault;
                (!alert.firing, !alert.pending, warns)
            }),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use divvy_types::Timestamp;
    use divvy_types::alerts::{Alert, Severity};
    use divvy_types::overview::QueueStatus;
    use divvy_types::view::{DeadGroup, WorkerView};
    use serde_json::json;

    use super::super::look::Counts;
    use super::*;

    /// A server with something in every list.
    pub(in super::super) fn busy(second: u64) -> Look {
        let queue = |name: &str, ready: u64, oldest: u64, paused: bool| -> QueueStatus {
            serde_json::from_value(json!({
                "name": name, "paused": paused, "blocked": 1, "scheduled": 2, "ready": ready,
                "leased": 3, "queued": 1, "oldest_ready_ms": oldest,
            }))
            .unwrap()
        };
        let worker = |name: &str, failed: u64| -> WorkerView {
            serde_json::from_value(json!({
                "name": name, "key": 1, "queues": [], "kinds": ["a"], "capabilities": [], "credit": 8,
                "leased": 3, "draining": false, "connected_at": "2026-01-01T00:00:00Z",
                "seen_at": "2026-01-01T00:00:00Z", "finished": 9,
                "failed": failed, "slots": 4, "queue_length": 1, "success_rate": 0.9,
            }))
            .unwrap()
        };
        let dead: DeadGroup = serde_json::from_value(json!({
            "kind": "mail", "class": "failed", "error": "status # from host", "count": 12,
            "sample": "0198c0de-0000-7000-8000-000000000001",
        }))
        .unwrap();
        let alert = |name: &str, firing: bool| Alert {
            name: name.to_owned().into(),
            firing,
            severity: Severity::Fault,
            text: "9 tasks need gpu, and no worker has it".into(),
            cure: Some("divvy work --caps gpu".into()),
            ..Alert::default()
        };
        Look {
            time: Timestamp(1_000_000_000 + second * 1_000_000),
            version: "0.1.0".into(),
            uptime_ms: 3_600_000,
            counts: Counts { ready: 1_204, leased: 40, queued: 2, dead: 12, ..Counts::default() },
            queues: vec![queue("bulk", 1_200, 3_200, false), queue("mail", 4, 900_000, true)],
            workers: vec![worker("w2", 0), worker("w1", 7)],
            dead: vec![dead],
            alerts: vec![alert("clock", false), alert("no_capable_worker", true)],
            done_per_min: 840.0,
            failed_share: 0.125,
            wanted: Some((8, 0.25)),
        }
    }

    fn pressed(model: &mut Model, keys: &str) -> Vec<Act> {
        keys.chars().map(|key| model.press(KeyCode::Char(key).into())).collect()
    }

    #[test]
    fn the_small_chart_shows_what_the_server_told_at_the_last_looks() {
        let mut model = Model::new("http://s");
        for second in 0..=RATES_MAX as u64 {
            model.take(Look { done_per_min: second as f64, ..busy(second) });
        }
        assert_eq!((model.rates.len(), model.rates.front()), (RATES_MAX, Some(&1)));
    }

    #[test]
    fn keys_pause_sort_drain_retry_and_silence_and_what_is_final_is_asked_first() {
        let mut model = Model::new("http://s");
        model.take(busy(0));
        assert_eq!(model.look.queues[0].queue.name, "mail", "the longest wait first");
        let wish = Wish::PauseQueue { name: "mail".into(), pause: false };
        assert_eq!(pressed(&mut model, "p"), [Act::Do(wish.clone())]);
        assert_eq!(wish.command(), "divvy queue resume mail");
        pressed(&mut model, "s");
        assert_eq!((model.order(), model.look.queues[0].queue.name.as_str()), ("ready", "bulk"));

        let acts = pressed(&mut model, "2jdn");
        assert!(acts.iter().all(|act| *act == Act::Nothing), "a no drains nobody: {acts:?}");
        pressed(&mut model, "d");
        assert!(model.question().unwrap().starts_with("drain worker w2? (y/n)"));
        let drain = Act::Do(Wish::DrainWorker { name: "w2".into() });
        assert_eq!(pressed(&mut model, "y"), [drain]);

        pressed(&mut model, "3r");
        let [Act::Do(retry)] = &pressed(&mut model, "y")[..] else { panic!("nothing is retried") };
        assert_eq!(retry.command(), "divvy dead replay --kind mail --error 'status # from host'");
        let silence = Act::Do(Wish::Silence { name: "no_capable_worker".into(), end: false });
        assert_eq!(pressed(&mut model, "4x"), [Act::Nothing, silence]);
        pressed(&mut model, " ");
        assert!(model.is_frozen());
        assert_eq!(pressed(&mut model, "?q"), [Act::Nothing, Act::Nothing], "a key ends the help");
        assert_eq!(pressed(&mut model, "q"), [Act::Quit]);
    }

    #[test]
    fn a_list_that_shrinks_leaves_no_row_chosen_that_is_gone() {
        let mut model = Model::new("http://s");
        model.take(busy(0));
        pressed(&mut model, "G");
        assert_eq!(model.chosen(), 1);
        model.take(Look::default());
        assert_eq!(model.chosen(), 0);
        assert_eq!(pressed(&mut model, "jpkd"), vec![Act::Nothing; 4]);
    }
}
