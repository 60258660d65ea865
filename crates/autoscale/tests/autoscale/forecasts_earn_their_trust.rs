//! Forecasts: nobody is believed before a day was tried, the step of every morning is seen coming, a burst does not come
//! back, and a restarted server knows what it knew.

use divvy_autoscale::{Memory, Scaler};
use divvy_types::pools::{Policy, Pool};

use crate::play::{Play, pool};

const DAY: u64 = 86_400;
/// Between two samples here: a minute, so that days are quick.
const MINUTE: u64 = 60;

/// Ten tasks a second at night, thirty from nine to five, on weekdays only if `weekly`.
fn rate(second: u64, weekly: bool) -> u64 {
    // The epoch was a Thursday.
    let weekend = weekly && matches!((second / DAY + 3) % 7, 5 | 6);
    if !weekend && (9 * 3_600..17 * 3_600).contains(&(second % DAY)) { 30 } else { 10 }
}

fn slow_start(policy: Policy) -> Pool {
    let mut pool = pool(policy);
    (pool.types[0].boot_sec, pool.types[0].price_hour) = (300.0, 1.0);
    pool
}

/// Plays until a second of the simulation.
fn until(play: &mut Play, second: u64, weekly: bool) {
    while play.at < second {
        let arrived = rate(play.at, weekly) * MINUTE;
        play.at += MINUTE - crate::play::STEP;
        play.tick(arrived, 0);
    }
}

fn trusted(play: &Play) -> Option<String> {
    play.scaler.explain().and_then(|why| why.forecast.trusted)
}

#[test]
fn the_step_of_every_morning_is_seen_coming_once_it_was_forecast_well() {
    for policy in [Policy::Predictive, Policy::Objective] {
        let mut play = Play::new(slow_start(policy));
        until(&mut play, 9 * 3_600 - 120, false);
        assert!(play.total() < 16 && trusted(&play).is_none(), "{policy:?}: nobody knows yet");
        until(&mut play, 5 * DAY + 9 * 3_600 - 900, false);
        assert!(play.total() < 16, "{policy:?}: it is too early: {}", play.total());
        let ahead = play.scaler.explain().unwrap().forecast.ahead;
        assert_eq!(ahead.len(), 24, "two hours in steps of five minutes");
        assert!(ahead[23].rate > ahead[0].rate * 1.5, "{policy:?}: the step is ahead: {ahead:?}");
        assert!(
            ahead.iter().all(|one| 0.0 <= one.low && one.low <= one.rate && one.rate <= one.high)
        );
        until(&mut play, 5 * DAY + 9 * 3_600 - 240, false);
        assert!(play.total() >= 30, "{policy:?}: they take five minutes: {}", play.total());
        assert!(play.scaler.last().reason.contains("forecast by"), "{policy:?}");
        let words = play.scaler.explain().unwrap().words.join("\n");
        assert!(words.contains("is trusted: its recent error is"), "{words}");
    }
}

/// Nothing comes at night, and the pool stops: nobody looks but when the scaler says so.
#[test]
fn a_pool_at_zero_starts_workers_before_the_first_task_of_the_day() {
    for policy in [Policy::Predictive, Policy::Objective] {
        let mut play = Play::new(slow_start(policy));
        let works = |second: u64| (9 * 3_600..17 * 3_600).contains(&(second % DAY));
        let morning = 5 * DAY + 9 * 3_600;
        let (mut looks, mut at_night) = (0, None);
        while play.at < morning - 120 {
            let rests = !works(play.at) && play.total() == 0;
            let next = play.scaler.next_look().filter(|_| rests).map(|next| next.0 / 1_000_000);
            let next = next.unwrap_or(play.at + MINUTE);
            looks += u32::from(play.at > morning - 4 * 3_600 && rests);
            let arrived = if works(play.at) { 30 * (next - play.at) } else { 0 };
            play.at = next - crate::play::STEP;
            play.tick(arrived, 0);
            if play.at < morning - 3_600 {
                at_night = Some(play.total());
            }
        }
        assert_eq!(at_night, Some(0), "{policy:?}: it stops at night");
        assert!(looks < 60, "{policy:?}: {looks} looks in four hours");
        assert!(play.total() >= 20, "{policy:?}: nothing has come, and {} start", play.total());
    }
    let quick = Play::new(pool(Policy::Objective));
    assert_eq!(quick.scaler.next_look(), None, "who starts at once need not look ahead");
}

#[test]
fn the_queue_alone_sees_the_step_when_it_has_come() {
    let mut play = Play::new(slow_start(Policy::Queue));
    until(&mut play, 5 * DAY + 9 * 3_600 - 60, false);
    assert!(play.total() < 16);
    until(&mut play, 5 * DAY + 9 * 3_600 + 120, false);
    assert!(play.total() >= 30);
}

#[test]
fn a_weekend_is_told_from_a_weekday() {
    let mut play = Play::new(slow_start(Policy::Predictive));
    // The fourth Saturday and the Monday after it.
    let saturday = 23 * DAY;
    until(&mut play, saturday + 9 * 3_600 - 240, true);
    assert_eq!(trusted(&play).as_deref(), Some("day of week"));
    assert!(play.total() < 16, "nobody works on Saturdays: {}", play.total());
    until(&mut play, saturday + 2 * DAY + 9 * 3_600 - 240, true);
    assert!(play.total() >= 30, "but on Mondays: {}", play.total());
}

#[test]
fn a_burst_does_not_come_back_the_next_day() {
    let mut play = Play::new(slow_start(Policy::Predictive));
    until(&mut play, 5 * DAY + 3 * 3_600, false);
    for _ in 0..10 {
        play.at += MINUTE - crate::play::STEP;
        play.tick(80 * MINUTE, 0);
    }
    assert!(play.total() >= 80);
    let mut most = 0;
    while play.at < 6 * DAY + 4 * 3_600 {
        let second = play.at + MINUTE;
        until(&mut play, second, false);
        if play.at > 6 * DAY + 2 * 3_600 {
            most = most.max(play.total());
        }
    }
    assert!(most < 20, "{most}");
}

#[test]
fn a_restarted_server_goes_on_with_what_was_learnt() {
    let mut play = Play::new(slow_start(Policy::Objective));
    until(&mut play, 5 * DAY + 9 * 3_600 - 900, false);
    let kept = serde_json::to_string(play.scaler.memory()).unwrap();
    let memory: Memory = serde_json::from_str(&kept).unwrap();
    assert!(kept.len() < 600_000, "{} bytes", kept.len());
    let mut again = Play::new(slow_start(Policy::Objective));
    again.scaler = Scaler::resume(slow_start(Policy::Objective), memory);
    (again.at, again.fleet) = (play.at, play.fleet.clone());
    for _ in 0..30 {
        let second = play.at + MINUTE;
        until(&mut play, second, false);
        until(&mut again, second, false);
        assert_eq!(play.scaler.last(), again.scaler.last());
    }
    assert!(again.scaler.changes().eq(play.scaler.changes()));
}
