//! Decides what items cost that were measured twice, and whether the machine was as fast the second time as the first.
//!
//! Around a run that is compared with a prediction, one round before and one after it bracket the speed that the machine
//! had meanwhile. Their mean is right for a machine that became steadily faster or slower, and half as far off as the worse
//! of the two for one that changed at once. How far apart the rounds are is judged by what they predict and not by
//! what they cost: where items stand in line, a few percent of cost are many of time.

use std::collections::BTreeMap;

use divvy_types::Name;
use serde::Serialize;

use super::fit::{Sample, Seen};
use super::replay::Course;

/// What one round says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Round {
    /// What all items cost, in seconds.
    pub cost_sec: f64,
    /// What is said of items that cost this, from arrival to done, in seconds: half are shorter.
    pub p50: f64,
    /// 95 % are shorter.
    pub p95: f64,
}

impl Round {
    /// What a course of items says that cost what is in it.
    pub fn of(course: &Course) -> Self {
        let cost_sec = course.stages.values().map(|work| work.sec).sum();
        Self { cost_sec, p50: course.p50, p95: course.p95 }
    }

    /// How much more another round says than this one.
    pub fn until(&self, later: &Self) -> Apart {
        let share = |from: f64, to: f64| {
            let mean = (from + to) / 2.0;
            if mean > 0.0 { (to - from) / mean } else { 0.0 }
        };
        Apart {
            cost: share(self.cost_sec, later.cost_sec),
            p50: share(self.p50, later.p50),
            p95: share(self.p95, later.p95),
        }
    }
}

/// How far one round is from another, as shares of their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Apart {
    /// What all items cost.
    pub cost: f64,
    /// What is said of the first percentile.
    pub p50: f64,
    /// And of the second.
    pub p95: f64,
}

impl Apart {
    /// Whether both rounds say the same but for this share.
    pub fn is_within(&self, share: f64) -> bool {
        self.p50.abs() <= share && self.p95.abs() <= share
    }
}

/// What each item cost on average of two rounds that have the same items in the same order.
pub fn mean(before: &[Sample], after: &[Sample]) -> Vec<Sample> {
    before.iter().zip(after).map(|(one, other)| mean_of(one, other)).collect()
}

fn mean_of(before: &Sample, after: &Sample) -> Sample {
    let mut stages: BTreeMap<Name, Seen> = after.stages.clone();
    for (name, seen) in &before.stages {
        let both = match after.stages.get(name) {
            Some(again) => Seen { seconds: mean_seconds(seen, again), ..seen.clone() },
            None => seen.clone(),
        };
        stages.insert(name.clone(), both);
    }
    Sample { size_gb: before.size_gb, stages }
}

/// Seconds of each task. Where there were more of them in one round, those of the first, together as long as the mean.
fn mean_seconds(before: &Seen, after: &Seen) -> Vec<f64> {
    if before.seconds.len() == after.seconds.len() {
        let pairs = before.seconds.iter().zip(&after.seconds);
        return pairs.map(|(one, other)| (one + other) / 2.0).collect();
    }
    let sum = |seen: &Seen| seen.seconds.iter().sum::<f64>();
    let (first, second) = (sum(before), sum(after));
    let factor = if first > 0.0 { (first + second) / 2.0 / first } else { 1.0 };
    before.seconds.iter().map(|seconds| seconds * factor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(stages: &[(&str, &[f64])]) -> Sample {
        let one = |(name, seconds): &(&str, &[f64])| {
            (Name::from(*name), Seen { seconds: seconds.to_vec(), ..Seen::default() })
        };
        Sample { size_gb: 0.5, stages: stages.iter().map(one).collect() }
    }

    fn seconds<'a>(sample: &'a Sample, name: &str) -> &'a [f64] {
        &sample.stages[&Name::from(name)].seconds
    }

    #[test]
    fn each_task_costs_the_mean_of_its_two_rounds() {
        let before = [sample(&[("cut", &[2.0, 4.0]), ("join", &[1.0])]), sample(&[])];
        let after = [sample(&[("cut", &[4.0, 5.0]), ("join", &[1.0])]), sample(&[])];
        let mean = mean(&before, &after);
        assert_eq!(seconds(&mean[0], "cut"), [3.0, 4.5]);
        assert_eq!(seconds(&mean[0], "join"), [1.0]);
        assert_eq!((mean.len(), mean[0].size_gb), (2, 0.5));
        assert!(mean[1].stages.is_empty());
    }

    #[test]
    fn stages_that_were_cut_otherwise_or_not_seen_twice_keep_what_they_cost() {
        let before = [sample(&[("cut", &[2.0, 4.0]), ("early", &[3.0]), ("none", &[0.0])])];
        let after = [sample(&[("cut", &[9.0]), ("late", &[7.0]), ("none", &[])])];
        let mean = mean(&before, &after);
        assert_eq!(seconds(&mean[0], "cut"), [2.5, 5.0], "7.5 in all");
        assert_eq!(seconds(&mean[0], "early"), [3.0]);
        assert_eq!(seconds(&mean[0], "late"), [7.0]);
        assert_eq!(seconds(&mean[0], "none"), [0.0]);
    }

    #[test]
    fn rounds_are_apart_by_shares_of_their_mean() {
        let before = Round { cost_sec: 90.0, p50: 4.0, p95: 10.0 };
        let after = Round { cost_sec: 110.0, p50: 6.0, p95: 10.0 };
        let apart = before.until(&after);
        assert_eq!(apart, Apart { cost: 0.2, p50: 0.4, p95: 0.0 });
        assert!(apart.is_within(0.4) && !apart.is_within(0.39));
        assert!(!after.until(&before).is_within(0.39), "faster is a change too");
        assert_eq!(Round::default().until(&Round::default()), Apart::default());
    }
}
