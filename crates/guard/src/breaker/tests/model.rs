//! The breaker against a reference that keeps every call in a list and decides everything anew.

use proptest::prelude::*;

use super::super::{Outcome, Permit, Window};
use super::*;

#[derive(Clone, Debug)]
enum Step {
    Admit,
    Report(prop::sample::Index, Outcome),
    Cancel(prop::sample::Index, bool),
    ForceOpen,
    ForceClosed,
    Reset,
}

/// One call that was let in.
#[derive(Clone, Copy, Debug)]
struct Call {
    started: Duration,
    generation: u32,
    probe: bool,
}

struct Model {
    settings: Settings,
    state: State,
    generation: u32,
    /// Reported in this generation: when, failed, slow.
    reported: Vec<(Duration, bool, bool)>,
    in_a_row: u32,
    opened_at: Duration,
    openings: u32,
    /// When the probes under way were let in.
    probes: Vec<Duration>,
    successes: u32,
}

impl Model {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Closed,
            generation: 0,
            reported: Vec::new(),
            in_a_row: 0,
            opened_at: at(0),
            openings: 0,
            probes: Vec::new(),
            successes: 0,
        }
    }

    fn go(&mut self, state: State, now: Duration) {
        self.state = state;
        self.generation += 1;
        self.probes.clear();
        self.successes = 0;
        match state {
            State::Open => {
                self.opened_at = now;
                self.openings += 1;
            }
            State::Closed | State::ForcedClosed => {
                self.openings = 0;
                self.in_a_row = 0;
                self.reported.clear();
            }
            State::HalfOpen | State::ForcedOpen => {}
        }
    }

    fn settle(&mut self, now: Duration) {
        let timeout = self.settings.probe_timeout.unwrap();
        if self.state == State::HalfOpen
            && let Some(due) = self.probes.iter().map(|p| *p + timeout).filter(|d| *d <= now).min()
        {
            self.go(State::Open, due);
        }
        let mut open_for = self.settings.open_for;
        for _ in 1..self.openings {
            open_for = (open_for * 2).min(self.settings.open_for_max);
        }
        if self.state == State::Open && now >= self.opened_at + open_for {
            self.go(State::HalfOpen, now);
        }
    }

    fn admit(&mut self, now: Duration) -> Option<Call> {
        self.settle(now);
        let probe = self.state == State::HalfOpen;
        match self.state {
            State::Open | State::ForcedOpen => return None,
            State::HalfOpen if self.probes.len() == self.settings.probes as usize => return None,
            State::HalfOpen => self.probes.push(now),
            State::Closed | State::ForcedClosed => {}
        }
        Some(Call { started: now, generation: self.generation, probe })
    }

    fn end(&mut self, call: Call, outcome: Option<Outcome>, now: Option<Duration>) {
        if let (true, Some(now)) = (call.probe && call.generation == self.generation, now) {
            self.settle(now);
        }
        if call.generation != self.generation {
            return;
        }
        if call.probe {
            let place = self.probes.iter().position(|started| *started == call.started).unwrap();
            self.probes.remove(place);
        }
        let (Some(outcome @ (Outcome::Success | Outcome::Failure)), Some(now)) = (outcome, now)
        else {
            return;
        };
        let failed = outcome == Outcome::Failure;
        let slow = now - call.started > self.settings.slow_after;
        self.reported.push((now, failed, slow));
        self.in_a_row = if failed { self.in_a_row + 1 } else { 0 };
        let bad = failed || (slow && self.settings.slow_rate.is_some());
        match self.state {
            State::HalfOpen if bad => self.go(State::Open, now),
            State::HalfOpen => {
                self.successes += 1;
                if self.successes == self.settings.successes_to_close {
                    self.go(State::Closed, now);
                }
            }
            State::Closed if bad && self.is_tripped(now) => self.go(State::Open, now),
            State::Closed | State::Open | State::ForcedOpen | State::ForcedClosed => {}
        }
    }

    fn is_tripped(&self, now: Duration) -> bool {
        let in_window: Vec<&(Duration, bool, bool)> = match self.settings.window {
            Window::Calls(most) => self.reported.iter().rev().take(most as usize).collect(),
            Window::Time(span) => {
                let tick = |time: Duration| (time.as_nanos() * 10 / span.as_nanos()) as u64;
                self.reported.iter().filter(|call| tick(call.0) + 10 > tick(now)).collect()
            }
        };
        let rate = |bad: &dyn Fn(&(Duration, bool, bool)) -> bool| {
            in_window.iter().filter(|call| bad(call)).count() as f64 / in_window.len() as f64
        };
        let enough = in_window.len() >= self.settings.calls_min as usize;
        let Settings { failure_rate, slow_rate, consecutive_failures, .. } = self.settings;
        consecutive_failures.is_some_and(|most| self.in_a_row >= most)
            || enough && failure_rate.is_some_and(|most| rate(&|call| call.1) >= most)
            || enough && slow_rate.is_some_and(|most| rate(&|call| call.2) >= most)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        5 => Just(Outcome::Success),
        4 => Just(Outcome::Failure),
        1 => Just(Outcome::Ignored),
    ];
    prop_oneof![
        20 => Just(Step::Admit),
        20 => (any::<prop::sample::Index>(), outcome).prop_map(|(which, o)| Step::Report(which, o)),
        4 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(w, timed)| Step::Cancel(w, timed)),
        1 => prop_oneof![Just(Step::ForceOpen), Just(Step::ForceClosed)],
        1 => Just(Step::Reset),
    ]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let window = prop_oneof![
        (4u32..12).prop_map(Window::Calls),
        (50u64..500).prop_map(|ms| Window::Time(at(ms * 10)))
    ];
    let rate = || prop::option::of(prop::sample::select(vec![0.25, 0.3, 0.5, 0.75, 1.0]));
    (window, 1u32..5, rate(), rate(), prop::option::of(1u32..5), 1u32..4, 1u32..4).prop_map(
        |(window, calls_min, failure_rate, slow_rate, consecutive_failures, probes, to_close)| {
            Settings {
                window,
                calls_min,
                failure_rate,
                slow_rate,
                slow_after: at(30),
                consecutive_failures,
                open_for: at(100),
                open_factor: 2.0,
                open_for_max: at(350),
                probes,
                successes_to_close: to_close,
                probe_timeout: Some(at(60)),
                ..Settings::for_requests()
            }
        },
    )
}

