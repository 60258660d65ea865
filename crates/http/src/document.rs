//! The OpenAPI 3.1 document, assembled from the descriptions of all routes when someone first asks for it.
//!
//! What a type means to a reader may differ from what it means to a writer: a field with a default need not be sent and
//! is always answered. So schemas are made twice, and a type that differs has a second one with the ending `Input`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use divvy_types::{Scope, Scopes};
use http::StatusCode;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::operation::{Content, JSON, Operation};
use crate::routes::Mounted;

/// Where schemas are.
const SCHEMAS: &str = "/components/schemas";
/// What the schema of a type is called where a request has it and an answer looks different.
const INPUT: &str = "Input";
/// What the guard of the server may answer to any request: no token or a wrong one, not this one, too many wrong ones.
const GUARDED: [u16; 3] = [401, 403, 429];

/// The document of a server; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Document(Arc<Source>);

#[derive(Debug)]
struct Source {
    title: &'static str,
    version: &'static str,
    description: &'static str,
    operations: Vec<Operation>,
    codes: BTreeSet<&'static str>,
    text: OnceLock<Bytes>,
}

impl Document {
    /// The document of all these addresses.
    pub fn new<'a>(
        title: &'static str,
        version: &'static str,
        description: &'static str,
        mounted: impl IntoIterator<Item = &'a Mounted>,
    ) -> Self {
        let (mut operations, mut codes) = (Vec::new(), BTreeSet::new());
        for mounted in mounted {
            operations.extend_from_slice(mounted.operations());
            codes.extend(mounted.codes());
        }
        let text = OnceLock::new();
        Self(Arc::new(Source { title, version, description, operations, codes, text }))
    }

    /// The document as JSON.
    pub fn json(&self) -> Bytes {
        let text = self.0.text.get_or_init(|| self.0.assemble().to_string().into());
        text.clone()
    }
}

impl Source {
    fn assemble(&self) -> Value {
        let mut writer = Writer::new();
        let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        let (mut tags, mut refusals) = (BTreeSet::new(), BTreeSet::new());
        for operation in &self.operations {
            let method = operation.method.as_str().to_ascii_lowercase();
            let described = writer.operation(operation);
            tags.insert(tag(operation.path));
            refusals.extend(refusals_of(operation));
            // OpenAPI has no mark for a parameter with slashes in it.
            let path = operation.path.replace("{*", "{");
            paths.entry(path).or_default().insert(method, described);
        }
        let responses: Map<String, Value> =
            refusals.into_iter().map(|status| (status.to_string(), refusal(status))).collect();
        let (mut paths, mut schemas) = writer.finish(json!(paths));
        schemas.insert("Refusal".to_owned(), self.refusal_schema());
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": self.version,
                "description": self.description,
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "security": [{}, { "token": [] }],
            "tags": tags.into_iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            "paths": paths.take(),
            "components": {
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
                "responses": responses,
                "schemas": schemas,
            },
        })
    }

    fn refusal_schema(&self) -> Value {
        let mut code = json!({ "type": "string", "description": "A stable name for programs." });
        code["enum"] = json!(self.codes);
        json!({
            "type": "object",
            "required": ["error"],
            "properties": { "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    "code": code,
                    "message": { "type": "string", "description": "What is wrong and what helps, for people." },
                    "field": { "type": "string", "description": "The field, parameter or header that is at fault." },
                    "retry_after_ms": { "type": "integer", "minimum": 0, "description": "When to try again." },
                },
            } },
        })
    }
}

/// Makes schemas for readers and for writers.
struct Writer {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Writer {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
            settings.transforms.push(Box::new(RecursiveTransform(bound_numbers)));
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    fn operation(&mut self, operation: &Operation) -> Value {
        let mut described = json!({
            "operationId": operation.id,
            "summary": operation.summary,
            "tags": [tag(operation.path)],
            "responses": self.responses(operation),
        });
        // Roles of a bearer token (OpenAPI 3.1). Any one of them will do; a server without tokens asks for none.
        let needed = operation.scopes.into_iter().flat_map(Scopes::iter).map(Scope::name);
        let needed: Vec<&str> = needed.collect();
        let security = needed.iter().map(|scope| json!({ "token": [scope] }));
        described["security"] = std::iter::once(json!({})).chain(security).collect();
        let needs = match &needed[..] {
            [] => "Needs no token.".to_owned(),
            some => format!("Needs the scope `{}`.", some.join("` or `")),
        };
        described["description"] = match operation.detail {
            Some(detail) => format!("{detail} {needs}").into(),
            None => needs.into(),
        };
        let parameters = self.parameters(operation);
        if !parameters.is_empty() {
            described["parameters"] = Value::Array(parameters);
        }
        if let Some(content) = operation.body {
            let schema = (content.schema)(&mut self.requests).to_value();
            // A body of which nothing is required may be left out: it reads as an empty object.
            let required = content.media != JSON || self.requires(&schema);
            described["requestBody"] = json!({
                "required": required,
                "content": { content.media: { "schema": marked(schema) } },
            });
        }
        described
    }

    fn requires(&self, schema: &Value) -> bool {
        let named = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let schema = named.and_then(|name| self.requests.definitions().get(name)).unwrap_or(schema);
        schema["type"] != "object"
            || schema["required"].as_array().is_some_and(|list| !list.is_empty())
    }

