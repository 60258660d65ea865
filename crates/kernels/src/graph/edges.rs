//! Edges as lines of text and as packed numbers.
//!
//! A line is from, to and perhaps a weight, with tabs between them; or, in a line without tabs, blanks; or, without
//! those, commas. Empty lines and lines that begin with `#` or `%` are no edges. That reads the lists of SNAP and
//! Matrix Market's pairs, and the links that a crawl writes.

use memchr::memchr;
use thiserror::Error;

/// Bytes of a packed edge without weight.
pub const PLAIN_BYTES: usize = 8;
/// Bytes of a packed edge with its weight.
pub const WEIGHTED_BYTES: usize = 12;

/// A line of a list of edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// Where the edge begins.
    pub from: &'a [u8],
    /// Where it ends.
    pub to: &'a [u8],
    /// The third field, if there is one.
    pub weight: Option<&'a [u8]>,
}

/// Why a line is no edge.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadEdge {
    /// There is only one field.
    #[error("has one field; an edge is from and to, with a tab, blanks or a comma between them")]
    OneField,
    /// A vertex is not a number that fits.
    #[error(
        "names the vertex `{0}`, which is no number from 0 to 4294967294; say `--ids name` if vertices have names"
    )]
    Vertex(String),
    /// A weight is not a number, or below zero.
    #[error("has the weight `{0}`; a weight is a number that is not below 0")]
    Weight(String),
    /// A weight is missing.
    #[error("has no weight, but weights were asked for; give each edge a third field")]
    NoWeight,
}

/// The edge of a line, which is given without its end; nothing if the line holds none.
pub fn parse(line: &[u8]) -> Result<Option<Line<'_>>, BadEdge> {
    let line = line.trim_ascii();
    if matches!(line.first(), None | Some(b'#' | b'%')) {
        return Ok(None);
    }
    let separator = [b'\t', b' ', b','].into_iter().find(|byte| memchr(*byte, line).is_some());
    let Some(separator) = separator else { return Err(BadEdge::OneField) };
    let mut fields = line
        .split(|byte| *byte == separator)
        .map(<[u8]>::trim_ascii)
        .filter(|field| !field.is_empty());
    match (fields.next(), fields.next()) {
        (Some(from), Some(to)) => Ok(Some(Line { from, to, weight: fields.next() })),
        _ => Err(BadEdge::OneField),
    }
}

/// The number of a vertex. The largest number of 32 bits is none, so that vertices can be counted in 32 bits.
pub fn vertex(field: &[u8]) -> Result<u32, BadEdge> {
    let bad = || BadEdge::Vertex(shown(field));
    if field.is_empty() || field.len() > 10 {
        return Err(bad());
    }
    let mut number = 0u64;
    for byte in field {
        if !byte.is_ascii_digit() {
            return Err(bad());
        }
        number = number * 10 + u64::from(byte - b'0');
    }
    if number >= u64::from(u32::MAX) { Err(bad()) } else { Ok(number as u32) }
}

/// The weight of a line.
pub fn weight(field: Option<&[u8]>) -> Result<f32, BadEdge> {
    let field = field.ok_or(BadEdge::NoWeight)?;
    let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f32>().ok());
    match parsed {
        Some(weight) if weight.is_finite() && weight >= 0.0 => Ok(weight),
        _ => Err(BadEdge::Weight(shown(field))),
    }
}

fn shown(field: &[u8]) -> String {
    String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned()
}

/// Appends an edge.
#[inline]
pub fn pack(from: u32, to: u32, weight: Option<f32>, block: &mut Vec<u8>) {
    block.extend_from_slice(&from.to_le_bytes());
    block.extend_from_slice(&to.to_le_bytes());
    if let Some(weight) = weight {
        block.extend_from_slice(&weight.to_le_bytes());
    }
}

/// The edges of a block without weights.
#[inline]
pub fn plain(block: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    block.as_chunks::<PLAIN_BYTES>().0.iter().map(|edge| {
        let packed = u64::from_le_bytes(*edge);
        (packed as u32, (packed >> 32) as u32)
    })
}

/// The edges of a block with weights.
#[inline]
pub fn weighted(block: &[u8]) -> impl Iterator<Item = (u32, u32, f32)> {
    block.as_chunks::<WEIGHTED_BYTES>().0.iter().map(|edge| {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *edge;
        (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
            f32::from_le_bytes([i, j, k, l]),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_kinds_are_read() {
        let edge = |line: &str| {
            let line = parse(line.as_bytes()).unwrap()?;
            let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
            Some((text(line.from), text(line.to), line.weight.map(text)))
        };
        let is = |from: &str, to: &str, weight: Option<&str>| {
            Some((from.to_owned(), to.to_owned(), weight.map(str::to_owned)))
        };
        assert_eq!(edge("1\t2"), is("1", "2", None));
        assert_eq!(edge("  1   2  0.5\r"), is("1", "2", Some("0.5")));
        assert_eq!(edge("1,2,7"), is("1", "2", Some("7")));
        assert_eq!(edge("http://a/x,y z\thttp://b/"), is("http://a/x,y z", "http://b/", None));
        assert_eq!(edge("# from to"), None);
        assert_eq!(edge("%%MatrixMarket"), None);
        assert_eq!(edge("   "), None);
        assert_eq!(parse(b"alone"), Err(BadEdge::OneField));
    }

    #[test]
    fn what_is_no_vertex_or_weight_is_named() {
        assert_eq!(vertex(b"4294967294"), Ok(4_294_967_294));
        for bad in ["4294967295", "-1", "", "1.0", "x", "99999999999"] {
            assert!(matches!(vertex(bad.as_bytes()), Err(BadEdge::Vertex(_))), "{bad}");
        }
        assert_eq!(weight(Some(b"0.25")), Ok(0.25));
        assert_eq!(weight(None), Err(BadEdge::NoWeight));
        for bad in ["-1", "NaN", "inf", "much"] {
            assert!(matches!(weight(Some(bad.as_bytes())), Err(BadEdge::Weight(_))), "{bad}");
        }
    }

    #[test]
    fn packed_edges_come_back() {
        let (mut block, mut with_weights) = (Vec::new(), Vec::new());
        for (from, to) in [(1, 2), (u32::MAX - 1, 0)] {
            pack(from, to, None, &mut block);
            pack(from, to, Some(1.5), &mut with_weights);
        }
        assert_eq!(plain(&block).collect::<Vec<_>>(), [(1, 2), (u32::MAX - 1, 0)]);
        assert_eq!(
            weighted(&with_weights).collect::<Vec<_>>(),
            [(1, 2, 1.5), (u32::MAX - 1, 0, 1.5)]
        );
    }
}
