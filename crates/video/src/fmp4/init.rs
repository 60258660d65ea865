//! The beginning of a file: what kind of track it has, how its time is counted, and how much of it is hidden.

use super::boxes::{Reader, boxed, children, inside, only, optional};
use super::{Fmp4Error, bad};

/// The beginning of a file with one track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    /// Its bytes, `ftyp` and `moov`.
    pub(crate) bytes: Vec<u8>,
    /// Units per second of all times.
    pub(crate) timescale: u32,
    /// Where in the track presentation begins: what comes before is not shown.
    pub(crate) hidden: u64,
    /// What the track holds.
    pub(crate) codec: Codec,
}

/// What a track holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// H.264.
    Avc {
        /// Width in pixels.
        width: u16,
        /// Height in pixels.
        height: u16,
        /// Profile, its constraints, and level.
        profile: [u8; 3],
    },
    /// AAC.
    Aac {
        /// Which sort: 2 is low complexity.
        object: u8,
        /// Samples per second.
        sample_rate: u32,
        /// Channels.
        channels: u8,
    },
}

impl Codec {
    /// The codec as a playlist says it (RFC 6381), such as `avc1.640028` or `mp4a.40.2`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Avc { profile: [profile, constraints, level], .. } => {
                format!("avc1.{profile:02x}{constraints:02x}{level:02x}")
            }
            Self::Aac { object, .. } => format!("mp4a.40.{object}"),
        }
    }
}

impl Init {
    /// Reads the bodies of `ftyp` and `moov`.
    pub(super) fn parse(ftyp: &[u8], moov: &[u8]) -> Result<Self, Fmp4Error> {
        let trak = only(moov, b"trak")?;
        let mut mdhd = Reader(inside(trak, &[b"mdia", b"mdhd"])?);
        let (version, _) = mdhd.version_and_flags()?;
        mdhd.skip(if version == 1 { 16 } else { 8 })?;
        let timescale = mdhd.u32()?;
        if timescale == 0 {
            return Err(bad("its timescale is zero"));
        }
        let mut stsd = Reader(inside(trak, &[b"mdia", b"minf", b"stbl", b"stsd"])?);
        stsd.skip(8)?;
        let codec = match &children(stsd.0)?[..] {
            [entry] if &entry.kind == b"avc1" => avc(entry.body)?,
            [entry] if &entry.kind == b"mp4a" => aac(entry.body)?,
            _ => return Err(bad("its track is neither H.264 (avc1) nor AAC (mp4a)")),
        };
        let hidden = match optional(trak, b"edts")? {
            Some(edts) => edit(only(edts, b"elst")?)?,
            None => 0,
        };
        let bytes = [boxed(b"ftyp", ftyp), boxed(b"moov", moov)].concat();
        Ok(Self { bytes, timescale, hidden, codec })
    }

    /// The same beginning, with so much hidden, and without notes of the program that wrote it.
    pub(crate) fn hiding(&self, hidden: u64) -> Result<Self, Fmp4Error> {
        let (ftyp, moov) = (only(&self.bytes, b"ftyp")?, only(&self.bytes, b"moov")?);
        let mut parts = Vec::new();
        for part in children(moov)? {
            match &part.kind {
                b"udta" => {}
                b"trak" => parts.push(boxed(b"trak", &with_edit(part.body, hidden)?)),
                kind => parts.push(boxed(kind, part.body)),
            }
        }
        Self::parse(ftyp, &parts.concat())
    }
}

/// The body of a `trak` with one edit that begins at `hidden`, or none.
fn with_edit(trak: &[u8], hidden: u64) -> Result<Vec<u8>, Fmp4Error> {
    let mut parts = Vec::new();
    for part in children(trak)?.into_iter().filter(|part| &part.kind != b"edts") {
        parts.push(boxed(&part.kind, part.body));
        if &part.kind == b"tkhd" && hidden > 0 {
            let media_time =
                u32::try_from(hidden).map_err(|_| bad("too much of the track is hidden"))?;
            // One edit, of a length that is not known (0), at normal speed.
            let numbers = [0, 1, 0, media_time, 1 << 16];
            let elst: Vec<u8> = numbers.into_iter().flat_map(u32::to_be_bytes).collect();
            parts.push(boxed(b"edts", &boxed(b"elst", &elst)));
        }
    }
    Ok(parts.concat())
}

/// Where the one edit begins.
fn edit(body: &[u8]) -> Result<u64, Fmp4Error> {
    let mut body = Reader(body);
    let (version, _) = body.version_and_flags()?;
    match body.u32()? {
        0 => return Ok(0),
        1 => {}
        count => return Err(bad(format!("its track has {count} edits, expected one"))),
    }
    body.by_version(version)?;
    let start = body.by_version(version)?;
    let nothing = if version == 1 { u64::MAX } else { u64::from(u32::MAX) };
    if start == nothing {
        return Err(bad("its track begins with an empty edit"));
    }
    Ok(start)
}

fn avc(entry: &[u8]) -> Result<Codec, Fmp4Error> {
    let mut body = Reader(entry);
    body.skip(24)?;
    let (width, height) = (body.u16()?, body.u16()?);
    body.skip(50)?;
    let mut config = Reader(only(body.0, b"avcC")?);
    if config.u8()? != 1 {
        return Err(bad("its avcC box has an unknown version"));
    }
    Ok(Codec::Avc { width, height, profile: config.take()? })
}

fn aac(entry: &[u8]) -> Result<Codec, Fmp4Error> {
    let mut body = Reader(entry);
    body.skip(28)?;
    let mut esds = Reader(only(body.0, b"esds")?);
    esds.skip(4)?;
    let mut stream = Reader(descriptor(&mut esds, 3)?);
    stream.skip(2)?;
    if stream.u8()? != 0 {
        return Err(bad("its esds box has optional parts that are not expected"));
    }
    let mut decoder = Reader(descriptor(&mut stream, 4)?);
    if decoder.u8()? != 0x40 {
        return Err(bad("its sound is not AAC"));
    }
    decoder.skip(12)?;
    let mut config = Reader(descriptor(&mut decoder, 5)?);
    audio_config(config.u16()?)
}

/// The first two bytes of an `AudioSpecificConfig`: five bits of sort, four of rate, four of channels.
fn audio_config(bits: u16) -> Result<Codec, Fmp4Error> {
    const RATES: [u32; 13] = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025,
        8_000, 7_350,
    ];
    let rate = RATES.get(usize::from(bits >> 7 & 0xf));
    let sample_rate = *rate.ok_or_else(|| bad("its sound has an unknown sample rate"))?;
    Ok(Codec::Aac { object: (bits >> 11) as u8, sample_rate, channels: (bits >> 3 & 0xf) as u8 })
}

/// The body of an MPEG-4 descriptor, whose length is written in groups of seven bits.
fn descriptor<'a>(from: &mut Reader<'a>, tag: u8) -> Result<&'a [u8], Fmp4Error> {
    if from.u8()? != tag {
        return Err(bad("its esds box is not as expected"));
    }
    let mut length = 0;
    for _ in 0..4 {
        let byte = from.u8()?;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (body, rest) = from
        .0
        .split_at_checked(length)
        .ok_or_else(|| bad("its esds box is shorter than its contents"))?;
    from.0 = rest;
    Ok(body)
}
