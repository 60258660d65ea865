//! The wire: protobuf messages, gRPC services, and their conversion to and from [`divvy_types`].
//!
//! The only crate that knows prost. What arrives is checked here for form (16-byte ids, known enum values, JSON
//! that is JSON); whether a spec is acceptable is decided by [`divvy_types::spec`]. Before a message is read at all,
//! [`lists`] counts what would be built from it.
//!
//! **Invariant:** a conversion never panics on input.

pub mod codec;
mod convert;
mod convert_report;
mod convert_submitted;
mod convert_terms;
pub mod lists;

pub use convert::{
    Pages, WireError, checkpoint_from_wire, checkpoint_to_wire, granted_spec_from_wire,
    saved_from_wire, saved_to_wire, spec_to_wire, spec_to_wire_as, specs_from_wire, task_id,
    upstream_from_wire, upstream_to_wire,
};
pub use convert_report::{outcome_bytes, outcome_from_wire, outcome_to_wire};
pub use convert_submitted::{submitted_from_wire, submitted_to_wire};

/// The generated messages and services. A test compares them with the protocol and writes them anew on demand.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    reason = "generated from divvy.proto, where the comments are"
)]
pub mod v1 {
    include!("../generated/divvy.v1.rs");
}

/// What KEDA asks of an external scaler; generated and compared like the other.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    reason = "generated from externalscaler.proto, where the comments are"
)]
pub mod keda {
    include!("../generated/externalscaler.rs");
}
