//! The part of a queue that is in memory: packed entries of one band of one host, the first at the front.
//!
//! There are many queues and most are short, so their bytes lie in pieces of one size that all queues share, and so do
//! their heads. What one queue gives back the next one takes, and nothing is lost between pieces of unlike sizes.

use super::entry;
use super::table::Table;

/// Bytes of a piece, with the number of the next.
const PIECE_BYTES: usize = 64;
const NEXT_BYTES: usize = 4;
const ROOM: usize = PIECE_BYTES - NEXT_BYTES;
/// No piece, or no queue.
const NONE: u32 = u32::MAX;

/// The pieces and heads of all queues.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Table<[u8; PIECE_BYTES]>,
    /// The first piece that is free; each names the next.
    free: u32,
    heads: Table<Held>,
    /// The first head that is free; each names the next.
    free_head: u32,
}

/// The queues of a host, at most one for each band: the number of the first head, which names the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queues(u32);

/// The head of a queue.
#[derive(Clone, Copy, Debug)]
struct Held {
    first: u32,
    last: u32,
    /// Bytes of the first piece that were taken, and of the last that are written.
    taken: u8,
    written: u8,
    /// Entries that are left.
    count: u16,
    /// The head of the next queue of the host.
    next: u32,
    band: u8,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { pieces: Table::default(), free: NONE, heads: Table::default(), free_head: NONE }
    }
}

impl Pieces {
    /// What they take in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.bytes() + self.heads.bytes()
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

impl Queues {
    /// No queue.
    pub(super) const NONE: Self = Self(NONE);

    fn find(self, pieces: &Pieces, band: u8) -> Option<u32> {
        let mut at = self.0;
        while at != NONE && pieces.heads[at].band != band {
            at = pieces.heads[at].next;
        }
        (at != NONE).then_some(at)
    }

    /// How many entries of a band are in memory.
    pub(super) fn count(self, pieces: &Pieces, band: u8) -> u32 {
        self.find(pieces, band).map_or(0, |at| u32::from(pieces.heads[at].count))
    }

    /// Adds a packed entry at the end of a band.
    pub(super) fn push(&mut self, pieces: &mut Pieces, band: u8, packed: &[u8]) {
        let at = self.find(pieces, band).unwrap_or_else(|| {
            let head = Held::new(band, self.0);
            self.0 = match pieces.free_head {
                NONE => pieces.heads.push(head),
                free => {
                    pieces.free_head = pieces.heads[free].next;
                    pieces.heads[free] = head;
                    free
                }
            };
            self.0
        });
        let mut head = pieces.heads[at];
        head.push(pieces, packed);
        pieces.heads[at] = head;
    }

    /// Takes the first entry of a band. A queue that is empty then has given back its pieces and its head.
    pub(super) fn pop(&mut self, pieces: &mut Pieces, band: u8) -> Option<Box<[u8]>> {
        let at = self.find(pieces, band)?;
        let mut head = pieces.heads[at];
        let packed = head.pop(pieces);
        pieces.heads[at] = head;
        if head.count == 0 {
            self.unlink(pieces, at);
        }
        packed
    }

    fn unlink(&mut self, pieces: &mut Pieces, at: u32) {
        let next = pieces.heads[at].next;
        if self.0 == at {
            self.0 = next;
        } else {
            let mut before = self.0;
            while pieces.heads[before].next != at {
                before = pieces.heads[before].next;
            }
            pieces.heads[before].next = next;
        }
        pieces.heads[at].next = pieces.free_head;
        pieces.free_head = at;
    }
}

impl Held {
    fn new(band: u8, next: u32) -> Self {
        Self { first: NONE, last: NONE, taken: 0, written: 0, count: 0, next, band }
    }

    /// Adds a packed entry at the end.
    fn push(&mut self, pieces: &mut Pieces, packed: &[u8]) {
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
    fn pop(&mut self, pieces: &mut Pieces) -> Option<Box<[u8]>> {
        self.count = self.count.checked_sub(1)?;
        let mut packed = Vec::with_capacity(ROOM);
        self.read(pieces, &mut packed, entry::HEAD);
        let length = entry::needed(&packed);
        packed.reserve_exact(length - packed.len());
        self.read(pieces, &mut packed, length);
        if self.count == 0 && self.first != NONE {
            pieces.give_back(self.first);
            *self = Self::new(self.band, self.next);
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
        // Two hosts with three bands each.
        let mut hosts = [Queues::NONE; 2];
        let path = |queue: usize, n: usize| format!("/{queue}/{n}/{}", "x".repeat(n * 7 % 150));
        let packed = |queue: usize, n: usize| {
            let (hops, failed, depth, path) = (0, 0, 1, path(queue, n));
            Entry { depth, hops, failed, is_known: false, is_sitemap: false, path: &path }.packed()
        };
        let queues = || (0..6).map(|queue| (queue, queue / 3, (queue % 3) as u8));
        let mut most = (0, 0);
        for round in 0..4 {
            let mut out = [0; 6];
            for n in 0..400 {
                for (queue, host, band) in queues() {
                    hosts[host].push(&mut pieces, band, &packed(queue, n));
                    if n % 3 == 2 {
                        let entry = hosts[host].pop(&mut pieces, band);
                        assert_eq!(entry, Some(packed(queue, out[queue])));
                        out[queue] += 1;
                    }
                }
            }
            // The first, the middle and the last of the heads of a host go first.
            for (queue, host, band) in queues().skip(round % 3).chain(queues().take(round % 3)) {
                assert_eq!(hosts[host].count(&pieces, band) as usize, 400 - out[queue]);
                while let Some(entry) = hosts[host].pop(&mut pieces, band) {
                    assert_eq!(entry, packed(queue, out[queue]));
                    out[queue] += 1;
                }
                assert_eq!((out[queue], hosts[host].count(&pieces, band)), (400, 0));
            }
            assert_eq!(hosts, [Queues::NONE; 2]);
            let now = (pieces.pieces.len(), pieces.heads.len());
            most = if round == 0 { now } else { most };
            assert_eq!(now, most, "what was given back is taken again");
        }
        assert_eq!(most.1, 6);
    }
}
