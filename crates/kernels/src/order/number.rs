//! Numbers as keys: the longest beginning of a key that is a number, compared as it is written, digit by digit.
//!
//! A number is blanks, a sign, digits with a point among them, and an exponent; only digits must be there. What follows
//! does not count: `12eggs` is 12, `2024-01-02` is 2024, `1.2.3` is 1.2. That is what `sort -g` of GNU reads, except that `inf`,
//! `nan` and hexadecimals are no numbers here, and that no digit is lost however many there are.

use std::cmp::Ordering;

/// An exponent beyond this is that of nothing that anybody counts.
const EXPONENT_MAX: i64 = 1 << 40;

/// A number that is ordered as the numbers that keys say, but may be the same for two that differ behind the digits that a
/// float has; 0 for what says none.
pub(super) fn prefix(key: &[u8]) -> u64 {
    let Some(found) = Decimal::find(key) else { return 0 };
    let text = std::str::from_utf8(found.text).unwrap_or_default();
    let value: f64 = text.parse().unwrap_or(0.0);
    // The two zeros are one number.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Compares the numbers that keys say; what says none comes first.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (Decimal::find(a), Decimal::find(b)) {
        (Some(a), Some(b)) => a.compare(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// A number as it is written.
struct Decimal<'a> {
    /// All of it.
    text: &'a [u8],
    is_negative: bool,
    /// Digits before the point and behind it.
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// The longest beginning that is a number.
    fn find(key: &'a [u8]) -> Option<Self> {
        let text = key.trim_ascii_start();
        let sign = text.first().copied().filter(|byte| matches!(byte, b'+' | b'-'));
        let mut at = usize::from(sign.is_some());
        let whole = digits(&text[at..]);
        at += whole.len();
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = digits(&text[at + 1..]);
            // A point alone is no number, and a point behind digits is a part of one.
            at += 1 + fraction.len();
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (exponent, bytes) = exponent(&text[at..]);
        at += bytes;
        Some(Self { text: &text[..at], is_negative: sign == Some(b'-'), whole, fraction, exponent })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_size = self.compare_size(other);
        match (self.sign(), other.sign()) {
            (-1, -1) => by_size.reverse(),
            (1, 1) => by_size,
            (sign, others) => sign.cmp(&others),
        }
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.digits().next(), self.is_negative) {
            (None, _) => 0,
            (Some(_), true) => -1,
            (Some(_), false) => 1,
        }
    }

    /// Compares without signs.
    fn compare_size(&self, other: &Self) -> Ordering {
        self.point().cmp(&other.point()).then_with(|| {
            let (mut digits, mut others) = (self.digits(), other.digits());
            loop {
                match (digits.next(), others.next()) {
                    (None, None) => return Ordering::Equal,
                    // Zeros at the end say nothing.
                    (digit, its) => match digit.unwrap_or(b'0').cmp(&its.unwrap_or(b'0')) {
                        Ordering::Equal => {}
                        differs => return differs,
                    },
                }
            }
        })
    }

    /// Its digits from the first that is not 0 on.
    fn digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.whole.iter().chain(self.fraction).copied().skip_while(|digit| *digit == b'0')
    }

    /// How many digits from the first that is not 0 on are before the point; fewer than none if zeros are between the point
    /// and it.
    fn point(&self) -> i64 {
        let zeros = |digits: &[u8]| digits.iter().take_while(|digit| **digit == b'0').count();
        let leading = zeros(self.whole);
        let place = if leading < self.whole.len() {
            (self.whole.len() - leading) as i64
        } else {
            -(zeros(self.fraction) as i64)
        };
        place + self.exponent
    }
}

/// The digits at the beginning.
fn digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// The exponent at the beginning, and its bytes; none if no digit follows the letter.
fn exponent(text: &[u8]) -> (i64, usize) {
    if !matches!(text.first(), Some(b'e' | b'E')) {
        return (0, 0);
    }
    let sign = text.get(1).copied().filter(|byte| matches!(byte, b'+' | b'-'));
    let start = 1 + usize::from(sign.is_some());
    let digits = digits(&text[start..]);
    let value = digits
        .iter()
        .fold(0_i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    match digits.len() {
        0 => (0, 0),
        count => (if sign == Some(b'-') { -value } else { value }, start + count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(a: &str, b: &str) -> Ordering {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let exact = compare(a, b);
        let rough = prefix(a).cmp(&prefix(b));
        assert!(rough == Ordering::Equal || rough == exact, "{a:?} {b:?}");
        exact
    }

    #[test]
    fn numbers_are_ordered_as_numbers() {
        let ordered = [
            "none",
            "-1e300",
            "-9007199254740993",
            "-9007199254740992",
            "-12",
            "-3.5",
            "-0.001",
            "0",
            "1e-500",
            "1e-400",
            "0.5",
            "1.2.3",
            "7 apples",
            "10-20",
            "12eggs",
            "70",
            "99",
            "1e2x",
            "2023-12-31",
            "2024-01-02",
            "1e9",
            "9007199254740992",
            "9007199254740993",
            "123456789012345678901234567890",
            "123456789012345678901234567891",
            "1e400",
            "1e500",
        ];
        for pair in ordered.windows(2) {
            assert_eq!(both(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(both(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
    }

    #[test]
    fn one_number_may_be_written_in_many_ways() {
        for (a, b) in [
            ("-0", "0.0"),
            ("0", "0e7"),
            (" 12", "12.0"),
            ("+12", "0012."),
            ("12e", "12"),
            ("12e+", "12"),
            ("1200", "1.2e3"),
            (".5", "5e-1"),
            ("0.00012", "12e-5"),
            ("", "eggs"),
            ("-", "."),
            ("+-1", "e5"),
            ("inf", "nan"),
            ("1e99999999999999999999", "1e99999999999999999998"),
        ] {
            assert_eq!(both(a, b), Ordering::Equal, "{a} {b}");
        }
    }
}
