//! Ranks, components, degrees and distances in graphs whose edges do not fit in memory.
//!
//! | stage | parts | what a part does |
//! |---|---|---|
//! | `edges` | one for each split of the input; one in all if vertices have names | packs edges to eight bytes each, twelve with weights, by where they end |
//! | `graph` | one | passes over the packed edges until the result stands |
//!
//! The one part keeps a few bytes for each vertex in memory and reads edges in a stream, as often as it takes. If the
//! vertices do not fit in the memory of a part either, edges are sorted into a grid of blocks first, and numbers of
//! vertices come and go in ranges. What is reached after each pass is kept, so an attempt goes on where the last one
//! was; and the order of all sums is fixed, so it reaches the same bits, on however many threads.
//!
//! Reading order: `pack` and `spilled` (the first stage), `edges` and `threads` (passes over edges), `numbers` (of vertices, on
//! disk), then one file for each algorithm, `names` and `output`.

mod components;
mod degrees;
mod edges;
mod names;
mod numbers;
mod output;
mod pack;
mod pagerank;
mod spilled;
mod sssp;
#[cfg(test)]
mod tests;
mod threads;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::input;
use crate::job::{
    JobError, Kind, Next, Part, PartError, PartIo, PartSpec, Report, Spec, SpecError, Stage,
    StageDone, Summary,
};

/// Iterations that can be asked for.
const ITERATIONS_MAX: u32 = 100_000;
/// Vertices that are listed at most.
const TOP_MAX: u32 = 1_000;

/// Algorithms on graphs.
#[derive(Clone, Copy, Debug)]
pub struct Graph;

/// What is asked of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// How much of all rank each vertex has
    Pagerank,
    /// Which vertices hang together, whatever the direction of edges
    Components,
    /// How many edges begin and end in each vertex
    Degrees,
    /// How far each vertex is from one of them
    Sssp,
}

/// What vertices are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    /// Numbers of 32 bits.
    #[default]
    Number,
    /// Any text without tabs, such as addresses of pages.
    Name,
}

/// What is asked besides the inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// What is asked.
    pub algorithm: Algorithm,
    /// What vertices are called.
    #[serde(default)]
    pub ids: Ids,
    /// Whether edges have lengths; for distances only.
    #[serde(default)]
    pub weighted: bool,
    /// Where distances begin.
    #[serde(default)]
    pub source: Option<String>,
    /// The share of rank that follows edges.
    #[serde(default = "usual_damping")]
    pub damping: f64,
    /// Ranks stand when all of them together move less than this.
    #[serde(default = "usual_tolerance")]
    pub tolerance: f64,
    /// Iterations of ranks, at most.
    #[serde(default = "usual_iterations")]
    pub iterations: u32,
    /// How many of the largest are listed.
    #[serde(default = "usual_top")]
    pub top: u32,
}

fn usual_damping() -> f64 {
    0.85
}

fn usual_tolerance() -> f64 {
    1e-6
}

fn usual_iterations() -> u32 {
    100
}

fn usual_top() -> u32 {
    10
}

impl Options {
    /// This algorithm, everything else as usual.
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            ids: Ids::Number,
            weighted: false,
            source: None,
            damping: usual_damping(),
            tolerance: usual_tolerance(),
            iterations: usual_iterations(),
            top: usual_top(),
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let wrong =
            |field: &str, problem: &str| Err(SpecError::new(format!("options.{field}"), problem));
        if !(0.0..1.0).contains(&self.damping) {
            return wrong("damping", "is not between 0 and 1; 0.85 is usual");
        }
        if !(0.0..=2.0).contains(&self.tolerance) {
            return wrong("tolerance", "is not between 0 and 2; 1e-6 is usual");
        }
        if !(1..=ITERATIONS_MAX).contains(&self.iterations) {
            return wrong("iterations", "is not between 1 and 100000");
        }
        if self.top > TOP_MAX {
            return wrong("top", "is more than 1000; the result has all vertices");
        }
        let is_distance = self.algorithm == Algorithm::Sssp;
        if is_distance && self.source.is_none() {
            return wrong("source", "is missing; name the vertex where distances begin");
        }
        if !is_distance && self.source.is_some() {
            return wrong("source", "is only of use to sssp; leave it out");
        }
        if !is_distance && self.weighted {
            return wrong("weighted", "is only of use to sssp; leave it out");
        }
        Ok(())
    }

    /// Bytes of a packed edge.
    fn edge_bytes(&self) -> usize {
        use divvy_kernels::graph::edges::{PLAIN_BYTES, WEIGHTED_BYTES};
        if self.weighted { WEIGHTED_BYTES } else { PLAIN_BYTES }
    }
}

