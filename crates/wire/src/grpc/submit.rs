//! The `Submit` service: batches in, answers when they are durable.

use std::pin::Pin;

use divvy_engine::{Error, SubmitOptions, Submitted};
use divvy_proto::v1::submit_server::Submit;
use divvy_proto::v1::{SubmitReply, SubmitRequest};
use divvy_proto::{specs_from_wire, submitted_to_wire};
use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::{SpecError, TaskSpec};
use futures_util::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::budget::Share;
use crate::edge::Edge;
use crate::grpc::status::{as_engine_error, refusal, status};

/// Batches of one stream that may wait for their commit at once.
const IN_FLIGHT_MAX: usize = 32;

/// Bytes of payload that are read at once beside other requests.
const READ_BESIDE_MAX: usize = 256 << 10;

/// The service.
pub(crate) struct Service {
    edge: Edge,
}

/// A batch that has its room, or why it has none.
type Admitted = Result<(Vec<TaskSpec>, SubmitOptions, Share), Error>;

impl Service {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl Submit for Service {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        let admitted = admit(&self.edge, request.into_inner()).await;
        let submitted = submit(&self.edge, admitted).await.map_err(|error| status(&error))?;
        Ok(Response::new(submitted_to_wire(&submitted)))
    }

    type SubmitStreamStream = Pin<Box<dyn Stream<Item = Result<SubmitReply, Status>> + Send>>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let edge = self.edge.clone();
        let batches = request.into_inner().take_until(edge.shutdown.clone().cancelled_owned());
        // Room is taken before the next batch is read; the commits of several batches are awaited together.
        let admitting = edge.clone();
        let admitted = batches.then(move |batch| {
            let edge = admitting.clone();
            async move {
                match batch {
                    Ok(batch) => Ok(admit(&edge, batch).await),
                    Err(broken) => Err(broken),
                }
            }
        });
        let replies = admitted.map(move |admitted| {
            let edge = edge.clone();
            async move {
                match submit(&edge, admitted?).await {
                    Ok(submitted) => Ok(submitted_to_wire(&submitted)),
                    Err(error) => {
                        Ok(SubmitReply { refusal: Some(refusal(&error)), ..SubmitReply::default() })
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(replies.buffered(IN_FLIGHT_MAX))))
    }
}

/// Reads a batch and waits for room for it.
async fn admit(edge: &Edge, batch: SubmitRequest) -> Admitted {
    if batch.tasks.len() > BATCH_TASKS_MAX {
        return Err(SpecError::BatchTooLarge { count: batch.tasks.len() }.into());
    }
    let payload_bytes = batch.tasks.iter().map(|task| task.payload.len()).sum();
    let share = edge.budget.take(batch.tasks.len(), payload_bytes).await?;
    let options = SubmitOptions { strict: batch.strict };
    let read = move || specs_from_wire(batch.tasks);
    // Payloads are checked to be JSON, which takes a while if there is much.
    let specs = if payload_bytes > READ_BESIDE_MAX {
        tokio::task::spawn_blocking(read).await.map_err(|_| Error::Stopping)?
    } else {
        read()
    };
    Ok((specs.map_err(|error| as_engine_error(&error))?, options, share))
}

async fn submit(edge: &Edge, admitted: Admitted) -> Result<Submitted, Error> {
    let (specs, options, share) = admitted?;
    let submitted = edge.handle.submit_with(specs, options).await;
    drop(share);
    submitted
}
