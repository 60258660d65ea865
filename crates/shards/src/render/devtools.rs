//! How a browser is spoken to: the DevTools protocol over two pipes, messages of JSON that end with a zero byte.
//!
//! Pipes rather than a web socket, for two reasons: no program of this machine can find a port and steer the browser, and
//! a browser whose pipe closes ends by itself, so that none outlives its crawler, however that dies.
//!
//! One question at a time. What happens meanwhile is kept for [`Pipe::event`], up to a limit.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use super::RenderError;

/// Bytes of one message; the text of a page is at most half of it.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Events that wait to be looked at. A page that makes more is stopped by its browser's end.
const EVENTS_MAX: usize = 10_000;

/// The two pipes to a browser.
#[derive(Debug)]
pub(super) struct Pipe {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    events: VecDeque<Event>,
    /// The message that is being read. It outlives a read that is given up half-way.
    message: Vec<u8>,
}

/// Something that happened.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) method: String,
    pub(super) session: Option<String>,
    pub(super) parameters: Value,
}

impl Pipe {
    pub(super) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        Self {
            to,
            from: BufReader::new(from),
            last: 0,
            events: VecDeque::new(),
            message: Vec::new(),
        }
    }

    /// Asks the browser, or the page of a session, and waits for the answer.
    pub(super) async fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<Value, RenderError> {
        let id = self.send(session, method, parameters).await?;
        loop {
            let mut message = self.receive().await?;
            if message["id"] != id {
                self.keep(message)?;
                continue;
            }
            if let Some(error) = message.get("error") {
                return Err(RenderError::Browser(format!("{method}: {error}")));
            }
            return Ok(message["result"].take());
        }
    }

    /// Asks without waiting for the answer, which is then passed over.
    pub(super) async fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<u64, RenderError> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).await.map_err(gone)?;
        Ok(self.last)
    }

    /// The next thing that happened.
    pub(super) async fn event(&mut self) -> Result<Event, RenderError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let message = self.receive().await?;
            self.keep(message)?;
        }
    }

    /// Forgets what happened and was not looked at.
    pub(super) fn forget_events(&mut self) {
        self.events.clear();
    }

    fn keep(&mut self, mut message: Value) -> Result<(), RenderError> {
        let Some(method) = message["method"].as_str().map(str::to_owned) else { return Ok(()) };
        if self.events.len() == EVENTS_MAX {
            return Err(RenderError::Browser("the page makes too many events".to_owned()));
        }
        let session = message["sessionId"].as_str().map(str::to_owned);
        self.events.push_back(Event { method, session, parameters: message["params"].take() });
        Ok(())
    }

    async fn receive(&mut self) -> Result<Value, RenderError> {
        let room = MESSAGE_BYTES_MAX.saturating_sub(self.message.len() as u64);
        (&mut self.from).take(room).read_until(0, &mut self.message).await.map_err(gone)?;
        let message = std::mem::take(&mut self.message);
        let Some(text) = message.strip_suffix(&[0]) else {
            let why = if message.len() as u64 >= MESSAGE_BYTES_MAX {
                "a message is too long"
            } else {
                "it ended"
            };
            return Err(RenderError::Browser(why.to_owned()));
        };
        serde_json::from_slice(text).map_err(|error| RenderError::Browser(error.to_string()))
    }
}

fn gone(error: std::io::Error) -> RenderError {
    RenderError::Browser(format!("it ended: {error}"))
}
