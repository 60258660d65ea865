//! The passes against slow references, in one range and in many.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::grid::{Grid, Sides};
use super::pagerank::{Sums, Terms};
use super::{components, degree, distance, edges, pagerank};

type Graph = (u32, Vec<(u32, u32, f32)>);

fn graphs() -> impl Strategy<Value = Graph> {
    (1u32..30).prop_flat_map(|vertices| {
        let edge = (0..vertices, 0..vertices, 0u8..8).prop_map(|(a, b, w)| (a, b, f32::from(w)));
        (Just(vertices), prop::collection::vec(edge, 0..90))
    })
}

/// The edges in the blocks of a grid.
fn blocks(grid: &Grid, graph: &Graph, weighted: bool) -> Vec<Vec<u8>> {
    let mut blocks = vec![Vec::new(); grid.blocks()];
    for (from, to, weight) in &graph.1 {
        let block = &mut blocks[grid.block_of(*from, *to)];
        edges::pack(*from, *to, weighted.then_some(*weight), block);
    }
    blocks
}

fn grid(vertices: u32, ranges: u32) -> Grid {
    let width = vertices.div_ceil(ranges);
    Grid { vertices, width, ranges: vertices.div_ceil(width) }
}

/// Two pieces of one list, or one if they are the same.
fn sides<'a, T>(values: &'a mut [T], grid: &Grid, from: u32, to: u32) -> Sides<'a, T> {
    let bounds = |range| {
        let bounds = grid.bounds(range);
        bounds.start as usize..bounds.end as usize
    };
    let (from_base, to_base) = (grid.bounds(from).start, grid.bounds(to).start);
    if from == to {
        return Sides::One { values: &mut values[bounds(from)], base: from_base };
    }
    let [from, to] = values.get_disjoint_mut([bounds(from), bounds(to)]).unwrap();
    Sides::Two { from, from_base, to, to_base }
}

fn pagerank_of(graph: &Graph, ranges: u32, iterations: u32) -> Vec<f64> {
    let grid = grid(graph.0, ranges);
    let blocks = blocks(&grid, graph, false);
    let count = graph.0 as usize;
    let (mut shares, mut incoming) = (vec![0.0; count], vec![0.0; count]);
    let mut degrees = vec![pagerank::ABSENT; count];
    for block in &blocks {
        pagerank::count_out(block, &mut degrees, 0);
        pagerank::note_ends(block, &mut degrees, 0);
    }
    let vertices = degrees.iter().filter(|degree| **degree != pagerank::ABSENT).count() as u32;
    let mut sums = Sums::default();
    pagerank::begin(&mut shares, &degrees, vertices, &mut sums);
    for _ in 0..iterations {
        for to in 0..grid.ranges {
            let bounds = grid.bounds(to);
            let into = &mut incoming[bounds.start as usize..bounds.end as usize];
            for from in 0..grid.ranges {
                let begins = grid.bounds(from);
                let shares = &shares[begins.start as usize..begins.end as usize];
                pagerank::spread(
                    &blocks[grid.block(from, to)],
                    shares,
                    begins.start,
                    into,
                    bounds.start,
                );
            }
        }
        let terms = Terms { vertices, damping: 0.85, dangling: sums.dangling };
        sums = Sums::default();
        pagerank::settle(&mut shares, &mut incoming, &degrees, &terms, &mut sums);
        assert!(vertices == 0 || (sums.total - 1.0).abs() < 1e-9, "they add up to {}", sums.total);
    }
    let rank = |(share, degree): (&f64, &u32)| match *degree {
        pagerank::ABSENT => 0.0,
        degree => pagerank::rank_of(*share, degree),
    };
    shares.iter().zip(&degrees).map(rank).collect()
}

/// The same by the book, with what edges name as vertices.
fn reference_ranks(graph: &Graph, iterations: u32) -> Vec<f64> {
    let named: BTreeSet<usize> =
        graph.1.iter().flat_map(|edge| [edge.0 as usize, edge.1 as usize]).collect();
    let mut out = vec![0.0; graph.0 as usize];
    graph.1.iter().for_each(|edge| out[edge.0 as usize] += 1.0);
    let n = named.len() as f64;
    let mut ranks = vec![0.0; graph.0 as usize];
    named.iter().for_each(|vertex| ranks[*vertex] = 1.0 / n);
    for _ in 0..iterations {
        let dangling: f64 = named.iter().filter(|v| out[**v] == 0.0).map(|v| ranks[*v]).sum();
        let mut next = vec![0.0; graph.0 as usize];
        named.iter().for_each(|vertex| next[*vertex] = 0.15 / n + 0.85 * dangling / n);
        for (from, to, _) in &graph.1 {
            next[*to as usize] += 0.85 * ranks[*from as usize] / out[*from as usize];
        }
        ranks = next;
    }
    ranks
}

