//! The gate: every request comes in by it and every answer leaves by it.
//!
//! One place for all that holds for each of them, and compiled here, because every task passes. As layers of the router
//! they would each copy request and answer into boxes of their own. Does not know who may ask, nor what an answer must
//! carry: that is for the [`Gate`] that the server puts here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use http::header::{CONTENT_TYPE, HeaderMap};
use tower::Service;
use tower_layer::layer_fn;

/// What is done with requests before they are answered, and with answers before they leave.
pub trait Gate: Send + Sync + 'static {
    /// Lets a request in, perhaps with something that handlers find beside it; or answers it at once.
    fn admit(&self, request: &mut Request) -> Option<Response>;

    /// What an answer becomes on its way out, that of [`Gate::admit`] too.
    fn release(&self, answer: Response, is_grpc: bool) -> Response;
}

/// This router behind a gate, what it does not know included. The gate sees which route was matched.
pub fn behind(gate: Arc<dyn Gate>, router: Router) -> Router {
    router.layer(layer_fn(move |inside: Route| Gated { gate: Arc::clone(&gate), inside }))
}

/// Whether a request speaks gRPC, and so must be answered.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// A route behind the gate.
#[derive(Clone)]
struct Gated {
    gate: Arc<dyn Gate>,
    inside: Route,
}

impl Service<Request> for Gated {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request>::poll_ready(&mut self.inside, cx)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let is_grpc = is_grpc(request.headers());
        let gate = Arc::clone(&self.gate);
        if let Some(answer) = gate.admit(&mut request) {
            return Box::pin(async move { Ok(gate.release(answer, is_grpc)) });
        }
        let answering = self.inside.call(request);
        Box::pin(async move {
            let Ok(answer) = answering.await;
            Ok(gate.release(answer, is_grpc))
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::MatchedPath;
    use axum::response::IntoResponse as _;
    use axum::routing::get;
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    /// Lets in what a route is there for, and says of each answer whether it is of gRPC.
    struct OnlyKnown;

    impl Gate for OnlyKnown {
        fn admit(&self, request: &mut Request) -> Option<Response> {
            let is_known = request.extensions().get::<MatchedPath>().is_some();
            (!is_known).then(|| StatusCode::FORBIDDEN.into_response())
        }

        fn release(&self, mut answer: Response, is_grpc: bool) -> Response {
            answer.headers_mut().insert("grpc", u16::from(is_grpc).into());
            answer
        }
    }

    #[tokio::test]
    async fn requests_pass_the_gate_whichever_route_they_take_and_answers_too() {
        let router = Router::new().route("/here", get(|| async { "here" }));
        let router = router.fallback(|| async { StatusCode::NOT_FOUND });
        let router = behind(Arc::new(OnlyKnown), router);
        for (path, kind, status, grpc) in [
            ("/here", "text/plain", StatusCode::OK, "0"),
            ("/here", "application/grpc+proto", StatusCode::OK, "1"),
            ("/elsewhere", "application/grpc", StatusCode::FORBIDDEN, "1"),
        ] {
            let request = Request::get(path).header(CONTENT_TYPE, kind).body(Body::empty());
            let answer = router.clone().oneshot(request.unwrap()).await.unwrap();
            assert_eq!(
                (answer.status(), answer.headers()["grpc"].to_str().unwrap()),
                (status, grpc)
            );
        }
    }
}
