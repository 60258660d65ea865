//! Submissions that are under way at the same time share batches, without a timer.
//!
//! One loop owns one `SubmitStream`. While a batch is on its way, what is submitted meanwhile waits; all of it is the
//! next batch. A lone submission thus goes at once, and a flood pays one round trip per batch.
//!
//! Ids are made by the client, so a batch whose answer was lost is sent again without harm. A batch is refused as a
//! whole; one that was put together here is then sent again in its parts, so that nobody suffers for another.

use std::time::Duration;

use divvy_client::{Channel, Patience};
use divvy_proto::v1::submit_client::SubmitClient;
use divvy_proto::v1::{SubmitReply, SubmitRequest};
use divvy_proto::{spec_to_wire, submitted_from_wire};
use divvy_types::limits::{BATCH_EDGES_MAX, BATCH_TASKS_MAX, MESSAGE_BYTES_MAX};
use divvy_types::{Submitted, TaskSpec};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Error;

/// Submissions that may wait; more wait in their callers.
const QUEUE: usize = 4_096;
/// Payload of a batch that is put together here.
const SHARED_BYTES_MAX: usize = 4 << 20;
/// How long the server may take to make a batch durable.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The way to the loop.
#[derive(Clone, Debug)]
pub(crate) struct Batcher {
    queue: mpsc::Sender<Group>,
    server: String,
}

/// How specs are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// In a batch with others.
    Shared,
    /// In a batch of their own, whose counts are exact.
    Alone,
    /// The same, and refused if one is expected to miss its deadline.
    Strict,
}

/// Specs that are accepted or refused together.
#[derive(Debug)]
struct Group {
    specs: Vec<TaskSpec>,
    manner: Manner,
    reply: oneshot::Sender<Result<Submitted, Error>>,
}

impl Batcher {
    /// Starts the loop; it ends when the last clone is gone.
    pub(crate) fn start(channel: Channel) -> Self {
        let (queue, groups) = mpsc::channel(QUEUE);
        let server = channel.server().to_owned();
        let client = SubmitClient::with_origin(channel.clone(), channel.origin());
        let client = client.max_encoding_message_size(MESSAGE_BYTES_MAX);
        let desk = Desk { client, channel, stream: None };
        tokio::spawn(desk.run(groups));
        Self { queue, server }
    }

