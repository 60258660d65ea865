//! What can be set about the scheduler.

/// Settings. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of this server start; part of every token.
    pub epoch: u64,
    /// Where the random spread of waits starts from.
    pub seed: u64,
    /// A worker that holds tasks and is silent for this long is given up.
    pub lease_ms: u64,
    /// A worker whose connection broke keeps what it holds for this long, or for a lease time if that is shorter.
    pub away_grace_ms: u64,
    /// An attempt that has run for this long is recorded as held, so that a restart leaves it alone.
    pub held_after_ms: u64,
    /// How long a worker has to stop an attempt after it was told to.
    pub stop_grace_ms: u64,
    /// How long a task rests that a handler gave up although nobody asked it to.
    pub give_up_pause_ms: u64,
    /// Ready tasks that are kept in memory.
    pub window_tasks: usize,
    /// Bytes of payload of ready tasks that are kept in memory.
    pub window_bytes: usize,
    /// Bytes that tasks in memory may take before new ones are refused that could not wait in the store: those that
    /// wait for a time, a deadline or other tasks.
    pub open_bytes: usize,
    /// Tasks that are fetched from the store at once for a lane.
    pub lane_load_rows: usize,
    /// Ready tasks that every lane may keep in memory even when the window is full, so that a backlog that nobody
    /// serves cannot shut out the others.
    pub lane_floor_rows: usize,
    /// Timers that one [`crate::Input::TimePassed`] works off; the rest keeps the deadline in the past.
    pub timers_per_step: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch: 1,
            seed: 0,
            lease_ms: 30_000,
            away_grace_ms: 10_000,
            held_after_ms: 2_000,
            stop_grace_ms: 10_000,
            give_up_pause_ms: 1_000,
            window_tasks: 500_000,
            window_bytes: 256 << 20,
            open_bytes: 1 << 30,
            lane_load_rows: 2_000,
            lane_floor_rows: 32,
            timers_per_step: 10_000,
        }
    }
}
