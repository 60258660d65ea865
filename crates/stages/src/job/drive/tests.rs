//! A world of tasks that die, stall and are repeated, and a driver that is restarted at any moment; seeded.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;

/// A task as the server knows it.
#[derive(Clone, Debug, PartialEq)]
enum Task {
    Waits,
    Runs { since: u64, needs: u64 },
    Done { took: u64 },
    Failed { lost: bool },
    Cancelled,
}

impl Task {
    fn is_final(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed { .. } | Self::Cancelled)
    }

    fn fate(&self) -> Fate {
        match self {
            Self::Waits => Fate::Waits,
            Self::Runs { .. } => Fate::Runs,
            Self::Done { took } => Fate::Done { took_ms: *took },
            Self::Failed { lost } => Fate::Failed { why: "no".into(), lost: *lost },
            Self::Cancelled => Fate::Cancelled,
        }
    }
}

struct World {
    random: Rng,
    tasks: BTreeMap<TaskName, Task>,
    drive: Drive,
    parts: u32,
    now: u64,
    runs_of_done: u32,
    twins: u32,
    end: Option<Action>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let parts = random.u32(1..12);
        Self {
            random,
            tasks: BTreeMap::new(),
            drive: Drive::begin(parts, true),
            parts,
            now: 0,
            runs_of_done: 0,
            twins: 0,
            end: None,
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.drive.poll_action() {
            assert!(self.end.is_none(), "nothing follows the end: {action:?}");
            match action {
                Action::Submit(names) => {
                    for name in names {
                        self.twins += name.twin;
                        self.tasks.entry(name).or_insert(Task::Waits);
                    }
                }
                Action::Cancel(name) => {
                    let task = self.tasks.get_mut(&name).expect("only what is there is cancelled");
                    if !task.is_final() {
                        *task = Task::Cancelled;
                    }
                }
                Action::PutBack(name) => {
                    assert_eq!(self.tasks[&name], Task::Failed { lost: true });
                    self.tasks.insert(name, Task::Waits);
                }
                end => self.end = Some(end),
            }
        }
    }

    /// Something happens to a task, and usually the driver hears of it.
    fn happen(&mut self) {
        let open: Vec<TaskName> =
            self.tasks.iter().filter(|(_, task)| !task.is_final()).map(|(name, _)| *name).collect();
        if open.is_empty() {
            return;
        }
        let name = open[self.random.usize(..open.len())];
        let is_done = self
            .tasks
            .iter()
            .any(|(other, task)| other.part == name.part && matches!(task, Task::Done { .. }));
        let next = match self.tasks[&name] {
            Task::Waits => {
                self.runs_of_done += u32::from(is_done);
                let slow = self.random.u32(..8) == 0;
                let needs = if slow { 60_000 } else { self.random.u64(100..2_000) };
                Task::Runs { since: self.now, needs }
            }
            Task::Runs { .. } if self.random.u32(..10) == 0 => Task::Failed { lost: true },
            Task::Runs { .. } if self.random.u32(..10) == 0 => Task::Waits,
            Task::Runs { since, needs } if self.now - since >= needs => {
                Task::Done { took: self.now - since }
            }
            ref same => same.clone(),
        };
        self.tasks.insert(name, next.clone());
        if self.random.u32(..4) > 0 {
            self.drive.handle(name, next.fate(), self.now);
            self.act();
        }
    }

    /// The slow look that finds what was not heard; after a restart it is all that there is.
    fn look(&mut self) {
        let all: Vec<(TaskName, Fate)> =
            self.tasks.iter().map(|(name, task)| (*name, task.fate())).collect();
        for (name, fate) in all.iter().rev() {
            self.drive.handle(*name, fate.clone(), self.now);
        }
        self.act();
    }

    fn restart(&mut self) {
        self.drive = Drive::begin(self.parts, true);
        self.act();
        self.look();
    }
}

