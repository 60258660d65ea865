//! Parts on a worker that does not see the server's folder of jobs: what they read comes from the server over HTTP, and
//! what they write goes there before the part is done.
//!
//! Decides how much is asked for at once, and what an answer means for the part. Which files a job may read, and where
//! what was written goes, is decided by the server. A server that is away is waited for ([`Patience`]); a part that shall
//! stop waits for nothing. Parts are code that blocks, so it is here that they wait for what is not.
//!
//! **Invariant:** a transfer that failed is not forgotten: whatever becomes of the error on its way through decoders and
//! merges, [`Transfers::failure`] has it, and the part is not done.

mod ranged;
mod send;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use divvy::Api;
use divvy::api::reqwest::header::{CONTENT_LENGTH, RANGE};
use divvy::api::reqwest::{Method, RequestBuilder, Response, StatusCode};
use divvy::api::{Error, Patience};
use divvy::extract::Cancel;
use divvy_workload::Scratch;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use self::ranged::{Lines, Ranged, RemoteFile};
use super::shuffle::file_bytes;
use super::{InputFile, PartDone, PartError, ShuffleReader, Spec, StageDone};
use crate::input::{Packing, Split};

pub use send::PIECE_BYTES_MAX;

/// Bytes of an input that are asked for at once; as many are on their way while they are worked on.
const INPUT_STEP: u64 = 4 << 20;
/// The same of a file of the shuffle, of which many are open at once: a share of the part's memory within these.
const SHUFFLE_STEP: (u64, u64) = (64 << 10, 2 << 20);
/// Which part of its memory a part has for what is on its way from the shuffle.
const SHUFFLE_SHARE: u64 = 16;
/// How long an answer may bring nothing.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a worker knows that does not see the folder of jobs; all its parts share it.
#[derive(Debug)]
pub struct AtServer {
    api: Api,
    runtime: Handle,
    scratch: Scratch,
    /// The job that was asked for last: most parts in a row are of one.
    latest: Mutex<Option<Arc<Spec>>>,
}

/// What one attempt reads from the server and writes there.
#[derive(Debug)]
pub struct Transfers {
    server: Arc<AtServer>,
    job: String,
    cancel: Cancel,
    failure: RefCell<Option<PartError>>,
    read_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
}

/// What is asked of a server, in a box: it waits in a task of its own, or for the part.
type Asking<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Bytes that are on their way; dropped, they are not wanted any more.
#[derive(Debug)]
struct OnTheWay(JoinHandle<Result<Vec<u8>, Error>>);

impl Drop for OnTheWay {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl AtServer {
    /// A worker of this server. Parts wait for it on `runtime`, and keep what they spill in `scratch`.
    pub fn new(api: Api, runtime: Handle, scratch: Scratch) -> Self {
        Self { api, runtime, scratch, latest: Mutex::default() }
    }
}

impl Transfers {
    /// For an attempt of a part of this job.
    pub fn new(server: Arc<AtServer>, job: &str, cancel: Cancel) -> Self {
        Self {
            server,
            job: job.to_owned(),
            cancel,
            failure: RefCell::default(),
            read_bytes: Cell::default(),
            sent_bytes: Cell::default(),
        }
    }

    /// The first transfer that failed. No report counts after one.
    pub fn failure(&self) -> Option<PartError> {
        self.failure.borrow().clone()
    }

    /// Bytes that came from the server, and bytes that went there.
    pub fn bytes(&self) -> (u64, u64) {
        (self.read_bytes.get(), self.sent_bytes.get())
    }

    /// Where attempts of this worker spill to.
    pub(super) fn scratches(&self) -> &Path {
        self.server.scratch.path()
    }

    /// What the job was asked to do.
    ///
    /// # Errors
    /// If there is no such job, or the server does not say.
    pub fn spec(&self) -> Result<Arc<Spec>, PartError> {
        let latest = || self.server.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spec) = latest().clone().filter(|spec| spec.id == self.job) {
            return Ok(spec);
        }
        let spec: Arc<Spec> = Arc::new(self.json(&["job"])?);
        *latest() = Some(Arc::clone(&spec));
        Ok(spec)
    }

    /// What became of a stage.
    pub(super) fn stage(&self, stage: u32) -> Result<StageDone, PartError> {
        self.json(&["stages", &stage.to_string()])
    }

    /// A file of the job's input, from one byte before the split on; see [`crate::input::open`].
    pub(super) fn input(
        self: &Rc<Self>,
        number: u32,
        input: &InputFile,
        split: Split,
    ) -> Result<Box<dyn std::io::Read>, PartError> {
        let path = self.path(&["inputs", &number.to_string()]);
        let size = input.bytes;
        if size == 0 {
            // There is no range to ask for, but the file may be another one by now, or not for us.
            self.fetch(path, None)?;
            return Ok(Box::new(std::io::empty()));
        }
        let (start, to) = (split.from.saturating_sub(1).min(size), split.to.min(size));
        let mut head = Ranged::new(self, path.clone(), start..to, INPUT_STEP);
        // As with a file here: whether it may be read and is still the same is told when it is opened.
        head.begin()?;
        match Packing::of(&input.path) {
            Packing::None => Ok(Box::new(Lines::new(head, path, to..size))),
            Packing::Gzip | Packing::Zstd => Ok(Box::new(head)),
        }
    }

