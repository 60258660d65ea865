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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;
    use crate::routes::{Routes, get};

    async fn teapot() -> Response {
        StatusCode::IM_A_TEAPOT.into_response()
    }

    async fn refuse() -> Response {
        (StatusCode::CONFLICT, [(REFUSAL_MARK, "too_hot")]).into_response()
    }

    /// What the check says about the answer to a request for this path.
    async fn complaint(routes: Routes<()>, method: Method, path: &str) -> Option<String> {
        let router = routes.with_state(()).router();
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let ended = tokio::spawn(router.oneshot(request)).await;
        let panic = ended.err()?.into_panic();
        Some(*panic.downcast::<String>().expect("the check says what is wrong"))
    }

    #[tokio::test]
    async fn an_answer_whose_status_is_not_told_is_found() {
        for method in [Method::GET, Method::HEAD] {
            let routes = Routes::new([get("/pot/{id}", teapot).summary("Tea")]);
            let said = complaint(routes, method, "/pot/7").await.expect("418 is not told");
            assert!(said.contains("/pot/{id} answered 418"), "{said}");
        }
        let told = Routes::new([get("/pot/{id}", teapot).answers([418])]);
        assert_eq!(complaint(told, Method::GET, "/pot/7").await, None);
    }

    #[tokio::test]
    async fn a_refusal_whose_code_is_not_told_is_found() {
        let routes = || Routes::new([get("/pot", refuse).refuses([409])]);
        let said = complaint(routes(), Method::GET, "/pot").await.expect("the code is not told");
        assert!(said.contains("`too_hot` is not told"), "{said}");
        assert_eq!(complaint(routes().with_codes(&["too_hot"]), Method::GET, "/pot").await, None);
    }

    #[tokio::test]
    async fn what_no_route_answers_is_not_checked() {
        let routes = || Routes::new([get("/pot", teapot)]);
        assert_eq!(complaint(routes(), Method::GET, "/cup").await, None);
        assert_eq!(complaint(routes(), Method::POST, "/pot").await, None);
    }
}
