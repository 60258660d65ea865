//! A policy forgets targets that have left: others in the same slots start fresh and share the work.

use std::time::Duration;

use divvy_placement::policies::Kind;
use divvy_placement::{Balancer, Outcome, Pick, Policy, Reason, Request, TargetId, TargetSpec};

const MS: Duration = Duration::from_millis(1);

type Any = Balancer<Box<dyn Policy + Send>>;

fn add(balancer: &mut Any, prefix: &str) -> Vec<TargetId> {
    (0..4)
        .map(|index| {
            balancer
                .add(TargetSpec::new(format!("{prefix}{index}")), MS)
                .expect("it is there and sound")
        })
        .collect()
}

/// Requests about different keys, in waves of eight, that all end well after 10 ms.
fn shares(balancer: &mut Any, ids: &[TargetId]) -> Vec<u32> {
    let mut counts = vec![0; ids.len()];
    for wave in 0..100u64 {
        let picked: Vec<TargetId> = (0..8)
            .map(|index| {
                let request = Request::keyed(wave * 8 + index);
                balancer.assign(&request, MS).first().expect("targets are up")
            })
            .collect();
        for id in picked {
            counts[ids.iter().position(|other| *other == id).expect("it is one of these")] += 1;
            balancer.finish(id, 10 * MS, Outcome::Success, MS);
        }
    }
    counts
}

#[test]
fn every_policy_spreads_work_over_successors_whatever_their_predecessors_did() {
    for kind in Kind::ALL {
        let mut balancer = Balancer::new(kind.build(7));
        let old = add(&mut balancer, "old");
        shares(&mut balancer, &old);
        // The first one turns slow and fails, and keeps requests for ever.
        for _ in 0..50 {
            balancer.start(old[0], MS);
            balancer.start(old[0], MS);
            balancer.finish(old[0], 9_000 * MS, Outcome::Failure, MS);
        }
        old.iter().for_each(|id| balancer.remove(*id, MS).expect("it is there and sound"));
        let pick = balancer.pick(&Request::keyed(1), MS);
        assert_eq!(pick, Pick::Shed(Reason::NoTargetUp), "{kind}");
        let new = add(&mut balancer, "new");
        assert!(new.iter().any(|id| id.slot() == old[0].slot()), "slots are used again");
        // What is said about targets that have left falls on nobody.
        balancer.finish(old[0], 9_000 * MS, Outcome::Failure, MS);
        balancer.start(old[0], MS);
        let found = shares(&mut balancer, &new);
        assert!(found.iter().all(|share| (120..=280).contains(share)), "{kind}: {found:?} of 200");
    }
}

#[test]
fn no_policy_gives_anything_to_a_target_that_is_down_or_draining() {
    for kind in Kind::ALL {
        let mut balancer = Balancer::new(kind.build(7));
        let ids = add(&mut balancer, "");
        shares(&mut balancer, &ids);
        balancer.mark_down(ids[0], MS).expect("it is there and sound");
        balancer.drain(ids[1], MS).expect("it is there and sound");
        let found = shares(&mut balancer, &ids);
        assert_eq!(found[..2], [0, 0], "{kind}");
        assert!(found[2..].iter().all(|share| *share >= 200), "{kind}: {found:?}");
        balancer.mark_up(ids[0], MS).expect("it is there and sound");
        balancer.mark_up(ids[1], MS).expect("it is there and sound");
        // A policy that keeps keys where they are has no reason to move old ones back: all keys here are new.
        let fresh: u32 = (10_000..10_400)
            .filter(|key| {
                let id = balancer
                    .assign(&Request::keyed(*key), MS)
                    .first()
                    .expect("it is there and sound");
                ids[..2].contains(&id)
            })
            .count() as u32;
        assert!((130..=270).contains(&fresh), "{kind}: {fresh} of 400");
    }
}
