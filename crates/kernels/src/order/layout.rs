//! What a record is, which part of it is compared, and how.
//!
//! The first eight bytes of a key become a number that is ordered as the keys are; only where two such numbers are equal
//! are the rest of the keys looked at. Of a numeric key that number is as much as a float can say of it.

use std::cmp::Ordering;

use memchr::memchr;
use serde::{Deserialize, Serialize};

use super::number;

/// Bytes of a record of fixed size, at most.
pub const RECORD_BYTES_MAX: u32 = 1 << 20;

/// What a record is, and where its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Lines; the whole line is the key.
    Lines,
    /// Lines; a field is the key. A line without it has an empty key.
    Fields {
        /// Which field, counted from 1.
        field: u32,
        /// What stands between fields; nothing means any number of blanks and tabs.
        separator: Option<u8>,
    },
    /// Records of one size without line ends.
    Records {
        /// Bytes of a record.
        bytes: u32,
        /// Where the key begins in it.
        key_start: u32,
        /// Bytes of the key.
        key_bytes: u32,
    },
}

/// How records are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What they are.
    pub layout: Layout,
    /// Whether keys are numbers: the longest beginning that is one. What is none comes first.
    #[serde(default)]
    pub numeric: bool,
    /// Whether the largest comes first. Equal keys keep the order of the input all the same.
    #[serde(default)]
    pub reverse: bool,
}

impl Order {
    /// Lines by their bytes.
    pub const LINES: Self = Self { layout: Layout::Lines, numeric: false, reverse: false };

    /// Whether this can be sorted by; says what is wrong and how it would be right.
    pub fn check(&self) -> Result<(), String> {
        match self.layout {
            Layout::Lines => Ok(()),
            Layout::Fields { field: 0, .. } => {
                Err("the field of the key is 0; fields are counted from 1".to_owned())
            }
            Layout::Fields { separator: Some(b'\n'), .. } => {
                Err("the separator of fields is a line end; take another byte".to_owned())
            }
            Layout::Fields { .. } => Ok(()),
            Layout::Records { bytes, .. } if bytes == 0 || bytes > RECORD_BYTES_MAX => {
                Err(format!(
                    "records of {bytes} bytes cannot be sorted; they have 1 to {RECORD_BYTES_MAX} bytes"
                ))
            }
            Layout::Records { bytes, key_start, key_bytes } => {
                let end = u64::from(key_start) + u64::from(key_bytes);
                if key_bytes == 0 || end > u64::from(bytes) {
                    return Err(format!(
                        "the key of {key_bytes} bytes from byte {key_start} on is not in a record of {bytes} bytes"
                    ));
                }
                Ok(())
            }
        }
    }

    /// Whether records are lines.
    pub fn is_lines(&self) -> bool {
        !matches!(self.layout, Layout::Records { .. })
    }

    /// The key of a record, which is given without its line end.
    #[inline]
    pub fn key<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        match self.layout {
            Layout::Lines => record,
            Layout::Fields { field, separator: Some(separator) } => {
                separated(record, field, separator)
            }
            Layout::Fields { field, separator: None } => blank_separated(record, field),
            Layout::Records { key_start, key_bytes, .. } => {
                &record[key_start as usize..(key_start + key_bytes) as usize]
            }
        }
    }

    /// The number of the eight bytes of a key from `depth` on.
    #[inline]
    pub(super) fn prefix(&self, key: &[u8], depth: usize) -> u64 {
        let plain = match self.numeric {
            true => number::prefix(key),
            false => word(key.get(depth..).unwrap_or(&[])),
        };
        if self.reverse { !plain } else { plain }
    }

    /// Compares two keys.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.prefix(a, 0).cmp(&self.prefix(b, 0)).then_with(|| self.compare_rest(a, b))
    }

    /// Compares two keys whose prefixes are equal.
    #[inline]
    pub(super) fn compare_rest(&self, a: &[u8], b: &[u8]) -> Ordering {
        let plain = if self.numeric { number::compare(a, b) } else { a.cmp(b) };
        if self.reverse { plain.reverse() } else { plain }
    }
}

/// Up to eight bytes as a number that is ordered as they are.
#[inline]
fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(eight)
}

fn separated(line: &[u8], field: u32, separator: u8) -> &[u8] {
    let mut rest = line;
    for _ in 1..field {
        match memchr(separator, rest) {
            Some(at) => rest = &rest[at + 1..],
            None => return &[],
        }
    }
    memchr(separator, rest).map_or(rest, |end| &rest[..end])
}

fn blank_separated(line: &[u8], field: u32) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut rest = line;
    for nth in 1..=field {
        let Some(start) = rest.iter().position(|byte| !is_blank(byte)) else { return &[] };
        rest = &rest[start..];
        let end = rest.iter().position(is_blank).unwrap_or(rest.len());
        if nth == field {
            return &rest[..end];
        }
        rest = &rest[end..];
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(field: u32, separator: Option<u8>) -> Order {
        Order { layout: Layout::Fields { field, separator }, ..Order::LINES }
    }

    #[test]
    fn fields_are_found_where_they_are() {
        for (line, field, separator, key) in [
            ("a,b,c", 1, Some(b','), "a"),
            ("a,b,c", 3, Some(b','), "c"),
            ("a,,c", 2, Some(b','), ""),
            ("a,b", 3, Some(b','), ""),
            ("  a \t b  ", 1, None, "a"),
            ("  a \t b  ", 2, None, "b"),
            ("  a \t b  ", 3, None, ""),
            ("", 1, None, ""),
        ] {
            assert_eq!(
                fields(field, separator).key(line.as_bytes()),
                key.as_bytes(),
                "{line:?} {field}"
            );
        }
    }

    #[test]
    fn what_cannot_be_a_key_is_refused() {
        let records = |bytes, key_start, key_bytes| Order {
            layout: Layout::Records { bytes, key_start, key_bytes },
            ..Order::LINES
        };
        assert!(records(100, 0, 10).check().is_ok());
        for bad in
            [records(0, 0, 0), records(100, 95, 10), records(100, 0, 0), records(u32::MAX, 0, 4)]
        {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert!(records(10, u32::MAX, 2).check().is_err());
        assert!(fields(0, None).check().unwrap_err().contains("from 1"));
    }
}
