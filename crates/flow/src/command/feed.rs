//! Feeds a stream with what is no file: standard input, or the changes of tasks that the server tells.
//!
//! Lines become segments in a folder that the stream empties. A segment gets its name when it is whole. While there are too
//! many of them the feed waits, and with it whoever writes into the pipe.
//!
//! A feed ends with its input. One that is dropped before, because somebody pressed Ctrl-C, ends with the last whole line that
//! was read. One that fails does not end: the stream would take what it got for everything.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy::api::{Api, Frames, Patience};
use divvy_workload::Context;
use divvy_workload::console::exit::Failure;
use divvy_workload::console::output::Output;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::stream::END;

/// Bytes of a segment, at most about.
const SEGMENT_BYTES: usize = 4 << 20;
/// How long a line waits for others, at most about.
const SEGMENT_AGE: Duration = Duration::from_millis(500);
/// Segments that may wait for the stream.
const SEGMENTS_MAX: usize = 16;
/// Bytes of a line; a stream takes no longer ones.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are read of standard input at once, and how often that before they are looked at.
const CHUNK_BYTES: usize = 1 << 16;
const CHUNKS_MAX: usize = 4;
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
    pub(super) fn feed(&self, from: From, context: &Context) -> Result<Feed> {
        let lines = match from {
            From::Stdin => Lines::Chunks(read_apart(io::stdin())),
            From::Changes => {
                let (api, patience) = (context.api()?, Patience::endless());
                Lines::Changes(Box::new(Changes { api, frames: None, patience }))
            }
        };
        Ok(Feed { lines, segments: Segments::new(&self.path), output: context.output })
    }

    /// The stream has ended: nothing more is needed of its segments.
    pub(super) fn remove(self) {
        if self.is_own {
            // A folder that stays does no harm.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// A feed that goes on.
pub(super) struct Feed {
    lines: Lines,
    segments: Segments,
    output: Output,
}

impl Feed {
    /// Feeds until the input has ended. Changes of tasks have no end.
    ///
    /// # Errors
    /// If the input cannot be read, or the disk is full.
    pub(super) async fn run(&mut self) -> Result<()> {
        let fed = self.feed().await;
        self.segments.is_over = true;
        fed
    }

    /// Nobody needs it any more.
    pub(super) fn give_up(mut self) {
        self.segments.is_over = true;
    }

    async fn feed(&mut self) -> Result<()> {
        let Self { lines, segments, .. } = self;
        loop {
            let next = match segments.whole_bytes() {
                0 => lines.next().await,
                _ => match timeout_at(segments.due(), lines.next()).await {
                    Ok(next) => next,
                    // Nothing more has come: what there is becomes a segment.
                    Err(_) => Ok(Some(Vec::new())),
                },
            };
            let Some(bytes) = next? else {
                segments.end_line();
                segments.wait_for_room().await;
                return segments.end();
            };
            segments.lines.extend_from_slice(&bytes);
            let is_full = segments.lines.len() >= SEGMENT_BYTES;
            if segments.whole_bytes() > 0 && (is_full || Instant::now() >= segments.due()) {
                segments.wait_for_room().await;
                segments.write()?;
            }
            let longest = LINE_BYTES_MAX;
            ensure!(segments.lines.len() <= longest, "a line is longer than {longest} bytes");
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.segments.is_over {
            return;
        }
        while let Lines::Chunks(chunks) = &mut self.lines
            && let Ok(Ok(bytes)) = chunks.try_recv()
        {
            self.segments.lines.extend_from_slice(&bytes);
        }
        if let Err(error) = self.segments.end() {
            self.output.note(format_args!("the end of the feed is missing: {error:#}"));
        }
    }
}

/// The segments of a spool.
struct Segments {
    path: PathBuf,
    next: u64,
    lines: Vec<u8>,
    written: Instant,
    is_over: bool,
}

impl Segments {
    fn new(path: &Path) -> Self {
        let path = path.to_owned();
        Self { path, next: 0, lines: Vec::new(), written: Instant::now(), is_over: false }
    }

    /// Bytes of whole lines that wait.
    fn whole_bytes(&self) -> usize {
        self.lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
    }

    /// When lines have waited for long enough.
    fn due(&self) -> Instant {
        self.written + SEGMENT_AGE
    }

    /// The last line of the input is whole without its end.
    fn end_line(&mut self) {
        if self.lines.last().is_some_and(|byte| *byte != b'\n') {
            self.lines.push(b'\n');
        }
    }

    /// Waits while the stream has enough to do.
    async fn wait_for_room(&self) {
        let is_full = || std::fs::read_dir(&self.path).is_ok_and(|all| all.count() >= SEGMENTS_MAX);
        while is_full() {
            sleep(LOOK_EVERY).await;
        }
    }

    /// Writes whole lines that wait as a segment.
    fn write(&mut self) -> Result<()> {
        let bytes = self.whole_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let name = format!("{:012}", self.next);
        let half = self.path.join(format!(".{name}"));
        let context = || format!("cannot write {}", half.display());
        let mut file = File::create(&half).with_context(context)?;
        file.write_all(&self.lines[..bytes]).with_context(context)?;
        file.sync_data().with_context(context)?;
        std::fs::rename(&half, self.path.join(&name)).with_context(context)?;
        self.next += 1;
        self.lines.drain(..bytes);
        self.written = Instant::now();
        Ok(())
    }

    /// Writes what waits, and that nothing follows.
    fn end(&mut self) -> Result<()> {
        self.is_over = true;
        self.write()?;
        let path = self.path.join(END);
        File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}

/// Where lines come from.
enum Lines {
    /// Bytes that a thread reads.
    Chunks(mpsc::Receiver<io::Result<Vec<u8>>>),
    /// Changes of tasks.
    Changes(Box<Changes>),
}

impl Lines {
    /// The next bytes; nothing at the end. May be dropped at any time.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Chunks(chunks) => {
                chunks.recv().await.transpose().context("cannot read standard input")
            }
            Self::Changes(changes) => changes.next().await.map(Some),
        }
    }
}

/// Reads on a thread of its own, because nothing can interrupt a read.
fn read_apart(mut input: impl Read + Send + 'static) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
    std::thread::spawn(move || {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = match input.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    chunk.truncate(count);
                    Ok(chunk)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    chunks
}

/// What the server tells. Changes while it is away are not told.
struct Changes {
    api: Api,
    frames: Option<Frames>,
    patience: Patience,
}

impl Changes {
    /// The next change as a line of JSON.
    async fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            let frames = match &mut self.frames {
                Some(frames) => frames,
                closed => match Frames::open(&self.api, &["events"], &[]).await {
                    Ok(opened) => {
                        self.patience.renew();
                        closed.insert(opened)
                    }
                    Err(error) => {
                        self.patience.bear(error).await?;
                        continue;
                    }
                },
            };
            match frames.next().await {
                Ok(Some(frame)) if frame.name == "change" => {
                    return Ok([frame.data.as_bytes(), b"\n"].concat());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    self.frames = None;
                    self.patience.rest().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use divvy_workload::console::output::Color;

    use super::*;

    /// A feed of what is sent.
    fn feed(path: &Path) -> (Feed, mpsc::Sender<io::Result<Vec<u8>>>) {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let output = Output::new(false, true, Color::Never);
        let feed = Feed { lines: Lines::Chunks(chunks), segments: Segments::new(path), output };
        (feed, sender)
    }

    /// The names in a spool, and what is in its segments.
    fn found(path: &Path) -> (Vec<String>, String) {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let segments = names.iter().filter(|name| *name != END);
        let text = segments.map(|name| std::fs::read_to_string(path.join(name)).unwrap());
        (names.clone(), text.collect())
    }

    #[tokio::test]
    async fn lines_become_segments_that_are_whole_and_an_end() {
        let place = tempfile::tempdir().unwrap();
        let text: String = (0..200_000)
            .map(|nth| format!("{{\"at\":{nth},\"text\":\"{}\"}}\n", "x".repeat(30)))
            .collect();
        let text = text.trim_end().to_owned();
        let (mut feed, _) = feed(place.path());
        feed.lines = Lines::Chunks(read_apart(io::Cursor::new(text.clone())));
        feed.run().await.unwrap();
        drop(feed);
        let (names, fed) = found(place.path());
        assert!(names.len() >= 3, "{names:?}");
        assert_eq!((names.last().map(String::as_str), fed.trim_end()), (Some(END), text.as_str()));
        assert!(names.iter().all(|name| !name.starts_with('.')));
    }

    #[tokio::test]
    async fn a_line_does_not_wait_for_the_next_one() {
        let place = tempfile::tempdir().unwrap();
        let (mut feed, sender) = feed(place.path());
        sender.send(Ok(b"one\ntwo\nhalf of".to_vec())).await.unwrap();
        let look = async {
            while found(place.path()).1 != "one\ntwo\n" {
                sleep(LOOK_EVERY).await;
            }
        };
        // The input goes on and is silent.
        tokio::select! {
            fed = feed.run() => panic!("the feed has ended: {fed:?}"),
            seen = tokio::time::timeout(Duration::from_secs(60), look) => seen.unwrap(),
        }
    }

    #[tokio::test]
    async fn a_feed_that_is_interrupted_ends_with_the_last_whole_line() {
        let place = tempfile::tempdir().unwrap();
        let (feed, sender) = feed(place.path());
        sender.send(Ok(b"one\ntw".to_vec())).await.unwrap();
        sender.send(Ok(b"o\nhalf of".to_vec())).await.unwrap();
        drop(feed);
        let (names, fed) = found(place.path());
        assert_eq!((names.last().map(String::as_str), fed.as_str()), (Some(END), "one\ntwo\n"));
    }

    #[tokio::test]
    async fn a_feed_waits_while_the_stream_has_enough_to_do() {
        let place = tempfile::tempdir().unwrap();
        for nth in 0..SEGMENTS_MAX {
            std::fs::write(place.path().join(format!("before-{nth}")), b"").unwrap();
        }
        let (mut feed, sender) = feed(place.path());
        sender.send(Ok(b"one\n".to_vec())).await.unwrap();
        drop(sender);
        let early = tokio::time::timeout(4 * LOOK_EVERY, feed.run()).await;
        assert!(early.is_err() && found(place.path()).0.len() == SEGMENTS_MAX);
        std::fs::remove_file(place.path().join("before-0")).unwrap();
        feed.run().await.unwrap();
        assert_eq!(found(place.path()).1, "one\n");
    }

    #[tokio::test]
    async fn a_feed_that_fails_says_so_and_has_no_end() {
        let place = tempfile::tempdir().unwrap();
        let spool = place.path().join("spool");
        let (mut gone, sender) = feed(&spool);
        sender.send(Ok(b"one\n".to_vec())).await.unwrap();
        drop(sender);
        let error = gone.run().await.unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
        std::fs::create_dir(&spool).unwrap();
        drop(gone);
        let (mut unread, sender) = feed(&spool);
        sender.send(Err(io::Error::other("the pipe is broken"))).await.unwrap();
        let error = unread.run().await.unwrap_err();
        assert!(format!("{error:#}").contains("the pipe is broken"), "{error:#}");
        drop(unread);
        assert_eq!(found(&spool).0, Vec::<String>::new());
    }
}
