//! What a worker is and offers: its name, its server, its slots. Checked once, at [`crate::Worker::new`].

use std::time::Duration;

use divvy_client::Target;
use divvy_pool::{Tier, WORKERS_MAX};
use divvy_types::Name;
use divvy_types::limits::{CAPABILITY_LEN_MAX, CREDIT_MAX, QUEUE_LEN_MAX};
use divvy_types::spec::check_name;

use crate::Error;

/// Characters of a worker's name.
const NAME_LEN_MAX: usize = 128;

/// Slots of a tier that runs on threads, each on its own.
pub(crate) const THREADS_MAX: u32 = WORKERS_MAX as u32;

/// How a worker presents itself and how much it takes.
#[derive(Clone, Debug)]
pub struct Options {
    /// What people call it.
    pub name: Name,
    /// Where the server is, such as `http://127.0.0.1:7171`, and what is shown to it.
    pub target: Target,
    /// Queues that it serves; none means all.
    pub queues: Vec<Name>,
    /// What it has, for tasks that need it.
    pub capabilities: Vec<Name>,
    /// How many attempts run at once on each tier.
    pub slots: Slots,
    /// Tasks that each tier takes beyond its slots, so that the next one is at hand when a slot becomes free; as many as
    /// it has slots, if nothing is said. They are not lost to others while they wait: the server recalls them for a worker
    /// that is idle. 0 is for tasks so long that the trip to the server does not matter.
    pub prefetch: Option<u32>,
    /// How long a drain waits for what runs before it stops it.
    pub drain_timeout: Duration,
}

impl Options {
    /// The options of a worker with this name and server, every other at its default.
    pub fn new(name: impl Into<Name>, target: impl Into<Target>) -> Self {
        let slots = Slots::default();
        Self {
            name: name.into(),
            target: target.into(),
            queues: Vec::new(),
            capabilities: Vec::new(),
            slots,
            prefetch: None,
            drain_timeout: Duration::from_secs(30),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        check("name", &self.name, NAME_LEN_MAX)?;
        for queue in &self.queues {
            check("queues", queue, QUEUE_LEN_MAX)?;
        }
        for capability in &self.capabilities {
            check("capabilities", capability, CAPABILITY_LEN_MAX)?;
        }
        if self.slots.total() == 0 {
            return Err(Error::option("slots", "are all 0; give at least one tier a slot"));
        }
        if self.slots.total() > CREDIT_MAX {
            return Err(Error::option(
                "slots",
                format!("are {} in all, at most {CREDIT_MAX}", self.slots.total()),
            ));
        }
        Ok(())
    }
}

fn check(field: &'static str, name: &str, len_max: usize) -> Result<(), Error> {
    check_name(field, name, len_max).map_err(|error| {
        let text = error.to_string();
        Error::option(field, text.strip_prefix(field).map_or(text.as_str(), str::trim_start))
    })
}

/// How many attempts run at once on each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Futures on the async runtime.
    pub async_: u32,
    /// Threads that may block, at most 1,024.
    pub blocking: u32,
    /// Threads that compute, at most 1,024.
    pub cpu: u32,
    /// Child processes.
    pub process: u32,
}

impl Default for Slots {
    fn default() -> Self {
        let cores = std::thread::available_parallelism()
            .map_or(1, |cores| cores.get().min(THREADS_MAX as usize) as u32);
        Self {
            async_: cores * 16,
            blocking: (cores * 4).min(THREADS_MAX),
            cpu: cores,
            process: cores,
        }
    }
}

impl Slots {
    /// The slots of all tiers together.
    pub fn total(&self) -> u32 {
        Tier::ALL.into_iter().fold(0, |sum, tier| self.of(tier).saturating_add(sum))
    }

    /// The slots of one tier.
    pub fn of(&self, tier: Tier) -> u32 {
        match tier {
            Tier::Async => self.async_,
            Tier::Blocking => self.blocking,
            Tier::Cpu => self.cpu,
            Tier::Process => self.process,
        }
    }
}
