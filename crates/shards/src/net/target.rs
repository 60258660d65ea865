//! Which addresses of the web are asked at all: http and https, on the usual ports and on those above 1023 that no browser
//! blocks. Decides by the text of a URL; what a name stands for is checked when it is resolved.
//!
//! A crawler follows links that strangers write. Without the rule a link to port 25 or 6379 makes it speak to mail servers
//! and databases, which take parts of HTTP for commands.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use thiserror::Error;
use url::{Host, Url};

/// Ports below this are open only if they are the web's own.
const PORT_FREE_MIN: u16 = 1024;
/// The ports from 1024 on that browsers block (<https://fetch.spec.whatwg.org/#port-blocking>).
const PORTS_BLOCKED: [u16; 17] = [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669,
    6679,
];
/// Later additions to that list.
const PORTS_BLOCKED_TOO: [u16; 2] = [6697, 10080];

/// Where a request goes: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    is_https: bool,
    host: String,
    port: u16,
}

/// A URL that is not asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RefusedTarget {
    /// Its scheme is not the web's.
    #[error("`{0}` is neither http nor https")]
    Scheme(String),
    /// It names no host.
    #[error("`{0}` names no host")]
    Host(String),
    /// Its port is not for the web.
    #[error(
        "port {0} is not asked: 80, 443 and those from 1024 on are, without those that browsers block"
    )]
    Port(u16),
}

impl Target {
    /// The target of a URL, if it may be asked. User names and passwords in it are never sent.
    pub fn of(url: &Url) -> Result<Self, RefusedTarget> {
        let is_https = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(RefusedTarget::Scheme(url.to_string())),
        };
        let host = match url.host() {
            Some(Host::Domain(name)) => name.trim_end_matches('.').to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        };
        if host.is_empty() {
            return Err(RefusedTarget::Host(url.to_string()));
        }
        let port = url.port_or_known_default().unwrap_or(if is_https { 443 } else { 80 });
        Self::checked(is_https, host, port)
    }

    /// The target of a request to a proxy: `http://host:port/…`, or `host:port` if a tunnel is asked for.
    pub fn of_uri(uri: &Uri, is_tunnel: bool) -> Result<Self, RefusedTarget> {
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            None if is_tunnel => true,
            _ => return Err(RefusedTarget::Scheme(uri.to_string())),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        if host.is_empty() {
            return Err(RefusedTarget::Host(uri.to_string()));
        }
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        Self::checked(is_https, host, port)
    }

    fn checked(is_https: bool, host: String, port: u16) -> Result<Self, RefusedTarget> {
        if is_port_open(port) {
            Ok(Self { is_https, host, port })
        } else {
            Err(RefusedTarget::Port(port))
        }
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// The name or address, without brackets and without a dot at its end.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is one and no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address() {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether a port is one that the crawler speaks to.
pub fn is_port_open(port: u16) -> bool {
    let is_blocked = PORTS_BLOCKED.contains(&port) || PORTS_BLOCKED_TOO.contains(&port);
    matches!(port, 80 | 443) || (port >= PORT_FREE_MIN && !is_blocked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, RefusedTarget> {
        Target::of(&url.parse().unwrap())
    }

    #[test]
    fn only_the_web_is_asked() {
        for url in ["ftp://a.test/", "file:///etc/passwd", "gopher://a.test/", "data:,x"] {
            assert!(matches!(target(url), Err(RefusedTarget::Scheme(_))), "{url}");
        }
        let secure = target("https://user:word@A.Test.:8443/x").unwrap();
        assert_eq!(secure.to_string(), "a.test:8443");
        assert!(secure.is_https());
        assert_eq!(target("http://[::1]/").unwrap().to_string(), "[::1]:80");
        assert_eq!(target("http://0x7f.1/").unwrap().address(), Some("127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn only_ports_of_the_web_are_asked() {
        for port in [
            0, 21, 22, 25, 53, 79, 81, 110, 143, 445, 465, 631, 1023, 1720, 2049, 6000, 6667, 10080,
        ] {
            assert_eq!(target(&format!("http://a.test:{port}/")), Err(RefusedTarget::Port(port)));
        }
        for port in [80, 443, 1024, 3000, 8080, 65_535] {
            assert_eq!(target(&format!("http://a.test:{port}/")).unwrap().port(), port);
        }
    }

    #[test]
    fn a_proxy_is_asked_for_the_same_targets() {
        let of = |text: &str, tunnel| Target::of_uri(&text.parse().unwrap(), tunnel);
        assert_eq!(of("a.test:443", true).unwrap().to_string(), "a.test:443");
        assert_eq!(of("http://A.test/x", false).unwrap().to_string(), "a.test:80");
        assert_eq!(of("a.test:25", true), Err(RefusedTarget::Port(25)));
        assert!(matches!(of("/x", false), Err(RefusedTarget::Scheme(_))));
        assert_eq!(of("[::1]:8443", true).unwrap().address(), Some("::1".parse().unwrap()));
    }
}
