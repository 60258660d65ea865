//! What the bytes of a page mean as text: by its byte order mark, else by what the host says, else by what the page says
//! within its first bytes, else by what it looks like. That is the order of browsers (HTML, 13.2.3.2).
//!
//! Only finds the encoding; who reads a page streaming gives it to its parser, who needs a text calls [`Charset::text`].

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// How far into a page its own word about its encoding is looked for.
const PRESCAN_BYTES: usize = 1024;
/// How much of a page is looked at to guess.
const GUESS_BYTES: usize = 64 * 1024;

/// The encoding of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    /// Which it is.
    pub encoding: &'static Encoding,
    /// How that is known.
    pub source: Source,
    /// Bytes at the beginning that are no text: the byte order mark.
    pub mark_bytes: usize,
}

/// How an encoding is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the byte order mark.
    Mark,
    /// By the header.
    Header,
    /// By the page.
    Page,
    /// By what it looks like.
    Guess,
}

impl Charset {
    /// The text of a body of that encoding, without byte order mark. What cannot be read becomes U+FFFD.
    pub fn text<'a>(&self, body: &'a [u8]) -> Cow<'a, str> {
        let body = &body[self.mark_bytes..];
        // Nearly all pages need no decoder, and decoders are compiled to be small.
        match str::from_utf8(body) {
            Ok(text) if self.encoding == UTF_8 => Cow::Borrowed(text),
            _ => self.encoding.decode_without_bom_handling(body).0,
        }
    }
}

/// Finds the encoding of a body with that header `content-type`.
pub fn detect(body: &[u8], content_type: Option<&str>) -> Charset {
    let known = |encoding, source| Charset { encoding, source, mark_bytes: 0 };
    if let Some((encoding, mark_bytes)) = Encoding::for_bom(body) {
        return Charset { encoding, source: Source::Mark, mark_bytes };
    }
    if let Some(encoding) = content_type.and_then(of_header) {
        return known(encoding, Source::Header);
    }
    if let Some(encoding) = of_page(&body[..body.len().min(PRESCAN_BYTES)]) {
        return known(encoding, Source::Page);
    }
    known(guess(body), Source::Guess)
}

/// The charset of `text/html; charset="utf-8"`.
fn of_header(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let label = value.trim().trim_matches(['"', '\'']);
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| Encoding::for_label(label.as_bytes()))?
    })
}

fn guess(body: &[u8]) -> &'static Encoding {
    let head = &body[..body.len().min(GUESS_BYTES)];
    if head.is_ascii() && head.len() == body.len() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(head, head.len() == body.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// What a page says of itself in a `meta` element: `<meta charset=…>` or `<meta … content="text/html; charset=…">`.
fn of_page(head: &[u8]) -> Option<&'static Encoding> {
    let mut rest = head;
    while let Some(start) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix(b"!--") {
            // What is in a comment is not said.
            let end = after.windows(3).position(|three| three == b"-->")?;
            rest = &after[end + 3..];
            continue;
        }
        let (name, tag) = rest.split_at_checked(4)?;
        let goes_on = tag.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/');
        if name.eq_ignore_ascii_case(b"meta") && goes_on {
            let end = tag.iter().position(|byte| *byte == b'>')?;
            if let Some(encoding) = of_meta(&tag[..end]) {
                return Some(encoding);
            }
        }
    }
    None
}

/// The label after `charset=` in a `meta` element, wherever it stands in it.
fn of_meta(tag: &[u8]) -> Option<&'static Encoding> {
    let word = b"charset";
    let at = tag.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))?;
    let value = tag[at + word.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let is_end =
        |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b'>' | b'/');
    let end = value.iter().position(is_end).unwrap_or(value.len());
    let encoding = Encoding::for_label(&value[..end])?;
    // A page that can be read so far is not in UTF-16, whatever it says (HTML, 13.2.3.2).
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::Strategy as _;

    use super::*;

    fn found(body: &[u8], content_type: Option<&str>) -> (&'static str, Source) {
        let charset = detect(body, content_type);
        (charset.encoding.name(), charset.source)
    }

    #[test]
    fn mark_header_page_and_guess_decide_in_this_order() {
        let meta = b"<html><head><meta charset=\"shift_jis\">".as_slice();
        let marked = [b"\xEF\xBB\xBF".as_slice(), meta].concat();
        let latin = Some("text/html; Charset=\"ISO-8859-1\"");
        assert_eq!(found(&marked, latin), ("UTF-8", Source::Mark));
        assert_eq!(found(meta, latin), ("windows-1252", Source::Header));
        assert_eq!(found(meta, Some("text/html")), ("Shift_JIS", Source::Page));
        assert_eq!(found(meta, Some("text/html; charset=nonsense")), ("Shift_JIS", Source::Page));
        assert_eq!(found(b"plain", None), ("UTF-8", Source::Guess));
        assert_eq!(found("gr\u{fc}n".as_bytes(), None), ("UTF-8", Source::Guess));
        let russian = encoding_rs::KOI8_R.encode("Привет, мир! Как дела сегодня?").0;
        assert_eq!(found(&russian, None).1, Source::Guess);
        assert_eq!(detect(&russian, None).text(&russian), "Привет, мир! Как дела сегодня?");
    }

    #[test]
    fn a_page_says_what_it_is_in_many_ways() {
        let facts = [
            ("<META http-equiv=Content-Type content='text/html; charset=koi8-r'>", Some("KOI8-R")),
            ("<!-- <meta charset=big5> --><meta charset = gbk />", Some("GBK")),
            ("<meta name=a><meta charset=utf-16>", Some("UTF-8")),
            ("<metal charset=big5>", None),
            ("<meta charset=big5", None),
            ("<meta charset=>", None),
            ("<", None),
            ("<!-- <meta charset=big5>", None),
        ];
        for (page, encoding) in facts {
            assert_eq!(of_page(page.as_bytes()).map(Encoding::name), encoding, "{page}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let body = b"\xFF\xFEh\x00i\x00";
        assert_eq!(detect(body, None).text(body), "hi");
    }

    proptest::proptest! {
        #[test]
        fn a_body_is_read_as_by_the_decoder_of_its_encoding(
            parts in proptest::collection::vec(proptest::prop_oneof![
                proptest::collection::vec(proptest::prelude::any::<u8>(), 0..4),
                proptest::collection::vec(0x80..=0xf5_u8, 0..6),
                "\\PC{0,6}".prop_map(String::into_bytes),
                "[\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]".prop_map(String::into_bytes),
            ], 0..12),
            cut in 0..3_usize,
        ) {
            let mut body = parts.concat();
            body.truncate(body.len().saturating_sub(cut));
            for encoding in [UTF_8, UTF_16LE, encoding_rs::WINDOWS_1252, encoding_rs::SHIFT_JIS] {
                let charset = Charset { encoding, source: Source::Header, mark_bytes: 0 };
                let decoded = encoding.decode_without_bom_handling(&body).0;
                proptest::prop_assert_eq!(charset.text(&body), decoded);
            }
        }
    }
}
