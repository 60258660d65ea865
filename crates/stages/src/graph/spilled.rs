//! Packed edges of a part that do not fit in its memory: in one file of the scratch folder, as often as memory was full,
//! range by range.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use divvy_kernels::graph::bins::{BINS, Bins, within};

use crate::job::{PartError, PartIo};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// Edges in a file.
pub(super) struct Spilled {
    path: PathBuf,
    file: File,
    pieces: Vec<Piece>,
    bytes: u64,
}

/// The edges of a range that were in memory at one time.
struct Piece {
    bin: usize,
    /// How wide ranges were then.
    width_log2: u32,
    offset: u64,
    bytes: usize,
}

impl Spilled {
    /// A new file, which is removed with the attempt.
    pub(super) fn create(io: &PartIo<'_>) -> Result<Self, PartError> {
        let path = io.scratch()?.join("edges");
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| PartError::io(&path, &error))?;
        Ok(Self { path, file, pieces: Vec::new(), bytes: 0 })
    }

    /// Takes what is in memory.
    pub(super) fn add(&mut self, bins: &mut Bins) -> Result<(), PartError> {
        for bin in 0..BINS {
            let edges = bins.bin(bin);
            let (offset, bytes, width_log2) = (self.bytes, edges.len(), bins.width_log2());
            let written = self.file.write_all_at(edges, offset);
            written.map_err(|error| PartError::io(&self.path, &error))?;
            self.bytes += bytes as u64;
            self.pieces.push(Piece { bin, width_log2, offset, bytes });
        }
        bins.clear();
        Ok(())
    }

    /// Hands the edges of a range to `take` as they came, ranges being as wide as they are by now.
    pub(super) fn each(
        &self,
        bin: usize,
        width_log2: u32,
        take: &mut impl FnMut(&[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let wanted =
            |piece: &&Piece| within(bin, width_log2, piece.width_log2).contains(&piece.bin);
        for piece in self.pieces.iter().filter(wanted) {
            let mut done = 0;
            while done < piece.bytes {
                let count = (piece.bytes - done).min(buffer.len());
                let read =
                    self.file.read_exact_at(&mut buffer[..count], piece.offset + done as u64);
                read.map_err(|error| PartError::io(&self.path, &error))?;
                take(&buffer[..count])?;
                done += count;
            }
        }
        Ok(())
    }
}
