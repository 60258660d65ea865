//! Large data beside the tasks: blobs named by their content, and small named records.
//!
//! A blob never changes and is named by the BLAKE3 hash of its bytes, so the same data is stored once and a reader can
//! tell whether it got what was meant. A record is a small document under a name of the writer's choice, which can be
//! created only once or replaced only by who knows what was there: enough to agree on who was first. An upload is a blob
//! that arrives in pieces, over days and restarts if need be.
//!
//! Reading order: [`BlobId`], [`Folder`], [`Staged`], [`Uploads`].
//!
//! **Invariant:** a blob or record that can be seen is whole. It is written beside its place, synced and then renamed.

mod backup;
mod blob;
mod blobs;
mod check;
mod error;
mod folder;
mod record;
mod records;
mod staged;
mod upload;
mod uploads;

pub use backup::{Copied, back_up, copy_blobs, copy_folder};
pub use blob::{Blob, BlobHasher, BlobId};
pub use blobs::RestedBlob;
pub use check::{Checked, check};
pub use error::Error;
pub use folder::{Folder, RESERVE_BYTES};
pub use record::{RECORD_BYTES_MAX, RecordName, Version};
pub use staged::Staged;
pub use upload::{NewUpload, UPLOAD_BYTES_MAX, UPLOAD_METADATA_MAX, Upload, UploadId};
pub use uploads::{Appending, UPLOAD_LIFE, Uploads};
