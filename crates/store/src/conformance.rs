//! What every store must answer, as a suite that any back-end can run.
//!
//! [`check_rules`] tries each rule alone, fresh and again after a restart and after the store's background work;
//! [`agreement`] drives a store and the memory store with the same random facts and compares everything that can be
//! seen. Both panic with the rule or the difference.

pub mod agreement;
mod members;
mod rules;
mod saved;

use std::sync::Arc;

use divvy_types::{
    ErrorClass, Fact, Name, Payload, Seq, TaskError, TaskId, TaskSpec, Timestamp, Token, Verdict,
};

use crate::{Maintenance, MemoryStore, Recovered, Store, TaskRecord};

/// A store under test, and how it is started again on the same data.
pub trait Subject {
    /// The store.
    fn store(&mut self) -> &mut dyn Store;
    /// Closes it and opens it again.
    fn restart(&mut self);
}

/// The memory store under test.
#[derive(Debug, Default)]
pub struct MemorySubject(MemoryStore);

impl Subject for MemorySubject {
    fn store(&mut self) -> &mut dyn Store {
        &mut self.0
    }

    fn restart(&mut self) {
        self.0 = self.0.reopen();
    }
}

/// What is done to the store between the facts of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// It is closed and opened.
    Restart,
    /// Its background work is run to its end, well after everything that happened.
    Maintenance,
}

/// Tries every rule, each on a store of its own from `make`, with each thing that may happen in between.
pub fn check_rules(make: &mut dyn FnMut() -> Box<dyn Subject>) {
    for (name, rule) in rules::RULES.iter().chain(saved::RULES) {
        for between in [Between::Nothing, Between::Restart, Between::Maintenance] {
            rule(&mut Bench { subject: make(), between, name });
        }
    }
}

/// The instant at which the facts of the suite begin.
pub const START: Timestamp = Timestamp(1_763_200_000_000_000);

/// An instant so many seconds after the start.
pub fn second(n: u64) -> Timestamp {
    START.plus_ms(n * 1_000)
}

/// A time-ordered id, greater for a greater number.
pub fn id(n: u64) -> TaskId {
    TaskId((0x0198_c0de_0000 + u128::from(n)) << 80 | 0x7000_8000_0000_0000_0000)
}

/// A task of kind `noop`.
pub fn spec(n: u64) -> TaskSpec {
    TaskSpec::new(id(n), "noop")
}

/// Its submission.
pub fn submitted(n: u64) -> Fact {
    submission(n, spec(n))
}

/// The submission of a spec under this number.
pub fn submission(n: u64, spec: TaskSpec) -> Fact {
    Fact::Submitted {
        seq: Seq(n),
        at: second(n),
        spec: Arc::new(spec),
        spawned_by: None,
        spilled: None,
    }
}

/// Its finish.
pub fn finished(n: u64, token: u64) -> Fact {
    let result = Payload::json(format!("{{\"by\":{token}}}")).expect("the text is JSON");
    Fact::Finished {
        seq: Seq(n),
        token: Token(token),
        at: second(n + 1),
        worker: worker(),
        result,
        log: None,
    }
}

/// Its death.
pub fn dead(n: u64, token: u64) -> Fact {
    let (worker, error, log) = (worker(), error("it is over"), Some("last words".into()));
    Fact::Dead { seq: Seq(n), token: Token(token), at: second(n + 1), worker, error, log }
}

/// A failed attempt that counts and is due again at `second(retry)`.
pub fn failed(n: u64, token: u64, retry: u64) -> Fact {
    let (worker, error, log) = (worker(), error("try again"), None);
    let (seq, token, at, retry_at) = (Seq(n), Token(token), second(n + 1), second(retry));
    Fact::AttemptFailed { seq, token, at, worker, error, log, retry_at, counted: true }
}

/// Its cancel.
pub fn cancelled(n: u64) -> Fact {
    Fact::Cancelled { seq: Seq(n), at: second(n + 1), reason: "not wanted".into(), spilled: None }
}

/// The worker of all attempts.
pub fn worker() -> Name {
    Name::const_new("worker-a")
}

/// An error of a handler.
pub fn error(message: &str) -> TaskError {
    TaskError::new(ErrorClass::Failed, message)
}

/// A store under test and the words to complain with.
pub(crate) struct Bench {
    subject: Box<dyn Subject>,
    between: Between,
    name: &'static str,
}

impl Bench {
    pub(crate) fn commit(&mut self, facts: &[Fact]) -> Vec<Verdict> {
        commit(self.subject.store(), facts)
    }

    /// Commits facts that must all be applied.
    pub(crate) fn apply(&mut self, facts: &[Fact]) {
        let verdicts = self.commit(facts);
        self.same(&verdicts, &vec![Verdict::Applied; facts.len()], "the preparation of the rule");
    }

    /// Commits one fact alone and compares the verdict.
    pub(crate) fn expect(&mut self, fact: Fact, verdict: Verdict) {
        let found = self.commit(std::slice::from_ref(&fact));
        self.same(&found, &vec![verdict], &format!("{fact:?}"));
    }

    /// What may happen between two groups.
    pub(crate) fn between(&mut self) {
        match self.between {
            Between::Nothing => {}
            Between::Restart => self.subject.restart(),
            Between::Maintenance => maintain(self.subject.store(), second(3_600)),
        }
    }

    pub(crate) fn restart(&mut self) {
        self.subject.restart();
    }

    pub(crate) fn store(&mut self) -> &mut dyn Store {
        self.subject.store()
    }

    pub(crate) fn recovered(&mut self) -> Vec<Recovered> {
        recovered(self.subject.store())
    }

    pub(crate) fn task(&mut self, n: u64) -> TaskRecord {
        let mut reader = self.subject.store().reader().expect("a reader opens");
        let found = reader.get(Seq(n)).expect("a task can be read");
        found.unwrap_or_else(|| panic!("{}, {:?}: task {n} is not there", self.name, self.between))
    }

    pub(crate) fn same<T: PartialEq + std::fmt::Debug>(&self, found: &T, expected: &T, what: &str) {
        assert!(
            found == expected,
            "rule `{}`, {:?} in between: {what}\n found    {found:?}\n expected {expected:?}",
            self.name,
            self.between
        );
    }
}

/// Commits a group that the store must take.
pub fn commit(store: &mut dyn Store, facts: &[Fact]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Stale];
    store.commit(facts, &mut verdicts).expect("the store takes a group");
    assert_eq!(verdicts.len(), facts.len(), "one verdict per fact, and none from before");
    verdicts
}

/// Everything that recovery shows.
pub fn recovered(store: &mut dyn Store) -> Vec<Recovered> {
    let mut all = Vec::new();
    store.recover(&mut |one| all.push(one)).expect("the store recovers");
    assert!(
        matches!(all.last(), Some(Recovered::End { .. })),
        "recovery ends with the numbers to go on from"
    );
    all
}

/// Runs the background work to its end.
pub fn maintain(store: &mut dyn Store, now: Timestamp) {
    for _ in 0..10_000 {
        if store.maintain(now, now).expect("background work succeeds") == Maintenance::Rest {
            return;
        }
    }
    panic!("background work does not come to rest");
}
