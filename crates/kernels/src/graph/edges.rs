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

/// Reads the line in front if it is a plain one: two numbers of at most eight digits, one tab, blank or comma between
/// them, and a line end; both, and the bytes of the line with its end. Of any other line nothing, whatever it is: that
/// is for [`parse`] and [`vertex`], which say the same of a plain one.
#[inline]
pub fn plain_line(bytes: &[u8]) -> Option<(u32, u32, usize)> {
    let (from, from_digits) = digits(bytes)?;
    let (separator, rest) = bytes[from_digits..].split_first()?;
    if !matches!(separator, b'\t' | b' ' | b',') {
        return None;
    }
    let (to, to_digits) = digits(rest)?;
    (rest.get(to_digits) == Some(&b'\n')).then_some((from, to, from_digits + to_digits + 2))
}

/// The number in front and its digits, one to eight of them: all at once, in a word of eight bytes (Lemire, "Quickly
/// parsing eight digits", 2018). Nothing if less than eight bytes are left.
#[inline]
fn digits(bytes: &[u8]) -> Option<(u32, usize)> {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    // A digit has a value below 10 here. 0x76 more reach the upper bit from 10 on.
    let values = word ^ u64::from_le_bytes([b'0'; 8]);
    let others = (((values & LOW_BITS) + 0x7676_7676_7676_7676) | values) & !LOW_BITS;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return None;
    }
    // What follows is shifted out, and zeros come before the digits.
    let values = values << (64 - 8 * count);
    let pairs = values * 10 + (values >> 8);
    let upper = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let lower = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    Some(((upper.wrapping_add(lower) >> 32) as u32, count))
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
    fn plain_lines_are_read_as_all_others_are() {
        let mut chance = fastrand::Rng::with_seed(16);
        let mut plain = 0;
        for _ in 0..200_000 {
            let mut line = Vec::new();
            for field in 0..chance.u8(1..4) {
                let separators: [&[u8]; 8] =
                    [b"\t", b" ", b",", b"  ", b"\t\t", b", ", b"\x0b", b"-"];
                let usual = chance.u8(0..4) > 0;
                if field > 0 {
                    line.extend_from_slice(separators[chance.usize(0..if usual { 3 } else { 8 })]);
                }
                let starts: [&str; 6] = ["", "00", "-", "+", " ", "#"];
                let start = if usual { "" } else { starts[chance.usize(0..6)] };
                let number = chance.u64(..) >> chance.u32(27..64);
                line.extend_from_slice(format!("{start}{number}").as_bytes());
            }
            let at = chance.usize(0..line.len());
            match chance.u8(0..40) {
                0 => line[at] = chance.u8(..),
                1 => line[at] = b'0' ^ 1 << chance.u8(0..8),
                2 => line.insert(at, b"\r \t,#%:/"[chance.usize(0..8)]),
                _ => {}
            }
            // A line of another kind would be two lines.
            line.retain(|byte| *byte != b'\n');
            let ends: [&[u8]; 5] = [b"\n", b"\n", b"\n", b"\r\n", b""];
            line.extend_from_slice(ends[chance.usize(0..5)]);
            let bytes = line.len();
            line.extend_from_slice(&b"77\t1234567890\n"[..chance.usize(0..15)]);
            let Some((from, to, read)) = plain_line(&line) else { continue };
            plain += 1;
            if line[..bytes].ends_with(b"\n") {
                assert_eq!(read, bytes, "{}", line.escape_ascii());
            }
            let edge = parse(&line[..read]).unwrap().unwrap();
            assert_eq!(edge.weight, None, "{}", line.escape_ascii());
            let wanted = (vertex(edge.from), vertex(edge.to));
            assert_eq!((Ok(from), Ok(to)), wanted, "{}", line.escape_ascii());
        }
        assert!(plain > 5_000, "{plain}");
        assert_eq!(plain_line(b"12345678\t00000007\n......."), Some((12_345_678, 7, 18)));
        assert_eq!(plain_line(b"123456789\t7\n......."), None);
        assert_eq!(plain_line(b"1\t2\r\n..........."), None);
        assert_eq!(plain_line(b"1\t2\t3\n..........."), None);
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
