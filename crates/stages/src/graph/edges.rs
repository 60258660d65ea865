//! Passes over the packed edges: as the first stage wrote them, or sorted into the blocks of a grid.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use divvy_kernels::graph::grid::Grid;
use divvy_workload::files::{read_json, write_json};
use serde::{Deserialize, Serialize};

use super::pack;
use crate::job::{Keep, PartError, PartIo, StageDone};

/// Bytes that are read at once: whole edges, with and without weights.
const BLOCK_BYTES: usize = 12 << 16;

/// How large a graph is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Edges.
    pub(super) edges: u64,
    /// One more than the largest number of a vertex.
    pub(super) vertices: u32,
}

impl Size {
    /// What the first stage found.
    pub(super) fn of(stage: &StageDone) -> Self {
        let mut size = Self::default();
        for part in &stage.parts {
            let found = &part.report.extra;
            size.edges += found["edges"].as_u64().unwrap_or(0);
            let last = found["last"].as_u64().and_then(|last| u32::try_from(last).ok());
            size.vertices = size.vertices.max(last.map_or(0, |last| last + 1));
        }
        size
    }
}

/// How vertices are cut, with an eighth of the memory left for buffers.
pub(super) fn grid(size: &Size, bytes_per_vertex: u64, memory_bytes: u64) -> Option<Grid> {
    Grid::new(size.vertices, bytes_per_vertex, memory_bytes / 8 * 7)
}

/// The edges of a graph.
pub(super) struct Edges {
    pub(super) grid: Grid,
    pub(super) size: Size,
    edge_bytes: usize,
    /// The blocks on disk; nothing if there is only one.
    blocks: Option<Blocks>,
    buffer: Vec<u8>,
    /// Bytes that were read, and will be, for progress.
    read: u64,
    passes: u64,
}

/// Where blocks are.
struct Blocks {
    path: PathBuf,
    places: Places,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Places {
    grid: Grid,
    /// Offset and bytes of each block.
    blocks: Vec<(u64, u64)>,
}

impl Edges {
    /// The edges of a job, in blocks if vertices do not fit in memory.
    pub(super) fn open(
        io: &mut PartIo<'_>,
        keep: &Keep,
        bytes_per_vertex: u64,
        edge_bytes: usize,
    ) -> Result<Self, PartError> {
        let size = Size::of(&*io.stage(0)?);
        let Some(grid) = grid(&size, bytes_per_vertex, io.spec().memory_bytes) else {
            return Err(PartError::Broken(format!(
                "{} vertices of {bytes_per_vertex} bytes do not fit in {} MB of memory, even in {} ranges; give more with \
                 --memory, or number the vertices without gaps",
                size.vertices,
                io.spec().memory_bytes / 1_000_000,
                divvy_kernels::graph::grid::RANGES_MAX
            )));
        };
        let buffer = vec![0; BLOCK_BYTES];
        let mut edges = Self { grid, size, edge_bytes, blocks: None, buffer, read: 0, passes: 1 };
        if grid.ranges > 1 {
            edges.blocks = Some(edges.sort_into_blocks(io, keep)?);
            edges.read = 0;
        }
        Ok(edges)
    }

    /// So many passes are left, as far as is known.
    pub(super) fn expect_passes(&mut self, passes: u64) {
        self.read = 0;
        self.passes = passes.max(1);
    }

