//! Large data beside the tasks: blobs named by their content, and small named records.
//!
//! A blob never changes and is named by the BLAKE3 hash of its bytes, so the same data is stored once and a reader can
//! tell whether it got what was meant. A record is a small document under a name of the writer's choice, which can be
//! created only once or replaced only by who knows what was there: enough to agree on who was first.
//!
//! Reading order: [`BlobId`], [`Folder`].
//!
//! **Invariant:** a blob or record that can be seen is whole. It is written beside its place and then renamed.

mod blob;
mod error;
mod folder;
mod record;

pub use blob::{Blob, BlobId};
pub use error::Error;
pub use folder::Folder;
pub use record::{RECORD_BYTES_MAX, RecordName, Version};
