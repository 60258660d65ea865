//! Tasks of an ordinary size.

use divvy_types::{Payload, TaskId, TaskSpec};

/// A payload of the size that queues usually carry.
const PAYLOAD: &str = r#"{"user":"0198c0de-7a3b-7cc1-9e55-3f2a1b0c9d8e","action":"resize","source":"uploads/2026/11/15/IMG_2041.jpg","width":1280,"height":720,"format":"webp","quality":82,"notify":["mail","push"]}"#;

/// New tasks with time-ordered ids.
pub fn tasks(count: usize) -> Vec<TaskSpec> {
    let payload = Payload::json(PAYLOAD).unwrap_or_default();
    (0..count)
        .map(|_| {
            let mut spec = TaskSpec::new(TaskId(uuid::Uuid::now_v7().as_u128()), "noop");
            spec.payload = payload.clone();
            spec
        })
        .collect()
}
