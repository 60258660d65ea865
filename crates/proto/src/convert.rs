//! Specs and upstream results, to the wire and back.

use bytes::Bytes;
use divvy_types::payload::InvalidPayload;
use divvy_types::spec::{DEFAULT_PRIORITY, DEFAULT_QUEUE};
use divvy_types::view::Upstream;
use divvy_types::{
    Dependency, Name, Payload, RetryPolicy, TaskId, TaskSpec, TaskState, Timestamp, Workflow,
    WorkflowId, WorkflowRole,
};

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

/// Reads a spec; zero and empty fields get their defaults.
pub fn spec_from_wire(mut wire: v1::TaskSpec) -> Result<TaskSpec, WireError> {
    let payload =
        payload_from_wire("payload", &wire.content_type, std::mem::take(&mut wire.payload))?;
    Ok(TaskSpec { payload, ..granted_spec_from_wire(wire)? })
}

/// Reads a spec that a server sends, which checked the payload when it took it.
pub fn granted_spec_from_wire(wire: v1::TaskSpec) -> Result<TaskSpec, WireError> {
    let mut spec = TaskSpec::new(task_id("id", &wire.id)?, wire.kind);
    spec.queue =
        if wire.queue.is_empty() { Name::const_new(DEFAULT_QUEUE) } else { wire.queue.into() };
    spec.payload = Payload::trusted(&wire.content_type, wire.payload);
    spec.priority = match wire.priority {
        0 => DEFAULT_PRIORITY,
        given => u8::try_from(given).unwrap_or(u8::MAX),
    };
    spec.needs = wire.needs.into_iter().map(Name::from).collect();
    spec.after = wire
        .after
        .iter()
        .map(|edge| {
            Ok(Dependency { task: task_id("after.task", &edge.task)?, optional: edge.optional })
        })
        .collect::<Result<_, WireError>>()?;
    spec.run_at = (wire.run_at_us != 0).then_some(Timestamp(wire.run_at_us));
    spec.timeout_ms = (wire.timeout_ms != 0).then_some(wire.timeout_ms);
    if let Some(retry) = wire.retry {
        spec.retry = RetryPolicy {
            limit: retry.limit,
            base_ms: retry.base_ms,
            cap_ms: retry.cap_ms,
            jitter_percent: u8::try_from(retry.jitter_percent).unwrap_or(u8::MAX),
            rules: Vec::new(),
        };
    }
    if let Some(workflow) = wire.workflow {
        let id = WorkflowId::from_slice(&workflow.id);
        let id = id.ok_or_else(|| WireError::new("workflow.id", "is not 16 bytes"))?;
        spec.workflow =
            Some(Box::new(Workflow { id, name: workflow.name.into(), role: WorkflowRole::Member }));
    }
    Ok(spec)
}

/// Writes a spec; defaults are left out.
pub fn spec_to_wire(spec: &TaskSpec) -> v1::TaskSpec {
    let queue = if spec.queue == DEFAULT_QUEUE { String::new() } else { spec.queue.to_string() };
    v1::TaskSpec {
        id: Bytes::copy_from_slice(&spec.id.to_bytes()),
        kind: spec.kind.to_string(),
        queue,
        payload: spec.payload.data().clone(),
        content_type: content_type_to_wire(&spec.payload),
        priority: if spec.priority == DEFAULT_PRIORITY { 0 } else { spec.priority.into() },
        needs: spec.needs.iter().map(Name::to_string).collect(),
        after: spec
            .after
            .iter()
            .map(|e| v1::Dependency {
                task: Bytes::copy_from_slice(&e.task.to_bytes()),
                optional: e.optional,
            })
            .collect(),
        run_at_us: spec.run_at.map_or(0, |at| at.0),
        timeout_ms: spec.timeout_ms.unwrap_or(0),
        retry: (spec.retry != RetryPolicy::default()).then(|| v1::RetryPolicy {
            limit: spec.retry.limit,
            base_ms: spec.retry.base_ms,
            cap_ms: spec.retry.cap_ms,
            jitter_percent: spec.retry.jitter_percent.into(),
        }),
        workflow: spec.workflow.as_deref().map(|workflow| v1::Workflow {
            id: Bytes::copy_from_slice(&workflow.id.to_bytes()),
            name: workflow.name.to_string(),
        }),
    }
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

    #[test]
    fn a_spec_survives_the_wire() {
        let mut spec = TaskSpec::new(TaskId(9), "video.probe");
        assert_eq!(spec_from_wire(spec_to_wire(&spec)).unwrap(), spec);
        spec.queue = "video".into();
        spec.payload = Payload::new("image/png", vec![1, 2, 3]).unwrap();
        spec.priority = 5;
        spec.needs = vec!["gpu".into()];
        spec.after = vec![Dependency { task: TaskId(1), optional: true }];
        spec.run_at = Some(Timestamp(77));
        spec.timeout_ms = Some(5);
        spec.retry.limit = 0;
        spec.workflow = Some(Box::new(Workflow {
            id: WorkflowId(3),
            name: "clip".into(),
            role: WorkflowRole::Member,
        }));
        assert_eq!(spec_from_wire(spec_to_wire(&spec)).unwrap(), spec);
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
        wire.priority = 900;
        assert!(spec_from_wire(wire).unwrap().validate().is_err());
    }
}
