//! Ticks against answers that were worked out by hand, and against a walk over every minute.

use divvy_calendar::Calendar;
use divvy_types::Timestamp;
use proptest::prelude::*;

fn calendar(expression: &str, zone: &str) -> Calendar {
    Calendar::new(expression, zone).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// The first ticks after a time, in the zone's own clock.
fn local(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let calendar = calendar(expression, zone);
    calendar.ticks_after(time(after)).take(count).map(|tick| calendar.local(tick)).collect()
}

#[test]
fn ticks_come_when_the_calendar_says() {
    for (expression, after, expected) in [
        ("* * * * *", "2026-11-16T02:10:59.999999Z", "2026-11-16T02:11:00+00:00"),
        ("* * * * *", "2026-11-16T02:11:00Z", "2026-11-16T02:12:00+00:00"),
        ("* * * * * *", "2026-11-16T02:11:00.5Z", "2026-11-16T02:11:01+00:00"),
        ("0 3 * * *", "2026-12-31T03:00:00Z", "2027-01-01T03:00:00+00:00"),
        ("59 59 23 31 12 *", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59+00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00+00:00"),
        ("0 0 29 2 */6", "2026-01-01T00:00:00Z", "2032-02-29T00:00:00+00:00"),
        ("0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00+00:00"),
        ("0 0 L * *", "2028-02-01T00:00:00Z", "2028-02-29T00:00:00+00:00"),
        ("0 9 * * MON#1", "2026-11-03T00:00:00Z", "2026-12-07T09:00:00+00:00"),
        ("0 9 * * FRIL", "2026-11-03T00:00:00Z", "2026-11-27T09:00:00+00:00"),
        ("30 9 13 * FRI", "2026-11-08T00:00:00Z", "2026-11-13T09:30:00+00:00"),
        ("@every 90s", "2026-11-16T00:00:00Z", "2026-11-16T00:01:30+00:00"),
        ("@every 7d", "1970-01-02T00:00:00Z", "1970-01-08T00:00:00+00:00"),
    ] {
        assert_eq!(local(expression, "UTC", after, 1), [expected], "{expression} after {after}");
    }
}

#[test]
fn a_time_that_does_not_exist_ticks_once_right_after_the_gap() {
    // 29 March 2026, 2:00 to 3:00 is skipped in Berlin; 8 March, 2:00 to 3:00 in New York.
    for expression in ["30 2 * * *", "0,30 2 * * *", "*/10 2 * * *", "0 2 * * *"] {
        let ticks = local(expression, "Europe/Berlin", "2026-03-28T12:00:00Z", 1);
        assert_eq!(ticks, ["2026-03-29T03:00:00+02:00"], "{expression}");
        let next = local(expression, "Europe/Berlin", "2026-03-29T01:00:00Z", 1);
        assert!(next[0].starts_with("2026-03-30T02:"), "{expression}: {next:?}");
    }
    assert_eq!(
        local("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2),
        ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]
    );
    // The moment before the gap ends is not a moment too late.
    assert_eq!(
        local("30 2 * * *", "Europe/Berlin", "2026-03-29T00:59:59.9Z", 1),
        ["2026-03-29T03:00:00+02:00"]
    );
    assert_eq!(
        local("0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2),
        ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"],
        "two ticks that fall together are one"
    );
    // A whole day that a country left out.
    assert_eq!(
        local("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1),
        ["2011-12-31T00:00:00+14:00"]
    );
}

#[test]
fn a_time_that_exists_twice_ticks_the_first_time() {
    // 25 October 2026, 2:00 to 3:00 comes twice in Berlin; 1 November, 1:00 to 2:00 in New York.
    assert_eq!(
        local("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
    );
    assert_eq!(
        local("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2),
        ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    );
    assert_eq!(
        local("0,30 2,3 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", 2),
        ["2026-10-25T03:00:00+01:00", "2026-10-25T03:30:00+01:00"]
    );
}

#[test]
fn hours_that_go_round_tick_through_changes_of_the_clock() {
    assert_eq!(
        local("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3),
        ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"]
    );
    assert_eq!(
        local("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3),
        ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"]
    );
    let quarters = calendar("*/15 * * * *", "America/New_York");
    let night: Vec<_> = quarters.ticks_after(time("2026-11-01T03:00:00Z")).take(24).collect();
    assert!(night.windows(2).all(|pair| pair[1].0 - pair[0].0 == 900_000_000));
    assert_eq!(
        local("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 4),
        [
            "2026-10-25T02:00:00+02:00",
            "2026-10-25T02:30:00+02:00",
            "2026-10-25T02:00:00+01:00",
            "2026-10-25T02:30:00+01:00"
        ]
    );
}

#[test]
fn the_newest_ticks_of_a_long_time_are_found_without_walking_it() {
    let seconds = calendar("* * * * * *", "Europe/Berlin");
    let (after, until) = (time("2020-01-01T00:00:00Z"), time("2026-11-16T02:00:00.7Z"));
    let newest = seconds.newest_between(after, until, 3);
    assert!(newest.cut);
    let words: Vec<String> = newest.ticks.iter().map(|tick| seconds.local_words(*tick)).collect();
    assert_eq!(
        words,
        [
            "Mon 2026-11-16 02:59:58 CET",
            "Mon 2026-11-16 02:59:59 CET",
            "Mon 2026-11-16 03:00:00 CET"
        ]
    );
    let daily = calendar("0 3 * * *", "UTC");
    let all = daily.newest_between(time("2026-11-13T03:00:00Z"), time("2026-11-16T03:00:00Z"), 3);
    assert_eq!((all.ticks.len(), all.cut), (3, false));
    assert_eq!(daily.last_between(until, until), None);
    assert_eq!(
        daily.last_between(time("2026-11-16T03:00:00Z"), time("2026-11-17T02:59:59Z")),
        None
    );
}

const EXPRESSIONS: [&str; 14] = [
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "15 1-3 * * *",
    "0 */2 * * *",
    "*/20 2 * * *",
    "0 0 1,15 * *",
    "0 0 L * *",
    "5 4 * * SUN",
    "5 4 * * 2#2",
    "5 4 * MAR,OCT *",
    "0 0 13 * FRI",
    "59 23 31 12 ?",
    "0 12 29 2 *",
];
const ZONES: [&str; 6] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Sao_Paulo",
];

/// Whether a minute of local time, as text, fits five plain fields: written anew, without sets and without searching.
fn fits(expression: &str, date: jiff::civil::DateTime) -> bool {
    let fields: Vec<&str> = expression.split(' ').collect();
    let weekday = i64::from(date.weekday().to_sunday_zero_offset());
    let day = i64::from(date.day());
    let plain = |text: &str, value: i64| {
        text.split(',').any(|part| {
            let word = |text: &str| match text {
                "SUN" => 0,
                "FRI" => 5,
                "MAR" => 3,
                "OCT" => 10,
                number => number.parse::<i64>().expect("a number"),
            };
            match part.split_once(['/', '-']) {
                None if part == "*" || part == "?" => true,
                None if part == "L" => i64::from(date.days_in_month()) == value,
                None if part.contains('#') => {
                    let (wanted, nth) = part.split_once('#').expect("has the sign");
                    word(wanted) == value && (day - 1) / 7 + 1 == word(nth)
                }
                None => word(part) == value,
                Some(("*", step)) => value % word(step) == 0,
                Some((from, to)) => (word(from)..=word(to)).contains(&value),
            }
        })
    };
    let restricts = |text: &str| !text.starts_with('*') && text != "?";
    let (by_day, by_weekday) = (plain(fields[2], day), plain(fields[4], weekday));
    let days = if restricts(fields[2]) && restricts(fields[4]) {
        by_day || by_weekday
    } else {
        by_day && by_weekday
    };
    days && plain(fields[0], date.minute().into())
        && plain(fields[1], date.hour().into())
        && plain(fields[3], date.month().into())
}

/// The next tick by walking over every minute, with the rules for clocks that are set told minute by minute.
fn walk(expression: &str, zone: &str, after: i64, until: i64) -> Option<i64> {
    let rules = jiff::tz::TimeZone::get(zone).expect("a zone");
    let wall = |second: i64| {
        let moment = jiff::Timestamp::from_second(second).expect("in range");
        rules.to_offset(moment).to_datetime(moment)
    };
    let fields: Vec<&str> = expression.split(' ').collect();
    let (minutes_round, hours_round) = (fields[0].starts_with('*'), fields[1].starts_with('*'));
    let mut minute = after.div_euclid(60) * 60 + 60;
    while minute <= until {
        let now = wall(minute);
        let before = wall(minute - 60);
        // The clock jumped forward: were there fitting minutes in between?
        let mut skipped = before.checked_add(jiff::Span::new().minutes(1)).expect("in range");
        while skipped < now {
            if fits(expression, skipped) && !hours_round {
                return Some(minute);
            }
            skipped = skipped.checked_add(jiff::Span::new().minutes(1)).expect("in range");
        }
        let shown_before = || (1..=180).any(|back| wall(minute - back * 60) == now);
        if fits(expression, now) && (hours_round || minutes_round || !shown_before()) {
            return Some(minute);
        }
        minute += 60;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_next_tick_is_the_first_that_a_walk_finds(
        expression in 0..EXPRESSIONS.len(),
        zone in 0..ZONES.len(),
        // Half of the times lie near a change of the clock of 2026 in one of the zones.
        near in prop::sample::select(vec![1_774_746_000_i64, 1_792_890_000, 1_772_953_200, 1_793_512_800, 1_775_314_800, 1_791_043_200, 1_800_000_000, 946_684_800]),
        shift in -200_000_i64..200_000,
        micros in 0_u64..1_000_000,
    ) {
        let (expression, zone) = (EXPRESSIONS[expression], ZONES[zone]);
        let after = near + shift;
        let calendar = calendar(expression, zone);
        let next = calendar.next_after(Timestamp(after as u64 * 1_000_000 + micros)).unwrap();
        prop_assert!(next.0 > after as u64 * 1_000_000 + micros);
        let until = after + 20 * 86_400;
        let walked = walk(expression, zone, after, until);
        let found = i64::try_from(next.0 / 1_000_000).unwrap();
        prop_assert_eq!(walked, (found <= until).then_some(found), "{} in {} after {}", expression, zone, after);
    }

    #[test]
    fn the_last_tick_before_a_time_has_none_between(
        expression in 0..EXPRESSIONS.len(),
        zone in 0..ZONES.len(),
        after in 1_770_000_000_u64..1_800_000_000,
        span in 0_u64..5_000_000,
    ) {
        let calendar = calendar(EXPRESSIONS[expression], ZONES[zone]);
        let (after, until) = (Timestamp(after * 1_000_000), Timestamp((after + span) * 1_000_000));
        match calendar.last_between(after, until) {
            None => prop_assert!(calendar.next_after(after).unwrap() > until),
            Some(last) => {
                prop_assert!(last > after && last <= until);
                prop_assert!(calendar.next_after(last).unwrap() > until);
            }
        }
    }
}
