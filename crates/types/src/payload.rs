//! Opaque data of a task: its payload and its result. The server never looks inside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::Name;
use crate::limits::{CONTENT_TYPE_LEN_MAX, JSON_DEPTH_MAX};

/// A number with fewer digits before its point is one that a float holds.
const FLOAT_DIGITS_MAX: usize = 308;
/// How much of a text is looked through at once.
const PART_BYTES: usize = 32;

/// Bytes and what they are. JSON unless a content type says otherwise.
///
/// As JSON text a JSON payload is itself, and any other is `{"content_type": …, "base64": …}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Empty for JSON, which is what almost every payload is.
    content_type: Name,
    data: Bytes,
}

/// Why data cannot be a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPayload {
    /// Not JSON although it says so.
    #[error("is not valid JSON ({0}); send JSON or give another content type")]
    NotJson(String),
    /// JSON that some readers cannot take.
    #[error(
        "is JSON that not every reader can take ({0}); write numbers that a 64-bit float holds, and whole characters"
    )]
    Unreadable(String),
    /// Nested deeper than a reader can be expected to follow.
    #[error("is nested deeper than {JSON_DEPTH_MAX} levels; flatten it")]
    TooDeep,
    /// A content type that is no such thing.
    #[error(
        "has a content type that is empty, not printable ASCII or longer than {CONTENT_TYPE_LEN_MAX} characters"
    )]
    ContentType,
}

impl Payload {
    /// The content type of JSON.
    pub const JSON: &'static str = "application/json";

    /// JSON text that is checked to be JSON and not too deep. No text at all is `null`.
    pub fn json(data: impl Into<Bytes>) -> Result<Self, InvalidPayload> {
        let data = data.into();
        if data.is_empty() {
            return Ok(Self::null());
        }
        if is_too_deep(&data) {
            return Err(InvalidPayload::TooDeep);
        }
        serde_json::from_slice::<&RawValue>(&data)
            .map_err(|e| InvalidPayload::NotJson(e.to_string()))?;
        if may_be_unreadable(&data) {
            serde_json::from_slice::<serde_json::Value>(&data)
                .map_err(|e| InvalidPayload::Unreadable(e.to_string()))?;
        }
        Ok(Self { content_type: Name::default(), data })
    }

    /// JSON `null`.
    pub fn null() -> Self {
        Self { content_type: Name::default(), data: Bytes::new() }
    }

    /// The JSON form of a value.
    pub fn from_value<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self { content_type: Name::default(), data: serde_json::to_vec(value)?.into() })
    }

    /// Data with a content type of its own; JSON is checked.
    pub fn new(content_type: &str, data: impl Into<Bytes>) -> Result<Self, InvalidPayload> {
        if content_type.is_empty() || content_type == Self::JSON {
            return Self::json(data);
        }
        let printable = content_type.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
        if !printable || content_type.len() > CONTENT_TYPE_LEN_MAX {
            return Err(InvalidPayload::ContentType);
        }
        Ok(Self { content_type: content_type.into(), data: data.into() })
    }

    /// Data that was checked before it was stored or sent; `content_type` is empty for JSON.
    pub fn trusted(content_type: &str, data: Bytes) -> Self {
        let content_type =
            if content_type == Self::JSON { Name::default() } else { content_type.into() };
        Self { content_type, data }
    }

    /// What the data is.
    pub fn content_type(&self) -> &str {
        if self.content_type.is_empty() { Self::JSON } else { &self.content_type }
    }

    /// Whether the data is JSON.
    pub fn is_json(&self) -> bool {
        self.content_type.is_empty()
    }

    /// The data; JSON `null` may be no bytes at all.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The data as JSON text, if it is JSON.
    pub fn json_text(&self) -> Option<&str> {
        if !self.is_json() {
            return None;
        }
        if self.data.is_empty() { Some("null") } else { std::str::from_utf8(&self.data).ok() }
    }

    /// The value that the JSON stands for.
    pub fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.json_bytes()?)
    }

    // Knows no type, so that it is compiled once and not for each.
    fn json_bytes(&self) -> Result<&[u8], serde_json::Error> {
        if !self.is_json() {
            let problem = format!("the data is {}, not JSON", self.content_type());
            return Err(serde::de::Error::custom(problem));
        }
        Ok(if self.data.is_empty() { b"null" } else { &self.data })
    }
}

/// Whether JSON text is nested deeper than a reader can be expected to follow. A text with few brackets cannot be,
/// and is not walked.
fn is_too_deep(data: &[u8]) -> bool {
    // The two opening brackets differ in one bit. Counted in bytes and so many at once: every payload passes here.
    let opening = |part: &[u8]| part.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum::<u8>();
    let opening: usize = data.chunks(255).map(|part| usize::from(opening(part))).sum();
    if opening <= JSON_DEPTH_MAX {
        return false;
    }
    let mut depth = 0usize;
    let (mut in_string, mut escaped) = (false, false);
    for byte in data {
        match (in_string, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, _, b'"') => in_string = !in_string,
            (false, _, b'[' | b'{') => depth += 1,
            (false, _, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return true;
        }
    }
    false
}

