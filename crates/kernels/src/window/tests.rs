//! Windows against a slow reference that knows all events beforehand, with states saved and loaded at any moment.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::aggregate::{Damaged, put_number, take_number};

/// Adds numbers up.
#[derive(Clone, Copy, Debug)]
struct Total;

impl Aggregate for Total {
    type State = u64;

    fn start(&self) -> u64 {
        0
    }

    fn merge(&self, into: &mut u64, from: u64) {
        *into += from;
    }

    fn save(&self, state: &u64, out: &mut Vec<u8>) {
        put_number(*state, out);
    }

    fn load(&self, from: &mut &[u8]) -> Result<u64, Damaged> {
        take_number(from)
    }
}

type Event = (i64, u8, u64);
type Row = (i64, i64, u8, u64, u64);

struct Player {
    windows: Windows<Total>,
    closed: Vec<Row>,
    early: Vec<Row>,
    late: Vec<Event>,
}

impl Player {
    fn new(spec: Spec, trigger: Trigger) -> Self {
        let windows = Windows::new(spec, trigger, Total);
        Self { windows, closed: Vec::new(), early: Vec::new(), late: Vec::new() }
    }

    fn event(&mut self, event: Event) {
        let (time, key, value) = event;
        let early = &mut self.early;
        let add = |state: &mut u64| {
            *state += value;
            Ok::<(), ()>(())
        };
        let taken = self.windows.add(time, &[key], add, |fired| early.push(row(&fired)));
        if taken == Ok(Taken::Late) {
            self.late.push(event);
        }
    }

    fn advance(&mut self, watermark: i64) {
        let Self { windows, closed, early, .. } = self;
        windows.advance(watermark, |fired| {
            if fired.is_early { early.push(row(&fired)) } else { closed.push(row(&fired)) }
        });
    }

    /// What another process would find.
    fn reload(&mut self, spec: Spec, trigger: Trigger) {
        let mut bytes = Vec::new();
        self.windows.save(&mut bytes);
        let mut windows = Windows::new(spec, trigger, Total);
        windows.load(&mut &bytes[..]).unwrap();
        let mut again = Vec::new();
        windows.save(&mut again);
        assert_eq!(bytes, again);
        self.windows = windows;
    }
}

fn row(fired: &Fired<'_, u64>) -> Row {
    (fired.start_ms, fired.end_ms, fired.key[0], *fired.state, fired.events)
}

/// The windows of events none of which was late.
fn reference(spec: Spec, events: &[Event]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    match spec {
        Spec::Session { gap_ms } => {
            let mut sorted = events.to_vec();
            sorted.sort_unstable_by_key(|event| (event.1, event.0));
            for (time, key, value) in sorted {
                match rows.last_mut() {
                    Some(last) if last.2 == key && time < last.1 => {
                        *last = (last.0, time + gap_ms, key, last.3 + value, last.4 + 1);
                    }
                    _ => rows.push((time, time + gap_ms, key, value, 1)),
                }
            }
            rows.sort_unstable_by_key(|row| (row.1, row.2));
        }
        Spec::Tumbling { .. } | Spec::Sliding { .. } => {
            let (size, slide) = match spec {
                Spec::Sliding { size_ms, slide_ms } => (size_ms, slide_ms),
                Spec::Tumbling { size_ms } | Spec::Session { gap_ms: size_ms } => {
                    (size_ms, size_ms)
                }
            };
            let mut groups: BTreeMap<(i64, u8), (u64, u64)> = BTreeMap::new();
            for (time, key, value) in events {
                for start in (-200..400).map(|nth| nth * slide) {
                    if (start..start + size).contains(time) {
                        let group = groups.entry((start, *key)).or_default();
                        *group = (group.0 + value, group.1 + 1);
                    }
                }
            }
            let row = |((start, key), (sum, count))| (start, start + size, key, sum, count);
            rows.extend(groups.into_iter().map(row));
        }
    }
    rows
}

fn specs() -> impl Strategy<Value = Spec> {
    prop_oneof![
        (1i64..20).prop_map(|size_ms| Spec::Tumbling { size_ms }),
        (1i64..10, 1i64..4)
            .prop_map(|(slide_ms, times)| Spec::Sliding {
                size_ms: slide_ms * times - (slide_ms - 1) / 2,
                slide_ms,
            })
            .prop_filter("gaps", |spec| spec.check().is_ok()),
        (1i64..20).prop_map(|gap_ms| Spec::Session { gap_ms }),
    ]
}

