//! The two ways to a server: sockets, or a call within this process. Everything above is the same for both.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as HttpBody;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Body, Client, ClientBuilder, Request, RequestBuilder, Response, Url, redirect};
use tower_service::Service;

use crate::error::{Error, cause, distrust};
use crate::target::is_loopback;
use crate::{MARK, Target, body, tls};

/// How long a connection may take to come about.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How often a quiet connection of gRPC is probed.
const PROBE_EVERY: Duration = Duration::from_secs(20);
/// How long the answer to a probe may take.
const PROBE_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that may be under way to us on one stream of gRPC: grants arrive in large batches.
const WINDOW_BYTES: u32 = 4 << 20;

/// The code with which a server answers plain HTTP where it speaks TLS.
const TLS_NEEDED: &str = "tls_needed";

type Answer = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;
type Local = Arc<dyn Fn(http::Request<Body>) -> Answer + Send + Sync>;

/// A way to a server.
#[derive(Clone)]
pub(crate) struct Wire {
    server: Arc<str>,
    /// Sends over sockets; in process it merely puts requests together.
    client: Client,
    local: Option<Local>,
}

/// A client for a server that is not divvy's, and its address: the same rules about tokens, authorities and proxies.
///
/// # Errors
/// If the target makes no sense.
pub fn plain(target: &Target) -> Result<(Client, Url), Error> {
    Ok((Wire::json(target)?.client, target.url()?))
}

impl Wire {
    /// Over sockets, for JSON.
    pub(crate) fn json(target: &Target) -> Result<Self, Error> {
        Self::sockets(target, &tls::JSON, |builder| builder)
    }

    /// Over sockets, for gRPC.
    pub(crate) fn grpc(target: &Target) -> Result<Self, Error> {
        Self::sockets(target, &tls::GRPC, |builder| {
            builder
                .http2_prior_knowledge()
                .http2_keep_alive_interval(PROBE_EVERY)
                .http2_keep_alive_timeout(PROBE_WITHIN)
                .http2_keep_alive_while_idle(true)
                .http2_initial_stream_window_size(WINDOW_BYTES)
                .http2_initial_connection_window_size(WINDOW_BYTES)
        })
    }

    fn sockets(
        target: &Target,
        protocols: &[&[u8]],
        tune: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Result<Self, Error> {
        let url = target.url()?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &target.token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| Error::Token)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .user_agent(concat!("divvy/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .redirect(redirect::Policy::none());
        let is_secure = url.scheme() == "https";
        if is_secure {
            builder = builder.use_preconfigured_tls(tls::config(target, protocols)?);
        }
        if !is_secure || is_loopback(&url) {
            // A proxy would see the token of plain HTTP, and cannot reach this machine's own loopback.
            builder = builder.no_proxy();
        }
        let client = tune(builder).build().map_err(|error| Error::Address {
            url: target.server.clone(),
            problem: cause(&error),
        })?;
        let server = url.as_str().trim_end_matches('/').into();
        Ok(Self { server, client, local: None })
    }

    /// In process: `service` answers.
    pub(crate) fn in_process<S, B>(server: &str, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let local = move |request| -> Answer {
            let mut service = service.clone();
            Box::pin(async move {
                let Ok(()) = poll_fn(|cx| service.poll_ready(cx)).await;
                let Ok(answer) = service.call(request).await;
                answer.map(body::wrap)
            })
        };
        Self { server: server.into(), client: Client::new(), local: Some(Arc::new(local)) }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Whether the server is in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// A request that this way can carry.
    pub(crate) fn request(&self, method: reqwest::Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// The beginning of the answer, whatever it says.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, Error> {
        let Some(local) = &self.local else {
            let answer = self.client.execute(request).await.map_err(|error| self.lost(&error))?;
            if answer.headers().get(MARK).is_some_and(|code| code == TLS_NEEDED) {
                return Err(Error::Scheme { server: self.server().to_owned(), right: "https" });
            }
            return Ok(answer);
        };
        let request = http::Request::try_from(request).map_err(Error::protocol)?;
        Ok(Response::from(local(request).await))
    }

    /// What went wrong with a connection.
    pub(crate) fn lost(&self, error: &reqwest::Error) -> Error {
        let server = self.server().to_owned();
        match distrust(error) {
            Some(rustls::Error::InvalidMessage(_)) => Error::Scheme { server, right: "http" },
            Some(problem) => Error::Untrusted { server, problem: problem.to_string() },
            None => Error::Unreachable { server, problem: cause(error) },
        }
    }
}
