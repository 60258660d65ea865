//! The server's events, read as they come (server-sent events): those of tasks at `GET /api/v1/events`, and others.

use divvy_types::view::TaskChange;
use reqwest::Response;

use super::{Api, Query};

/// A line longer than this is not one of ours.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What an event says.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A task changed its state.
    Change(Box<TaskChange>),
    /// Some changes were lost, because this reader was too slow: look at the state again.
    Lagged,
}

/// An open stream of events about tasks.
pub(crate) struct Events(Frames);

impl Events {
    /// Subscribes to the changes that `query` asks for.
    pub(crate) async fn open(api: &Api, query: Query<'_>) -> anyhow::Result<Self> {
        Ok(Self(Frames::open(api, &["events"], query).await?))
    }

    /// The next event; nothing when the stream has ended, for whatever reason. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.0.next().await?.event() {
                return Some(event);
            }
        }
    }
}

/// One event as it came.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Its name, if it has one.
    name: String,
    /// What it says.
    pub(crate) data: String,
}

impl Frame {
    /// What it says about tasks, if it does.
    fn event(&self) -> Option<Event> {
        if self.name == "lagged" {
            return Some(Event::Lagged);
        }
        serde_json::from_str(&self.data).ok().map(Event::Change)
    }
}

/// An open stream of events of any sort.
pub(crate) struct Frames {
    response: Response,
    parser: Parser,
}

impl Frames {
    /// Opens the stream at this path.
    pub(crate) async fn open(api: &Api, path: &[&str], query: Query<'_>) -> anyhow::Result<Self> {
        Ok(Self { response: api.stream(path, query).await?, parser: Parser::default() })
    }

    /// The next event; nothing when the stream has ended, for whatever reason. May be dropped while it waits.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.parser.next() {
                return Some(frame);
            }
            let chunk = self.response.chunk().await.ok()??;
            self.parser.feed(&chunk)?;
        }
    }
}

/// Lines into events, wherever the chunks are cut.
#[derive(Default)]
struct Parser {
    buffer: Vec<u8>,
    frame: Frame,
}

impl Parser {
    fn feed(&mut self, chunk: &[u8]) -> Option<()> {
        self.buffer.extend_from_slice(chunk);
        let last_line = self.buffer.iter().rev().take_while(|byte| **byte != b'\n').count();
        (last_line <= LINE_BYTES_MAX).then_some(())
    }

    fn next(&mut self) -> Option<Frame> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(frame) = self.line(line.trim_end_matches(['\r', '\n'])) {
                return Some(frame);
            }
        }
        None
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return (!frame.data.is_empty() || !frame.name.is_empty()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.name),
            "data" => self.frame.data.push_str(value),
            // Ids, retry hints and comments (which keep the connection alive) say nothing about tasks.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_wherever_the_chunks_are_cut() {
        let text = ": hello\n\nid: 1\ndata: {\"id\":\"0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e\",\"kind\":\"noop\",\"queue\":\"default\",\"state\":\"done\",\"at\":\"2026-11-15T12:00:00Z\"}\r\n\r\nevent: lagged\ndata: 7\n\n";
        for size in [1, 7, 1_000] {
            let mut parser = Parser::default();
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                parser.feed(chunk).unwrap();
                let frames = std::iter::from_fn(|| parser.next());
                events.extend(frames.filter_map(|frame| frame.event()));
            }
            assert_eq!(events.len(), 2, "{events:?}");
            assert!(matches!(&events[0], Event::Change(change) if change.kind == "noop"));
            assert_eq!(events[1], Event::Lagged);
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        assert!(Parser::default().feed(&vec![b'x'; LINE_BYTES_MAX + 1]).is_none());
    }
}