impl Kind for Graph {
    fn name(&self) -> &'static str {
        "graph"
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        let options: Options = spec.options()?;
        options.check()?;
        if spec.inputs.is_empty() {
            return Err(SpecError::new("inputs", "is empty; name at least one list of edges"));
        }
        Ok(())
    }

    fn next(&self, spec: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
        let options: Options = spec.options().map_err(|error| JobError(error.to_string()))?;
        let stage = |name: &str, parts| {
            Ok(Next::Stage(Stage { name: name.to_owned(), parts, speculate: name == "edges" }))
        };
        let Some(last) = done.last() else {
            return stage("edges", pack::parts(spec, options.ids));
        };
        if last.name == "edges" {
            let bytes = last.parts.iter().map(|part| part.report.bytes_out).sum();
            return stage("graph", vec![Part::new(&Value::Null, bytes)]);
        }
        let found = last.parts.first().map(|part| part.report.extra.clone());
        let summary = found.and_then(|found| serde_json::from_value::<Summary>(found).ok());
        summary
            .map(Next::Finished)
            .ok_or_else(|| JobError("what the graph's part found cannot be read".to_owned()))
    }

    fn run(&self, part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
        let options: Options =
            io.spec().options().map_err(|error| PartError::Broken(error.to_string()))?;
        if part.name == "edges" {
            return pack::run(&options, part, io);
        }
        let mut report = Report::default();
        let summary = match options.algorithm {
            Algorithm::Pagerank => pagerank::run(&options, io, &mut report)?,
            Algorithm::Components => components::run(&options, io, &mut report)?,
            Algorithm::Degrees => degrees::run(&options, io, &mut report)?,
            Algorithm::Sssp => sssp::run(&options, io, &mut report)?,
        };
        report.extra = json!(summary);
        Ok(report)
    }

    fn explain(&self, spec: &Spec, done: &[StageDone]) -> Vec<String> {
        let mut lines = input::explain(spec);
        let Ok(options) = spec.options::<Options>() else { return lines };
        let bytes = options.edge_bytes();
        lines.push(match options.ids {
            Ids::Number => format!("edges: packs each edge to {bytes} bytes, in all parts at once."),
            Ids::Name => format!(
                "edges: gives names numbers as they come, so one part reads all; packs each edge to {bytes} bytes."
            ),
        });
        let memory = spec.memory_bytes / 1_000_000;
        match done.first().map(edges::Size::of) {
            None => lines.push(format!(
                "graph: one part passes over the edges; vertices are in its {memory} MB of memory, or in ranges if they do \
                 not fit."
            )),
            Some(size) => {
                let each = options.algorithm.bytes_per_vertex();
                lines.push(match edges::grid(&size, each, spec.memory_bytes) {
                    Some(grid) if grid.ranges == 1 => format!(
                        "graph: one part passes over {} edges; {} vertices of {each} bytes are in its {memory} MB of memory.",
                        size.edges, grid.vertices
                    ),
                    Some(grid) => format!(
                        "graph: one part passes over {} edges in {} blocks; {} vertices of {each} bytes do not fit in {memory} MB, \
                         so they come and go in {} ranges.",
                        size.edges,
                        grid.blocks(),
                        grid.vertices,
                        grid.ranges
                    ),
                    None => format!("graph: {memory} MB of memory are not enough even for ranges of vertices."),
                });
            }
        }
        lines
    }
}

impl Algorithm {
    fn bytes_per_vertex(self) -> u64 {
        use divvy_kernels::graph;
        match self {
            Self::Pagerank => graph::pagerank::BYTES_PER_VERTEX,
            Self::Components => graph::components::BYTES_PER_VERTEX,
            Self::Degrees => graph::degree::BYTES_PER_VERTEX,
            Self::Sssp => graph::distance::BYTES_PER_VERTEX,
        }
    }
}
