//! What the report on skew must say, whatever the seed.

use super::*;
use crate::experiments::tried;

#[test]
fn dividing_hot_partitions_saves_time_and_leaves_even_ones_alone() {
    for seed in [1, 2] {
        let report = tried(EXPERIMENT, seed);
        assert!(report.verdicts.iter().all(|verdict| verdict.met), "{:?}", report.verdicts);
        assert_eq!(report.tables[0].rows.len(), EXPONENTS.len() * Way::ALL.len());
    }
}

#[test]
fn no_record_is_lost_on_the_way() {
    let mapped = Mapped::draw(1.2, 1_000, 5);
    let [plain, divided, combined] = Way::ALL.map(|way| mapped.play(way));
    assert_eq!(plain.travel, 1_000 * PARTS as u64);
    assert_eq!(divided.travel, plain.travel);
    assert!(combined.travel < plain.travel && divided.reducers > plain.reducers);
    assert_eq!(mapped.play(Way::Divided), divided);
}
