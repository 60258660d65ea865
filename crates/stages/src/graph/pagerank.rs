//! Ranks of vertices: one pass over the edges for each iteration, each of them kept.
//!
//! With all vertices in memory the threads of the part share a pass, a range of ends each, and an iteration is kept while the next
//! one runs: what is not kept when a part dies was done within the time that writing takes.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use divvy_kernels::graph::grid::Grid;
use divvy_kernels::graph::pagerank::{self, ABSENT, BYTES_PER_VERTEX, Sums, Terms};
use divvy_kernels::graph::top::Top;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Options;
use super::edges::Edges;
use super::names::Names;
use super::numbers::{Column, Ranges, Reached, keep_reached, reached, values};
use super::output::{Lines, put};
use super::threads;
use crate::job::{Keep, PartError, PartIo, Report, Summary};

/// Iterations whose change is told, from the last one back.
const CHANGES_TOLD: usize = 100;
/// Threads that count edges, each with four bytes for each vertex: more than that would be more than ranks need.
const COUNTERS_MAX: usize = 4;

/// What is known after an iteration besides ranks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    vertices: u32,
    /// The rank of vertices without edges out.
    dangling: Bits,
    /// How far ranks moved in each iteration.
    changes: Vec<Bits>,
}

/// The bits of a number: text does not always come back as the number that it was.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Bits(u64);

impl Bits {
    fn of(number: f64) -> Self {
        Self(number.to_bits())
    }

