//! One fragment: its samples as a table, read from a `moof` and written as one.

use std::ops::Range;

use super::boxes::{Reader, boxed, children, only};
use super::{Fmp4Error, bad};

/// Samples of a fragment: ten minutes of 48 frames a second, or of sound in 1,024 samples each.
const SAMPLES_MAX: usize = 32_768;
/// The flag of a sample that cannot be decoded without others.
const NOT_SYNC: u32 = 1 << 16;

/// Flags of `tfhd`.
mod tfhd {
    pub(super) const BASE_OFFSET: u32 = 0x01;
    pub(super) const DESCRIPTION: u32 = 0x02;
    pub(super) const DURATION: u32 = 0x08;
    pub(super) const SIZE: u32 = 0x10;
    pub(super) const FLAGS: u32 = 0x20;
    pub(super) const BASE_IS_MOOF: u32 = 0x02_0000;
}

/// Flags of `trun`.
mod trun {
    pub(super) const OFFSET: u32 = 0x01;
    pub(super) const FIRST_FLAGS: u32 = 0x04;
    pub(super) const DURATION: u32 = 0x100;
    pub(super) const SIZE: u32 = 0x200;
    pub(super) const FLAGS: u32 = 0x400;
    pub(super) const COMPOSITION: u32 = 0x800;
}

/// The samples of a fragment, and where their data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// When the first sample is decoded.
    pub(crate) decode_time: u64,
    /// The samples, in the order in which they are decoded.
    pub(crate) samples: Vec<Sample>,
    /// Where their data is in the file.
    pub(crate) data: Range<u64>,
    track: u32,
}

/// One frame, or one packet of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// How long it is shown.
    pub(crate) duration: u32,
    /// Its bytes.
    pub(crate) size: u32,
    /// What it depends on.
    flags: u32,
    /// How much later than decoded it is shown.
    pub(crate) composition: i32,
}

impl Sample {
    /// Whether it can be decoded without others.
    pub(crate) fn is_sync(self) -> bool {
        self.flags & NOT_SYNC == 0
    }
}

impl Table {
    /// Reads a `moof` that begins at `moof_at` of the file and whose data is at `data`.
    pub(super) fn parse(moof: &[u8], moof_at: u64, data: Range<u64>) -> Result<Self, Fmp4Error> {
        let traf = only(moof, b"traf")?;
        let defaults = Defaults::parse(only(traf, b"tfhd")?)?;
        let mut tfdt = Reader(only(traf, b"tfdt")?);
        let (version, _) = tfdt.version_and_flags()?;
        let decode_time = tfdt.by_version(version)?;
        let mut samples = Vec::new();
        for run in children(traf)?.into_iter().filter(|found| &found.kind == b"trun") {
            let starts = read_run(run.body, &defaults, &mut samples)?;
            // Runs follow each other in the data, so only the first one's place has to be right.
            let expected = data.start.checked_sub(moof_at);
            if starts.is_some_and(|offset| Some(offset) != expected)
                && run_is_first(traf, run.body)?
            {
                return Err(bad("the data of a fragment is not where its table says"));
            }
        }
        let bytes: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
        if samples.is_empty() || bytes != data.end - data.start {
            let (count, there) = (samples.len(), data.end - data.start);
            return Err(bad(format!(
                "a fragment of {count} samples needs {bytes} bytes of data, but has {there}"
            )));
        }
        Ok(Self { decode_time, samples, data, track: defaults.track })
    }

    /// The sum of all durations.
    pub(crate) fn duration(&self) -> u64 {
        self.samples.iter().map(|sample| u64::from(sample.duration)).sum()
    }

