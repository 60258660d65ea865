//! WARC 1.1.

use std::net::IpAddr;

/// What went over the wire for one page.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// When the request was sent, in milliseconds since 1970.
    pub at_ms: u64,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// `GET` or another method.
    pub method: &'a str,
    /// The headers of the request, in their order.
    pub request: &'a [(&'a str, &'a [u8])],
    /// The status of the response.
    pub status: u16,
    /// The headers of the response, in their order.
    pub response: &'a [(&'a str, &'a [u8])],
    /// The body, with content and transfer encodings removed.
    pub body: &'a [u8],
    /// Whether the body was cut at a limit.
    pub truncated: bool,
}
