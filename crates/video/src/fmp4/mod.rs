//! Fragmented MP4 files: read into tables, checked, and written again with times of our choice.
//!
//! ffmpeg encodes each chunk as if it were alone. What makes the chunks one video is done here: the beginning of the
//! file (`ftyp` and `moov`) is split off and brought into one form, and each fragment (`moof` and `mdat`) is written
//! with its place in the whole. Media data is copied, never held.
//!
//! Knows nothing of frames, rungs or playlists. All that it reads may be damaged: every number is checked before it is
//! used, every loop has a limit, and nothing panics.

mod boxes;
mod fragment;
mod init;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Seek, SeekFrom, Write};

pub(crate) use fragment::Table;
pub(crate) use init::{Codec, Init};

use boxes::Header;

/// What `moov` may take: it has no samples.
const MOOV_BYTES_MAX: u64 = 1 << 20;
/// What one `moof` may take: half a million samples.
const MOOF_BYTES_MAX: u64 = 8 << 20;
/// Fragments of a file: more than twelve hours of one second each.
const FRAGMENTS_MAX: usize = 65_536;

/// Why a file was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fmp4Error {
    /// It is not what it should be.
    #[error("not a fragmented MP4 file as expected: {0}")]
    Bad(String),
    /// It could not be read or written.
    #[error("cannot read or write a fragmented MP4 file: {0}")]
    Io(#[from] io::Error),
}

fn bad(problem: impl Into<String>) -> Fmp4Error {
    Fmp4Error::Bad(problem.into())
}

/// A fragmented MP4 file with one track.
#[derive(Clone, Debug)]
pub(crate) struct Movie {
    /// Its beginning.
    pub(crate) init: Init,
    /// Its fragments, in order.
    pub(crate) fragments: Vec<Table>,
}

impl Movie {
    /// Reads the tables of a file.
    pub(crate) fn read(file: &mut (impl Read + Seek)) -> Result<Self, Fmp4Error> {
        let end = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let (mut at, mut file_type, mut init, mut fragments) = (0, Vec::new(), None, Vec::new());
        let mut waiting: Option<(u64, Vec<u8>)> = None;
        while at < end {
            let header = Header::read(file, end - at)?;
            match (&header.kind, waiting.take()) {
                (b"mdat", Some((moof_at, moof))) => {
                    let data = at + header.length..at + header.size;
                    fragments.push(Table::parse(&moof, moof_at, data)?);
                    if fragments.len() > FRAGMENTS_MAX {
                        return Err(bad(format!("it has more than {FRAGMENTS_MAX} fragments")));
                    }
                }
                (_, Some(_)) => return Err(bad("a fragment has no data")),
                (b"mdat", None) => return Err(bad("there is data without a fragment")),
                (b"ftyp", None) => file_type = header.body(file, MOOV_BYTES_MAX)?,
                (b"moov", None) if init.is_none() => {
                    init = Some(Init::parse(&file_type, &header.body(file, MOOV_BYTES_MAX)?)?);
                }
                (b"moov", None) => return Err(bad("it has two beginnings")),
                (b"moof", None) => waiting = Some((at, header.body(file, MOOF_BYTES_MAX)?)),
                (_, None) => {}
            }
            at += header.size;
            file.seek(SeekFrom::Start(at))?;
        }
        if waiting.is_some() {
            return Err(bad("the last fragment has no data"));
        }
        let init = init.ok_or_else(|| bad("it has no beginning (moov)"))?;
        Ok(Self { init, fragments })
    }

    /// Writes the fragments with the tables `moved`, one for each of them, numbered from `sequence`, with their data
    /// from `file`. Returns where each is in what was written.
    pub(crate) fn write_media(
        &self,
        moved: &[Table],
        sequence: u32,
        file: &mut (impl Read + Seek),
        to: &mut impl Write,
    ) -> Result<Vec<(u64, u64)>, Fmp4Error> {
        let mut places = Vec::with_capacity(moved.len());
        let mut offset = 0;
        for (number, table) in (sequence..).zip(moved) {
            let bytes = table.data.end - table.data.start;
            let head = table.head(number)?;
            to.write_all(&head)?;
            file.seek(SeekFrom::Start(table.data.start))?;
            if io::copy(&mut file.take(bytes), to)? != bytes {
                return Err(bad("it ended before its data"));
            }
            let length = head.len() as u64 + bytes;
            places.push((offset, length));
            offset += length;
        }
        Ok(places)
    }
}
