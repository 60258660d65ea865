//! The HTTP API as a client sees it: requests in, the server's JSON or a [`Failure`] with its exit code out.
//!
//! Knows the shape of errors and pages, and nothing of what the commands mean.

pub(crate) mod events;

use std::time::Duration;

use divvy_types::view::Page;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exit::{Code, Failure};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Query parameters.
pub(crate) type Query<'a> = &'a [(&'a str, String)];

/// A server to talk to.
#[derive(Clone)]
pub(crate) struct Api {
    base: Url,
    token: Option<String>,
    client: reqwest::Client,
}

/// What the server answered: JSON text, kept as it came.
pub(crate) struct Reply {
    text: String,
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
    /// The server at `server`, such as `http://127.0.0.1:7171`.
    pub(crate) fn new(server: &str, token: Option<String>) -> anyhow::Result<Self> {
        let base = parse_server(server)?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("divvy/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            // A proxy from the environment cannot reach this machine's own loopback.
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|e| Failure::new(Code::Failed, format!("cannot set up HTTP: {e}")))?;
        Ok(Self { base, token, client })
    }

    /// The address as people write it.
    pub(crate) fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads something.
    pub(crate) async fn get(&self, path: &[&str], query: Query<'_>) -> anyhow::Result<Reply> {
        self.answer(self.request(Method::GET, path)?.query(query).timeout(ANSWER_TIMEOUT)).await
    }

    /// Asks for something to be done, in a way that the query says.
    pub(crate) async fn post_query(
        &self,
        path: &[&str],
        query: Query<'_>,
    ) -> anyhow::Result<Reply> {
        self.answer(self.request(Method::POST, path)?.query(query).timeout(ANSWER_TIMEOUT)).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post(
        &self,
        path: &[&str],
        body: &impl serde::Serialize,
    ) -> anyhow::Result<Reply> {
        self.post_with(path, &[], body).await
    }

    /// The same in a way that the query says.
    pub(crate) async fn post_with(
        &self,
        path: &[&str],
        query: Query<'_>,
        body: &impl serde::Serialize,
    ) -> anyhow::Result<Reply> {
        let request = self.request(Method::POST, path)?.query(query).json(body);
        self.answer(request.timeout(ANSWER_TIMEOUT)).await
    }

    /// Sets something whole.
    pub(crate) async fn put(
        &self,
        path: &[&str],
        body: &impl serde::Serialize,
    ) -> anyhow::Result<Reply> {
        self.answer(self.request(Method::PUT, path)?.json(body).timeout(ANSWER_TIMEOUT)).await
    }

    /// Changes a part of something.
    pub(crate) async fn patch(
        &self,
        path: &[&str],
        body: &impl serde::Serialize,
    ) -> anyhow::Result<Reply> {
        self.answer(self.request(Method::PATCH, path)?.json(body).timeout(ANSWER_TIMEOUT)).await
    }

    /// Removes something.
    pub(crate) async fn delete(&self, path: &[&str]) -> anyhow::Result<Reply> {
        self.answer(self.request(Method::DELETE, path)?.timeout(ANSWER_TIMEOUT)).await
    }

    /// Opens an answer that is read as it comes.
    pub(crate) async fn stream(&self, path: &[&str], query: Query<'_>) -> anyhow::Result<Response> {
        let response = self
            .request(Method::GET, path)?
            .query(query)
            .send()
            .await
            .map_err(|e| self.unreachable(&e))?;
        self.check(response).await
    }

    /// Whether the server is alive and takes work: the status of `/readyz`.
    pub(crate) async fn ready(&self) -> anyhow::Result<bool> {
        let url = self.url(&["readyz"], false)?;
        let response = self
            .client
            .get(url)
            .timeout(CONNECT_TIMEOUT)
            .send()
            .await
            .map_err(|e| self.unreachable(&e))?;
        Ok(response.status().is_success())
    }

    fn url(&self, path: &[&str], versioned: bool) -> anyhow::Result<Url> {
        let mut url = self.base.clone();
        let prefix: &[&str] = if versioned { &["api", "v1"] } else { &[] };
        url.path_segments_mut()
            .map_err(|()| Failure::usage(format!("`{}` is not an address of a server", self.base)))?
            .pop_if_empty()
            .extend(prefix)
            .extend(path);
        Ok(url)
    }

    fn request(&self, method: Method, path: &[&str]) -> anyhow::Result<RequestBuilder> {
        let request = self.client.request(method, self.url(path, true)?);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    async fn answer(&self, request: RequestBuilder) -> anyhow::Result<Reply> {
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let text = self.check(response).await?.text().await.map_err(|e| self.unreachable(&e))?;
        Ok(Reply { text })
    }

    async fn check(&self, response: Response) -> anyhow::Result<Response> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.unwrap_or_default();
        Err(self.refusal(status, &text).into())
    }

    fn refusal(&self, status: StatusCode, text: &str) -> Failure {
        let body = serde_json::from_str::<Refusal>(text).ok().map(|refusal| refusal.error);
        let code = match status.as_u16() {
            404 => Code::NotFound,
            401 | 403 | 409 | 429 | 503 | 507 => Code::Refused,
            400..=499 => Code::Usage,
            _ => Code::Failed,
        };
        let message = match &body {
            Some(body) => body.message.clone(),
            None => format!("{} answered {status}; is it a divvy server?", self.server()),
        };
        let failure = Failure {
            name: body.as_ref().map(|body| body.code.clone()),
            field: body.and_then(|body| body.field),
            ..Failure::new(code, message)
        };
        match status.as_u16() {
            401 => failure.cure("pass the server's token with --token or DIVVY_TOKEN"),
            429 | 503 => failure.cure("try again in a moment"),
            _ => failure,
        }
    }

    /// No answer came. The cause at the end of the chain says it shortest.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let failure = Failure::new(
            Code::Unreachable,
            format!("no server answers at {}: {cause}", self.server()),
        );
        if is_loopback(&self.base) {
            failure.cure(
                "start one with `divvy up`, or name another with --server URL or DIVVY_SERVER",
            )
        } else {
            failure.cure("check the address (--server URL or DIVVY_SERVER) and the network")
        }
    }
}

impl Reply {
    /// The JSON as it came.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The JSON as a value of ours.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        serde_json::from_str(&self.text).map_err(|error| {
            Failure::new(
                Code::Failed,
                format!("the server's answer is not what this version expects: {error}"),
            )
            .cure("run the same version of divvy on both sides; `divvy doctor` compares them")
            .into()
        })
    }

    /// The rows of a list, each as it came, and where the next page starts. A list is an array or a page.
    pub(crate) fn rows(&self) -> anyhow::Result<Page<Box<RawValue>>> {
        if self.text.trim_start().starts_with('[') {
            return Ok(Page { items: self.parse()?, next: None });
        }
        self.parse()
    }

    /// The JSON without types.
    pub(crate) fn value(&self) -> anyhow::Result<Value> {
        self.parse()
    }
}

