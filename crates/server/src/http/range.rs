//! Which part of a blob a request asks for, and whether it has that already. Knows nothing about where the bytes are.

use http::header::{HeaderMap, IF_NONE_MATCH, IF_RANGE, RANGE};

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing: the caller has it.
    NotModified,
    /// All of it.
    Whole,
    /// From the first of these bytes to the last.
    Part {
        /// The first.
        first: u64,
        /// The last, which is there.
        last: u64,
    },
    /// Bytes that are not there.
    Unsatisfiable,
}

impl Wanted {
    /// What these headers ask of something with this tag and size.
    pub(crate) fn new(headers: &HeaderMap, tag: &str, size: u64) -> Self {
        if let Some(known) = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok())
            && known
                .split(',')
                .map(str::trim)
                .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
        {
            return Self::NotModified;
        }
        // A part of another version would not fit to what the caller has.
        let fits = headers.get(IF_RANGE).is_none_or(|value| value.as_bytes() == tag.as_bytes());
        match headers.get(RANGE).and_then(|value| value.to_str().ok()) {
            Some(range) if fits => Self::part(range, size),
            _ => Self::Whole,
        }
    }

    /// A range that makes no sense, or several of them, are answered with the whole, as the standard allows.
    fn part(range: &str, size: u64) -> Self {
        let Some((first, last)) =
            range.trim().strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
        else {
            return Self::Whole;
        };
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
    use http::HeaderValue;

    use super::*;

    #[test]
    fn every_range_has_its_answer() {
        use Wanted::{Part, Unsatisfiable, Whole};
        let part = |first, last| Part { first, last };
        let huge = format!("bytes=0-{}", "9".repeat(30));
        let cases = [
            ("bytes=0-3", 10, part(0, 3)),
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=9-9", 10, part(9, 9)),
            ("bytes=4-", 10, part(4, 9)),
            ("bytes=0-99", 10, part(0, 9)),
            (&huge, 10, part(0, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-99", 10, part(0, 9)),
            ("bytes= 2-3 ", 10, part(2, 3)),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-1", 0, Unsatisfiable),
            ("bytes=3-2", 10, Whole),
            ("bytes=0-1,3-4", 10, Whole),
            ("bytes=a-b", 10, Whole),
            ("bytes=1-b", 10, Whole),
            ("bytes=20-b", 10, Whole),
            ("bytes=-", 10, Whole),
            ("bytes=+1-2", 10, Whole),
            ("lines=0-3", 10, Whole),
            ("", 10, Whole),
        ];
        for (range, size, wanted) in cases {
            assert_eq!(Wanted::part(range, size), wanted, "{range} of {size}");
        }
    }

    #[test]
    fn what_the_caller_has_is_not_sent_and_a_part_only_of_the_same() {
        let wanted = |pairs: &[(&'static str, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            Wanted::new(&headers.collect(), "\"a\"", 10)
        };
        let part = Wanted::Part { first: 1, last: 2 };
        assert_eq!(wanted(&[]), Wanted::Whole);
        assert_eq!(
            wanted(&[("if-none-match", "\"a\""), ("range", "bytes=1-2")]),
            Wanted::NotModified
        );
        assert_eq!(wanted(&[("if-none-match", "\"b\", W/\"a\"")]), Wanted::NotModified);
        assert_eq!(wanted(&[("if-none-match", "*")]), Wanted::NotModified);
        assert_eq!(wanted(&[("if-none-match", "\"b\"")]), Wanted::Whole);
        assert_eq!(wanted(&[("if-range", "\"a\""), ("range", "bytes=1-2")]), part);
        assert_eq!(wanted(&[("if-range", "\"b\""), ("range", "bytes=1-2")]), Wanted::Whole);
        assert_eq!(wanted(&[("if-range", "W/\"a\""), ("range", "bytes=1-2")]), Wanted::Whole);
    }
}
