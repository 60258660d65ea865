//! The HTTP API as a client sees it: requests in, the server's JSON or an [`Error`] in its own words out.
//!
//! Knows the shape of errors and pages, and nothing of what the requests mean.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use divvy_types::limits::MESSAGE_BYTES_MAX;
use http_body::Body as HttpBody;
use reqwest::header::RETRY_AFTER;
use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tower_service::Service;

use crate::wire::Wire;
use crate::{Channel, Error, MARK, Reply, Target};

/// How long an answer that is not a stream may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The API version that this client speaks.
const PREFIX: [&str; 2] = ["api", "v1"];
/// What a server in this process is called.
const IN_PROCESS: &str = "http://this-process";

/// Query parameters.
pub type Query<'a> = &'a [(&'a str, String)];

/// What the server will have said, in a box: without one, every crate that awaits it would compile all of HTTP anew.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A server to talk to. A clone is cheap and shares the connections.
#[derive(Clone)]
pub struct Api {
    base: Url,
    wire: Wire,
    target: Target,
    /// Answers gRPC in this process.
    local_channel: Option<Channel>,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalBody,
}

#[derive(Deserialize)]
struct RefusalBody {
    code: String,
    message: String,
    #[serde(default)]
    field: Option<String>,
}

impl Api {
    /// The server at `target`, such as `http://127.0.0.1:7171`. Nothing is asked of it yet.
    ///
    /// # Errors
    /// If the address, the token or the authority cannot be used.
    pub fn new(target: impl Into<Target>) -> Result<Self, Error> {
        let target = target.into();
        let wire = Wire::json(&target)?;
        Ok(Self { base: target.url()?, wire, target, local_channel: None })
    }

    /// A server in this process: `service` answers what is sent to others over sockets. It is trusted as its owner, so
    /// there is no token, and nothing has to be bound.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let target = Target::new(IN_PROCESS);
        let base = target.url().expect("the name of this process is an address");
        let wire = Wire::in_process(IN_PROCESS, service);
        let local_channel = Some(Channel::new(wire.clone(), &base));
        Self { base, wire, target, local_channel }
    }

    /// The address as people write it.
    pub fn server(&self) -> &str {
        self.wire.server()
    }

    /// Whether the server is in this process.
    pub fn is_in_process(&self) -> bool {
        self.wire.is_local()
    }

    /// gRPC to the same server, with connections of its own.
    ///
    /// # Errors
    /// If the authority cannot be read any more.
    pub fn channel(&self) -> Result<Channel, Error> {
        match &self.local_channel {
            Some(channel) => Ok(channel.clone()),
            None => Ok(Channel::new(Wire::grpc(&self.target)?, &self.base)),
        }
    }

    /// Reads something.
    pub async fn get(&self, path: &[&str], query: Query<'_>) -> Result<Reply, Error> {
        self.reply(self.ask(Method::GET, path)?.query(query)).await
    }

    /// Reads all rows of a list, page by page.
    pub async fn all(&self, path: &[&str]) -> Result<Vec<Box<RawValue>>, Error> {
        let mut page = self.get(path, &[]).await?.rows()?;
        let mut rows = page.items;
        while let Some(after) = page.next.take() {
            page = self.get(path, &[("after", after)]).await?.rows()?;
            rows.append(&mut page.items);
        }
        Ok(rows)
    }

    /// Asks for something to be done, in a way that the query says.
    pub async fn post_query(&self, path: &[&str], query: Query<'_>) -> Result<Reply, Error> {
        self.reply(self.ask(Method::POST, path)?.query(query)).await
    }

    /// Asks for something to be done.
    pub async fn post(&self, path: &[&str], body: &impl Serialize) -> Result<Reply, Error> {
        self.post_with(path, &[], body).await
    }

    /// The same in a way that the query says.
    pub async fn post_with(
        &self,
        path: &[&str],
        query: Query<'_>,
        body: &impl Serialize,
    ) -> Result<Reply, Error> {
        self.reply(self.ask(Method::POST, path)?.query(query).json(body)).await
    }

    /// Sets something whole.
    pub async fn put(&self, path: &[&str], body: &impl Serialize) -> Result<Reply, Error> {
        self.reply(self.ask(Method::PUT, path)?.json(body)).await
    }

    /// Changes a part of something.
    pub async fn patch(&self, path: &[&str], body: &impl Serialize) -> Result<Reply, Error> {
        self.reply(self.ask(Method::PATCH, path)?.json(body)).await
    }

    /// Removes something.
    pub async fn delete(&self, path: &[&str]) -> Result<Reply, Error> {
        self.reply(self.ask(Method::DELETE, path)?).await
    }

    /// Opens an answer that is read as it comes.
    pub async fn stream(&self, path: &[&str], query: Query<'_>) -> Result<Response, Error> {
        let answer = self.answer(self.ask(Method::GET, path)?.query(query)).await?;
        self.good(answer).await
    }

    /// Whether the server takes work.
    ///
    /// # Errors
    /// If no server answers.
    pub async fn ready(&self) -> Result<bool, Error> {
        let url = self.url(&[], &["readyz"]);
        let answer = self.answer(self.wire.request(Method::GET, url)).await?;
        if is_own(&answer) {
            Ok(answer.status().is_success())
        } else {
            Err(self.refusal(answer).await)
        }
    }

    /// A request below the API, if each part of its path is one.
    fn ask(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Error> {
        match path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            // Every library takes these for steps on the way, however they are written: another thing would be asked for.
            Some(part) => Err(Error::Refused {
                code: "bad_name".to_owned(),
                message: format!("`{part}` cannot be a name or an id"),
                field: None,
                status: Some(StatusCode::BAD_REQUEST.as_u16()),
                retry_after: None,
            }),
            None => Ok(self.request(method, path)),
        }
    }

    /// A request below the API, for those who need more than JSON: [`Api::answer`] sends it. Parts of the path cannot
    /// break out of it; dots alone are no part of it.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.wire.request(method, self.url(&PREFIX, path))
    }

    /// The beginning of the answer to a request, whatever it says.
    pub async fn answer(&self, request: RequestBuilder) -> Result<Response, Error> {
        match tokio::time::timeout(ANSWER_WITHIN, self.transmit(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.unreachable("it did not answer in time")),
        }
    }

    /// The same without a limit of time, for a body that takes long to send.
    pub fn transmit(&self, request: RequestBuilder) -> Asked<'_, Result<Response, Error>> {
        Box::pin(async move {
            let request = request.build().map_err(Error::protocol)?;
            self.wire.send(request).await
        })
    }

    /// An answer that is a success, or what it says instead.
    pub async fn good(&self, answer: Response) -> Result<Response, Error> {
        if answer.status().is_success() { Ok(answer) } else { Err(self.refusal(answer).await) }
    }

    /// The JSON of an answer.
    pub async fn read<T: DeserializeOwned>(&self, answer: Response) -> Result<T, Error> {
        self.text(answer).await?.parse()
    }

    /// What an answer that is not a success says. Without divvy's mark it was not the server that spoke.
    pub fn refusal(&self, answer: Response) -> Asked<'_, Error> {
        Box::pin(self.refused(answer))
    }

    async fn refused(&self, answer: Response) -> Error {
        let status = answer.status();
        if !is_own(&answer) {
            let problem = format!(
                "{status} came without divvy's mark; is a proxy in between, or another program there?"
            );
            return self.unreachable(problem);
        }
        let wait =
            answer.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let temporary =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = wait.or_else(|| temporary.then_some(1)).map(Duration::from_secs);
        let mark = answer.headers().get(MARK).and_then(|mark| mark.to_str().ok());
        let mark = mark.unwrap_or_default().to_owned();
        let body = self.text(answer).await.and_then(|reply| reply.parse::<Refusal>());
        // The answer to HEAD has no body.
        let body = body.map_or_else(
            |_| RefusalBody {
                code: mark,
                message: format!("the server answered {status}"),
                field: None,
            },
            |refusal| refusal.error,
        );
        let RefusalBody { code, message, field } = body;
        if status == StatusCode::UNAUTHORIZED {
            return Error::Unauthorized { server: self.server().to_owned(), message };
        }
        Error::Refused { code, message, field, status: Some(status.as_u16()), retry_after }
    }

    /// The server could not be asked.
    pub fn unreachable(&self, problem: impl ToString) -> Error {
        Error::Unreachable { server: self.server().to_owned(), problem: problem.to_string() }
    }

    /// What went wrong while an answer was read.
    pub fn lost(&self, error: &reqwest::Error) -> Error {
        self.wire.lost(error)
    }

    fn reply(&self, request: RequestBuilder) -> Asked<'_, Result<Reply, Error>> {
        let reply = async {
            let answer = self.transmit(request).await?;
            self.text(self.good(answer).await?).await
        };
        Box::pin(async {
            match tokio::time::timeout(ANSWER_WITHIN, reply).await {
                Ok(reply) => reply,
                Err(_) => Err(self.unreachable("it did not answer in time")),
            }
        })
    }

    fn text(&self, mut answer: Response) -> Asked<'_, Result<Reply, Error>> {
        Box::pin(async move {
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(|error| self.lost(&error))? {
                if body.len() + chunk.len() > MESSAGE_BYTES_MAX {
                    let problem = format!("an answer of more than {MESSAGE_BYTES_MAX} bytes");
                    return Err(Error::protocol(problem));
                }
                body.extend_from_slice(&chunk);
            }
            String::from_utf8(body).map(Reply::new).map_err(Error::protocol)
        })
    }

    fn url(&self, prefix: &[&str], path: &[&str]) -> Url {
        let mut url = self.base.clone();
        let mut segments = url.path_segments_mut().expect("an address of HTTP has a path");
        segments.pop_if_empty().extend(prefix).extend(path);
        drop(segments);
        url
    }
}