    fn number(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl Known {
    fn change(&self) -> Option<f64> {
        self.changes.last().map(|bits| bits.number())
    }
}

pub(super) fn run(
    options: &Options,
    io: &mut PartIo<'_>,
    report: &mut Report,
) -> Result<Summary, PartError> {
    let keep = io.keep()?;
    let mut edges = Edges::open(io, &keep, BYTES_PER_VERTEX, options.edge_bytes())?;
    let mut ranks = Ranks::open(io, &keep, &mut edges)?;
    edges.expect_passes(u64::from(options.iterations.saturating_sub(ranks.at.pass)));
    let stands =
        |at: &Reached<Known>| at.known.change().is_some_and(|change| change < options.tolerance);
    while ranks.at.pass < options.iterations && !stands(&ranks.at) && edges.size.vertices > 0 {
        ranks.iterate(options.damping, io, &keep, &mut edges)?;
        let change = ranks.at.known.change().unwrap_or(0.0);
        io.message(&format!(
            "iteration {} of {} at most, ranks moved by {change:.3e}",
            ranks.at.pass, options.iterations
        ));
    }
    report.rows_in = edges.size.edges;
    report.bytes_in = edges.size.edges * options.edge_bytes() as u64;
    let stands = stands(&ranks.at);
    ranks.write(options, stands, io, &edges, report)
}

/// The file of edges out.
const DEGREES: &str = "degrees";

struct Ranks {
    at: Reached<Known>,
    shares: Ranges<f64>,
    degrees: Ranges<u32>,
    /// What came into vertices, which is nothing between two iterations; only if all are in memory.
    incoming: Vec<f64>,
    /// Whether the next attempt would begin here.
    is_kept: bool,
}

impl Ranks {
    /// What an earlier attempt has reached, or the beginning.
    fn open(io: &mut PartIo<'_>, keep: &Keep, edges: &mut Edges) -> Result<Self, PartError> {
        let grid = edges.grid;
        let degrees = Column::new(keep, DEGREES, grid);
        let at: Option<Reached<Known>> = reached(keep)?;
        if grid.ranges > 1 {
            let at = match at {
                Some(at) => at,
                None => begin_in_ranges(io, keep, edges)?,
            };
            let shares = Ranges::Disk(values(keep, at.pass, grid));
            let (degrees, incoming) = (Ranges::Disk(degrees), Vec::new());
            return Ok(Self { at, shares, degrees, incoming, is_kept: true });
        }
        let Some(at) = at else { return begin_in_memory(io, edges) };
        let (shares, degrees) = (values(keep, at.pass, grid).read(0)?, degrees.read(0)?);
        Ok(Self::in_memory(at, shares, degrees, true))
    }

    fn in_memory(at: Reached<Known>, shares: Vec<f64>, degrees: Vec<u32>, is_kept: bool) -> Self {
        let incoming = vec![0.0; shares.len()];
        let (shares, degrees) = (Ranges::Memory(shares), Ranges::Memory(degrees));
        Self { at, shares, degrees, incoming, is_kept }
    }

    /// One iteration.
    fn iterate(
        &mut self,
        damping: f64,
        io: &mut PartIo<'_>,
        keep: &Keep,
        edges: &mut Edges,
    ) -> Result<(), PartError> {
        let known = &self.at.known;
        let terms = Terms { vertices: known.vertices, damping, dangling: known.dangling.number() };
        let sums = if edges.grid.ranges > 1 {
            self.iterate_in_ranges(&terms, io, keep, edges)?
        } else {
            self.iterate_in_memory(&terms, io, keep, edges)?
        };
        self.at.pass += 1;
        self.at.known.dangling = Bits::of(sums.dangling);
        self.at.known.changes.push(Bits::of(sums.change));
        if edges.grid.ranges > 1 {
            keep_reached(keep, edges.grid, &self.at)?;
        }
        Ok(())
    }

    /// On all threads, while what was reached before is kept.
    fn iterate_in_memory(
        &mut self,
        terms: &Terms,
        io: &PartIo<'_>,
        keep: &Keep,
        edges: &mut Edges,
    ) -> Result<Sums, PartError> {
        let (grid, width) = (edges.grid, edges.bin_vertices());
        let (mut shares, degrees) = (self.shares.take(0)?, self.degrees.take(0)?);
        let (at, is_kept) = (&self.at, self.is_kept);
        let incoming = (0..).zip(self.incoming.chunks_mut(width)).collect();
        thread::scope(|scope| {
            let kept =
                || if is_kept { Ok(()) } else { keep_all(keep, grid, at, &shares, &degrees) };
            let kept = scope.spawn(kept);
            let spread = edges.each_bin(io, io.threads(), incoming, |block, (bin, incoming)| {
                let base = *bin * width as u32;
                pagerank::spread(block, &shares, 0, incoming, base);
            });
            kept.join().unwrap_or_else(|panic| resume_unwind(panic)).and(spread)
        })?;
        let shares_of = shares.chunks_mut(width);
        let bins = shares_of.zip(self.incoming.chunks_mut(width)).zip(degrees.chunks(width));
        let settled =
            threads::each(io.threads(), bins.collect(), |((shares, incoming), degrees)| {
                let mut sums = Sums::default();
                pagerank::settle(shares, incoming, degrees, terms, &mut sums);
                sums
            });
        let mut sums = Sums::default();
        settled.iter().for_each(|bin| sums.add(bin));
        self.shares.give_back(shares);
        self.degrees.give_back(degrees);
        self.is_kept = false;
        Ok(sums)
    }

    /// Range by range, each of which is written when it is done.
    fn iterate_in_ranges(
        &mut self,
        terms: &Terms,
        io: &mut PartIo<'_>,
        keep: &Keep,
        edges: &mut Edges,
    ) -> Result<Sums, PartError> {
        let grid = edges.grid;
        let next = values(keep, self.at.pass + 1, grid);
        let mut sums = Sums::default();
        for to in 0..grid.ranges {
            let bounds = grid.bounds(to);
            let mut incoming = vec![0.0; bounds.len()];
            for from in 0..grid.ranges {
                let shares = self.shares.take(from)?;
                let begins = grid.bounds(from).start;
                let spread = |block: &[u8]| {
                    pagerank::spread(block, &shares, begins, &mut incoming, bounds.start);
                };
                edges.each(io, from, to, spread)?;
            }
            let (mut shares, degrees) = (self.shares.take(to)?, self.degrees.take(to)?);
            pagerank::settle(&mut shares, &mut incoming, &degrees, terms, &mut sums);
            drop(incoming);
            next.write(to, &shares)?;
        }
        self.shares = Ranges::Disk(next);
        Ok(sums)
    }

    fn write(
        mut self,
        options: &Options,
        stands: bool,
        io: &mut PartIo<'_>,
        edges: &Edges,
        report: &mut Report,
    ) -> Result<Summary, PartError> {
        let names = Names::open(options, io)?;
        let mut lines = Lines::create(io, &names)?;
        let mut top = Top::new(options.top as usize);
        for range in 0..edges.grid.ranges {
            let (shares, degrees) = (self.shares.take(range)?, self.degrees.take(range)?);
            for (vertex, (share, degree)) in
                edges.grid.bounds(range).zip(shares.iter().zip(&degrees))
            {
                if *degree != ABSENT {
                    let rank = pagerank::rank_of(*share, *degree);
                    top.offer(vertex, rank);
                    lines.line(vertex, |_, out| put(rank, out))?;
                }
            }
            io.check()?;
        }
        lines.finish(io, report)?;
        Ok(self.summary(stands, edges, &names, top))
    }

    fn summary(&self, stands: bool, edges: &Edges, names: &Names, top: Top) -> Summary {
        let known = &self.at.known;
        let change = known.change().unwrap_or(0.0);
        let mut lines = vec![
            format!("{} vertices, {} edges", known.vertices, edges.size.edges),
            format!(
                "{} after {} iterations: in the last one ranks moved by {change:.3e}",
                if stands { "converged" } else { "stopped before it converged" },
                self.at.pass
            ),
        ];
        let top: Vec<(String, f64)> = top
            .into_sorted()
            .into_iter()
            .map(|(vertex, rank)| (names.shown(vertex), rank))
            .collect();
        lines.extend(top.iter().map(|(vertex, rank)| format!("{rank:.9}  {vertex}")));
        let from = known.changes.len().saturating_sub(CHANGES_TOLD);
        let changes: Vec<f64> = known.changes[from..].iter().map(|bits| bits.number()).collect();
        let data = json!({
            "vertices": known.vertices,
            "edges": edges.size.edges,
            "iterations": self.at.pass,
            "converged": stands,
            "changes": changes,
            "top": top.iter().map(|(vertex, rank)| json!({"vertex": vertex, "rank": rank})).collect::<Vec<_>>(),
        });
        Summary { lines, data }
    }
}

/// The same rank for all, with everything in memory. Nothing of it is kept yet.
fn begin_in_memory(io: &PartIo<'_>, edges: &mut Edges) -> Result<Ranks, PartError> {
    io.message("counts the edges of vertices");
    edges.expect_passes(1);
    let vertices = edges.size.vertices as usize;
    let mut degrees = vec![ABSENT; vertices];
    let width = edges.bin_vertices();
    let spare = Mutex::new(Vec::new());
    let counting = |(bin, ends)| Counting { spare: &spare, counts: None, ends, bin };
    let bins = (0..).zip(degrees.chunks_mut(width)).map(counting).collect();
    edges.each_bin(io, io.threads().min(COUNTERS_MAX), bins, |block, bin| {
        pagerank::note_ends(block, bin.ends, bin.bin * width as u32);
        pagerank::count_out(block, bin.counts(vertices), 0);
    })?;
    for counts in spare.into_inner().unwrap_or_else(PoisonError::into_inner) {
        pagerank::add_counts(&mut degrees, &counts);
    }
    let present = degrees.iter().filter(|degree| **degree != ABSENT).count() as u32;
    let (mut shares, mut sums) = (vec![0.0; vertices], Sums::default());
    pagerank::begin(&mut shares, &degrees, present, &mut sums);
    let known = Known { vertices: present, dangling: Bits::of(sums.dangling), changes: Vec::new() };
    Ok(Ranks::in_memory(Reached { pass: 0, known }, shares, degrees, false))
}

/// Counts the edges that end in a bin, with a list of all vertices that it shares with the bins before and after it on its
/// thread.
struct Counting<'a> {
    spare: &'a Mutex<Vec<Vec<u32>>>,
    counts: Option<Vec<u32>>,
    ends: &'a mut [u32],
    bin: u32,
}

impl Counting<'_> {
    fn counts(&mut self, vertices: usize) -> &mut [u32] {
        self.counts.get_or_insert_with(|| {
            let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            spare.unwrap_or_else(|| vec![ABSENT; vertices])
        })
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(self.counts.take());
    }
}

