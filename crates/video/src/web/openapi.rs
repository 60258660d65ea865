//! The OpenAPI document of the videos: written by hand in `openapi.json`, tested against the table of routes.

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

/// The document, with a place for the version.
const DOCUMENT: &str = include_str!("openapi.json");

/// The document.
pub(super) async fn show() -> Response {
    ([(CONTENT_TYPE, "application/json")], document()).into_response()
}

fn document() -> String {
    DOCUMENT.replace("{{version}}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn parsed() -> Value {
        serde_json::from_str(&document()).unwrap()
    }

    #[test]
    fn the_document_has_exactly_the_routes_that_there_are() {
        let routes: BTreeSet<(String, String)> = super::super::table()
            .iter()
            // OpenAPI knows no parameter that spans several parts of a path.
            .map(|route| (route.path().replace("{*", "{"), route.method().as_str().to_lowercase()))
            .collect();
        let mut documented = BTreeSet::new();
        for (path, methods) in parsed()["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if method == "parameters" {
                    continue;
                }
                assert!(operation["summary"].is_string(), "{method} {path} has no summary");
                assert!(operation["responses"].is_object(), "{method} {path} has no responses");
                documented.insert((path.clone(), method.clone()));
            }
            assert_eq!(methods.get("parameters").is_some(), path.contains('{'), "{path}");
        }
        assert_eq!(documented, routes);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let parsed = parsed();
        let (mut stack, mut references) = (vec![&parsed], 0);
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
        assert!(references > 10);
    }
}
