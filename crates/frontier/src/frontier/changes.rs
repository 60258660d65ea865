//! What must be made durable, and how a frontier is made again from it.

use super::host::Place;
use super::{Changes, Damaged, Frontier, HostRecord};
use crate::rules::Rules;
use crate::rules::priority::BANDS;
use crate::seen::Seen;

impl Frontier {
    /// What must be made durable since it was last asked. If it cannot be, the frontier is ahead of the store and must
    /// be made again from it.
    pub fn changes(&mut self) -> Changes {
        let pending = std::mem::take(&mut self.pending);
        let mut changes = Changes {
            // What came and was taken already need not be written.
            blocks: pending
                .blocks
                .into_values()
                .filter(|block| {
                    let queues = self.hosts[block.host].queues;
                    let (head, _) = queues.numbers(&self.pieces, block.band);
                    block.first + block.count > head
                })
                .collect(),
            fingerprints: pending.fingerprints.into_iter().collect(),
            later: pending.later.into_values().collect(),
            not_later: pending.not_later.into_iter().collect(),
            ..Changes::default()
        };
        let mut dirty = pending.dirty;
        dirty.sort_unstable();
        for number in dirty {
            let host = &mut self.hosts[number];
            host.is_dirty = false;
            let consumed = std::mem::take(&mut host.consumed);
            let taken = (0..BANDS as u8).filter(|band| consumed & 1 << band != 0);
            let head = |band| host.queues.numbers(&self.pieces, band).0;
            changes.consumed.extend(taken.map(|band| (number, band, head(band))));
            if consumed != 0 {
                host.queues.settle(&mut self.pieces);
            }
            let host = &self.hosts[number];
            changes.hosts.push(HostRecord {
                id: number,
                name: self.name_of(number).to_owned(),
                domain: self.names.get(self.groups[host.group].name).to_owned(),
                state: self.pack(number),
            });
        }
        changes
    }

    /// A frontier as it was when these records were committed; they come in the order of their numbers. If the last
    /// owner did not close cleanly, every host waits a whole gap from now. `seen` must hold all fingerprints that were
    /// committed.
    pub fn restore(
        rules: Rules,
        seen: Seen,
        salt: u64,
        seed: u64,
        hosts: impl IntoIterator<Item = HostRecord>,
        was_clean: bool,
        now_ms: u64,
    ) -> Result<Self, Damaged> {
        let mut frontier = Self::new(rules, seen, salt, seed);
        for record in hosts {
            frontier.restore_host(&record, was_clean, now_ms)?;
        }
        for number in 0..frontier.hosts.len() as u32 {
            frontier.schedule(number);
        }
        Ok(frontier)
    }

    fn restore_host(
        &mut self,
        record: &HostRecord,
        was_clean: bool,
        now_ms: u64,
    ) -> Result<(), Damaged> {
        let damaged = |problem| Damaged { subject: format!("host {}", record.name), problem };
        if record.name.len() > super::HOST_BYTES_MAX || record.domain.len() > super::HOST_BYTES_MAX
        {
            return Err(damaged("its name is too long"));
        }
        if record.id as usize != self.hosts.len() || self.find(&record.name).is_some() {
            return Err(damaged("hosts are missing or there twice"));
        }
        let number = self.intern(now_ms, &record.name, &record.domain);
        self.unpack(&record.state, &record.name, number)?;
        debug_assert_eq!(self.hosts[number].place, Place::None);
        let group = self.hosts[number].group;
        self.groups[group].used = self.groups[group].used.saturating_add(self.hosts[number].used);
        self.pages += u64::from(self.hosts[number].pages);
        // A clock that was set back must not keep a host waiting for longer than its gap or the longest rest.
        let latest_ms = now_ms.saturating_add(self.gap_ms(number));
        let rest_ms = self.rules.retry.retry_after_ms_max.max(self.rules.retry.cap_ms);
        let host = &mut self.hosts[number];
        let rest_ms = now_ms.saturating_add(rest_ms);
        if host.rare().rest_until_ms.max(host.rare().open_until_ms) > rest_ms {
            host.change(|rare| {
                rare.rest_until_ms = rare.rest_until_ms.min(rest_ms);
                rare.open_until_ms = rare.open_until_ms.min(rest_ms);
            });
        }
        let next_at_ms = if was_clean { host.next_at_ms.min(latest_ms) } else { latest_ms };
        host.next_at_ms = next_at_ms;
        let lead = self.lead(number);
        self.hosts[lead].next_at_ms = self.hosts[lead].next_at_ms.max(next_at_ms);
        Ok(())
    }
}
