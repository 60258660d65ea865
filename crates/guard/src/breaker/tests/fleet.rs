//! The cap over many breakers.

use std::sync::Arc;

use super::super::{Fleet, FleetSettings};
use super::*;

fn fleet(members: usize, open_share_max: f64) -> (Arc<Fleet>, Vec<Breaker>) {
    let fleet = Fleet::new(FleetSettings { open_share_max, open_always: 1 }).unwrap();
    let breakers = (0..members).map(|_| fleet.breaker(settings()).unwrap()).collect();
    (fleet, breakers)
}

#[test]
fn at_most_the_set_share_is_open_at_once() {
    let (fleet, breakers) = fleet(10, 0.3);
    breakers.iter().for_each(|breaker| fail(breaker, 2, at(0)));
    let open = breakers.iter().filter(|breaker| breaker.state() == State::Open).count();
    assert_eq!((open, fleet.open(), fleet.open_max(), fleet.spared()), (3, 3, 3, 7));
}

#[test]
fn a_spared_breaker_opens_at_its_next_bad_call_when_there_is_room() {
    let (fleet, breakers) = fleet(4, 0.25);
    fail(&breakers[0], 2, at(0));
    fail(&breakers[1], 2, at(0));
    assert_eq!(breakers[1].state(), State::Closed);
    // Half-open still counts.
    let probe = breakers[0].admit(at(1_000)).unwrap();
    fail(&breakers[1], 1, at(1_000));
    assert_eq!(breakers[1].state(), State::Closed);
    probe.success(at(1_001));
    breakers[0].admit(at(1_001)).unwrap().success(at(1_001));
    assert_eq!((breakers[0].state(), fleet.open()), (State::Closed, 0));
    fail(&breakers[1], 1, at(1_002));
    assert_eq!((breakers[1].state(), fleet.open()), (State::Open, 1));
}

#[test]
fn a_probe_that_fails_keeps_its_place() {
    let (fleet, breakers) = fleet(4, 0.25);
    fail(&breakers[0], 2, at(0));
    fail(&breakers[0], 1, at(1_000));
    assert_eq!((breakers[0].state(), fleet.open(), fleet.spared()), (State::Open, 1, 0));
}

#[test]
fn by_hand_any_number_can_be_open_and_members_can_leave() {
    let (fleet, mut breakers) = fleet(4, 0.5);
    breakers.iter().for_each(|breaker| breaker.force_open(at(0)));
    assert_eq!((fleet.members(), fleet.open()), (4, 4));
    breakers.truncate(2);
    assert_eq!((fleet.members(), fleet.open()), (2, 2));
    breakers[0].reset(at(1));
    assert_eq!(fleet.open(), 1);
}

#[test]
fn a_fleet_of_one_still_has_a_breaker() {
    let (_, breakers) = fleet(1, 0.5);
    fail(&breakers[0], 2, at(0));
    assert_eq!(breakers[0].state(), State::Open);
}

#[test]
fn nonsense_is_refused_by_name() {
    let settings = FleetSettings { open_share_max: 1.5, open_always: 1 };
    assert_eq!(Fleet::new(settings).unwrap_err().field, "open_share_max");
}
