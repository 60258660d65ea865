//! Queues: the entries of one band of one host, by number. All of them are in the store; the first ones are in memory too.
//!
//! There are many queues and most are short, so what they hold in memory lies in pieces of one size that all queues share,
//! and so do the queues themselves. What one gives back the next one takes, and nothing is lost between pieces of unlike
//! sizes. A band without entries has no queue: its numbers begin anew once the store has dropped what was taken
//! ([`Queues::settle`]).

use super::entry;
use super::table::Table;
use crate::rules::priority::BANDS;

/// Bytes of a piece, with the number of the next.
const PIECE_BYTES: usize = 64;
const NEXT_BYTES: usize = 4;
const ROOM: usize = PIECE_BYTES - NEXT_BYTES;
/// Entries of a queue in memory.
pub(super) const HELD_MAX: u32 = u16::MAX as u32;
/// No piece, or no queue.
const NONE: u32 = u32::MAX >> BAND_BITS;
/// A band, beside the number of the next queue.
const BAND_BITS: u32 = BANDS.trailing_zeros();
const BAND_MASK: u32 = BANDS as u32 - 1;

/// The queues of all hosts, and the pieces that they are made of.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Table<[u8; PIECE_BYTES]>,
    /// The first piece that is free; each names the next.
    free: u32,
    queues: Table<Queue>,
    /// The first queue that is free; each names the next.
    free_queue: u32,
}

/// The queues of a host, at most one for each band: the number of the first, which names the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queues(u32);

/// One queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The number of the first entry that was not taken, and of the next one that comes.
    head: u32,
    end: u32,
    /// The pieces of what is in memory.
    first: u32,
    last: u32,
    /// Bytes of the first piece that were taken, and of the last that are written.
    taken: u8,
    written: u8,
    /// Entries in memory.
    count: u16,
    /// The next queue of the host, and the band of this one.
    link: u32,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { pieces: Table::default(), free: NONE, queues: Table::default(), free_queue: NONE }
    }
}

impl Pieces {
    /// What they take in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.bytes() + self.queues.bytes()
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

    fn add(&mut self, queue: Queue) -> u32 {
        match self.free_queue {
            NONE => self.queues.push(queue),
            free => {
                self.free_queue = self.queues[free].next();
                self.queues[free] = queue;
                free
            }
        }
    }
}

impl Queues {
    /// No queue.
    pub(super) const NONE: Self = Self(NONE);

    /// The numbers of the first entry of a band that was not taken, and of the next one that comes.
    pub(super) fn numbers(self, pieces: &Pieces, band: u8) -> (u32, u32) {
        self.find(pieces, band).map_or((0, 0), |at| (pieces.queues[at].head, pieces.queues[at].end))
    }

    /// How many entries of a band there are.
    pub(super) fn len(self, pieces: &Pieces, band: u8) -> u32 {
        let (head, end) = self.numbers(pieces, band);
        end - head
    }

    /// How many there are in all bands.
    pub(super) fn total(self, pieces: &Pieces) -> u64 {
        self.each(pieces).map(|queue| u64::from(queue.end - queue.head)).sum()
    }

    /// The best band that has entries.
    pub(super) fn best(self, pieces: &Pieces) -> Option<u8> {
        self.each(pieces).filter(|queue| queue.head < queue.end).map(|queue| queue.band()).min()
    }

    /// How many entries of a band are in memory.
    pub(super) fn held(self, pieces: &Pieces, band: u8) -> u32 {
        self.find(pieces, band).map_or(0, |at| u32::from(pieces.queues[at].count))
    }

    /// A band whose entries with these numbers are in the store.
    pub(super) fn restore(&mut self, pieces: &mut Pieces, band: u8, head: u32, end: u32) {
        if head < end {
            let at = self.find_or_add(pieces, band);
            (pieces.queues[at].head, pieces.queues[at].end) = (head, end);
        }
    }

    /// Adds a packed entry at the end of a band, and gives its number and whether it is in memory: if all before it are,
    /// and fewer than `most`.
    pub(super) fn append(
        &mut self,
        pieces: &mut Pieces,
        band: u8,
        packed: &[u8],
        most: u32,
    ) -> (u32, bool) {
        let at = self.find_or_add(pieces, band);
        let mut queue = pieces.queues[at];
        let (number, held) = (queue.end, u32::from(queue.count));
        let is_held = held == queue.end - queue.head && held < most.min(HELD_MAX);
        if is_held {
            queue.hold(pieces, packed);
        }
        queue.end += 1;
        pieces.queues[at] = queue;
        (number, is_held)
    }

    /// Holds the packed entry that comes after those of its band that are in memory.
    pub(super) fn hold(&mut self, pieces: &mut Pieces, band: u8, packed: &[u8]) {
        let at = self.find_or_add(pieces, band);
        let mut queue = pieces.queues[at];
        queue.hold(pieces, packed);
        pieces.queues[at] = queue;
    }

