//! The table of addresses: which method of which path is answered by whom, and what the document says about it. Generic
//! over what the handlers share until [`Routes::with_state`]; from then on the server can take in tables of any origin.
//!
//! Builds with debug assertions check every answer: its status and its error code must be in the document.

use std::any::type_name;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use divvy_types::Scopes;
use http::Method;
use schemars::JsonSchema;

use crate::body::BodyMax;
use crate::error::{self, method_not_allowed};
use crate::operation::{Content, Described, Header, Operation, SchemaOf, any_text, schema_of};

/// One method of one path.
pub struct Route<S> {
    operation: Operation,
    handler: MethodRouter<S>,
}

/// What a handler makes of a request.
type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler without its type: what the router makes of a handler is compiled once for all of them.
struct Erased<S>(Arc<dyn Fn(Request, S) -> Answer + Send + Sync>);

impl<S> Clone for Erased<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Send + Sync + 'static> Handler<(), S> for Erased<S> {
    type Future = Answer;

    fn call(self, request: Request, state: S) -> Answer {
        (self.0)(request, state)
    }
}

/// Addresses whose handlers share an `S`.
///
/// ```
/// use axum::Json;
/// use axum::extract::State;
/// use divvy_http::{ApiError, PathText, Routes, get};
///
/// async fn show(State(greeting): State<&'static str>, PathText(name): PathText) -> Result<Json<String>, ApiError> {
///     Ok(Json(format!("{greeting}, {name}")))
/// }
///
/// let routes = [get("/api/v1/greetings/{name}", show).summary("Greet someone")];
/// let mounted = Routes::new(routes).with_state("Hello");
/// assert_eq!(mounted.operations().len(), 1);
/// ```
pub struct Routes<S> {
    routes: Vec<Route<S>>,
    body_bytes_max: Option<usize>,
    codes: BTreeSet<&'static str>,
}

/// Addresses that need nothing more from their maker: the server takes them in.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    router: Router,
    operations: Vec<Operation>,
    codes: BTreeSet<&'static str>,
}

impl<S> Route<S> {
    /// The same, described by this sentence without a full stop.
    #[must_use]
    pub fn summary(mut self, summary: &'static str) -> Self {
        self.operation.summary = summary;
        self
    }

    /// The same, with more to say about it than the summary does.
    #[must_use]
    pub fn detail(mut self, detail: &'static str) -> Self {
        self.operation.detail = Some(detail);
        self
    }

