//! Random facts for two stores, and everything that can be seen of each, to be compared.

use std::sync::Arc;

use divvy_types::fact::Replay;
use divvy_types::{
    ErrorClass, Fact, Lane, OnConflict, Payload, Select, Seq, TaskError, TaskId, TaskSpec,
    TaskState, Timestamp, Token, Unique, Workflow, WorkflowId, WorkflowRole,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{MemorySubject, Subject, commit, id, maintain, recovered, second};

/// Task numbers that occur: few, so that facts meet.
const TASKS: u64 = 8;

/// One step of a random history.
#[derive(Clone, Debug)]
pub enum Step {
    /// These facts are committed as one group.
    Commit(Vec<Fact>),
    /// The store is closed and opened.
    Restart,
    /// The background work is run to its end.
    Maintain,
}

/// Drives stores from `make` and memory stores with `cases` random histories.
pub fn check(cases: u32, make: &mut dyn FnMut() -> Box<dyn Subject>) {
    let make = std::cell::RefCell::new(make);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&prop::collection::vec(step(), 1..24), |steps| {
        let mut subject = (make.borrow_mut())();
        compare(&mut MemorySubject::default(), subject.as_mut(), &steps);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Takes two stores through the same steps; panics at the first difference.
pub fn compare(one: &mut dyn Subject, other: &mut dyn Subject, steps: &[Step]) {
    for (n, step) in steps.iter().enumerate() {
        match step {
            Step::Commit(facts) => {
                assert_eq!(
                    commit(one.store(), facts),
                    commit(other.store(), facts),
                    "verdicts of step {n}: {facts:?}"
                );
            }
            Step::Restart => {
                one.restart();
                other.restart();
            }
            Step::Maintain => {
                maintain(one.store(), second(3 * 86_400));
                maintain(other.store(), second(3 * 86_400));
            }
        }
        let (left, right) = (observe(one), observe(other));
        for (left, right) in left.iter().zip(&right) {
            assert_eq!(left, right, "after step {n}: {step:?}");
        }
    }
}

/// Everything that can be seen of a store, as text.
pub fn observe(subject: &mut dyn Subject) -> Vec<String> {
    let store = subject.store();
    // Before what is open is read anew: a list must know by itself what was written since.
    let mut listed = pages(store);
    let mut seen: Vec<String> =
        recovered(store).iter().map(|one| format!("recovered {one:?}")).collect();
    seen.append(&mut listed);
    seen.extend(pages(store));
    let mut reader = store.reader().expect("a reader opens");
    for n in 0..=TASKS {
        seen.push(format!("task {n} {:?}", reader.get(Seq(n)).expect("a task is read")));
        let saved = reader.checkpoint(Seq(n)).expect("a checkpoint is read");
        seen.push(format!("checkpoint {n} {saved:?}"));
        for id in [id(n), keyed(n)] {
            let found = reader.find(id).expect("a task is looked for");
            seen.push(format!("id {id} {:?}", found.map(|task| task.seq)));
        }
    }
    let all: Vec<Seq> = (0..=TASKS).map(Seq).collect();
    seen.push(format!(
        "upstream {:?}",
        reader.upstream(&all, 100, 1 << 20).expect("upstream is read")
    ));
    seen.push(format!(
        "upstream of 1 {:?}",
        reader.upstream(&[Seq(1)], 3, 20).expect("upstream is read")
    ));
    seen.push(format!(
        "ids {:?}",
        reader.ids_between(TaskId(0), TaskId(u128::MAX), 5).expect("ids are read")
    ));
    for lane in lanes() {
        seen.push(format!(
            "lane {lane:?} {:?}",
            reader.spilled(lane, None, 9, 9_999).expect("a lane is read")
        ));
    }
    seen.push(format!("counts {:?}", reader.final_counts().expect("counts are read")));
    seen
}

fn pages(store: &dyn crate::Store) -> Vec<String> {
    let mut reader = store.reader().expect("a reader opens");
    let mut shown = |(select, before)| {
        let page = reader.page(&select, before, 5).expect("a page is read");
        format!("page {select:?} {before:?} {page:#?}")
    };
    selections().into_iter().map(&mut shown).collect()
}

fn selections() -> Vec<(Select, Option<Seq>)> {
    let all = Select::default;
    let of = |states: &[TaskState]| Select { state: states.to_vec(), ..Select::default() };
    vec![
        (all(), None),
        (all(), Some(Seq(4))),
        (of(&[TaskState::Ready]), None),
        (of(&[TaskState::Done]), None),
        (of(&[TaskState::Dead]), None),
        (of(&[TaskState::Cancelled, TaskState::Dead]), None),
        (Select { workflow: vec![WorkflowId(1)], ..all() }, None),
        (Select { workflow: vec![WorkflowId(1), WorkflowId(2)], ..all() }, None),
        (Select { workflow: vec![WorkflowId(1)], ..of(&[TaskState::Cancelled]) }, None),
        (Select { kind: Some("a*".into()), ..all() }, None),
        (Select { queue: Some("other".into()), ..all() }, None),
        (Select { kind: Some("abc".into()), ..of(&[TaskState::Done]) }, None),
        (Select { kind: Some("abc".into()), ..all() }, Some(Seq(3))),
        (Select { tag: Some("t".into()), ..all() }, None),
        (Select { workflow_name: Some("w".into()), ..all() }, None),
        (Select { worker: Some("w".into()), ..all() }, None),
        (Select { worker: Some("v".into()), ..all() }, None),
        (Select { worker: Some("h".into()), ..all() }, None),
        (Select { class: Some(ErrorClass::Timeout), ..all() }, None),
        (Select { since: Some(second(80_000)), ..all() }, None),
        (Select { until: Some(second(80_000)), ..all() }, None),
        (Select { older_than: Some(second(80_000)), ..all() }, None),
        (Select { error: Some("o".into()), ..all() }, None),
        (Select { ended_since: Some(second(5)), ..all() }, None),
    ]
}

fn lanes() -> [Lane; 2] {
    [Lane { class: 1, priority: 3 }, Lane { class: u64::MAX, priority: 5 }]
}

fn keyed(n: u64) -> TaskId {
    TaskId::from_key(&format!("key-{n}"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(fact(), 1..12).prop_map(Step::Commit),
        1 => Just(Step::Restart),
        2 => Just(Step::Maintain),
    ]
}

fn fact() -> impl Strategy<Value = Fact> {
    let seq = || (1..=TASKS).prop_map(Seq);
    let token = || (1..12u64).prop_map(Token);
    let log = || prop::option::of(Just("log".into()));
    prop_oneof![
        5 => submission(),
        3 => (seq(), token(), time(), payload(), log()).prop_map(|(seq, token, at, result, log)| {
            Fact::Finished { seq, token, at, worker: "w".into(), result, log }
        }),
        2 => (seq(), token(), time(), error(), log()).prop_map(|(seq, token, at, error, log)| {
            Fact::Dead { seq, token, at, worker: "w".into(), error, log }
        }),
        2 => (seq(), token(), time(), error(), time(), any::<bool>()).prop_map(|(seq, token, at, error, retry_at, counted)| {
            Fact::AttemptFailed { seq, token, at, worker: "v".into(), error, log: None, retry_at, counted }
        }),
        2 => (seq(), time(), lane()).prop_map(|(seq, at, spilled)| {
            Fact::Cancelled { seq, at, reason: "why not".into(), spilled }
        }),
        2 => (seq(), time(), replay()).prop_map(|(seq, at, replay)| Fact::Replayed { seq, at, replay }),
        2 => (seq(), token(), time(), payload()).prop_map(|(seq, token, at, data)| Fact::Checkpoint { seq, token, at, data }),
        1 => (prop::sample::select(vec!["settings", "schedule/é"]), prop::option::of(Just("{}".into())))
            .prop_map(|(key, value)| Fact::Setting { key: key.into(), value }),
        1 => (seq(), time()).prop_map(|(seq, at)| Fact::Dropped { seq, at }),
        1 => (seq(), time(), 1..=5_u8).prop_map(|(seq, at, priority)| Fact::Reprioritised { seq, at, priority }),
        1 => (seq(), token(), time()).prop_map(|(seq, token, began)| Fact::Held { seq, token, began, worker: "h".into() }),
        1 => (prop::sample::select(lanes().to_vec()), seq()).prop_map(|(lane, upto)| Fact::Unspilled { lane, upto }),
        1 => (prop::sample::select(vec!["default", "other"]), any::<bool>())
            .prop_map(|(queue, paused)| Fact::QueuePaused { queue: queue.into(), paused }),
    ]
}

fn replay() -> impl Strategy<Value = Replay> {
    let sometimes = prop::option::weighted(0.3, payload());
    (prop::option::of(time()), sometimes, any::<bool>())
        .prop_map(|(due, payload, keep_edges)| Replay { due, payload, keep_edges })
}

fn unique() -> impl Strategy<Value = Option<Unique>> {
    let window = prop::option::of(prop::sample::select(vec![1_000, 400 * 86_400_000]));
    let unique = (prop::sample::select(vec!["k", "ké"]), window).prop_map(|(key, window_ms)| {
        Unique { key: key.into(), window_ms, on_conflict: OnConflict::Skip }
    });
    prop::option::weighted(0.3, unique)
}

/// Within three days, so that more than one day file comes to be.
fn time() -> impl Strategy<Value = Timestamp> {
    (0..2 * 86_400u64).prop_map(second)
}

fn lane() -> impl Strategy<Value = Option<Lane>> {
    prop_oneof![3 => Just(None), 1 => prop::sample::select(lanes().to_vec()).prop_map(Some)]
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        Just(Payload::null()),
        Just(Payload::trusted("", "{\"a\":1}".into())),
        prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(|data| Payload::trusted("image/png", data.into())),
    ]
}

fn error() -> impl Strategy<Value = TaskError> {
    let class =
        prop::sample::select(vec![ErrorClass::Failed, ErrorClass::Timeout, ErrorClass::WorkerLost]);
    (class, "[a-zé]{0,8}").prop_map(|(class, message)| TaskError::new(class, message))
}

fn submission() -> impl Strategy<Value = Fact> {
    let parent = prop::option::weighted(0.3, (1..=TASKS).prop_map(Seq));
    let chance = || prop::bool::weighted(0.3);
    let ids = (1..=TASKS, 1..=TASKS, chance(), chance());
    (ids, time(), payload(), parent, lane(), chance(), unique()).prop_map(
        |((n, other, mixed, by_key), at, payload, spawned_by, spilled, special, unique)| {
            let n_of_id = if mixed { other } else { n };
            let id = if by_key { keyed(n_of_id) } else { id(n_of_id) };
            let mut spec = TaskSpec::new(id, if special { "abc" } else { "xyz" });
            spec.payload = payload;
            if unique.is_some() {
                spec.unique = unique;
            }
            if special {
                spec.queue = "other".into();
                spec.needs = vec!["gpu".into()];
                spec.tags = vec!["t".into()];
                spec.workflow = Some(Box::new(Workflow {
                    id: WorkflowId(1 + u128::from(n % 2)),
                    name: "w".into(),
                    role: WorkflowRole::Member,
                }));
            }
            Fact::Submitted { seq: Seq(n), at, spec: Arc::new(spec), spawned_by, spilled }
        },
    )
}
