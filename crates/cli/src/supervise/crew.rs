//! All worker processes: who is there, who is too many, who is missing.
//!
//! A pool that wants fewer lets those go first that it names, and of others the newest. One that wants more gets new
//! ones: who leaves does not come back. A worker of a pool that ended because someone drained it is replaced after a
//! moment; one that the command line asked for stays down. A pool that comes to have other kinds, queues, capabilities or
//! slots gets new workers for all that it has, because a worker says what it runs when it connects.

use std::collections::BTreeMap;
use std::time::Duration;

use divvy_server::{LocalOrder, LocalWorkers};
use divvy_types::Name;
use divvy_types::pools::LOCAL_SLOTS_MAX;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::guard::Guard;
use super::{Plan, Wish, ask, further};
use crate::values::SlotCounts;

/// The rest before a worker that ended is replaced, so that one that cannot stay does not come and go without end.
const REPLACED_AFTER: Duration = Duration::from_secs(1);
/// Tasks that mostly wait, and those that block a thread, for each slot.
const ASYNC_PER_SLOT: u32 = 64;
const BLOCKING_PER_SLOT: u32 = 4;
/// Threads of one tier.
const THREADS_MAX: u32 = 1_024;
/// What workers are called that belong to no pool.
const STAYING: &str = "local";

/// All worker processes.
pub(super) struct Crew {
    plan: Plan,
    local: LocalWorkers,
    give_up: mpsc::Sender<String>,
    guards: JoinSet<String>,
    members: BTreeMap<String, Member>,
    /// Counts starts, to know who is newest.
    starts: u64,
}

impl Plan {
    /// The same for a worker of a pool.
    fn for_pool(mut self, pool: &Name, worker_type: &Name, order: &LocalOrder) -> Self {
        let words = |names: &[Name]| names.iter().map(ToString::to_string).collect();
        self.kinds = words(&order.kinds);
        if !order.queues.is_empty() {
            self.queues = words(&order.queues);
        }
        self.capabilities.extend(order.capabilities.iter().map(ToString::to_string));
        self.capabilities.extend([format!("pool={pool}"), format!("type={worker_type}")]);
        if let Some(slots) = order.slots.get(worker_type) {
            self.usual_slots = slots_of(*slots);
        }
        self
    }
}

/// What a worker runs at once that has so many slots: as many tasks that compute or are programs, and more of those that
/// mostly wait.
pub(crate) fn slots_of(slots: u32) -> SlotCounts {
    let slots = slots.min(LOCAL_SLOTS_MAX);
    let blocking = slots * BLOCKING_PER_SLOT;
    SlotCounts {
        async_: Some(slots * ASYNC_PER_SLOT),
        blocking: Some(blocking.min(THREADS_MAX)),
        cpu: Some(slots),
        process: Some(slots),
    }
}

struct Member {
    /// The pool and the type; nothing for those that stay.
    of: Option<(Name, Name)>,
    /// How it was started.
    plan: Plan,
    wish: watch::Sender<Wish>,
    started: u64,
}

impl Member {
    fn is_leaving(&self) -> bool {
        *self.wish.borrow() > Wish::GoOn
    }
}

impl Crew {
    pub(super) fn new(plan: Plan, local: LocalWorkers, give_up: mpsc::Sender<String>) -> Self {
        Self { plan, local, give_up, guards: JoinSet::new(), members: BTreeMap::new(), starts: 0 }
    }

    /// Keeps as many as are wanted until it is asked to end; then until all have.
    pub(super) async fn run(mut self, staying: u32, mut wish: watch::Receiver<Wish>) {
        let mut orders = self.local.orders();
        (0..staying).for_each(|_| self.add(None, self.plan.clone()));
        loop {
            let placed = orders.borrow_and_update().clone();
            self.obey(&placed);
            tokio::select! {
                changed = orders.changed() => if changed.is_err() { return },
                ended = self.guards.join_next(), if !self.guards.is_empty() => {
                    let replaced = ended.is_some_and(|ended| self.ended(ended.ok()));
                    if replaced {
                        tokio::time::sleep(REPLACED_AFTER).await;
                    }
                }
                _ = further(&mut wish, Wish::GoOn) => return self.end(wish).await,
            }
        }
    }

    /// Passes on what is asked of all until none is left.
    async fn end(mut self, mut wish: watch::Receiver<Wish>) {
        let mut asked = Wish::GoOn;
        loop {
            tokio::select! {
                more = further(&mut wish, asked) => {
                    asked = more;
                    self.members.values().for_each(|member| ask(&member.wish, asked));
                }
                ended = self.guards.join_next() => match ended {
                    Some(ended) => drop(self.ended(ended.ok())),
                    None => return,
                },
            }
        }
    }

    /// Starts who is missing, lets go who is too many, and tells who is there.
    fn obey(&mut self, orders: &BTreeMap<Name, LocalOrder>) {
        let is_wanted = |pool: &Name, worker_type: &Name| {
            orders.get(pool).is_some_and(|order| order.wanted.contains_key(worker_type))
        };
        let gone: Vec<String> = self
            .staying(|pool, worker_type| !is_wanted(pool, worker_type))
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().for_each(|name| self.let_go(name));
        for (pool, order) in orders {
            for (worker_type, wanted) in &order.wanted {
                self.bring_to(pool, worker_type, *wanted as usize, order);
            }
            let there = order.wanted.keys().map(|worker_type| {
                (worker_type.clone(), self.names(pool, worker_type).len() as u32)
            });
            self.local.tell(pool, there.collect());
        }
    }

