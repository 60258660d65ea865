//! What a page is called: one spelling for all spellings of an address that a server cannot tell apart.
//!
//! The `url` crate resolves, lower-cases hosts, drops default ports and removes `.` and `..`. On top of it an [`Address`]
//! has no fragment and no user name or password, no dot at the end of its host, upper-case hexadecimals after `%`, no
//! empty query, and none of the [session parameters](Rules::session_parameters). Parameters are never sorted and
//! nothing is decoded, because servers may tell those apart.
//!
//! It does not know which addresses a crawl wants: [`Scope`] says which are inside, [`Rules::trap`] which lead nowhere.

mod rules;
mod scope;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::{Host, Position, Url};
use xxhash_rust::xxh3::xxh3_64;

pub use rules::{Rules, Trap};
pub use scope::{Reach, Scope};

/// The canonical address of a page: `http` or `https`, with a host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Cow<'_, str>", into = "String")]
pub struct Address(Url);

/// Why a text is not the address of a page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It cannot be read as an address.
    #[error("this is not an address: {0}")]
    Unreadable(url::ParseError),
    /// It is read by something else than a crawler, such as `mailto` or `javascript`.
    #[error("the scheme `{0}` is not crawled, only http and https are")]
    Scheme(String),
    /// Its host is missing, or has an empty part.
    #[error("the host of the address is missing or has an empty part")]
    Host,
    /// It is longer than any address that is kept.
    #[error("the address has {bytes} bytes, more than the {max} of the rule `bytes_max`")]
    Long {
        /// What it has.
        bytes: usize,
        /// What it may have.
        max: usize,
    },
}

impl Address {
    /// The address that a link on the page `base` stands for, without what `rules` name as parameters of sessions.
    ///
    /// # Errors
    ///
    /// Says why the link leads to no page.
    pub fn resolve(base: &Self, link: &str, rules: &Rules) -> Result<Self, Refusal> {
        rules.check_bytes(link.len())?;
        canonical(base.0.join(link).map_err(Refusal::Unreadable)?, &rules.session_parameters)
    }

    /// The address that a whole address stands for, such as a seed or the target of a sitemap.
    ///
    /// # Errors
    ///
    /// Says why it leads to no page.
    pub fn read(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        rules.check_bytes(text.len())?;
        canonical(Url::parse(text).map_err(Refusal::Unreadable)?, &rules.session_parameters)
    }

    /// The whole address.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The address as the `url` crate has it.
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.0.scheme()
    }

    /// The name or number of the host, without its port; version 6 addresses in brackets.
    pub fn host(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterHost]
    }

    /// The port, given or usual for the scheme.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// What politeness is owed to: the host, with its port if that is unusual. `http` and `https` of a host are one.
    pub fn host_key(&self) -> &str {
        &self.0[Position::BeforeHost..Position::AfterPort]
    }

    /// Scheme, host and port: what one `robots.txt` is valid for.
    pub fn origin(&self) -> &str {
        &self.0[..Position::AfterPort]
    }

    /// What is asked of the host.
    pub fn path_and_query(&self) -> &str {
        &self.0[Position::BeforePath..]
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether the host is a number rather than a name.
    pub fn is_number(&self) -> bool {
        matches!(self.0.host(), Some(Host::Ipv4(_) | Host::Ipv6(_)))
    }

    /// The domain that somebody registered, by the public suffix list: `example.co.uk` of `a.b.example.co.uk`. Hosts
    /// without one stand for themselves: numbers, suffixes, names without a dot.
    pub fn registrable(&self) -> &str {
        match self.0.host() {
            Some(Host::Domain(name)) => registrable(name),
            _ => self.host(),
        }
    }

    /// A number that stands for the address; two addresses share one by chance of one in 2^64.
    pub fn fingerprint(&self) -> u64 {
        xxh3_64(self.as_str().as_bytes())
    }
}

/// The domain that somebody registered of the name of a host, which must not be a number.
pub fn registrable(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

/// The canonical spelling. Almost all addresses are already spelt so and are only looked at.
fn canonical(mut url: Url, sessions: &[String]) -> Result<Address, Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme(url.scheme().to_owned()));
    }
    url.set_fragment(None);
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(Refusal::Host)?;
    let tail = &url[Position::BeforePath..];
    let is_plain = !host.ends_with('.')
        && url.username().is_empty()
        && url.password().is_none()
        && !tail.bytes().any(|byte| matches!(byte, b'%' | b'?' | b';'));
    if is_plain {
        return Ok(Address(url));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || host.ends_with('.') {
        return Err(Refusal::Host);
    }
    let mut text = String::with_capacity(url.as_str().len());
    text.push_str(&url[..Position::AfterScheme]);
    text.push_str("://");
    text.push_str(host);
    text.push_str(&url[Position::AfterHost..Position::AfterPort]);
    push_upper_percents(&mut text, &path_without_sessions(url.path(), sessions));
    let query = query_without_sessions(url.query().unwrap_or_default(), sessions);
    if !query.is_empty() {
        text.push('?');
        push_upper_percents(&mut text, &query);
    }
    if text == url.as_str() {
        return Ok(Address(url));
    }
    Url::parse(&text).map(Address).map_err(Refusal::Unreadable)
}

/// Removes `;jsessionid=…` and its like from the segments of a path.
fn path_without_sessions<'a>(path: &'a str, sessions: &[String]) -> Cow<'a, str> {
    if !path.contains(';') {
        return Cow::Borrowed(path);
    }
    let mut kept = String::with_capacity(path.len());
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            kept.push('/');
        }
        for (at, part) in segment.split(';').enumerate() {
            // What stands before the first semicolon is a name, not a parameter.
            if at == 0 {
                kept.push_str(part);
            } else if !is_session(part, sessions) {
                kept.push(';');
                kept.push_str(part);
            }
        }
    }
    Cow::Owned(kept)
}

fn query_without_sessions<'a>(query: &'a str, sessions: &[String]) -> Cow<'a, str> {
    if !query.split('&').any(|parameter| is_session(parameter, sessions)) {
        return Cow::Borrowed(query);
    }
    let mut kept = String::with_capacity(query.len());
    for parameter in query.split('&').filter(|parameter| !is_session(parameter, sessions)) {
        if !kept.is_empty() {
            kept.push('&');
        }
        kept.push_str(parameter);
    }
    Cow::Owned(kept)
}

/// Whether a parameter has one of the names, whatever their case; a name that ends with `*` stands for all that begin so.
fn is_session(parameter: &str, sessions: &[String]) -> bool {
    let name = parameter.split_once('=').map_or(parameter, |(name, _)| name).as_bytes();
    sessions.iter().any(|session| match session.strip_suffix('*') {
        Some(start) => name
            .get(..start.len())
            .is_some_and(|begin| begin.eq_ignore_ascii_case(start.as_bytes())),
        None => name.eq_ignore_ascii_case(session.as_bytes()),
    })
}

fn push_upper_percents(text: &mut String, part: &str) {
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        text.push('%');
        match after.get(..2).filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            Some(two) => {
                text.extend(two.chars().map(|digit| digit.to_ascii_uppercase()));
                rest = &after[2..];
            }
            None => rest = after,
        }
    }
    text.push_str(rest);
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Reads an address as it was kept: canonical, with whatever parameters it has.
impl FromStr for Address {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        canonical(Url::parse(text).map_err(Refusal::Unreadable)?, &[])
    }
}

impl TryFrom<Cow<'_, str>> for Address {
    type Error = Refusal;

    fn try_from(text: Cow<'_, str>) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.0.into()
    }
}
