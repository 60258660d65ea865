//! HTTP/JSON to the server: one request, one answer, errors in the server's own words.

use std::time::Duration;

use divvy_types::limits::MESSAGE_BYTES_MAX;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::Error;

/// How long a request that is not a stream may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a connection may take to come about.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The API version that this client speaks.
const PREFIX: &str = "/api/v1";

/// The server's HTTP side.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    server: String,
    client: reqwest::Client,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorFields,
}

#[derive(Deserialize)]
struct ErrorFields {
    code: String,
    message: String,
}

impl Http {
    pub(crate) fn new(server: &str, token: Option<&str>) -> Result<Self, Error> {
        let bad = |problem: String| Error::Address { url: server.to_owned(), problem };
        let url = reqwest::Url::parse(server).map_err(|error| bad(error.to_string()))?;
        if url.scheme() != "http" || url.host_str().is_none() {
            return Err(bad("it must begin with http:// and name a host".into()));
        }
        if url.path() != "/" || url.query().is_some() {
            return Err(bad("it must end after the host and the port".into()));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Error::Unauthorized { server: server.to_owned() })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            // A proxy of the environment must not see the token, and a server is rarely behind one.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { server: server.trim_end_matches('/').to_owned(), client })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let response = self.send(self.client.get(self.url(path)).timeout(ANSWER_WITHIN)).await?;
        self.read(response).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let response =
            self.send(self.client.post(self.url(path)).timeout(ANSWER_WITHIN).json(body)).await?;
        self.read(response).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let response =
            self.send(self.client.put(self.url(path)).timeout(ANSWER_WITHIN).json(body)).await?;
        self.read(response).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let response = self.send(self.client.delete(self.url(path)).timeout(ANSWER_WITHIN)).await?;
        self.read(response).await
    }

    /// Begins a stream of server-sent events.
    pub(crate) async fn events(&self, path: &str) -> Result<Response, Error> {
        let request = self.client.get(self.url(path)).header(ACCEPT, "text/event-stream");
        match tokio::time::timeout(ANSWER_WITHIN, self.send(request)).await {
            Ok(response) => response,
            Err(_) => Err(self.unreachable("it did not answer in time")),
        }
    }

    pub(crate) fn unreachable(&self, problem: impl ToString) -> Error {
        Error::Unreachable { server: self.server.clone(), problem: problem.to_string() }
    }

    pub(crate) fn protocol(&self, problem: impl ToString) -> Error {
        Error::Protocol { server: self.server.clone(), problem: problem.to_string() }
    }

    /// A request to `path` below the API, for those who need more than JSON. It has no time limit of its own.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, self.url(path))
    }

    /// The answer to a request, whatever it says.
    pub(crate) async fn answer(&self, request: RequestBuilder) -> Result<Response, Error> {
        match tokio::time::timeout(ANSWER_WITHIN, request.send()).await {
            Ok(answer) => answer.map_err(|error| self.unreachable(causes(&error))),
            Err(_) => Err(self.unreachable("it did not answer in time")),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{PREFIX}{path}", self.server)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.unreachable(causes(&error)))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refusal(response).await)
        }
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        mut response: Response,
    ) -> Result<T, Error> {
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| self.unreachable(causes(&error)))?
        {
            if body.len() + chunk.len() > MESSAGE_BYTES_MAX {
                return Err(
                    self.protocol(format_args!("an answer of more than {MESSAGE_BYTES_MAX} bytes"))
                );
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map_err(|error| self.protocol(error))
    }

    /// What an answer that is not a success says.
    pub(crate) async fn refusal(&self, response: Response) -> Error {
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            return Error::Unauthorized { server: self.server.clone() };
        }
        let waits = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let temporary =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = waits.or_else(|| temporary.then_some(1)).map(Duration::from_secs);
        match self.read::<ErrorBody>(response).await {
            Ok(ErrorBody { error: ErrorFields { code, message } }) => {
                Error::Refused { code, message, retry_after }
            }
            Err(_) => {
                let message = format!("the server at {} answered {status}", self.server);
                Error::Refused { code: status.as_u16().to_string(), message, retry_after }
            }
        }
    }
}

/// An error with what caused it: the outer ones of network libraries say little.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_is_refused_with_an_example() {
        for url in ["", "127.0.0.1:7171", "ftp://x", "http://x/path", "http://"] {
            let error = Http::new(url, None).unwrap_err();
            assert_eq!(error.code(), "bad_address", "{url}");
            assert!(error.to_string().contains("http://127.0.0.1:7171"), "{error}");
        }
        assert_eq!(
            Http::new("http://localhost:7171/", None).unwrap().server(),
            "http://localhost:7171"
        );
    }
}