/// Whether the server itself speaks, and nothing in between.
pub fn is_own(answer: &Response) -> bool {
    answer.status().is_success() || answer.headers().contains_key(MARK)
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("server", &self.server()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, mark: bool, text: &'static str) -> Response {
        let answer = http::Response::builder().status(status);
        let answer = if mark { answer.header(MARK, "some_code") } else { answer };
        answer.body(text).unwrap().into()
    }

    #[tokio::test]
    async fn a_refusal_keeps_the_servers_words() {
        let api = Api::new("http://127.0.0.1:1").unwrap();
        let text = r#"{"error":{"code":"conflict","message":"task x is done","field":"id"}}"#;
        match api.refusal(answer(409, true, text)).await {
            Error::Refused { code, message, field, status, retry_after: None } => {
                assert_eq!((code.as_str(), message.as_str()), ("conflict", "task x is done"));
                assert_eq!((field.as_deref(), status), (Some("id"), Some(409)));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(api.refusal(answer(404, true, "")).await.code(), "some_code");
        assert!(api.refusal(answer(503, true, text)).await.is_temporary());
        assert_eq!(api.refusal(answer(401, true, text)).await.code(), "unauthorized");
    }

    #[tokio::test]
    async fn what_a_proxy_says_is_no_refusal() {
        let api = Api::new("http://127.0.0.1:1").unwrap();
        for status in [401, 403, 404, 502] {
            let error = api.refusal(answer(status, false, "<html>no</html>")).await;
            assert_eq!(error.code(), "unreachable");
            assert!(error.is_temporary() && error.to_string().contains("proxy"), "{error}");
        }
    }

    #[test]
    fn parts_of_a_path_cannot_break_out_of_it() {
        let api = Api::new("http://127.0.0.1:1/").unwrap();
        let url = api.url(&PREFIX, &["queues", "a/../b?c"]);
        assert_eq!(url.as_str(), "http://127.0.0.1:1/api/v1/queues/a%2F..%2Fb%3Fc");
        for part in ["", ".", ".."] {
            let error = api.ask(Method::POST, &["tasks", part, "cancel"]).unwrap_err();
            assert_eq!(error.code(), "bad_name", "{error}");
        }
        assert!(api.ask(Method::GET, &["queues", "..."]).is_ok());
    }
}
