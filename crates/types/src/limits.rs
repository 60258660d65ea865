//! The named limits: how large anything from outside may be. Each is checked in one place, [`crate::spec`],
//! except where its line says otherwise. Those of a task's terms stand beside them.

pub use crate::terms::limits::*;

/// Characters of a task kind.
pub const KIND_LEN_MAX: usize = 128;
/// Characters of a queue name.
pub const QUEUE_LEN_MAX: usize = 128;
/// Characters of a capability name.
pub const CAPABILITY_LEN_MAX: usize = 128;
/// Characters of the name of a worker, checked where it introduces itself.
pub const WORKER_NAME_LEN_MAX: usize = 128;
/// Unique keys in use at once, checked where tasks are taken in.
pub const UNIQUE_KEYS_MAX: usize = 1_000_000;
/// Rules of one retry policy.
pub const RETRY_RULES_MAX: usize = 16;
/// Bytes of the text that a retry rule looks for.
pub const RULE_TEXT_LEN_MAX: usize = 256;
/// Bytes of a checkpoint, checked where it arrives.
pub const CHECKPOINT_BYTES_MAX: usize = 256 << 10;
/// Dependencies of all tasks of one batch together.
pub const BATCH_EDGES_MAX: usize = 100_000;
/// Tasks of one batch that are named as expected to be late; more are only counted.
pub const LATE_LISTED_MAX: usize = 100;
/// Tasks in one batch.
pub const BATCH_TASKS_MAX: usize = 10_000;
/// Bytes of a payload.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// Bytes of a result, checked where reports arrive.
pub const RESULT_BYTES_MAX: usize = 1 << 20;
/// Levels of nesting of a JSON payload.
pub const JSON_DEPTH_MAX: usize = 128;
/// Characters of a content type.
pub const CONTENT_TYPE_LEN_MAX: usize = 128;
/// Characters of a workflow's name.
pub const WORKFLOW_NAME_LEN_MAX: usize = 256;
/// Retries of one task.
pub const RETRY_LIMIT_MAX: u32 = 1_000;
/// The longest wait between two attempts: 30 days.
pub const RETRY_WAIT_MS_MAX: u64 = 30 * 86_400_000;
/// Bytes of an error message that are kept; longer ones are cut where they arrive.
pub const ERROR_BYTES_MAX: usize = 8 << 10;
/// Bytes of an attempt's log that are kept: its end.
pub const LOG_BYTES_MAX: usize = 64 << 10;
/// Children that one finish may spawn.
pub const SPAWNED_MAX: usize = BATCH_TASKS_MAX;
/// Bytes of a finish with its result and children: it travels in one message, beside its log.
pub const FINISH_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;
/// Results of dependencies that travel with one grant; a grant that would carry more says that it was cut.
pub const UPSTREAM_ROWS_MAX: usize = 10_000;
/// Bytes of those results together.
pub const UPSTREAM_BYTES_MAX: usize = 16 << 20;
/// Bytes of one request body or gRPC message, checked at the edges.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Rows of one page, checked at the edges.
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Workflows that one filter may name: their ids stand in an address.
pub const SELECT_WORKFLOWS_MAX: usize = 100;
/// Slots that one worker may offer.
pub const CREDIT_MAX: u32 = 65_536;
/// Schedules of one server, checked in the engine like the other limits of schedules.
pub const SCHEDULES_MAX: usize = 1_000;
/// Characters of a schedule's name.
pub const SCHEDULE_NAME_LEN_MAX: usize = 128;
/// Bytes of the payload of a schedule, which is kept in memory.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Missed ticks that a schedule makes up for: the newest ones.
pub const CATCH_UP_MAX: usize = 1_000;
/// The longest jitter of a schedule: an hour.
pub const JITTER_MS_MAX: u64 = 3_600_000;
