//! What processes use: the time of a whole tree of processes, and how well it fills the cores.

use std::fs;
use std::time::Duration;

use divvy_workload::private::rounded;

/// Ticks that Linux counts per second, for every process.
const TICKS_PER_S: f64 = 100.0;
/// Processes deeper in the tree than this are not ours.
const DEPTH_MAX: u32 = 16;

/// Seconds on processors of a process, its ended children, and all that descend from it now.
pub(super) fn tree_cpu_s(pid: u32) -> f64 {
    fn add(pid: u32, depth: u32) -> f64 {
        // One that has just ended is counted with its parent from now on.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
        let below: f64 = if depth < DEPTH_MAX {
            children(pid).into_iter().map(|child| add(child, depth + 1)).sum()
        } else {
            0.0
        };
        ticks(&stat) as f64 / TICKS_PER_S + below
    }
    add(pid, 0)
}

/// User and system time of a process and of those that it has waited for.
fn ticks(stat: &str) -> u64 {
    // The name in brackets may contain spaces; the figures follow it.
    let figures = stat.rsplit(')').next().unwrap_or_default();
    let fields = figures.split_whitespace().skip(11).take(4);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .collect::<Vec<_>>();
    lists
        .iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// What was seen at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// When, from the beginning.
    pub(super) at: Duration,
    /// Seconds on processors so far.
    pub(super) cpu_s: f64,
    /// Tasks that run or could.
    pub(super) runnable: u64,
}

/// The share of `width` cores that was used while there was enough to do for all of them: at both ends of each step.
/// Nothing if there never was.
pub(super) fn utilisation(looks: &[Look], width: u64) -> Option<f64> {
    let (mut used, mut wall) = (0.0, 0.0);
    for pair in looks.windows(2) {
        if pair.iter().all(|look| look.runnable >= width) {
            used += (pair[1].cpu_s - pair[0].cpu_s).max(0.0);
            wall += (pair[1].at - pair[0].at).as_secs_f64();
        }
    }
    (wall > 0.0).then(|| rounded(used / (wall * width as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_counts_and_a_strange_name_does_not_disturb() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 200 0 0 30 12 5 3 20 0 1 0 100";
        assert_eq!(ticks(stat), 50);
        assert_eq!(ticks(""), 0);
    }

    #[test]
    fn this_very_process_has_used_some_time() {
        let begin = std::time::Instant::now();
        // Not for a fixed time: on a busy machine this one may hardly run meanwhile.
        while tree_cpu_s(std::process::id()) == 0.0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing was counted");
        }
    }

    #[test]
    fn only_steps_with_enough_to_do_count() {
        let look = |ms, cpu_s, runnable| Look { at: Duration::from_millis(ms), cpu_s, runnable };
        let looks =
            [look(0, 0.0, 0), look(1_000, 0.1, 4), look(2_000, 2.0, 2), look(3_000, 2.5, 1)];
        assert_eq!(utilisation(&looks, 2), Some(0.95));
        assert_eq!(utilisation(&looks[..2], 2), None);
        assert_eq!(utilisation(&[], 2), None);
    }
}
