//! A task with every field set, on every way that a task can take: to a server, through the store, from a workflow
//! file. A term that is forgotten on one of them fails here.

use divvy_proto::{spec_to_wire, specs_from_wire};
use divvy_store::sqlite::SqliteStore;
use divvy_store::{MemoryStore, Store};
use divvy_types::{Fact, Seq, TaskSpec, Terms, Timestamp};
use serde_json::{Map, Value, json};

use crate::workflow;

const EVERY_FIELD: &str = include_str!("../../types/tests/every_field.json");

fn sample() -> TaskSpec {
    serde_json::from_str(EVERY_FIELD).unwrap()
}

fn fields() -> Map<String, Value> {
    serde_json::from_str(EVERY_FIELD).unwrap()
}

fn through(mut store: impl Store, spec: &TaskSpec) -> TaskSpec {
    let fact = Fact::Submitted {
        seq: Seq(1),
        at: Timestamp(1),
        spec: spec.clone().into(),
        spawned_by: None,
        spilled: None,
    };
    store.commit(&[fact], &mut Vec::new()).unwrap();
    store.reader().unwrap().find(spec.id).unwrap().unwrap().spec
}

/// Carries a task along and brings it back.
type Way<'a> = &'a dyn Fn(&TaskSpec) -> TaskSpec;

#[test]
fn a_task_with_every_field_survives_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let ways: [(&str, Way<'_>); 4] = [
        ("JSON", &|spec| serde_json::from_str(&serde_json::to_string(spec).unwrap()).unwrap()),
        ("the wire", &|spec| specs_from_wire(vec![spec_to_wire(spec)]).unwrap().remove(0)),
        ("the memory store", &|spec| through(MemoryStore::default(), spec)),
        ("a row", &|spec| {
            through(SqliteStore::open(folder.path(), Default::default()).unwrap(), spec)
        }),
    ];
    let mut spec = sample();
    for (name, carry) in ways {
        spec = carry(&spec);
        assert_eq!(spec, sample(), "{name}");
    }
    assert_eq!(serde_json::to_value(&spec).unwrap(), Value::Object(fields()));
}

/// JSON is YAML, so the fields of a task are an entry as they stand, but for those that a file has in words for people.
#[test]
fn a_workflow_file_can_set_every_field_but_those_that_the_workflow_gives() {
    let mut entry = fields();
    for given_by_workflow in ["id", "workflow", "after"] {
        entry.remove(given_by_workflow).unwrap();
    }
    let timeout = entry.remove("timeout_ms").unwrap();
    entry.insert("timeout".to_owned(), json!(format!("{timeout}ms")));
    entry.insert("after".to_owned(), json!({"first": "optional"}));
    let yaml =
        json!({"tasks": {"first": {"kind": "noop", "group": "parts"}, "whole": entry}}).to_string();
    let parsed = workflow::parse("w.yaml", &yaml, None).unwrap();
    let (first, whole) = (&parsed.tasks[0].1, &parsed.tasks[1].1);
    let sample = sample();
    let mut after = sample.after.clone();
    after[0].task = first.id;
    let terms =
        Terms { after, workflow: first.workflow.clone(), ..sample.terms.clone().into_inner() };
    assert_eq!(*whole, TaskSpec { id: whole.id, terms: terms.into(), ..sample });
}