    /// Submits specs, all or none.
    pub(crate) async fn submit(
        &self,
        specs: Vec<TaskSpec>,
        manner: Manner,
    ) -> Result<Submitted, Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::Unreachable {
            server: self.server.clone(),
            problem: "the client was shut down".into(),
        };
        self.queue.send(Group { specs, manner, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Owns the stream.
struct Desk {
    client: SubmitClient<Channel>,
    channel: Channel,
    stream: Option<Stream>,
}

struct Stream {
    requests: mpsc::Sender<SubmitRequest>,
    replies: Streaming<SubmitReply>,
}

impl Desk {
    async fn run(mut self, mut groups: mpsc::Receiver<Group>) {
        let mut left_over = None;
        loop {
            let first = match left_over.take() {
                Some(group) => group,
                None => match groups.recv().await {
                    Some(group) => group,
                    None => return,
                },
            };
            let (batch, rest) = gather(first, || groups.try_recv().ok());
            left_over = rest;
            self.settle(batch).await;
        }
    }

    async fn settle(&mut self, batch: Vec<Group>) {
        let outcome = self.deliver(&batch).await;
        if batch.len() > 1 && outcome.as_ref().is_err_and(|error| !error.is_temporary()) {
            for group in batch {
                let outcome = self.deliver(std::slice::from_ref(&group)).await;
                // The submitter may have gone.
                let _ = group.reply.send(outcome);
            }
            return;
        }
        for group in batch {
            let _ = group.reply.send(outcome.clone());
        }
    }

    /// Sends a batch until it is answered for good or patience ends.
    async fn deliver(&mut self, batch: &[Group]) -> Result<Submitted, Error> {
        let mut patience = Patience::default();
        loop {
            match self.exchange(batch).await {
                Ok(submitted) => return Ok(submitted),
                Err(error) => patience.bear(error).await?,
            }
        }
    }

    async fn exchange(&mut self, batch: &[Group]) -> Result<Submitted, Error> {
        let tasks = batch.iter().flat_map(|group| &group.specs).map(spec_to_wire).collect();
        let strict = batch.iter().any(|group| group.manner == Manner::Strict);
        let request = SubmitRequest { tasks, strict };
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.ask(request)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        match answer {
            Ok(SubmitReply { refusal: Some(refusal), .. }) => Err(Error::Refused {
                code: refusal.code,
                message: refusal.message,
                field: None,
                status: None,
                retry_after: (refusal.retry_after_ms > 0)
                    .then(|| Duration::from_millis(refusal.retry_after_ms)),
            }),
            Ok(reply) => submitted_from_wire(&reply).map_err(Error::protocol),
            Err(status) => {
                self.stream = None;
                Err(self.channel.error(&status))
            }
        }
    }

    async fn ask(&mut self, request: SubmitRequest) -> Result<SubmitReply, Status> {
        let ended = || Status::unavailable("the stream ended");
        if let Some(stream) = &mut self.stream {
            stream.requests.send(request).await.map_err(|_| ended())?;
            return stream.replies.message().await?.ok_or_else(ended);
        }
        // The first batch travels with the call: a server may want it before it answers.
        let (requests, outgoing) = mpsc::channel(1);
        requests.send(request).await.map_err(|_| ended())?;
        let outgoing = ReceiverStream::new(outgoing);
        let replies = self.client.submit_stream(outgoing).await?.into_inner();
        let stream = self.stream.insert(Stream { requests, replies });
        stream.replies.message().await?.ok_or_else(ended)
    }
}

/// Puts together what fits into one batch after `first`; what does not fit any more comes back.
fn gather(first: Group, mut next: impl FnMut() -> Option<Group>) -> (Vec<Group>, Option<Group>) {
    if first.manner != Manner::Shared {
        return (vec![first], None);
    }
    let mut sum = Size::of(&first);
    let mut batch = vec![first];
    while let Some(group) = next() {
        sum = sum.plus(Size::of(&group));
        if group.manner != Manner::Shared || !sum.is_small() {
            return (batch, Some(group));
        }
        batch.push(group);
    }
    (batch, None)
}

#[derive(Clone, Copy)]
struct Size {
    tasks: usize,
    edges: usize,
    bytes: usize,
}

impl Size {
    fn of(group: &Group) -> Self {
        Self {
            tasks: group.specs.len(),
            edges: group.specs.iter().map(|spec| spec.edges()).sum(),
            bytes: group.specs.iter().map(|spec| spec.payload.data().len()).sum(),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            tasks: self.tasks + other.tasks,
            edges: self.edges + other.edges,
            bytes: self.bytes + other.bytes,
        }
    }

    fn is_small(self) -> bool {
        self.tasks <= BATCH_TASKS_MAX
            && self.edges <= BATCH_EDGES_MAX
            && self.bytes <= SHARED_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::TaskId;

    use super::*;
    use divvy_types::Payload;

    fn group(tasks: usize, bytes: usize, alone: bool) -> Group {
        let mut spec = TaskSpec::new(TaskId(1), "noop");
        spec.payload = Payload::new("text/plain", vec![b'x'; bytes]).unwrap();
        let manner = if alone { Manner::Alone } else { Manner::Shared };
        Group { specs: vec![spec; tasks], manner, reply: oneshot::channel().0 }
    }

    /// How many groups share the first batch, and whether one was left over.
    fn gathered(groups: Vec<Group>) -> (usize, bool) {
        let mut groups = groups.into_iter();
        let first = groups.next().unwrap();
        let (batch, rest) = gather(first, || groups.next());
        (batch.len(), rest.is_some())
    }

    #[test]
    fn batches_are_shared_up_to_their_limits() {
        assert_eq!(
            gathered(vec![group(1, 1, false), group(1, 1, false), group(1, 1, false)]),
            (3, false)
        );
        assert_eq!(gathered(vec![group(1, 1, true), group(1, 1, false)]), (1, false));
        assert_eq!(gathered(vec![group(1, 1, false), group(1, 1, true)]), (1, true));
        assert_eq!(gathered(vec![group(BATCH_TASKS_MAX, 0, false), group(1, 1, false)]), (1, true));
        assert_eq!(
            gathered(vec![group(1, SHARED_BYTES_MAX, false), group(1, 1, false)]),
            (1, true)
        );
    }
}
