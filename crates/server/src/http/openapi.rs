//! The OpenAPI document: written by hand in `openapi.json`, tested against the table of routes.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::app::VERSION;

/// The document, with a place for the version.
const DOCUMENT: &str = include_str!("openapi.json");

/// The document.
pub(crate) async fn show() -> Response {
    ([(CONTENT_TYPE, "application/json")], document()).into_response()
}

fn document() -> String {
    DOCUMENT.replace("{{version}}", VERSION)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::router;

    fn parsed() -> Value {
        serde_json::from_str(&document()).unwrap()
    }

    #[test]
    fn the_document_has_exactly_the_routes_that_there_are() {
        let routes: BTreeSet<(String, String)> = router::table()
            .iter()
            // OpenAPI has no mark for a parameter with slashes in it.
            .map(|route| {
                (route.path().replace("{*", "{"), route.method().as_str().to_ascii_lowercase())
            })
            .collect();
        let parsed = parsed();
        let mut documented = BTreeSet::new();
        for (path, methods) in parsed["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                documented.insert((path.clone(), method.clone()));
            }
        }
        assert_eq!(documented, routes);
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_operation_is_described() {
        let parsed = parsed();
        let mut stack = vec![&parsed];
        let mut references = 0;
        while let Some(value) = stack.pop() {
            match value {
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get("$ref") {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(parsed.pointer(pointer).is_some(), "{reference} leads nowhere");
                        references += 1;
                    }
                    stack.extend(map.values());
                }
                Value::Array(list) => stack.extend(list),
                _ => {}
            }
        }
        assert!(references > 20);
        let mut operation_ids = BTreeSet::new();
        for (path, methods) in parsed["paths"].as_object().unwrap() {
            for (method, operation) in
                methods.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters")
            {
                assert!(operation["summary"].is_string(), "{method} {path} has no summary");
                assert!(operation["responses"].is_object(), "{method} {path} has no responses");
                let id = operation["operationId"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{method} {path} has no id"));
                assert!(operation_ids.insert(id), "{id} is used twice");
                let has_parameter = path.contains('{');
                assert_eq!(methods.get("parameters").is_some(), has_parameter, "{path}");
            }
        }
    }
}
