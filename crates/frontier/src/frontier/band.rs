//! The part of a queue that is in memory: packed entries of one band of one host, the first at the front.
//!
//! There are many queues and most are short, so their bytes lie in pieces of one size that all queues share. What one
//! queue gives back the next one takes, and nothing is lost between pieces of unlike sizes.

use super::entry;
use super::table::Table;

/// Bytes of a piece, with the number of the next.
const PIECE_BYTES: usize = 64;
const NEXT_BYTES: usize = 4;
const ROOM: usize = PIECE_BYTES - NEXT_BYTES;
/// No piece.
const NONE: u32 = u32::MAX;

/// The pieces of all queues.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Table<[u8; PIECE_BYTES]>,
    /// The first piece that is free; each names the next.
    free: u32,
}

/// The head of a queue.
#[derive(Debug)]
pub(super) struct Held {
    first: u32,
    last: u32,
    /// Bytes of the first piece that were taken, and of the last that are written.
    taken: u8,
    written: u8,
    /// Entries that are left.
    count: u16,
    /// The band.
    pub(super) band: u8,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { pieces: Table::default(), free: NONE }
    }
}

impl Pieces {
    /// What they take in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.bytes()
    }

    fn take(&mut self) -> u32 {
        let piece = self.free;
        if piece == NONE {
            return self.pieces.push(ended());
        }
        self.free = self.next(piece);
        self.pieces[piece] = ended();
        piece
    }

    fn give_back(&mut self, piece: u32) {
        let free = self.free;
        self.link(piece, free);
        self.free = piece;
    }

    fn next(&self, piece: u32) -> u32 {
        let (_, next) = self.pieces[piece].split_last_chunk().expect("a piece is longer");
        u32::from_le_bytes(*next)
    }

    fn link(&mut self, piece: u32, next: u32) {
        self.pieces[piece][ROOM..].copy_from_slice(&next.to_le_bytes());
    }
}

impl Held {
    pub(super) fn new(band: u8) -> Self {
        Self { first: NONE, last: NONE, taken: 0, written: 0, count: 0, band }
    }

    pub(super) fn count(&self) -> u32 {
        u32::from(self.count)
    }

    /// Whether one more entry can be counted.
    pub(super) fn is_full(&self) -> bool {
        self.count == u16::MAX
    }

    /// Adds a packed entry at the end.
    pub(super) fn push(&mut self, pieces: &mut Pieces, packed: &[u8]) {
        let mut rest = packed;
        while !rest.is_empty() {
            if self.last == NONE || usize::from(self.written) == ROOM {
                let piece = pieces.take();
                match self.last {
                    NONE => self.first = piece,
                    last => pieces.link(last, piece),
                }
                (self.last, self.written) = (piece, 0);
            }
            let start = usize::from(self.written);
            let (now, later) = rest.split_at(rest.len().min(ROOM - start));
            pieces.pieces[self.last][start..start + now.len()].copy_from_slice(now);
            self.written += now.len() as u8;
            rest = later;
        }
        self.count += 1;
    }

    /// Takes the first entry. A queue that is empty then has given back all its pieces.
    pub(super) fn pop(&mut self, pieces: &mut Pieces) -> Option<Box<[u8]>> {
        self.count = self.count.checked_sub(1)?;
        let mut packed = Vec::with_capacity(ROOM);
        self.read(pieces, &mut packed, entry::HEAD);
        let length = entry::needed(&packed);
        packed.reserve_exact(length - packed.len());
        self.read(pieces, &mut packed, length);
        if self.count == 0 && self.first != NONE {
            pieces.give_back(self.first);
            *self = Self::new(self.band);
        }
        Some(packed.into_boxed_slice())
    }

    /// Takes bytes until there are so many.
    fn read(&mut self, pieces: &mut Pieces, packed: &mut Vec<u8>, length: usize) {
        while packed.len() < length {
            if usize::from(self.taken) == ROOM {
                let next = pieces.next(self.first);
                pieces.give_back(self.first);
                (self.first, self.taken) = (next, 0);
            }
            let start = usize::from(self.taken);
            let end = ROOM.min(start + length - packed.len());
            packed.extend_from_slice(&pieces.pieces[self.first][start..end]);
            self.taken = end as u8;
        }
    }
}

/// A piece without a next one.
fn ended() -> [u8; PIECE_BYTES] {
    let mut piece = [0; PIECE_BYTES];
    piece[ROOM..].copy_from_slice(&NONE.to_le_bytes());
    piece
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;

    #[test]
    fn entries_leave_in_the_order_in_which_they_came_and_pieces_are_used_again() {
        let mut pieces = Pieces::default();
        let mut queues = [Held::new(0), Held::new(1), Held::new(2)];
        let path = |queue: usize, n: usize| format!("/{queue}/{n}/{}", "x".repeat(n * 7 % 150));
        let packed = |queue: usize, n: usize| {
            let (hops, failed, depth, path) = (0, 0, 1, path(queue, n));
            Entry { depth, hops, failed, is_known: false, is_sitemap: false, path: &path }.packed()
        };
        let mut most = 0;
        for round in 0..4 {
            let mut out = [0; 3];
            for n in 0..400 {
                for (queue, held) in queues.iter_mut().enumerate() {
                    held.push(&mut pieces, &packed(queue, n));
                    if n % 3 == 2 {
                        assert_eq!(held.pop(&mut pieces), Some(packed(queue, out[queue])));
                        out[queue] += 1;
                    }
                }
            }
            for (queue, held) in queues.iter_mut().enumerate() {
                assert_eq!(held.count() as usize, 400 - out[queue]);
                while let Some(entry) = held.pop(&mut pieces) {
                    assert_eq!(entry, packed(queue, out[queue]));
                    out[queue] += 1;
                }
                assert_eq!((out[queue], held.first), (400, NONE));
            }
            most = if round == 0 { pieces.pieces.len() } else { most };
            assert_eq!(pieces.pieces.len(), most, "what was given back is taken again");
        }
    }
}
