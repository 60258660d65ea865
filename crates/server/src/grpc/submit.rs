//! The `Submit` service: batches in, answers when they are durable.

use std::pin::Pin;

use bytes::Bytes;
use divvy_engine::{Error, SubmitOptions, Submitted};
use divvy_proto::spec_from_wire;
use divvy_proto::v1::submit_server::Submit;
use divvy_proto::v1::{Conflict, Late, SubmitReply, SubmitRequest};
use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::{SpecError, TaskId, TaskSpec};
use futures_util::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::app::App;
use crate::budget::Share;
use crate::grpc::status::{as_engine_error, refusal, status};

/// Batches of one stream that may wait for their commit at once.
const IN_FLIGHT_MAX: usize = 32;

/// The service.
pub(crate) struct Service {
    app: App,
}

/// A batch that has its room, or why it has none.
type Admitted = Result<(Vec<TaskSpec>, SubmitOptions, Share), Error>;

impl Service {
    pub(crate) fn new(app: App) -> Self {
        Self { app }
    }
}

#[tonic::async_trait]
impl Submit for Service {
    async fn submit(
        &self,
        request: Request<SubmitRequest>,
    ) -> Result<Response<SubmitReply>, Status> {
        let admitted = admit(&self.app, request.into_inner()).await;
        let submitted = submit(&self.app, admitted).await.map_err(|error| status(&error))?;
        Ok(Response::new(reply(submitted)))
    }

    type SubmitStreamStream = Pin<Box<dyn Stream<Item = Result<SubmitReply, Status>> + Send>>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let app = self.app.clone();
        let batches = request.into_inner().take_until(app.shutdown.clone().cancelled_owned());
        // Room is taken before the next batch is read; the commits of several batches are awaited together.
        let admitting = app.clone();
        let admitted = batches.then(move |batch| {
            let app = admitting.clone();
            async move {
                match batch {
                    Ok(batch) => Ok(admit(&app, batch).await),
                    Err(broken) => Err(broken),
                }
            }
        });
        let replies = admitted.map(move |admitted| {
            let app = app.clone();
            async move {
                match submit(&app, admitted?).await {
                    Ok(submitted) => Ok(reply(submitted)),
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
async fn admit(app: &App, batch: SubmitRequest) -> Admitted {
    if batch.tasks.len() > BATCH_TASKS_MAX {
        return Err(SpecError::BatchTooLarge { count: batch.tasks.len() }.into());
    }
    let payload_bytes = batch.tasks.iter().map(|task| task.payload.len()).sum();
    let share = app.budget.take(batch.tasks.len(), payload_bytes).await?;
    let specs = batch.tasks.into_iter().map(spec_from_wire).collect::<Result<_, _>>();
    let options = SubmitOptions { strict: batch.strict };
    Ok((specs.map_err(|error| as_engine_error(&error))?, options, share))
}

async fn submit(app: &App, admitted: Admitted) -> Result<Submitted, Error> {
    let (specs, options, share) = admitted?;
    let submitted = app.handle.submit_with(specs, options).await;
    drop(share);
    submitted
}

fn reply(submitted: Submitted) -> SubmitReply {
    let bytes = |id: TaskId| Bytes::copy_from_slice(&id.to_bytes());
    let conflicts = submitted.conflicts.into_iter();
    let conflicts =
        conflicts.map(|(task, first)| Conflict { task: bytes(task), first: bytes(first) });
    let late = submitted.late.iter().map(|late| Late {
        task: bytes(late.task),
        deadline_us: late.deadline.0,
        expected_end_us: late.expected_end.0,
    });
    SubmitReply {
        accepted: submitted.accepted,
        known: submitted.known,
        refusal: None,
        conflicts: conflicts.collect(),
        late: late.collect(),
        late_total: submitted.late_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_names_the_tasks_that_were_skipped() {
        let conflicts = vec![(TaskId(7), TaskId(1))];
        let reply = reply(Submitted { accepted: 2, known: 1, conflicts, ..Submitted::default() });
        assert_eq!((reply.accepted, reply.known, reply.conflicts.len()), (2, 1, 1));
        assert_eq!(TaskId::from_slice(&reply.conflicts[0].task), Some(TaskId(7)));
        assert_eq!(TaskId::from_slice(&reply.conflicts[0].first), Some(TaskId(1)));
    }
}
