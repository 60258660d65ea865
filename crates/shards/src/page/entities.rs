//! What `&amp;` stands for, by the rules of HTML: all names of the standard, the old ones without a semicolon, numbers.
//!
//! The table `entities.txt` is the one of the standard: a name, then the hexadecimals of its characters.

use std::borrow::Cow;
use std::sync::OnceLock;

/// The longest name without the semicolon.
const NAME_BYTES_MAX: usize = 31;
/// The longest name that may go without a semicolon.
const OLD_NAME_BYTES_MAX: usize = 6;
/// What stands for a character that is none.
const REPLACEMENT: char = '\u{fffd}';

/// What the numbers 128 to 159 stand for: the characters that they have on Windows.
const WINDOWS: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039,
    0x152, 0x8d, 0x17d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc,
    0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
];

/// Where a text stands, because `?a=1&copy=2` in an attribute is no sign of copyright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    Attribute,
}

/// The text that is meant.
pub(super) fn decode(text: &str, place: Place) -> Cow<'_, str> {
    let Some(first) = text.find('&') else { return Cow::Borrowed(text) };
    let mut decoded = String::with_capacity(text.len());
    decoded.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(after) = rest.strip_prefix('&') {
        let taken = match after.strip_prefix('#') {
            Some(digits) => push_number(&mut decoded, digits).map(|taken| taken + 1),
            None => push_name(&mut decoded, after, place),
        };
        let taken = taken.unwrap_or_else(|| {
            decoded.push('&');
            0
        });
        rest = &after[taken..];
        let next = rest.find('&').unwrap_or(rest.len());
        decoded.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    Cow::Owned(decoded)
}

/// Adds the character of a number, and says how many bytes of it were read; nothing if it is no number.
fn push_number(decoded: &mut String, digits: &str) -> Option<usize> {
    let (radix, prefix) = if digits.starts_with(['x', 'X']) { (16, 1) } else { (10, 0) };
    let count =
        digits[prefix..].bytes().take_while(|byte| char::from(*byte).is_digit(radix)).count();
    if count == 0 {
        return None;
    }
    let end = prefix + count;
    let number = u32::from_str_radix(&digits[prefix..end], radix).unwrap_or(u32::MAX);
    let character = match number {
        0 => REPLACEMENT,
        128..=159 => char::from_u32(WINDOWS[number as usize - 128].into()).unwrap_or(REPLACEMENT),
        _ => char::from_u32(number).unwrap_or(REPLACEMENT),
    };
    decoded.push(character);
    Some(end + usize::from(digits[end..].starts_with(';')))
}

/// Adds the characters of a name, and says how many bytes of it were read; nothing if there is no such name.
fn push_name(decoded: &mut String, text: &str, place: Place) -> Option<usize> {
    let bytes = text.as_bytes();
    let run = bytes
        .iter()
        .take(NAME_BYTES_MAX + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    if bytes.get(run) == Some(&b';')
        && let Some(meaning) = meaning(&text[..=run])
    {
        push_meaning(decoded, meaning);
        return Some(run + 1);
    }
    let (length, meaning) = (2..=run.min(OLD_NAME_BYTES_MAX))
        .rev()
        .find_map(|length| Some((length, meaning(&text[..length])?)))?;
    let next = bytes.get(length).copied().unwrap_or(b' ');
    if place == Place::Attribute && (next == b'=' || next.is_ascii_alphanumeric()) {
        return None;
    }
    push_meaning(decoded, meaning);
    Some(length)
}

fn push_meaning(decoded: &mut String, meaning: &str) {
    let characters = meaning
        .split(' ')
        .filter_map(|hexadecimals| char::from_u32(u32::from_str_radix(hexadecimals, 16).ok()?));
    decoded.extend(characters);
}

/// The hexadecimals of a name of the standard; a semicolon belongs to the name.
fn meaning(name: &str) -> Option<&'static str> {
    static TABLE: OnceLock<Vec<(&str, &str)>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        include_str!("entities.txt").lines().filter_map(|line| line.split_once('\t')).collect()
    });
    let at = table.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(table[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_mean_what_browsers_show() {
        let facts = [
            ("a &amp; b", "a & b", "a & b"),
            ("?a=1&amp;b=2", "?a=1&b=2", "?a=1&b=2"),
            ("?a=1&copy=2", "?a=1©=2", "?a=1&copy=2"),
            ("&notit;", "¬it;", "&notit;"),
            ("&not", "¬", "¬"),
            ("&copy &lt;", "© <", "© <"),
            ("&#65;&#x42;&#X43", "ABC", "ABC"),
            ("&#128;&#150;", "€–", "€–"),
            (
                "&#0;&#xd800;&#x110000;&#99999999999;",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("&NotEqualTilde;", "\u{2242}\u{338}", "\u{2242}\u{338}"),
            ("&CounterClockwiseContourIntegral;", "∳", "∳"),
            ("&&#;&#x;&unknown;&;", "&&#;&#x;&unknown;&;", "&&#;&#x;&unknown;&;"),
            ("&amp;lt;", "&lt;", "&lt;"),
            ("é&eacute;é", "ééé", "ééé"),
            ("", "", ""),
        ];
        for (text, in_text, in_attribute) in facts {
            assert_eq!(decode(text, Place::Text), in_text, "{text}");
            assert_eq!(decode(text, Place::Attribute), in_attribute, "{text}");
        }
    }

    #[test]
    fn the_table_is_whole_and_sorted() {
        let names: Vec<&str> = include_str!("entities.txt")
            .lines()
            .filter_map(|line| Some(line.split_once('\t')?.0))
            .collect();
        assert_eq!(names.len(), 2231);
        assert!(names.is_sorted());
        let longest = names.iter().map(|name| name.trim_end_matches(';').len()).max();
        assert_eq!(longest, Some(NAME_BYTES_MAX));
        let old = names.iter().filter(|name| !name.ends_with(';')).map(|name| name.len()).max();
        assert_eq!(old, Some(OLD_NAME_BYTES_MAX));
    }
}
