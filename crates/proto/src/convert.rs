//! Specs and upstream results, to the wire and back.

use bytes::{Bytes, BytesMut};
use divvy_types::limits::CHECKPOINT_BYTES_MAX;
use divvy_types::payload::InvalidPayload;
use divvy_types::spec::{DEFAULT_PRIORITY, DEFAULT_QUEUE, PRIORITY_MAX};
use divvy_types::terms::Sparse;
use divvy_types::view::Upstream;
use divvy_types::{Name, Payload, TaskId, TaskSpec, TaskState, Token};
use prost::Message as _;

use crate::convert_terms::{terms_from_wire, terms_to_wire};
use crate::v1;

/// A message that does not have the form that the protocol gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

impl std::error::Error for WireError {}

impl WireError {
    pub(crate) fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field, problem: problem.into() }
    }
}

/// The id in a 16-byte field.
pub fn task_id(field: &'static str, bytes: &[u8]) -> Result<TaskId, WireError> {
    TaskId::from_slice(bytes)
        .ok_or_else(|| WireError::new(field, format!("has {} bytes, expected 16", bytes.len())))
}

/// Reads the specs of one message; zero and empty fields get their defaults.
pub fn specs_from_wire(mut wires: Vec<v1::TaskSpec>) -> Result<Vec<TaskSpec>, WireError> {
    let mut pages = Pages::default();
    // Not collected: a collector of results does not know how many come, and copies what it has whenever it grows.
    let mut specs = Vec::with_capacity(wires.len());
    for wire in &mut wires {
        let data = pages.keep(&std::mem::take(&mut wire.payload));
        let payload = payload_from_wire("payload", &wire.content_type, data)?;
        specs.push(spec_with(payload, wire)?);
    }
    Ok(specs)
}

/// Copies of small things of one message, side by side in memory that they share: a buffer for each costs more than all
/// the rest of its way through here. Payloads may stay in memory for long, and a part of the message that they came in
/// would keep all of it.
#[derive(Debug, Default)]
pub struct Pages {
    page: BytesMut,
}

impl Pages {
    /// What one task can keep in memory beside its own payload. From a kilobyte on, glibc's allocator tidies up at each
    /// request, which costs more than the pages save.
    const PAGE_BYTES: usize = 1008;
    /// Fewer than four to a page save little.
    const SHARED_BYTES_MAX: usize = Self::PAGE_BYTES / 4;

    /// A copy of an id.
    pub fn id(&mut self, id: TaskId) -> Bytes {
        self.keep(&id.to_bytes())
    }

    fn keep(&mut self, data: &[u8]) -> Bytes {
        if data.len() > Self::SHARED_BYTES_MAX {
            return Bytes::copy_from_slice(data);
        }
        if self.page.capacity() < data.len() {
            self.page = BytesMut::with_capacity(Self::PAGE_BYTES);
        }
        self.page.extend_from_slice(data);
        self.page.split().freeze()
    }
}

/// Reads a spec that a server sends, which checked the payload when it took it.
pub fn granted_spec_from_wire(mut wire: v1::TaskSpec) -> Result<TaskSpec, WireError> {
    let data = std::mem::take(&mut wire.payload);
    spec_with(Payload::trusted(&wire.content_type, data), &mut wire)
}

/// Reads all of a spec but its payload. Takes what it reads out of the message, which is large and is not moved.
fn spec_with(payload: Payload, wire: &mut v1::TaskSpec) -> Result<TaskSpec, WireError> {
    wire.content_type.clear();
    let queue = std::mem::take(&mut wire.queue);
    Ok(TaskSpec {
        id: task_id("id", &std::mem::take(&mut wire.id))?,
        kind: std::mem::take(&mut wire.kind).into(),
        queue: if queue.is_empty() { Name::const_new(DEFAULT_QUEUE) } else { queue.into() },
        payload,
        priority: match std::mem::take(&mut wire.priority) {
            0 => DEFAULT_PRIORITY,
            given => small("priority", given, PRIORITY_MAX)?,
        },
        // Most tasks have no terms: to see that nothing is left is cheaper than to read none. It is not compared with an empty
        // spec, because a comparison of two empty texts reads where they would be, which takes some processors long.
        terms: if wire.encoded_len() == 0 {
            Sparse::default()
        } else {
            terms_from_wire(std::mem::take(wire))?.into()
        },
    })
}

