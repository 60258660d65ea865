//! Refusals of the engine in gRPC's words. The stable code travels in the metadata `divvy-code`.

use divvy_engine::Error;
use divvy_proto::WireError;
use divvy_proto::v1::Refusal;
use divvy_types::{REFUSAL_MARK as MARK, Refusal as _, SpecError};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// When a caller whose tasks found no room on the disk should try again.
const DISK_FULL_RETRY_MS: u64 = 10_000;

/// The status of a refused call.
pub fn status(error: &Error) -> Status {
    let code = match error {
        Error::Spec(SpecError::IdTaken { .. } | SpecError::NotUnique { .. }) => Code::AlreadyExists,
        Error::Spec(SpecError::TooLate { .. }) => Code::FailedPrecondition,
        Error::Spec(_) | Error::BadCursor(_) => Code::InvalidArgument,
        Error::NotFound(_) | Error::NoSuchWorker(_) => Code::NotFound,
        Error::Ambiguous { .. } | Error::Conflict { .. } => Code::FailedPrecondition,
        Error::Overloaded { .. } | Error::DiskFull | Error::MemoryFull => Code::ResourceExhausted,
        Error::Stopping | Error::StoreUnavailable(_) => Code::Unavailable,
        _ => Code::Internal,
    };
    let mut metadata = MetadataMap::new();
    metadata.insert(MARK, MetadataValue::from_static(error.code()));
    if let Some(ms) = retry_after_ms(error) {
        metadata.insert("retry-after-ms", MetadataValue::from(ms));
    }
    Status::with_metadata(code, error.to_string(), metadata)
}

/// The refusal of one batch of a stream that goes on.
pub(crate) fn refusal(error: &Error) -> Refusal {
    Refusal {
        code: error.code().to_owned(),
        message: error.to_string(),
        retry_after_ms: retry_after_ms(error).unwrap_or(0),
    }
}

/// A message that does not have its form.
pub(crate) fn malformed(error: &WireError) -> Status {
    status(&as_engine_error(error))
}

/// The same, as an error like those of the engine.
pub(crate) fn as_engine_error(error: &WireError) -> Error {
    Error::Spec(SpecError::field(error.field, error.problem.clone()))
}

fn retry_after_ms(error: &Error) -> Option<u64> {
    match error {
        Error::DiskFull => Some(DISK_FULL_RETRY_MS),
        _ => error.retry_after_ms(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::{TaskId, Timestamp};

    #[test]
    fn every_refusal_has_its_code_and_says_when_to_come_back() {
        let cases = [
            (Error::Spec(SpecError::IdTaken { task: TaskId(1) }), Code::AlreadyExists, None),
            (
                Error::Spec(SpecError::SelfDependency { task: TaskId(1) }),
                Code::InvalidArgument,
                None,
            ),
            (
                Error::Spec(SpecError::TooLate {
                    task: TaskId(1),
                    deadline: Timestamp(1),
                    expected_end: Timestamp(2),
                }),
                Code::FailedPrecondition,
                None,
            ),
            (Error::Overloaded { retry_after_ms: 700 }, Code::ResourceExhausted, Some("700")),
            (Error::DiskFull, Code::ResourceExhausted, Some("10000")),
            (Error::Stopping, Code::Unavailable, None),
            (Error::Store("broken".into()), Code::Internal, None),
        ];
        for (error, code, retry) in cases {
            let status = status(&error);
            assert_eq!(status.code(), code);
            assert_eq!(status.message(), error.to_string());
            assert_eq!(status.metadata().get("divvy-code").unwrap(), error.code());
            let found =
                status.metadata().get("retry-after-ms").map(|value| value.to_str().unwrap());
            assert_eq!(found, retry, "{error}");
        }
        assert_eq!(refusal(&Error::DiskFull).retry_after_ms, DISK_FULL_RETRY_MS);
    }
}
