//! Parts of something large: which bytes a request asks for, whether its sender has them already, and how the answer
//! says so. RFC 9110, sections 13 and 14, with one range. Where the bytes are is the caller's matter, unless they are a file.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::Path;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use crate::error::ApiError;

/// The value of `Cache-Control` for what never changes under its address. Only the caller's own cache may keep it:
/// others have no token.
pub const FOR_EVER: &str = "private, max-age=31536000, immutable";

/// Bytes that are read of a file at once.
const STEP: usize = 128 << 10;

/// Something of which parts can be asked for.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its entity tag, without quotes: another tag means other bytes.
    pub tag: String,
    /// Its bytes.
    pub size: u64,
    /// Of what type they are.
    pub content_type: &'static str,
    /// The value of `Cache-Control`.
    pub caching: &'static str,
}

/// What a request gets of an [`Offer`].
#[derive(Debug)]
pub enum Asked {
    /// Nothing more: this is the answer.
    Answered(Response),
    /// These bytes: get them, and give them to [`Part::answer`].
    Bytes(Part),
}

/// The part of an [`Offer`] that a request asks for.
#[derive(Debug)]
pub struct Part {
    offer: Offer,
    wanted: Wanted,
    is_head: bool,
}

impl Offer {
    /// What a request with this method and these headers gets.
    pub fn asked(self, method: &Method, headers: &HeaderMap) -> Asked {
        let tag = format!("\"{}\"", self.tag);
        let wanted = Wanted::new(method, headers, &tag, self.size);
        match wanted {
            Wanted::NotModified => {
                let caching = [(ETAG, tag), (CACHE_CONTROL, self.caching.to_owned())];
                Asked::Answered((StatusCode::NOT_MODIFIED, caching).into_response())
            }
            Wanted::Unsatisfiable => Asked::Answered(unsatisfiable(self.size)),
            Wanted::Whole | Wanted::Part { .. } => {
                Asked::Bytes(Part { offer: self, wanted, is_head: *method == Method::HEAD })
            }
        }
    }

    /// The answer to such a request, if the bytes are those at the beginning of this file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn of_file(
        self,
        path: &Path,
        method: &Method,
        headers: &HeaderMap,
    ) -> io::Result<Response> {
        let part = match self.asked(method, headers) {
            Asked::Answered(response) => return Ok(response),
            Asked::Bytes(part) => part,
        };
        let bytes = part.bytes();
        if bytes.is_empty() {
            return Ok(part.answer(Body::empty()));
        }
        let mut file = tokio::fs::File::open(path).await?;
        file.seek(SeekFrom::Start(bytes.start)).await?;
        let stream = ReaderStream::with_capacity(file.take(bytes.end - bytes.start), STEP);
        Ok(part.answer(Body::from_stream(stream)))
    }
}

impl Part {
    /// The bytes to send; none for a request that wants the headers only.
    pub fn bytes(&self) -> Range<u64> {
        if self.is_head { 0..0 } else { self.wanted.bytes(self.offer.size) }
    }

    /// The answer with these bytes.
    pub fn answer(self, body: Body) -> Response {
        let Self { offer, wanted, .. } = self;
        let status = match wanted {
            Wanted::Part { .. } => StatusCode::PARTIAL_CONTENT,
            _ => StatusCode::OK,
        };
        let part = wanted.bytes(offer.size);
        let mut response = (status, [(ETAG, format!("\"{}\"", offer.tag))], body).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(offer.caching));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(offer.content_type));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if let Some(range) = wanted.content_range(offer.size).and_then(|text| text.try_into().ok())
        {
            headers.insert(CONTENT_RANGE, range);
        }
        response
    }
}

fn unsatisfiable(size: u64) -> Response {
    let message = format!("there are {size} bytes; ask for a range within them");
    let error = ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_such_range", message);
    let range = Wanted::Unsatisfiable.content_range(size).unwrap_or_default();
    ([(CONTENT_RANGE, range)], error).into_response()
}

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing: the caller has it (304).
    NotModified,
    /// All of it (200).
    Whole,
    /// From the first of these bytes to the last, which is there (206).
    Part { first: u64, last: u64 },
    /// Bytes that are not there (416).
    Unsatisfiable,
}

impl Wanted {
    /// What a request gets of something with this tag, quotes included, and this size.
    pub(crate) fn new(method: &Method, headers: &HeaderMap, tag: &str, size: u64) -> Self {
        let mut known = headers.get_all(IF_NONE_MATCH).iter();
        if known.any(|value| lists(value.as_bytes(), tag)) {
            return Self::NotModified;
        }
        // A part of another version would not fit to what the caller has. A weak tag or a date is no promise.
        let fits = headers.get_all(IF_RANGE).iter().all(|value| value.as_bytes() == tag.as_bytes());
        let ranges: Vec<&HeaderValue> = headers.get_all(RANGE).iter().collect();
        // The headers of the whole are what HEAD is for.
        match ranges[..] {
            [range] if fits && *method == Method::GET => Self::part(range.as_bytes(), size),
            _ => Self::Whole,
        }
    }

    /// The bytes to send.
    fn bytes(self, size: u64) -> Range<u64> {
        match self {
            Self::NotModified | Self::Unsatisfiable => 0..0,
            Self::Whole => 0..size,
            Self::Part { first, last } => first..last + 1,
        }
    }

    /// The value of `Content-Range`, where there must be one.
    fn content_range(self, size: u64) -> Option<String> {
        match self {
            Self::NotModified | Self::Whole => None,
            Self::Part { first, last } => Some(format!("bytes {first}-{last}/{size}")),
            Self::Unsatisfiable => Some(format!("bytes */{size}")),
        }
    }

