//! Feeds a stream with what is no file: standard input, or the changes of tasks that the server tells.
//!
//! Lines become segments in a folder that the stream empties. A segment gets its name when it is whole. While there are too
//! many of them the feed waits, and with it whoever writes into the pipe.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use divvy::api::{Api, Frames, Patience};
use divvy_workload::Context;
use divvy_workload::console::exit::Failure;
use tokio::task::JoinHandle;

use crate::stream::END;

/// Bytes of a segment, at most about.
const SEGMENT_BYTES: usize = 4 << 20;
/// Between two segments, unless one is full.
const SEGMENT_AGE: Duration = Duration::from_millis(500);
/// Segments that may wait for the stream.
const SEGMENTS_MAX: usize = 16;
/// Between two looks whether the stream has caught up.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where lines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Stdin,
    Changes,
}

/// A folder of segments.
pub(super) struct Spool {
    path: PathBuf,
    /// Whether it was made here, and is removed in the end.
    is_own: bool,
}

/// A feed that goes on beside the job.
pub(super) struct Feeding {
    task: JoinHandle<Result<()>>,
    path: PathBuf,
    is_own: bool,
}

impl Spool {
    /// A new folder, here or where it is wanted.
    pub(super) fn create(wanted: Option<&Path>) -> Result<Self> {
        let usual = || PathBuf::from(format!("divvy-stream-{}", std::process::id()));
        let path = std::path::absolute(wanted.map_or_else(usual, Path::to_owned))?;
        let context = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(&path).with_context(context)?;
        if std::fs::read_dir(&path).with_context(context)?.next().is_some() {
            let text = format!("--spool {} is not empty", path.display());
            return Err(Failure::usage(text)
                .cure("name a folder that is empty, or a new one")
                .into());
        }
        Ok(Self { path, is_own: wanted.is_none() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to feed.
    pub(super) fn feed(self, from: From, context: &Context) -> Result<Feeding> {
        let (path, is_own) = (self.path.clone(), self.is_own);
        let task = match from {
            From::Stdin => tokio::task::spawn_blocking(move || {
                let mut segments = Segments::new(self.path)?;
                pump(&mut BufReader::with_capacity(1 << 16, io::stdin().lock()), &mut segments)
            }),
            From::Changes => {
                let api = context.api()?;
                tokio::spawn(changes(api, Segments::new(self.path)?))
            }
        };
        Ok(Feeding { task, path, is_own })
    }
}

impl Feeding {
    /// Waits until all was fed. Changes of tasks have no end: they are fed until this command is ended.
    pub(super) async fn wait(self, context: &Context) -> Result<()> {
        context.output.note(format_args!("feeds {}", self.path.display()));
        self.task.await.context("the feed has ended unexpectedly")?
    }

    /// The stream has ended: nothing more is needed of its segments.
    pub(super) fn remove(self) {
        self.task.abort();
        if self.is_own {
            // A folder that stays does no harm.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The segments of a spool.
struct Segments {
    path: PathBuf,
    next: u64,
    lines: Vec<u8>,
    written: Instant,
}

impl Segments {
    fn new(path: PathBuf) -> Result<Self> {
        Ok(Self { path, next: 0, lines: Vec::new(), written: Instant::now() })
    }

    /// Takes a line with its end; says whether it is time to write a segment.
    fn push(&mut self, line: &[u8]) -> bool {
        self.lines.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            self.lines.push(b'\n');
        }
        self.lines.len() >= SEGMENT_BYTES || self.written.elapsed() >= SEGMENT_AGE
    }

    /// Writes what waits as a segment.
    fn write(&mut self) -> Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let name = format!("{:012}", self.next);
        let half = self.path.join(format!(".{name}"));
        let context = || format!("cannot write {}", half.display());
        let mut file = File::create(&half).with_context(context)?;
        file.write_all(&self.lines).with_context(context)?;
        file.sync_data().with_context(context)?;
        std::fs::rename(&half, self.path.join(&name)).with_context(context)?;
        self.next += 1;
        self.lines.clear();
        self.written = Instant::now();
        Ok(())
    }

    /// Whether the stream has enough to do.
    fn is_full(&self) -> bool {
        std::fs::read_dir(&self.path).is_ok_and(|entries| entries.count() >= SEGMENTS_MAX)
    }

    fn end(mut self) -> Result<()> {
        self.write()?;
        let path = self.path.join(END);
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}

/// Lines of a reader to segments, until it ends. After a pause a line is a segment at once; those that come soon after it
/// wait for the next ones.
fn pump(input: &mut impl BufRead, segments: &mut Segments) -> Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = input.read_until(b'\n', &mut line).context("cannot read standard input")?;
        if count == 0 {
            let rest = Segments::new(segments.path.clone())?;
            return std::mem::replace(segments, rest).end();
        }
        if segments.push(&line) {
            while segments.is_full() {
                std::thread::sleep(LOOK_EVERY);
            }
            segments.write()?;
        }
    }
}

/// Changes of tasks to segments, for ever. Changes while the server is away are not told.
async fn changes(api: Api, mut segments: Segments) -> Result<()> {
    let mut patience = Patience::endless();
    loop {
        match Frames::open(&api, &["events"], &[]).await {
            Ok(mut frames) => {
                patience.renew();
                while let Some(frame) = next_change(&mut frames, &mut segments).await? {
                    if segments.push(frame.as_bytes()) {
                        while segments.is_full() {
                            tokio::time::sleep(LOOK_EVERY).await;
                        }
                        segments.write()?;
                    }
                }
                patience.rest().await;
            }
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// The next change as a line of JSON; what waits is written while nothing comes.
async fn next_change(frames: &mut Frames, segments: &mut Segments) -> Result<Option<String>> {
    loop {
        match tokio::time::timeout(SEGMENT_AGE, frames.next()).await {
            Err(_) => segments.write()?,
            Ok(Ok(Some(frame))) if frame.name == "change" => return Ok(Some(frame.data)),
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None) | Err(_)) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_segments_that_are_whole_and_an_end() {
        let place = tempfile::tempdir().unwrap();
        let text: String = (0..200_000)
            .map(|nth| format!("{{\"at\":{nth},\"text\":\"{}\"}}\n", "x".repeat(30)))
            .collect();
        let text = text.trim_end();
        let mut segments = Segments::new(place.path().to_owned()).unwrap();
        pump(&mut text.as_bytes(), &mut segments).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert!(names.len() >= 3, "{names:?}");
        assert_eq!(names.pop().as_deref(), Some(END));
        let joined: String = names
            .iter()
            .map(|name| std::fs::read_to_string(place.path().join(name)).unwrap())
            .collect();
        assert_eq!(joined.trim_end(), text);
        assert!(names.iter().all(|name| !name.starts_with('.')));
    }
}
