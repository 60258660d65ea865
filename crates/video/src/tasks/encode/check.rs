//! What comes out of the encoder, checked frame by frame and moved to its place in the video.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::fmp4::{Codec, Fmp4Error, Movie, Table};
use crate::grid::Span;
use crate::plan::{Plan, Rung};
use crate::results::Fragment;

/// What a chunk of a rung must look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) span: Span,
    pub(super) segment_frames: u64,
    pub(super) size: (u32, u32),
    pub(super) timescale: u32,
    pub(super) ticks: u32,
    /// How many frames are decoded before the first is shown.
    pub(super) reordered: u32,
}

/// A chunk in its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) init: Vec<u8>,
    pub(super) fragments: Vec<Fragment>,
}

/// Why a chunk was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    /// Too few frames, or too many.
    #[error("{found} frames came out, expected {expected}")]
    Frames {
        /// How many there should be.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// Something else.
    #[error("the encoder's output is not as expected: {0}")]
    Shape(String),
    /// The file.
    #[error(transparent)]
    File(#[from] Fmp4Error),
}

impl Shape {
    pub(super) fn of(plan: &Plan, span: Span, rung: &Rung) -> Self {
        let rate = plan.probe.video.rate;
        Self {
            span,
            segment_frames: u64::from(plan.segment_frames.max(1)),
            size: (rung.width, rung.height),
            timescale: rate.timescale(),
            ticks: rate.frame_ticks(),
            // x264 shows a frame two frames after it was decoded, whatever the preset, unless it makes no B-frames.
            reordered: if plan.recipe.preset == "ultrafast" { 0 } else { 2 },
        }
    }
}

/// Checks the encoder's file `from` and writes its fragments to `to`.
pub(super) fn place(from: &Path, to: &Path, shape: &Shape) -> Result<Placed, CheckError> {
    let mut file = File::open(from).map_err(Fmp4Error::from)?;
    let movie = Movie::read(&mut file)?;
    let found = movie.fragments.iter().map(|table| table.samples.len() as u64).sum();
    if found != shape.span.frames() {
        return Err(CheckError::Frames { expected: shape.span.frames(), found });
    }
    check_track(&movie, shape)?;
    let hidden = u64::from(shape.reordered * shape.ticks);
    let moved = moved(&movie, shape, hidden)?;
    let sequence = u32::try_from(shape.span.from / shape.segment_frames + 1).unwrap_or(u32::MAX);
    let mut out = BufWriter::new(File::create(to).map_err(Fmp4Error::from)?);
    let places = movie.write_media(&moved, sequence, &mut file, &mut out)?;
    out.flush().map_err(Fmp4Error::from)?;
    let fragments = places.into_iter().zip(&moved).map(|((offset, length), table)| Fragment {
        offset,
        length,
        samples: table.samples.len() as u64,
    });
    Ok(Placed { init: movie.init.hiding(hidden)?.bytes, fragments: fragments.collect() })
}

fn check_track(movie: &Movie, shape: &Shape) -> Result<(), CheckError> {
    let Codec::Avc { width, height, .. } = movie.init.codec else {
        return Err(CheckError::Shape("the track is not H.264".to_owned()));
    };
    let size = (u32::from(width), u32::from(height));
    if size != shape.size || movie.init.timescale != shape.timescale {
        return Err(CheckError::Shape(format!(
            "{}x{} at {} units per second, expected {}x{} at {}",
            size.0, size.1, movie.init.timescale, shape.size.0, shape.size.1, shape.timescale
        )));
    }
    Ok(())
}

/// The tables in their place: each fragment is a whole segment that begins with a key frame and shows its frames
/// without a gap, and none of another segment.
fn moved(movie: &Movie, shape: &Shape, hidden: u64) -> Result<Vec<Table>, CheckError> {
    let late = i64::try_from(hidden).ok().zip(i64::try_from(movie.init.hidden).ok());
    let late = late.and_then(|(wanted, there)| i32::try_from(wanted - there).ok());
    let late = late.filter(|&late| late >= 0).ok_or_else(|| {
        let (reordered, ticks) = (shape.reordered, shape.ticks);
        CheckError::Shape(format!("frames are reordered by more than {reordered} of {ticks} units"))
    })?;
    let ticks = u64::from(shape.ticks);
    let mut first = shape.span.from;
    let mut tables = movie.fragments.clone();
    for table in &mut tables {
        let segment = first / shape.segment_frames;
        let problem = |problem: &str| CheckError::Shape(format!("segment {segment} {problem}"));
        let frames = shape.segment_frames.min(shape.span.to - first);
        if table.samples.len() as u64 != frames {
            let count = table.samples.len();
            return Err(problem(&format!("has {count} frames, expected {frames}")));
        }
        if !table.samples[0].is_sync() {
            return Err(problem("does not begin with a key frame"));
        }
        table.decode_time = table.decode_time.saturating_add(shape.span.from * ticks);
        for sample in &mut table.samples {
            sample.composition = sample.composition.saturating_add(late);
            if sample.duration != shape.ticks {
                return Err(problem("has a frame that is not as long as the others"));
            }
        }
        let mut shown: Vec<i64> = table.presentation().collect();
        shown.sort_unstable();
        let expected = (first..first + frames).map(|frame| i64::try_from(frame * ticks + hidden));
        if !shown.into_iter().map(Ok).eq(expected) {
            return Err(problem("does not show all of its frames at their times"));
        }
        first += frames;
    }
    Ok(tables)
}
