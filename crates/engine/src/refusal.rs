//! What sort of fault each refusal of the engine is, and which field it is about.

use divvy_types::Refusal;

use crate::Error;

/// When a caller whose tasks found no room in memory should try again.
const MEMORY_FULL_RETRY_MS: u64 = 10_000;

impl Error {
    /// All codes that such an error may have, besides those of a spec.
    pub const CODES: [&str; 17] = [
        "invalid_setting",
        "set_by_file",
        "no_such_setting",
        "not_found",
        "no_such_workflow",
        "ambiguous_id",
        "no_such_worker",
        "no_such_schedule",
        "too_many_schedules",
        "conflict",
        "overloaded",
        "disk_full",
        "memory_full",
        "store_unavailable",
        "stopping",
        "store_failed",
        "bad_cursor",
    ];
}

impl Refusal for Error {
    fn code(&self) -> &'static str {
        self.code()
    }

    fn status(&self) -> u16 {
        match self {
            Self::Spec(error) => error.status(),
            Self::Setting(_) | Self::BadCursor(_) => 400,
            Self::NotFound(_)
            | Self::NoSuchWorker(_)
            | Self::NoSuchWorkflow(_)
            | Self::NoSuchSchedule(_)
            | Self::NoSuchSetting { .. } => 404,
            Self::Ambiguous { .. }
            | Self::Conflict { .. }
            | Self::TooManySchedules
            | Self::SettingOwned { .. } => 409,
            Self::Overloaded { .. } | Self::MemoryFull => 429,
            Self::Stopping | Self::StoreUnavailable(_) => 503,
            Self::DiskFull => 507,
            Self::Store(_) => 500,
        }
    }

    fn field_name(&self) -> Option<&str> {
        match self {
            Self::Spec(error) => error.field_name(),
            Self::Setting(invalid) => Some(&invalid.path),
            Self::BadCursor(_) => Some("after"),
            _ => None,
        }
    }

    fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Overloaded { retry_after_ms } => Some(*retry_after_ms),
            Self::MemoryFull => Some(MEMORY_FULL_RETRY_MS),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::settings::InvalidSetting;
    use divvy_types::{SpecError, TaskId, TaskState, Timestamp};

    #[test]
    fn every_refusal_has_its_status_and_an_overload_says_when_to_come_back() {
        let conflict =
            Error::Conflict { task: TaskId(1), state: TaskState::Done, problem: "it is over" };
        let too_late = Error::Spec(SpecError::TooLate {
            task: TaskId(1),
            deadline: Timestamp(1),
            expected_end: Timestamp(2),
        });
        let cases = [
            (Error::Spec(SpecError::field("kind", "is empty".into())), 400),
            (Error::Spec(SpecError::Cycle { task: TaskId(1), other: TaskId(2) }), 400),
            (Error::Spec(SpecError::IdTaken { task: TaskId(1) }), 409),
            (too_late, 409),
            (Error::Spec(SpecError::PayloadTooLarge { bytes: 1 }), 413),
            (Error::Spec(SpecError::BatchTooLarge { count: 1 }), 413),
            (Error::BadCursor("x".into()), 400),
            (Error::SettingOwned { section: "limits".into(), owner: "f".into() }, 409),
            (Error::NoSuchSetting { what: "limit", name: "x".into() }, 404),
            (Error::Setting(InvalidSetting { path: "a.b".into(), problem: "is 0".into() }), 400),
            (Error::NotFound("x".into()), 404),
            (Error::NoSuchWorker("x".into()), 404),
            (Error::NoSuchSchedule("x".into()), 404),
            (Error::TooManySchedules, 409),
            (Error::Ambiguous { text: "x".into(), candidates: Vec::new() }, 409),
            (conflict, 409),
            (Error::Overloaded { retry_after_ms: 1_500 }, 429),
            (Error::Stopping, 503),
            (Error::StoreUnavailable("the folder is gone".into()), 503),
            (Error::DiskFull, 507),
            (Error::Store("broken".into()), 500),
        ];
        for (error, status) in cases {
            assert_eq!(error.status(), status, "{error}");
            assert_eq!(error.retry_after_ms(), (status == 429).then_some(1_500), "{error}");
        }
        assert_eq!(
            (Error::MemoryFull.status(), Error::MemoryFull.retry_after_ms()),
            (429, Some(10_000))
        );
        let invalid = InvalidSetting { path: "a.b".into(), problem: "is 0".into() };
        assert_eq!(Error::Setting(invalid).field_name(), Some("a.b"));
    }
}
