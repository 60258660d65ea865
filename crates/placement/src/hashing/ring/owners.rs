//! Decides in which order nodes own a hash: clockwise, each node once.
//!
//! Remembers whom it has named: the first few in place, so that a short list of replicas allocates nothing, and only
//! a longer walk in a set of bits. It ends when every node was named.

use super::super::mix;
use super::super::node::Node;
use super::Ring;

/// How many owners are found without an allocation.
pub const OWNERS_INLINE: usize = 16;

/// The nodes of a ring in the order in which they own a hash.
#[derive(Clone, Debug)]
pub struct Owners<'a> {
    ring: &'a Ring,
    /// The number of the point that is looked at next.
    at: usize,
    named: usize,
    few: [u32; OWNERS_INLINE],
    /// One bit per id, empty while the few suffice.
    many: Vec<u64>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(ring: &'a Ring, hash: u64) -> Self {
        let at = if ring.is_empty() { 0 } else { ring.points.find(mix(hash)) };
        Self { ring, at, named: 0, few: [0; OWNERS_INLINE], many: Vec::new() }
    }

    /// Notes an owner and says whether it is new.
    fn is_new(&mut self, id: u32) -> bool {
        if self.named < OWNERS_INLINE {
            if self.few[..self.named].contains(&id) {
                return false;
            }
            self.few[self.named] = id;
            return true;
        }
        if self.many.is_empty() {
            self.many = vec![0; self.ring.nodes.len().div_ceil(64)];
            for id in self.few {
                self.many[id as usize / 64] |= 1 << (id % 64);
            }
        }
        let word = &mut self.many[id as usize / 64];
        let bit = 1 << (id % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl<'a> Iterator for Owners<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        // Every node has a point, so this ends after at most one round.
        while self.named < self.ring.len() {
            let id = self.ring.points.owner(self.at);
            self.at = if self.at + 1 == self.ring.points() { 0 } else { self.at + 1 };
            if self.is_new(id) {
                self.named += 1;
                return Some(&self.ring.nodes[id as usize]);
            }
        }
        None
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.ring.len() - self.named;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Owners<'_> {}
