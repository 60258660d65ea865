//! Components: one pass with all vertices in memory; with ranges as many as names need to get around.
//!
//! With ranges, names are written in place: they only ever shrink to what they must be, so whatever an attempt that died
//! has written is a good beginning.

use divvy_kernels::graph::components::{self, BYTES_PER_VERTEX};
use divvy_kernels::graph::edges::plain;
use divvy_kernels::graph::grid::Sides;
use divvy_kernels::graph::top::Top;
use serde_json::json;

use super::Options;
use super::edges::Edges;
use super::names::Names;
use super::numbers::{Column, Ranges};
use super::output::Lines;
use crate::job::{Keep, PartError, PartIo, Report, Summary};

pub(super) fn run(
    options: &Options,
    io: &mut PartIo<'_>,
    report: &mut Report,
) -> Result<Summary, PartError> {
    let keep = io.keep()?;
    let mut edges = Edges::open(io, &keep, BYTES_PER_VERTEX, options.edge_bytes())?;
    let mut present = Present(vec![0; edges.size.vertices as usize / 64 + 1]);
    let mut found = if edges.grid.ranges == 1 {
        let mut parents: Vec<u32> = (0..edges.size.vertices).collect();
        edges.each(io, 0, 0, |block| {
            present.note(block);
            components::unite(block, &mut parents);
        })?;
        components::flatten(&mut parents);
        Ranges::Memory(parents)
    } else {
        Ranges::Disk(in_ranges(io, &keep, &mut edges, &mut present)?)
    };
    report.rows_in = edges.size.edges;
    report.bytes_in = edges.size.edges * options.edge_bytes() as u64;
    let names = Names::open(options, io)?;
    let mut lines = Lines::create(io, &names)?;
    let mut vertices = 0u64;
    for range in 0..edges.grid.ranges {
        let roots = found.take(range)?;
        for (vertex, root) in edges.grid.bounds(range).zip(&roots) {
            if present.has(vertex) {
                vertices += 1;
                lines.line(vertex, |names, out| names.write(*root, out))?;
            }
        }
        found.give_back(roots);
        io.check()?;
    }
    lines.finish(io, report)?;
    let (components, top) = count(options, &mut found, &edges, &present, io)?;
    Ok(summary(vertices, components, &top, &edges, &names))
}

/// Passes until no name moves.
fn in_ranges(
    io: &mut PartIo<'_>,
    keep: &Keep,
    edges: &mut Edges,
    present: &mut Present,
) -> Result<Column, PartError> {
    let grid = edges.grid;
    let column = Column::new(keep, "components", grid);
    let begun = Column::new(keep, "begun", grid);
    if !begun.exists() {
        for range in 0..grid.ranges {
            column.write(range, &grid.bounds(range).collect::<Vec<u32>>())?;
        }
        column.sync()?;
        begun.write::<u32>(0, &[1])?;
    }
    loop {
        let mut changed = 0;
        edges.expect_passes(1);
        for to in 0..grid.ranges {
            let to_base = grid.bounds(to).start;
            let mut ends: Vec<u32> = column.read(to)?;
            for from in 0..grid.ranges {
                let mut changed_here = 0;
                if from == to {
                    edges.each(io, from, to, |block| {
                        present.note(block);
                        let mut sides = Sides::One { values: &mut ends, base: to_base };
                        changed_here += components::lower(block, &mut sides);
                    })?;
                } else {
                    let mut begins: Vec<u32> = column.read(from)?;
                    let from_base = grid.bounds(from).start;
                    edges.each(io, from, to, |block| {
                        present.note(block);
                        let (from, to) = (&mut begins[..], &mut ends[..]);
                        let mut sides = Sides::Two { from, from_base, to, to_base };
                        changed_here += components::lower(block, &mut sides);
                    })?;
                    if changed_here > 0 {
                        column.write(from, &begins)?;
                    }
                }
                changed += changed_here;
            }
            column.write(to, &ends)?;
        }
        io.message(&format!("a pass moved {changed} names"));
        if changed == 0 {
            return Ok(column);
        }
        column.sync()?;
    }
}

/// How many components there are, and the largest: for one range of roots after the other, all vertices are looked at.
fn count(
    options: &Options,
    found: &mut Ranges<u32>,
    edges: &Edges,
    present: &Present,
    io: &PartIo<'_>,
) -> Result<(u64, Vec<(u32, f64)>), PartError> {
    let grid = edges.grid;
    let mut top = Top::new(options.top as usize);
    let mut components = 0;
    for range in 0..grid.ranges {
        let bounds = grid.bounds(range);
        let mut sizes = vec![0u32; bounds.len()];
        // A root is never larger than its vertices.
        for other in range..grid.ranges {
            let roots = found.take(other)?;
            for (vertex, root) in grid.bounds(other).zip(&roots) {
                if bounds.contains(root) && present.has(vertex) {
                    sizes[(root - bounds.start) as usize] += 1;
                }
            }
            found.give_back(roots);
            io.check()?;
        }
        for (root, size) in bounds.zip(sizes).filter(|(_, size)| *size > 0) {
            components += 1;
            top.offer(root, f64::from(size));
        }
    }
    Ok((components, top.into_sorted()))
}

fn summary(
    vertices: u64,
    components: u64,
    top: &[(u32, f64)],
    edges: &Edges,
    names: &Names,
) -> Summary {
    let mut lines = vec![
        format!("{vertices} vertices, {} edges", edges.size.edges),
        format!("{components} components; the largest are those of"),
    ];
    lines.extend(top.iter().map(|(root, size)| format!("{size:>9}  {}", names.shown(*root))));
    let row =
        |(root, size): &(u32, f64)| json!({"vertex": names.shown(*root), "size": *size as u64});
    let data = json!({
        "vertices": vertices,
        "edges": edges.size.edges,
        "components": components,
        "top": top.iter().map(row).collect::<Vec<_>>(),
    });
    Summary { lines, data }
}

/// Which numbers are vertices: those that edges name. One bit each.
struct Present(Vec<u64>);

impl Present {
    fn note(&mut self, block: &[u8]) {
        for (from, to) in plain(block) {
            self.0[from as usize / 64] |= 1 << (from % 64);
            self.0[to as usize / 64] |= 1 << (to % 64);
        }
    }

    fn has(&self, vertex: u32) -> bool {
        self.0[vertex as usize / 64] >> (vertex % 64) & 1 == 1
    }
}
