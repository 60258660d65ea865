//! Numbers as text: whole ones exactly, others as the nearest 64-bit float.

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole one that fits 64 bits.
    Whole(i64),
    /// Any other; never NaN.
    Float(f64),
}

impl Number {
    /// Reads a whole text: an optional sign, digits, a fraction, an exponent. White space around it is allowed. NaN and
    /// infinity are no numbers here: no sum survives them.
    #[inline]
    pub fn parse(text: &[u8]) -> Option<Self> {
        short(text).or_else(|| long(text.trim_ascii()))
    }

    /// The number as a float.
    #[inline]
    pub fn float(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// A plain decimal of at most 15 digits: digits and a power of ten are then exact floats, and one division rounds once
/// (Clinger 1990).
#[inline]
fn short(text: &[u8]) -> Option<Number> {
    const TENS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let (mut value, mut seen, mut point) = (0_i64, 0_usize, None);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            value = value * 10 + i64::from(digit);
            seen += 1;
        } else if *byte == b'.' && point.is_none() {
            point = Some(seen);
        } else {
            return None;
        }
    }
    if seen == 0 || seen > 15 {
        return None;
    }
    let value = if negative { -value } else { value };
    Some(match point {
        None => Number::Whole(value),
        Some(_) if value == 0 && negative => Number::Float(-0.0),
        Some(at) => Number::Float(value as f64 / TENS[seen - at]),
    })
}

#[cold]
fn long(text: &[u8]) -> Option<Number> {
    if !text.last()?.is_ascii_digit() && text.last() != Some(&b'.') {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Number::Whole(whole));
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Number::Float)
}
