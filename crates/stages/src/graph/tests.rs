//! Whole jobs on graphs, without a server: against slow references, with vertices in memory and in ranges, with parts that
//! are stopped, on bad input. That the passes are right on all small graphs is shown beside them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{Algorithm, Ids, Options};
use crate::alone::{Ended, file, run, run_with_stops};
use crate::job::{NewJob, OnError};

/// Vertices enough for several ranges in the least memory, most of which no edge names.
const VERTICES: u32 = 120_000;

/// A list of edges with many vertices that hang together.
fn list(seed: u64, edges: usize) -> String {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut list = String::from("# from to length\n");
    for _ in 0..edges {
        let mut vertex = || match chance.u8(0..3) {
            0 => chance.u32(0..VERTICES),
            _ => chance.u32(0..300) * 400,
        };
        let (from, to) = (vertex(), vertex());
        list += &format!("{from}\t{to}\t{}\n", chance.u32(1..9));
    }
    list
}

fn job(text: &str, options: &Options, place: &std::path::Path) -> NewJob {
    let inputs = vec![file(place, "edges", text.as_bytes())];
    NewJob { inputs, options: json!(options), split_bytes: 30_000, ..NewJob::new("graph") }
}

fn ended(text: &str, options: &Options, memory_bytes: u64) -> Result<Ended, String> {
    let place = tempfile::tempdir().unwrap();
    run(NewJob { memory_bytes, ..job(text, options, place.path()) }, place.path())
}

/// The result as a map from vertices to what follows the tab.
fn rows(ended: &Ended) -> BTreeMap<u32, String> {
    let text = String::from_utf8(ended.joined()).unwrap();
    let row = |line: &str| {
        let (vertex, value) = line.split_once('\t').unwrap();
        (vertex.parse().unwrap(), value.to_owned())
    };
    text.lines().map(row).collect()
}

fn edges(text: &str) -> Vec<(u32, u32, f64)> {
    let edge = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        (fields[0].parse().unwrap(), fields[1].parse().unwrap(), fields[2].parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(edge).collect()
}

const MEMORY: u64 = 100_000_000;
/// So little that vertices come and go in ranges.
const LITTLE: u64 = 1_000_000;

#[test]
fn ranks_are_the_same_in_memory_and_in_ranges_and_add_up() {
    let text = list(1, 6_000);
    let options = Options { iterations: 15, tolerance: 0.0, ..Options::new(Algorithm::Pagerank) };
    let (whole, ranges) =
        (ended(&text, &options, MEMORY).unwrap(), ended(&text, &options, LITTLE).unwrap());
    let (whole_rows, range_rows) = (rows(&whole), rows(&ranges));
    let named: BTreeSet<u32> = edges(&text).iter().flat_map(|edge| [edge.0, edge.1]).collect();
    assert!(whole_rows.keys().eq(named.iter()), "only vertices that edges name");
    assert!(range_rows.keys().eq(named.iter()));
    let number = |text: &String| text.parse::<f64>().unwrap();
    for (vertex, rank) in &whole_rows {
        assert!((number(rank) - number(&range_rows[vertex])).abs() < 1e-15, "{vertex}");
    }
    let total: f64 = whole_rows.values().map(number).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
    assert_eq!(whole.summary.data["iterations"], 15);
    let best = whole_rows.iter().max_by(|a, b| number(a.1).total_cmp(&number(b.1))).unwrap();
    assert_eq!(whole.summary.data["top"][0]["vertex"], best.0.to_string());
    assert_eq!(whole.summary.data["top"].as_array().unwrap().len(), 10);
}

#[test]
fn ranks_solve_their_equations() {
    let text = "1\t2\n1\t3\n2\t3\n3\t1\n4\t3\n3\t5\n";
    let options = Options { tolerance: 1e-12, ..Options::new(Algorithm::Pagerank) };
    let ended = ended(text, &options, MEMORY).unwrap();
    assert_eq!(ended.summary.data["converged"], true);
    let ranks: Vec<f64> = rows(&ended).values().map(|rank| rank.parse().unwrap()).collect();
    // Each rank is (0.15 + 0.85 d) / 5 and its shares, d that of vertex 5.
    let d = ranks[4];
    let floor = (0.15 + 0.85 * d) / 5.0;
    let wanted = [
        floor + 0.85 * ranks[2] / 2.0,
        floor + 0.85 * ranks[0] / 2.0,
        floor + 0.85 * (ranks[0] / 2.0 + ranks[1] + ranks[3]),
        floor,
        floor + 0.85 * ranks[2] / 2.0,
    ];
    for (found, wanted) in ranks.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-11, "{ranks:?}");
    }
}

