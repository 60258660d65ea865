//! Whether files are in order, one after the other, and hold what they must.

use divvy_kernels::order::{Checked, Disorder, Tally, check};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::plan::Piece;
use super::runs::Stop;
use super::{Options, bad_input, piece};
use crate::job::{
    JobError, Next, Part, PartError, PartIo, PartSpec, Report, Spec, Stage, StageDone, Summary,
};

/// Memory of a check: it holds one record of each side, and what is read at once.
const MEMORY_BYTES: usize = 8 << 20;

/// What a part has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    file: String,
    checked: Checked,
}

/// One part for each file.
pub(super) fn stage(spec: &Spec) -> Next {
    let piece = |(file, bytes)| Part::new(&Piece { file, start: 0, end: bytes }, bytes);
    let parts = (0..).zip(spec.inputs.iter().map(|input| input.bytes)).map(piece).collect();
    Next::Stage(Stage { name: "check".to_owned(), parts, speculate: true })
}

pub(super) fn run(
    options: &Options,
    part: &PartSpec,
    io: &PartIo<'_>,
) -> Result<Report, PartError> {
    let piece: Piece = part.work()?;
    let path = &io.spec().inputs[piece.file as usize].path;
    let (mut reader, _) = piece::open(&piece, options.order.is_lines(), io)?;
    let mut read = 0;
    let mut step = |bytes: u64| {
        read += bytes;
        io.progress(read, piece.end).map_err(Stop::Part)
    };
    let memory = MEMORY_BYTES.max(io.memory_bytes() / 2);
    let checked = check(&options.order, &mut reader, memory, &mut step);
    let mut checked = checked.map_err(|stop| match stop {
        Stop::Part(error) => error,
        Stop::Order(error) => bad_input(io, path, &options.order, &error),
    })?;
    // What travels is small: keys are compared by their beginning only where they are very long.
    for key in [&mut checked.first, &mut checked.last].into_iter().flatten() {
        key.truncate(KEY_BYTES_MAX);
    }
    let mut report =
        Report { rows_in: checked.tally.rows, bytes_in: checked.tally.bytes, ..Report::default() };
    report.extra = json!(Found { file: path.display().to_string(), checked });
    Ok(report)
}

/// Bytes of a key that travel.
const KEY_BYTES_MAX: usize = 4_096;

/// What all files together are.
pub(super) fn judge(spec: &Spec, options: &Options, last: &StageDone) -> Result<Next, JobError> {
    let mut tally = Tally::default();
    let mut before: Option<Found> = None;
    for part in &last.parts {
        let found: Found = serde_json::from_value(part.report.extra.clone())
            .map_err(|error| JobError(format!("what a part found cannot be read: {error}")))?;
        if let Some(Disorder { row, offset, key, before }) = &found.checked.disorder {
            return Err(JobError(format!(
                "{}:{row}: is not in order: at byte {offset} `{key}` comes after `{before}`",
                found.file
            )));
        }
        if let Some(before) = &before
            && !before.checked.may_be_followed_by(&options.order, &found.checked)
        {
            return Err(JobError(format!(
                "{}:1: is not in order: its first key comes before the last one of {}",
                found.file, before.file
            )));
        }
        tally.merge(&found.checked.tally);
        if found.checked.last.is_some() {
            before = Some(found);
        }
    }
    expect(options, &tally)?;
    let lines = vec![
        format!(
            "{} files are in order: {} records, {} bytes",
            spec.inputs.len(),
            tally.rows,
            tally.bytes
        ),
        format!("checksum {:016x}", tally.checksum),
    ];
    Ok(Next::Finished(Summary { lines, data: json!({ "tally": tally }) }))
}

/// An error if the files do not hold what they must.
fn expect(options: &Options, tally: &Tally) -> Result<(), JobError> {
    let checksum = format!("{:016x}", tally.checksum);
    let wanted = &options.expected;
    let differs = |what: &str, found: &str, wanted: &str| {
        Err(JobError(format!(
            "the files are in order, but their {what} {found} instead of {wanted}; some of them are missing, double or \
             changed"
        )))
    };
    match wanted.rows {
        Some(rows) if rows != tally.rows => {
            return differs("records are", &tally.rows.to_string(), &rows.to_string());
        }
        _ => {}
    }
    match wanted.bytes {
        Some(bytes) if bytes != tally.bytes => {
            return differs("bytes are", &tally.bytes.to_string(), &bytes.to_string());
        }
        _ => {}
    }
    match &wanted.checksum {
        Some(wanted) if *wanted != checksum => differs("checksum is", &checksum, wanted),
        _ => Ok(()),
    }
}
