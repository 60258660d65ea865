//! Where a cluster is, and whether it can take a query.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use divvy::api::reqwest::{Client, Url};
use serde::{Deserialize, Serialize};

/// The port of a scheduler unless the address has one.
const PORT: u16 = 50_050;
/// How long a scheduler may take to say how it is.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often a cluster that is not ready is asked again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The address of a scheduler: `df://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// What a scheduler says of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Nobody answers there, for this reason.
    Away(String),
    /// It answers, but nobody would do the work.
    Empty,
    /// It has this many executors; a scheduler that does not tell counts as one.
    Ready(u32),
}

impl Address {
    /// How the cluster is.
    pub(crate) async fn health(&self) -> Health {
        let ask = async {
            let client = Client::builder().timeout(ANSWER_WITHIN).no_proxy().build()?;
            let answer = client.get(format!("http://{}/readyz", self.authority())).send().await?;
            let known = matches!(answer.status().as_u16(), 200 | 503);
            Ok::<_, divvy::api::reqwest::Error>((known, answer.text().await?))
        };
        match ask.await {
            Err(error) => Health::Away(divvy::api::cause(&error)),
            // Older schedulers have no such page.
            Ok((false, _)) => Health::Ready(1),
            Ok((true, text)) => match executors(&text) {
                0 => Health::Empty,
                count => Health::Ready(count),
            },
        }
    }

    /// Waits until the cluster has this many executors; gives what was seen last when time is up.
    pub(crate) async fn wait_for(&self, executors: u32, within: Duration) -> Result<u32, Health> {
        let end = tokio::time::Instant::now() + within;
        loop {
            let health = self.health().await;
            if let Health::Ready(count) = health
                && count >= executors
            {
                return Ok(count);
            }
            if tokio::time::Instant::now() >= end {
                return Err(health);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Host and port, as they stand in a URL.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The count in `ready: 2 executors registered` and in `not ready: 0/1 executors registered`.
fn executors(text: &str) -> u32 {
    let digits = text.find(|c: char| c.is_ascii_digit()).map_or("", |at| &text[at..]);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(problem) => write!(f, "nobody answers there: {problem}"),
            Self::Empty => f.write_str("it has no executors"),
            Self::Ready(count) => write!(f, "it has {count} executors"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "df://{}", self.authority())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "is not an address of a cluster; write df://HOST:PORT".to_owned();
        let url = Url::parse(text).map_err(|_| wrong())?;
        let empty = url.path().trim_matches('/').is_empty() && url.query().is_none();
        match url.host_str() {
            Some(host) if url.scheme() == "df" && !host.is_empty() && empty => {
                Ok(Self { host: host.to_owned(), port: url.port().unwrap_or(PORT) })
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_a_host_and_perhaps_a_port() {
        let address: Address = "df://127.0.0.1:20001".parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), ("127.0.0.1", 20_001));
        assert_eq!(address.to_string(), "df://127.0.0.1:20001");
        assert_eq!("df://a".parse::<Address>().unwrap().port, PORT);
        for bad in ["127.0.0.1:1", "http://a:1", "df://", "df://a:99999", "df://a:1/b"] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn executors_are_counted_from_what_a_scheduler_says() {
        assert_eq!(executors("ready: 12 executors registered\n"), 12);
        assert_eq!(executors("not ready: 0/1 executors registered\n"), 0);
        assert_eq!(executors("ok"), 0);
    }
}
