//! Ranks of a graph beside the bare kernel on packed edges, and SciPy where it is installed.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use divvy_kernels::graph::edges;
use divvy_kernels::graph::pagerank::{self, ABSENT, Sums, Terms};
use divvy_workload::private::rounded;
use serde_json::json;

use super::made::{made, self_cpu_s};
use super::trial::{Bench, Cost, Outcome};
use crate::generate::Data;
use crate::graph::{Algorithm, Options};
use crate::job::{InputFile, NewJob};

/// Edges and vertices at full size.
const FULL: (u64, u64) = (20_000_000, 2_097_152);
const ITERATIONS: u32 = 20;
const DAMPING: f64 = 0.85;

/// The same in SciPy: a matrix in memory, text read by NumPy.
const SCIPY: &str = "\
import sys, numpy, scipy.sparse as s
e = numpy.fromfile(sys.argv[1], dtype=numpy.int64, sep=' ').reshape(-1, 2)
n = int(e.max()) + 1
out = numpy.bincount(e[:, 0], minlength=n)
m = s.csr_matrix((1.0 / out[e[:, 0]], (e[:, 1], e[:, 0])), shape=(n, n))
r = numpy.full(n, 1.0 / n)
for _ in range(int(sys.argv[2])):
    r = 0.15 / n + 0.85 * (m @ r + r[out == 0].sum() / n)
";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Vec<Outcome>> {
    if !bench.wants("pagerank") {
        return Ok(Vec::new());
    }
    let vertices = u32::try_from(bench.scaled(FULL.1)).unwrap_or(u32::MAX);
    let data = Data::Edges { vertices, weighted: false };
    let path = made(bench, "edges.tsv", data, u64::MAX, bench.scaled(FULL.0))?;
    let options =
        Options { iterations: ITERATIONS, tolerance: 0.0, ..Options::new(Algorithm::Pagerank) };
    let new = NewJob {
        inputs: vec![InputFile::look(&path).context("the edges are gone")?],
        options: json!(options),
        ..NewJob::new("graph")
    };
    let (mut outcome, _) = bench.job("pagerank", &new).await?;
    if !bench.args.alone {
        outcome.others.push(bare(&path, &bench.folder().join("edges.packed"))?);
        let count = ITERATIONS.to_string();
        let mut scipy = Command::new("python3");
        scipy.args(["-c", SCIPY]).arg(&path).arg(count);
        outcome.others.extend(bench.other("SciPy, in memory", &mut scipy)?);
    }
    Ok(vec![outcome])
}

/// The kernel alone: packed edges in a file, read in a stream; what packs them is not counted.
fn bare(list: &Path, packed: &Path) -> Result<Cost> {
    let vertices = pack(list, packed)?;
    let cpu = self_cpu_s();
    let began = Instant::now();
    let mut degrees = vec![ABSENT; vertices];
    each(packed, |block| {
        pagerank::count_out(block, &mut degrees, 0);
        pagerank::note_ends(block, &mut degrees, 0);
    })?;
    let present = degrees.iter().filter(|degree| **degree != ABSENT).count() as u32;
    let (mut shares, mut incoming) = (vec![0.0; vertices], vec![0.0; vertices]);
    let mut sums = Sums::default();
    pagerank::begin(&mut shares, &degrees, present, &mut sums);
    for _ in 0..ITERATIONS {
        each(packed, |block| pagerank::spread(block, &shares, 0, &mut incoming, 0))?;
        let terms = Terms { vertices: present, damping: DAMPING, dangling: sums.dangling };
        sums = Sums::default();
        pagerank::settle(&mut shares, &mut incoming, &degrees, &terms, &mut sums);
    }
    Ok(Cost {
        by: "the bare kernel, edges packed before".to_owned(),
        seconds: rounded(began.elapsed().as_secs_f64()),
        cpu_s: Some(rounded(self_cpu_s() - cpu)),
        peak_mb: None,
    })
}

/// Packs a list of edges; one more than the largest number.
fn pack(list: &Path, packed: &Path) -> Result<usize> {
    let mut output = BufWriter::with_capacity(1 << 20, File::create(packed)?);
    let (mut last, mut edge) = (0, Vec::new());
    for line in BufReader::with_capacity(1 << 20, File::open(list)?).split(b'\n') {
        let line = line?;
        if let Some(ends) = edges::parse(&line)? {
            let (from, to) = (edges::vertex(ends.from)?, edges::vertex(ends.to)?);
            last = last.max(from).max(to);
            edge.clear();
            edges::pack(from, to, None, &mut edge);
            output.write_all(&edge)?;
        }
    }
    output.flush()?;
    Ok(last as usize + 1)
}

fn each(packed: &Path, mut take: impl FnMut(&[u8])) -> Result<()> {
    let mut file = File::open(packed)?;
    let mut buffer = Vec::with_capacity(1 << 20);
    loop {
        buffer.clear();
        if (&mut file).take(1 << 20).read_to_end(&mut buffer)? == 0 {
            return Ok(());
        }
        take(&buffer);
    }
}
