//! How a sort is cut: into pieces of the input that fit in memory, and into ranges of the result.

use std::path::Path;

use divvy_kernels::order::Layout;
use serde::{Deserialize, Serialize};

use super::Options;
use super::sample::Sampled;
use crate::input::Packing;
use crate::job::{InputFile, Spec};

/// Ranges at most.
const RANGES_MAX: u32 = 4_096;
/// Bytes of a range that are aimed at.
const RANGE_BYTES: u64 = 256_000_000;
/// Bytes of a range below which it is not worth a task.
const RANGE_BYTES_MIN: u64 = 16_000_000;
/// Ranges that are made of smaller inputs, so that some workers have something to do.
const RANGES_SMALL: u64 = 4;
/// How much more there is in a packed file than it has bytes; a guess.
const PACKED_FACTOR: u64 = 4;
/// Bytes of memory beside each record of a run.
const ENTRY_BYTES: u64 = 16;
/// The least memory of a run, and what is read into it at once.
const RUN_BYTES_MIN: u64 = 4 << 20;
const BLOCK_BYTES: u64 = 1 << 20;
/// Memory that writers and readers take beside a run.
pub(super) const BUFFERS_BYTES: u64 = 4 << 20;

/// A piece of one file: the lines that begin in it, or its records. A packed file is one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// Which file.
    pub(super) file: u32,
    /// Its first byte.
    pub(super) start: u64,
    /// The byte behind its last.
    pub(super) end: u64,
}

/// Whether a file is packed, by its name.
pub(super) fn is_packed(path: &Path) -> bool {
    Packing::of(path) != Packing::None
}

/// Bytes to sort, as far as is known.
fn bytes(spec: &Spec) -> u64 {
    let bytes =
        |input: &InputFile| input.bytes * if is_packed(&input.path) { PACKED_FACTOR } else { 1 };
    spec.inputs.iter().map(bytes).sum()
}

/// Ranges of the result that are aimed at.
pub(super) fn ranges(spec: &Spec) -> u32 {
    let bytes = bytes(spec);
    let usual = bytes.div_ceil(RANGE_BYTES).max(bytes.div_ceil(RANGE_BYTES_MIN).min(RANGES_SMALL));
    let usual = u32::try_from(usual.max(1)).unwrap_or(RANGES_MAX);
    spec.partitions.unwrap_or(usual).min(RANGES_MAX)
}

/// All pieces in the order of the input; at least one.
pub(super) fn pieces(spec: &Spec, sampled: &Sampled) -> Vec<Piece> {
    let row_bytes = sampled.row_bytes.max(1);
    // A run is full when there is no room for another block.
    let memory = spec.memory_bytes.saturating_sub(BUFFERS_BYTES).max(RUN_BYTES_MIN) - BLOCK_BYTES;
    // A tenth is left, because rows elsewhere may be shorter than those that were looked at.
    let fits = memory / 10 * 9 * row_bytes / (row_bytes + ENTRY_BYTES);
    let record = match spec.options::<Options>().map(|options| options.order.layout) {
        Ok(Layout::Records { bytes, .. }) => u64::from(bytes),
        _ => 1,
    };
    let mut pieces = Vec::new();
    for (file, input) in (0..).zip(&spec.inputs) {
        if is_packed(&input.path) {
            pieces.push(Piece { file, start: 0, end: input.bytes });
            continue;
        }
        let records = input.bytes / record;
        let count = (records * record).div_ceil(fits).clamp(1, records.max(1));
        let cut = |nth: u64| {
            let share = u128::from(records) * u128::from(nth) / u128::from(count);
            u64::try_from(share).unwrap_or(records) * record
        };
        pieces.extend((0..count).map(|nth| Piece { file, start: cut(nth), end: cut(nth + 1) }));
    }
    pieces
}