    /// Takes the first entry of a band, if it is in memory.
    pub(super) fn pop(self, pieces: &mut Pieces, band: u8) -> Option<Box<[u8]>> {
        let at = self.find(pieces, band)?;
        let mut queue = pieces.queues[at];
        let packed = queue.pop(pieces);
        pieces.queues[at] = queue;
        packed
    }

    /// Gives back queues without entries. What was taken from them must be gone from the store before anything that is
    /// added after this comes there.
    pub(super) fn settle(&mut self, pieces: &mut Pieces) {
        let (mut at, mut before) = (self.0, NONE);
        while at != NONE {
            let queue = pieces.queues[at];
            let next = queue.next();
            if queue.head < queue.end {
                before = at;
            } else {
                match before {
                    NONE => self.0 = next,
                    before => pieces.queues[before].set_next(next),
                }
                let free = pieces.free_queue;
                pieces.queues[at].set_next(free);
                pieces.free_queue = at;
            }
            at = next;
        }
    }

    fn each(self, pieces: &Pieces) -> impl Iterator<Item = &Queue> {
        let queue = |at: u32| (at != NONE).then(|| &pieces.queues[at]);
        std::iter::successors(queue(self.0), move |before| queue(before.next()))
    }

    fn find(self, pieces: &Pieces, band: u8) -> Option<u32> {
        let mut at = self.0;
        while at != NONE && pieces.queues[at].band() != band {
            at = pieces.queues[at].next();
        }
        (at != NONE).then_some(at)
    }

    fn find_or_add(&mut self, pieces: &mut Pieces, band: u8) -> u32 {
        self.find(pieces, band).unwrap_or_else(|| {
            self.0 = pieces.add(Queue::new(band, self.0));
            self.0
        })
    }
}

impl Queue {
    fn new(band: u8, next: u32) -> Self {
        let link = next << BAND_BITS | u32::from(band);
        Self { head: 0, end: 0, first: NONE, last: NONE, taken: 0, written: 0, count: 0, link }
    }

    fn band(&self) -> u8 {
        (self.link & BAND_MASK) as u8
    }

    fn next(&self) -> u32 {
        self.link >> BAND_BITS
    }

    fn set_next(&mut self, next: u32) {
        self.link = next << BAND_BITS | self.link & BAND_MASK;
    }

    /// Adds a packed entry behind those that are in memory.
    fn hold(&mut self, pieces: &mut Pieces, packed: &[u8]) {
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

    /// Takes the first entry. A queue that has nothing in memory then has given back all its pieces.
    fn pop(&mut self, pieces: &mut Pieces) -> Option<Box<[u8]>> {
        self.count = self.count.checked_sub(1)?;
        self.head += 1;
        let mut packed = Vec::with_capacity(ROOM);
        self.read(pieces, &mut packed, entry::HEAD);
        let length = entry::needed(&packed);
        packed.reserve_exact(length - packed.len());
        self.read(pieces, &mut packed, length);
        if self.count == 0 && self.first != NONE {
            pieces.give_back(self.first);
            (self.first, self.last, self.taken, self.written) = (NONE, NONE, 0, 0);
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
                    let added = hosts[host].append(&mut pieces, band, &packed(queue, n), 400);
                    assert_eq!(added, (n as u32, true));
                    if n % 3 == 2 {
                        let entry = hosts[host].pop(&mut pieces, band);
                        assert_eq!(entry, Some(packed(queue, out[queue])));
                        out[queue] += 1;
                    }
                }
            }
            // The first, the middle and the last of the queues of a host go first.
            for (queue, host, band) in queues().skip(round % 3).chain(queues().take(round % 3)) {
                assert_eq!(hosts[host].held(&pieces, band) as usize, 400 - out[queue]);
                assert_eq!(hosts[host].numbers(&pieces, band), (out[queue] as u32, 400));
                while let Some(entry) = hosts[host].pop(&mut pieces, band) {
                    assert_eq!(entry, packed(queue, out[queue]));
                    out[queue] += 1;
                }
                assert_eq!((out[queue], hosts[host].held(&pieces, band)), (400, 0));
                assert_eq!(hosts[host].numbers(&pieces, band), (400, 400), "until it is settled");
                hosts[host].settle(&mut pieces);
                assert_eq!(hosts[host].numbers(&pieces, band), (0, 0));
            }
            assert_eq!(hosts, [Queues::NONE; 2]);
            let now = (pieces.pieces.len(), pieces.queues.len());
            most = if round == 0 { now } else { most };
            assert_eq!(now, most, "what was given back is taken again");
        }
        assert_eq!(most.1, 6);
    }
}
