//! Distances from one vertex: passes over the edges until none shortens a way.
//!
//! With all vertices in memory each pass is kept. With ranges, distances are written in place: they only ever shrink to what
//! they must be, so whatever an attempt that died has written is a good beginning.

use divvy_kernels::graph::distance::{self, BYTES_PER_VERTEX};
use divvy_kernels::graph::grid::Sides;
use serde_json::json;

use super::Options;
use super::edges::Edges;
use super::names::Names;
use super::numbers::{Column, Reached, keep_reached, reached, values};
use super::output::{Lines, put};
use crate::job::{Keep, PartError, PartIo, Report, Summary};

pub(super) fn run(
    options: &Options,
    io: &mut PartIo<'_>,
    report: &mut Report,
) -> Result<Summary, PartError> {
    let keep = io.keep()?;
    let mut edges = Edges::open(io, &keep, BYTES_PER_VERTEX, options.edge_bytes())?;
    let names = Names::open(options, io)?;
    let wanted = options.source.as_deref().unwrap_or_default();
    let Some(source) = names.find(wanted, edges.size.vertices) else {
        return Err(PartError::Broken(format!(
            "the source `{wanted}` is no vertex of the graph; name one that an edge begins or ends with"
        )));
    };
    let column = if edges.grid.ranges == 1 {
        in_memory(options, source, io, &keep, &mut edges)?
    } else {
        in_ranges(options, source, io, &keep, &mut edges)?
    };
    report.rows_in = edges.size.edges;
    report.bytes_in = edges.size.edges * options.edge_bytes() as u64;
    let mut lines = Lines::create(io, &names)?;
    let (mut reached, mut farthest) = (0u64, (0.0, source));
    for range in 0..edges.grid.ranges {
        let distances: Vec<f64> = column.read(range)?;
        for (vertex, distance) in edges.grid.bounds(range).zip(distances) {
            if distance.is_finite() {
                reached += 1;
                if distance > farthest.0 {
                    farthest = (distance, vertex);
                }
                lines.line(vertex, |_, out| put(distance, out))?;
            }
        }
        io.check()?;
    }
    lines.finish(io, report)?;
    let (far, at) = (farthest.0, names.shown(farthest.1));
    Ok(Summary {
        lines: vec![
            format!("{} edges; {reached} vertices can be reached from {wanted}", edges.size.edges),
            format!("the farthest is {at} with a distance of {far}"),
        ],
        data: json!({
            "edges": edges.size.edges, "reached": reached, "farthest": at, "distance": far,
        }),
    })
}

fn in_memory(
    options: &Options,
    source: u32,
    io: &mut PartIo<'_>,
    keep: &Keep,
    edges: &mut Edges,
) -> Result<Column, PartError> {
    let grid = edges.grid;
    // What is known of a pass is whether it was the last one.
    let kept: Option<Reached<bool>> = reached(keep)?;
    let mut distances: Vec<f64>;
    let mut at = match kept {
        Some(at) => {
            distances = values(keep, at.pass, grid).read(0)?;
            at
        }
        None => {
            distances = vec![f64::INFINITY; grid.vertices as usize];
            distances[source as usize] = 0.0;
            Reached { pass: 0, known: false }
        }
    };
    while !at.known {
        let mut changed = 0;
        edges.expect_passes(1);
        edges.each(io, 0, 0, |block| {
            changed += relax(options, block, &mut Sides::One { values: &mut distances, base: 0 });
        })?;
        at.pass += 1;
        at.known = changed == 0;
        values(keep, at.pass, grid).write(0, &distances)?;
        keep_reached(keep, grid, &at)?;
        io.message(&format!("pass {}: {changed} ways became shorter", at.pass));
    }
    Ok(values(keep, at.pass, grid))
}

fn in_ranges(
    options: &Options,
    source: u32,
    io: &mut PartIo<'_>,
    keep: &Keep,
    edges: &mut Edges,
) -> Result<Column, PartError> {
    let grid = edges.grid;
    let column = Column::new(keep, "distances", grid);
    let begun = Column::new(keep, "begun", grid);
    if !begun.exists() {
        for range in 0..grid.ranges {
            let bounds = grid.bounds(range);
            let mut distances = vec![f64::INFINITY; bounds.len()];
            if bounds.contains(&source) {
                distances[(source - bounds.start) as usize] = 0.0;
            }
            column.write(range, &distances)?;
        }
        column.sync()?;
        begun.write::<u32>(0, &[1])?;
    }
    loop {
        let mut changed = 0;
        edges.expect_passes(1);
        for to in 0..grid.ranges {
            let to_base = grid.bounds(to).start;
            let mut ends: Vec<f64> = column.read(to)?;
            let mut changed_here = 0;
            for from in 0..grid.ranges {
                if from == to {
                    edges.each(io, from, to, |block| {
                        let mut sides = Sides::One { values: &mut ends, base: to_base };
                        changed_here += relax(options, block, &mut sides);
                    })?;
                    continue;
                }
                let mut begins: Vec<f64> = column.read(from)?;
                let from_base = grid.bounds(from).start;
                edges.each(io, from, to, |block| {
                    let (from, to) = (&mut begins[..], &mut ends[..]);
                    let mut sides = Sides::Two { from, from_base, to, to_base };
                    changed_here += relax(options, block, &mut sides);
                })?;
            }
            if changed_here > 0 {
                column.write(to, &ends)?;
                changed += changed_here;
            }
        }
        io.message(&format!("a pass made {changed} ways shorter"));
        if changed == 0 {
            return Ok(column);
        }
        column.sync()?;
    }
}

fn relax(options: &Options, block: &[u8], sides: &mut Sides<'_, f64>) -> u64 {
    if options.weighted {
        distance::relax_weighted(block, sides)
    } else {
        distance::relax_plain(block, sides)
    }
}
