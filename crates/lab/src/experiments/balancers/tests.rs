//! What the report on balancers must say, whatever the seed.

use std::sync::atomic::AtomicBool;

use super::contest::Score;
use super::*;

fn quick(seed: u64) -> Report {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    run(&Settings { seed, quick: true }, &mut Progress::new(&mut ignore, &stop)).unwrap()
}

/// Only some of the contenders, to save time.
fn standings(seed: u64) -> Vec<Standing> {
    let stop = AtomicBool::new(false);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let settings = Settings { seed, quick: true };
    let kinds = [Kind::RoundRobin, Kind::Random, Kind::LeastConnections, Kind::AdaptiveP2c];
    let mut contenders: Vec<Contender> = kinds.map(Contender::Policy).into();
    contenders.push(Contender::TrueQueues);
    contest::play(&contenders, QUICK, &settings, &mut Progress::new(&mut ignore, &stop)).unwrap()
}

fn score(standings: &[Standing], contender: Contender, which: usize, scenario: Scenario) -> Score {
    let at = Scenario::ALL.iter().position(|each| *each == scenario).unwrap();
    let found = standings.iter().find(|standing| standing.contender == contender);
    found.unwrap().scores[which][at]
}

#[test]
fn a_run_repeats_whatever_the_threads_do_and_another_seed_differs() {
    let first = quick(7);
    assert_eq!(first, quick(7));
    let response =
        |seed| adaptive::play(Kind::Weighted, MISHAPS[0], 500, seed).unwrap().outcome.response;
    assert_eq!(response(7), response(7));
    assert_ne!(response(7), response(8));
    assert_eq!(first.tables.len(), 2 + Scenario::ALL.len() + MISHAPS.len());
    assert!(first.tables[..2].iter().all(|table| table.rows.len() == Kind::ALL.len() + 3));
}

#[test]
fn what_follows_from_the_design_holds_for_several_seeds() {
    for seed in [1, 2, 3] {
        let standings = standings(seed);
        let of = |contender, which, scenario| score(&standings, contender, which, scenario);
        let score = |kind, which, scenario| of(Contender::Policy(kind), which, scenario);
        // Equal shares are too much for the slower half, whoever gives them.
        for kind in [Kind::RoundRobin, Kind::Random] {
            for which in [0, 1] {
                assert!(!score(kind, which, Scenario::HalfSlower).is_stable, "{kind}");
            }
        }
        let least = score(Kind::LeastConnections, 0, Scenario::Equal);
        assert!(least.is_stable && least.p99 < score(Kind::Random, 0, Scenario::Equal).p99 / 2.0);
        // Many balancers see less than one.
        assert!(score(Kind::LeastConnections, 1, Scenario::Equal).mean > 1.4 * least.mean);
        // True queues are seen by all alike.
        let seeing = [0, 1].map(|which| of(Contender::TrueQueues, which, Scenario::Equal).p99);
        assert!((seeing[0] / seeing[1] - 1.0).abs() < 0.25, "{seeing:?}");
        // A failing target draws those that look only at load, and not those that count failures.
        let drawn = score(Kind::LeastConnections, 0, Scenario::Fails).sent_to_upset;
        let wary = score(Kind::AdaptiveP2c, 0, Scenario::Fails).sent_to_upset;
        assert!(drawn > 2.0 * wary, "{drawn} against {wary}");
        for standing in &standings {
            for (at, score) in standing.scores.iter().flat_map(|scores| scores.iter().enumerate()) {
                let fails = Scenario::ALL[at] == Scenario::Fails;
                assert!(fails || score.errors == 0.0, "{standing:?}");
                assert!(score.p50 <= score.p99, "{standing:?}");
            }
        }
    }
}

#[test]
fn the_backend_with_the_mishap_is_the_ill_one_and_is_left_by_the_one_that_learns() {
    for seed in [1, 2, 3] {
        for mishap in MISHAPS {
            let play = |kind| adaptive::play(kind, mishap, 6_000, seed).unwrap();
            for kind in ALGORITHMS {
                let trial = play(kind);
                let [ill, others @ ..] = trial.last_health.as_slice() else { unreachable!() };
                if !is_seen(&trial) {
                    // Nobody asks it any more, which is better than any score.
                    assert_eq!(kind, Kind::AdaptiveP2c);
                    continue;
                }
                assert!(others.iter().all(|other| other.score > ill.score + 0.1), "{kind}");
                let calm = trial.outcome.upset_at.unwrap();
                let before = trial.health.iter().filter(|(when, _)| *when < calm);
                let before: Vec<f64> = before.map(|(_, scores)| scores[0]).collect();
                assert!(before.len() > 5);
                let mean = before.iter().sum::<f64>() / before.len() as f64;
                assert!(mean > ill.score + 0.2, "{kind}: {mean} before, {} after", ill.score);
                assert_eq!(trial.outcome.sent.iter().sum::<u64>(), 6_000);
            }
            let learned = play(Kind::AdaptiveP2c).outcome.sent_to_upset;
            assert!(learned < play(Kind::Weighted).outcome.sent_to_upset * 0.8, "{learned}");
        }
    }
}

#[test]
fn a_run_that_is_asked_to_stop_stops() {
    let stop = AtomicBool::new(true);
    let mut ignore = |_: crate::experiment::Step<'_>| {};
    let ended = run(&Settings::default(), &mut Progress::new(&mut ignore, &stop));
    assert!(matches!(ended, Err(Error::Stopped)));
}
