//! Steps of a history: what is added up, what is kept, and what is told.

use super::*;

fn at(second: u64) -> Timestamp {
    Timestamp(second * SECOND_US)
}

fn done(count: u64) -> Figures {
    Figures { done: count, waiting: 3, running: 2, workers: 1, ..Figures::default() }
}

fn span(from: u64, to: u64, points: u64) -> Span {
    Span { from: at(from), to: at(to), points }
}

/// A day and a half of a second's work each second, beginning at a whole minute.
const START: u64 = 1_000_020;

fn lived(seconds: u64) -> History {
    let mut history = History::default();
    for second in START..START + seconds {
        history.add(at(second), &done(2), vec![("mail".into(), done(1))]);
    }
    history
}

#[test]
fn rates_are_per_minute_whatever_the_step() {
    let history = lived(3_600);
    let end = START + 3_600;
    for (from, points, step_ms) in
        [(end - 60, 100, 5_000), (end - 600, 10, 60_000), (START, 4, 900_000)]
    {
        let view = history.view(None, &span(from, end, points));
        assert_eq!(view.step_ms, step_ms);
        let known: Vec<f64> = view.series.done.iter().flatten().copied().collect();
        assert!(known.len() > 3 && known.iter().all(|rate| *rate == 120.0), "{view:?}");
        assert_eq!(view.series.waiting.last(), Some(&Some(3.0)));
        assert_eq!(view.series.workers.last(), Some(&Some(1.0)));
        let queue = history.view(Some(&"mail".into()), &span(from, end, points));
        assert_eq!(queue.series.done.last(), Some(&Some(60.0)));
        assert_eq!(queue.series.workers.last(), Some(&None), "workers are of no queue");
    }
}

#[test]
fn a_step_that_has_just_begun_is_not_told_and_one_that_goes_on_is_not_too_low() {
    let history = lived(62);
    let view = history.view(None, &span(START, START + 62, 100));
    assert_eq!((view.step_ms, view.series.done.len()), (5_000, 12), "{view:?}");
    let view = history.view(None, &span(START, START + 62, 1));
    assert!(view.series.done.iter().all(|rate| *rate == Some(120.0)), "{view:?}");
    let newest = history.newest(at(START + 61)).unwrap();
    assert_eq!((newest.at, newest.done), (at(START + 55), 120.0));
}

#[test]
fn what_is_old_goes_and_what_was_not_lived_through_is_not_known() {
    let mut history = lived(90);
    let later = START + 400;
    history.add(at(later), &done(1), Vec::new());
    let view = history.view(None, &span(START, later + 5, 100));
    let known = view.series.done.iter().filter(|rate| rate.is_some()).count();
    assert_eq!(known, 18, "the server did not run in between: {view:?}");
    let tomorrow = START + 86_400 + 120;
    history.add(at(tomorrow), &done(1), Vec::new());
    assert!(history.all.coarse.keys().all(|number| number * COARSE_SEC > START + 60));
    assert_eq!(history.all.fine.len(), 1);
    assert!(history.queues.is_empty(), "a queue without steps is forgotten");
    assert!(lived(2 * 3_600).all.fine.len() <= FINE_MAX as usize);
}

#[test]
fn while_nothing_happens_what_is_there_stays_and_nothing_is_counted() {
    let mut history = lived(5);
    for second in 5..15 {
        history.rest(at(START + second));
    }
    let view = history.view(None, &span(START, START + 15, 100));
    assert_eq!(view.series.done, [Some(120.0), Some(0.0), Some(0.0)]);
    assert_eq!(view.series.waiting, [Some(3.0); 3]);
    let queue = history.view(Some(&"mail".into()), &span(START, START + 15, 100));
    assert_eq!(queue.series.done, [Some(60.0), Some(0.0), Some(0.0)]);
    assert_eq!(queue.series.waiting, [Some(3.0); 3]);
    let other = history.view(Some(&"other".into()), &span(START, START + 15, 100));
    assert_eq!(other.series.waiting, [Some(0.0); 3]);
}

#[test]
fn everything_that_is_kept_can_be_taken_back() {
    let history = lived(2 * 3_600);
    let mut back = History::default();
    for (queue, step_sec, number, figures) in history.kept() {
        back.restore(queue, step_sec, number, figures);
    }
    for queue in [None, Some("mail".into())] {
        for from in [START, START + 3_700, START + 7_000] {
            let asked = span(from, START + 7_200, 50);
            assert_eq!(back.view(queue.as_ref(), &asked), history.view(queue.as_ref(), &asked));
        }
    }
}

#[test]
fn percentiles_come_from_all_waits_together() {
    let mut waits = Waits::default();
    let before = waits.clone();
    // 90 waits of up to 128 us, 10 of up to 2^21 us.
    (waits.0[2], waits.0[30]) = (90, 10);
    let figures = Figures { waits: waits_since(&waits, &before), ..Figures::default() };
    let p50 = figures.wait_ms(0.5).unwrap();
    let p95 = figures.wait_ms(0.95).unwrap();
    assert!((0.09..=0.13).contains(&p50), "{p50}");
    assert!((1_500.0..=2_100.0).contains(&p95), "{p95}");
    assert_eq!(Figures::default().wait_ms(0.5), None);
    assert_eq!(waits_since(&before, &waits), [], "a queue that begins anew has none yet");
}

#[test]
fn only_so_many_queues_have_a_history_and_busy_ones_keep_theirs() {
    let mut history = History::default();
    let name = |number: usize| Name::from(format!("q{number}"));
    for number in 0..=QUEUES_MAX {
        history.add(at(START), &done(1), vec![(name(number), done(1))]);
    }
    assert_eq!(history.queues.len(), QUEUES_MAX);
    assert!(!history.queues.contains_key(&name(QUEUES_MAX)), "there was no place left");
    let later = START + QUIET_SEC + 120;
    history.add(at(later), &done(1), vec![(name(QUEUES_MAX), done(1))]);
    assert!(history.queues.contains_key(&name(QUEUES_MAX)), "one that was quiet makes place");
    assert_eq!(history.queues.len(), QUEUES_MAX);
}

#[test]
fn a_step_that_is_told_twice_counts_once() {
    let mut history = History::default();
    let number = START / FINE_SEC;
    history.restore(None, FINE_SEC, number + 1, &done(7));
    history.restore(None, FINE_SEC, number, &done(2));
    history.restore(None, FINE_SEC, number, &done(5));
    let coarse: Vec<u64> = history.all.coarse.values().map(|figures| figures.done).collect();
    assert_eq!((history.all.fine[&number].done, coarse), (5, vec![12]));
}

#[test]
fn of_a_server_that_has_just_begun_nothing_is_kept() {
    assert_eq!(History::default().kept().count(), 0);
}
