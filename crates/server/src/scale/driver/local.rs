//! Processes on this machine. `divvy up` starts and ends them; here is only the desk over which it is told what is
//! wanted and tells what there is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_autoscale::Wanted;
use divvy_types::Name;
use tokio::sync::watch;

use super::{Answer, Order};

/// What is wanted of the local workers of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalOrder {
    /// Workers by type.
    pub wanted: Wanted,
    /// Who should go first if some have to.
    pub leave_first: BTreeMap<Name, Vec<Name>>,
    /// Kinds that they run; none means every kind.
    pub kinds: Vec<Name>,
    /// Queues that they serve; none means all.
    pub queues: Vec<Name>,
    /// What they have.
    pub capabilities: Vec<Name>,
    /// Tasks that a worker runs at once, by type; nothing if the pool lists no types.
    pub slots: BTreeMap<Name, u32>,
}

/// The desk between a server and whoever runs worker processes beside it; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LocalWorkers(Arc<Desk>);

#[derive(Debug, Default)]
struct Desk {
    orders: watch::Sender<BTreeMap<Name, LocalOrder>>,
    there: Mutex<BTreeMap<Name, Wanted>>,
}

impl LocalWorkers {
    /// What is wanted, from now on, by the names of pools.
    pub fn orders(&self) -> watch::Receiver<BTreeMap<Name, LocalOrder>> {
        self.0.orders.subscribe()
    }

    /// Tells how many workers of a pool there are by type, without those that leave.
    pub fn tell(&self, pool: &Name, there: Wanted) {
        self.there().insert(pool.clone(), there);
    }

    pub(super) fn order(&self, order: Order) -> Answer {
        if self.0.orders.receiver_count() == 0 {
            return Err("this server starts no local workers; start it with `divvy up`, or give the pool another driver".to_owned());
        }
        let Order { pool, settings, wanted, leave_first, .. } = order;
        let placed = LocalOrder {
            wanted: wanted.clone(),
            leave_first,
            kinds: settings.kinds,
            queues: settings.queues,
            capabilities: settings.capabilities,
            slots: settings.types.iter().map(|one| (one.name.clone(), one.slots)).collect(),
        };
        self.0.orders.send_if_modified(|orders| {
            let same = orders.get(&pool) == Some(&placed);
            orders.insert(pool.clone(), placed);
            !same
        });
        // What was asked for just now is as good as there; whether it comes is seen by who connects.
        Ok(self.there().get(&pool).cloned().unwrap_or(wanted))
    }

    /// Forgets pools that are not there any more: their workers leave.
    pub(crate) fn keep_only(&self, is_there: impl Fn(&Name) -> bool) {
        self.0.orders.send_if_modified(|orders| {
            let before = orders.len();
            orders.retain(|pool, _| is_there(pool));
            orders.len() != before
        });
    }

    fn there(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Wanted>> {
        self.0.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