/// The same rank for all, range by range, and kept.
fn begin_in_ranges(
    io: &mut PartIo<'_>,
    keep: &Keep,
    edges: &mut Edges,
) -> Result<Reached<Known>, PartError> {
    let grid = edges.grid;
    let degrees_kept = Column::new(keep, DEGREES, grid);
    io.message("counts the edges of vertices");
    edges.expect_passes(2);
    let mut known = Known::default();
    for range in 0..grid.ranges {
        let bounds = grid.bounds(range);
        let mut degrees = vec![ABSENT; bounds.len()];
        for other in 0..grid.ranges {
            edges.each(io, range, other, |block| {
                pagerank::count_out(block, &mut degrees, bounds.start);
            })?;
            edges.each(io, other, range, |block| {
                pagerank::note_ends(block, &mut degrees, bounds.start);
            })?;
        }
        known.vertices += degrees.iter().filter(|degree| **degree != ABSENT).count() as u32;
        degrees_kept.write(range, &degrees)?;
    }
    let first = values(keep, 0, grid);
    let mut sums = Sums::default();
    for range in 0..grid.ranges {
        let degrees: Vec<u32> = degrees_kept.read(range)?;
        let mut shares = vec![0.0; degrees.len()];
        pagerank::begin(&mut shares, &degrees, known.vertices, &mut sums);
        first.write(range, &shares)?;
    }
    degrees_kept.sync()?;
    known.dangling = Bits::of(sums.dangling);
    let at = Reached { pass: 0, known };
    keep_reached(keep, grid, &at)?;
    Ok(at)
}

/// Keeps what was reached with everything in memory.
fn keep_all(
    keep: &Keep,
    grid: Grid,
    at: &Reached<Known>,
    shares: &[f64],
    degrees: &[u32],
) -> Result<(), PartError> {
    if at.pass == 0 {
        let kept = Column::new(keep, DEGREES, grid);
        kept.write(0, degrees)?;
        kept.sync()?;
    }
    values(keep, at.pass, grid).write(0, shares)?;
    keep_reached(keep, grid, at)
}
