//! Reading sources: whole lines from a position on, as far as they are there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use memchr::{memchr, memrchr};
use serde::{Deserialize, Serialize};

use super::options::{Options, Source};
use crate::input::{Packing, line_at};
use crate::job::{PartError, PartIo};

/// Bytes that are read of a source in one round. Few in tests, so that there are many places to stop at.
const ROUND_BYTES: usize = if cfg!(test) { 32 << 10 } else { 1 << 20 };
/// Bytes of a line at most.
const LINE_BYTES_MAX: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };
/// A folder with a file of this name gets no further segments.
pub const END: &str = "end";

/// Where a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The segment of a folder; empty before the first one.
    #[serde(default)]
    pub(super) segment: String,
    /// Bytes of the file or segment that are worked on.
    pub(super) offset: u64,
    /// Whether nothing more will come.
    #[serde(default)]
    pub(super) has_ended: bool,
}

/// One source and what was read of it.
pub(super) struct Reader {
    source: Source,
    pub(super) position: Position,
    /// The open file, and its path.
    file: Option<(File, PathBuf)>,
    buffer: Vec<u8>,
    /// Segments that are worked on and can be removed once that is kept.
    done: Vec<PathBuf>,
}

/// Lines that were read.
pub(super) struct Chunk<'a> {
    /// The file that they are in.
    pub(super) path: &'a Path,
    /// Where they begin in it.
    pub(super) offset: u64,
    /// Whole lines; only the last one of all may lack its end.
    pub(super) bytes: &'a [u8],
}

impl Reader {
    pub(super) fn new(
        source: &Source,
        position: Position,
        io: &PartIo<'_>,
    ) -> Result<Self, PartError> {
        let path = source.path();
        // A file that is still to come cannot be looked at; its folder can.
        let look_at = if path.exists() { path } else { path.parent().unwrap_or(path) };
        io.may_read(look_at)?;
        if Packing::of(path) != Packing::None {
            return Err(PartError::Broken(format!(
                "{}: a packed file is no stream; unpack it first",
                path.display()
            )));
        }
        Ok(Self {
            source: source.clone(),
            position,
            file: None,
            buffer: Vec::new(),
            done: Vec::new(),
        })
    }

