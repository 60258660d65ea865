//! Who the crawler says it is. A host that is troubled by it must be able to find somebody to talk to, so the text names a
//! product, which robots.txt files can address, and a contact. Without one only this machine is asked.

use std::fmt;
use std::str::FromStr;

use divvy_frontier::robots::product_token;
use http::HeaderValue;
use thiserror::Error;

/// The longest user agent.
pub const USER_AGENT_BYTES_MAX: usize = 256;
/// What the crawler calls itself on this machine, if it was not told.
const LOOPBACK: &str = concat!("divvybot/", env!("CARGO_PKG_VERSION"));

/// A user agent such as `examplebot/1.0 (+https://example.org/bot)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAgent {
    value: HeaderValue,
    product: String,
    has_contact: bool,
}

/// A user agent that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidUserAgent {
    /// It does not begin with a product.
    #[error(
        "user agent `{0}` does not begin with a name of letters, `-` and `_`; write it as 'examplebot/1.0 (+https://example.org/bot)'"
    )]
    Product(String),
    /// It names nobody to talk to.
    #[error(
        "user agent `{0}` names no contact; add a URL or a mail address, as in 'examplebot/1.0 (+https://example.org/bot)'"
    )]
    Contact(String),
    /// It is no text for a header.
    #[error(
        "the user agent has more than {USER_AGENT_BYTES_MAX} bytes or characters that a header cannot hold"
    )]
    Text,
}

impl UserAgent {
    /// What is sent to this machine if nothing was set; it goes nowhere else.
    pub fn loopback() -> Self {
        Self {
            value: HeaderValue::from_static(LOOPBACK),
            product: product_token(LOOPBACK).unwrap_or_default().to_owned(),
            has_contact: false,
        }
    }

    /// What robots.txt files call the crawler.
    pub fn product(&self) -> &str {
        &self.product
    }

    /// The header.
    pub fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// Whether it says whom to talk to, so that other machines may be asked.
    pub fn has_contact(&self) -> bool {
        self.has_contact
    }
}

impl Default for UserAgent {
    fn default() -> Self {
        Self::loopback()
    }
}

impl FromStr for UserAgent {
    type Err = InvalidUserAgent;

    fn from_str(text: &str) -> Result<Self, InvalidUserAgent> {
        let text = text.trim();
        let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.len() > USER_AGENT_BYTES_MAX || !is_plain {
            return Err(InvalidUserAgent::Text);
        }
        let product =
            product_token(text).ok_or_else(|| InvalidUserAgent::Product(text.to_owned()))?;
        let has_contact = ["http://", "https://", "@"].iter().any(|sign| text.contains(sign));
        if !has_contact {
            return Err(InvalidUserAgent::Contact(text.to_owned()));
        }
        let value = HeaderValue::from_str(text).map_err(|_| InvalidUserAgent::Text)?;
        Ok(Self { value, product: product.to_owned(), has_contact })
    }
}

impl fmt::Display for UserAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.value.to_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_names_a_product_and_a_contact() {
        let agent: UserAgent = "example-bot/1.0 (+https://example.org/bot)".parse().unwrap();
        assert_eq!((agent.product(), agent.has_contact()), ("example-bot", true));
        assert_eq!("bot (crawl@example.org)".parse::<UserAgent>().unwrap().product(), "bot");
        let refused = |text: &str| text.parse::<UserAgent>().unwrap_err();
        assert!(matches!(refused("examplebot/1.0"), InvalidUserAgent::Contact(_)));
        assert!(matches!(refused("bot2000 (+https://a.test)"), InvalidUserAgent::Product(_)));
        assert!(matches!(refused("(+https://a.test)"), InvalidUserAgent::Product(_)));
        assert_eq!(refused("bot\r\nx: y (+https://a.test)"), InvalidUserAgent::Text);
        assert_eq!(refused(&"a".repeat(300)), InvalidUserAgent::Text);
        assert!(!UserAgent::loopback().has_contact());
    }
}