    /// When each sample is shown, in the order of decoding, as if the edit list were empty.
    pub(crate) fn presentation(&self) -> impl Iterator<Item = i64> + '_ {
        let mut decoded = i64::try_from(self.decode_time).unwrap_or(i64::MAX);
        self.samples.iter().map(move |sample| {
            let shown = decoded.saturating_add(i64::from(sample.composition));
            decoded = decoded.saturating_add(i64::from(sample.duration));
            shown
        })
    }

    /// The `moof` and the head of the `mdat` for this table.
    pub(super) fn head(&self, sequence: u32) -> Result<Vec<u8>, Fmp4Error> {
        let data = u32::try_from(self.data.end - self.data.start + 8)
            .map_err(|_| bad("a fragment has more than 4 GiB of data"))?;
        // The size of the box does not depend on the offset that is written in it.
        let size = self.moof(sequence, 0).len();
        let mut head = self.moof(sequence, u32::try_from(size + 8).unwrap_or(u32::MAX));
        head.extend(data.to_be_bytes());
        head.extend(b"mdat");
        Ok(head)
    }

    fn moof(&self, sequence: u32, data_offset: u32) -> Vec<u8> {
        let mfhd = boxed(b"mfhd", &numbers(&[0, sequence]));
        let first = self.samples[0];
        let usual = self.samples.get(1).map_or(first.flags, |sample| sample.flags);
        let flags = tfhd::BASE_IS_MOOF | tfhd::DURATION | tfhd::FLAGS;
        let tfhd = boxed(b"tfhd", &numbers(&[flags, self.track, first.duration, usual]));
        let mut tfdt = numbers(&[1 << 24]);
        tfdt.extend(self.decode_time.to_be_bytes());
        let tfdt = boxed(b"tfdt", &tfdt);
        let trun = boxed(b"trun", &self.run(first, usual, data_offset));
        let traf = boxed(b"traf", &[tfhd, tfdt, trun].concat());
        boxed(b"moof", &[mfhd, traf].concat())
    }

    /// What differs from the defaults is written for each sample.
    fn run(&self, first: Sample, usual: u32, data_offset: u32) -> Vec<u8> {
        let any = |differs: &dyn Fn(&Sample) -> bool| self.samples.iter().any(differs);
        let durations = any(&|sample| sample.duration != first.duration);
        let flags_each = self.samples[1..].iter().any(|sample| sample.flags != usual);
        let composition = any(&|sample| sample.composition != 0);
        let version = u32::from(any(&|sample| sample.composition < 0));
        let mut flags = trun::OFFSET | trun::SIZE;
        let mut add = |wanted: bool, flag: u32| flags |= if wanted { flag } else { 0 };
        add(durations, trun::DURATION);
        add(flags_each, trun::FLAGS);
        add(!flags_each && first.flags != usual, trun::FIRST_FLAGS);
        add(composition, trun::COMPOSITION);
        let count = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        let mut run = numbers(&[version << 24 | flags, count, data_offset]);
        if flags & trun::FIRST_FLAGS != 0 {
            run.extend(first.flags.to_be_bytes());
        }
        for sample in &self.samples {
            if durations {
                run.extend(sample.duration.to_be_bytes());
            }
            run.extend(sample.size.to_be_bytes());
            if flags_each {
                run.extend(sample.flags.to_be_bytes());
            }
            if composition {
                run.extend(sample.composition.to_be_bytes());
            }
        }
        run
    }
}

/// What holds for samples about which a run says nothing else.
#[derive(Clone, Copy, Debug, Default)]
struct Defaults {
    track: u32,
    duration: u32,
    size: u32,
    flags: u32,
}

impl Defaults {
    fn parse(body: &[u8]) -> Result<Self, Fmp4Error> {
        let mut body = Reader(body);
        let (_, flags) = body.version_and_flags()?;
        if flags & tfhd::BASE_OFFSET != 0 || flags & tfhd::BASE_IS_MOOF == 0 {
            return Err(bad("the data of a fragment is not placed from its own beginning"));
        }
        let mut defaults = Self { track: body.u32()?, ..Self::default() };
        if flags & tfhd::DESCRIPTION != 0 {
            body.skip(4)?;
        }
        let mut number = |flag: u32| if flags & flag != 0 { body.u32() } else { Ok(0) };
        defaults.duration = number(tfhd::DURATION)?;
        defaults.size = number(tfhd::SIZE)?;
        defaults.flags = number(tfhd::FLAGS)?;
        Ok(defaults)
    }
}

/// Adds the samples of a run; returns where its data begins, counted from the `moof`.
fn read_run(
    body: &[u8],
    defaults: &Defaults,
    samples: &mut Vec<Sample>,
) -> Result<Option<u64>, Fmp4Error> {
    let mut body = Reader(body);
    let (_, flags) = body.version_and_flags()?;
    let count = body.u32()? as usize;
    if samples.len().saturating_add(count) > SAMPLES_MAX {
        return Err(bad(format!("a fragment has more than {SAMPLES_MAX} samples")));
    }
    let starts = if flags & trun::OFFSET != 0 { Some(u64::from(body.u32()?)) } else { None };
    let mut first_flags = if flags & trun::FIRST_FLAGS != 0 { Some(body.u32()?) } else { None };
    for _ in 0..count {
        let mut number = |flag: u32, default: u32| {
            if flags & flag != 0 { body.u32() } else { Ok(default) }
        };
        let duration = number(trun::DURATION, defaults.duration)?;
        let size = number(trun::SIZE, defaults.size)?;
        let usual = number(trun::FLAGS, defaults.flags)?;
        let composition = number(trun::COMPOSITION, 0)?.cast_signed();
        let flags = first_flags.take().unwrap_or(usual);
        samples.push(Sample { duration, size, flags, composition });
    }
    Ok(starts)
}

fn run_is_first(traf: &[u8], run: &[u8]) -> Result<bool, Fmp4Error> {
    let first = children(traf)?.into_iter().find(|found| &found.kind == b"trun");
    Ok(first.is_some_and(|first| std::ptr::eq(first.body, run)))
}

fn numbers(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// The number of a `moof`.
#[cfg(test)]
pub(super) fn sequence(moof: &[u8]) -> Result<u32, Fmp4Error> {
    let mut body = Reader(only(moof, b"mfhd")?);
    body.skip(4)?;
    body.u32()
}
