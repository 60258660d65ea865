//! Ends of attempts, to the wire and back.

use bytes::Bytes;
use divvy_types::limits::{RESULT_BYTES_MAX, SPAWNED_MAX};
use divvy_types::{AttemptOutcome, ErrorClass, Failure, FailureVerdict, TaskError};

use crate::convert::{
    WireError, content_type_to_wire, payload_from_wire, spec_to_wire, specs_from_wire,
};
use crate::convert_terms::unknown;
use crate::v1;
use prost::{Message as _, length_delimiter_len};
use v1::report::End;

/// Bytes of the tag before each child in a finish.
const CHILD_TAG_BYTES: usize = 1;

/// Reads the end of an attempt. A report without one is malformed.
pub fn outcome_from_wire(end: Option<End>) -> Result<AttemptOutcome, WireError> {
    match end {
        None => Err(WireError::new("report.end", "is missing")),
        Some(End::Released(_)) => Ok(AttemptOutcome::Released),
        Some(End::Failed(failed)) => Ok(AttemptOutcome::Failed(failure_from_wire(failed)?)),
        Some(End::Finished(finished)) => {
            if finished.result.len() > RESULT_BYTES_MAX {
                let problem =
                    format!("is {} bytes, at most {RESULT_BYTES_MAX}", finished.result.len());
                return Err(WireError::new("report.result", problem));
            }
            if finished.spawned.len() > SPAWNED_MAX {
                let problem =
                    format!("lists {} tasks, at most {SPAWNED_MAX}", finished.spawned.len());
                return Err(WireError::new("report.spawned", problem));
            }
            // A part of the message would keep all of it in memory.
            let result = Bytes::copy_from_slice(&finished.result);
            let result = payload_from_wire("report.result", &finished.content_type, result)?;
            let spawned = specs_from_wire(finished.spawned)?;
            Ok(AttemptOutcome::Finished { result, spawned })
        }
    }
}

/// Writes the end of an attempt.
pub fn outcome_to_wire(outcome: &AttemptOutcome) -> End {
    match outcome {
        AttemptOutcome::Released => End::Released(v1::Released {}),
        AttemptOutcome::Failed(failure) => End::Failed(failure_to_wire(failure)),
        AttemptOutcome::Finished { result, spawned } => End::Finished(v1::Finished {
            result: result.data().clone(),
            content_type: content_type_to_wire(result),
            spawned: spawned.iter().map(spec_to_wire).collect(),
        }),
    }
}

/// Bytes that the end of an attempt takes on the wire.
pub fn outcome_bytes(outcome: &AttemptOutcome) -> usize {
    // Child by child, so that a large fan-out is not copied whole only to be measured.
    let AttemptOutcome::Finished { result, spawned } = outcome else {
        return outcome_to_wire(outcome).encoded_len();
    };
    let alone = AttemptOutcome::Finished { result: result.clone(), spawned: Vec::new() };
    let children = spawned.iter().map(|child| {
        let bytes = spec_to_wire(child).encoded_len();
        CHILD_TAG_BYTES + length_delimiter_len(bytes) + bytes
    });
    outcome_to_wire(&alone).encoded_len() + children.sum::<usize>()
}

fn failure_from_wire(wire: v1::Failed) -> Result<Failure, WireError> {
    let class = class_from_wire("report.failed.class", wire.class)?;
    let verdict = match v1::FailureVerdict::try_from(wire.verdict) {
        Ok(v1::FailureVerdict::Retry) => FailureVerdict::Retry,
        Ok(v1::FailureVerdict::RetryAfter) => FailureVerdict::RetryAfterMs(wire.wait_ms),
        Ok(v1::FailureVerdict::Snooze) => FailureVerdict::SnoozeMs(wire.wait_ms),
        Ok(v1::FailureVerdict::Dead) => FailureVerdict::Dead,
        Ok(v1::FailureVerdict::Cancelled) => FailureVerdict::Cancelled,
        Err(_) => return Err(unknown("report.failed.verdict", wire.verdict)),
    };
    Ok(Failure { verdict, error: TaskError::new(class, wire.message) })
}

fn failure_to_wire(failure: &Failure) -> v1::Failed {
    let (verdict, wait_ms) = match failure.verdict {
        FailureVerdict::Retry => (v1::FailureVerdict::Retry, 0),
        FailureVerdict::RetryAfterMs(ms) => (v1::FailureVerdict::RetryAfter, ms),
        FailureVerdict::SnoozeMs(ms) => (v1::FailureVerdict::Snooze, ms),
        FailureVerdict::Dead => (v1::FailureVerdict::Dead, 0),
        FailureVerdict::Cancelled => (v1::FailureVerdict::Cancelled, 0),
    };
    v1::Failed {
        class: class_to_wire(failure.error.class).into(),
        message: failure.error.message.to_string(),
        verdict: verdict.into(),
        wait_ms,
    }
}

/// Reads the class of an error, in `field`.
pub(crate) fn class_from_wire(field: &'static str, wire: i32) -> Result<ErrorClass, WireError> {
    match v1::ErrorClass::try_from(wire) {
        Ok(v1::ErrorClass::Failed) => Ok(ErrorClass::Failed),
        Ok(v1::ErrorClass::Timeout) => Ok(ErrorClass::Timeout),
        Ok(v1::ErrorClass::Crashed) => Ok(ErrorClass::Crashed),
        Ok(v1::ErrorClass::WorkerLost) => Ok(ErrorClass::WorkerLost),
        Ok(v1::ErrorClass::Cancelled) => Ok(ErrorClass::Cancelled),
        Err(_) => Err(unknown(field, wire)),
    }
}

/// Writes the class of an error.
pub(crate) fn class_to_wire(class: ErrorClass) -> v1::ErrorClass {
    match class {
        ErrorClass::Failed => v1::ErrorClass::Failed,
        ErrorClass::Timeout => v1::ErrorClass::Timeout,
        ErrorClass::Crashed => v1::ErrorClass::Crashed,
        ErrorClass::WorkerLost => v1::ErrorClass::WorkerLost,
        ErrorClass::Cancelled => v1::ErrorClass::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::{Payload, TaskId, TaskSpec};

    #[test]
    fn every_end_survives_the_wire() {
        let error = TaskError::new(ErrorClass::Timeout, "took too long");
        let fail = |verdict| AttemptOutcome::Failed(Failure { verdict, error: error.clone() });
        let ends = [
            AttemptOutcome::Released,
            AttemptOutcome::Finished {
                result: Payload::json("[1]").unwrap(),
                spawned: vec![TaskSpec::new(TaskId(4), "noop")],
            },
            fail(FailureVerdict::Retry),
            fail(FailureVerdict::RetryAfterMs(5)),
            fail(FailureVerdict::SnoozeMs(6)),
            fail(FailureVerdict::Dead),
            fail(FailureVerdict::Cancelled),
        ];
        for end in ends {
            assert_eq!(outcome_from_wire(Some(outcome_to_wire(&end))).unwrap(), end);
        }
        assert!(outcome_from_wire(None).is_err());
    }

    #[test]
    fn an_unknown_class_and_an_oversized_result_are_refused() {
        let failed = v1::Failed { class: 99, ..Default::default() };
        assert_eq!(
            outcome_from_wire(Some(End::Failed(failed))).unwrap_err().field,
            "report.failed.class"
        );
        let finished =
            v1::Finished { result: vec![b'1'; RESULT_BYTES_MAX + 1].into(), ..Default::default() };
        assert_eq!(
            outcome_from_wire(Some(End::Finished(finished))).unwrap_err().field,
            "report.result"
        );
    }
}
