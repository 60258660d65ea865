//! Points in time, given from outside: nothing in the pure layers asks a clock.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since the Unix epoch. Text form is RFC 3339 in UTC; binary form is the number.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The latest instant that has a text form; later ones are cut to it.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// The time from `earlier` to this, or nothing if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved on by `ms` milliseconds.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000)).min(Self::MAX.0))
    }

    /// The day of this instant, counted from the epoch, in UTC.
    pub fn day(self) -> u32 {
        (self.0 / 86_400_000_000) as u32
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        let span = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(span).min(Self::MAX.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.min(Self::MAX.0) as i64;
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{micros}us"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time: expected RFC 3339 such as 2026-11-15T12:00:00Z, at or after 1970")]
pub struct InvalidTime(pub String);

impl FromStr for Timestamp {
    type Err = InvalidTime;
    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let invalid = || InvalidTime(text.chars().take(64).collect());
        let time: jiff::Timestamp = text.parse().map_err(|_| invalid())?;
        u64::try_from(time.as_microsecond()).map(Self).map_err(|_| invalid())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self);
        }
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back_is_the_same_instant() {
        for micros in [0, 1, 1_763_208_000_123_456, Timestamp::MAX.0] {
            let time = Timestamp(micros);
            assert_eq!(time.to_string().parse::<Timestamp>().unwrap(), time, "{time}");
        }
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!("1969-12-31T23:59:59Z".parse::<Timestamp>().is_err());
    }
}