fn triggers() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        Just(Trigger::Close),
        (1u64..4).prop_map(Trigger::Events),
        (1i64..9).prop_map(Trigger::EveryMs),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The lateness is as large as the disorder, so nothing is late and every window is as if all had come in order.
    #[test]
    fn disorder_within_the_lateness_changes_nothing(
        spec in specs(),
        trigger in triggers(),
        events in prop::collection::vec((-50i64..150, 0u8..3, 1u64..9, 0i64..30), 0..120),
        reload_every in 1usize..20,
    ) {
        let mut arriving = events;
        arriving.sort_by_key(|(time, _, _, delay)| time + delay);
        let mut marks = Watermarks::new(30, None);
        let partition = marks.join(0);
        let mut player = Player::new(spec, trigger);
        for (nth, (time, key, value, _)) in arriving.iter().enumerate() {
            player.event((*time, *key, *value));
            marks.observe(partition, *time, 0);
            player.advance(marks.current(0));
            if nth % reload_every == 0 {
                player.reload(spec, trigger);
            }
        }
        marks.end(partition);
        player.advance(marks.current(0));
        let all: Vec<Event> = arriving.iter().map(|each| (each.0, each.1, each.2)).collect();
        prop_assert_eq!(&player.late, &[]);
        let mut closed = player.closed;
        // Windows of one advance are ordered; those of all are, once their ends are in order.
        closed.sort_by_key(|row| (row.1, row.2));
        let mut wanted = reference(spec, &all);
        wanted.sort_by_key(|row| (row.1, row.2));
        prop_assert_eq!(closed, wanted);
        prop_assert_eq!(player.windows.open(), 0);
    }

    /// Whatever is late: every event is either in the windows or handed out as late, never both or neither.
    #[test]
    fn every_event_is_counted_once_or_late(
        size_ms in 1i64..20,
        session in any::<bool>(),
        events in prop::collection::vec((0i64..200, 0u8..3, 1u64..9), 0..120),
        lateness in 0i64..40,
    ) {
        let spec = if session { Spec::Session { gap_ms: size_ms } } else { Spec::Tumbling { size_ms } };
        let mut marks = Watermarks::new(lateness, None);
        let partition = marks.join(0);
        let mut player = Player::new(spec, Trigger::Close);
        for event in &events {
            let late_before = player.late.len();
            let watermark = player.windows.watermark();
            player.event(*event);
            if !session && player.late.len() > late_before {
                let end = (event.0 / size_ms + 1) * size_ms;
                prop_assert!(end <= watermark, "late although its window is open");
            }
            marks.observe(partition, event.0, 0);
            player.advance(marks.current(0));
        }
        marks.end(partition);
        player.advance(marks.current(0));
        let counted: u64 = player.closed.iter().map(|row| row.4).sum();
        prop_assert_eq!(counted as usize + player.late.len(), events.len());
        let total: u64 = player.closed.iter().map(|row| row.3).sum();
        let late: u64 = player.late.iter().map(|event| event.2).sum();
        prop_assert_eq!(total + late, events.iter().map(|event| event.2).sum::<u64>());
    }
}

#[test]
fn triggers_speak_before_the_end_and_the_end_says_all() {
    let spec = Spec::Tumbling { size_ms: 100 };
    let mut player = Player::new(spec, Trigger::Events(2));
    for time in [1, 2, 3, 4, 5] {
        player.event((time, 7, 1));
    }
    assert_eq!(player.early, [(0, 100, 7, 2, 2), (0, 100, 7, 4, 4)]);
    player.advance(100);
    assert_eq!(player.closed, [(0, 100, 7, 5, 5)]);

    let mut player = Player::new(spec, Trigger::EveryMs(10));
    player.advance(1);
    player.event((12, 7, 1));
    player.advance(9);
    assert_eq!(player.early, [], "event time has not come far enough");
    player.advance(11);
    assert_eq!(player.early, [(0, 100, 7, 1, 1)]);
    player.advance(25);
    assert_eq!(player.early.len(), 1, "nothing new came");
    player.event((26, 7, 1));
    player.advance(31);
    assert_eq!(player.early[1..], [(0, 100, 7, 2, 2)]);
}

#[test]
fn an_event_between_two_sessions_makes_them_one() {
    let mut player = Player::new(Spec::Session { gap_ms: 10 }, Trigger::Close);
    for event in [(0, 1, 1), (15, 1, 2), (100, 1, 4)] {
        player.event(event);
    }
    assert_eq!(player.windows.open(), 3);
    player.event((8, 1, 8));
    assert_eq!(player.windows.open(), 2);
    player.advance(50);
    assert_eq!(player.closed, [(0, 25, 1, 11, 3)]);
    player.event((30, 1, 1));
    assert_eq!(player.late, [(30, 1, 1)]);
}

#[test]
fn a_saved_state_that_was_cut_is_refused() {
    let spec = Spec::Tumbling { size_ms: 10 };
    let mut player = Player::new(spec, Trigger::Close);
    player.event((1, 1, 1));
    let mut bytes = Vec::new();
    player.windows.save(&mut bytes);
    for cut in 0..bytes.len() {
        let mut windows = Windows::new(spec, Trigger::Close, Total);
        assert!(windows.load(&mut &bytes[..cut]).is_err(), "{cut}");
    }
}
