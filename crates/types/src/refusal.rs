//! What every refusal says, whoever refuses: a stable code, where the fault is, and of what sort it is. The edges carry
//! it to callers in their own words; nothing here knows how.

use crate::SpecError;

/// The header, or metadata of gRPC, that every refusal of a server bears: its stable code. What comes without it is not the
/// server's word.
pub const REFUSAL_MARK: &str = "divvy-code";

/// A refusal that a caller can act on.
pub trait Refusal: std::fmt::Display {
    /// A stable name for programs: the `code` of API errors.
    fn code(&self) -> &'static str;

    /// The sort of fault, as HTTP numbers it: 400 for what is not acceptable, 404, 409, 413, 429, 500 and so on.
    fn status(&self) -> u16;

    /// The field that is at fault.
    fn field_name(&self) -> Option<&str> {
        None
    }

    /// When to try again.
    fn retry_after_ms(&self) -> Option<u64> {
        None
    }
}

impl SpecError {
    /// All codes that such an error may have.
    pub const CODES: [&str; 11] = [
        "invalid_field",
        "payload_too_large",
        "self_dependency",
        "dependency_cycle",
        "unknown_dependency",
        "too_many_dependencies",
        "batch_too_large",
        "id_taken",
        "not_unique",
        "skipped_dependency",
        "deadline_unmeetable",
    ];
}

impl Refusal for SpecError {
    fn code(&self) -> &'static str {
        self.code()
    }

    fn status(&self) -> u16 {
        match self {
            Self::IdTaken { .. } | Self::NotUnique { .. } | Self::TooLate { .. } => 409,
            Self::PayloadTooLarge { .. } | Self::BatchTooLarge { .. } => 413,
            _ => 400,
        }
    }

    fn field_name(&self) -> Option<&str> {
        match self {
            Self::Field { field, .. } => Some(field),
            Self::PayloadTooLarge { .. } => Some("payload"),
            Self::IdTaken { .. } => Some("id"),
            Self::BatchTooLarge { .. } => Some("tasks"),
            Self::SelfDependency { .. }
            | Self::Cycle { .. }
            | Self::GroupCycle { .. }
            | Self::UnknownDependency { .. }
            | Self::TooManyEdges { .. }
            | Self::SkippedDependency { .. } => Some("after"),
            Self::NotUnique { .. } => Some("unique.key"),
            Self::TooLate { .. } => Some("deadline"),
        }
    }
}
