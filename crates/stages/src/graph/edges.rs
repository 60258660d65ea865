//! Passes over the packed edges: as the first stage wrote them, on one thread or on all of the part's, or sorted into the
//! blocks of a grid.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use divvy_kernels::graph::bins::{self, BINS};
use divvy_kernels::graph::grid::Grid;
use divvy_workload::files::{read_json, write_json};
use serde::{Deserialize, Serialize};

use super::threads;
use crate::job::{Keep, PartDone, PartError, PartIo, ShuffleReader, StageDone};

/// Bytes that are read at once: whole edges, with and without weights.
const BLOCK_BYTES: usize = 12 << 16;
/// The same where several threads read, each with numbers of vertices in the caches of its processor.
const BIN_BLOCK_BYTES: usize = 12 << 14;
/// Blocks that were read and are not yet told of.
const UNTOLD_MAX: usize = 64;

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
            size.edges += part.report.extra["edges"].as_u64().unwrap_or(0);
            size.vertices = size.vertices.max(last(part).map_or(0, |last| last + 1));
        }
        size
    }
}

/// The largest vertex that a part of the first stage found.
fn last(part: &PartDone) -> Option<u32> {
    part.report.extra["last"].as_u64().and_then(|last| u32::try_from(last).ok())
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
    packed: Vec<Packed>,
    /// The blocks on disk; nothing if there is only one.
    blocks: Option<Blocks>,
    buffer: Vec<u8>,
    /// Bytes that were read, and will be, for progress.
    read: u64,
    passes: u64,
}

/// What a part of the first stage wrote.
struct Packed {
    path: PathBuf,
    /// Whether there are edges in each bin.
    has: [bool; BINS],
    /// How wide its bins are.
    width_log2: u32,
}

impl Packed {
    /// What there is, part by part.
    fn all(io: &PartIo<'_>, stage: &StageDone) -> Result<Vec<Self>, PartError> {
        let shuffle = io.folder()?.shuffle(0);
        let packed = |part: &PartDone| {
            let path = shuffle.join(part.report.shuffle.as_ref()?);
            let bytes = |bin: usize| part.report.partitions.get(bin).map_or(0, |size| size.bytes);
            let has = std::array::from_fn(|bin| bytes(bin) > 0);
            Some(Self { path, has, width_log2: bins::width_log2(last(part)?) })
        };
        Ok(stage.parts.iter().filter_map(packed).collect())
    }

    /// Hands the edges of some bins to `take`, until that says that it is enough.
    fn read(
        &self,
        bins: Range<usize>,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let failed = |error: io::Error| PartError::io(&self.path, &error);
        for bin in bins.filter(|bin| self.has[*bin]) {
            let mut reader = ShuffleReader::open(&self.path, bin as u32).map_err(failed)?;
            loop {
                let count = fill(&mut reader, buffer).map_err(failed)?;
                if count == 0 {
                    break;
                }
                take(&buffer[..count])?;
            }
        }
        Ok(())
    }
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
        let stage = io.stage(0)?;
        let (size, packed) = (Size::of(&stage), Packed::all(io, &stage)?);
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
        let mut edges =
            Self { grid, size, edge_bytes, packed, blocks: None, buffer, read: 0, passes: 1 };
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
        io: &PartIo<'_>,
        mut take: impl FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let total = self.total();
        let Self { packed, buffer, read, .. } = self;
        for packed in packed {
            packed.read(0..BINS, buffer, |block| {
                take(block)?;
                *read += block.len() as u64;
                io.progress(*read, total)
            })?;
        }
        Ok(())
    }

    /// Vertices of a bin of the whole graph.
    pub(super) fn bin_vertices(&self) -> usize {
        1 << self.bin_width_log2()
    }

    fn bin_width_log2(&self) -> u32 {
        bins::width_log2(self.size.vertices.saturating_sub(1))
    }

    /// Hands all edges to `take` on so many threads, as long as there is one range: those that end in the first bin with the first of
    /// `states`, and so on. Each bin gets its edges in the order in which it always gets them, whatever the threads.
    pub(super) fn each_bin<T: Send>(
        &mut self,
        io: &PartIo<'_>,
        threads: usize,
        states: Vec<T>,
        take: impl Fn(&[u8], &mut T) + Send + Sync,
    ) -> Result<(), PartError> {
        assert!(self.blocks.is_none() && states.len() <= BINS, "a bin is of the whole graph");
        let total = self.total();
        let width_log2 = self.bin_width_log2();
        let Self { packed, read, .. } = self;
        let (tell, told) = sync_channel(UNTOLD_MAX);
        let stop = &AtomicBool::new(false);
        let work = move |(bin, mut state): (usize, T)| {
            let mut buffer = vec![0; BIN_BLOCK_BYTES];
            let mut read = || {
                for packed in &*packed {
                    let bins = bins::within(bin, width_log2, packed.width_log2);
                    packed.read(bins, &mut buffer, |block| {
                        take(block, &mut state);
                        // Whoever is told listens until all threads have ended.
                        let _ = tell.send(block.len());
                        if stop.load(Ordering::Relaxed) {
                            Err(PartError::Cancelled)
                        } else {
                            Ok(())
                        }
                    })?;
                }
                Ok(())
            };
            // What others find is of no use any more.
            read().inspect_err(|_| stop.store(true, Ordering::Relaxed))
        };
        let numbered = states.into_iter().enumerate().collect();
        std::thread::scope(|scope| {
            let works = scope.spawn(move || threads::each(threads, numbered, work));
            let mut ended = Ok(());
            for count in told {
                *read += count as u64;
                if ended.is_ok() {
                    ended = io.progress(*read, total);
                    stop.fetch_or(ended.is_err(), Ordering::Relaxed);
                }
            }
            for result in works.join().unwrap_or_else(|panic| resume_unwind(panic)) {
                ended = match ended {
                    // Who was stopped says less than who failed.
                    Ok(()) | Err(PartError::Cancelled) => result.and(ended),
                    failed => failed,
                };
            }
            ended
        })
    }

    /// Bytes of all passes that are expected.
    fn total(&self) -> u64 {
        self.size.edges * self.edge_bytes as u64 * self.passes
    }

    fn tell(&mut self, io: &PartIo<'_>, count: usize) -> Result<(), PartError> {
        self.read += count as u64;
        io.progress(self.read, self.total())
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
