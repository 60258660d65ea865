//! Server-sent events, read as they come, wherever the network cuts them. What they say is for the caller to know.

use std::time::Duration;

use reqwest::Response;

use crate::{Api, Error, Query};

/// A server sends a comment every 15 seconds: a silence this long means that the connection is gone.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// A line longer than this is not one of ours.
const LINE_BYTES_MAX: usize = 1 << 20;

/// An open stream of events.
pub struct Frames {
    api: Api,
    response: Response,
    parser: Parser,
}

/// One event as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Its name; empty if it has none.
    pub name: String,
    /// What it says.
    pub data: String,
}

impl Frames {
    /// Opens the stream at this path; what happens is heard from the moment this returns.
    pub async fn open(api: &Api, path: &[&str], query: Query<'_>) -> Result<Self, Error> {
        let response = api.stream(path, query).await?;
        Ok(Self { api: api.clone(), response, parser: Parser::default() })
    }

    /// The next event; nothing when the stream has ended or fell silent. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(frame) = self.parser.next() {
                return Ok(Some(frame));
            }
            match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
                Err(_) | Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(chunk))) => self.parser.feed(&chunk)?,
                Ok(Err(error)) => return Err(self.api.lost(&error)),
            }
        }
    }
}

/// Cuts the text of a stream into events.
#[derive(Default)]
struct Parser {
    text: Vec<u8>,
    read: usize,
    frame: Frame,
}

impl Parser {
    fn feed(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.text.drain(..self.read);
        self.read = 0;
        if self.text.len() + chunk.len() > LINE_BYTES_MAX {
            let problem = format!("a line of events with more than {LINE_BYTES_MAX} bytes");
            return Err(Error::protocol(problem));
        }
        self.text.extend_from_slice(chunk);
        Ok(())
    }

    fn next(&mut self) -> Option<Frame> {
        while let Some(length) = self.text[self.read..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.text[self.read..self.read + length]);
            let line = line.trim_end_matches('\r').to_owned();
            self.read += length + 1;
            if let Some(frame) = self.line(&line) {
                return Some(frame);
            }
        }
        None
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return (frame != Frame::default()).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.name),
            "data" => {
                if !self.frame.data.is_empty() {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // Comments keep the connection alive; ids and times to retry do not matter to us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_the_text_is_cut() {
        let text = ": hello\n\nid: 1\r\ndata: {\"a\":1}\r\n\r\nevent: lagged\ndata: 12\n\ndata:x\ndata: y\n\n";
        for step in [1, 2, 7, text.len()] {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(step) {
                parser.feed(chunk).unwrap();
                found.extend(std::iter::from_fn(|| parser.next()));
            }
            let frame = |name: &str, data: &str| Frame { name: name.into(), data: data.into() };
            let expected = [frame("", "{\"a\":1}"), frame("lagged", "12"), frame("", "x\ny")];
            assert_eq!(found, expected, "cut every {step} bytes");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        assert!(Parser::default().feed(&vec![b'a'; LINE_BYTES_MAX + 1]).is_err());
    }
}
