//! How a queued address is packed: two bytes of length and marks, one of depth, one of redirects and attempts, the path.

use super::words::PATH_BYTES_MAX;

/// Bytes before the path.
pub(super) const HEAD: usize = 4;
const LENGTH_MASK: u16 = PATH_BYTES_MAX as u16;
const KNOWN: u16 = 1 << 12;
const SITEMAP: u16 = 1 << 13;
/// Redirects and attempts have four bits each.
const NIBBLE: u8 = 15;

/// A queued address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) depth: u8,
    pub(super) hops: u8,
    /// Attempts that failed.
    pub(super) failed: u8,
    pub(super) is_known: bool,
    pub(super) is_sitemap: bool,
    pub(super) path: &'a str,
}

impl<'a> Entry<'a> {
    /// Appends it, packed.
    pub(super) fn pack(&self, bytes: &mut Vec<u8>) {
        assert!(self.path.len() <= PATH_BYTES_MAX, "longer paths are refused when they are found");
        let mut word = self.path.len() as u16;
        word |= if self.is_known { KNOWN } else { 0 };
        word |= if self.is_sitemap { SITEMAP } else { 0 };
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.push(self.depth);
        bytes.push(self.hops.min(NIBBLE) | self.failed.min(NIBBLE) << 4);
        bytes.extend_from_slice(self.path.as_bytes());
    }

    /// It alone, packed.
    pub(super) fn packed(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(HEAD + self.path.len());
        self.pack(&mut bytes);
        bytes.into_boxed_slice()
    }

    /// The entry at the beginning of the bytes, and how many it takes.
    pub(super) fn unpack(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let word = u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]);
        let end = HEAD + usize::from(word & LENGTH_MASK);
        let path = std::str::from_utf8(bytes.get(HEAD..end)?).ok()?;
        let entry = Self {
            depth: bytes[2],
            hops: bytes[3] & NIBBLE,
            failed: bytes[3] >> 4,
            is_known: word & KNOWN != 0,
            is_sitemap: word & SITEMAP != 0,
            path,
        };
        Some((entry, end))
    }
}

/// How many bytes the entry at the beginning takes, if it is whole. Does not look at its path.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEAD)?;
    Some(needed(head)).filter(|end| *end <= bytes.len())
}

/// How many bytes an entry takes that begins so.
pub(super) fn needed(head: &[u8]) -> usize {
    HEAD + usize::from(u16::from_le_bytes([head[0], head[1]]) & LENGTH_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_as_they_were_and_broken_ones_do_not() {
        let mut bytes = Vec::new();
        let long = format!("/{}", "ä".repeat(2_047));
        let entries = [
            Entry { depth: 255, hops: 10, failed: 3, is_known: true, is_sitemap: false, path: "/" },
            Entry { depth: 0, hops: 0, failed: 0, is_known: false, is_sitemap: true, path: &long },
        ];
        entries.iter().for_each(|entry| entry.pack(&mut bytes));
        let (first, used) = Entry::unpack(&bytes).unwrap();
        let (second, rest) = Entry::unpack(&bytes[used..]).unwrap();
        assert_eq!(([first, second], used + rest), (entries, bytes.len()));
        assert_eq!((length(&bytes), length(&bytes[used..])), (Some(5), Some(4_099)));
        for cut in [0, 1, 3, 4] {
            assert!(Entry::unpack(&bytes[..cut]).is_none() && length(&bytes[..cut]).is_none());
        }
        assert!(Entry::unpack(&[1, 0, 0, 0, 0xff]).is_none(), "not UTF-8");
    }
}
