//! Commits, and links that come from and go to other shards.

use divvy_frontier::address::Address;
use divvy_frontier::frontier::Discovery;
use futures_util::StreamExt as _;

use super::visit::Done;
use super::{Owner, ShardError, link_of};
use crate::folder::inbox::{self, Travelling};
use crate::output::Unsynced;
use crate::store::Batch;

/// Links of one batch.
const BATCH_LINKS_MAX: usize = 1_000;
/// Addresses that are due and taken in at once.
const DUE_MAX: u32 = 1_000;

impl Owner {
    /// Makes everything durable that happened since the last commit, and then sends links on.
    pub(super) async fn commit(&mut self) -> Result<(), ShardError> {
        self.settle_asks()?;
        let mut batch = std::mem::take(&mut self.batch);
        batch.changes = self.frontier.changes();
        for (to, links) in std::mem::take(&mut self.outbox) {
            // What came of an errand may be large, and travels alone.
            let parts = links.chunk_by(|one, next| !one.is_large() && !next.is_large());
            for part in parts.flat_map(|part| part.chunks(BATCH_LINKS_MAX)) {
                let bytes = serde_json::to_vec(part)
                    .map_err(|error| ShardError::system("write down links", &error))?;
                batch.outgoing.push((to, bytes));
            }
        }
        let is_empty = batch.changes.is_empty()
            && batch.pages.is_empty()
            && batch.robots.is_empty()
            && batch.outgoing.is_empty()
            && batch.received.is_empty()
            && batch.sent.is_empty()
            && batch.notes.is_empty();
        (self.batch_since, self.batch_pages) = (None, 0);
        if is_empty {
            return Ok(());
        }
        for (name, count) in [("dead", self.dead), ("retries", self.retries)] {
            batch.notes.push((name.to_owned(), count.to_string().into_bytes()));
        }
        let totals = serde_json::to_vec(&self.totals)
            .map_err(|error| ShardError::system("write down counters", &error))?;
        batch.notes.push(("totals".to_owned(), totals));
        let lost = self.frontier.seen().losses();
        batch.notes.push(("lost".to_owned(), lost.to_string().into_bytes()));
        let outputs = self.writer.commit()?;
        let (batch, numbers, came) = self.write_down(batch, outputs).await?;
        self.next_due = self.file().next_due()?;
        self.outputs = batch.outputs.iter().cloned().collect();
        for (from, number) in &batch.received {
            self.received.insert(*from, *number);
        }
        self.taken.drain(..).for_each(|waiting| waiting.remove());
        for ((to, bytes), number) in batch.outgoing.iter().zip(numbers) {
            self.send(*to, number, bytes)?;
        }
        came.into_iter().try_for_each(|done| self.take_in(done))
    }

    /// Commits on a thread that may wait for the disk. What comes from hosts meanwhile is read, or it would seem late, and
    /// is part of the next batch.
    async fn write_down(
        &mut self,
        mut batch: Batch,
        outputs: Unsynced,
    ) -> Result<(Batch, Vec<u64>, Vec<Done>), ShardError> {
        let Some(mut file) = self.file.take() else {
            return Err(ShardError::system("commit", &"the last commit did not end"));
        };
        let mut writing = tokio::task::spawn_blocking(move || {
            let numbers = outputs.sync().map_err(ShardError::from).and_then(|lengths| {
                batch.outputs = lengths.into_iter().collect();
                Ok(file.commit(&batch)?)
            });
            (file, batch, numbers)
        });
        let mut came = Vec::new();
        let (file, batch, numbers) = loop {
            tokio::select! {
                written = &mut writing => {
                    break written.map_err(|error| ShardError::system("commit", &error))?;
                }
                Some(done) = self.visits.next(), if !self.visits.is_empty() => came.push(done),
            }
        };
        self.file = Some(file);
        Ok((batch, numbers?, came))
    }

    fn send(&mut self, to: u32, number: u64, bytes: &[u8]) -> Result<(), ShardError> {
        let links: Vec<Travelling> = serde_json::from_slice(bytes)
            .map_err(|error| ShardError::system("read links that were written down", &error))?;
        inbox::send(&self.folder.inbox(to), self.place.shard, number, &links)?;
        self.sent.insert(to, number);
        self.batch.sent.push((to, number));
        Ok(())
    }

    /// Sends what the last owner committed and perhaps did not send.
    pub(super) fn send_again(&mut self) -> Result<(), ShardError> {
        for outgoing in self.file().unsent()? {
            self.send(outgoing.to, outgoing.number, &outgoing.bytes)?;
        }
        Ok(())
    }

    /// Asks the store about links that the filter could not tell from known ones.
    fn settle_asks(&mut self) -> Result<(), ShardError> {
        let asks = std::mem::take(&mut self.asks);
        if asks.is_empty() {
            return Ok(());
        }
        let known: Vec<(Address, Travelling)> =
            asks.into_iter().filter_map(|ask| Some((ask.url.parse().ok()?, ask))).collect();
        let prints: Vec<u64> = known
            .iter()
            .map(|(address, ask)| self.frontier.fingerprint(&link_of(address, ask)))
            .collect();
        let found = self.file().contains(&prints)?;
        let now_ms = self.clock.now_ms();
        for ((address, ask), is_known) in known.iter().zip(found) {
            let link = link_of(address, ask);
            if is_known {
                self.frontier.dismiss(&link);
                self.totals.refuse("seen");
            } else if let Discovery::Refused(why) = self.frontier.admit(now_ms, &link) {
                self.refused(why);
            }
        }
        Ok(())
    }

    /// Takes in what others sent.
    pub(super) fn read_inbox(&mut self) -> Result<(), ShardError> {
        for waiting in inbox::look(&self.folder.inbox(self.place.shard))? {
            let uncommitted =
                self.batch.received.iter().rev().find(|(from, _)| *from == waiting.from);
            let last = uncommitted
                .map(|(_, number)| *number)
                .or_else(|| self.received.get(&waiting.from).copied())
                .unwrap_or(0);
            if waiting.seq <= last {
                // It is known; unless its commit is still to come, it may go.
                if uncommitted.is_none() {
                    waiting.remove();
                }
                continue;
            }
            // One before it is missing: its sender will send it again.
            if waiting.seq != last + 1 {
                continue;
            }
            for link in waiting.read()? {
                if let Some(word) = link.word {
                    self.take_word(&link.url, word)?;
                } else if let Ok(address) = link.url.parse::<Address>() {
                    self.offer(&address, &link_of(&address, &link));
                }
            }
            self.batch.received.push((waiting.from, waiting.seq));
            self.batch_since.get_or_insert_with(tokio::time::Instant::now);
            self.taken.push(waiting);
        }
        Ok(())
    }

    /// Queues what is due again.
    pub(super) async fn take_due(&mut self) -> Result<(), ShardError> {
        let now_ms = self.clock.now_ms();
        if self.next_due.is_none_or(|due| due > now_ms) {
            return Ok(());
        }
        for later in self.file().due(now_ms, DUE_MAX)? {
            self.frontier.again(&later);
        }
        self.commit().await
    }
}
