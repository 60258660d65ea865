//! Undoes what `content-encoding` says was done to a body, and stops before a bomb costs anything.
//!
//! The body is decoded piece by piece into a room that was computed from what travelled, and no further, so the costs are
//! bounded by the room whatever the body would have become. Windows of decoders are bounded as well: zstd by what RFC 9659
//! allows on the web, brotli without its large windows. What is cut is kept and flagged, not failed: the beginning of a page
//! is worth something.

use std::io::{self, BufRead as _, BufReader, Read};

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use bytes::{Buf as _, Bytes};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::Truncation;
use super::body::Wire;

/// The most that a zstd stream may look back (RFC 9659).
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// What is decoded at a time.
const PIECE_BYTES: usize = 32 * 1024;
/// What a decoder reads at a time.
const READ_BYTES: usize = 8 * 1024;

/// How a body is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The encodings in the order in which they are undone; nothing if one is not known or there are too many.
    undo: Option<Vec<Coding>>,
}

/// One encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952), in one piece or several.
    Gzip,
    /// zlib (RFC 1950), or a bare deflate stream, which many hosts send instead.
    Deflate,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// How large a body may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// This one.
    pub bytes: usize,
    /// Any. If this one has less, it is because little of it travelled.
    pub bytes_max: usize,
}

impl Plan {
    /// What the headers of a response ask for.
    pub fn of(headers: &HeaderMap, encodings_max: usize) -> Self {
        let mut undo = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            for word in value.to_str().unwrap_or("?").split(',').map(str::trim) {
                match coding(word) {
                    Ok(coding) => undo.extend(coding),
                    Err(()) => return Self { undo: None },
                }
            }
        }
        undo.reverse();
        Self { undo: (undo.len() <= encodings_max).then_some(undo) }
    }

    /// Only these encodings, the last that was applied first.
    pub fn undoing(codings: impl IntoIterator<Item = Coding>) -> Self {
        Self { undo: Some(codings.into_iter().collect()) }
    }

    /// Whether there is anything to undo.
    pub fn is_encoded(&self) -> bool {
        self.undo.as_ref().is_none_or(|undo| !undo.is_empty())
    }
}

fn coding(word: &str) -> Result<Option<Coding>, ()> {
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    Ok(Some(match () {
        () if is("gzip") || is("x-gzip") => Coding::Gzip,
        () if is("deflate") => Coding::Deflate,
        () if is("br") => Coding::Brotli,
        () if is("zstd") => Coding::Zstd,
        () if word.is_empty() || is("identity") => return Ok(None),
        () => return Err(()),
    }))
}

/// The body that travelled, decoded as far as there is room.
pub(super) fn body(wire: Wire, plan: &Plan, room: Room) -> (Bytes, Option<Truncation>) {
    let is_cut = wire.is_cut;
    let (bytes, truncated) = match &plan.undo {
        None => (Bytes::new(), Some(Truncation::Encoding)),
        Some(undo) if undo.is_empty() => joined(wire, room.bytes_max),
        // Hosts send encodings with answers that have no body.
        Some(_) if wire.bytes == 0 => (Bytes::new(), None),
        Some(undo) => unpack(undo, Pieces::new(wire.pieces), room),
    };
    match truncated {
        // What was cut while it travelled cannot end well.
        Some(Truncation::Broken) | None if is_cut => (bytes, Some(Truncation::Wire)),
        truncated => (bytes, truncated),
    }
}

/// Bytes decoded as far as there is room, such as those of `sitemap.xml.gz`.
pub fn decoded(bytes: Bytes, plan: &Plan, room: Room) -> (Bytes, Option<Truncation>) {
    let wire = Wire { bytes: bytes.len(), pieces: vec![bytes], is_cut: false };
    body(wire, plan, room)
}

fn joined(mut wire: Wire, room: usize) -> (Bytes, Option<Truncation>) {
    let mut whole = match wire.pieces.len() {
        0 => Bytes::new(),
        1 => wire.pieces.remove(0),
        _ => wire.pieces.concat().into(),
    };
    let is_large = whole.len() > room;
    whole.truncate(room);
    (whole, is_large.then_some(Truncation::Decoded))
}

fn unpack(undo: &[Coding], pieces: Pieces, room: Room) -> (Bytes, Option<Truncation>) {
    let mut reader: Box<dyn Read> = Box::new(pieces);
    for coding in undo {
        match undone(*coding, reader) {
            Ok(decoder) => reader = decoder,
            Err(_) => return (Bytes::new(), Some(Truncation::Broken)),
        }
    }
    let mut whole = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    let truncated = loop {
        match reader.read(&mut piece) {
            Ok(0) => break None,
            Ok(read) if whole.len() + read > room.bytes => {
                whole.extend_from_slice(&piece[..room.bytes - whole.len()]);
                let is_ratio = room.bytes < room.bytes_max;
                break Some(if is_ratio { Truncation::Ratio } else { Truncation::Decoded });
            }
            Ok(read) => whole.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break Some(Truncation::Broken),
        }
    };
    (whole.into(), truncated)
}

fn undone(coding: Coding, mut reader: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    Ok(match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(reader)),
        Coding::Deflate => {
            let mut head = [0; 2];
            reader.read_exact(&mut head)?;
            let whole = Read::chain(io::Cursor::new(head), reader);
            if is_zlib(head) {
                Box::new(ZlibDecoder::new(whole))
            } else {
                Box::new(DeflateDecoder::new(whole))
            }
        }
        Coding::Brotli => Box::new(brotli(reader)),
        Coding::Zstd => Box::new(Zstd::new(reader)?),
    })
}

/// Whether a stream begins as RFC 1950 says.
fn is_zlib(head: [u8; 2]) -> bool {
    head[0] & 0x0f == 8 && u16::from_be_bytes(head).is_multiple_of(31)
}

fn brotli(reader: Box<dyn Read>) -> Decompressor<Box<dyn Read>> {
    let mut decoder = Decompressor::new(reader, READ_BYTES);
    // Windows of up to a gigabyte, which the web does not know, are taken if nobody says no.
    decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    decoder
}

/// The frames of a zstd stream, one after the other.
struct Zstd {
    frame: Option<StreamingDecoder<BufReader<Box<dyn Read>>, FrameDecoder>>,
}

impl Zstd {
    fn new(reader: Box<dyn Read>) -> io::Result<Self> {
        let reader = BufReader::with_capacity(READ_BYTES, reader);
        let frame = StreamingDecoder::new_with_max_window_size(reader, ZSTD_WINDOW_BYTES_MAX);
        Ok(Self { frame: Some(frame.map_err(io::Error::other)?) })
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut frame) = self.frame.take() {
            let read = frame.read(buffer)?;
            if read > 0 {
                self.frame = Some(frame);
                return Ok(read);
            }
            let (mut reader, decoder) = frame.into_parts();
            if !reader.fill_buf()?.is_empty() {
                let next = StreamingDecoder::new_with_decoder(reader, decoder);
                self.frame = Some(next.map_err(io::Error::other)?);
            }
        }
        Ok(0)
    }
}

/// The pieces of a body, one after the other.
struct Pieces {
    rest: std::vec::IntoIter<Bytes>,
    piece: Bytes,
}

impl Pieces {
    fn new(pieces: Vec<Bytes>) -> Self {
        Self { rest: pieces.into_iter(), piece: Bytes::new() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.rest.next() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let read = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}
