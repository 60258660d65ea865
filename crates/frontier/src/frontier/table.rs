//! Things by number in pieces of fixed size: they never move, and no room is kept for what may never come.
//!
//! [`Table`] holds values, [`Spots`] those that come and go, [`Names`] holds texts one after the other, [`Index`] finds a
//! number by its text without a second copy of it. Of all but the second nothing is ever removed.

use std::ops::{self, Range};

/// Values of a piece.
const PIECE: usize = 1_024;
/// Bytes of a piece of names.
const NAMES_PIECE: usize = 1 << 16;
/// An index is enlarged when more than four fifths of it are taken.
const FULL: (usize, usize) = (4, 5);
const VACANT: u32 = u32::MAX;

/// Values by number.
#[derive(Debug)]
pub(super) struct Table<T> {
    pieces: Vec<Vec<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> Table<T> {
    pub(super) fn len(&self) -> usize {
        let last = self.pieces.last().map_or(PIECE, Vec::len);
        self.pieces.len() * PIECE + last - PIECE
    }

    /// Adds a value and gives its number.
    pub(super) fn push(&mut self, value: T) -> u32 {
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let number = self.len() as u32;
        self.pieces.last_mut().expect("a piece was added").push(value);
        number
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// What it takes in memory, without what the values point to.
    pub(super) fn bytes(&self) -> u64 {
        (self.pieces.len() * PIECE * size_of::<T>()) as u64
    }
}

impl<T> ops::Index<u32> for Table<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.pieces[number as usize / PIECE][number as usize % PIECE]
    }
}

impl<T> ops::IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.pieces[number as usize / PIECE][number as usize % PIECE]
    }
}

/// Where a value is that can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot(u32);

impl Spot {
    /// There is none.
    pub(super) const NONE: Self = Self(VACANT);
}

/// Values that can be given back; the next one takes the place.
#[derive(Debug)]
pub(super) struct Spots<T> {
    values: Table<T>,
    free: Vec<u32>,
}

impl<T> Default for Spots<T> {
    fn default() -> Self {
        Self { values: Table::default(), free: Vec::new() }
    }
}

impl<T: Default> Spots<T> {
    pub(super) fn add(&mut self, value: T) -> Spot {
        let Some(number) = self.free.pop() else { return Spot(self.values.push(value)) };
        self.values[number] = value;
        Spot(number)
    }

    pub(super) fn get(&self, spot: Spot) -> Option<&T> {
        (spot != Spot::NONE).then(|| &self.values[spot.0])
    }

    /// Gives a value back. Nobody may have its spot any more.
    pub(super) fn take(&mut self, spot: Spot) -> Option<T> {
        (spot != Spot::NONE).then(|| {
            self.free.push(spot.0);
            std::mem::take(&mut self.values[spot.0])
        })
    }

    /// What they take in memory, without what the values point to.
    pub(super) fn bytes(&self) -> u64 {
        self.values.bytes() + (self.free.capacity() * size_of::<u32>()) as u64
    }
}

/// Where a name is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    piece: u32,
    start: u16,
    length: u16,
}

impl Name {
    /// A part of it.
    pub(super) fn part(self, range: Range<usize>) -> Self {
        let start = self.start + range.start as u16;
        Self { start, length: range.len() as u16, ..self }
    }
}

/// Names, one after the other.
#[derive(Debug, Default)]
pub(super) struct Names {
    pieces: Vec<String>,
}

impl Names {
    /// Adds a name, which is shorter than a piece.
    pub(super) fn push(&mut self, name: &str) -> Name {
        let fits = |piece: &String| piece.len() + name.len() < NAMES_PIECE;
        if !self.pieces.last().is_some_and(fits) {
            self.pieces.push(String::with_capacity(NAMES_PIECE));
        }
        let piece = self.pieces.last_mut().expect("a piece was added");
        let start = piece.len() as u16;
        piece.push_str(name);
        Name { piece: self.pieces.len() as u32 - 1, start, length: name.len() as u16 }
    }

    pub(super) fn get(&self, name: Name) -> &str {
        let start = usize::from(name.start);
        &self.pieces[name.piece as usize][start..start + usize::from(name.length)]
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.pieces.len() * NAMES_PIECE) as u64
    }
}

/// Numbers by the hash of a text: open addressing, one step at a time.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Vec<u32>,
    len: usize,
}

impl Index {
    /// The number for which `is_same` holds, among those with this hash.
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                VACANT => return None,
                number if is_same(number) => return Some(number),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a number that is not there yet. `hash_of` gives the hash of any number.
    pub(super) fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * FULL.1 > self.slots.len() * FULL.0 {
            let larger = (self.slots.len() * 2).max(16);
            let before = std::mem::replace(&mut self.slots, vec![VACANT; larger]);
            let numbers = before.into_iter().filter(|number| *number != VACANT);
            numbers.for_each(|number| self.place(hash_of(number), number));
        }
        self.place(hash, number);
        self.len += 1;
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.slots.len() * size_of::<u32>()) as u64
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != VACANT {
            at = (at + 1) & mask;
        }
        self.slots[at] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_that_was_given_back_is_taken_again() {
        let mut spots = Spots::default();
        let (first, second) = (spots.add("a"), spots.add("b"));
        assert_eq!((spots.get(first), spots.get(Spot::NONE)), (Some(&"a"), None));
        assert_eq!((spots.take(first), spots.take(Spot::NONE)), (Some("a"), None));
        assert_eq!(spots.add("c"), first);
        assert_eq!((spots.get(first), spots.get(second)), (Some(&"c"), Some(&"b")));
    }

    #[test]
    fn names_are_found_by_their_text_however_many_there_are() {
        let (mut names, mut table, mut index) =
            (Names::default(), Table::default(), Index::default());
        // A poor hash, so that most names meet others on their way.
        let hash = |name: &str| name.len() as u64 * 7;
        let text = |n: u32| format!("https://host-{n}.example/{}", "x".repeat(n as usize % 9));
        for n in 0..5_000 {
            let name = names.push(&text(n));
            assert_eq!(table.push(name), n);
            index.insert(hash(&text(n)), n, |number| hash(names.get(table[number])));
        }
        assert_eq!((table.len(), table.iter().count()), (5_000, 5_000));
        for n in (0..5_000).step_by(37) {
            let found = index.find(hash(&text(n)), |number| names.get(table[number]) == text(n));
            assert_eq!(found, Some(n));
        }
        assert_eq!(index.find(3, |_| true), None, "no name has this hash, nor one on its way");
        let part = table[2].part(8..14);
        assert_eq!(names.get(part), "host-2");
        assert_eq!(Index::default().find(0, |_| true), None);
    }
}
