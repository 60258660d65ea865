//! What came back. Only what the response says; what is in the page is found by others.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use divvy_frontier::robots::retry_after_ms;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED, RETRY_AFTER};
use http::{HeaderMap, Version};
use serde::{Deserialize, Serialize};
use url::Url;

use super::charset::{self, Charset};

/// The longest validator that is kept.
const VALIDATOR_BYTES_MAX: usize = 256;

/// An answer.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its status.
    pub status: u16,
    /// Which HTTP it came by.
    pub version: Version,
    /// The headers of the request, as they went.
    pub request: HeaderMap,
    /// Its headers, as they came: `content-encoding` and `content-length` speak of the bytes that travelled.
    pub headers: HeaderMap,
    /// Its body, decoded, or the beginning of it.
    pub body: Bytes,
    /// Why the body is not whole, if it is not.
    pub truncated: Option<Truncation>,
    /// Where it sends on to: http or https, without fragment, user and password. A redirect that leads nowhere has none.
    pub redirect: Option<Url>,
    /// The bytes of the body that travelled.
    pub wire_bytes: u64,
    /// The address that answered.
    pub address: SocketAddr,
    /// How long it took.
    pub timings: Timings,
}

/// Why a body was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// Too many bytes travelled.
    Wire,
    /// It became too large by decoding.
    Decoded,
    /// It became too much larger by decoding: a bomb.
    Ratio,
    /// Its encoding is not known, or there are too many; nothing of it is there.
    Encoding,
    /// Its encoding is broken; what could be decoded before is there.
    Broken,
}

/// How long the parts of a fetch took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// To resolve, connect and agree on TLS; nothing if the connection was there.
    pub connect: Option<Duration>,
    /// From the request to the head of the answer.
    pub first_byte: Duration,
    /// From the beginning to the end.
    pub whole: Duration,
}

/// What a host said about the version that it gave, to ask later whether there is another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    /// Of `ETag`.
    pub etag: Option<String>,
    /// Of `Last-Modified`.
    pub last_modified: Option<String>,
}

impl Fetched {
    /// A header as text.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What the host says the body is, without parameters, in the host's letters: `text/html`.
    pub fn media_type(&self) -> &str {
        let whole = self.header(&CONTENT_TYPE).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }

    /// Whether the body is HTML, by what the host says or, if it says nothing, by how it begins.
    pub fn is_html(&self) -> bool {
        let media_type = self.media_type();
        if media_type.is_empty() {
            return self.body.trim_ascii_start().starts_with(b"<");
        }
        ["text/html", "application/xhtml+xml"]
            .iter()
            .any(|html| media_type.eq_ignore_ascii_case(html))
    }

    /// How the body is to be read as text.
    pub fn charset(&self) -> Charset {
        charset::detect(&self.body, self.header(&CONTENT_TYPE))
    }

    /// Whether the page is the same as the one that the validators were of.
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }

    /// What to send along the next time.
    pub fn validators(&self) -> Validators {
        let value = |name| {
            let value: &str = self.header(&name)?;
            (value.len() <= VALIDATOR_BYTES_MAX).then(|| value.to_owned())
        };
        Validators { etag: value(ETAG), last_modified: value(LAST_MODIFIED) }
    }

    /// How long the host asks to be left alone.
    pub fn retry_after_ms(&self, now_ms: u64) -> Option<u64> {
        retry_after_ms(self.header(&RETRY_AFTER)?, now_ms)
    }
}
