//! Which part of a job reads what: large files are cut into ranges, small ones are put together.
//!
//! A packed file (gzip, zstd) can only be read from its beginning, so it is one split however large it is.

use divvy_workload::console::output::words::{bytes, count};
use serde::{Deserialize, Serialize};

use super::open::Packing;
use crate::job::{Part, Spec};

/// Files of one part at most, so that what a part is told stays small.
const FILES_MAX: usize = 1_000;

/// A range of a file: the lines that start in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Which file of the job.
    pub file: u32,
    /// The first byte.
    pub from: u64,
    /// The byte after the last; of a packed file none, because its size is not known.
    pub to: u64,
}

/// What the parts of a job's first stage read, in the order of files.
pub fn plan(spec: &Spec) -> Vec<Vec<Split>> {
    let size = spec.split_bytes.max(1);
    let mut parts: Vec<Vec<Split>> = Vec::new();
    let mut room = 0;
    for (file, input) in (0_u32..).zip(&spec.inputs) {
        if Packing::of(&input.path) != Packing::None || input.bytes <= size {
            let to = if Packing::of(&input.path) == Packing::None { input.bytes } else { u64::MAX };
            let split = Split { file, from: 0, to };
            match parts.last_mut() {
                Some(part) if input.bytes <= room && part.len() < FILES_MAX => part.push(split),
                _ => {
                    parts.push(vec![split]);
                    room = size;
                }
            }
            room = room.saturating_sub(input.bytes);
            continue;
        }
        // Equal cuts: a last one of few bytes would cost a task.
        let cuts = input.bytes.div_ceil(size);
        let at =
            |cut: u64| u64::try_from(u128::from(input.bytes) * u128::from(cut) / u128::from(cuts));
        for cut in 0..cuts {
            let (from, to) = (at(cut).unwrap_or(u64::MAX), at(cut + 1).unwrap_or(u64::MAX));
            parts.push(vec![Split { file, from, to }]);
        }
        room = 0;
    }
    parts
}

/// Bytes that a part reads, as they are on disk.
pub fn bytes_of(spec: &Spec, splits: &[Split]) -> u64 {
    let bytes = |split: &Split| match spec.inputs.get(split.file as usize) {
        Some(input) => split.to.min(input.bytes).saturating_sub(split.from),
        None => 0,
    };
    splits.iter().map(bytes).sum()
}

/// A part that reads these.
pub fn part(spec: &Spec, splits: &[Split]) -> Part {
    Part::new(&splits, bytes_of(spec, splits))
}

/// How a job's input is divided, in words.
pub fn explain(spec: &Spec) -> Vec<String> {
    let parts = plan(spec);
    let packed =
        spec.inputs.iter().filter(|input| Packing::of(&input.path) != Packing::None).count();
    let mut lines = vec![format!(
        "{} in {}, read in {} of at most about {}, cut at line ends",
        bytes(spec.input_bytes()),
        count(spec.inputs.len() as u64, "file"),
        count(parts.len() as u64, "part"),
        bytes(spec.split_bytes)
    )];
    if packed > 0 {
        lines.push(format!(
            "{packed} of the files are packed (gzip, zstd) and are read by one part each, however large: nothing but their beginning is a place to start at"
        ));
    }
    lines
}
