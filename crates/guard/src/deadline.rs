//! Decides until when an answer is worth waiting for, and says it to whoever is called next.
//!
//! Deliberately knows no clock and no transport. A [`Deadline`] is a moment on the caller's clock. Clocks of two
//! machines differ, so what travels is the time left, as text in the form that gRPC uses for `grpc-timeout`: one to
//! eight digits and a unit (`H`, `M`, `S`, `m`, `u`, `n`).
//!
//! Rules: a deadline that is handed on never becomes later; what is written is rounded down, so that nobody is
//! promised more than there is; what is read is at most what the reader allows; anything that is not exactly in the
//! form is refused, because a deadline that was guessed is worse than none.

use std::time::Duration;

use crate::setting::{Invalid, require};

/// The name of the header or metadata field that carries the time left.
pub const HEADER: &str = "grpc-timeout";

/// The most digits of a time left.
const DIGITS_MAX: usize = 8;

/// The first number with too many digits.
const NUMBER_END: u128 = 100_000_000;

/// A moment after which nobody waits for the answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    at: Duration,
}

/// Why a text is not a time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// There is no number before the unit.
    #[error("the time left has no digits; write a number and a unit, such as 250m")]
    NoDigits,
    /// The number is too long.
    #[error("the time left has more than 8 digits; use a larger unit")]
    TooLong,
    /// Something in the number is not a digit from 0 to 9.
    #[error(
        "the time left has a character that is no digit; write a number and a unit, such as 250m"
    )]
    NotADigit,
    /// The last character is not a unit.
    #[error("the time left ends with no unit; end it with one of H, M, S, m, u, n")]
    NoUnit,
}

impl Deadline {
    /// No deadline: never expires, and is not handed on.
    pub const NEVER: Self = Self { at: Duration::MAX };

    /// The deadline at a moment.
    pub fn at(moment: Duration) -> Self {
        Self { at: moment }
    }

    /// The deadline `span` from now.
    pub fn after(now: Duration, span: Duration) -> Self {
        Self { at: now.saturating_add(span) }
    }

    /// The moment.
    pub fn moment(self) -> Duration {
        self.at
    }

    /// The time left: zero once it has expired.
    pub fn left(self, now: Duration) -> Duration {
        if self == Self::NEVER { Duration::MAX } else { self.at.saturating_sub(now) }
    }

    /// Whether no time is left.
    pub fn expired(self, now: Duration) -> bool {
        self.left(now).is_zero()
    }

    /// The earlier one of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Ord::min(self, other)
    }

    /// The deadline of a call that may take `span` at most.
    #[must_use]
    pub fn capped(self, now: Duration, span: Duration) -> Self {
        self.min(Self::after(now, span))
    }

    /// The deadline of a call after which the caller needs `reserve` for itself. If there is no time for that, the
    /// call has expired before it starts.
    #[must_use]
    pub fn reserving(self, reserve: Duration) -> Self {
        if self == Self::NEVER { self } else { Self { at: self.at.saturating_sub(reserve) } }
    }

    /// The deadline of a call that may take a share of the time left, such as 0.5 for the first of two calls in a row.
    ///
    /// # Errors
    /// When `share` is not above 0 and at most 1.
    pub fn sharing(self, now: Duration, share: f64) -> Result<Self, Invalid> {
        require(share > 0.0 && share <= 1.0, "share", share, "above 0, at most 1")?;
        if self == Self::NEVER {
            return Ok(self);
        }
        Ok(self.capped(now, self.left(now).mul_f64(share)))
    }

    /// The time left as text, rounded down; none if there is no deadline.
    pub fn encode(self, now: Duration) -> Option<String> {
        (self != Self::NEVER).then(|| encode_span(self.left(now)))
    }

    /// The deadline of a time left that was sent, at most `span_max` from now.
    ///
    /// # Errors
    /// When the text is not exactly in the form.
    pub fn decode(text: &str, now: Duration, span_max: Duration) -> Result<Self, DecodeError> {
        Ok(Self::after(now, decode_span(text)?.min(span_max)))
    }
}

/// A time left as text: whole milliseconds, or larger units if there are too many of them.
pub fn encode_span(span: Duration) -> String {
    let seconds = u128::from(span.as_secs());
    let choices =
        [(span.as_millis(), 'm'), (seconds, 'S'), (seconds / 60, 'M'), (seconds / 3600, 'H')];
    let fitting = choices.into_iter().find(|(number, _)| *number < NUMBER_END);
    let (number, unit) = fitting.unwrap_or((NUMBER_END - 1, 'H'));
    format!("{number}{unit}")
}

