//! Degrees: one pass with all vertices in memory; with ranges two for each range, over its blocks.

use divvy_kernels::graph::degree::{self, BYTES_PER_VERTEX};
use divvy_kernels::graph::top::Top;
use serde_json::json;

use super::Options;
use super::edges::Edges;
use super::names::Names;
use super::output::Lines;
use crate::job::{PartError, PartIo, Report, Summary};

pub(super) fn run(
    options: &Options,
    io: &mut PartIo<'_>,
    report: &mut Report,
) -> Result<Summary, PartError> {
    let keep = io.keep()?;
    let edge_bytes = options.edge_bytes();
    let mut edges = Edges::open(io, &keep, BYTES_PER_VERTEX, edge_bytes)?;
    let grid = edges.grid;
    edges.expect_passes(if grid.ranges == 1 { 1 } else { 2 });
    let names = Names::open(options, io)?;
    let mut lines = Lines::create(io, &names)?;
    let (mut top, mut vertices) = (Top::new(options.top as usize), 0u64);
    for range in 0..grid.ranges {
        let bounds = grid.bounds(range);
        let base = bounds.start;
        let (mut out, mut into) = (vec![0u32; bounds.len()], vec![0u32; bounds.len()]);
        for other in 0..grid.ranges {
            if grid.ranges == 1 {
                edges.each(io, 0, 0, |block| {
                    degree::count_out(block, edge_bytes, &mut out, base);
                    degree::count_in(block, edge_bytes, &mut into, base);
                })?;
                continue;
            }
            edges.each(io, range, other, |block| {
                degree::count_out(block, edge_bytes, &mut out, base);
            })?;
            edges.each(io, other, range, |block| {
                degree::count_in(block, edge_bytes, &mut into, base);
            })?;
        }
        for (vertex, (out, into)) in bounds.zip(out.iter().zip(&into)) {
            if out.saturating_add(*into) > 0 {
                vertices += 1;
                top.offer(vertex, f64::from(*out) + f64::from(*into));
                lines.line(vertex, |_, text| {
                    text.extend_from_slice(format!("{out}\t{into}").as_bytes())
                })?;
            }
        }
        io.check()?;
    }
    lines.finish(io, report)?;
    report.rows_in = edges.size.edges;
    report.bytes_in = edges.size.edges * edge_bytes as u64;
    let top = top.into_sorted();
    let mut text = vec![
        format!("{vertices} vertices, {} edges", edges.size.edges),
        "most edges, out and in together:".to_owned(),
    ];
    text.extend(top.iter().map(|(vertex, count)| format!("{count:>9}  {}", names.shown(*vertex))));
    let row = |(vertex, count): &(u32, f64)| json!({"vertex": names.shown(*vertex), "edges": *count as u64});
    let data = json!({
        "vertices": vertices,
        "edges": edges.size.edges,
        "top": top.iter().map(row).collect::<Vec<_>>(),
    });
    Ok(Summary { lines: text, data })
}