fn components_of(graph: &Graph, ranges: u32) -> Vec<u32> {
    let mut names: Vec<u32> = (0..graph.0).collect();
    let grid = grid(graph.0, ranges);
    let blocks = blocks(&grid, graph, false);
    if ranges == 1 {
        components::unite(&blocks[0], &mut names);
        components::flatten(&mut names);
        return names;
    }
    loop {
        let mut changed = 0;
        for to in 0..grid.ranges {
            for from in 0..grid.ranges {
                let block = &blocks[grid.block(from, to)];
                changed += components::lower(block, &mut sides(&mut names, &grid, from, to));
            }
        }
        if changed == 0 {
            return names;
        }
    }
}

/// Names by walking from the smallest vertex that has none.
fn reference_components(graph: &Graph) -> Vec<u32> {
    let mut beside: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (from, to, _) in &graph.1 {
        beside.entry(*from).or_default().insert(*to);
        beside.entry(*to).or_default().insert(*from);
    }
    let mut names = vec![u32::MAX; graph.0 as usize];
    for start in 0..graph.0 {
        let mut queue = vec![start];
        while let Some(vertex) = queue.pop() {
            if names[vertex as usize] == u32::MAX {
                names[vertex as usize] = start;
                queue.extend(beside.get(&vertex).into_iter().flatten());
            }
        }
    }
    names
}

fn distances_of(graph: &Graph, ranges: u32, weighted: bool) -> Vec<f64> {
    let mut distances = vec![f64::INFINITY; graph.0 as usize];
    distances[0] = 0.0;
    let grid = grid(graph.0, ranges);
    let blocks = blocks(&grid, graph, weighted);
    let relax = if weighted { distance::relax_weighted } else { distance::relax_plain };
    loop {
        let mut changed = 0;
        for to in 0..grid.ranges {
            for from in 0..grid.ranges {
                let block = &blocks[grid.block(from, to)];
                changed += relax(block, &mut sides(&mut distances, &grid, from, to));
            }
        }
        if changed == 0 {
            return distances;
        }
    }
}

/// Dijkstra's way, with a look through all vertices for the nearest.
fn reference_distances(graph: &Graph, weighted: bool) -> Vec<f64> {
    let mut distances = vec![f64::INFINITY; graph.0 as usize];
    distances[0] = 0.0;
    let mut open: BTreeSet<u32> = (0..graph.0).collect();
    while let Some(nearest) = open
        .iter()
        .copied()
        .min_by(|a, b| distances[*a as usize].total_cmp(&distances[*b as usize]))
    {
        open.remove(&nearest);
        let so_far = distances[nearest as usize];
        for (_, to, length) in graph.1.iter().filter(|edge| edge.0 == nearest) {
            let length = if weighted { f64::from(*length) } else { 1.0 };
            let known = &mut distances[*to as usize];
            *known = known.min(so_far + length);
        }
    }
    distances
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn ranks_are_those_of_the_book(graph in graphs(), ranges in 1u32..5) {
        let (found, wanted) = (pagerank_of(&graph, ranges, 12), reference_ranks(&graph, 12));
        for (found, wanted) in found.iter().zip(&wanted) {
            prop_assert!((found - wanted).abs() < 1e-12, "{} {}", found, wanted);
        }
    }

    #[test]
    fn components_are_what_can_be_walked_to(graph in graphs(), ranges in 1u32..5) {
        prop_assert_eq!(components_of(&graph, ranges), reference_components(&graph));
    }

    #[test]
    fn distances_are_the_shortest(graph in graphs(), ranges in 1u32..5, weighted in any::<bool>()) {
        prop_assert_eq!(distances_of(&graph, ranges, weighted), reference_distances(&graph, weighted));
    }

    #[test]
    fn degrees_count_every_edge_once(graph in graphs(), ranges in 1u32..5, weighted in any::<bool>()) {
        let grid = grid(graph.0, ranges);
        let bytes = if weighted { edges::WEIGHTED_BYTES } else { edges::PLAIN_BYTES };
        let mut found = vec![(0, 0); graph.0 as usize];
        let blocks = blocks(&grid, &graph, weighted);
        for range in 0..grid.ranges {
            let bounds = grid.bounds(range);
            let mut counts = [vec![0; bounds.len()], vec![0; bounds.len()]];
            for other in 0..grid.ranges {
                degree::count_out(&blocks[grid.block(range, other)], bytes, &mut counts[0], bounds.start);
                degree::count_in(&blocks[grid.block(other, range)], bytes, &mut counts[1], bounds.start);
            }
            for (vertex, (out, into)) in bounds.zip(counts[0].iter().zip(&counts[1])) {
                found[vertex as usize] = (*out, *into);
            }
        }
        let mut wanted = vec![(0, 0); graph.0 as usize];
        for (from, to, _) in &graph.1 {
            wanted[*from as usize].0 += 1;
            wanted[*to as usize].1 += 1;
        }
        prop_assert_eq!(found, wanted);
    }
}
