//! Objects at a server, over HTTP, with a cache of blobs on this machine.

use std::path::Path;

use divvy_objects::{Blob, BlobId, RecordName, Version};

use super::{LocalFile, ObjectError};

/// Objects at a server.
#[derive(Debug)]
pub(super) struct Remote {}

#[expect(clippy::unused_async, unused_variables, reason = "not written yet")]
impl Remote {
    pub(super) async fn blob(&self, id: BlobId) -> Result<Option<Blob>, ObjectError> {
        Ok(None)
    }
    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<Blob, ObjectError> {
        unreachable!()
    }
    pub(super) async fn put_file(&self, path: &Path) -> Result<Blob, ObjectError> {
        unreachable!()
    }
    pub(super) async fn local_file(&self, id: BlobId) -> Result<LocalFile, ObjectError> {
        unreachable!()
    }
    pub(super) async fn remove_blob(&self, id: BlobId) -> Result<bool, ObjectError> {
        unreachable!()
    }
    pub(super) async fn record(
        &self,
        name: &RecordName,
    ) -> Result<Option<(Vec<u8>, Version)>, ObjectError> {
        unreachable!()
    }
    pub(super) async fn put_record(
        &self,
        name: &RecordName,
        bytes: Vec<u8>,
    ) -> Result<(), ObjectError> {
        unreachable!()
    }
    pub(super) async fn replace_record(
        &self,
        name: &RecordName,
        expected: Option<Version>,
        bytes: Vec<u8>,
    ) -> Result<bool, ObjectError> {
        unreachable!()
    }
    pub(super) async fn remove_record(&self, name: &RecordName) -> Result<bool, ObjectError> {
        unreachable!()
    }
    pub(super) async fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, ObjectError> {
        unreachable!()
    }
}
