//! Where a server is, what is shown to it, and what it must prove. Nothing is opened here.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use reqwest::Url;

use crate::Error;

/// Where the server is unless something else is said.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7171";

/// A server, as people name it.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Its address, such as `http://127.0.0.1:7171` or `https://divvy.example`; without a scheme it is `http://`.
    pub server: String,
    /// The bearer token, where the server wants one.
    pub token: Option<String>,
    /// A PEM file with the certificates of the only authorities to trust; without it this machine's are trusted.
    pub ca: Option<PathBuf>,
}

impl Target {
    /// A server that wants no token.
    pub fn new(server: impl Into<String>) -> Self {
        Self { server: server.into(), token: None, ca: None }
    }

    /// The same with a token.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// The same, trusting only the authorities in this PEM file.
    #[must_use]
    pub fn ca(self, file: impl Into<PathBuf>) -> Self {
        Self { ca: Some(file.into()), ..self }
    }

    /// The server that `DIVVY_SERVER` names, or the usual one, with the token in `DIVVY_TOKEN` and the authority in
    /// the file `DIVVY_CA`.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            server: variable("DIVVY_SERVER").unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            token: variable("DIVVY_TOKEN"),
            ca: variable("DIVVY_CA").map(PathBuf::from),
        }
    }

    /// Whether the server is on this machine, as its address says it.
    pub fn is_loopback(&self) -> bool {
        self.url().is_ok_and(|url| is_loopback(&url))
    }

    /// The address, if it is one.
    pub(crate) fn url(&self) -> Result<Url, Error> {
        let wrong = |problem: &str| Error::Address {
            url: self.server.clone(),
            problem: problem.to_owned(),
        };
        let whole = match self.server.contains("://") {
            true => Cow::Borrowed(self.server.as_str()),
            false => Cow::Owned(format!("http://{}", self.server)),
        };
        let url = Url::parse(&whole).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("it must begin with http:// or https:// and name a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it must not have a name or password; a token has its own place"));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it must end after the host and the port"));
        }
        Ok(url)
    }
}

impl Default for Target {
    fn default() -> Self {
        Self::new(DEFAULT_SERVER)
    }
}

impl From<&str> for Target {
    fn from(server: &str) -> Self {
        Self::new(server)
    }
}

impl From<&String> for Target {
    fn from(server: &String) -> Self {
        Self::new(server)
    }
}

impl From<String> for Target {
    fn from(server: String) -> Self {
        Self::new(server)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "(set)");
        let mut shown = f.debug_struct("Target");
        shown.field("server", &self.server).field("token", &token).field("ca", &self.ca).finish()
    }
}

/// Whether an address is this machine's own.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_is_refused_with_an_example() {
        for url in [
            "",
            ":7171",
            "127.0.0.1:7171/path",
            "ftp://x",
            "http://x/path",
            "http://x?a=b",
            "https://me@x",
            "http://",
        ] {
            let error = Target::new(url).url().unwrap_err();
            assert_eq!(error.code(), "bad_address", "{url}");
            assert!(error.to_string().contains("http://127.0.0.1:7171"), "{error}");
        }
        for url in ["http://localhost:7171/", "https://divvy.example", "http://[::1]:1"] {
            assert!(Target::new(url).url().is_ok(), "{url}");
        }
        for host in ["127.0.0.1:7171", "localhost:7391", "divvy.example", "[::1]:1"] {
            let url = Target::new(host).url().unwrap();
            assert_eq!(url.as_str(), format!("http://{host}/"));
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is_loopback = |url: &str| is_loopback(&Target::new(url).url().unwrap());
        assert!(is_loopback("http://[::1]:7171") && is_loopback("https://localhost"));
        assert!(is_loopback("http://127.9.9.9:1"));
        assert!(!is_loopback("http://10.0.0.1") && !is_loopback("http://localhost.example"));
    }

    #[test]
    fn a_token_is_not_shown() {
        let shown = format!("{:?}", Target::new("http://a").token("secret"));
        assert!(shown.contains("(set)") && !shown.contains("secret"), "{shown}");
    }
}