#[test]
fn every_stage_ends_once_with_winners_that_are_done_whatever_happens() {
    let mut twins = 0;
    for seed in 0..400 {
        let mut world = World::new(seed);
        world.act();
        for _ in 0..20_000 {
            if world.end.is_some() {
                break;
            }
            world.now += world.random.u64(..200);
            match world.random.u32(..100) {
                0 => world.restart(),
                1..=5 => world.look(),
                6..=15 => {
                    world.drive.tick(world.now);
                    world.act();
                }
                _ => world.happen(),
            }
        }
        let Some(Action::Done(winners)) = &world.end else {
            panic!("seed {seed} ended with {:?}", world.end)
        };
        assert_eq!(winners.len(), world.parts as usize);
        for (part, twin) in (0..).zip(winners) {
            let winner = &world.tasks[&TaskName { part, twin: *twin }];
            assert!(matches!(winner, Task::Done { .. }), "seed {seed}: {part} {winner:?}");
        }
        twins += world.twins;
        world.drive.handle(TaskName { part: 0, twin: 0 }, Fate::Cancelled, world.now);
        assert_eq!(world.drive.poll_action(), None, "nothing is heard after the end");
    }
    assert!(twins > 50, "slow parts got twins: {twins}");
}

fn name(part: u32, twin: u32) -> TaskName {
    TaskName { part, twin }
}

fn begun(parts: u32) -> Drive {
    let mut drive = Drive::begin(parts, true);
    assert!(
        matches!(drive.poll_action(), Some(Action::Submit(names)) if names.len() == parts as usize)
    );
    drive
}

#[test]
fn a_part_that_runs_twice_as_long_as_the_median_gets_one_twin_and_the_first_wins() {
    let mut drive = begun(4);
    for part in 0..4 {
        drive.handle(name(part, 0), Fate::Runs, 0);
    }
    drive.handle(name(0, 0), Fate::Done { took_ms: 4_000 }, 4_000);
    drive.tick(60_000);
    assert_eq!(drive.poll_action(), None, "less than half is done");
    drive.handle(name(1, 0), Fate::Done { took_ms: 6_000 }, 6_000);
    drive.tick(12_000);
    assert_eq!(drive.poll_action(), None, "not longer than twice the median");
    drive.tick(12_001);
    assert_eq!(drive.poll_action(), Some(Action::Submit(vec![name(2, 1), name(3, 1)])));
    drive.tick(99_000);
    assert_eq!(drive.poll_action(), None, "one twin is enough");
    drive.handle(name(2, 1), Fate::Done { took_ms: 1 }, 13_000);
    assert_eq!(drive.poll_action(), Some(Action::Cancel(name(2, 0))));
    drive.handle(name(2, 0), Fate::Cancelled, 13_001);
    drive.handle(name(3, 0), Fate::Failed { why: "bad".into(), lost: false }, 13_002);
    assert_eq!(drive.poll_action(), None, "its twin may do it");
    drive.handle(name(3, 1), Fate::Done { took_ms: 9 }, 14_000);
    assert_eq!(drive.poll_action(), Some(Action::Done(vec![0, 0, 1, 1])));
}

#[test]
fn a_part_that_cannot_be_done_ends_the_job_and_stops_the_others() {
    let mut drive = begun(2);
    drive.handle(name(0, 0), Fate::Failed { why: "line 3".into(), lost: false }, 5);
    assert_eq!(drive.poll_action(), Some(Action::Cancel(name(1, 0))));
    assert_eq!(drive.poll_action(), Some(Action::Fail { part: 0, why: "line 3".into() }));
    drive.handle(name(1, 0), Fate::Done { took_ms: 1 }, 6);
    assert_eq!(drive.poll_action(), None);
}

#[test]
fn a_task_that_somebody_cancelled_cancels_the_job() {
    let mut drive = begun(2);
    drive.handle(name(1, 0), Fate::Cancelled, 5);
    assert_eq!(drive.poll_action(), Some(Action::Cancel(name(0, 0))));
    assert_eq!(drive.poll_action(), Some(Action::Cancelled));
}
