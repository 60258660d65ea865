//! A connection is not a process: what becomes of a worker whose connection broke.
//!
//! Such a worker is *away*. For a grace it keeps all that it holds, and is neither offered nor asked anything. If the
//! same process says hello again, it goes on where it was: nothing is counted and nothing is granted anew, except what
//! it does not announce, which never reached it and is given back. If the grace runs out, or another process of the
//! same name shows up, it has left.
//!
//! A worker that holds nothing has nothing to come back to and leaves at once. One that does not say which process it is
//! cannot be told from another of its name: it takes over attempt by attempt what it announces.

use std::collections::BTreeSet;

use divvy_types::{Seq, Timestamp, Token, WorkerHello, WorkerKey, WorkerTier};

use crate::profile::Profile;
use crate::timers::Timer;
use crate::workers::TierKey;
use crate::{Action, Scheduler};

impl Scheduler {
    pub(crate) fn worker_cut(&mut self, now: Timestamp, key: WorkerKey) {
        let tiers = self.tiers_of(key);
        if tiers.iter().all(|index| self.workers.get(*index).leased == 0) {
            return self.worker_left(now, key);
        }
        if self.is_away(key) {
            return;
        }
        let until = now.plus_ms(self.options.away_grace_ms.min(self.options.lease_ms));
        for index in tiers {
            self.workers.get_mut(index).away_until = Some(until);
            self.stop_offering(index);
        }
        self.timers.add(until, Timer::Away(key));
    }

    /// The grace of a worker that is away ran out.
    pub(crate) fn stayed_away(&mut self, now: Timestamp, key: WorkerKey) {
        if self.is_away(key) {
            self.worker_left(now, key);
        }
    }

    /// Whether a worker that says hello is a process that was here a moment ago; if so, it goes on where it was.
    pub(crate) fn came_back(
        &mut self,
        now: Timestamp,
        new: WorkerKey,
        hello: &WorkerHello<Seq>,
        tiers: &[WorkerTier],
    ) -> bool {
        if hello.instance.is_empty() {
            return false;
        }
        let named: Vec<WorkerKey> = self.workers.named(&hello.name).collect();
        let same_process = |key: &&WorkerKey| {
            self.workers
                .tiers_of(**key)
                .any(|index| self.workers.get(index).instance == hello.instance)
        };
        let Some(old) = named.iter().find(same_process).copied() else {
            // A new process has the name, so the one that had it and is away will not come back.
            for key in named.into_iter().filter(|key| self.is_away(*key)).collect::<Vec<_>>() {
                self.worker_left(now, key);
            }
            return false;
        };
        if !self.offers_the_same(old, hello, tiers) {
            return false;
        }
        if !self.is_away(old) {
            // The end of its old connection was not noticed.
            self.actions.push_back(Action::DropWorker { worker: old });
        }
        self.change_connection(now, old, new);
        self.give_back_unknown(now, new, &hello.held);
        true
    }

    /// Whether the connection of a worker broke, and it may come back.
    pub fn is_away(&self, key: WorkerKey) -> bool {
        self.workers.tiers_of(key).any(|index| self.workers.get(index).away_until.is_some())
    }

    fn offers_the_same(
        &self,
        old: WorkerKey,
        hello: &WorkerHello<Seq>,
        tiers: &[WorkerTier],
    ) -> bool {
        let indices = self.tiers_of(old);
        indices.len() == tiers.len()
            && indices.iter().zip(tiers).all(|(index, tier)| {
                let worker = self.workers.get(*index);
                (worker.credit, worker.slots) == (tier.credit, tier.slots)
                    && self.workers.group(worker.group).profile == Profile::of(hello, tier)
            })
    }

    /// Lets a worker go on over another connection, with all that it holds.
    fn change_connection(&mut self, now: Timestamp, old: WorkerKey, new: WorkerKey) {
        self.recalls_follow(old, new);
        for index in self.tiers_of(old) {
            let tier = self.workers.get(index).key.tier;
            let key = TierKey { worker: new, tier };
            self.workers.rename_key(index, key);
            let worker = self.workers.get_mut(index);
            worker.seen_at = now;
            if let Some(until) = worker.away_until.take() {
                self.timers.remove(until, Timer::Away(old));
            }
            // Timers are by the key of the connection.
            worker.lease_timer = worker.leased > 0;
            if worker.lease_timer {
                self.timers.add(now.plus_ms(self.options.lease_ms), Timer::Lease(key));
            }
            let young =
                worker.young.front().map(|note| note.at.plus_ms(self.options.held_after_ms));
            worker.held_timer = young.is_some();
            if let Some(due) = young {
                self.timers.add(due, Timer::Held(key));
            }
            if !worker.is_resting() {
                self.offer_again(index);
            }
        }
    }

    pub(crate) fn offer_again(&mut self, index: u32) {
        self.workers.activate(index);
        let group = self.workers.get(index).group;
        if self.workers.group(group).active.len() == 1 {
            self.activity_began(group);
        }
        self.mark_worker(index);
    }

    /// Gives back what a worker that came back does not know of: the grant was lost with the connection.
    fn give_back_unknown(&mut self, now: Timestamp, key: WorkerKey, held: &[(Seq, Token)]) {
        let known: BTreeSet<Token> = held.iter().map(|(_, token)| *token).collect();
        for index in self.tiers_of(key) {
            for note in self.leases_of(index) {
                if known.contains(&note.token) {
                    continue;
                }
                if self.tasks[note.row].stopping {
                    self.cancel_stopped(now, note.row);
                } else {
                    self.give_back(now, note.row);
                }
            }
        }
    }
}