    fn parameters(&mut self, operation: &Operation) -> Vec<Value> {
        let names = operation.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let mut parameters: Vec<Value> = names
            .map(|name| {
                let mut schema = (operation.path_text)(&mut self.requests);
                parameter("path", name.trim_start_matches('*'), true, &mut schema, None)
            })
            .collect();
        if let Some(query) = operation.query {
            let object = query(&mut self.requests).to_value();
            let required = object["required"].as_array().cloned().unwrap_or_default();
            for (name, schema) in object["properties"].as_object().into_iter().flatten() {
                let mut schema = Schema::try_from(schema.clone()).unwrap_or_default();
                without_null(schema.ensure_object());
                if schema.get("type").is_some_and(|of| of == "string") {
                    // An empty parameter is refused.
                    schema.ensure_object().entry("minLength").or_insert(1.into());
                }
                let is_required = required.iter().any(|other| other == name);
                parameters.push(parameter("query", name, is_required, &mut schema, None));
            }
        }
        for header in &operation.headers {
            let mut schema = (header.schema)(&mut self.requests);
            let description = Some(header.description);
            parameters.push(parameter(
                "header",
                header.name,
                header.is_required,
                &mut schema,
                description,
            ));
        }
        parameters
    }

    fn responses(&mut self, operation: &Operation) -> Value {
        let mut responses = Map::new();
        for status in &operation.answers {
            let mut answer = json!({ "description": phrase(*status) });
            let has_body =
                operation.method != http::Method::HEAD && !matches!(status, 204 | 303 | 304);
            if let Some(Content { media, schema }) = operation.content.filter(|_| has_body) {
                answer["content"] = json!({ media: { "schema": schema(&mut self.answers) } });
            }
            responses.insert(status.to_string(), answer);
        }
        for status in refusals_of(operation) {
            let shared = json!({ "$ref": format!("#/components/responses/{status}") });
            responses.entry(status.to_string()).or_insert(shared);
        }
        Value::Object(responses)
    }

    /// All schemas that were used, and the paths with the right references to them.
    fn finish(mut self, mut paths: Value) -> (Value, Map<String, Value>) {
        let mut requests = self.requests.take_definitions(true);
        let mut schemas = self.answers.take_definitions(true);
        let mut differing: BTreeSet<String> = requests
            .iter()
            .filter(|(name, schema)| schemas.get(*name).is_some_and(|other| other != *schema))
            .map(|(name, _)| name.clone())
            .collect();
        // What refers to something that differs, differs itself.
        loop {
            let more: Vec<String> = requests
                .iter()
                .filter(|(name, schema)| {
                    schemas.contains_key(*name)
                        && !differing.contains(*name)
                        && refers(schema, &differing)
                })
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                break;
            }
            differing.extend(more);
        }
        requests.values_mut().for_each(|schema| rename(schema, &differing));
        resolve_marks(&mut paths, &differing);
        for (name, schema) in requests {
            let name = if differing.contains(&name) { format!("{name}{INPUT}") } else { name };
            schemas.insert(name, schema);
        }
        (paths, schemas)
    }
}

/// Marks the schema of a request's body until it is known which types differ.
const MARK: &str = "x-request";

fn marked(schema: Value) -> Value {
    json!({ MARK: schema })
}

fn resolve_marks(value: &mut Value, differing: &BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(mut schema) = map.remove(MARK) {
                rename(&mut schema, differing);
                *value = schema;
                return;
            }
            map.values_mut().for_each(|value| resolve_marks(value, differing));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| resolve_marks(value, differing)),
        _ => {}
    }
}

fn refers(value: &Value, names: &BTreeSet<String>) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| match value {
            Value::String(path) if key == "$ref" => {
                path.rsplit('/').next().is_some_and(|name| names.contains(name))
            }
            other => refers(other, names),
        }),
        Value::Array(list) => list.iter().any(|value| refers(value, names)),
        _ => false,
    }
}

fn rename(value: &mut Value, names: &BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(path) if key == "$ref" => {
                        if path.rsplit('/').next().is_some_and(|name| names.contains(name)) {
                            path.push_str(INPUT);
                        }
                    }
                    other => rename(other, names),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

fn parameter(
    place: &str,
    name: &str,
    required: bool,
    schema: &mut Schema,
    description: Option<&str>,
) -> Value {
    let told = schema.remove("description");
    let mut parameter = json!({ "name": name, "in": place, "required": required });
    if let Some(description) = description.map(Value::from).or(told) {
        parameter["description"] = description;
    }
    parameter["schema"] = marked(schema.as_value().clone());
    parameter
}

/// Says how large a number may be, which the format of a schema says only to those who know it.
fn bound_numbers(schema: &mut Schema) {
    let most = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => u64::from(u8::MAX),
        Some("uint16") => u64::from(u16::MAX),
        Some("uint32") => u64::from(u32::MAX),
        Some("uint" | "uint64") => u64::MAX,
        _ => return,
    };
    schema.ensure_object().entry("maximum").or_insert(most.into());
}

/// A parameter that is not given is absent, never null.
fn without_null(schema: &mut Map<String, Value>) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &choices[..] {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}

fn refusals_of(operation: &Operation) -> BTreeSet<u16> {
    operation.refusals.iter().copied().chain(GUARDED).collect()
}

fn refusal(status: u16) -> Value {
    let schema = json!({ "$ref": "#/components/schemas/Refusal" });
    json!({ "description": phrase(status), "content": { JSON: { "schema": schema } } })
}

fn phrase(status: u16) -> &'static str {
    let known = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    known.unwrap_or("An answer")
}

/// The resource that an address is about.
fn tag(path: &str) -> &str {
    let rest = path.strip_prefix("/api/v1/").unwrap_or_default();
    rest.split('/').next().filter(|part| !part.is_empty()).unwrap_or("pages")
}
