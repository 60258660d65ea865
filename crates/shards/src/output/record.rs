//! One page as a line of JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_128;

use crate::page::{Directives, Link};

/// What is kept of a page, fetched or failed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record<'a> {
    /// The address that was asked for.
    pub url: &'a str,
    /// The address that answered; another one only for rendered pages, because redirects are pages of their own.
    pub final_url: &'a str,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// When it was fetched, in milliseconds since 1970; written as text.
    #[serde(serialize_with = "as_time")]
    pub fetched_at: u64,
    /// Where a redirect leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<&'a str>,
    /// The type of the content, as the server said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<&'a str>,
    /// Bytes of the body, decoded.
    pub bytes: u64,
    /// Whether the body was cut at a limit.
    #[serde(skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// Whether a browser made it.
    #[serde(skip_serializing_if = "is_false")]
    pub rendered: bool,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// Where it says that it really lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<&'a str>,
    /// Its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<&'a str>,
    /// What it asks of robots.
    pub robots: Directives,
    /// Where it leads.
    pub links: &'a [Link],
    /// The hash of its body, see [`digest`].
    #[serde(skip_serializing_if = "str::is_empty")]
    pub digest: &'a str,
    /// The fingerprint of its text, as 16 hexadecimals, since JSON has no whole numbers of 64 bits.
    #[serde(serialize_with = "as_hexadecimals")]
    pub simhash: u64,
    /// Links from a seed.
    pub depth: u32,
    /// What the rules of the crawl found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extracted: Option<&'a BTreeMap<String, Vec<String>>>,
}

/// The hash of a body: `xxh3:` and 32 hexadecimals.
pub fn digest(body: &[u8]) -> String {
    format!("xxh3:{:032x}", xxh3_128(body))
}

/// A time as a person reads it.
pub(super) fn moment(at_ms: u64) -> Timestamp {
    i64::try_from(at_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .unwrap_or(Timestamp::MAX)
}

fn as_time<S: Serializer>(at_ms: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:.3}", moment(*at_ms)))
}

fn as_hexadecimals<S: Serializer>(simhash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{simhash:016x}"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_false(value: &bool) -> bool {
    !value
}
