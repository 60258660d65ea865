//! Ranks of vertices: one pass over the edges for each iteration, each of them kept.

use divvy_kernels::graph::pagerank::{self, ABSENT, BYTES_PER_VERTEX, Sums, Terms};
use divvy_kernels::graph::top::Top;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Options;
use super::edges::Edges;
use super::names::Names;
use super::numbers::{Column, Ranges, Reached, keep_reached, reached, values};
use super::output::{Lines, put};
use crate::job::{Keep, PartError, PartIo, Report, Summary};

/// Iterations whose change is told, from the last one back.
const CHANGES_TOLD: usize = 100;

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

struct Ranks {
    at: Reached<Known>,
    shares: Ranges<f64>,
    degrees: Ranges<u32>,
}

impl Ranks {
    /// What an earlier attempt has reached, or the beginning.
    fn open(io: &mut PartIo<'_>, keep: &Keep, edges: &mut Edges) -> Result<Self, PartError> {
        let grid = edges.grid;
        let degrees_kept = Column::new(keep, "degrees", grid);
        let at: Option<Reached<Known>> = reached(keep)?;
        let in_memory = grid.ranges == 1;
        if let Some(at) = at {
            let kept = values(keep, at.pass, grid);
            return Ok(if in_memory {
                let (shares, degrees) = (kept.read(0)?, degrees_kept.read(0)?);
                Self { at, shares: Ranges::Memory(shares), degrees: Ranges::Memory(degrees) }
            } else {
                Self { at, shares: Ranges::Disk(kept), degrees: Ranges::Disk(degrees_kept) }
            });
        }
        io.message("counts the edges of vertices");
        edges.expect_passes(2);
        let mut known = Known::default();
        for range in 0..grid.ranges {
            let bounds = grid.bounds(range);
            let mut degrees = vec![ABSENT; bounds.len()];
            for other in 0..grid.ranges {
                edges.each(io, range, other, |block| {
                    pagerank::count_out(block, &mut degrees, bounds.start);
                    if in_memory {
                        pagerank::note_ends(block, &mut degrees, bounds.start);
                    }
                })?;
                if !in_memory {
                    let note =
                        |block: &[u8]| pagerank::note_ends(block, &mut degrees, bounds.start);
                    edges.each(io, other, range, note)?;
                }
            }
            known.vertices += degrees.iter().filter(|degree| **degree != ABSENT).count() as u32;
            degrees_kept.write(range, &degrees)?;
        }
        let first = values(keep, 0, grid);
        let (mut all_shares, mut all_degrees) = (Vec::new(), Vec::new());
        let mut sums = Sums::default();
        for range in 0..grid.ranges {
            let degrees: Vec<u32> = degrees_kept.read(range)?;
            let mut shares = vec![0.0; degrees.len()];
            pagerank::begin(&mut shares, &degrees, known.vertices, &mut sums);
            first.write(range, &shares)?;
            if in_memory {
                (all_shares, all_degrees) = (shares, degrees);
            }
        }
        degrees_kept.sync()?;
        known.dangling = Bits::of(sums.dangling);
        let at = Reached { pass: 0, known };
        keep_reached(keep, grid, &at)?;
        Ok(if in_memory {
            Self { at, shares: Ranges::Memory(all_shares), degrees: Ranges::Memory(all_degrees) }
        } else {
            Self { at, shares: Ranges::Disk(first), degrees: Ranges::Disk(degrees_kept) }
        })
    }

    /// One iteration, which is kept when it is done.
    fn iterate(
        &mut self,
        damping: f64,
        io: &mut PartIo<'_>,
        keep: &Keep,
        edges: &mut Edges,
    ) -> Result<(), PartError> {
        let grid = edges.grid;
        let next = values(keep, self.at.pass + 1, grid);
        let known = &self.at.known;
        let terms = Terms { vertices: known.vertices, damping, dangling: known.dangling.number() };
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
                self.shares.give_back(shares);
            }
            let mut shares = self.shares.take(to)?;
            let degrees = self.degrees.take(to)?;
            pagerank::settle(&mut shares, &mut incoming, &degrees, &terms, &mut sums);
            drop(incoming);
            next.write(to, &shares)?;
            self.shares.give_back(shares);
            self.degrees.give_back(degrees);
        }
        self.at.pass += 1;
        self.at.known.dangling = Bits::of(sums.dangling);
        self.at.known.changes.push(Bits::of(sums.change));
        keep_reached(keep, grid, &self.at)?;
        if let Ranges::Disk(column) = &mut self.shares {
            *column = next;
        }
        Ok(())
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
