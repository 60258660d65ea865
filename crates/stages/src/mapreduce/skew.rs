//! Reducers of a stage: which takes what, and what people are told about hot keys. What is divided is decided by
//! [`divide`](divvy_kernels::aggregate::divide).

use std::collections::BTreeMap;

use divvy_kernels::aggregate::divide::{Rule, divide, fair, totals};
use divvy_kernels::aggregate::hash::partition;
use serde::{Deserialize, Serialize};

use crate::job::{Part, StageDone};

/// Hot keys that are named.
const NAMED_MAX: usize = 5;

/// What a reducer is to do: a partition of some parts of an earlier stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gather {
    /// The stage that wrote it.
    pub(crate) stage: u32,
    /// The first of its parts.
    pub(crate) from: u32,
    /// The part after the last.
    pub(crate) to: u32,
    /// Which partition.
    pub(crate) partition: u32,
    /// The number of the file of the result; none if another step follows.
    pub(crate) output: Option<u32>,
}

/// The parts that reduce what the first stage wrote.
pub(crate) fn reducers(done: &StageDone, partitions: u32, rule: Option<Rule>) -> Vec<Part> {
    let shares = divide(&sizes(done), partitions, rule);
    let part = |share: &divvy_kernels::aggregate::divide::Share| {
        let output = (!share.divided).then_some(share.partition);
        let (from, to, partition) = (share.from, share.to, share.partition);
        Part::new(&Gather { stage: 0, from, to, partition, output }, share.bytes)
    };
    shares.iter().map(part).collect()
}

/// The parts that bring together what divided reducers found in the second stage; none if nothing was divided.
pub(crate) fn joiners(
    map: &StageDone,
    reduce: &StageDone,
    partitions: u32,
    rule: Option<Rule>,
) -> Vec<Part> {
    let shares = divide(&sizes(map), partitions, rule);
    let mut parts: BTreeMap<u32, Gather> = BTreeMap::new();
    for (number, share) in (0_u32..).zip(&shares).filter(|(_, share)| share.divided) {
        let output = Some(share.partition);
        let new = Gather { stage: 1, from: number, to: number, partition: 0, output };
        parts.entry(share.partition).or_insert(new).to = number + 1;
    }
    let written = sizes(reduce);
    let bytes = |gather: &Gather| {
        written[gather.from as usize..gather.to as usize].iter().flatten().sum::<u64>()
    };
    parts.values().map(|gather| Part::new(gather, bytes(gather))).collect()
}

/// Bytes by part and partition.
fn sizes(done: &StageDone) -> Vec<Vec<u64>> {
    let of = |sizes: &[crate::job::PartitionSize]| sizes.iter().map(|size| size.bytes).collect();
    done.parts.iter().map(|part| of(&part.report.partitions)).collect()
}

/// Hot keys that parts named, with the bytes that they have at least, most first.
pub(crate) fn hot_keys(done: &StageDone) -> Vec<(String, u64)> {
    let mut keys: BTreeMap<String, u64> = BTreeMap::new();
    for part in &done.parts {
        let named = part.report.extra.get("hot").cloned().unwrap_or_default();
        let named: Vec<(String, u64)> = serde_json::from_value(named).unwrap_or_default();
        for (key, bytes) in named {
            *keys.entry(key).or_default() += bytes;
        }
    }
    let mut keys: Vec<(String, u64)> = keys.into_iter().collect();
    keys.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    keys
}

/// Sentences about skew: hot keys, and what is done about them.
pub(crate) fn explain(done: &StageDone, partitions: u32, rule: Option<Rule>) -> Vec<String> {
    let sizes = sizes(done);
    let totals = totals(&sizes, partitions);
    let (total, most) = (totals.iter().sum::<u64>(), totals.iter().copied().max().unwrap_or(0));
    if total == 0 {
        return Vec::new();
    }
    let times = most as f64 / fair(&totals);
    let mut lines =
        vec![format!("{partitions} partitions; the largest has {times:.2} times its fair share")];
    for (key, bytes) in hot_keys(done).into_iter().take(NAMED_MAX) {
        let share = bytes as f64 / total as f64 * 100.0;
        let home = partition(key.as_bytes(), partitions);
        let key = shown(&key);
        lines.push(format!("hot key `{key}`: {share:.0} % of all bytes, in partition {home}"));
    }
    let mut ways: BTreeMap<u32, u32> = BTreeMap::new();
    for share in divide(&sizes, partitions, rule).iter().filter(|share| share.divided) {
        *ways.entry(share.partition).or_default() += 1;
    }
    for (number, ways) in ways {
        lines.push(format!(
            "partition {number} is divided over {ways} reducers, whose results are brought together after"
        ));
    }
    lines
}

fn shown(key: &str) -> String {
    key.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{PartDone, PartitionSize, Report};

    fn stage(sizes: &[&[u64]]) -> StageDone {
        let part = |sizes: &&[u64]| {
            let size = |bytes: &u64| PartitionSize { rows: 1, bytes: *bytes };
            let partitions = sizes.iter().map(size).collect();
            PartDone { report: Report { partitions, ..Report::default() }, ..PartDone::default() }
        };
        StageDone { parts: sizes.iter().map(part).collect(), ..StageDone::default() }
    }

    fn works(parts: &[Part]) -> Vec<Gather> {
        parts.iter().map(|part| serde_json::from_value(part.work.clone()).unwrap()).collect()
    }

    #[test]
    fn what_divided_reducers_found_is_brought_together() {
        let map = stage(&[&[90, 5, 5], &[80, 5, 5], &[70, 5, 5], &[90, 5, 5]]);
        let whole = works(&reducers(&map, 3, None));
        assert!(whole.iter().all(|work| work.output == Some(work.partition) && work.to == 4));
        let rule = Some(Rule { times: 2.0, bytes: 100 });
        let outputs: Vec<_> =
            works(&reducers(&map, 3, rule)).iter().map(|work| work.output).collect();
        assert_eq!(outputs, [None, None, None, Some(1), Some(2)]);
        let reduce = stage(&[&[7], &[8], &[9], &[1], &[1]]);
        let joined = joiners(&map, &reduce, 3, rule);
        let expected = Gather { stage: 1, from: 0, to: 3, partition: 0, output: Some(0) };
        assert_eq!((works(&joined), joined[0].bytes), (vec![expected], 24));
        assert!(joiners(&map, &reduce, 3, None).is_empty());
        let told = explain(&map, 3, rule);
        assert!(told[1].contains("partition 0 is divided over 3 reducers"), "{told:?}");
    }
}
