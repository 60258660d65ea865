//! The HTTP API, as a client without our crates would use it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
pub use reqwest::Method;
use serde_json::{Value, json};

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one server.
#[derive(Clone)]
pub struct Api {
    base: String,
    client: reqwest::Client,
}

impl Api {
    /// A client of the server on this port.
    pub fn on(port: u16) -> Self {
        Self { base: format!("http://127.0.0.1:{port}"), client: reqwest::Client::new() }
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Submits a batch: the status and the answer.
    pub async fn submit(&self, tasks: &[Value]) -> Result<(u16, Value)> {
        self.send(Method::POST, "tasks", &json!({ "tasks": tasks })).await
    }

    /// What is at a path of the API.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(format!("{}/api/v1/{path}", self.base)).send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        if !status.is_success() {
            bail!("GET {path}: {status} {body}");
        }
        Ok(body)
    }

    /// Sends a request with a body: the status and the answer.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Result<(u16, Value)> {
        let url = format!("{}/api/v1/{path}", self.base);
        let answer = self.client.request(method, url).json(body).send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    /// The same, where nothing but success will do.
    pub async fn set(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.send(method.clone(), path, body).await?;
        ensure!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    /// All tasks that fit a query, over as many pages as it takes.
    pub async fn all_tasks(&self, query: &str) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.get(&format!("tasks?limit=1000&{query}{after}")).await?;
            all.extend(page["items"].as_array().context("a page without items")?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return Ok(all),
            }
        }
    }

    /// Waits until `done` accepts what is at a path. Errors of a server that is away for the moment are waited out.
    pub async fn wait_until(
        &self,
        path: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let started = Instant::now();
        loop {
            let seen = self.get(path).await;
            match seen {
                Ok(value) if done(&value) => return Ok(value),
                seen if started.elapsed() > PATIENCE => {
                    bail!("{what} did not come to pass; last seen: {seen:?}")
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}
