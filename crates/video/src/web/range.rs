//! Which bytes of a file a request wants: RFC 9110, section 14, with one range.

use http::HeaderMap;
use http::header::{IF_NONE_MATCH, IF_RANGE, RANGE};

/// What of a file is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it.
    Whole,
    /// This part: its first byte and its length, which is not 0.
    Part(u64, u64),
    /// A part that the file does not have.
    Nothing,
}

/// Reads the range of a request for a file of this length with this tag.
pub(super) fn wanted(headers: &HeaderMap, tag: &str, length: u64) -> Wanted {
    let Some(range) = headers.get(RANGE) else { return Wanted::Whole };
    if headers.get(IF_RANGE).is_some_and(|known| known.as_bytes() != tag.as_bytes()) {
        return Wanted::Whole;
    }
    let spec = range.to_str().ok().and_then(|text| text.strip_prefix("bytes="));
    // What is not understood, or asks for several parts, is answered as if it was not asked: the RFC allows that.
    spec.and_then(|spec| part(spec.trim(), length)).unwrap_or(Wanted::Whole)
}

fn part(spec: &str, length: u64) -> Option<Wanted> {
    let (first, last) = spec.split_once('-')?;
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    let (begin, end) = match (first, last) {
        ("", count) => (length.saturating_sub(number(count)?), length),
        (first, "") => (number(first)?, length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(length))
        }
    };
    if begin < end { Some(Wanted::Part(begin, end - begin)) } else { Some(Wanted::Nothing) }
}

/// Whether the caller says that it has the file with this tag already.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|text| text.split(',')).map(str::trim).any(|known| {
        known == "*" || known == tag || known.strip_prefix("W/").is_some_and(|weak| weak == tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(range: &str, length: u64) -> Wanted {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, range.parse().unwrap());
        wanted(&headers, "\"a\"", length)
    }

    #[test]
    fn a_range_is_cut_to_the_file() {
        for (range, expected) in [
            ("bytes=0-0", Wanted::Part(0, 1)),
            ("bytes=0-", Wanted::Part(0, 10)),
            ("bytes=3-5", Wanted::Part(3, 3)),
            ("bytes=3-999", Wanted::Part(3, 7)),
            ("bytes=9-18446744073709551615", Wanted::Part(9, 1)),
            ("bytes=-4", Wanted::Part(6, 4)),
            ("bytes=-99", Wanted::Part(0, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-3", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=99999999999999999999-", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
        ] {
            assert_eq!(ask(range, 10), expected, "{range}");
        }
        assert_eq!(ask("bytes=0-", 0), Wanted::Nothing);
    }

    #[test]
    fn a_range_of_another_version_is_not_answered() {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, "bytes=1-2".parse().unwrap());
        headers.insert(IF_RANGE, "\"b\"".parse().unwrap());
        assert_eq!(wanted(&headers, "\"a\"", 10), Wanted::Whole);
        assert_eq!(wanted(&headers, "\"b\"", 10), Wanted::Part(1, 2));
    }

    #[test]
    fn a_known_tag_is_found_in_a_list() {
        let mut headers = HeaderMap::new();
        headers.insert(IF_NONE_MATCH, "\"x\", W/\"a\"".parse().unwrap());
        assert!(is_known(&headers, "\"a\"") && !is_known(&headers, "\"b\""));
    }
}
