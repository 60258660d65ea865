//! Records of WARC 1.1 (ISO 28500:2017): what was asked and what was answered, each packed by itself, so that one record
//! can be read from the middle of a file.
//!
//! Bodies are kept as they are after decoding. So that a reader finds a consistent response, its header then names the
//! length of what is there, and the encodings that were removed under names that begin with `X-Crawler-`, as Common Crawl
//! does. Nothing is written that has a line break in a header, because that is how one record would forge another.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{StatusCode, Version};
use sha1::{Digest as _, Sha1};
use uuid::Uuid;

use super::OutputError;
use super::record::moment;

/// Headers that speak of the body as it was on the wire.
const ENCODINGS: [&str; 3] = ["content-encoding", "transfer-encoding", "content-length"];

/// What went over the wire for one page.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// When the request was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// `GET` or another method.
    pub method: &'a str,
    /// What was asked for: the path and the query.
    pub target: &'a str,
    /// The headers of the request, in their order.
    pub request: &'a [(&'a str, &'a [u8])],
    /// By which HTTP it went and was answered. Readers of archives know the form of version 1.1 only, so both are written
    /// in that, and another version is told beside it.
    pub version: Version,
    /// The status of the response.
    pub status: u16,
    /// The headers of the response, in their order.
    pub response: &'a [(&'a str, &'a [u8])],
    /// The body, with content and transfer encodings removed.
    pub body: &'a [u8],
    /// Whether the body was cut at a limit.
    pub truncated: bool,
}

/// A response and its request, packed.
#[derive(Debug)]
pub(super) struct Records {
    /// The response, a whole gzip member.
    pub(super) response: Vec<u8>,
    /// The request, the same.
    pub(super) request: Vec<u8>,
    /// The digest of the body, without its label.
    pub(super) digest: String,
}

impl Records {
    /// Packs an exchange.
    pub(super) fn new(url: &str, exchange: &Exchange<'_>) -> Result<Self, OutputError> {
        let digest = sha1_of(&[exchange.body]);
        let id = Uuid::now_v7();
        let mut head = Head::new("response", id, exchange.at_ms);
        head.add("WARC-Target-URI", url)?;
        if let Some(ip) = exchange.ip {
            head.add("WARC-IP-Address", &ip.to_string())?;
        }
        head.add_protocol(exchange.version)?;
        if exchange.truncated {
            head.add("WARC-Truncated", "length")?;
        }
        head.add("WARC-Payload-Digest", &format!("sha1:{digest}"))?;
        head.add("Content-Type", "application/http;msgtype=response")?;
        let response = head.pack(&[&response_head(exchange)?, exchange.body])?;

        let mut head = Head::new("request", Uuid::now_v7(), exchange.at_ms);
        head.add("WARC-Target-URI", url)?;
        head.add("WARC-Concurrent-To", &format!("<urn:uuid:{id}>"))?;
        head.add_protocol(exchange.version)?;
        head.add("Content-Type", "application/http;msgtype=request")?;
        let request = head.pack(&[&request_head(exchange)?])?;
        Ok(Self { response, request, digest })
    }
}

