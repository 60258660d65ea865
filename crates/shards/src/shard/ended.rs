//! When a crawl is over: nothing is left in any shard, and nothing is on its way between two of them.
//!
//! Every shard shows how many batches it has sent to and received from each other one. If all are idle and all numbers agree,
//! no shard can become busy again by itself: it would have to get a batch that somebody has sent and it has not received.
//! This is looked at twice, because a shard is read while the next one may change (compare F. Mattern, *Algorithms for
//! distributed termination detection*, 1987: four counters).

use std::collections::BTreeMap;

use divvy_workload::files::read_json;

use super::{Owner, ShardError};
use crate::folder::inbox::{self, SERVER};
use crate::folder::status::{ShardState, ShardStatus};

/// A status that is older belongs to a shard that nobody owns now.
const STALE_MS: u64 = 5_000;
/// How often in a row all must be seen at their end.
const LOOKS: u32 = 2;

impl Owner {
    /// Whether there is nothing to do here until others send something.
    pub(super) fn is_idle(&self) -> Result<bool, ShardError> {
        let is_quiet = self.visits.is_empty()
            && self.asks.is_empty()
            && self.outbox.is_empty()
            && self.batch_since.is_none()
            && self.frontier.is_done();
        Ok(is_quiet
            && self.next_due.is_none()
            && inbox::look(&self.folder.inbox(self.place.shard))?.is_empty())
    }

    /// Whether the whole crawl is over, as seen from here.
    pub(super) fn all_have_ended(&mut self, is_idle: bool) -> Result<bool, ShardError> {
        let statuses = self.others()?;
        if let Some(max) = self.spec.rules.max_pages {
            let pages: u64 = statuses
                .iter()
                .filter(|status| status.shard != self.place.shard)
                .map(|status| status.totals.pages)
                .sum();
            if pages + self.totals.pages >= max && self.visits.is_empty() {
                self.is_full = true;
                return Ok(true);
            }
            if is_idle && let Some(budget) = &mut self.budget {
                budget.give_back(self.totals.pages)?;
            }
        }
        let is_over = is_idle && self.spec.rules.recrawl_ms.is_none() && self.agree(&statuses);
        self.ends_seen = if is_over { self.ends_seen + 1 } else { 0 };
        Ok(self.ends_seen >= LOOKS)
    }

    /// Whether another shard has work and nobody who does it.
    pub(super) fn does_another_wait(&self) -> bool {
        let Ok(statuses) = self.others() else { return false };
        let now_ms = self.clock.now_ms();
        statuses.iter().any(|status| {
            status.shard != self.place.shard
                && status.at_ms + STALE_MS < now_ms
                && matches!(status.state, ShardState::New | ShardState::Working)
        })
    }

    fn others(&self) -> Result<Vec<ShardStatus>, ShardError> {
        let mut statuses = Vec::with_capacity(self.spec.rules.shards as usize);
        for shard in 0..self.spec.rules.shards {
            let shown = read_json::<ShardStatus>(&self.folder.status(shard))?;
            statuses.push(shown.unwrap_or_else(|| ShardStatus { shard, ..ShardStatus::default() }));
        }
        Ok(statuses)
    }

    /// Whether all are at rest and nothing is between them. What was sent to a shard that has ended is for the next round,
    /// which the server begins then.
    fn agree(&self, statuses: &[ShardStatus]) -> bool {
        let has_ended = |status: &ShardStatus| status.state == ShardState::Done;
        let at_rest = statuses.iter().all(|status| {
            let is_idle =
                status.state == ShardState::Idle && status.control == self.control.version;
            (is_idle || has_ended(status)) && status.round == self.place.round
        });
        let count = |of: &BTreeMap<u32, u64>, who: u32| of.get(&who).copied().unwrap_or(0);
        let has_all = |to: &ShardStatus| {
            count(&to.received, SERVER) == count(&self.control.sent, to.shard)
                && statuses
                    .iter()
                    .all(|from| count(&from.sent, to.shard) == count(&to.received, from.shard))
        };
        at_rest && statuses.iter().all(|to| has_ended(to) || has_all(to))
    }
}