    /// Hands the edges between two ranges to `take`, block by block, always in the same order.
    pub(super) fn each(
        &mut self,
        io: &mut PartIo<'_>,
        from: u32,
        to: u32,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), PartError> {
        let Some(Blocks { path, places }) = &self.blocks else {
            return self.each_of_all(io, |block| {
                take(block);
                Ok(())
            });
        };
        let (offset, bytes) = places.blocks[self.grid.block(from, to)];
        let path = path.clone();
        let failed = |error: io::Error| PartError::io(&path, &error);
        let mut file = File::open(&path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut file = file.take(bytes);
        loop {
            let count = fill(&mut file, &mut self.buffer).map_err(failed)?;
            if count == 0 {
                return Ok(());
            }
            take(&self.buffer[..count]);
            self.tell(io, count)?;
        }
    }

    /// Hands all edges to `take` as the first stage wrote them.
    fn each_of_all(
        &mut self,
        io: &mut PartIo<'_>,
        mut take: impl FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let parts = io.stage(0)?.parts.len() as u32;
        for part in 0..parts {
            let Some(mut reader) = io.open(0, part, pack::EDGES)? else { continue };
            loop {
                let count = fill(&mut reader, &mut self.buffer).map_err(|error| {
                    PartError::Trouble(format!("packed edges of part {part}: {error}"))
                })?;
                if count == 0 {
                    break;
                }
                take(&self.buffer[..count])?;
                self.tell(io, count)?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, io: &PartIo<'_>, count: usize) -> Result<(), PartError> {
        self.read += count as u64;
        io.progress(self.read, self.size.edges * self.edge_bytes as u64 * self.passes)
    }

    /// Writes each edge to its block: one pass to count, one to write. What an earlier attempt finished is taken.
    fn sort_into_blocks(&mut self, io: &mut PartIo<'_>, keep: &Keep) -> Result<Blocks, PartError> {
        let (path, index) = (keep.path().join("grid"), keep.path().join("grid.json"));
        let known: Option<Places> =
            read_json(&index).map_err(|error| PartError::Trouble(error.to_string()))?;
        if let Some(places) = known.filter(|places| places.grid == self.grid) {
            return Ok(Blocks { path, places });
        }
        io.message("sorts edges into blocks, because vertices do not fit in memory");
        self.passes = 2;
        let (grid, edge_bytes) = (self.grid, self.edge_bytes);
        let mut bytes = vec![0u64; grid.blocks()];
        self.each_of_all(io, |block| {
            for edge in block.chunks_exact(edge_bytes) {
                bytes[block_of(&grid, edge)] += edge_bytes as u64;
            }
            Ok(())
        })?;
        let mut offset = 0;
        let mut blocks = Vec::new();
        for bytes in bytes {
            blocks.push((offset, bytes));
            offset += bytes;
        }
        let failed = |error: io::Error| PartError::io(&path, &error);
        let file = File::create(&path).map_err(failed)?;
        let room = (io.memory_bytes() / 2 / grid.blocks()).clamp(1 << 12, 1 << 20);
        let mut staged: Vec<Vec<u8>> = vec![Vec::new(); grid.blocks()];
        let mut next: Vec<u64> = blocks.iter().map(|(offset, _)| *offset).collect();
        let mut write = |block: usize, staged: &mut Vec<u8>| {
            let written = file.write_all_at(staged, next[block]);
            next[block] += staged.len() as u64;
            staged.clear();
            written.map_err(failed)
        };
        self.each_of_all(io, |edges| {
            for edge in edges.chunks_exact(edge_bytes) {
                let block = block_of(&grid, edge);
                staged[block].extend_from_slice(edge);
                if staged[block].len() >= room {
                    write(block, &mut staged[block])?;
                }
            }
            Ok(())
        })?;
        for (block, staged) in staged.iter_mut().enumerate() {
            write(block, staged)?;
        }
        file.sync_all().map_err(failed)?;
        let places = Places { grid, blocks };
        write_json(&index, &places).map_err(|error| PartError::Trouble(error.to_string()))?;
        Ok(Blocks { path, places })
    }
}

fn block_of(grid: &Grid, edge: &[u8]) -> usize {
    let vertex =
        |at: usize| u32::from_le_bytes([edge[at], edge[at + 1], edge[at + 2], edge[at + 3]]);
    grid.block_of(vertex(0), vertex(4))
}

/// Reads until the buffer is full or the input has ended.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
