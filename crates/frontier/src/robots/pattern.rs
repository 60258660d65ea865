//! Whether a pattern of robots.txt matches a path, in time linear in both, whatever a hostile file writes.
//!
//! `*` stands for any characters, `$` at the end for the end of the path. The pieces between stars are looked for from left
//! to right, each at its first place: if a later place would do, the first does too, so nothing is tried twice. Each search
//! is the two-way search of the standard library, which is linear.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `pattern` matches `path` from its beginning.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    // Most rules differ from most paths within a few bytes.
    let pairs = pattern.bytes().zip(path.bytes());
    let same = pairs.take_while(|(ours, theirs)| ours == theirs && *ours != b'*').count();
    match pattern.as_bytes().get(same) {
        Some(b'*' | b'$') => matches_pieces(pattern, path),
        None if pattern.ends_with('$') => matches_pieces(pattern, path),
        next => next.is_none(),
    }
}

fn matches_pieces(pattern: &str, path: &str) -> bool {
    matches_with(pattern, path, |text, piece| text.find(piece))
}

/// The same with a search that finds the first place of a piece in a text.
pub(super) fn matches_with(
    pattern: &str,
    path: &str,
    mut find: impl FnMut(&str, &str) -> Option<usize>,
) -> bool {
    let (pattern, is_anchored) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return !is_anchored || rest.is_empty() };
    for piece in pieces {
        match find(rest, piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    if is_anchored { rest.ends_with(last) } else { find(rest, last).is_some() }
}

/// The text with everything that is not ASCII percent-encoded, byte by byte.
pub(super) fn encoded(text: &[u8]) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii() {
            written.push(char::from(*byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

/// The text with the digits of percent-encodings in upper case.
pub(super) fn upper(text: &str) -> Cow<'_, str> {
    rewritten(text, |_, digits| {
        let is_lower = digits.contains(|c: char| c.is_ascii_lowercase());
        is_lower.then(|| format!("%{}", digits.to_ascii_uppercase()))
    })
}

/// The text as RFC 9309 compares it: not ASCII is percent-encoded, and letters, digits, `-`, `.`, `_` and `~` are not.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let ascii = if text.is_ascii() { Cow::Borrowed(text) } else { encoded(text.as_bytes()).into() };
    let write = |byte: u8, digits: &str| match is_unreserved(byte) {
        true => Some(char::from(byte).to_string()),
        false => Some(format!("%{}", digits.to_ascii_uppercase())),
    };
    match ascii {
        Cow::Borrowed(text) => rewritten(text, write),
        Cow::Owned(text) => rewritten(&text, write).into_owned().into(),
    }
}

/// The text with each percent-encoding replaced by what `write` makes of its byte and its digits.
fn rewritten(text: &str, write: impl Fn(u8, &str) -> Option<String>) -> Cow<'_, str> {
    let mut written = String::new();
    let mut rest = 0;
    for (place, _) in text.match_indices('%') {
        let Some(byte) = byte_at(text, place) else { continue };
        if let Some(new) = write(byte, &text[place + 1..place + 3]) {
            written.push_str(&text[rest..place]);
            written.push_str(&new);
            rest = place + 3;
        }
    }
    if rest == 0 {
        return Cow::Borrowed(text);
    }
    written.push_str(&text[rest..]);
    Cow::Owned(written)
}

/// The byte that `%XX` at a place stands for.
fn byte_at(text: &str, place: usize) -> Option<u8> {
    let digits = text.as_bytes().get(place + 1..place + 3)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
