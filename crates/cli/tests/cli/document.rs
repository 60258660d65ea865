//! The OpenAPI document of the whole binary: only that knows which workloads there are.

use serde_json::Value;

use crate::stack::{Server, get};

/// What of bodies has a type.
const TYPED: [&str; 2] = ["application/json", "text/event-stream"];

/// The schema itself, where it is only named.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let named = schema["$ref"].as_str().and_then(|path| document.pointer(path.strip_prefix('#')?));
    named.unwrap_or(schema)
}

#[test]
fn every_json_and_every_event_has_a_type_also_those_of_workloads() {
    let server = Server::serve(&[]);
    let text = get(server.address(), "/api/v1/openapi.json").unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let (mut typed, mut events) = (0, Vec::new());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap().values();
            let bodies = answers.chain([&operation["requestBody"]]);
            let contents =
                bodies.filter_map(|body| resolved(&document, body)["content"].as_object());
            for (media, content) in contents.flatten() {
                if !TYPED.contains(&media.as_str()) {
                    continue;
                }
                let schema = resolved(&document, &content["schema"]);
                let is_empty = schema.as_object().is_none_or(serde_json::Map::is_empty);
                assert!(!is_empty, "{method} {path}: {media} without a type");
                typed += 1;
                if media == "text/event-stream" {
                    events.push(path.as_str());
                }
            }
            let answers = &operation["responses"];
            assert!(answers["429"].is_object(), "{method} {path}: a guest who guesses tokens");
        }
    }
    assert!(typed > 500, "{typed}");
    for workload in ["videos", "crawls", "flows"] {
        let path = format!("/api/v1/{workload}/{{id}}/events");
        assert!(events.contains(&path.as_str()), "{path}: {events:?}");
    }
}