/// The first record of a file: who wrote it.
pub(super) fn info(file: &str, agent: &str, at_ms: u64) -> Result<Vec<u8>, OutputError> {
    let mut head = Head::new("warcinfo", Uuid::now_v7(), at_ms);
    head.add("WARC-Filename", file)?;
    head.add("Content-Type", "application/warc-fields")?;
    let mut fields = Vec::new();
    let software = concat!("divvy/", env!("CARGO_PKG_VERSION"));
    for (name, value) in [
        ("software", software),
        ("format", "WARC File Format 1.1"),
        (
            "conformsTo",
            "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        ),
        ("http-header-user-agent", agent),
    ] {
        push_header(&mut fields, name, value.as_bytes())?;
    }
    head.pack(&[&fields])
}

/// The header of a record.
struct Head(String);

impl Head {
    fn new(kind: &str, id: Uuid, at_ms: u64) -> Self {
        let date = moment(at_ms);
        Self(format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{id}>\r\nWARC-Date: {date:.3}\r\n"
        ))
    }

    fn add(&mut self, name: &str, value: &str) -> Result<(), OutputError> {
        check(name, value.as_bytes())?;
        // Writing to a string does not fail.
        let _ = write!(self.0, "{name}: {value}\r\n");
        Ok(())
    }

    /// Which HTTP it was, under the names that TLS has for them, as other crawlers do.
    fn add_protocol(&mut self, version: Version) -> Result<(), OutputError> {
        let name = if version == Version::HTTP_2 { "h2" } else { "http/1.1" };
        self.add("WARC-Protocol", name)
    }

    /// The record as one gzip member. What little gzip could gain by more effort costs four times the time.
    fn pack(mut self, block: &[&[u8]]) -> Result<Vec<u8>, OutputError> {
        let length: usize = block.iter().map(|part| part.len()).sum();
        self.add("WARC-Block-Digest", &format!("sha1:{}", sha1_of(block)))?;
        self.add("Content-Length", &length.to_string())?;
        self.0.push_str("\r\n");
        let mut packer = GzEncoder::new(Vec::with_capacity(length / 3 + 512), Compression::new(1));
        let parts = std::iter::once(self.0.as_bytes()).chain(block.iter().copied());
        parts
            .chain([b"\r\n\r\n".as_slice()])
            .try_for_each(|part| packer.write_all(part))
            .and_then(|()| packer.finish())
            .map_err(|source| OutputError::File {
                verb: "pack a record for",
                path: "the archive".into(),
                source,
            })
    }
}

fn request_head(exchange: &Exchange<'_>) -> Result<Vec<u8>, OutputError> {
    check("the line of the request", exchange.method.as_bytes())?;
    check("the line of the request", exchange.target.as_bytes())?;
    let mut head = format!("{} {} HTTP/1.1\r\n", exchange.method, exchange.target).into_bytes();
    for (name, value) in exchange.request {
        push_header(&mut head, name, value)?;
    }
    head.extend(b"\r\n");
    Ok(head)
}

fn response_head(exchange: &Exchange<'_>) -> Result<Vec<u8>, OutputError> {
    let reason =
        StatusCode::from_u16(exchange.status).ok().and_then(|status| status.canonical_reason());
    let mut head =
        format!("HTTP/1.1 {:03} {}\r\n", exchange.status, reason.unwrap_or_default()).into_bytes();
    for (name, value) in exchange.response {
        if ENCODINGS.iter().any(|encoding| encoding.eq_ignore_ascii_case(name)) {
            push_header(&mut head, &format!("X-Crawler-{name}"), value)?;
        } else {
            push_header(&mut head, name, value)?;
        }
    }
    push_header(&mut head, "Content-Length", exchange.body.len().to_string().as_bytes())?;
    head.extend(b"\r\n");
    Ok(head)
}

fn push_header(head: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), OutputError> {
    check(name, name.as_bytes())?;
    check(name, value)?;
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend(part);
    }
    Ok(())
}

fn check(name: &str, text: &[u8]) -> Result<(), OutputError> {
    if text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(OutputError::LineBreak(name.escape_debug().to_string()));
    }
    Ok(())
}

/// The digest as archives write it: SHA-1 in base 32.
fn sha1_of(parts: &[&[u8]]) -> String {
    let mut hasher = Sha1::new();
    for part in parts {
        hasher.update(part);
    }
    base32(&hasher.finalize())
}

/// Base 32 of RFC 4648; digests of SHA-1 need no padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for five in bytes.chunks(5) {
        let mut eight = [0; 8];
        eight[3..3 + five.len()].copy_from_slice(five);
        let number = u64::from_be_bytes(eight);
        for at in (0..(five.len() * 8).div_ceil(5)).map(|letter| 35 - 5 * letter) {
            text.push(char::from(LETTERS[usize::try_from(number >> at & 31).unwrap_or_default()]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_as_others_write_them() {
        // The digest of nothing, as every archive knows it.
        assert_eq!(sha1_of(&[]), "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ");
        assert_eq!(sha1_of(&[b"ab", b"c"]), "VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(base32(b"foobar"), "MZXW6YTBOI");
    }
}
