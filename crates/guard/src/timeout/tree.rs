//! Keeps many values in order: the form of a large window.
//!
//! Knows nothing of latencies or quantiles. A ring says which value is the oldest; a treap (Seidel and Aragon,
//! "Randomized search trees", 1996) over the same slots says which is the n-th smallest. A slot of the ring is a node
//! of the tree: nothing is allocated once the window is full. Adding a value and finding a rank take O(log n)
//! expected steps.

/// No node.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    value: u64,
    /// Where it stands in the heap: the larger is nearer to the root.
    height: u64,
    left: u32,
    right: u32,
    /// How many nodes hang here, this one included.
    size: u32,
}

/// The last values, by age and by size.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    capacity: usize,
    oldest: usize,
    root: u32,
    pushed: u64,
}

impl Tree {
    /// An empty window for `capacity` values, which is at least 1.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && capacity < NONE as usize, "settings are checked before");
        Self { nodes: Vec::new(), capacity, oldest: 0, root: NONE, pushed: 0 }
    }

    /// How many values it holds.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds a value, in place of the oldest when it is full.
    pub(super) fn push(&mut self, value: u64) {
        let fresh = Node { value, height: scatter(self.pushed), left: NONE, right: NONE, size: 1 };
        self.pushed += 1;
        let slot = if self.nodes.len() < self.capacity {
            self.nodes.push(fresh);
            self.nodes.len() - 1
        } else {
            let slot = self.oldest;
            self.oldest = (slot + 1) % self.capacity;
            self.root = self.without(self.root, slot as u32);
            self.nodes[slot] = fresh;
            slot
        } as u32;
        let (smaller, larger) = self.split(self.root, slot);
        let smaller = self.merge(smaller, slot);
        self.root = self.merge(smaller, larger);
    }

    /// The value of a rank: 1 is the smallest.
    pub(super) fn ranked(&self, rank: usize) -> Option<u64> {
        let mut left_over = u32::try_from(rank).ok().filter(|rank| *rank > 0)?;
        let mut at = self.root;
        while at != NONE {
            let node = &self.nodes[at as usize];
            let before = self.size(node.left);
            if left_over <= before {
                at = node.left;
            } else if left_over == before + 1 {
                return Some(node.value);
            } else {
                left_over -= before + 1;
                at = node.right;
            }
        }
        None
    }

    fn size(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.nodes[at as usize].size }
    }

    /// What nodes are ordered by: equal values are told apart by their slots.
    fn key(&self, at: u32) -> (u64, u32) {
        (self.nodes[at as usize].value, at)
    }

    fn refresh(&mut self, at: u32) {
        let (left, right) = (self.nodes[at as usize].left, self.nodes[at as usize].right);
        self.nodes[at as usize].size = 1 + self.size(left) + self.size(right);
    }

    /// The tree `at` without `slot`, which is in it.
    fn without(&mut self, at: u32, slot: u32) -> u32 {
        let (left, right) = (self.nodes[at as usize].left, self.nodes[at as usize].right);
        if at == slot {
            return self.merge(left, right);
        }
        if self.key(slot) < self.key(at) {
            self.nodes[at as usize].left = self.without(left, slot);
        } else {
            self.nodes[at as usize].right = self.without(right, slot);
        }
        self.nodes[at as usize].size -= 1;
        at
    }

    /// The tree `at` in two: what is before `slot`, and what is after it.
    fn split(&mut self, at: u32, slot: u32) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        if self.key(at) < self.key(slot) {
            let (middle, larger) = self.split(self.nodes[at as usize].right, slot);
            self.nodes[at as usize].right = middle;
            self.refresh(at);
            (at, larger)
        } else {
            let (smaller, middle) = self.split(self.nodes[at as usize].left, slot);
            self.nodes[at as usize].left = middle;
            self.refresh(at);
            (smaller, at)
        }
    }

    /// One tree of two, where all of `smaller` is before all of `larger`.
    fn merge(&mut self, smaller: u32, larger: u32) -> u32 {
        if smaller == NONE || larger == NONE {
            return if smaller == NONE { larger } else { smaller };
        }
        if self.nodes[smaller as usize].height > self.nodes[larger as usize].height {
            let right = self.nodes[smaller as usize].right;
            self.nodes[smaller as usize].right = self.merge(right, larger);
            self.refresh(smaller);
            smaller
        } else {
            let left = self.nodes[larger as usize].left;
            self.nodes[larger as usize].left = self.merge(smaller, left);
            self.refresh(larger);
            larger
        }
    }
}

/// Spreads a count over all of `u64` (the finaliser of SplitMix64), so that heights look random and repeat exactly.
fn scatter(count: u64) -> u64 {
    let mut bits = count.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tree_of_sorted_input_stays_shallow() {
        let mut tree = Tree::new(1 << 16);
        for value in 0..1 << 17 {
            tree.push(value);
        }
        let depth = depth(&tree, tree.root);
        assert!(depth < 64, "a tree of 65,536 nodes is {depth} deep");
    }

    fn depth(tree: &Tree, at: u32) -> usize {
        if at == NONE {
            return 0;
        }
        let node = &tree.nodes[at as usize];
        1 + depth(tree, node.left).max(depth(tree, node.right))
    }
}