    /// The next lines; nothing if there are none at the moment, or no more at all.
    pub(super) fn next(&mut self, follow: bool) -> Result<Option<Chunk<'_>>, PartError> {
        if self.position.has_ended {
            return Ok(None);
        }
        loop {
            if !self.open(follow)? {
                return Ok(None);
            }
            // A segment is whole when the next one is there, a file when nobody waits for more.
            let next = self.next_segment()?;
            let is_whole = match &self.source {
                Source::File { .. } => !follow,
                Source::Folder { path, .. } => next.is_some() || !follow || path.join(END).exists(),
            };
            let length = self.read(is_whole)?;
            if length > 0 {
                let offset = self.position.offset;
                self.position.offset += length as u64;
                let (_, path) = self.file.as_ref().expect("it was opened above");
                return Ok(Some(Chunk { path, offset, bytes: &self.buffer[..length] }));
            }
            match next {
                Some(segment) => self.go_on(segment),
                None => {
                    self.position.has_ended = is_whole;
                    return Ok(None);
                }
            }
        }
    }

    /// Bytes that are there and not read yet, as far as is known.
    pub(super) fn behind(&self) -> u64 {
        let bytes = |file: &File| file.metadata().map_or(0, |about| about.len());
        self.file.as_ref().map_or(0, |(file, _)| bytes(file).saturating_sub(self.position.offset))
    }

    /// What was read before is kept now; segments that are not needed any more are removed if that is wanted.
    pub(super) fn was_kept(&mut self) {
        for path in self.done.drain(..) {
            // Whoever wrote it may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Opens what is to be read next; says whether there is anything.
    fn open(&mut self, follow: bool) -> Result<bool, PartError> {
        if self.file.is_some() {
            return Ok(true);
        }
        let path = match &self.source {
            Source::File { path } => path.clone(),
            Source::Folder { path, .. } => {
                if self.position.segment.is_empty() {
                    match self.next_segment()? {
                        Some(segment) => self.position.segment = segment,
                        None => {
                            self.position.has_ended = !follow || path.join(END).exists();
                            return Ok(false);
                        }
                    }
                }
                path.join(&self.position.segment)
            }
        };
        match File::open(&path) {
            Ok(file) => {
                self.file = Some((file, path));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && follow => Ok(false),
            // A segment that was worked on to its end may have been removed by an attempt that died then.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && matches!(self.source, Source::Folder { remove: true, .. }) =>
            {
                match self.next_segment()? {
                    Some(segment) => {
                        self.go_on(segment);
                        self.open(follow)
                    }
                    None => Ok(false),
                }
            }
            Err(error) => Err(PartError::io(&path, &error)),
        }
    }

    fn go_on(&mut self, segment: String) {
        if let (Source::Folder { remove: true, .. }, Some((_, path))) =
            (&self.source, self.file.take())
        {
            self.done.push(path);
        }
        self.file = None;
        self.position.segment = segment;
        self.position.offset = 0;
    }

    /// The name of the segment behind the current one.
    fn next_segment(&self) -> Result<Option<String>, PartError> {
        let Source::Folder { path, .. } = &self.source else { return Ok(None) };
        let failed = |error: io::Error| PartError::io(path, &error);
        let mut next: Option<String> = None;
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let counts = name != END && !name.starts_with('.') && name > self.position.segment;
            if counts && next.as_ref().is_none_or(|next| name < *next) {
                next = Some(name);
            }
        }
        Ok(next)
    }

    /// Reads whole lines into the buffer; their bytes. The last line may lack its end if the file is whole.
    fn read(&mut self, is_whole: bool) -> Result<usize, PartError> {
        let (file, path) = self.file.as_ref().expect("it was opened before");
        let failed = |error: io::Error| PartError::io(path, &error);
        let about = file.metadata().map_err(failed)?;
        if about.len() < self.position.offset {
            return Err(PartError::Broken(format!(
                "{}: has {} bytes, but {} were read of it before; a source may only grow, so start a new stream",
                path.display(),
                about.len(),
                self.position.offset
            )));
        }
        let mut wanted = ROUND_BYTES;
        loop {
            self.buffer.resize(wanted, 0);
            let mut length = 0;
            while length < wanted {
                let at = self.position.offset + length as u64;
                match file.read_at(&mut self.buffer[length..], at) {
                    Ok(0) => break,
                    Ok(count) => length += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(failed(error)),
                }
            }
            if let Some(end) = memrchr(b'\n', &self.buffer[..length]) {
                return Ok(end + 1);
            }
            if length < wanted {
                return Ok(if is_whole { length } else { 0 });
            }
            if wanted >= LINE_BYTES_MAX {
                let offset = self.position.offset;
                let why =
                    format!("the line at byte {offset} is longer than {LINE_BYTES_MAX} bytes");
                return Err(PartError::input(path, line_at(path, offset), why));
            }
            wanted *= 8;
        }
    }

    /// The first line of the current file, without its end; nothing while it is not whole.
    pub(super) fn header(path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = File::open(path)?;
        let mut buffer = vec![0; 1 << 16];
        let count = file.read_at(&mut buffer, 0)?;
        Ok(memchr(b'\n', &buffer[..count]).map(|end| buffer[..end].trim_ascii_end().to_vec()))
    }
}

/// A reader for each source.
pub(super) fn open_all(
    options: &Options,
    positions: &[Position],
    io: &PartIo<'_>,
) -> Result<Vec<Reader>, PartError> {
    let position = |nth: usize| positions.get(nth).cloned().unwrap_or_default();
    let reader = |(nth, source)| Reader::new(source, position(nth), io);
    options.sources.iter().enumerate().map(reader).collect()
}
