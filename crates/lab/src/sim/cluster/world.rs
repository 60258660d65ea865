//! Decides what happens next: arrivals, messages, ends and timers, in the order of time. What follows from them is the
//! scheduler's decision.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use divvy_scheduler::{
    Action, AttemptEnd, AttemptEnded, Grant, Input, Options, Parent, ParentState, Scheduler,
    Submission,
};
use divvy_types::limits::{BATCH_TASKS_MAX, CREDIT_MAX};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, Failure, FailureVerdict, Machine, Name, Payload, Seq,
    TaskError, Timestamp, Token, WorkerHello, WorkerKey, WorkerTier,
};

use super::agenda::Agenda;
use super::crew::Crew;
use super::draw::{self, Drawn};
use super::late::Lateness;
use super::member::{Attempt, Bench};
use super::outcome::{End, Outcome, Record};
use super::setup::{Cluster, LIGHT_PER_SLOT, Member, Turn};
use super::watch::Watch;
use crate::experiment::Error;

/// Time since the start of a run, in microseconds.
pub(super) type Micros = u64;

/// The scheduler's time at the start of a run.
pub(super) const START: Timestamp = Timestamp(1_700_000_000_000_000);
/// A scheduler whose deadline stays in the past for so many steps is broken.
const STILL_MAX: u32 = 1_000_000;

pub(super) fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Everything in a simulation.
pub(super) struct World<'a> {
    cluster: &'a Cluster,
    scheduler: Scheduler,
    drawn: Arc<Drawn>,
    pub(super) kinds: Vec<Name>,
    pub(super) members: Vec<Member>,
    pub(super) benches: Vec<Bench>,
    /// Workers that are started and stopped, and what is seen of the tasks for that.
    pub(super) crew: Option<(Crew<'a>, Watch)>,
    /// Which worker a connection belongs to.
    connections: BTreeMap<WorkerKey, usize>,
    pub(super) now: Micros,
    agenda: Agenda,
    late: Option<Lateness<'a>>,
    luck: fastrand::Rng,
    /// When spot workers are taken away.
    pub(super) fate: fastrand::Rng,
    pub(super) record: Record,
}

pub(super) enum Event {
    /// These tasks arrive at the server.
    Submit(Range<usize>),
    /// Something happens to a worker.
    Turn(usize, Turn),
    /// The server hears something.
    Heard(Input),
    /// A worker is told something, over this connection.
    Told(WorkerKey, Message),
    /// A worker ends what it runs.
    Ends(WorkerKey, Attempt),
    /// A worker says that it lives.
    Beat(WorkerKey),
    /// The autoscaler looks.
    Look,
    /// A worker that was asked for has booted.
    Boots(usize),
    /// A spot worker is told that it will be taken away.
    Notice(usize),
    /// A worker that drains leaves if it holds nothing.
    Farewell(usize),
}

pub(super) enum Message {
    Grant(Attempt),
    Recall { attempt: Attempt, begun_too: bool },
    Stop(Attempt),
}