    /// A range that makes no sense, or several of them, are answered with the whole, as the standard allows.
    fn part(range: &[u8], size: u64) -> Self {
        let bounds = std::str::from_utf8(range).ok().and_then(|text| {
            let (unit, range) = text.trim().split_once('=')?;
            unit.eq_ignore_ascii_case("bytes").then(|| range.trim().split_once('-'))?
        });
        let Some((first, last)) = bounds else { return Self::Whole };
        match (Bound::new(first), Bound::new(last)) {
            (Bound::At(first), Bound::At(last)) if first > last => Self::Whole,
            (Bound::At(first), Bound::At(_) | Bound::None) if first >= size => Self::Unsatisfiable,
            (Bound::At(first), Bound::At(last)) => Self::Part { first, last: last.min(size - 1) },
            (Bound::At(first), Bound::None) => Self::Part { first, last: size - 1 },
            (Bound::None, Bound::At(count)) => match count.min(size) {
                0 => Self::Unsatisfiable,
                count => Self::Part { first: size - count, last: size - 1 },
            },
            _ => Self::Whole,
        }
    }
}

/// Whether a list of tags holds this one; weak ones count, because equal tags mean equal bytes here.
fn lists(list: &[u8], tag: &str) -> bool {
    let tags = std::str::from_utf8(list).unwrap_or_default().split(',').map(str::trim);
    let mut plain = tags.map(|known| known.strip_prefix("W/").unwrap_or(known));
    plain.any(|known| known == "*" || known == tag)
}

/// One end of a range.
enum Bound {
    None,
    At(u64),
    Bad,
}

impl Bound {
    fn new(text: &str) -> Self {
        if text.is_empty() {
            Self::None
        } else if text.bytes().all(|b| b.is_ascii_digit()) {
            // A number beyond all sizes is beyond this one too.
            Self::At(text.parse().unwrap_or(u64::MAX))
        } else {
            Self::Bad
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(method: &str, headers: &[(&str, &str)], size: u64) -> Wanted {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = http::HeaderName::try_from(*name).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        Wanted::new(&method.parse().unwrap(), &map, "\"a\"", size)
    }

    #[test]
    fn every_range_has_its_answer() {
        use Wanted::{Part, Unsatisfiable, Whole};
        let part = |first, last| Part { first, last };
        let huge = format!("bytes=0-{}", "9".repeat(30));
        let beyond = format!("bytes={}-", "9".repeat(30));
        let cases = [
            ("bytes=0-3", 10, part(0, 3)),
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=9-9", 10, part(9, 9)),
            ("bytes=4-", 10, part(4, 9)),
            ("bytes=0-99", 10, part(0, 9)),
            ("bytes=9-18446744073709551615", 10, part(9, 9)),
            (&huge, 10, part(0, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-99", 10, part(0, 9)),
            ("bytes= 2-3 ", 10, part(2, 3)),
            ("Bytes=2-3", 10, part(2, 3)),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            (&beyond, 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-1", 0, Unsatisfiable),
            ("bytes=3-2", 10, Whole),
            ("bytes=0-1,3-4", 10, Whole),
            ("bytes=a-b", 10, Whole),
            ("bytes=1-b", 10, Whole),
            ("bytes=20-b", 10, Whole),
            ("bytes=-", 10, Whole),
            ("bytes=", 10, Whole),
            ("bytes=+1-2", 10, Whole),
            ("lines=0-3", 10, Whole),
            ("", 10, Whole),
        ];
        for (range, size, expected) in cases {
            assert_eq!(wanted("GET", &[("range", range)], size), expected, "{range} of {size}");
        }
    }

    #[test]
    fn what_the_caller_has_is_not_sent_and_a_part_only_of_the_same() {
        let part = Wanted::Part { first: 1, last: 2 };
        let range = ("Range", "bytes=1-2");
        for (headers, expected) in [
            (&[][..], Wanted::Whole),
            (&[("if-none-match", "\"a\""), range], Wanted::NotModified),
            (&[("If-None-Match", "\"b\", W/\"a\"")], Wanted::NotModified),
            (&[("if-none-match", "\"b\""), ("if-none-match", "\"a\"")], Wanted::NotModified),
            (&[("if-none-match", "*")], Wanted::NotModified),
            (&[("if-none-match", "\"b\"")], Wanted::Whole),
            (&[("if-none-match", "\"b\""), range], part),
            (&[range, ("if-range", "\"a\"")], part),
            (&[range, ("if-range", "\"b\"")], Wanted::Whole),
            (&[range, ("if-range", "W/\"a\"")], Wanted::Whole),
            (&[range, ("if-range", "Sat, 01 Jan 2022 00:00:00 GMT")], Wanted::Whole),
            (&[range, range], Wanted::Whole),
        ] {
            assert_eq!(wanted("GET", headers, 10), expected, "{headers:?}");
        }
        assert_eq!(wanted("HEAD", &[range], 10), Wanted::Whole, "headers of the whole");
        assert_eq!(wanted("HEAD", &[("range", "bytes=99-")], 10), Wanted::Whole);
    }

    #[test]
    fn an_answer_says_which_bytes_it_has() {
        let part = Wanted::Part { first: 1, last: 2 };
        assert_eq!(
            (part.bytes(10), part.content_range(10).as_deref()),
            (1..3, Some("bytes 1-2/10"))
        );
        assert_eq!((Wanted::Whole.bytes(10), Wanted::Whole.content_range(10)), (0..10, None));
        assert_eq!(Wanted::Unsatisfiable.content_range(10).as_deref(), Some("bytes */10"));
        assert!(
            Wanted::NotModified.bytes(10).is_empty() && Wanted::Unsatisfiable.bytes(10).is_empty()
        );
    }
}
