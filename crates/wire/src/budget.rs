//! How much memory submissions that wait for the engine may take together.
//!
//! A batch may be 32 MiB and a stream may have many in flight; without a common bound a few callers could fill the
//! memory long before the engine's channel is full. A batch waits for room before the next one is read.

use std::sync::Arc;
use std::time::Duration;

use divvy_engine::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for all submissions together, in KiB.
const ROOM_KIB: u32 = 256 << 10;
/// What a task takes besides its payload, in bytes; an estimate.
const TASK_BYTES: usize = 512;
/// How long a batch waits for room before its caller is told to slow down.
const PATIENCE: Duration = Duration::from_secs(5);
/// What that caller should wait.
const RETRY_AFTER_MS: u64 = 1_000;

/// Room that is taken by batches and given back when they are answered.
#[derive(Clone)]
pub struct Budget {
    room: Arc<Semaphore>,
    patience: Duration,
}

/// A batch's share; dropping it gives it back.
pub struct Share(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Default for Budget {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM_KIB as usize)), patience: PATIENCE }
    }
}

impl Budget {
    /// Waits for room for a batch of that many tasks with that much payload.
    pub async fn take(&self, tasks: usize, payload_bytes: usize) -> Result<Share, Error> {
        let kib = tasks.saturating_mul(TASK_BYTES).saturating_add(payload_bytes) >> 10;
        let kib = u32::try_from(kib).unwrap_or(ROOM_KIB).clamp(1, ROOM_KIB);
        let permit =
            tokio::time::timeout(self.patience, Arc::clone(&self.room).acquire_many_owned(kib))
                .await;
        match permit {
            Ok(Ok(permit)) => Ok(Share(permit)),
            Ok(Err(_)) => Err(Error::Stopping),
            Err(_) => Err(Error::Overloaded { retry_after_ms: RETRY_AFTER_MS }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_budget_refuses_after_a_while_and_a_dropped_share_makes_room() {
        let budget = Budget { patience: Duration::from_millis(10), ..Budget::default() };
        let all = budget.take(1, usize::MAX >> 1).await.unwrap();
        assert!(matches!(budget.take(1, 0).await, Err(Error::Overloaded { .. })));
        drop(all);
        assert!(budget.take(1, 0).await.is_ok());
    }
}
