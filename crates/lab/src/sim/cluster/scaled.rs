//! Decides what happens when workers are started and stopped while a run goes on.

use std::time::Duration;

use divvy_autoscale::Sample;
use divvy_scheduler::Input;

use super::crew::{Order, boot_of};
use super::draw::exponential;
use super::member::Bench;
use super::setup::Turn;
use super::world::{Event, Micros, World, micros};

/// A worker that drains leaves after this time at the earliest: a task may be on its way to it.
const FAREWELL: Micros = 1_000_000;

impl World<'_> {
    /// Begins with those that are there from the start, and lets the autoscaler look.
    pub(super) fn plan_crew(&mut self) {
        let Some((crew, _)) = &self.crew else { return };
        for (worker_type, count) in crew.at_start() {
            (0..count).for_each(|_| self.hire(worker_type, true));
        }
        self.plan(0, Event::Look);
    }

    /// The autoscaler looks and decides; what it wants is done.
    pub(super) fn look(&mut self) {
        let Some((crew, watch)) = &mut self.crew else { return };
        let busy: usize = self.benches.iter().map(Bench::runs).sum();
        let sample =
            Sample { kinds: watch.look(self.now), busy_slots: busy as u32, ..Sample::default() };
        let every = micros(crew.scaling.every);
        let benches = &self.benches;
        let orders = crew.decide(sample, self.now, |member| benches[member].runs());
        self.plan(self.now + every, Event::Look);
        for order in orders {
            match order {
                Order::Start { worker_type, count } => {
                    (0..count).for_each(|_| self.hire(worker_type, false));
                }
                Order::Drain { member } => {
                    self.rest(member, true);
                    self.plan(self.now + FAREWELL, Event::Farewell(member));
                }
                Order::CallBack { member } => self.rest(member, false),
            }
        }
    }

    fn hire(&mut self, worker_type: usize, is_there: bool) {
        let Some((crew, _)) = self.crew.as_mut().filter(|(crew, _)| crew.has_room()) else {
            return;
        };
        let member = crew.hire(worker_type, self.members.len(), self.now);
        let boot = if is_there { 0 } else { boot_of(&crew.scaling.pool.types[worker_type]) };
        self.benches.push(Bench::new(&member));
        self.record.hired(&member);
        self.members.push(member);
        self.plan(self.now + boot, Event::Boots(self.members.len() - 1));
    }

    pub(super) fn boots(&mut self, member: usize) {
        let Some((crew, _)) = &mut self.crew else { return };
        if !crew.booted(member) {
            return;
        }
        let worker_type = crew.type_of(member);
        let often = worker_type.and_then(|of| crew.scaling.interruptions_of(of)).cloned();
        if let Some(often) = often {
            let hours = exponential(&mut self.fate) / often.per_hour;
            let lives = Duration::from_secs_f64((hours * 3_600.0).min(1e9));
            self.plan(self.now + micros(lives), Event::Notice(member));
            self.plan(self.now + micros(lives + often.notice), Event::Turn(member, Turn::Dies));
        }
        self.join(member);
    }

    /// A spot worker is told that it will be taken away: it takes nothing more.
    pub(super) fn notice(&mut self, member: usize) {
        if self.crew.as_mut().is_some_and(|(crew, _)| crew.noticed(member)) {
            self.drain(member);
        }
    }

    /// Lets a worker take nothing more until it is called back.
    fn rest(&mut self, member: usize, paused: bool) {
        let Some(worker) = self.benches[member].key else { return };
        self.send(Event::Heard(Input::WorkerPaused { worker, paused }));
    }

    fn drain(&mut self, member: usize) {
        let Some(worker) = self.benches[member].key else { return };
        self.send(Event::Heard(Input::WorkerDraining { worker }));
        self.plan(self.now + FAREWELL, Event::Farewell(member));
    }

    /// A worker that drains and holds nothing leaves.
    pub(super) fn farewell(&mut self, member: usize) {
        let drains = self.crew.as_ref().is_some_and(|(crew, _)| crew.departs(member));
        if drains && !self.benches[member].holds_any() {
            self.quit(member, true);
        }
    }
}