    fn bring_to(&mut self, pool: &Name, worker_type: &Name, wanted: usize, order: &LocalOrder) {
        let plan = self.plan.clone().for_pool(pool, worker_type, order);
        let outdated: Vec<String> = self
            .staying(|other, its_type| other == pool && its_type == worker_type)
            .filter(|(_, member)| member.plan != plan)
            .map(|(name, _)| name.clone())
            .collect();
        outdated.iter().for_each(|name| self.let_go(name));
        let names = self.names(pool, worker_type);
        for _ in names.len()..wanted {
            self.add(Some((pool.clone(), worker_type.clone())), plan.clone());
        }
        let first = order.leave_first.get(worker_type).map(Vec::as_slice).unwrap_or_default();
        let mut leaving: Vec<String> =
            first.iter().map(ToString::to_string).filter(|name| names.contains(name)).collect();
        // Who has not connected yet has nothing to do: it goes before all who have.
        let fresh = names.iter().rev().filter(|name| !leaving.contains(name)).cloned();
        leaving = fresh.collect::<Vec<_>>().into_iter().chain(leaving).collect();
        for name in leaving.iter().take(names.len().saturating_sub(wanted)) {
            self.let_go(name);
        }
    }

    /// Names of a pool and type, oldest first, without those that leave.
    fn names(&self, pool: &Name, worker_type: &Name) -> Vec<String> {
        let mut members: Vec<(u64, &String)> = self
            .staying(|other, its_type| other == pool && its_type == worker_type)
            .map(|(name, member)| (member.started, name))
            .collect();
        members.sort_unstable();
        members.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Members of pools that do not leave.
    fn staying(
        &self,
        belongs: impl Fn(&Name, &Name) -> bool,
    ) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, member)| {
            let of = member.of.as_ref();
            !member.is_leaving() && of.is_some_and(|(pool, worker_type)| belongs(pool, worker_type))
        })
    }

    fn add(&mut self, of: Option<(Name, Name)>, plan: Plan) {
        let prefix = of.as_ref().map_or(STAYING, |(pool, _)| pool.as_str());
        let name = (1..)
            .map(|number: u64| format!("{prefix}-{number}"))
            .find(|name| !self.members.contains_key(name))
            .unwrap_or_default();
        let wish = watch::Sender::new(Wish::GoOn);
        let is_replaced = of.is_some();
        let guard =
            Guard { plan: plan.clone(), name: name.clone(), is_replaced, wish: wish.subscribe() };
        self.starts += 1;
        self.members.insert(name.clone(), Member { of, plan, wish, started: self.starts });
        let give_up = self.give_up.clone();
        self.guards.spawn(async move {
            if let Err(error) = guard.run().await {
                // Only the first reason is told; the others would say the same.
                let _ = give_up.try_send(format!("{error:#}"));
            }
            name
        });
    }

    fn let_go(&mut self, name: &str) {
        if let Some(member) = self.members.get(name) {
            ask(&member.wish, Wish::Leave);
        }
    }

    /// A worker has ended for good; whether another one is to take its place.
    fn ended(&mut self, name: Option<String>) -> bool {
        let member = name.and_then(|name| self.members.remove(&name));
        member.is_some_and(|member| member.of.is_some() && !member.is_leaving())
    }
}

#[cfg(test)]
mod tests {
    use divvy_types::limits::CREDIT_MAX;

    use super::*;

    fn plan() -> Plan {
        Plan {
            program: "divvy".into(),
            arguments: Vec::new(),
            asked_slots: SlotCounts { process: Some(3), ..SlotCounts::default() },
            usual_slots: slots_of(1),
            kinds: Vec::new(),
            queues: vec!["mail".into()],
            capabilities: vec!["gpu".into()],
            hidden: Vec::new(),
            token: None,
            log: None,
        }
    }

    #[test]
    fn workers_of_a_pool_run_its_kinds_on_the_slots_of_their_type() {
        let order = LocalOrder {
            kinds: vec!["video.encode".into(), "sleep".into()],
            slots: [("large".into(), 4)].into(),
            ..LocalOrder::default()
        };
        let of = |worker_type: &str| plan().for_pool(&"p".into(), &worker_type.into(), &order);
        let large = of("large");
        assert_eq!(
            (large.kinds, large.queues),
            (vec!["video.encode".into(), "sleep".into()], plan().queues)
        );
        assert_eq!(large.capabilities, ["gpu", "pool=p", "type=large"]);
        let slots = large.asked_slots.or(large.usual_slots).to_string();
        assert_eq!(slots, "async=256,blocking=16,cpu=4,process=3", "what people asked for stays");
        let plain = of("worker");
        assert_eq!(plain.usual_slots, plan().usual_slots, "the pool lists no such type");
    }

    #[test]
    fn a_type_of_any_size_is_a_worker_that_can_be_started() {
        for slots in [1, 64, LOCAL_SLOTS_MAX, u32::MAX] {
            let counts = slots_of(slots);
            let all = [counts.async_, counts.blocking, counts.cpu, counts.process];
            let total: u32 = all.into_iter().flatten().sum();
            assert!(total <= CREDIT_MAX, "{counts}");
            assert!([counts.blocking, counts.cpu].iter().all(|count| *count <= Some(THREADS_MAX)));
        }
    }
}