/// The time left of a text.
///
/// # Errors
/// When the text is not exactly in the form.
pub fn decode_span(text: &str) -> Result<Duration, DecodeError> {
    let unit_start = text.char_indices().next_back().map(|(start, _)| start);
    let (digits, unit) = text.split_at(unit_start.ok_or(DecodeError::NoDigits)?);
    let nanos_per_unit: u64 = match unit {
        "H" => 3_600_000_000_000,
        "M" => 60_000_000_000,
        "S" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1_000,
        "n" => 1,
        _ => return Err(DecodeError::NoUnit),
    };
    if digits.is_empty() {
        return Err(DecodeError::NoDigits);
    }
    if digits.len() > DIGITS_MAX {
        return Err(DecodeError::TooLong);
    }
    let number = digits.bytes().try_fold(0_u32, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0'))
    });
    let number = number.ok_or(DecodeError::NotADigit)?;
    let nanos = u128::from(number) * u128::from(nanos_per_unit);
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Ok(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_deadline_counts_down_and_expires() {
        let deadline = Deadline::after(millis(100), millis(50));
        assert_eq!(deadline.left(millis(120)), millis(30));
        assert!(!deadline.expired(millis(149)));
        assert!(deadline.expired(millis(150)));
        assert_eq!(deadline.left(millis(999)), Duration::ZERO);
        assert!(!Deadline::NEVER.expired(Duration::MAX));
        assert_eq!(Deadline::NEVER.encode(millis(1)), None);
    }

    #[test]
    fn children_end_earlier() {
        let now = millis(100);
        let parent = Deadline::after(now, millis(80));
        assert_eq!(parent.reserving(millis(30)).left(now), millis(50));
        assert!(parent.reserving(millis(80)).expired(now));
        assert_eq!(parent.sharing(now, 0.25).unwrap().left(now), millis(20));
        assert_eq!(parent.capped(now, millis(10)).left(now), millis(10));
        assert_eq!(parent.capped(now, millis(500)), parent);
        assert_eq!(Deadline::NEVER.reserving(millis(1)), Deadline::NEVER);
        for share in [0.0, -1.0, 1.01, f64::NAN] {
            assert_eq!(parent.sharing(now, share).unwrap_err().field, "share");
        }
    }

    #[test]
    fn the_text_form_is_strict() {
        let table = [
            ("250m", Ok(millis(250))),
            ("0m", Ok(Duration::ZERO)),
            ("99999999n", Ok(Duration::from_nanos(99_999_999))),
            ("7u", Ok(Duration::from_micros(7))),
            ("3S", Ok(Duration::from_secs(3))),
            ("2M", Ok(Duration::from_secs(120))),
            ("99999999H", Ok(Duration::from_secs(99_999_999 * 3600))),
            ("", Err(DecodeError::NoDigits)),
            ("m", Err(DecodeError::NoDigits)),
            ("250", Err(DecodeError::NoUnit)),
            ("250s", Err(DecodeError::NoUnit)),
            ("250ms", Err(DecodeError::NoUnit)),
            ("250µ", Err(DecodeError::NoUnit)),
            ("123456789m", Err(DecodeError::TooLong)),
            ("+50m", Err(DecodeError::NotADigit)),
            ("-5m", Err(DecodeError::NotADigit)),
            (" 5m", Err(DecodeError::NotADigit)),
            ("1.5S", Err(DecodeError::NotADigit)),
            ("٣m", Err(DecodeError::NotADigit)),
        ];
        for (text, expected) in table {
            assert_eq!(decode_span(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_reader_allows_so_much_and_no_more() {
        let deadline = Deadline::decode("1H", millis(5), Duration::from_secs(10)).unwrap();
        assert_eq!(deadline.left(millis(5)), Duration::from_secs(10));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_is_never_more(nanos in any::<u64>(), start in 0_u64..1 << 40) {
            let (span, now) = (Duration::from_nanos(nanos), Duration::from_nanos(start));
            let text = Deadline::after(now, span).encode(now).unwrap();
            prop_assert!(text.len() <= DIGITS_MAX + 1);
            let read = Deadline::decode(&text, now, Duration::MAX).unwrap().left(now);
            prop_assert!(read <= span);
            let lost = if span < Duration::from_secs(99_999) { millis(1) } else { Duration::from_secs(3600) };
            prop_assert!(span - read < lost, "{span:?} became {read:?}");
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}") {
            if let Ok(span) = decode_span(&text) {
                prop_assert!(text.is_ascii() && span <= Duration::from_secs(99_999_999 * 3600));
            }
        }

        #[test]
        fn children_are_never_later(now in 0_u64..1000, span in 0_u64..1000, other in 0_u64..2000, share in 0.01_f64..=1.0) {
            let now = millis(now);
            let parent = Deadline::after(now, millis(span));
            let children = [
                parent.capped(now, millis(other)),
                parent.reserving(millis(other)),
                parent.sharing(now, share).unwrap(),
                parent.min(Deadline::at(millis(other))),
            ];
            for child in children {
                prop_assert!(child <= parent);
            }
        }
    }
}
