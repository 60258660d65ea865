//! One field of a record: nothing, text, or a number that came as one.

use std::io::Write as _;

use super::Number;

/// A field. In CSV every field is text, and an empty one is nothing; JSON says which are numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Field<'a> {
    /// Empty, `null`, or not there at all.
    #[default]
    Nothing,
    /// Text; it may be that of a number.
    Text(&'a [u8]),
    /// A number of JSON.
    Number(Number),
}

impl<'a> Field<'a> {
    /// What is between two delimiters.
    #[inline]
    pub fn of_text(text: &'a [u8]) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::Text(text) }
    }

    /// Whether there is nothing.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The number that it is, or that its text is.
    #[inline]
    pub fn number(&self) -> Option<Number> {
        match self {
            Self::Nothing => None,
            Self::Text(text) => Number::parse(text),
            Self::Number(number) => Some(*number),
        }
    }

    /// Its text; that of a number is written into `buffer`.
    #[inline]
    pub fn text<'b>(&self, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Self::Nothing => b"",
            Self::Text(text) => text,
            Self::Number(number) => {
                buffer.clear();
                write_number(*number, buffer);
                buffer
            }
        }
    }
}

/// Writes a number so that reading gives the same number back: floats always with a point or an exponent.
pub fn write_number(number: Number, out: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = match number {
        Number::Whole(value) => write!(out, "{value}"),
        Number::Float(value) => write!(out, "{value:?}"),
    };
}