    /// A partition that a part of an earlier stage wrote, one of so many that are read.
    pub(super) fn shuffle(
        self: &Rc<Self>,
        stage: u32,
        part: &PartDone,
        name: &str,
        partition: u32,
        memory_share: u64,
    ) -> std::io::Result<ShuffleReader> {
        let file = RemoteFile {
            from: Rc::clone(self),
            path: self.path(&["shuffle", &stage.to_string(), name]),
            length: file_bytes(&part.report.partitions),
            step: (memory_share / SHUFFLE_SHARE).clamp(SHUFFLE_STEP.0, SHUFFLE_STEP.1),
        };
        ShuffleReader::of(file, partition)
    }

    /// The address of something of this job.
    fn path(&self, parts: &[&str]) -> Vec<String> {
        let before = ["flows", &self.job, "work"];
        before.iter().chain(parts).map(|part| (*part).to_owned()).collect()
    }

    fn json<T: DeserializeOwned>(&self, parts: &[&str]) -> Result<T, PartError> {
        let path = self.path(parts);
        let place = path.join("/");
        let bytes = self.fetch(path, None)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            PartError::Broken(format!("{place}: {error}; is the server of another version?"))
        })
    }

    fn fetch(&self, path: Vec<String>, range: Option<Range<u64>>) -> Result<Vec<u8>, PartError> {
        let bytes = self.wait(fetching(self.server.api.clone(), path, range))?;
        self.came(&bytes);
        Ok(bytes)
    }

    /// Begins to fetch.
    fn ask(&self, path: Vec<String>, range: Range<u64>) -> OnTheWay {
        let asking = fetching(self.server.api.clone(), path, Some(range));
        OnTheWay(self.server.runtime.spawn(asking))
    }

    /// What was asked for, when it is here.
    fn arrived(&self, mut bytes: OnTheWay) -> Result<Vec<u8>, PartError> {
        let bytes = self.wait(Box::pin(async move {
            let joined = (&mut bytes.0).await;
            // The task ends without a result only with its runtime.
            joined.unwrap_or_else(|error| Err(Error::protocol(error)))
        }))?;
        self.came(&bytes);
        Ok(bytes)
    }

    fn came(&self, bytes: &[u8]) {
        self.read_bytes.set(self.read_bytes.get() + bytes.len() as u64);
    }

    /// Waits for the server, unless the part shall stop.
    fn wait<T>(&self, asking: Asking<T>) -> Result<T, PartError> {
        let outcome = self.server.runtime.block_on(self.cancel.guard(asking));
        let error = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => part_error(error),
            Err(_) => PartError::Cancelled,
        };
        self.failure.borrow_mut().get_or_insert_with(|| error.clone());
        Err(error)
    }
}

/// What a refusal means for a part.
fn part_error(error: Error) -> PartError {
    // What only means that a disk or a network makes trouble at the moment.
    const TROUBLE: [&str; 4] = ["disk_full", "internal", "damaged_file", "wrong_offset"];
    match &error {
        Error::Refused { code, message, retry_after: None, .. } => {
            let message = format!("the server says: {message}");
            match TROUBLE.contains(&code.as_str()) {
                true => PartError::Trouble(message),
                false => PartError::Broken(message),
            }
        }
        _ => PartError::Trouble(error.to_string()),
    }
}

/// Fetches bytes of a file, or all of it.
fn fetching(api: Api, path: Vec<String>, range: Option<Range<u64>>) -> Asking<Vec<u8>> {
    Box::pin(async move {
        let mut patience = Patience::default();
        loop {
            match fetch_once(&api, &path, range.as_ref()).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => patience.bear(error).await?,
            }
        }
    })
}

async fn fetch_once(
    api: &Api,
    path: &[String],
    range: Option<&Range<u64>>,
) -> Result<Vec<u8>, Error> {
    let mut request = request(api, Method::GET, path);
    if let Some(range) = range {
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    }
    let mut answer = api.good(api.answer(request).await?).await?;
    let length = length(&answer);
    let is_as_asked = match range {
        Some(range) => {
            answer.status() == StatusCode::PARTIAL_CONTENT
                && length == Some(range.end - range.start)
        }
        None => true,
    };
    if !is_as_asked {
        return Err(Error::protocol("other bytes of a file than were asked for"));
    }
    let room = range.and(length).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room);
    loop {
        match tokio::time::timeout(SILENCE_MAX, answer.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(api.lost(&error)),
            Err(_) => return Err(api.unreachable("it fell silent")),
        }
    }
    if length.is_some_and(|length| length != bytes.len() as u64) {
        return Err(api.unreachable("its answer ended too early"));
    }
    Ok(bytes)
}

fn request(api: &Api, method: Method, path: &[String]) -> RequestBuilder {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    api.request(method, &parts)
}

/// How many bytes an answer has by its header: the body of one from this process cannot say.
fn length(answer: &Response) -> Option<u64> {
    answer.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_may_have_room_later_and_a_forbidden_file_stays_so() {
        let refused = |code: &str, retry_after| Error::Refused {
            code: code.into(),
            message: "no".into(),
            field: None,
            status: None,
            retry_after,
        };
        let says = "the server says: no".to_owned();
        assert_eq!(part_error(refused("disk_full", None)), PartError::Trouble(says.clone()));
        assert_eq!(part_error(refused("forbidden_file", None)), PartError::Broken(says));
        let busy = part_error(refused("overloaded", Some(Duration::ZERO)));
        assert_eq!(busy, PartError::Trouble("no".into()));
    }
}
