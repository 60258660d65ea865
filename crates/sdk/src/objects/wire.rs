//! The objects of a server over HTTP: one request, one answer. A request that may work a little later is repeated, so
//! that a server that starts again is not noticed by a task that runs for hours.

use std::ops::Range;

use bytes::Bytes;
use divvy_client::{Patience, is_own};
use divvy_objects::{Blob, BlobId, RecordName, Version};
use divvy_types::view::Page;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH, RANGE};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;

use crate::client::{Api, Error};

/// A number of records that no server has.
const PAGES_MAX: usize = 10_000;

/// The objects of a server.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) api: Api,
}

/// What a server keeps.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct About {
    /// Which folder its objects are in.
    pub(super) identity: String,
    /// What it takes as a blob in one request.
    pub(super) blob_bytes_max: u64,
}

impl Wire {
    pub(super) async fn about(&self) -> Result<About, Error> {
        let answer = self.ask(|| self.request(Method::GET, "/objects")).await?;
        self.api.read(self.good(answer).await?).await
    }

    pub(super) async fn blob(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        let answer = self.ask(|| self.request(Method::HEAD, &format!("/blobs/{id}"))).await?;
        if is_absent(&answer) {
            return Ok(None);
        }
        let answer = self.good(answer).await?;
        match length(&answer) {
            Some(size) => Ok(Some(Blob { id, size })),
            None => Err(Error::protocol("a blob without a length")),
        }
    }

    /// A part of a blob, which is not empty. One attempt: the caller knows what it has already.
    pub(super) async fn part(&self, id: BlobId, part: &Range<u64>) -> Result<Response, Error> {
        let range = format!("bytes={}-{}", part.start, part.end - 1);
        let request = self.request(Method::GET, &format!("/blobs/{id}")).header(RANGE, range);
        let answer = self.good(self.api.answer(request).await?).await?;
        let is_part = answer.status() == StatusCode::PARTIAL_CONTENT
            && length(&answer) == Some(part.end - part.start);
        if is_part { Ok(answer) } else { Err(Error::protocol("another part of a blob")) }
    }

    pub(super) async fn put(&self, id: BlobId, bytes: Bytes) -> Result<Blob, Error> {
        let path = format!("/blobs/{id}");
        let answer = self.ask(|| self.request(Method::PUT, &path).body(bytes.clone())).await?;
        self.api.read(self.good(answer).await?).await
    }

    pub(super) async fn remove_blob(&self, id: BlobId) -> Result<bool, Error> {
        self.remove(&format!("/blobs/{id}"), "no_such_blob").await
    }

    pub(super) async fn record(
        &self,
        name: &RecordName,
    ) -> Result<Option<(Vec<u8>, Version)>, Error> {
        let answer = self.ask(|| self.request(Method::GET, &format!("/records/{name}"))).await?;
        let answer = match self.good(answer).await {
            Err(Error::Refused { code, .. }) if code == "no_such_record" => return Ok(None),
            answer => answer?,
        };
        let bytes = answer.bytes().await.map_err(|error| self.api.lost(&error))?;
        // The version is the hash of the bytes, so a damaged answer cannot pass as another version.
        let version = BlobId::of(&bytes);
        Ok(Some((bytes.to_vec(), version)))
    }

    /// Writes a record; says whether the condition held.
    pub(super) async fn write_record(
        &self,
        name: &RecordName,
        condition: Option<Option<Version>>,
        bytes: Vec<u8>,
    ) -> Result<bool, Error> {
        let (bytes, path) = (Bytes::from(bytes), format!("/records/{name}"));
        let mut request = || {
            let request = self.request(Method::PUT, &path).body(bytes.clone());
            let request = request.header(CONTENT_TYPE, "application/json");
            match condition {
                None => request,
                Some(None) => request.header(IF_NONE_MATCH, "*"),
                Some(Some(version)) => request.header(IF_MATCH, format!("\"{version}\"")),
            }
        };
        let mut patience = Patience::default();
        let answer = self.ask_with(&mut patience, &mut request).await?;
        match self.good(answer).await {
            Ok(_) => Ok(true),
            Err(Error::Refused { code, .. }) if code == "record_changed" => {
                // An attempt before may have done it without our hearing of it.
                let written = BlobId::of(&bytes);
                Ok(patience.is_used()
                    && self.record(name).await?.is_some_and(|(_, version)| version == written))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) async fn remove_record(&self, name: &RecordName) -> Result<bool, Error> {
        self.remove(&format!("/records/{name}"), "no_such_record").await
    }

    pub(super) async fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, Error> {
        let mut names: Vec<RecordName> = Vec::new();
        for _ in 0..PAGES_MAX {
            let request = || {
                let after = names.last().map(|name| ("after", name.as_str()));
                let query = [("prefix", prefix)].into_iter().chain(after);
                self.request(Method::GET, "/records").query(&query.collect::<Vec<_>>())
            };
            let answer = self.ask(request).await?;
            let page: Page<RecordName> = self.api.read(self.good(answer).await?).await?;
            let is_last = page.next.is_none() || page.items.is_empty();
            names.extend(page.items);
            if is_last {
                break;
            }
        }
        Ok(names)
    }

    async fn remove(&self, path: &str, absent: &str) -> Result<bool, Error> {
        let mut patience = Patience::default();
        let mut request = || self.request(Method::DELETE, path);
        let answer = self.ask_with(&mut patience, &mut request).await?;
        match self.good(answer).await {
            Ok(_) => Ok(true),
            Err(Error::Refused { code, .. }) if code == absent => Ok(patience.is_used()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        self.api.request(method, &parts)
    }

    /// An answer that is a success.
    pub(super) async fn good(&self, answer: Response) -> Result<Response, Error> {
        self.api.good(answer).await
    }

    /// The answer to a request that may be repeated.
    pub(super) async fn ask(
        &self,
        mut request: impl FnMut() -> RequestBuilder + Send,
    ) -> Result<Response, Error> {
        self.ask_with(&mut Patience::default(), &mut request).await
    }

    async fn ask_with(
        &self,
        patience: &mut Patience,
        request: &mut (dyn FnMut() -> RequestBuilder + Send),
    ) -> Result<Response, Error> {
        loop {
            let answer = match self.api.answer(request()).await {
                Ok(answer) if is_own(&answer) && !is_busy(answer.status()) => return Ok(answer),
                Ok(answer) => self.api.refusal(answer).await,
                Err(error) => error,
            };
            patience.bear(answer).await?;
        }
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// How many bytes an answer has by its header: the body of one from this process cannot say.
fn length(answer: &Response) -> Option<u64> {
    answer.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the server says that it does not have what was asked for; a proxy cannot know.
pub(super) fn is_absent(answer: &Response) -> bool {
    answer.status() == StatusCode::NOT_FOUND && is_own(answer)
}
