//! Opens files of a job's input, packed or not, and finds lines in them again.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::Split;
use crate::job::{InputFile, PartError, PartIo};

/// Bytes that are read of a packed file at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Memory that a zstd file may ask for.
const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;
/// The beginning of every zstd frame with data.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What a file is packed with, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip: `.gz`.
    Gzip,
    /// zstd: `.zst`.
    Zstd,
}

impl Packing {
    /// What the name says.
    pub fn of(path: &Path) -> Self {
        let extension = path.extension().map(|text| text.to_ascii_lowercase());
        match extension.as_ref().and_then(|text| text.to_str()) {
            Some("gz" | "gzip") => Self::Gzip,
            Some("zst" | "zstd") => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// The bytes of a split, from one byte before it on if it is not the first of its file; see
/// [`Blocks`](divvy_kernels::text::Blocks). Looks first whether this worker may read the file and whether the file is
/// still the one that the job was started with.
///
/// # Errors
/// If one of them is not so, or the file cannot be opened.
pub fn open(io: &PartIo<'_>, input: &InputFile, split: Split) -> Result<Box<dyn Read>, PartError> {
    io.may_read(&input.path)?;
    input.expect_unchanged()?;
    let failed = |error: io::Error| PartError::io(&input.path, &error);
    let mut file = File::open(&input.path).map_err(failed)?;
    if split.from > 0 {
        file.seek(SeekFrom::Start(split.from - 1)).map_err(failed)?;
    }
    Ok(unpack(file, Packing::of(&input.path)))
}

fn unpack(file: File, packing: Packing) -> Box<dyn Read> {
    let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
    match packing {
        Packing::None => Box::new(file),
        Packing::Gzip => Box::new(MultiGzDecoder::new(buffered(file))),
        Packing::Zstd => Box::new(Frames { frame: Frame::Between(buffered(file)) }),
    }
}

/// A zstd file: frames one after the other, with data or to be passed over.
struct Frames {
    frame: Frame,
}

enum Frame {
    Between(BufReader<File>),
    Inside(Box<StreamingDecoder<Begun, ruzstd::decoding::FrameDecoder>>),
    Lost,
}

/// A file behind the beginning of a frame, and that beginning.
type Begun = io::Chain<&'static [u8], BufReader<File>>;

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.frame, Frame::Lost) {
                Frame::Between(mut file) => {
                    let mut magic = Vec::new();
                    file.by_ref().take(4).read_to_end(&mut magic)?;
                    match magic.as_slice() {
                        [] => {
                            self.frame = Frame::Between(file);
                            return Ok(0);
                        }
                        // Tables of pzstd and of seekable files are in such frames.
                        [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                            pass_over(&mut file)?;
                            self.frame = Frame::Between(file);
                            continue;
                        }
                        magic if magic == ZSTD_MAGIC => {}
                        _ => return Err(bad_data("no zstd data")),
                    }
                    let begun = Read::chain(&ZSTD_MAGIC[..], file);
                    let decoder =
                        StreamingDecoder::new_with_max_window_size(begun, ZSTD_WINDOW_BYTES_MAX);
                    let decoder = decoder.map_err(|error| bad_data(&error.to_string()))?;
                    self.frame = Frame::Inside(Box::new(decoder));
                }
                Frame::Inside(mut decoder) => {
                    let count = decoder.read(out)?;
                    if count > 0 || out.is_empty() {
                        self.frame = Frame::Inside(decoder);
                        return Ok(count);
                    }
                    self.frame = Frame::Between(decoder.into_inner().into_inner().1);
                }
                Frame::Lost => {
                    return Err(io::Error::other("the zstd data could not be read before"));
                }
            }
        }
    }
}

/// Passes over the rest of a frame that has no data: its length, and so many bytes.
fn pass_over(file: &mut BufReader<File>) -> io::Result<()> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if io::copy(&mut file.take(length), &mut io::sink())? < length {
        return Err(bad_data("the last zstd frame is cut"));
    }
    Ok(())
}

fn bad_data(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The number of the line, from 1, that holds this byte of the unpacked file; 0 if it cannot be told. Reads the file
/// from its beginning: for errors only.
pub fn line_at(path: &Path, offset: u64) -> u64 {
    let count = || -> io::Result<u64> {
        let mut reader = unpack(File::open(path)?, Packing::of(path)).take(offset);
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut lines = 1;
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(lines),
                count => lines += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64,
            }
        }
    };
    count().unwrap_or(0)
}
