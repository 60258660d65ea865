//! Messages of the worker stream, from the wire and to it, whole batches at a time.

use divvy_engine::{GrantedTask, ProgressUpdate, ToWorker, WorkerReport};
use divvy_proto::v1::to_worker::Message;
use divvy_proto::{
    Pages, WireError, checkpoint_from_wire, outcome_from_wire, saved_to_wire, spec_to_wire_as,
    task_id, upstream_to_wire, v1,
};
use divvy_types::cut::tail;
use divvy_types::limits::LOG_BYTES_MAX;
use divvy_types::view::Progress;
use divvy_types::{Name, Payload, TaskId, Token};

/// Bytes of one message to a worker, as far as tasks can be split over several.
const GRANTS_BYTES_MAX: usize = 3 << 20;
/// What a grant takes besides its payload and its dependencies' results; an estimate from above.
const GRANT_BYTES: usize = 1 << 10;
/// Bytes of the text that says what a task does at the moment.
const PROGRESS_TEXT_BYTES_MAX: usize = 1 << 10;

/// Reads reports.
pub(crate) fn reports(wire: v1::Reports) -> Result<Vec<WorkerReport>, WireError> {
    let mut reports = Vec::with_capacity(wire.reports.len());
    for wire in wire.reports {
        reports.push(report(wire)?);
    }
    Ok(reports)
}

fn report(wire: v1::Report) -> Result<WorkerReport, WireError> {
    Ok(WorkerReport {
        task: task_id("report.task", &wire.task)?,
        token: Token(wire.token),
        outcome: outcome_from_wire(wire.end)?,
        log: if wire.log.is_empty() {
            None
        } else {
            Some(Name::from(tail(&wire.log, LOG_BYTES_MAX)))
        },
    })
}

/// Reads the news of a heartbeat.
pub(crate) fn progress(wire: v1::Heartbeat) -> Result<Vec<ProgressUpdate>, WireError> {
    let update = |wire: v1::Progress| {
        Ok(ProgressUpdate {
            task: task_id("progress.task", &wire.task)?,
            token: Token(wire.token),
            progress: Progress {
                done: wire.done,
                total: wire.total,
                message: Name::from(tail(&wire.message, PROGRESS_TEXT_BYTES_MAX)),
            },
            log: if wire.log.len() > LOG_BYTES_MAX {
                tail(&wire.log, LOG_BYTES_MAX).to_owned()
            } else {
                wire.log
            },
        })
    };
    wire.progress.into_iter().map(update).collect()
}

/// Reads data that attempts saved.
pub(crate) fn checkpoints(
    wire: v1::Checkpoints,
) -> Result<Vec<(TaskId, Token, Payload)>, WireError> {
    wire.checkpoints.into_iter().map(checkpoint_from_wire).collect()
}

/// Writes a message of the engine as one or several of the wire.
pub(crate) fn to_wire(message: ToWorker, put: &mut impl Extend<v1::ToWorker>) {
    let mut ids = Pages::default();
    let message = match message {
        ToWorker::Grants(grants) => return put.extend(split(&grants, ids)),
        ToWorker::Answers(answers) => Message::Answers(v1::Answers {
            answers: answers
                .into_iter()
                .map(|(task, token, recorded)| v1::Answer {
                    task: ids.id(task),
                    token: token.0,
                    recorded,
                })
                .collect(),
        }),
        ToWorker::Stops(stops) => Message::Stops(v1::Stops {
            stops: stops
                .into_iter()
                .map(|(task, token, reason)| v1::Stop {
                    task: ids.id(task),
                    token: token.0,
                    reason: reason.into(),
                })
                .collect(),
        }),
        ToWorker::Recalls(recalls) => Message::Recalls(v1::Recalls {
            recalls: recalls
                .into_iter()
                .map(|(task, token, begun_too)| v1::Recall {
                    task: ids.id(task),
                    token: token.0,
                    begun_too,
                })
                .collect(),
        }),
        ToWorker::Drain => Message::Drain(v1::Drain {}),
    };
    put.extend([v1::ToWorker { message: Some(message) }]);
}

/// Grants in messages that stay below the size that gRPC clients accept, unless a single grant is larger.
fn split(grants: &[GrantedTask], mut ids: Pages) -> Vec<v1::ToWorker> {
    let mut messages = Vec::with_capacity(1);
    let mut batch = Vec::with_capacity(grants.len());
    let mut batch_bytes = 0;
    for granted in grants {
        let bytes = size_of_grant(granted);
        if batch_bytes + bytes > GRANTS_BYTES_MAX && !batch.is_empty() {
            messages.push(grants_message(std::mem::take(&mut batch)));
            batch_bytes = 0;
        }
        batch_bytes += bytes;
        batch.push(v1::Grant {
            task: Some(spec_to_wire_as(ids.id(granted.spec.id), &granted.spec)),
            token: granted.token.0,
            attempt: granted.attempt,
            upstream: granted.upstream.iter().map(upstream_to_wire).collect(),
            upstream_cut: granted.upstream_cut,
            checkpoint: granted.checkpoint.as_ref().map(saved_to_wire),
        });
    }
    messages.push(grants_message(batch));
    messages
}

fn grants_message(grants: Vec<v1::Grant>) -> v1::ToWorker {
    v1::ToWorker { message: Some(Message::Grants(v1::Grants { grants })) }
}

fn size_of_grant(granted: &GrantedTask) -> usize {
    let results: usize =
        granted.upstream.iter().map(|parent| parent.result.data().len() + GRANT_BYTES).sum();
    let edges = granted.spec.after.len() * 32;
    let saved = granted.checkpoint.as_ref().map_or(0, |data| data.data().len());
    granted.spec.payload.data().len() + results + edges + saved + GRANT_BYTES
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use divvy_types::TaskSpec;

    #[test]
    fn large_grants_are_spread_over_messages_in_order() {
        let mut spec = TaskSpec::new(TaskId(1), "noop");
        spec.payload = Payload::new("application/octet-stream", vec![7; 1 << 20]).unwrap();
        let spec = Arc::new(spec);
        let grant = |token| GrantedTask {
            spec: Arc::clone(&spec),
            token: Token(token),
            attempt: 1,
            upstream: vec![],
            upstream_cut: false,
            checkpoint: None,
        };
        let mut messages = Vec::new();
        to_wire(ToWorker::Grants((0..7).map(grant).collect()), &mut messages);
        let tokens: Vec<Vec<u64>> = messages
            .into_iter()
            .map(|message| match message.message {
                Some(Message::Grants(grants)) => {
                    grants.grants.iter().map(|grant| grant.token).collect()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tokens, [vec![0, 1], vec![2, 3], vec![4, 5], vec![6]]);
    }

    #[test]
    fn a_long_log_keeps_its_end_and_a_report_without_an_end_is_malformed() {
        assert_eq!(tail("aäb", 2), "b");
        assert_eq!(tail("ab", 2), "ab");
        let wire = v1::Report {
            task: Pages::default().id(TaskId(1)),
            token: 1,
            end: None,
            log: String::new(),
        };
        let error = reports(v1::Reports { reports: vec![wire] }).unwrap_err();
        assert_eq!(error.field, "report.end");
    }
}