/// A number that must be small anyway; whether it is small enough is asked later.
pub(crate) fn small(field: &'static str, given: u32, max: u8) -> Result<u8, WireError> {
    u8::try_from(given)
        .map_err(|_| WireError::new(field, format!("is {given}, expected at most {max}")))
}

/// Writes a spec; defaults are left out.
pub fn spec_to_wire(spec: &TaskSpec) -> v1::TaskSpec {
    spec_to_wire_as(Bytes::copy_from_slice(&spec.id.to_bytes()), spec)
}

/// The same for one of many, whose id is written already.
pub fn spec_to_wire_as(id: Bytes, spec: &TaskSpec) -> v1::TaskSpec {
    let queue = if spec.queue == DEFAULT_QUEUE { String::new() } else { spec.queue.to_string() };
    let mut wire = v1::TaskSpec {
        id,
        kind: spec.kind.to_string(),
        queue,
        payload: spec.payload.data().clone(),
        content_type: content_type_to_wire(&spec.payload),
        priority: if spec.priority == DEFAULT_PRIORITY { 0 } else { spec.priority.into() },
        ..v1::TaskSpec::default()
    };
    if !spec.terms.is_untouched() {
        terms_to_wire(&spec.terms, &mut wire);
    }
    wire
}

/// Reads how a dependency ended.
pub fn upstream_from_wire(wire: v1::Upstream) -> Result<Upstream, WireError> {
    Ok(Upstream {
        task: task_id("upstream.task", &wire.task)?,
        kind: wire.kind.into(),
        state: wire
            .state
            .parse::<TaskState>()
            .map_err(|e| WireError::new("upstream.state", e.to_string()))?,
        result: Payload::trusted(&wire.content_type, wire.result),
        spawned: wire.spawned,
    })
}

/// Writes how a dependency ended.
pub fn upstream_to_wire(upstream: &Upstream) -> v1::Upstream {
    v1::Upstream {
        task: Bytes::copy_from_slice(&upstream.task.to_bytes()),
        kind: upstream.kind.to_string(),
        state: upstream.state.to_string(),
        result: upstream.result.data().clone(),
        content_type: content_type_to_wire(&upstream.result),
        spawned: upstream.spawned,
    }
}

/// Reads data that an attempt saved, with the task and the token that it was saved under.
pub fn checkpoint_from_wire(wire: v1::Checkpoint) -> Result<(TaskId, Token, Payload), WireError> {
    let task = task_id("checkpoint.task", &wire.task)?;
    if wire.data.len() > CHECKPOINT_BYTES_MAX {
        let problem = format!(
            "is {} bytes, at most {CHECKPOINT_BYTES_MAX}; save the address of larger data",
            wire.data.len()
        );
        return Err(WireError::new("checkpoint.data", problem));
    }
    let data = Bytes::copy_from_slice(&wire.data);
    let data = payload_from_wire("checkpoint.data", &wire.content_type, data)?;
    Ok((task, Token(wire.token), data))
}

/// Writes data that an attempt saves.
pub fn checkpoint_to_wire(task: TaskId, token: Token, data: &Payload) -> v1::Checkpoint {
    v1::Checkpoint {
        task: Bytes::copy_from_slice(&task.to_bytes()),
        token: token.0,
        data: data.data().clone(),
        content_type: content_type_to_wire(data),
    }
}

/// Reads what an earlier attempt saved, from a server that checked it when it took it.
pub fn saved_from_wire(wire: v1::Saved) -> Payload {
    Payload::trusted(&wire.content_type, wire.data)
}

/// Writes what an earlier attempt saved.
pub fn saved_to_wire(data: &Payload) -> v1::Saved {
    v1::Saved { data: data.data().clone(), content_type: content_type_to_wire(data) }
}