/// Whether valid JSON text has what makes a reader stumble: an escaped half of a character, or a number that no float
/// holds. Almost no text has an escaped character, an exponent or that many digits, and only such a text is read whole.
fn may_be_unreadable(data: &[u8]) -> bool {
    let odd = |(first, second): (&u8, &u8)| {
        let escape = u8::from(*first == b'\\') & u8::from(*second == b'u');
        escape | (u8::from(first.is_ascii_digit()) & u8::from(second | 0x20 == b'e'))
    };
    let parts = data.chunks(PART_BYTES).zip(data.get(1..).unwrap_or_default().chunks(PART_BYTES));
    parts.enumerate().any(|(number, (firsts, seconds))| {
        let pairs = || firsts.iter().zip(seconds);
        // Nearly all parts end here, many bytes at once: no branch and no early end, or the compiler would go byte by byte.
        if pairs().fold(0, |any, pair| any | odd(pair)) == 0 {
            return false;
        }
        // An id of hexadecimal digits is odd in nearly every payload, and harmless.
        pairs().enumerate().any(|(at, pair)| {
            let place = number * PART_BYTES + at;
            odd(pair) != 0 && (*pair.0 == b'\\' || begins_a_number(&data[..=place]))
        })
    }) || has_many_digits(data)
}

/// Whether what ends here, with a digit, can be the beginning of a number. Digits of a text such as an id follow other
/// characters.
fn begins_a_number(data: &[u8]) -> bool {
    let in_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'-');
    let before = || data.iter().rev().find(|byte| !in_number(byte));
    data.last().is_some_and(u8::is_ascii_digit)
        && before()
            .is_none_or(|byte| matches!(byte, b'[' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r'))
}

/// Whether there are more digits in a row than a float holds before its point. Such a row is met by steps of its length.
fn has_many_digits(data: &[u8]) -> bool {
    let digits =
        |part: &mut dyn Iterator<Item = &u8>| part.take_while(|byte| byte.is_ascii_digit()).count();
    (FLOAT_DIGITS_MAX - 1..data.len()).step_by(FLOAT_DIGITS_MAX).any(|place| {
        let (before, after) = data.split_at(place);
        digits(&mut before.iter().rev()) + digits(&mut after.iter()) >= FLOAT_DIGITS_MAX
    })
}

/// Bytes as text in base64.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text in base64; nothing if it is none.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    content_type: String,
    base64: String,
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.json_text() {
            Some(text) => serde_json::from_slice::<&RawValue>(text.as_bytes())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            None => Encoded {
                content_type: self.content_type().to_owned(),
                base64: STANDARD.encode(&self.data),
            }
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if text.get().starts_with('{')
            && let Ok(encoded) = serde_json::from_slice::<Encoded>(text.get().as_bytes())
        {
            let data = STANDARD
                .decode(&encoded.base64)
                .map_err(|e| D::Error::custom(format!("base64: {e}")))?;
            return Self::new(&encoded.content_type, data)
                .map_err(|e| D::Error::custom(format!("payload {e}")));
        }
        Self::json(String::from(Box::<str>::from(text)))
            .map_err(|e| D::Error::custom(format!("payload {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_itself_and_bytes_are_wrapped() {
        let json: Payload = serde_json::from_str(r#"{"a": [1, "]"]}"#).unwrap();
        assert_eq!(serde_json::to_string(&json).unwrap(), r#"{"a": [1, "]"]}"#);
        let bytes = Payload::new("image/png", vec![0, 159, 1]).unwrap();
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(serde_json::from_str::<Payload>(&text).unwrap(), bytes);
        assert_eq!(serde_json::to_string(&Payload::null()).unwrap(), "null");
    }

    #[test]
    fn what_not_every_reader_can_take_is_refused() {
        let long = "9".repeat(400);
        let late = format!("[\"{}\", {}]", "x".repeat(250), "9".repeat(309));
        let spread = format!("[{} , 1e400]", "1".repeat(300));
        for text in [
            "1e400",
            "[-1E999]",
            "{\"a\":1.5e999}",
            "[0, 1e400]",
            "[0,\n-12.5e400]",
            &long,
            &late,
            &spread,
            r#""\ud800""#,
            r#"{"a":"\udc00x"}"#,
        ] {
            let refused = Payload::json(text.to_owned()).unwrap_err();
            assert!(matches!(refused, InvalidPayload::Unreadable(_)), "{text}: {refused}");
        }
        let texts = format!("[\"{}\", 1]", "9".repeat(1_000));
        for text in [
            "1e30",
            "12345678901234567890123",
            r#""\ud83e\udd80 \u00e4 1e400""#,
            "[0.1]",
            &texts,
            r#"{"id":"0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e","also":" 1e400"}"#,
        ] {
            assert!(Payload::json(text.to_owned()).is_ok(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_that_a_reader_refuses_is_looked_at(
            items in proptest::collection::vec(
                proptest::sample::select(vec![
                    "1", "1e3", "1e400", "-2.5E999", " 1e400", "\n7e999 ", "{\"9e9\":1e400}", "\"9e400\"",
                    "\"c1-9e55\"", "\"\\ud800\"", "\"\\\\ud800\"", "\"\\\"1e400\"", "true", "[[1e999]]",
                ]),
                0..4,
            ),
            digits in 0..400usize,
            padding in 0..700usize,
        ) {
            let text = format!("[{},\"{}\",1{}]", items.join(","), "x".repeat(padding), "2".repeat(digits));
            let text = text.replacen("[,", "[", 1);
            let refused = serde_json::from_str::<serde_json::Value>(&text).is_err();
            proptest::prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{}", text);
            proptest::prop_assert!(!refused || may_be_unreadable(text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn what_is_not_json_or_too_deep_is_refused() {
        assert!(matches!(Payload::json("{"), Err(InvalidPayload::NotJson(_))));
        assert_eq!(Payload::json("[".repeat(10_000)), Err(InvalidPayload::TooDeep));
        assert!(Payload::json("[".repeat(128) + &"]".repeat(128)).is_ok());
        assert_eq!(Payload::new("a\nb", ""), Err(InvalidPayload::ContentType));
    }
}
