//! Changes of tasks as the server tells them (server-sent events), and waits built on them.
//!
//! A wait first subscribes, then looks, then listens: whatever happens after the look is heard. When the stream
//! ends or falls behind, it starts over. Nothing is asked again and again.

use std::time::{Duration, Instant};

use divvy_types::TaskId;
use divvy_types::view::{TaskChange, TaskDetail};

use super::error::Error;
use super::http::{Http, causes};

/// The server sends a comment every 15 seconds: a silence this long means that the connection is gone.
const SILENCE_MAX: Duration = Duration::from_secs(50);
/// How long a wait bears with a server that does not answer: longer than a restart.
const PATIENCE: Duration = Duration::from_secs(60);
/// The rest before the first new try, which doubles.
const REST_MIN: Duration = Duration::from_millis(50);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(2);
/// Bytes of one line.
const LINE_BYTES_MAX: usize = 1 << 20;

/// An open stream of changes.
pub(crate) struct Events {
    http: Http,
    response: reqwest::Response,
    parser: Parser,
}

/// What a stream says.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    /// A task changed.
    Change(Box<TaskChange>),
    /// Some changes were left out.
    Lagged,
}

impl Events {
    /// Subscribes; `filter` is a query such as `task=…`. Changes are heard from the moment this returns.
    pub(crate) async fn open(http: &Http, filter: &str) -> Result<Self, Error> {
        let response = http.events(&format!("/events?{filter}")).await?;
        Ok(Self { http: http.clone(), response, parser: Parser::default() })
    }

    /// The next change; nothing when the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) =
                self.parser.next().map_err(|problem| self.http.protocol(problem))?
            {
                return Ok(Some(event));
            }
            match tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await {
                Err(_) => return Ok(None),
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(chunk))) => {
                    self.parser.feed(&chunk).map_err(|problem| self.http.protocol(problem))?
                }
                Ok(Err(error)) => return Err(self.http.unreachable(causes(&error))),
            }
        }
    }
}

/// Cuts the text of a stream into events.
#[derive(Default)]
struct Parser {
    text: Vec<u8>,
    read: usize,
    name: String,
    data: String,
}

impl Parser {
    fn feed(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.text.drain(..self.read);
        self.read = 0;
        if self.text.len() + chunk.len() > LINE_BYTES_MAX {
            return Err(format!("a line of events with more than {LINE_BYTES_MAX} bytes"));
        }
        self.text.extend_from_slice(chunk);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Event>, String> {
        while let Some(length) = self.text[self.read..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.text[self.read..self.read + length]);
            let line = line.trim_end_matches('\r').to_owned();
            self.read += length + 1;
            if let Some(event) = self.line(&line)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn line(&mut self, line: &str) -> Result<Option<Event>, String> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return match name.as_str() {
                "lagged" => Ok(Some(Event::Lagged)),
                _ if data.is_empty() => Ok(None),
                _ => serde_json::from_str(&data)
                    .map(|change| Some(Event::Change(change)))
                    .map_err(|e| e.to_string()),
            };
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            // Comments keep the connection alive; ids and times to retry do not matter to us.
            _ => {}
        }
        Ok(None)
    }
}

/// Waits until a task is final, over restarts of the server, and returns it.
pub(crate) async fn until_final(http: &Http, id: TaskId) -> Result<TaskDetail, Error> {
    let mut patience = Patience::new();
    loop {
        match watch_once(http, id, &mut patience).await {
            Ok(Some(detail)) => return Ok(detail),
            Ok(None) => patience.rest().await,
            Err(error) => patience.bear(error).await?,
        }
    }
}

async fn watch_once(
    http: &Http,
    id: TaskId,
    patience: &mut Patience,
) -> Result<Option<TaskDetail>, Error> {
    let mut events = Events::open(http, &format!("task={id}")).await?;
    loop {
        let detail: TaskDetail = http.get(&format!("/tasks/{id}")).await?;
        patience.renew();
        if detail.summary.state.is_final() {
            return Ok(Some(detail));
        }
        loop {
            match events.next().await? {
                None => return Ok(None),
                Some(Event::Lagged) => break,
                Some(Event::Change(change)) if change.id == id && change.state.is_final() => break,
                Some(Event::Change(_)) => {}
            }
        }
    }
}

/// Bears with failures for a while, resting longer each time.
pub(crate) struct Patience {
    since: Instant,
    rest: Duration,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), rest: REST_MIN }
    }

    /// Something worked.
    pub(crate) fn renew(&mut self) {
        *self = Self::new();
    }

    /// Rests before another try.
    pub(crate) async fn rest(&mut self) {
        tokio::time::sleep(self.rest).await;
        self.rest = (self.rest * 2).min(REST_MAX);
    }

    /// Rests if a later try may help and there is patience left, else gives the error back.
    pub(crate) async fn bear(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_temporary() || self.since.elapsed() > PATIENCE {
            return Err(error);
        }
        self.rest().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::{TaskState, Timestamp};

    fn change(state: TaskState) -> TaskChange {
        TaskChange {
            id: TaskId(7),
            kind: "noop".into(),
            queue: "default".into(),
            state,
            at: Timestamp(5),
            worker: None,
            workflow: None,
            error: None,
        }
    }

    #[test]
    fn events_are_read_however_the_text_is_cut() {
        let done = serde_json::to_string(&change(TaskState::Done)).unwrap();
        let text = format!(
            ": hello\n\nid: 1\r\ndata: {done}\r\n\r\nevent: lagged\ndata: 12\n\nevent: change\ndata:{done}\n\n"
        );
        for step in [1, 2, 7, text.len()] {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(step) {
                parser.feed(chunk).unwrap();
                while let Some(event) = parser.next().unwrap() {
                    found.push(event);
                }
            }
            let change = || Event::Change(Box::new(change(TaskState::Done)));
            assert_eq!(found, [change(), Event::Lagged, change()], "cut every {step} bytes");
        }
    }

    #[test]
    fn what_is_not_an_event_is_an_error_and_not_a_loop() {
        let mut parser = Parser::default();
        parser.feed(b"data: {}\n\n").unwrap();
        assert!(parser.next().is_err());
        assert!(Parser::default().feed(&vec![b'a'; LINE_BYTES_MAX + 1]).is_err());
    }
}
