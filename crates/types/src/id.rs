//! Identities: what names a task, an attempt, a workflow and a connected worker.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Names a task for ever, everywhere. A UUIDv7 made by the client, so that a repeated submit is the same task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u128);

/// Names a workflow: a set of tasks that were submitted to be watched together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkflowId(pub u128);

/// The server's own short name of a task: the order in which tasks were accepted, without gaps in meaning.
/// It never leaves the server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seq(pub u64);

/// Fences an attempt: every grant carries a token greater than any earlier one, over restarts too.
///
/// The upper bits count the starts of the server, the lower bits count its grants (see [`Token::new`]).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Token(pub u64);

/// One connection of one worker process. A worker that reconnects gets a new key.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerKey(pub u64);

impl Token {
    /// How many bits of a token count the grants of one server start.
    pub const GRANT_BITS: u32 = 40;

    /// The token of grant number `grant` of server start number `epoch`.
    pub fn new(epoch: u64, grant: u64) -> Self {
        assert!(
            grant < 1 << Self::GRANT_BITS,
            "more grants in one server start than a token can count"
        );
        assert!(epoch < 1 << (63 - Self::GRANT_BITS), "more server starts than a token can count");
        Self(epoch << Self::GRANT_BITS | grant)
    }

    /// The server start that made this token.
    pub fn epoch(self) -> u64 {
        self.0 >> Self::GRANT_BITS
    }
}

impl TaskId {
    /// The id as 16 bytes, most significant first, so that byte order is time order.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id in `bytes`, or nothing if they are not 16.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|b| Self(u128::from_be_bytes(b)))
    }

    /// Whether the order of this id is the order of time: a UUID of version 7, of a time before the year 2100.
    ///
    /// The bound keeps such ids within a small part of all ids, so that the greatest of them is quickly found among
    /// ids made from keys, and an id from a clock that is wrong by centuries from counting as the newest for ever.
    pub fn is_time_ordered(self) -> bool {
        (self.0 >> 76) & 0xf == 7 && self < Self::TIME_ORDERED_END
    }

    /// Every time-ordered id is smaller.
    pub const TIME_ORDERED_END: Self = Self(4_102_444_800_000 << 80);

    /// The same id for the same `key`, always: how an idempotency key becomes a task id.
    pub fn from_key(key: &str) -> Self {
        Self(Uuid::new_v5(&Uuid::NAMESPACE_OID, key.as_bytes()).as_u128())
    }

    /// The span of ids whose text starts with `prefix` (hexadecimal digits and hyphens), if it is one.
    pub fn prefix_range(prefix: &str) -> Option<(Self, Self)> {
        let digits: String = prefix.chars().filter(|c| *c != '-').collect();
        if digits.is_empty() || digits.len() > 32 {
            return None;
        }
        let value = hexadecimal(&digits)?;
        let free_bits = (32 - digits.len() as u32) * 4;
        if free_bits == 0 {
            return Some((Self(value), Self(value)));
        }
        let low = value << free_bits;
        Some((Self(low), Self(low | ((1u128 << free_bits) - 1))))
    }
}

/// The last digits of an id. A UUIDv7 begins with the time, so ids of one moment are alike there; their ends are random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdEnd {
    value: u128,
    digits: u32,
}

impl IdEnd {
    /// The fewest digits: with fewer, the ends of many ids soon meet.
    pub const DIGITS_MIN: usize = 8;
    const DIGITS_ALL: usize = 32;

    /// The end in a text of hexadecimal digits and hyphens, if there are enough of them and not a whole id.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        if !(Self::DIGITS_MIN..Self::DIGITS_ALL).contains(&digits.len()) {
            return None;
        }
        let value = hexadecimal(&digits)?;
        Some(Self { value, digits: digits.len() as u32 })
    }

    /// Whether the number of an id ends so.
    pub fn is_of(self, id: u128) -> bool {
        (id ^ self.value).trailing_zeros() >= self.digits * 4
    }

    /// The bytes that an id with this end surely ends with, for a coarse search.
    pub fn whole_bytes(self) -> Vec<u8> {
        let bytes = self.value.to_be_bytes();
        bytes[bytes.len() - self.digits as usize / 2..].to_vec()
    }
}

impl WorkflowId {
    /// The id as 16 bytes, most significant first.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id in `bytes`, or nothing if they are not 16.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|b| Self(u128::from_be_bytes(b)))
    }
}

/// A number in hexadecimal digits and nothing else.
fn hexadecimal(digits: &str) -> Option<u128> {
    let sound = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    sound.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

/// A text that is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: expected a UUID such as 0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e")]
pub struct InvalidId(pub String);

macro_rules! uuid_text {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Uuid::from_u128(self.0), f)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl FromStr for $type {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(text)
                    .map(|id| Self(id.as_u128()))
                    .map_err(|_| InvalidId(text.chars().take(64).collect()))
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
uuid_text!(TaskId);
uuid_text!(WorkflowId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_spans_exactly_the_ids_that_start_with_it() {
        let (low, high) = TaskId::prefix_range("0198c0de-7").unwrap();
        assert_eq!(low.to_string(), "0198c0de-7000-0000-0000-000000000000");
        assert_eq!(high.to_string(), "0198c0de-7fff-ffff-ffff-ffffffffffff");
        assert!(TaskId::prefix_range("").is_none());
        assert!(TaskId::prefix_range("xyz").is_none());
    }

    #[test]
    fn an_end_is_of_the_ids_that_end_with_it() {
        let id: TaskId = "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e".parse().unwrap();
        for text in ["1b0c9d8e", "a1b0c9d8e", "1B0C9D8E", "9e55-3f2a1b0c9d8e"] {
            assert!(IdEnd::parse(text).unwrap().is_of(id.0), "{text}");
        }
        assert!(!IdEnd::parse("0b0c9d8e").unwrap().is_of(id.0));
        assert_eq!(IdEnd::parse("a1b0c9d8e").unwrap().whole_bytes(), [0x1b, 0x0c, 0x9d, 0x8e]);
        for text in ["b0c9d8e", "0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e", "1b0c9d8x", "+1b0c9d8"] {
            assert!(IdEnd::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_later_server_start_makes_greater_tokens() {
        assert!(Token::new(2, 0) > Token::new(1, (1 << Token::GRANT_BITS) - 1));
        assert_eq!(Token::new(7, 9).epoch(), 7);
    }
}
