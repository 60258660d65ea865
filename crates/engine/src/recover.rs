//! From the store to a core that may work: everything submitted and not final is open again.

use std::collections::BTreeSet;
use std::sync::Arc;

use divvy_scheduler::{Input, Options as SchedulerOptions, Scheduler};
use divvy_store::{OpenTask, Recovered, SpilledLane, Store};
use divvy_types::{Fact, Member, Name, Seq, Settings, Timestamp};

use crate::core::{Core, Known};
use crate::locate::SETTLED_LOOK_MAX;
use crate::request::Error;
use crate::runner::Options;
use crate::settings;
use crate::stats::Stats;
use crate::unique::Holder;

#[derive(Default)]
struct Found {
    paused: Vec<Name>,
    settings: Option<Name>,
    keys: Vec<(Name, Holder)>,
    open: Vec<OpenTask>,
    lanes: Vec<SpilledLane>,
    members: Vec<(Member, u64)>,
}

impl Core {
    /// A core that knows all open tasks of the store.
    pub fn recover(
        store: &mut dyn Store,
        options: &Options,
        stats: Arc<Stats>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let scheduler = Scheduler::new(SchedulerOptions {
            epoch: store.epoch(),
            seed: now.0 ^ store.epoch(),
            lease_ms: options.lease_ms,
            away_grace_ms: options.away_grace_ms,
            window_tasks: options.window_tasks,
            window_bytes: options.window_bytes,
            open_bytes: options.open_bytes,
            ..SchedulerOptions::default()
        });
        let mut core = Self::new(scheduler, store.reader()?, stats);
        core.set_now(now);
        let mut found = Found::default();
        store.recover(&mut |recovered| match recovered {
            Recovered::PausedQueue(queue) => found.paused.push(queue),
            Recovered::Setting { key, value } => {
                if key == settings::KEY {
                    found.settings = Some(value);
                } else if !core.scheduler.recover_limit(&key, &value) {
                    core.schedules.recover(&key, &value);
                }
            }
            Recovered::UniqueKey { key, task, seq, open, until, .. } => {
                found.keys.push((key, Holder { task, seq, until, open }));
            }
            Recovered::Open(task) => found.open.push(task),
            Recovered::Spilled(lane) => found.lanes.push(lane),
            Recovered::SpilledMembers { member, count } => found.members.push((member, count)),
            Recovered::End { last_seq, last_ordered_id } => {
                core.last_seq = last_seq;
                core.last_ordered_id = last_ordered_id.unwrap_or(core.last_ordered_id);
            }
        })?;
        core.take_settings(options.settings.as_ref(), found.settings.take())?;
        core.take_over(found)?;
        Ok(core)
    }

    /// Before everything else, so that every task meets the settings that hold.
    fn take_settings(
        &mut self,
        given: Option<&Settings>,
        stored: Option<Name>,
    ) -> Result<(), Error> {
        let settings = match (given, stored) {
            (Some(given), _) => {
                given.check()?;
                given.clone()
            }
            (None, Some(text)) => settings::from_text(&text)?,
            (None, None) => return Ok(()),
        };
        self.feed(Input::SettingsChanged(Box::new(settings)));
        Ok(())
    }

    fn take_over(&mut self, found: Found) -> Result<(), Error> {
        for queue in found.paused {
            self.feed(Input::QueuePaused { queue, paused: true });
        }
        // The store knows these already.
        self.group.facts.retain(|fact| !matches!(fact, Fact::QueuePaused { .. }));
        let now = self.now;
        for (key, holder) in found.keys.into_iter().filter(|(_, holder)| holder.holds(now)) {
            self.keys.put(key, holder);
        }
        self.ids.reserve(found.open.len());
        for task in &found.open {
            self.ids.insert(task.spec.id, Known::open(task.seq));
        }
        self.recover_settling(&found.open)?;
        self.recover_workflows(&found.open, found.members)?;
        for task in found.open {
            let task = self.admit_stored(task)?;
            self.feed(Input::TaskRecovered(task));
        }
        for SpilledLane { lane, count, sample } in found.lanes {
            self.feed(Input::LaneRecovered { lane, count, sample });
        }
        self.feed(Input::RecoveryEnded);
        self.schedules.recovered(self.now);
        Ok(())
    }

    /// Finished tasks whose children are open still keep their dependents waiting, and so do their own spawners.
    fn recover_settling(&mut self, open: &[OpenTask]) -> Result<(), Error> {
        let mut seen: BTreeSet<Seq> = BTreeSet::new();
        for task in open {
            let mut next = task.spawned_by;
            while let Some(seq) = next {
                if !seen.insert(seq) {
                    break;
                }
                let Some(record) = self.reader.get(seq)? else { break };
                next = record.spawned_by;
                if record.outcome.is_some() {
                    self.ids.insert(record.spec.id, Known::open(seq));
                    let family = self.reader.upstream(&[seq], SETTLED_LOOK_MAX, 0)?.ends;
                    let failed =
                        family.iter().any(|member| member.spawned && member.state.is_failure());
                    let (task, spawned_by) = (record.spec.id, record.spawned_by);
                    let member = record.spec.member();
                    self.feed(Input::SettlingRecovered { seq, task, failed, spawned_by, member });
                }
            }
        }
        Ok(())
    }
}
