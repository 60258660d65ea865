//! Opens files of a job's input, packed or not, and finds lines in them again.

use std::fs::File;
use std::io::{self, BufReader, Read};
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

/// The bytes of a split as [`PartIo::input`] gives them, unpacked; see [`Blocks`](divvy_kernels::text::Blocks).
///
/// # Errors
/// If the file may not be read, has changed, or cannot be opened.
pub fn open(io: &PartIo<'_>, input: &InputFile, split: Split) -> Result<Box<dyn Read>, PartError> {
    Ok(unpack(io.input(input, split)?, Packing::of(&input.path)))
}

/// The bytes of a file as they are stored.
type Stored = Box<dyn Read>;

fn unpack(file: Stored, packing: Packing) -> Box<dyn Read> {
    let buffered = |file| BufReader::with_capacity(BUFFER_BYTES, file);
    match packing {
        Packing::None => file,
        Packing::Gzip => Box::new(MultiGzDecoder::new(buffered(file))),
        Packing::Zstd => Box::new(Frames { frame: Frame::Between(buffered(file)) }),
    }
}

/// A zstd file: frames one after the other, with data or to be passed over.
struct Frames {
    frame: Frame,
}

enum Frame {
    Between(BufReader<Stored>),
    Inside(Box<StreamingDecoder<Begun, ruzstd::decoding::FrameDecoder>>),
    Lost,
}

/// A file behind the beginning of a frame, and that beginning.
type Begun = io::Chain<&'static [u8], BufReader<Stored>>;

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
fn pass_over(file: &mut BufReader<Stored>) -> io::Result<()> {
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
    count_lines(path, offset, || Ok(Box::new(File::open(path)?)))
}

/// The same of a file of the job's input, wherever that is.
pub fn line_of_input(io: &PartIo<'_>, path: &Path, offset: u64) -> u64 {
    count_lines(path, offset, || io.again(path))
}

fn count_lines(path: &Path, offset: u64, open: impl FnOnce() -> io::Result<Stored>) -> u64 {
    let count = || -> io::Result<u64> {
        let mut reader = unpack(open()?, Packing::of(path)).take(offset);
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
