//! Which part of a blob or a file a request over HTTP asks for, and whether it has that already: RFC 9110, sections 13
//! and 14, with one range. Pure: knows nothing about where the bytes are, nor which types headers have.

use std::ops::Range;

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: the caller has it (304).
    NotModified,
    /// All of it (200).
    Whole,
    /// From the first of these bytes to the last (206).
    Part {
        /// The first.
        first: u64,
        /// The last, which is there.
        last: u64,
    },
    /// Bytes that are not there (416).
    Unsatisfiable,
}

impl Wanted {
    /// What a request with this method and these headers, names and values, gets of something with this tag, quotes
    /// included, and this size.
    pub fn new<'a>(
        method: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        tag: &str,
        size: u64,
    ) -> Self {
        let (mut ranges, mut fits) = (Vec::new(), true);
        let mut is_known = false;
        for (name, value) in headers {
            match name.to_ascii_lowercase().as_str() {
                "if-none-match" => is_known |= lists(value, tag),
                // A part of another version would not fit to what the caller has. A weak tag or a date is no promise.
                "if-range" => fits &= value == tag.as_bytes(),
                "range" => ranges.push(value),
                _ => (),
            }
        }
        if is_known {
            return Self::NotModified;
        }
        // The headers of the whole are what HEAD is for.
        match ranges[..] {
            [range] if fits && method == "GET" => Self::part(range, size),
            _ => Self::Whole,
        }
    }

    /// The bytes to send.
    pub fn bytes(self, size: u64) -> Range<u64> {
        match self {
            Self::NotModified | Self::Unsatisfiable => 0..0,
            Self::Whole => 0..size,
            Self::Part { first, last } => first..last + 1,
        }
    }

    /// The value of `Content-Range`, where there must be one.
    pub fn content_range(self, size: u64) -> Option<String> {
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
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        Wanted::new(method, headers, "\"a\"", size)
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