#[test]
fn components_distances_and_degrees_are_right_in_memory_and_in_ranges() {
    let text = list(2, 5_000);
    let list = edges(&text);
    let named: BTreeSet<u32> = list.iter().flat_map(|edge| [edge.0, edge.1]).collect();

    let components = Options::new(Algorithm::Components);
    let whole = ended(&text, &components, MEMORY).unwrap();
    let mut names: BTreeMap<u32, u32> = named.iter().map(|vertex| (*vertex, *vertex)).collect();
    loop {
        let mut changed = false;
        for (from, to, _) in &list {
            let name = names[from].min(names[to]);
            changed |= names.insert(*from, name) != Some(name);
            changed |= names.insert(*to, name) != Some(name);
        }
        if !changed {
            break;
        }
    }
    let found: BTreeMap<u32, u32> =
        rows(&whole).iter().map(|(vertex, name)| (*vertex, name.parse().unwrap())).collect();
    assert_eq!(found, names);
    let count = names.values().collect::<BTreeSet<_>>().len();
    assert_eq!(whole.summary.data["components"], count);
    let ranges = ended(&text, &components, LITTLE).unwrap();
    assert_eq!((ranges.joined(), ranges.summary), (whole.joined(), whole.summary));

    let source = list[0].0;
    let distances = Options {
        weighted: true,
        source: Some(source.to_string()),
        ..Options::new(Algorithm::Sssp)
    };
    let whole = ended(&text, &distances, MEMORY).unwrap();
    let mut wanted: BTreeMap<u32, f64> = BTreeMap::from([(source, 0.0)]);
    for _ in 0..list.len() {
        let mut changed = false;
        for (from, to, length) in &list {
            let Some(distance) = wanted.get(from).map(|distance| distance + length) else {
                continue;
            };
            let known = wanted.entry(*to).or_insert(f64::INFINITY);
            if distance < *known {
                *known = distance;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let found: BTreeMap<u32, f64> =
        rows(&whole).iter().map(|(vertex, far)| (*vertex, far.parse().unwrap())).collect();
    assert_eq!(found, wanted);
    assert_eq!(ended(&text, &distances, LITTLE).unwrap().joined(), whole.joined());

    let degrees = Options::new(Algorithm::Degrees);
    let whole = ended(&text, &degrees, MEMORY).unwrap();
    let mut wanted: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (from, to, _) in &list {
        wanted.entry(*from).or_default().0 += 1;
        wanted.entry(*to).or_default().1 += 1;
    }
    let wanted: BTreeMap<u32, String> =
        wanted.iter().map(|(vertex, (out, into))| (*vertex, format!("{out}\t{into}"))).collect();
    assert_eq!(rows(&whole), wanted);
    assert_eq!(ended(&text, &degrees, LITTLE).unwrap().joined(), whole.joined());
}

#[test]
fn a_part_that_was_stopped_goes_on_at_its_iteration() {
    let text = list(3, 4_000);
    for algorithm in [Algorithm::Pagerank, Algorithm::Components, Algorithm::Sssp] {
        for memory_bytes in [MEMORY, LITTLE] {
            let source = (algorithm == Algorithm::Sssp).then(|| edges(&text)[0].0.to_string());
            let options =
                Options { source, iterations: 6, tolerance: 0.0, ..Options::new(algorithm) };
            let undisturbed = ended(&text, &options, memory_bytes).unwrap();
            let place = tempfile::tempdir().unwrap();
            let new = NewJob { memory_bytes, ..job(&text, &options, place.path()) };
            // Later turns may go further, so that the job ends even where only whole passes count.
            let mut turns = 0;
            let mut stops = |stage: &str| {
                turns += u64::from(stage == "graph");
                (stage == "graph" && turns < 8).then_some(turns * turns * 2)
            };
            let ended = run_with_stops(new, place.path(), &mut stops).unwrap();
            assert!(ended.stopped > 0, "{algorithm:?}");
            assert_eq!(ended.joined(), undisturbed.joined(), "{algorithm:?} {memory_bytes}");
            assert_eq!(ended.summary, undisturbed.summary);
        }
    }
}

#[test]
fn ranks_are_the_same_bits_however_edges_were_read() {
    let mut chance = fastrand::Rng::with_seed(5);
    let mut vertex = || chance.u32(0..10_000).min(chance.u32(0..10_000));
    let edges: Vec<(u32, u32)> = (0..100_000).map(|_| (vertex(), vertex())).collect();
    let plain: String = edges.iter().map(|(from, to)| format!("{from}\t{to}\n")).collect();
    // The same edges in lines of all sorts, the last one without an end.
    let line = |(at, (from, to)): (usize, &(u32, u32))| match at % 7 {
        0 => format!("{from}\t{to}\n"),
        1 => format!("{from} {to}\r\n"),
        2 => format!("# {at}\n\n{from},{to}\n"),
        3 => format!("  {from}   {to}\t\n"),
        4 => format!("{from:08}\t{to:010}\n"),
        5 => format!("{from}\t{to}\t0.5\n"),
        _ => format!("%\n{from} {to}\n"),
    };
    let odd: String = edges.iter().enumerate().map(line).collect();
    let options = Options { iterations: 5, tolerance: 0.0, ..Options::new(Algorithm::Pagerank) };
    let whole = ended(&plain, &options, MEMORY).unwrap();
    // Little memory has room for the vertices, but not for the edges that a large part packs.
    for (text, split_bytes, memory_bytes) in [
        (&plain, 10_000_000, MEMORY),
        (&plain, 10_000_000, LITTLE),
        (&odd, 30_000, MEMORY),
        (&odd, 10_000_000, LITTLE),
        (&odd[..odd.len() - 1].to_owned(), 10_000_000, MEMORY),
    ] {
        let place = tempfile::tempdir().unwrap();
        let job = job(text, &options, place.path());
        let ended = run(NewJob { split_bytes, memory_bytes, ..job }, place.path()).unwrap();
        assert_eq!(ended.joined(), whole.joined(), "{split_bytes} {memory_bytes}");
        assert_eq!(ended.summary, whole.summary);
    }
    let names = Options { ids: Ids::Name, ..options };
    let whole = ended(&plain, &names, MEMORY).unwrap();
    assert_eq!(ended(&plain, &names, LITTLE).unwrap().joined(), whole.joined());
}

#[test]
fn an_iteration_that_was_kept_is_not_done_again() {
    let text = list(4, 20_000);
    let options = Options { iterations: 30, tolerance: 0.0, ..Options::new(Algorithm::Pagerank) };
    let place = tempfile::tempdir().unwrap();
    let new = NewJob { split_bytes: 10_000_000, ..job(&text, &options, place.path()) };
    // Each turn has time for a few passes over the sixteen ranges only: without what was kept it would never end.
    let mut turns = 0;
    let ended = run_with_stops(new, place.path(), &mut |stage| {
        turns += u32::from(stage == "graph");
        (stage == "graph").then_some(70)
    });
    assert_eq!(ended.unwrap().summary.data["iterations"], 30);
    assert!(turns >= 5, "{turns}");
}

#[test]
fn names_of_pages_are_kept_and_links_of_a_crawl_are_read() {
    let text = "http://a/\thttp://b/x,y\nhttp://b/x,y\thttp://c/ d\nhttp://c/ d\thttp://b/x,y\n";
    let options = Options { ids: Ids::Name, ..Options::new(Algorithm::Pagerank) };
    let done = ended(text, &options, MEMORY).unwrap();
    assert_eq!(done.summary.data["top"][0]["vertex"], "http://b/x,y");
    let text_out = String::from_utf8(done.joined()).unwrap();
    let names: Vec<&str> = text_out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(names, ["http://a/", "http://b/x,y", "http://c/ d"]);
    let options = Options { ids: Ids::Name, ..Options::new(Algorithm::Components) };
    let out = String::from_utf8(ended(text, &options, MEMORY).unwrap().joined()).unwrap();
    assert!(out.lines().all(|line| line.ends_with("\thttp://a/")), "{out}");
    let source = Some("http://b/x,y".to_owned());
    let options = Options { ids: Ids::Name, source, ..Options::new(Algorithm::Sssp) };
    let out = String::from_utf8(ended(text, &options, MEMORY).unwrap().joined()).unwrap();
    assert_eq!(out, "http://b/x,y\t0\nhttp://c/ d\t1\n");
}

#[test]
fn bad_edges_are_named_or_left_out() {
    let text = "1\t2\n2\tx\n3\t1\nlonely\n";
    let degrees = Options::new(Algorithm::Degrees);
    let error = ended(text, &degrees, MEMORY).unwrap_err();
    assert!(
        error.contains("edges:2: names the vertex `x`") && error.contains("--ids name"),
        "{error}"
    );
    let place = tempfile::tempdir().unwrap();
    let skip = NewJob { on_error: OnError::Skip, ..job(text, &degrees, place.path()) };
    let done = run(skip, place.path()).unwrap();
    assert_eq!((rows(&done).len(), done.stages[0].parts[0].report.skipped), (3, 2));

    let place = tempfile::tempdir().unwrap();
    let not_text = vec![file(place.path(), "edges", b"a\tb\nb\t\xff\nb\tc\n")];
    let names = Options { ids: Ids::Name, ..Options::new(Algorithm::Degrees) };
    let of_names = |on_error| {
        let place = tempfile::tempdir().unwrap();
        let job = NewJob { inputs: not_text.clone(), on_error, ..NewJob::new("graph") };
        run(NewJob { options: json!(names), ..job }, place.path())
    };
    let error = of_names(OnError::Fail).unwrap_err();
    assert!(error.contains("edges:2: byte 3 of the line is not UTF-8"), "{error}");
    let done = of_names(OnError::Skip).unwrap();
    assert_eq!(done.joined(), b"a\t1\t0\nb\t1\t1\nc\t0\t1\n");
    assert_eq!(done.stages[0].parts[0].report.skipped, 1);

    let weighted = |text: &str| {
        let source = Some("1".to_owned());
        ended(text, &Options { weighted: true, source, ..Options::new(Algorithm::Sssp) }, MEMORY)
    };
    assert!(weighted("1\t2\t-4\n").unwrap_err().contains("edges:1: has the weight `-4`"));
    assert!(weighted("1\t2\n").unwrap_err().contains("has no weight"));
    let no_source = ended(text, &Options::new(Algorithm::Sssp), MEMORY).unwrap_err();
    assert!(no_source.contains("source is missing"), "{no_source}");
    let far = Options { source: Some("77".to_owned()), ..Options::new(Algorithm::Sssp) };
    assert!(ended("1\t2\n", &far, MEMORY).unwrap_err().contains("`77` is no vertex"));
    let many: String = (0..60_000).map(|nth| format!("vertex {nth}\tother {nth}\n")).collect();
    assert!(ended(&many, &names, LITTLE).unwrap_err().contains("do not fit in 1 MB"));
    let damping = Options { damping: 1.5, ..Options::new(Algorithm::Pagerank) };
    assert!(ended(text, &damping, MEMORY).unwrap_err().contains("damping"));
}

#[test]
fn an_empty_list_has_an_empty_result() {
    for algorithm in [Algorithm::Pagerank, Algorithm::Components, Algorithm::Degrees] {
        let done = ended("# nothing\n", &Options::new(algorithm), MEMORY).unwrap();
        assert_eq!(done.joined(), b"", "{algorithm:?}");
    }
}
