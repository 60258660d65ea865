//! gRPC over the same ways as everything else. Generated clients take a [`Channel`] for their transport:
//! `SubmitClient::with_origin(channel.clone(), channel.origin())`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_TYPE;
use http::{StatusCode, Uri};
use reqwest::{Body, Request, Url};
use tower_service::Service;

use crate::wire::Wire;
use crate::{Api, Error, Target, body};

/// Carries calls of gRPC. A clone is cheap and shares the connection.
#[derive(Clone)]
pub struct Channel {
    wire: Arc<Wire>,
    base: Arc<Url>,
    origin: Uri,
}

impl Channel {
    /// gRPC to the server at `target`. Nothing is sent yet.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn to(target: impl Into<Target>) -> Result<Self, Error> {
        Api::new(target)?.channel()
    }

    pub(crate) fn new(wire: Wire, base: &Url) -> Self {
        let origin = base.as_str().parse().expect("an address that was parsed before");
        Self { wire: Arc::new(wire), base: Arc::new(base.clone()), origin }
    }

    /// Where calls go.
    pub fn origin(&self) -> Uri {
        self.origin.clone()
    }

    /// The address as people write it.
    pub fn server(&self) -> &str {
        self.wire.server()
    }

    /// A call as a request. Only its path is new: to read the whole address again would take longer than all the rest.
    fn to_server(&self, call: http::Request<tonic::body::Body>) -> Request {
        let (parts, body) = call.into_parts();
        let mut url = Url::clone(&self.base);
        url.set_path(parts.uri.path());
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.version_mut() = parts.version;
        *request.body_mut() = Some(body::wrap(body));
        request
    }

    /// What a failed call means.
    pub fn error(&self, status: &tonic::Status) -> Error {
        Error::of_status(self.server(), status)
    }
}

impl Service<http::Request<tonic::body::Body>> for Channel {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let wire = Arc::clone(&self.wire);
        let request = self.to_server(request);
        Box::pin(async move {
            let answer: http::Response<Body> = wire.send(request).await?.into();
            // gRPC tells its failures in headers of its own. Any other answer is from something in between.
            let kind = answer.headers().get(CONTENT_TYPE);
            let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
            if answer.status() == StatusCode::OK && is_grpc {
                return Ok(answer);
            }
            let problem = format!(
                "{} came instead of gRPC; is a proxy in between, or another program there?",
                answer.status()
            );
            Err(Error::Unreachable { server: wire.server().to_owned(), problem })
        })
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("server", &self.server()).finish()
    }
}
