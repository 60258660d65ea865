//! Which partitions are divided over several reducers: decided from how many bytes of each partition the parts before
//! have written.
//!
//! A partition that has much more than its fair share holds a hot key, or several. Its records lie in the files of many
//! parts, so each of several reducers takes the files of some parts, brings together what is there, and one more step
//! brings together what they found. That needs a reduce that can be applied to its own results. Keys stay where their
//! hash puts them, so nothing that was written has to be moved, and no key has to be known beforehand.

/// Reducers of one partition at most.
pub const WAYS_MAX: u64 = 16;

/// When a partition is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// From this many times its fair share on.
    pub times: f64,
    /// From this many bytes on: less is done soon.
    pub bytes: u64,
}

/// What one reducer takes: a partition of some of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which partition.
    pub partition: u32,
    /// The first part.
    pub from: u32,
    /// The part after the last.
    pub to: u32,
    /// Its bytes.
    pub bytes: u64,
    /// Whether others have the rest of the partition, so that a further step must follow.
    pub divided: bool,
}

/// What each reducer takes. `sizes` has bytes by part and, of each, by partition; without a rule nothing is divided.
pub fn divide(sizes: &[Vec<u64>], partitions: u32, rule: Option<Rule>) -> Vec<Share> {
    let parts = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
    let totals = totals(sizes, partitions);
    let fair = fair(&totals);
    let mut shares = Vec::new();
    for (partition, bytes) in (0_u32..).zip(totals) {
        let divided = rule.is_some_and(|rule| {
            parts > 1 && bytes >= rule.bytes && bytes as f64 > fair * rule.times
        });
        if !divided {
            shares.push(Share { partition, from: 0, to: parts, bytes, divided });
            continue;
        }
        let ways = ((bytes as f64 / fair).ceil() as u64).clamp(2, WAYS_MAX.min(parts.into()));
        let first = shares.len();
        let (mut from, mut seen, mut before) = (0, 0, 0);
        for part in 0..parts {
            seen += size(sizes, part, partition);
            let goal = bytes * ((shares.len() - first) as u64 + 1) / ways;
            if seen >= goal || part + 1 == parts {
                shares.push(Share { partition, from, to: part + 1, bytes: seen - before, divided });
                (from, before) = (part + 1, seen);
            }
        }
    }
    shares
}

/// Bytes by partition.
pub fn totals(sizes: &[Vec<u64>], partitions: u32) -> Vec<u64> {
    let parts = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
    (0..partitions).map(|number| (0..parts).map(|part| size(sizes, part, number)).sum()).collect()
}

/// What each partition would have if all had the same.
pub fn fair(totals: &[u64]) -> f64 {
    totals.iter().sum::<u64>() as f64 / totals.len().max(1) as f64
}

fn size(sizes: &[Vec<u64>], part: u32, partition: u32) -> u64 {
    sizes.get(part as usize).and_then(|sizes| sizes.get(partition as usize)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(sizes: &[&[u64]], times: f64, bytes: u64) -> Vec<(u32, u32, u32, bool)> {
        let sizes: Vec<Vec<u64>> = sizes.iter().map(|sizes| sizes.to_vec()).collect();
        let partitions = sizes[0].len() as u32;
        let shares = divide(&sizes, partitions, Some(Rule { times, bytes }));
        shares.iter().map(|share| (share.partition, share.from, share.to, share.divided)).collect()
    }

    #[test]
    fn a_partition_with_a_hot_key_is_divided() {
        let sizes: [&[u64]; 4] = [&[90, 5, 5], &[80, 5, 5], &[70, 5, 5], &[90, 5, 5]];
        assert_eq!(
            shares(&sizes, 2.0, 100),
            [(0, 0, 2, true), (0, 2, 3, true), (0, 3, 4, true), (1, 0, 4, false), (2, 0, 4, false)]
        );
        assert!(shares(&sizes, 2.0, 1_000).iter().all(|share| !share.3), "little data");
        assert!(shares(&sizes[..1], 2.0, 1).iter().all(|share| !share.3), "a single part");
    }

    proptest! {
        #[test]
        fn every_part_of_every_partition_is_taken_once(
            sizes in prop::collection::vec(prop::collection::vec(0_u64..1_000, 3), 0..12), times in 1.0_f64..3.0,
        ) {
            for rule in [None, Some(Rule { times, bytes: 0 })] {
                let shares = divide(&sizes, 3, rule);
                for partition in 0..3 {
                    let mine: Vec<&Share> = shares.iter().filter(|share| share.partition == partition).collect();
                    prop_assert!(mine.len() as u64 <= WAYS_MAX);
                    let mut next = 0;
                    for share in &mine {
                        prop_assert_eq!(share.from, next);
                        prop_assert_eq!(share.divided && rule.is_some(), share.divided);
                        next = share.to;
                    }
                    prop_assert_eq!(next as usize, sizes.len());
                    let bytes: u64 = mine.iter().map(|share| share.bytes).sum();
                    prop_assert_eq!(bytes, totals(&sizes, 3)[partition as usize]);
                }
            }
        }
    }
}
