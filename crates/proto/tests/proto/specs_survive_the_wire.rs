//! Every field of a spec survives the wire, alone and with others; defaults cost nothing; unknown numbers are refused.

use divvy_proto::{granted_spec_from_wire, spec_to_wire, specs_from_wire, v1};
use divvy_types::{
    Dependency, ErrorClass, Matching, Name, OnConflict, Payload, RetryPolicy, RetryRule, TaskId,
    TaskSpec, Terms, Timestamp, Unique, Workflow, WorkflowId, WorkflowRole,
};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A task with every term: one that is added and does not travel fails here by its name.
const EVERY_FIELD: &str = include_str!("../../../types/tests/every_field.json");

fn all_terms() -> Terms {
    serde_json::from_str::<TaskSpec>(EVERY_FIELD).unwrap().terms.into_inner()
}

fn spec_with(terms: Terms) -> TaskSpec {
    TaskSpec { terms: terms.into(), ..TaskSpec::new(TaskId(9), "video.probe") }
}

fn over_the_wire(spec: &TaskSpec) -> TaskSpec {
    specs_from_wire(vec![spec_to_wire(spec)]).unwrap().remove(0)
}

#[test]
fn each_term_survives_alone() {
    let all = serde_json::to_value(all_terms()).unwrap();
    for (name, value) in all.as_object().unwrap() {
        let alone = serde_json::json!({ name.as_str(): value });
        let terms: Terms = serde_json::from_value(alone).unwrap();
        assert_ne!(terms, Terms::default(), "the case of {name} says something");
        let spec = spec_with(terms);
        assert_eq!(over_the_wire(&spec), spec, "{name}");
    }
    let spec = spec_with(all_terms());
    assert_eq!(over_the_wire(&spec), spec);
}

#[test]
fn a_spec_without_terms_stays_without_a_box() {
    let spec = TaskSpec::new(TaskId(9), "noop");
    assert!(over_the_wire(&spec).terms.is_untouched());
    assert!(granted_spec_from_wire(spec_to_wire(&spec)).unwrap().terms.is_untouched());
    let bare = v1::TaskSpec { id: spec.id.to_bytes().to_vec().into(), ..spec_to_wire(&spec) };
    assert_eq!(bare.queue, "", "defaults are left out");
}

type Spoil = fn(&mut v1::TaskSpec);

#[test]
fn a_number_that_stands_for_nothing_known_is_refused_by_name() {
    let cases: [(&str, Spoil); 4] = [
        ("matching", |wire| wire.matching = 9),
        ("unique.on_conflict", |wire| wire.unique.as_mut().unwrap().on_conflict = 9),
        ("workflow.role", |wire| wire.workflow.as_mut().unwrap().role = 9),
        ("retry.rules.class", |wire| wire.retry.as_mut().unwrap().rules[0].class = Some(9)),
    ];
    for (field, spoil) in cases {
        let mut wire = spec_to_wire(&spec_with(all_terms()));
        spoil(&mut wire);
        let error = specs_from_wire(vec![wire]).unwrap_err();
        assert_eq!(error.field, field);
        assert!(error.to_string().contains("is 9, which this version does not know"), "{error}");
    }
}

fn name() -> impl Strategy<Value = Name> {
    "[a-z]{1,9}".prop_map(Name::from)
}

fn rule() -> impl Strategy<Value = RetryRule> {
    let classes = [
        ErrorClass::Failed,
        ErrorClass::Timeout,
        ErrorClass::Crashed,
        ErrorClass::WorkerLost,
        ErrorClass::Cancelled,
    ];
    let fields = (
        option::of(select(classes.to_vec())),
        option::of(name()),
        option::of(0..9u32),
        option::of(0..9u64),
        option::of(0..9u64),
    );
    fields.prop_map(|(class, contains, limit, base_ms, cap_ms)| RetryRule {
        class,
        contains,
        limit,
        base_ms,
        cap_ms,
    })
}

prop_compose! {
    fn identity()(
        unique in option::of((name(), option::of(0..9u64), select(vec![OnConflict::Skip, OnConflict::Replace, OnConflict::Refuse]))),
        workflow in option::of((1..9u128, name(), select(vec![WorkflowRole::Member, WorkflowRole::OnSuccess, WorkflowRole::OnFailure]))),
        after in prop::collection::vec((1..9u128, any::<bool>()), 0..3),
    ) -> Terms {
        Terms {
            unique: unique.map(|(key, window_ms, on_conflict)| Unique { key, window_ms, on_conflict }),
            workflow: workflow.map(|(id, name, role)| Box::new(Workflow { id: WorkflowId(id), name, role })),
            after: after.into_iter().map(|(task, optional)| Dependency { task: TaskId(task), optional }).collect(),
            ..Terms::default()
        }
    }
}

prop_compose! {
    fn specs()(
        identity in identity(),
        needs in prop::collection::vec(name(), 0..3),
        limits in prop::collection::vec(name(), 0..3),
        matching in option::of(select(vec![Matching::Exact, Matching::BestFit, Matching::Fallback])),
        (run_at, deadline, timeout_ms, cost_hint) in
            (option::of(1..9u64), option::of(1..9u64), option::of(1..9u64), option::of(0..9u64)),
        (fair_key, affinity) in (option::of(name()), option::of(name())),
        (limit, rules) in (0..9u32, prop::collection::vec(rule(), 0..3)),
        (queue, priority, number) in (name(), 1..=5u8, any::<u32>()),
    ) -> TaskSpec {
        let terms = Terms {
            needs,
            limits,
            matching,
            run_at: run_at.map(Timestamp),
            deadline: deadline.map(Timestamp),
            timeout_ms,
            cost_hint,
            fair_key,
            affinity,
            retry: RetryPolicy { limit, rules, ..RetryPolicy::default() },
            ..identity
        };
        let payload = Payload::json(number.to_string()).unwrap();
        TaskSpec { queue, priority, payload, ..spec_with(terms) }
    }
}

proptest! {
    #[test]
    fn any_spec_survives(spec in specs()) {
        prop_assert_eq!(over_the_wire(&spec), spec);
    }
}