pub(crate) fn payload_from_wire(
    field: &'static str,
    content_type: &str,
    data: Bytes,
) -> Result<Payload, WireError> {
    Payload::new(content_type, data)
        .map_err(|e: InvalidPayload| WireError::new(field, e.to_string()))
}

pub(crate) fn content_type_to_wire(payload: &Payload) -> String {
    if payload.is_json() { String::new() } else { payload.content_type().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_types::Timestamp;

    fn spec_from_wire(wire: v1::TaskSpec) -> Result<TaskSpec, WireError> {
        specs_from_wire(vec![wire]).map(|mut specs| specs.remove(0))
    }

    #[test]
    fn a_malformed_message_is_an_error_that_names_the_field() {
        let mut wire = spec_to_wire(&TaskSpec::new(TaskId(9), "noop"));
        wire.id = Bytes::from_static(b"short");
        assert_eq!(
            spec_from_wire(wire.clone()).unwrap_err().to_string(),
            "id has 5 bytes, expected 16"
        );
        wire.id = Bytes::copy_from_slice(&TaskId(1).to_bytes());
        wire.payload = Bytes::from_static(b"{");
        assert_eq!(spec_from_wire(wire.clone()).unwrap_err().field, "payload");
        wire.payload = Bytes::new();
        wire.priority = u32::MAX;
        assert_eq!(
            spec_from_wire(wire.clone()).unwrap_err().to_string(),
            "priority is 4294967295, expected at most 5"
        );
        wire.priority = 9;
        assert!(spec_from_wire(wire.clone()).unwrap().validate().is_err());
        for (run_at_us, deadline_us, field) in
            [(u64::MAX, 0, "run_at_us"), (0, Timestamp::MAX.0 + 1, "deadline_us")]
        {
            let late = v1::TaskSpec { run_at_us, deadline_us, ..wire.clone() };
            assert_eq!(spec_from_wire(late).unwrap_err().field, field);
        }
        let last = v1::TaskSpec { run_at_us: Timestamp::MAX.0, ..wire };
        assert_eq!(spec_from_wire(last).unwrap().run_at, Some(Timestamp::MAX));
    }

    #[test]
    fn payloads_of_a_large_message_do_not_keep_it() {
        let message = Bytes::from(vec![b'7'; 1 << 20]);
        let mut blank = spec_to_wire(&TaskSpec::new(TaskId(9), "noop"));
        blank.content_type = "text/plain".into();
        let (shared, page) = (Pages::SHARED_BYTES_MAX, Pages::PAGE_BYTES);
        let lengths = [2, 0, shared - 1, shared, shared + 1, 5000, 3, page, shared, shared, shared];
        let with = |length| v1::TaskSpec { payload: message.slice(..length), ..blank.clone() };
        let specs = specs_from_wire(lengths.map(with).into()).unwrap();
        for (spec, length) in specs.iter().zip(lengths) {
            assert_eq!(spec.payload.data(), &vec![b'7'; length]);
        }
        assert!(message.try_into_mut().is_ok(), "nobody else holds the message");
        let at = |n: usize| specs[n].payload.data().as_ptr() as usize;
        assert_eq!(at(2), at(0) + 2, "small ones lie side by side");
    }

    #[test]
    fn a_checkpoint_survives_the_wire_and_one_that_is_too_large_does_not() {
        for data in [Payload::json("[3]").unwrap(), Payload::new("image/png", vec![1]).unwrap()] {
            let wire = checkpoint_to_wire(TaskId(4), Token(9), &data);
            assert_eq!(checkpoint_from_wire(wire), Ok((TaskId(4), Token(9), data.clone())));
            assert_eq!(saved_from_wire(saved_to_wire(&data)), data);
        }
        let large = Payload::new("a/b", vec![0; CHECKPOINT_BYTES_MAX + 1]).unwrap();
        let error = checkpoint_from_wire(checkpoint_to_wire(TaskId(4), Token(9), &large));
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with("checkpoint.data is 262145 bytes, at most 262144"), "{text}");
        let broken = v1::Checkpoint { data: Bytes::from_static(b"{"), ..Default::default() };
        assert_eq!(checkpoint_from_wire(broken).unwrap_err().field, "checkpoint.task");
    }
}
