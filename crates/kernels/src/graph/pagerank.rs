//! Ranks of vertices: Page, Brin, Motwani, Winograd, 1999, with the rank of vertices without edges out shared by all, as
//! NetworkX and SciPy's users do it. An edge that is given twice counts twice.
//!
//! Kept is not the rank of a vertex but what each of its edges carries, its *share*; of a vertex without edges out the rank
//! itself, which no edge reads. So 20 bytes of memory for each vertex are enough: share, sum of what came in, edges out.
//! Sums run on from range to range, so the same order of edges gives the same bits.

use super::edges;

/// In place of the number of edges out: no edge begins or ends here, so this number is no vertex.
pub const ABSENT: u32 = u32::MAX;

/// Bytes of memory for each vertex.
pub const BYTES_PER_VERTEX: u64 = 20;

/// What one iteration adds up over all ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// How far ranks have moved, all together.
    pub change: f64,
    /// The rank of vertices without edges out.
    pub dangling: f64,
    /// All ranks, which is 1 but for rounding.
    pub total: f64,
}

impl Sums {
    /// Adds what another range adds up to.
    pub fn add(&mut self, other: &Self) {
        self.change += other.change;
        self.dangling += other.dangling;
        self.total += other.total;
    }
}

/// What all ranges are settled with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Vertices of the whole graph, without those that are absent.
    pub vertices: u32,
    /// The share of rank that follows edges, usually 0.85.
    pub damping: f64,
    /// The rank of vertices without edges out, before this iteration.
    pub dangling: f64,
}

/// Counts the edges of a block that begin in each vertex of a range, which is [`ABSENT`] before.
pub fn count_out(block: &[u8], degrees: &mut [u32], base: u32) {
    for (from, _) in edges::plain(block) {
        let degree = &mut degrees[(from - base) as usize];
        *degree = if *degree == ABSENT { 1 } else { (*degree + 1).min(ABSENT - 1) };
    }
}

/// Adds what was counted elsewhere of the same vertices.
pub fn add_counts(degrees: &mut [u32], others: &[u32]) {
    for (degree, other) in degrees.iter_mut().zip(others).filter(|(_, other)| **other != ABSENT) {
        *degree = if *degree == ABSENT { *other } else { degree.saturating_add(*other) };
        *degree = (*degree).min(ABSENT - 1);
    }
}

/// Notes the vertices of a range in which edges of a block end.
pub fn note_ends(block: &[u8], degrees: &mut [u32], base: u32) {
    for (_, to) in edges::plain(block) {
        let degree = &mut degrees[(to - base) as usize];
        if *degree == ABSENT {
            *degree = 0;
        }
    }
}

/// Gives each vertex of a range the same rank.
pub fn begin(shares: &mut [f64], degrees: &[u32], vertices: u32, sums: &mut Sums) {
    let rank = 1.0 / f64::from(vertices);
    for (share, degree) in shares.iter_mut().zip(degrees).filter(|(_, degree)| **degree != ABSENT) {
        *share = share_of(rank, *degree);
        sums.total += rank;
        if *degree == 0 {
            sums.dangling += rank;
        }
    }
}

/// Carries shares along a block of edges.
pub fn spread(block: &[u8], shares: &[f64], from_base: u32, sums: &mut [f64], to_base: u32) {
    for (from, to) in edges::plain(block) {
        sums[(to - to_base) as usize] += shares[(from - from_base) as usize];
    }
}

/// Makes the shares of a range from what came in, which begins again at 0.
pub fn settle(
    shares: &mut [f64],
    incoming: &mut [f64],
    degrees: &[u32],
    terms: &Terms,
    sums: &mut Sums,
) {
    let vertices = f64::from(terms.vertices);
    let floor = (1.0 - terms.damping) / vertices + terms.damping * terms.dangling / vertices;
    for ((share, incoming), degree) in shares.iter_mut().zip(incoming).zip(degrees) {
        if *degree == ABSENT {
            continue;
        }
        let rank = floor + terms.damping * *incoming;
        *incoming = 0.0;
        sums.change += (rank - rank_of(*share, *degree)).abs();
        sums.total += rank;
        if *degree == 0 {
            sums.dangling += rank;
        }
        *share = share_of(rank, *degree);
    }
}

fn share_of(rank: f64, degree: u32) -> f64 {
    if degree == 0 { rank } else { rank / f64::from(degree) }
}

/// The rank of a vertex.
pub fn rank_of(share: f64, degree: u32) -> f64 {
    if degree == 0 { share } else { share * f64::from(degree) }
}