impl<'a> World<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Result<Self, Error> {
        let drawn = draw::plan(cluster)?;
        let mut kinds: Vec<Name> = drawn.sorts.iter().map(|sort| sort.kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        // There is no store that tasks could wait in.
        let options = Options {
            seed: cluster.seed,
            window_tasks: usize::MAX,
            window_bytes: usize::MAX,
            lease_ms: cluster.lease.as_millis() as u64,
            ..Options::default()
        };
        let mut scheduler = Scheduler::new(options);
        scheduler.set_watched(false);
        let scaling = cluster.scaling.as_ref();
        Ok(Self {
            scheduler,
            record: Record::new(cluster, &drawn),
            crew: scaling.map(|scaling| (Crew::new(scaling), Watch::new(&kinds, &drawn))),
            drawn,
            kinds,
            members: cluster.members.clone(),
            benches: cluster.members.iter().map(Bench::new).collect(),
            connections: BTreeMap::new(),
            now: 0,
            agenda: Agenda::default(),
            late: cluster.given.as_deref().zip(cluster.late_max).map(|(g, m)| Lateness::new(g, m)),
            luck: fastrand::Rng::with_seed(!cluster.seed),
            fate: fastrand::Rng::with_seed(cluster.seed.rotate_left(32)),
            cluster,
        })
    }

    pub(super) fn run(mut self) -> Outcome {
        self.feed(Input::RecoveryEnded);
        self.feed(Input::SettingsChanged(Box::new(self.cluster.settings.clone())));
        self.plan_members();
        self.plan_crew();
        self.plan_arrivals();
        let horizon = micros(self.cluster.horizon);
        let (mut still, mut gave_up) = (0, false);
        while !self.record.all_ended() {
            let event = self.agenda.next_at();
            let timer = self.scheduler.next_deadline().map(|at| at.0.saturating_sub(START.0));
            let Some(next) = [event, timer].into_iter().flatten().min() else { break };
            if next > horizon {
                self.now = self.now.max(horizon);
                break;
            }
            gave_up = self.is_hopeless(next);
            if gave_up {
                break;
            }
            still = if next > self.now { 0 } else { still + 1 };
            assert!(
                still < STILL_MAX,
                "time stands still: the scheduler's deadline stays in the past"
            );
            self.now = self.now.max(next);
            if timer == Some(next) {
                self.feed(Input::TimePassed);
            } else if let Some(event) = self.agenda.take() {
                self.happen(event);
            }
        }
        let Self { scheduler, record, benches, now, crew, .. } = self;
        let scaled = crew.map(|(crew, _)| crew.outcome()).unwrap_or_default();
        record.outcome(&scheduler, &benches, scaled, (now, gave_up))
    }

    /// Whether more groups of tasks are late before `next` than may be.
    fn is_hopeless(&mut self, next: Micros) -> bool {
        let (late, record) = (&mut self.late, &self.record);
        let is_open = |place: usize| record.end_of(place).is_none();
        late.as_mut().is_some_and(|late| late.is_too_much(next, is_open))
    }

    fn plan_members(&mut self) {
        for (member, plan) in self.cluster.members.iter().enumerate() {
            self.plan(micros(plan.joins), Event::Turn(member, Turn::Returns));
            for (at, turn) in &plan.turns {
                self.plan(micros(*at), Event::Turn(member, *turn));
            }
        }
    }

    /// Tasks that come at the same moment come as one batch, as far as a batch may hold them.
    fn plan_arrivals(&mut self) {
        let (tasks, mut first) = (&self.drawn.tasks, 0);
        while first < tasks.len() {
            let at = tasks[first].at;
            let same = tasks[first..].iter().take_while(|task| task.at == at);
            let end = first + same.take(BATCH_TASKS_MAX).count();
            self.agenda.arrives(at, Event::Submit(first..end));
            first = end;
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Submit(places) => self.submit(places),
            Event::Turn(member, turn) => self.turn(member, turn),
            Event::Heard(input) => self.feed(input),
            Event::Told(key, message) => self.told(key, message),
            Event::Ends(key, attempt) => self.ends(key, attempt),
            Event::Beat(key) => self.beat(key),
            Event::Look => self.look(),
            Event::Boots(member) => self.boots(member),
            Event::Notice(member) => self.notice(member),
            Event::Farewell(member) => self.farewell(member),
        }
    }

    fn submit(&mut self, places: Range<usize>) {
        let submission = |place: usize| {
            let parents = self.drawn.parents.of(place).map(|parent| Parent {
                seq: seq_of(parent),
                optional: false,
                state: match self.record.end_of(parent) {
                    None => ParentState::Open,
                    Some(End::Done) => ParentState::Done,
                    Some(End::Dead | End::Cancelled) => ParentState::Failed,
                },
            });
            let parents = parents.collect();
            Submission { seq: seq_of(place), spec: self.drawn.spec(place), parents }
        };
        let batch = places.clone().map(submission).collect();
        self.record.submitted(places, self.now);
        self.see_ready();
        self.feed(Input::TasksSubmitted(batch));
    }

    fn turn(&mut self, member: usize, turn: Turn) {
        match turn {
            Turn::Returns if self.benches[member].key.is_none() => self.join(member),
            Turn::Returns => {}
            Turn::Speed(speed) => self.benches[member].speed = speed,
            Turn::Dies => self.quit(member, true),
            Turn::Vanishes => self.quit(member, false),
        }
    }

    /// A worker leaves for good, or until someone says that it returns.
    pub(super) fn quit(&mut self, member: usize, noticed: bool) {
        self.leave(member, noticed);
        if let Some((crew, _)) = &mut self.crew {
            crew.gone(member, self.now);
        }
    }

    pub(super) fn join(&mut self, member: usize) {
        let key = WorkerKey(self.agenda.number());
        self.benches[member].key = Some(key);
        self.connections.insert(key, member);
        let hello = self.hello(&self.members[member]);
        self.send(Event::Heard(Input::WorkerJoined(key, hello)));
    }

    /// What a worker says when it joins: light kinds have a tier of their own, as those of a real worker do.
    fn hello(&self, plan: &Member) -> WorkerHello<Seq> {
        let kinds = if plan.kinds.is_empty() { &self.kinds } else { &plan.kinds };
        let (light, heavy): (Vec<Name>, Vec<Name>) =
            kinds.iter().cloned().partition(|kind| self.is_light(kind));
        let credit = plan.slots + plan.prefetch;
        let places = match light.is_empty() {
            true => 0,
            false => plan.slots.saturating_mul(LIGHT_PER_SLOT).min(CREDIT_MAX - credit).max(1),
        };
        let tiers = [
            WorkerTier { kinds: heavy, credit, slots: plan.slots },
            WorkerTier { kinds: light, credit: places, slots: places },
        ];
        let tiers = tiers.into_iter().filter(|tier| places > 0 && !tier.kinds.is_empty());
        WorkerHello {
            name: plan.name.clone(),
            queues: plan.queues.clone(),
            kinds: kinds.clone(),
            capabilities: plan.capabilities.clone(),
            credit: credit + places,
            slots: plan.slots + places,
            tiers: tiers.collect(),
            ..WorkerHello::default()
        }
    }

    fn is_light(&self, kind: &Name) -> bool {
        self.cluster.light.contains(kind)
    }

    /// What was sent before still arrives; what is sent from now on does not.
    fn leave(&mut self, member: usize, noticed: bool) {
        let Some(worker) = self.benches[member].key else { return };
        let lost = self.benches[member].die(self.now);
        self.record.lost(member, lost.len());
        if let Some((_, watch)) = &mut self.crew {
            lost.into_iter().for_each(|place| watch.waits(place, self.now));
        }
        self.connections.remove(&worker);
        if noticed {
            self.send(Event::Heard(Input::WorkerLeft { worker }));
        }
    }

    fn told(&mut self, key: WorkerKey, message: Message) {
        let Some(member) = self.connections.get(&key).copied() else { return };
        let bench = &mut self.benches[member];
        match message {
            Message::Grant(attempt) => {
                let sort = self.drawn.sort(attempt.place);
                match self.cluster.light.contains(&sort.kind) {
                    true => bench.take_light(attempt),
                    false => bench.take(attempt, sort.priority),
                }
                if !std::mem::replace(&mut bench.beating, true) {
                    self.plan(self.now + self.beat_every(), Event::Beat(key));
                }
                self.begin(member, key);
            }
            Message::Recall { attempt, begun_too } => {
                if bench.give_back(attempt) {
                    self.record.gave_back(attempt.place);
                    self.report(key, attempt, AttemptEnd::Other(AttemptOutcome::Released));
                } else if begun_too && bench.end(self.now, attempt) {
                    self.record.gave_back(attempt.place);
                    self.report(key, attempt, AttemptEnd::Other(AttemptOutcome::Released));
                    self.begin(member, key);
                }
            }
            Message::Stop(attempt) => {
                if bench.give_back(attempt) || bench.end(self.now, attempt) {
                    self.report(key, attempt, failed(FailureVerdict::Cancelled, "told to stop"));
                    self.begin(member, key);
                }
            }
        }
    }

    fn begin(&mut self, member: usize, key: WorkerKey) {
        while let Some(attempt) = self.benches[member].begin(self.now) {
            self.record.began(attempt.place, member, self.now);
            if let Some((_, watch)) = &mut self.crew {
                watch.runs(attempt.place);
            }
            let run = self.drawn.tasks[attempt.place].run as f64 / self.benches[member].speed;
            self.plan(self.now + (run as Micros).max(1), Event::Ends(key, attempt));
        }
    }

    fn ends(&mut self, key: WorkerKey, attempt: Attempt) {
        let Some(member) = self.connections.get(&key).copied() else { return };
        if !self.benches[member].end(self.now, attempt) {
            return;
        }
        let kind = &self.drawn.sort(attempt.place).kind;
        let fails = &self.members[member].fails;
        let share = fails.iter().find(|(name, _)| name == kind).map_or(0.0, |(_, share)| *share);
        let end = if share > 0.0 && self.luck.f64() < share {
            failed(FailureVerdict::Retry, "the worker cannot do this")
        } else {
            self.record.finished(member);
            AttemptEnd::Finished { result: Payload::null(), spawned: Vec::new() }
        };
        self.report(key, attempt, end);
        self.begin(member, key);
        self.farewell(member);
    }

    /// A worker that holds nothing says nothing.
    fn beat(&mut self, key: WorkerKey) {
        let Some(member) = self.connections.get(&key).copied() else { return };
        self.benches[member].beating = self.benches[member].holds_any();
        if self.benches[member].beating {
            self.send(Event::Heard(Input::WorkerSeen { worker: key }));
            self.plan(self.now + self.beat_every(), Event::Beat(key));
        }
    }

    /// How often a worker that holds tasks says that it lives.
    fn beat_every(&self) -> Micros {
        micros(self.cluster.lease) / 3
    }

    fn report(&mut self, worker: WorkerKey, attempt: Attempt, end: AttemptEnd) {
        let (seq, token) = (seq_of(attempt.place), attempt.token);
        let report = AttemptEnded { worker, seq, token, end, log: None };
        self.send(Event::Heard(Input::AttemptEnded(report)));
    }

    fn feed(&mut self, input: Input) {
        self.scheduler.handle(START + Duration::from_micros(self.now), input);
        while let Some(action) = self.scheduler.poll_action() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Record(fact) => self.note(&fact),
            Action::Grant(Grant { worker, seq, token, .. }) => {
                self.tell(worker, Message::Grant(attempt(seq, token)));
            }
            Action::Recall { worker, seq, token, begun_too, .. } => {
                self.tell(worker, Message::Recall { attempt: attempt(seq, token), begun_too });
            }
            Action::StopAttempt { worker, seq, token, .. } => {
                self.tell(worker, Message::Stop(attempt(seq, token)));
            }
            // A worker that lives comes back at once, with empty hands.
            Action::DropWorker { worker } => {
                if let Some(member) = self.connections.get(&worker).copied() {
                    self.leave(member, false);
                    self.join(member);
                }
            }
            // The rest is for the store, for those who watch, and answers that a worker does not wait for.
            _ => {}
        }
    }

    fn note(&mut self, fact: &Fact) {
        let end = match fact {
            Fact::Finished { seq, .. } => (*seq, End::Done),
            Fact::Dead { seq, .. } => (*seq, End::Dead),
            Fact::Cancelled { seq, .. } => (*seq, End::Cancelled),
            _ => return,
        };
        let place = place_of(end.0);
        self.record.ended(place, end.1, self.now);
        // A light task is as much work for the autoscaler as the part of a slot that its place is.
        let part = if self.is_light(&self.drawn.sort(place).kind) { LIGHT_PER_SLOT } else { 1 };
        let run = Duration::from_micros(self.drawn.tasks[place].run) / part;
        let took = (end.1 == End::Done).then_some(run);
        if let Some((_, watch)) = &mut self.crew {
            watch.ended(place, took);
        }
        self.see_ready();
    }

    /// Lets the autoscaler see the tasks that have become ready.
    fn see_ready(&mut self) {
        let ready = self.record.take_ready();
        if let Some((_, watch)) = &mut self.crew {
            ready.into_iter().for_each(|place| watch.waits(place, self.now));
        }
    }

    fn tell(&mut self, worker: WorkerKey, message: Message) {
        self.record.messages += 1;
        self.send(Event::Told(worker, message));
    }

    /// Lets something arrive after the time that a message travels.
    pub(super) fn send(&mut self, event: Event) {
        self.agenda.travels(self.now + micros(self.cluster.travel), event);
    }

    pub(super) fn plan(&mut self, at: Micros, event: Event) {
        self.agenda.plan(at, event);
    }
}

fn attempt(seq: Seq, token: Token) -> Attempt {
    Attempt { place: place_of(seq), token }
}

fn seq_of(place: usize) -> Seq {
    Seq(place as u64 + 1)
}

fn place_of(seq: Seq) -> usize {
    seq.0 as usize - 1
}

fn failed(verdict: FailureVerdict, words: &str) -> AttemptEnd {
    let error = TaskError::new(ErrorClass::Failed, words);
    AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict, error }))
}
