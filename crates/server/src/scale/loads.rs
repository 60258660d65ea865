//! What workers say of their machines: how much of the processors and of the memory is in use.
//!
//! A worker says it with its heartbeats, so only while it holds tasks; one that holds nothing uses nothing. Workers that
//! cannot tell, such as older ones, are left out, and where none tells, a pool goes by its slots. Workers beside the
//! server share one machine: how full that is says nothing about whether more of them would help, so nobody asks them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use divvy_proto::v1::MachineLoad;
use divvy_types::Name;

use super::sampling::Member;

/// What was said longer ago is out of date; a worker says it every ten seconds.
const FRESH: Duration = Duration::from_secs(45);

/// What workers said last.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<BTreeMap<Name, (Instant, MachineLoad)>>);

/// The mean of those who told, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) cpu: Option<f64>,
    pub(crate) memory: Option<f64>,
}

impl Loads {
    /// A worker said something.
    pub(crate) fn note(&self, worker: &Name, now: Instant, load: MachineLoad) {
        self.told().insert(worker.clone(), (now, load));
    }

    /// A worker is gone.
    pub(crate) fn forget(&self, worker: &Name) {
        self.told().remove(worker);
    }

    /// What these workers use.
    pub(crate) fn of(&self, members: &[Member], now: Instant) -> Used {
        let told = self.told();
        let (mut cpu, mut memory) = (Vec::new(), Vec::new());
        for member in members.iter().filter(|one| !one.draining && !one.paused) {
            let Some((at, load)) = told.get(&member.name) else { continue };
            let fresh = now.saturating_duration_since(*at) <= FRESH;
            let idle = member.running + member.queued == 0;
            cpu.extend(if idle { load.cpu.map(|_| 0.0) } else { load.cpu.filter(|_| fresh) });
            memory.extend(load.memory.filter(|_| fresh));
        }
        Used { cpu: mean(&cpu), memory: mean(&memory) }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<Name, (Instant, MachineLoad)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mean of what is a share; who sends other numbers is not believed.
fn mean(shares: &[f32]) -> Option<f64> {
    let sound: Vec<f64> = shares
        .iter()
        .filter(|share| share.is_finite())
        .map(|share| share.clamp(0.0, 1.0).into())
        .collect();
    (!sound.is_empty()).then(|| sound.iter().sum::<f64>() / sound.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::member;
    use super::*;

    #[test]
    fn the_mean_is_over_those_who_told_and_idle_ones_use_nothing() {
        let (loads, now) = (Loads::default(), Instant::now());
        let load = |cpu, memory| MachineLoad { cpu: Some(cpu), memory: Some(memory) };
        let all = [("a", 1), ("b", 1), ("idle", 0), ("old", 3)]
            .map(|(name, running)| member(name, running, 0));
        assert_eq!(loads.of(&all, now), Used::default(), "nobody has told anything");
        loads.note(&"a".into(), now, load(0.75, 0.5));
        loads.note(&"b".into(), now, load(0.75, 0.25));
        loads.note(&"idle".into(), now, load(0.9, 0.75));
        assert_eq!(loads.of(&all, now), Used { cpu: Some(0.5), memory: Some(0.5) });
        let later = now + FRESH + Duration::from_secs(1);
        loads.note(&"a".into(), later, MachineLoad { cpu: Some(f32::NAN), memory: None });
        assert_eq!(loads.of(&all, later), Used { cpu: Some(0.0), memory: None });
        loads.forget(&"idle".into());
        assert_eq!(loads.of(&all, later), Used::default());
    }
}
