//! How far event time has come: nothing earlier is waited for any more.
//!
//! The watermark of a partition is its latest event minus the lateness that is allowed; that of the stream is the
//! least of all partitions. A partition that has been silent for the idle time is left out until it speaks again, and
//! one that has ended for ever; so neither holds the others up. While no partition counts, the watermark stands still,
//! and once all have ended it is at the end of time. It never goes back.

use serde::{Deserialize, Serialize};

/// The watermarks of all partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermarks {
    lateness_ms: i64,
    idle_after_ms: Option<u64>,
    partitions: Vec<Partition>,
    current: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Partition {
    latest_ms: Option<i64>,
    heard_at_ms: u64,
    has_ended: bool,
}

impl Watermarks {
    /// No partitions yet. Without an idle time a silent partition holds all others.
    pub fn new(lateness_ms: i64, idle_after_ms: Option<u64>) -> Self {
        Self { lateness_ms, idle_after_ms, partitions: Vec::new(), current: i64::MIN }
    }

    /// Counts one partition more, from now on; its number.
    pub fn join(&mut self, now_ms: u64) -> usize {
        self.partitions.push(Partition { heard_at_ms: now_ms, ..Partition::default() });
        self.partitions.len() - 1
    }

    /// A partition had an event.
    #[inline]
    pub fn observe(&mut self, partition: usize, time_ms: i64, now_ms: u64) {
        let partition = &mut self.partitions[partition];
        partition.latest_ms =
            Some(partition.latest_ms.map_or(time_ms, |latest| latest.max(time_ms)));
        partition.heard_at_ms = now_ms;
    }

    /// A partition will have no further event.
    pub fn end(&mut self, partition: usize) {
        self.partitions[partition].has_ended = true;
    }

    /// Everybody was asleep until now; nobody's silence so far counts.
    pub fn wake(&mut self, now_ms: u64) {
        for partition in &mut self.partitions {
            partition.heard_at_ms = now_ms;
        }
    }

    /// Partitions that are silent for too long.
    pub fn idle(&self, now_ms: u64) -> usize {
        self.partitions.iter().filter(|each| !each.has_ended && self.is_idle(each, now_ms)).count()
    }

    /// The watermark at this time of the clock.
    pub fn current(&mut self, now_ms: u64) -> i64 {
        if !self.partitions.is_empty() && self.partitions.iter().all(|each| each.has_ended) {
            self.current = i64::MAX;
            return self.current;
        }
        let counted =
            self.partitions.iter().filter(|each| !each.has_ended && !self.is_idle(each, now_ms));
        // A partition without events says nothing, and that is no time at all.
        let least = counted
            .map(|each| {
                each.latest_ms.map_or(i64::MIN, |latest| latest.saturating_sub(self.lateness_ms))
            })
            .min();
        if let Some(least) = least {
            self.current = self.current.max(least);
        }
        self.current
    }

    fn is_idle(&self, partition: &Partition, now_ms: u64) -> bool {
        self.idle_after_ms
            .is_some_and(|after| now_ms.saturating_sub(partition.heard_at_ms) >= after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_partition_decides_until_it_is_idle_or_has_ended() {
        let mut marks = Watermarks::new(5, Some(100));
        let (a, b) = (marks.join(0), marks.join(0));
        marks.observe(a, 50, 10);
        assert_eq!(marks.current(10), i64::MIN, "the other one has not said anything");
        marks.observe(b, 20, 10);
        assert_eq!(marks.current(10), 15);
        marks.observe(a, 90, 105);
        assert_eq!((marks.current(109), marks.idle(109)), (15, 0));
        assert_eq!((marks.current(110), marks.idle(110)), (85, 1), "the silent one is left out");
        marks.observe(b, 30, 111);
        assert_eq!(marks.current(111), 85, "it never goes back");
        assert_eq!(marks.current(500), 85, "when all are silent it stands still");
        marks.observe(a, 200, 501);
        marks.observe(b, 100, 501);
        assert_eq!(marks.current(501), 95);
        marks.end(b);
        assert_eq!(marks.current(501), 195);
        marks.end(a);
        assert_eq!(marks.current(501), i64::MAX);
    }

    #[test]
    fn without_an_idle_time_a_silent_partition_holds_for_ever() {
        let mut marks = Watermarks::new(0, None);
        let (a, _) = (marks.join(0), marks.join(0));
        marks.observe(a, 10, 0);
        assert_eq!(marks.current(u64::MAX), i64::MIN);
    }

    #[test]
    fn silence_while_nobody_read_is_no_silence() {
        let mut marks = Watermarks::new(0, Some(100));
        let (a, b) = (marks.join(0), marks.join(0));
        marks.observe(a, 10, 0);
        marks.observe(b, 5, 0);
        marks.wake(1_000);
        marks.observe(a, 20, 1_000);
        assert_eq!(marks.current(1_000), 5);
    }
}
