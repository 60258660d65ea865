//! What the document says about one address: filled from the types of its handler, so that the two cannot differ.
//!
//! What an extractor takes and an answer gives is told by [`Takes`] and [`Gives`]; a handler is described if all its
//! parts are. What types cannot tell, such as the statuses of refusals, is told beside the route.

use std::collections::BTreeSet;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::response::Response;
use divvy_types::{Scope, Scopes};
use http::{HeaderMap, Method, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::body::{JsonBody, JsonBytes, RAW, RawBytes};
use crate::error::ApiError;
use crate::events::LastEventId;
use crate::parameters::Parameters;
use crate::path::PathText;

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What the document says about one address and method.
#[derive(Clone, Debug)]
pub struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) id: String,
    pub(crate) summary: &'static str,
    pub(crate) detail: Option<&'static str>,
    pub(crate) path_text: SchemaOf,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Option<Content>,
    /// What successful answers hold.
    pub(crate) content: Option<Content>,
    /// The statuses of answers that are no refusals.
    pub(crate) answers: BTreeSet<u16>,
    pub(crate) refusals: BTreeSet<u16>,
    /// Any of these allows it; nothing if everybody may.
    pub(crate) scopes: Option<Scopes>,
}

/// A header that a request may or must have.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) is_required: bool,
    pub(crate) schema: SchemaOf,
}

/// What a body holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) media: &'static str,
    pub(crate) schema: SchemaOf,
}

impl Operation {
    pub(crate) fn new(method: Method, path: &'static str, handler: &str) -> Self {
        let reads = matches!(method, Method::GET | Method::HEAD);
        Self {
            method,
            path,
            scopes: Some(if reads { Scope::Read.into() } else { Scope::Admin.into() }),
            id: operation_id(handler),
            summary: "",
            detail: None,
            path_text: any_text,
            query: None,
            headers: Vec::new(),
            body: None,
            content: None,
            answers: BTreeSet::from([StatusCode::OK.as_u16()]),
            refusals: BTreeSet::new(),
        }
    }

    /// Its method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Its path, as routes are written.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The scopes of which any one allows it; nothing if everybody may.
    pub fn scopes(&self) -> Option<Scopes> {
        self.scopes
    }

    /// The request has these parameters in its address.
    pub fn takes_query<T: JsonSchema>(&mut self) {
        self.query = Some(T::json_schema);
    }

    /// The request has a JSON body.
    pub fn takes_json<T: JsonSchema>(&mut self) {
        self.body = Some(Content { media: JSON, schema: schema_of::<T> });
    }

    /// The answer is JSON.
    pub fn gives_json<T: JsonSchema>(&mut self) {
        self.content = Some(Content { media: JSON, schema: schema_of::<T> });
    }

    /// The request may be refused with these statuses.
    pub fn refuses(&mut self, statuses: &[u16]) {
        self.refusals.extend(statuses);
    }

    /// Whether an answer may have this status.
    #[cfg(debug_assertions)]
    pub(crate) fn has_status(&self, status: u16) -> bool {
        self.answers.contains(&status) || self.refusals.contains(&status)
    }
}

pub(crate) const JSON: &str = "application/json";

/// The schema of a type, by reference if it has a name.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

pub(crate) fn any_text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "minLength": 1 })
}

/// `divvy_server::http::tasks::list` is `listTasks`.
fn operation_id(handler: &str) -> String {
    let mut parts = handler.rsplit("::");
    let (action, module) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut id = String::new();
    for (at, word) in action.split('_').chain(module.split('_')).enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if at > 0 => id.push(first.to_ascii_uppercase()),
            Some(first) => id.push(first),
            None => {}
        }
        id.push_str(letters.as_str());
    }
    id
}

/// An argument of a handler that can say what it takes from the request.
pub trait Takes {
    /// Says it.
    fn describe(operation: &mut Operation) {
        let _ = operation;
    }
}

/// An answer of a handler that can say what it holds.
pub trait Gives {
    /// Says it.
    fn describe(operation: &mut Operation) {
        let _ = operation;
    }
}

impl<S> Takes for State<S> {}
impl<T> Takes for Extension<T> {}
impl Takes for Method {}
impl Takes for HeaderMap {}
impl Takes for Request {}
impl Takes for Body {}

impl<T> Takes for Path<T> {
    fn describe(operation: &mut Operation) {
        operation.refuses(&[400]);
    }
}

impl Takes for LastEventId {
    fn describe(operation: &mut Operation) {
        operation.headers.push(Header {
            name: "Last-Event-ID",
            description: "The id of the last event that was seen: the stream goes on behind it.",
            is_required: false,
            schema: any_text,
        });
    }
}

impl Takes for PathText {
    fn describe(operation: &mut Operation) {
        operation.refuses(&[400]);
    }
}

impl<T: JsonSchema> Takes for Parameters<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_query::<T>();
        operation.refuses(&[400]);
    }
}

impl<T: JsonSchema> Takes for JsonBody<T> {
    fn describe(operation: &mut Operation) {
        operation.takes_json::<T>();
        operation.refuses(&[400, 408, 413, 415, 429, 503]);
    }
}

impl Takes for JsonBytes {
    fn describe(operation: &mut Operation) {
        operation.takes_json::<serde_json::Value>();
        operation.refuses(&[400, 408, 413, 415, 429, 503]);
    }
}

impl Takes for RawBytes {
    fn describe(operation: &mut Operation) {
        operation.body = Some(Content { media: RAW, schema: |_| Schema::default() });
        operation.refuses(&[400, 408, 413, 415, 429, 503]);
    }
}

impl Gives for Response {}
impl Gives for ApiError {}

impl Gives for &'static str {
    fn describe(operation: &mut Operation) {
        operation.content = Some(Content { media: "text/plain", schema: schema_of::<String> });
    }
}

impl<T: JsonSchema> Gives for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.gives_json::<T>();
    }
}

impl<T: Gives> Gives for (StatusCode, T) {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<T: Gives> Gives for Result<T, ApiError> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
        operation.refuses(&[429, 500, 503]);
    }
}

/// A handler whose arguments and answer can say what they are. `T` is what axum calls the handler's type parameter.
pub trait Described<T> {
    /// Says it.
    fn describe(operation: &mut Operation);
}

impl<F, A, G> Described<((),)> for F
where
    F: FnOnce() -> A,
    A: Future<Output = G>,
    G: Gives,
{
    fn describe(operation: &mut Operation) {
        G::describe(operation);
    }
}

macro_rules! described {
    ($($argument:ident)+) => {
        impl<F, A, G, M, $($argument: Takes),+> Described<(M, $($argument,)+)> for F
        where
            F: FnOnce($($argument),+) -> A,
            A: Future<Output = G>,
            G: Gives,
        {
            fn describe(operation: &mut Operation) {
                $($argument::describe(operation);)+
                G::describe(operation);
            }
        }
    };
}

described!(A1);
described!(A1 A2);
described!(A1 A2 A3);
described!(A1 A2 A3 A4);
described!(A1 A2 A3 A4 A5);
described!(A1 A2 A3 A4 A5 A6);
