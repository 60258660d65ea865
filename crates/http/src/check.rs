//! The check of every answer in builds with debug assertions: an answer whose status or error code is not in the
//! document ends the request with a panic that says so. So each test of an address also tests the document.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use divvy_types::REFUSAL_MARK;
use http::Method;

use crate::operation::Operation;

#[derive(Clone)]
struct Told {
    operations: Arc<[Operation]>,
    codes: Arc<BTreeSet<&'static str>>,
}

/// The same addresses, each answer checked.
pub(crate) fn checked(
    router: Router,
    operations: &[Operation],
    codes: &BTreeSet<&'static str>,
) -> Router {
    let told = Told { operations: operations.into(), codes: Arc::new(codes.clone()) };
    router.layer(from_fn_with_state(told, check))
}

async fn check(State(told): State<Told>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let Some(path) = path else { return response };
    let find = |method: &Method| {
        let mut known = told.operations.iter();
        known.find(|known| known.path == path.as_str() && known.method == *method)
    };
    // A GET route answers HEAD too. A method that the address does not have is refused before any route.
    let found = find(&method).or_else(|| find(&Method::GET).filter(|_| method == Method::HEAD));
    if let Some(operation) = found {
        let status = response.status().as_u16();
        assert!(
            operation.has_status(status),
            "{method} {} answered {status}, which its route does not tell; add it to `answers` or `refuses`",
            operation.path,
        );
    }
    if let Some(code) = response.headers().get(REFUSAL_MARK).and_then(|code| code.to_str().ok()) {
        assert!(told.codes.contains(code), "the code `{code}` is not told; add it to `with_codes`");
    }
    response
}
