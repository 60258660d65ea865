//! The OpenAPI document: made from the types, so that it has what they have.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::world::World;

async fn document() -> Value {
    World::start().await.get("/api/v1/openapi.json").await.ok()
}

fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a serde_json::Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(map);
            map.values().for_each(|value| walk(value, visit));
        }
        Value::Array(list) => list.iter().for_each(|value| walk(value, visit)),
        _ => {}
    }
}

/// Every text in lists under `enum` and every `const` of a schema.
fn words(schema: &Value) -> BTreeSet<&str> {
    let mut words = BTreeSet::new();
    walk(schema, &mut |map| {
        words.extend(map.get("const").and_then(Value::as_str));
        let listed = map.get("enum").and_then(Value::as_array);
        words.extend(listed.into_iter().flatten().filter_map(Value::as_str));
    });
    words
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_operation_is_described() {
    let document = document().await;
    let mut references = 0;
    walk(&document, &mut |map| {
        if let Some(Value::String(reference)) = map.get("$ref") {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            references += 1;
        }
    });
    assert!(references > 100, "{references}");
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{method} {path}: {summary}");
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id), "{id} is used twice");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let named = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(named, path.matches('{').count(), "{method} {path}");
        }
    }
    assert!(
        ["listTasks", "showTasks", "setSchedules"].iter().all(|id| ids.contains(id)),
        "{ids:?}"
    );
}

#[tokio::test]
async fn states_reasons_to_wait_and_fields_of_a_task_are_those_of_the_types() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    let states = words(&schemas["TaskState"]);
    let expected = divvy_types::TaskState::ALL.map(|state| state.as_str());
    assert_eq!(states, expected.into_iter().collect::<BTreeSet<_>>());
    let reasons = words(&schemas["WaitReason"]);
    let source = read("types/src/wait.rs");
    let body = source.split("pub enum WaitReason {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
    let names: BTreeSet<String> = variants.map(snake).collect();
    assert!(names.len() >= 11, "{names:?}");
    assert_eq!(reasons, names.iter().map(String::as_str).collect());
    let every_field: Value = serde_json::from_str(&read("types/tests/every_field.json")).unwrap();
    for field in every_field.as_object().unwrap().keys() {
        assert!(schemas["NewTask"]["properties"][field].is_object(), "{field}");
    }
}

#[tokio::test]
async fn every_code_of_an_error_is_told() {
    let document = document().await;
    let told = words(&document["components"]["schemas"]["Refusal"]);
    let mut found = 0;
    for file in ["types/src/spec.rs", "engine/src/request.rs", "objects/src/error.rs"] {
        let source = read(file);
        let body = source.split("pub fn code(&self)").nth(1).unwrap().split("\n    }\n").next();
        for line in body.unwrap().lines() {
            let Some((_, code)) = line.split_once("=> \"") else { continue };
            let code = code.trim_end_matches("\",");
            assert!(told.contains(code), "{code} of {file}");
            found += 1;
        }
    }
    assert!(found > 40, "{found}");
}

fn read(file: &str) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(crates.join(file)).unwrap()
}

/// `QueuePaused {` is `queue_paused`.
fn snake(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars().take_while(|letter| letter.is_alphanumeric()) {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}