/// The rows of a list as values of ours.
pub(crate) fn parse_rows<T: DeserializeOwned>(rows: &[Box<RawValue>]) -> anyhow::Result<Vec<T>> {
    rows.iter().map(|row| Reply { text: row.get().to_owned() }.parse()).collect()
}

fn parse_server(server: &str) -> anyhow::Result<Url> {
    let wrong = |why: &str| {
        Failure::usage(format!("`{server}` is not an address of a server: {why}"))
            .cure("write it as http://127.0.0.1:7171")
    };
    let url = Url::parse(server).map_err(|e| wrong(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("expected http:// or https:// and a host").into());
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_servers_words_and_gets_its_exit_code() {
        let api = Api::new("http://127.0.0.1:1", None).unwrap();
        let text = r#"{"error":{"code":"conflict","message":"task x is done","field":"id"}}"#;
        let failure = api.refusal(StatusCode::CONFLICT, text);
        assert_eq!((failure.code, failure.name.as_deref()), (Code::Refused, Some("conflict")));
        assert_eq!(
            (failure.message.as_str(), failure.field.as_deref()),
            ("task x is done", Some("id"))
        );
        assert_eq!(api.refusal(StatusCode::NOT_FOUND, "").code, Code::NotFound);
        assert_eq!(api.refusal(StatusCode::BAD_REQUEST, text).code, Code::Usage);
        assert_eq!(api.refusal(StatusCode::BAD_GATEWAY, "").code, Code::Failed);
        assert!(api.refusal(StatusCode::UNAUTHORIZED, text).cure.unwrap().contains("DIVVY_TOKEN"));
    }

    #[test]
    fn parts_of_a_path_cannot_break_out_of_it() {
        let api = Api::new("http://127.0.0.1:1/", None).unwrap();
        let url = api.url(&["queues", "a/../b?c"], true).unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:1/api/v1/queues/a%2F..%2Fb%3Fc");
    }

    #[test]
    fn an_address_without_scheme_or_host_is_refused() {
        for text in ["127.0.0.1:7171", "ftp://x", "localhost:7171", ""] {
            assert!(Api::new(text, None).is_err(), "{text}");
        }
        assert!(is_loopback(&Url::parse("http://[::1]:7171").unwrap()));
        assert!(!is_loopback(&Url::parse("http://10.0.0.1").unwrap()));
    }
}
