//! The table of addresses: which method of which path is answered by whom. Generic over what the handlers share until
//! [`Routes::with_state`]; from then on the server can take in tables of any origin.

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use http::Method;

use crate::body::BodyMax;
use crate::error::method_not_allowed;

/// One method of one path.
pub struct Route<S> {
    method: Method,
    path: &'static str,
    handler: MethodRouter<S>,
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
/// let mounted = Routes::new([get("/api/v1/greetings/{name}", show)]).with_state("Hello");
/// assert_eq!(mounted.paths().collect::<Vec<_>>(), ["/api/v1/greetings/{name}"]);
/// ```
pub struct Routes<S> {
    routes: Vec<Route<S>>,
    body_bytes_max: Option<usize>,
}

/// Addresses that need nothing more from their maker: the server takes them in.
#[derive(Clone, Debug, Default)]
pub struct Mounted {
    router: Router,
    paths: Vec<(Method, &'static str)>,
}

impl<S> Route<S> {
    /// The method; a GET route answers HEAD too.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path, with parameters in braces.
    pub fn path(&self) -> &'static str {
        self.path
    }
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// These addresses.
    pub fn new(routes: impl IntoIterator<Item = Route<S>>) -> Self {
        Self { routes: routes.into_iter().collect(), body_bytes_max: None }
    }

    /// The same, whose JSON bodies may have so many bytes at most.
    #[must_use]
    pub fn with_body_bytes_max(self, bytes: usize) -> Self {
        Self { body_bytes_max: Some(bytes), ..self }
    }

    /// Gives the handlers what they share.
    pub fn with_state(self, state: S) -> Mounted {
        let mut paths = Vec::with_capacity(self.routes.len());
        let mut router = Router::new();
        for Route { method, path, handler } in self.routes {
            paths.push((method, path));
            router = router.route(path, handler);
        }
        let mut router =
            router.method_not_allowed_fallback(method_not_allowed).with_state::<()>(state);
        if let Some(bytes) = self.body_bytes_max {
            router = router.layer(Extension(BodyMax(bytes)));
        }
        Mounted { router, paths }
    }
}

impl Mounted {
    /// What answers the addresses.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The paths, with their parameters in braces.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.paths.iter().map(|(_, path)| *path)
    }
}

fn route<H: Handler<T, S>, T: 'static, S>(
    filter: MethodFilter,
    method: Method,
    path: &'static str,
    handler: H,
) -> Route<S>
where
    S: Clone + Send + Sync + 'static,
{
    Route { method, path, handler: on(filter, handler) }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<H: Handler<T, S>, T: 'static, S>(path: &'static str, handler: H) -> Route<S>
        where
            S: Clone + Send + Sync + 'static,
        {
            route(MethodFilter::$method, Method::$method, path, handler)
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
