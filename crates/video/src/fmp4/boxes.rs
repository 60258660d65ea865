//! Boxes, of which all MP4 files are made: a size, a kind of four letters, and a body.

use std::io::Read;

use super::{Fmp4Error, bad};

/// Boxes side by side in one box; real files have a dozen.
const SIBLINGS_MAX: usize = 1_024;

/// The head of a box in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) kind: [u8; 4],
    /// Bytes of the head itself.
    pub(super) length: u64,
    /// Bytes of the box, head included.
    pub(super) size: u64,
}

impl Header {
    /// Reads the head of a box of which at most `left` bytes can be there.
    pub(super) fn read(file: &mut impl Read, left: u64) -> Result<Self, Fmp4Error> {
        if left < 8 {
            return Err(bad("it ends in the middle of a box"));
        }
        let mut start = [0; 8];
        file.read_exact(&mut start)?;
        let mut start = Reader(&start);
        let (mut size, kind) = (u64::from(start.u32()?), start.take()?);
        let mut length = 8;
        if size == 1 && left >= 16 {
            let mut large = [0; 8];
            file.read_exact(&mut large)?;
            (size, length) = (u64::from_be_bytes(large), 16);
        }
        if size < length || size > left {
            let kind = kind.escape_ascii();
            return Err(bad(format!("the box {kind} says {size} bytes, but {left} are there")));
        }
        Ok(Self { kind, length, size })
    }

    /// The body that follows the head.
    pub(super) fn body(self, file: &mut impl Read, max: u64) -> Result<Vec<u8>, Fmp4Error> {
        let bytes = self.size - self.length;
        if bytes > max {
            let kind = self.kind.escape_ascii();
            return Err(bad(format!("the box {kind} has {bytes} bytes, at most {max} are read")));
        }
        let mut body = Vec::new();
        if file.take(bytes).read_to_end(&mut body)? as u64 != bytes {
            return Err(bad("it ends in the middle of a box"));
        }
        Ok(body)
    }
}

/// A box in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boxed<'a> {
    pub(super) kind: [u8; 4],
    pub(super) body: &'a [u8],
}

/// All boxes of a body.
pub(super) fn children(mut body: &[u8]) -> Result<Vec<Boxed<'_>>, Fmp4Error> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let header = Header::read(&mut &*body, body.len() as u64)?;
        let whole = body.get(..usize::try_from(header.size).unwrap_or(usize::MAX));
        let whole = whole.ok_or_else(|| bad("it ends in the middle of a box"))?;
        found.push(Boxed { kind: header.kind, body: &whole[header.length as usize..] });
        body = &body[whole.len()..];
        if found.len() > SIBLINGS_MAX {
            return Err(bad(format!("more than {SIBLINGS_MAX} boxes are side by side")));
        }
    }
    Ok(found)
}

/// The one box of a kind; an error if there is none or more than one.
pub(super) fn only<'a>(body: &'a [u8], kind: &[u8; 4]) -> Result<&'a [u8], Fmp4Error> {
    let found = optional(body, kind)?;
    found.ok_or_else(|| bad(format!("the box {} is missing", kind.escape_ascii())))
}

/// The one box of a kind, if there is any.
pub(super) fn optional<'a>(body: &'a [u8], kind: &[u8; 4]) -> Result<Option<&'a [u8]>, Fmp4Error> {
    let mut all = children(body)?.into_iter().filter(|found| found.kind == *kind);
    let first = all.next();
    if all.next().is_some() {
        return Err(bad(format!("the box {} is there twice", kind.escape_ascii())));
    }
    Ok(first.map(|found| found.body))
}

/// The box at the end of a path of kinds.
pub(super) fn inside<'a>(body: &'a [u8], path: &[&[u8; 4]]) -> Result<&'a [u8], Fmp4Error> {
    path.iter().try_fold(body, |body, kind| only(body, kind))
}

/// Writes a box around a body.
pub(super) fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("boxes are made from tables with limits");
    [&size.to_be_bytes()[..], kind, body].concat()
}

/// Reads numbers one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], Fmp4Error> {
        let (first, rest) =
            self.0.split_first_chunk().ok_or_else(|| bad("a box is shorter than its contents"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Result<(), Fmp4Error> {
        self.0 = self.0.get(bytes..).ok_or_else(|| bad("a box is shorter than its contents"))?;
        Ok(())
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fmp4Error> {
        Ok(u8::from_be_bytes(self.take()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fmp4Error> {
        Ok(u16::from_be_bytes(self.take()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fmp4Error> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fmp4Error> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    /// The version and the flags at the beginning of many boxes.
    pub(super) fn version_and_flags(&mut self) -> Result<(u8, u32), Fmp4Error> {
        let both = self.u32()?;
        Ok(((both >> 24) as u8, both & 0xff_ffff))
    }

    /// A number of 8 bytes in version 1, of 4 before.
    pub(super) fn by_version(&mut self, version: u8) -> Result<u64, Fmp4Error> {
        if version == 1 { self.u64() } else { Ok(u64::from(self.u32()?)) }
    }
}
