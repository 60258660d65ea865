//! How much of the machine is in use, for whoever decides how many workers there should be.
//!
//! Linux tells it in files. Where the worker is in a container with a limit of its own, that of the container counts,
//! else that of the machine. What cannot be read is not told, and elsewhere than on Linux nothing is.

use std::time::{Duration, Instant};

use divvy_proto::v1::MachineLoad;

/// The files of a control group (version 2), as a container sees its own.
const GROUP: &str = "/sys/fs/cgroup";
/// What was noted so lately is good enough to measure from.
const RECENT: Duration = Duration::from_secs(1);

/// Remembers what was used before: use of processors is only known over a time.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    before: Option<(Instant, Spent)>,
}

/// Processor time so far, of the machine or of the group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spent {
    /// Ticks of all processors: in use, and in all.
    Machine { used: u64, all: u64 },
    /// Microseconds, and of how many processors the group may use.
    Group { used_us: u64, processors: f64 },
}

impl Machine {
    /// Notes what was used so far, unless that was done a moment ago: a worker that is given one short task after the
    /// other reads no file for each.
    pub(crate) fn begin(&mut self, now: Instant) {
        let is_recent = |then: Instant| now.saturating_duration_since(then) < RECENT;
        if !self.before.is_some_and(|(then, _)| is_recent(then)) {
            self.look(now);
        }
    }

    /// What is in use now, since the last look; nothing if nothing can be told.
    pub(crate) fn look(&mut self, now: Instant) -> Option<MachineLoad> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let group = |file: &str| read(&format!("{GROUP}/{file}"));
        let spent = of_group(&group("cpu.max"), &group("cpu.stat"))
            .or_else(|| of_machine(&read("/proc/stat")));
        let before = spent.and_then(|spent| self.before.replace((now, spent)));
        let cpu = before.zip(spent).and_then(|((then, before), spent)| {
            share(before, spent, now.saturating_duration_since(then).as_secs_f64())
        });
        let memory =
            memory_of_group(&group("memory.max"), &group("memory.current"), &group("memory.stat"))
                .or_else(|| memory_of_machine(&read("/proc/meminfo")));
        (cpu.is_some() || memory.is_some()).then_some(MachineLoad { cpu, memory })
    }
}

/// The share of the processors that was in use between two looks.
fn share(before: Spent, after: Spent, seconds: f64) -> Option<f32> {
    let share = match (before, after) {
        (Spent::Machine { used: u1, all: a1 }, Spent::Machine { used: u2, all: a2 }) => {
            u2.checked_sub(u1)? as f64 / a2.checked_sub(a1).filter(|all| *all > 0)? as f64
        }
        (Spent::Group { used_us: u1, .. }, Spent::Group { used_us: u2, processors }) => {
            u2.checked_sub(u1)? as f64 / 1e6 / (seconds * processors)
        }
        _ => return None,
    };
    share.is_finite().then(|| share.clamp(0.0, 1.0) as f32)
}

/// What a group with a limit has used, from its `cpu.max` and `cpu.stat`.
fn of_group(max: &str, stat: &str) -> Option<Spent> {
    let (quota, period) = max.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    let processors = (period > 0.0 && quota > 0.0).then(|| quota / period)?;
    Some(Spent::Group { used_us: field(stat, "usage_usec")?, processors })
}

/// What the machine has used, from the first line of `/proc/stat`: user, nice, system, idle, iowait and so on.
fn of_machine(stat: &str) -> Option<Spent> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = ticks.map(|tick| tick.parse().unwrap_or(0)).collect();
    let idle: u64 = ticks.get(3..5)?.iter().sum();
    // Time of guests is in that of users too.
    let all: u64 = ticks.iter().take(8).sum();
    Some(Spent::Machine { used: all.checked_sub(idle)?, all })
}

/// What a group with a limit uses of it; what files keep there only until it is needed does not count.
fn memory_of_group(max: &str, current: &str, stat: &str) -> Option<f32> {
    let max: f64 = max.trim().parse().ok().filter(|max| *max > 0.0)?;
    let current: u64 = current.trim().parse().ok()?;
    let used = current.saturating_sub(field(stat, "inactive_file").unwrap_or(0));
    Some((used as f64 / max).clamp(0.0, 1.0) as f32)
}

fn memory_of_machine(meminfo: &str) -> Option<f32> {
    let all = field(meminfo, "MemTotal:").filter(|all| *all > 0)?;
    let free = field(meminfo, "MemAvailable:")?.min(all);
    Some(((all - free) as f64 / all as f64) as f32)
}

/// The number after a word at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next()? == name).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_a_machine_is_what_is_not_idle() {
        let before = of_machine("cpu  100 0 50 800 50 0 0 0 30 0\ncpu0 1 2 3\n").unwrap();
        let after = of_machine("cpu  160 0 60 820 60 0 0 0 30 0\n").unwrap();
        assert_eq!(before, Spent::Machine { used: 150, all: 1_000 });
        assert_eq!(share(before, after, 1.0), Some(0.7));
        assert_eq!(share(after, before, 1.0), None, "counters do not go back");
        assert_eq!(share(after, after, 1.0), None);
        assert_eq!(of_machine("intr 1 2"), None);
        let meminfo = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    250 kB\n";
        assert_eq!(memory_of_machine(meminfo), Some(0.75));
        assert_eq!(memory_of_machine(""), None);
    }

    #[test]
    fn the_use_of_a_container_is_of_what_it_may_use() {
        let of = |stat: &str| of_group("200000 100000\n", stat).unwrap();
        let (before, after) = (of("usage_usec 1000000\nuser_usec 1\n"), of("usage_usec 4000000\n"));
        assert_eq!(share(before, after, 2.0), Some(0.75), "3 s of 2 processors in 2 s");
        assert_eq!(of_group("max 100000", "usage_usec 5"), None, "without a limit");
        let stat = "anon 5\ninactive_file 100\n";
        assert_eq!(memory_of_group("1000\n", "600\n", stat), Some(0.5));
        assert_eq!(memory_of_group("max\n", "600\n", stat), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_tells_something() {
        let mut machine = Machine::default();
        let load = machine.look(Instant::now()).unwrap();
        assert!(load.memory.is_some_and(|memory| memory > 0.0 && memory <= 1.0), "{load:?}");
        assert_eq!(load.cpu, None, "nothing is known over no time");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn short_tasks_in_a_row_are_measured_from_one_beginning() {
        let (mut machine, now) = (Machine::default(), Instant::now());
        let noted = |machine: &Machine| machine.before.map(|(then, _)| then);
        machine.begin(now);
        machine.begin(now + RECENT / 2);
        assert_eq!(noted(&machine), Some(now));
        machine.begin(now + RECENT);
        assert_eq!(noted(&machine), Some(now + RECENT));
    }
}