    /// The same, named like this in the document: for a handler that answers several addresses.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.operation.id = id.into();
        self
    }

    /// The same, for callers who have any of these scopes. Without this, reading needs `read` and everything else `admin`.
    #[must_use]
    pub fn scope(mut self, any_of: impl Into<Scopes>) -> Self {
        self.operation.scopes = Some(any_of.into());
        self
    }

    /// The same, for everybody, with or without a token.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.operation.scopes = None;
        self
    }

    /// The same, whose answers that are no refusals have these statuses instead of 200.
    #[must_use]
    pub fn answers<const N: usize>(mut self, statuses: [u16; N]) -> Self {
        self.operation.answers = statuses.into();
        self
    }

    /// The same, which may also be refused with these statuses. Those that follow from the types of the handler need
    /// not be told.
    #[must_use]
    pub fn refuses<const N: usize>(mut self, statuses: [u16; N]) -> Self {
        self.operation.refusals.extend(statuses);
        self
    }

    /// The same, whose JSON body is a `T`, for a handler that reads it by itself.
    #[must_use]
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        self.operation.takes_json::<T>();
        self
    }

    /// The same, whose body is of this type, for a handler that reads it by itself.
    #[must_use]
    pub fn takes_media(mut self, media: &'static str) -> Self {
        self.operation.body = Some(Content { media, schema: raw });
        self
    }

    /// The same, whose answer is JSON of a `T`, for a handler that writes it by itself.
    #[must_use]
    pub fn gives<T: JsonSchema>(mut self) -> Self {
        self.operation.gives_json::<T>();
        self
    }

    /// The same, whose answer is of this type, for a handler that writes it by itself.
    #[must_use]
    pub fn gives_media(mut self, media: &'static str) -> Self {
        self.operation.content = Some(Content { media, schema: raw });
        self
    }

    /// The same, whose answer is a stream of server-sent events with JSON of a `T`.
    #[must_use]
    pub fn gives_events<T: JsonSchema>(mut self) -> Self {
        self.operation.content =
            Some(Content { media: "text/event-stream", schema: schema_of::<T> });
        self
    }

    /// The same, whose texts in the path have the form of a `T`.
    #[must_use]
    pub fn path<T: JsonSchema>(mut self) -> Self {
        self.operation.path_text = schema_of::<T>;
        self
    }

    /// The same, with a header that a request may have.
    #[must_use]
    pub fn header(self, name: &'static str, description: &'static str) -> Self {
        self.with_header(name, description, false, any_text)
    }

    /// The same, with a header of this form that a request may have.
    #[must_use]
    pub fn header_of<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.with_header(name, description, false, schema_of::<T>)
    }

    /// The same, with a header of this form that a request must have.
    #[must_use]
    pub fn must_header<T: JsonSchema>(self, name: &'static str, description: &'static str) -> Self {
        self.with_header(name, description, true, schema_of::<T>)
    }

    fn with_header(
        mut self,
        name: &'static str,
        description: &'static str,
        is_required: bool,
        schema: SchemaOf,
    ) -> Self {
        self.operation.headers.push(Header { name, description, is_required, schema });
        self
    }
}

fn raw(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::default()
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// These addresses.
    pub fn new(routes: impl IntoIterator<Item = Route<S>>) -> Self {
        let codes = error::CODES.iter().copied().collect();
        Self { routes: routes.into_iter().collect(), body_bytes_max: None, codes }
    }

    /// The same, whose JSON bodies may have so many bytes at most.
    #[must_use]
    pub fn with_body_bytes_max(self, bytes: usize) -> Self {
        Self { body_bytes_max: Some(bytes), ..self }
    }

    /// The same, whose refusals may have these codes besides those of this crate.
    #[must_use]
    pub fn with_codes(mut self, codes: &[&'static str]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Gives the handlers what they share.
    pub fn with_state(self, state: S) -> Mounted {
        let mut operations = Vec::with_capacity(self.routes.len());
        let mut router = Router::new();
        for Route { operation, handler } in self.routes {
            router = router.route(operation.path, handler);
            operations.push(operation);
        }
        let mut router =
            router.method_not_allowed_fallback(method_not_allowed).with_state::<()>(state);
        if let Some(bytes) = self.body_bytes_max {
            router = router.layer(Extension(BodyMax(bytes)));
        }
        #[cfg(debug_assertions)]
        {
            router = crate::check::checked(router, &operations, &self.codes);
        }
        Mounted { router, operations, codes: self.codes }
    }
}

impl Mounted {
    /// What answers the addresses.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// What the document says about them.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The codes of their refusals.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &'static str> {
        self.codes.iter().copied()
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<H, T, S>(path: &'static str, handler: H) -> Route<S>
        where
            H: Handler<T, S, Future = Answer> + Described<T>,
            T: 'static,
            S: Clone + Send + Sync + 'static,
        {
            let mut operation = Operation::new(Method::$method, path, type_name::<H>());
            H::describe(&mut operation);
            let erased = move |request, state| handler.clone().call(request, state);
            Route { operation, handler: on(MethodFilter::$method, Erased(Arc::new(erased))) }
        }
    )*};
}

methods! {
    /// Shows something; answers HEAD too.
    get GET;
    /// Does something.
    post POST;
    /// Sets something whole.
    put PUT;
    /// Changes a part of something.
    patch PATCH;
    /// Removes something.
    delete DELETE;
    /// Shows only the headers of something.
    head HEAD;
    /// Says what an address can do.
    options OPTIONS;
}
