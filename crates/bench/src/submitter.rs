//! Submits tasks over one gRPC stream, in batches, several of them on their way at once.

use anyhow::bail;
use divvy::api::Channel;
use divvy_proto::v1;
use divvy_proto::v1::submit_client::SubmitClient;
use divvy_types::limits::MESSAGE_BYTES_MAX;
use divvy_types::{Payload, TaskId, TaskSpec};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::store_only::new_id;

/// Batches that may be on their way without an answer.
const IN_FLIGHT: usize = 16;
/// A payload of the size that queues usually carry.
const PAYLOAD: &str = concat!(
    r#"{"user":"0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e","action":"resize","source":"uploads/2026/11/15/IMG_2041.jpg","#,
    r#""width":1280,"height":720,"format":"webp","quality":82,"notify":["mail","push"]}"#
);

/// New tasks of a kind with an ordinary payload.
pub(crate) fn specs(count: u64, kind: &str) -> Vec<TaskSpec> {
    let payload = Payload::json(PAYLOAD).unwrap_or_default();
    // Ids that follow each other: making one costs as much as all the rest of a submission.
    let first = new_id().0 & !0xffff_ffff;
    (0..count)
        .map(|number| {
            let mut spec = TaskSpec::new(TaskId(first + u128::from(number)), kind);
            spec.payload = payload.clone();
            spec
        })
        .collect()
}

/// A client on a connection of its own.
pub(crate) fn connect(server: &str) -> anyhow::Result<SubmitClient<Channel>> {
    let channel = Channel::to(server)?;
    let client = SubmitClient::with_origin(channel.clone(), channel.origin());
    Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
}

/// Requests for no-op tasks, `batch` in each. Lazy; collect them first where making them must not be measured.
pub(crate) fn requests(tasks: u64, batch: u64) -> impl Iterator<Item = v1::SubmitRequest> + Send {
    (0..tasks.div_ceil(batch)).map(move |number| {
        let count = batch.min(tasks - number * batch);
        v1::SubmitRequest {
            tasks: specs(count, "noop").iter().map(divvy_proto::spec_to_wire).collect(),
            strict: false,
        }
    })
}

/// Sends all requests and returns when the last of their tasks is acknowledged; says how many were.
pub(crate) async fn submit_all<R>(
    client: &mut SubmitClient<Channel>,
    requests: R,
) -> anyhow::Result<u64>
where
    R: IntoIterator<Item = v1::SubmitRequest, IntoIter: Send + 'static>,
{
    let (send, receive) = mpsc::channel(IN_FLIGHT);
    let requests = requests.into_iter();
    let feeder = tokio::spawn(async move {
        for request in requests {
            if send.send(request).await.is_err() {
                break;
            }
        }
    });
    let mut replies = client.submit_stream(ReceiverStream::new(receive)).await?.into_inner();
    let mut done = 0;
    while let Some(reply) = replies.message().await? {
        if let Some(refusal) = reply.refusal {
            bail!("the server refused a batch: {}", refusal.message);
        }
        done += u64::from(reply.accepted);
    }
    feeder.await?;
    Ok(done)
}
