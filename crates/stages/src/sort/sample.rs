//! A look at records all over the input: where ranges are cut, and how long a record is.
//!
//! Places are spread evenly over all bytes, with some chance that depends only on the place, so another attempt chooses
//! the same ones. Of a packed file only the beginning is looked at.

use std::io::{self, Read};

use divvy_kernels::order::{Layout, Order, OrderError, Run, Sample, Splitter, choose};
use serde::{Deserialize, Serialize};

use super::plan::{self, Piece};
use super::{Options, bad_input, piece};
use crate::job::{InputFile, PartError, PartIo, Report, StageDone};

/// Places that are looked at for each range; few bytes, and ranges that differ by about a tenth.
const PLACES_PER_RANGE: u64 = 128;
/// Places at most.
const PLACES_MAX: u64 = 8_192;
/// Bytes that are read at a place at first; more where a record is longer.
const LOOK_BYTES: u64 = 8 << 10;
/// Bytes of a place at most. A longer record is not looked at.
const LOOK_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a packed file that are looked at.
const PACKED_BYTES: u64 = 8 << 20;
/// Bytes of a key that are kept: a cut need not be a key that exists.
const KEY_BYTES_MAX: usize = 256;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sampled {
    /// Where ranges are cut.
    pub(super) splitters: Vec<Splitter>,
    /// The mean bytes of a record.
    pub(super) row_bytes: u64,
}

/// What the stage has found.
pub(super) fn read(stage: &StageDone) -> Option<Sampled> {
    serde_json::from_value(stage.parts.first()?.report.extra.clone()).ok()
}

pub(super) fn run(options: &Options, io: &PartIo<'_>) -> Result<Report, PartError> {
    let ranges = plan::ranges(io.spec());
    let places = (u64::from(ranges) * PLACES_PER_RANGE).min(PLACES_MAX);
    let total = io.spec().input_bytes().max(1);
    let mut found = Found::default();
    let mut report = Report::default();
    for (file, input) in (0..).zip(&io.spec().inputs) {
        if input.bytes == 0 {
            continue;
        }
        let share = places * input.bytes / total + 1;
        if plan::is_packed(&input.path) {
            look_into_packed(options.order, file, input, share, io, &mut found)?;
        } else {
            look_around(options.order, file, input, share, io, &mut found)?;
        }
        io.check()?;
    }
    report.rows_in = found.rows;
    report.bytes_in = found.bytes;
    let splitters = choose(&options.order, found.samples, ranges as usize);
    let row_bytes = found.bytes.checked_div(found.rows).unwrap_or(1).max(1);
    let sampled = Sampled { splitters, row_bytes };
    report.extra = serde_json::to_value(&sampled)
        .map_err(|error| PartError::Broken(format!("splitters cannot be written: {error}")))?;
    Ok(report)
}

#[derive(Default)]
struct Found {
    samples: Vec<Sample>,
    rows: u64,
    bytes: u64,
}

impl Found {
    /// Counts a record with its line end, and keeps its key if it is wanted as a place to cut.
    fn add(&mut self, order: Order, file: u32, offset: u64, record: &[u8], is_wanted: bool) {
        self.rows += 1;
        self.bytes += record.len() as u64 + u64::from(order.is_lines());
        if is_wanted {
            let key = order.key(record);
            let key = key[..key.len().min(KEY_BYTES_MAX)].to_vec();
            self.samples.push(Sample { key, file, offset });
        }
    }
}

/// Takes records at places that are spread over a file.
fn look_around(
    order: Order,
    file: u32,
    input: &InputFile,
    places: u64,
    io: &PartIo<'_>,
    found: &mut Found,
) -> Result<(), PartError> {
    let mut chance = fastrand::Rng::with_seed(u64::from(file) ^ input.bytes);
    let step = input.bytes.div_ceil(places).max(1);
    let mut from = 0;
    while from < input.bytes {
        let mut start = (from + chance.u64(0..step)).min(input.bytes - 1);
        if let Layout::Records { bytes, .. } = order.layout {
            start -= start % u64::from(bytes);
        }
        let mut look = LOOK_BYTES;
        // A place in the middle of a long line is looked at further; one in the last line has nothing behind it.
        while look <= LOOK_BYTES_MAX {
            let rows = take(order, file, start, look, io, found)?;
            if rows > 0 || start + look >= input.bytes {
                break;
            }
            look *= 16;
        }
        from += step;
        io.check()?;
    }
    Ok(())
}

/// Takes the records that are whole in some bytes of a file; how many.
fn take(
    order: Order,
    file: u32,
    start: u64,
    bytes: u64,
    io: &PartIo<'_>,
    found: &mut Found,
) -> Result<u64, PartError> {
    let path = &io.spec().inputs[file as usize].path;
    let piece = Piece { file, start, end: start + bytes };
    let (mut reader, first) = piece::open(&piece, order.is_lines(), io)?;
    let mut text = Vec::new();
    let room = (start + bytes).saturating_sub(first);
    reader
        .by_ref()
        .take(room)
        .read_to_end(&mut text)
        .map_err(|error| PartError::io(path, &error))?;
    let mut rows = 0;
    let mut at = 0;
    while let Some((record, whole)) = next_record(order, &text[at..]) {
        found.add(order, file, first + at as u64, record, rows == 0);
        rows += 1;
        at += whole;
    }
    Ok(rows)
}

/// The first record, and its bytes with the line end; nothing if it is not whole.
fn next_record(order: Order, text: &[u8]) -> Option<(&[u8], usize)> {
    if let Layout::Records { bytes, .. } = order.layout {
        return Some((text.get(..bytes as usize)?, bytes as usize));
    }
    let end = memchr::memchr(b'\n', text)?;
    Some((&text[..end], end + 1))
}

/// Takes records of the beginning of a packed file.
fn look_into_packed(
    order: Order,
    file: u32,
    input: &InputFile,
    places: u64,
    io: &PartIo<'_>,
    found: &mut Found,
) -> Result<(), PartError> {
    let piece = Piece { file, start: 0, end: input.bytes };
    let (reader, _) = piece::open(&piece, order.is_lines(), io)?;
    let bytes = match order.layout {
        Layout::Records { bytes, .. } => PACKED_BYTES - PACKED_BYTES % u64::from(bytes),
        _ => PACKED_BYTES,
    };
    let mut run = Run::new(order, 2 * PACKED_BYTES as usize);
    match run.fill(&mut Quiet(reader.take(bytes))) {
        Ok(_) | Err(OrderError::Cut { .. }) => {}
        Err(error) => return Err(bad_input(io, &input.path, &order, &error)),
    }
    let every = (run.rows() as u64 / places).max(1);
    for (nth, (offset, record)) in (0u64..).zip(run.records()) {
        found.add(order, file, offset, record, nth % every == 0);
    }
    Ok(())
}

/// A reader whose damage is not met here: the part that reads the whole file will name it.
struct Quiet<R>(R);

impl<R: Read> Read for Quiet<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.read(buffer).unwrap_or(0))
    }
}