fn take<'b>(
    open: &mut Vec<(Permit<&'b Breaker>, Call)>,
    which: prop::sample::Index,
) -> Option<(Permit<&'b Breaker>, Call)> {
    if open.is_empty() { None } else { Some(open.swap_remove(which.index(open.len()))) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_does_what_the_reference_does(
        settings in any_settings(),
        steps in prop::collection::vec((0u64..40, step()), 1..200),
    ) {
        let breaker = breaker(settings.clone());
        let mut model = Model::new(settings);
        let mut open: Vec<(Permit<&Breaker>, Call)> = Vec::new();
        let mut now = at(0);
        for (gap, step) in steps {
            now += at(gap);
            match step {
                Step::Admit => {
                    let would = breaker.check(now).is_ok();
                    let (real, reference) = (breaker.admit(now), model.admit(now));
                    prop_assert_eq!(real.is_ok(), reference.is_some());
                    if would {
                        prop_assert!(real.is_ok(), "what `check` promises, `admit` keeps");
                    }
                    if let (Ok(permit), Some(call)) = (real, reference) {
                        prop_assert_eq!(permit.is_probe(), call.probe);
                        open.push((permit, call));
                    }
                }
                Step::Report(which, outcome) => {
                    if let Some((permit, call)) = take(&mut open, which) {
                        permit.record(outcome, now);
                        model.end(call, Some(outcome), Some(now));
                    }
                }
                Step::Cancel(which, timed) => {
                    if let Some((permit, call)) = take(&mut open, which) {
                        if timed { permit.cancel(now) } else { drop(permit) }
                        model.end(call, None, timed.then_some(now));
                    }
                }
                Step::ForceOpen => { breaker.force_open(now); model.go(State::ForcedOpen, now); }
                Step::ForceClosed => { breaker.force_closed(now); model.go(State::ForcedClosed, now); }
                Step::Reset => { breaker.reset(now); model.go(State::Closed, now); }
            }
            prop_assert_eq!(breaker.state(), model.state);
            prop_assert_eq!(breaker.metrics(now).consecutive_failures, model.in_a_row);
        }
    }
}
