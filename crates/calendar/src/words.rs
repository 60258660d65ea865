//! What an expression means, in words for people.
//!
//! Says nothing that is not so: what has no short name is listed in full.

use crate::cron::{Cron, Days, Weekdays};
use crate::expression::Expression;
use crate::field::{Field, Set, Unit};
use crate::field::{HOURS, MINUTES, SECONDS};

/// Times of day that are written out as such; more are described by their fields.
const TIMES_MAX: u32 = 6;

const WEEKDAY_NAMES: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// The meaning of an expression.
pub fn describe(expression: &Expression) -> String {
    match expression {
        Expression::Every(seconds) => format!("every {}", span(*seconds)),
        Expression::Cron(cron) => {
            let months = match cron.months.set.len() {
                12 => String::new(),
                _ => format!(" in {}", list(runs(cron.months.set, month))),
            };
            format!("{}{}{months}", times(cron), days(cron))
        }
    }
}

fn span(seconds: u64) -> String {
    for (unit, length) in [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)] {
        if seconds.is_multiple_of(length) {
            return match seconds / length {
                1 => unit.to_owned(),
                count => format!("{count} {unit}s"),
            };
        }
    }
    unreachable!("every number is a multiple of 1")
}

fn times(cron: &Cron) -> String {
    let Cron { seconds, minutes, hours, .. } = cron;
    let on_the_minute = seconds.set == Set(1);
    let count = seconds.set.len() * minutes.set.len() * hours.set.len();
    if count <= TIMES_MAX {
        let mut all = Vec::new();
        for hour in hours.set.iter() {
            for minute in minutes.set.iter() {
                all.extend(seconds.set.iter().map(|second| match on_the_minute {
                    true => format!("{hour:02}:{minute:02}"),
                    false => format!("{hour:02}:{minute:02}:{second:02}"),
                }));
            }
        }
        return format!("at {}", list(all));
    }
    let mut parts = Vec::new();
    if !on_the_minute {
        parts.push(part(&SECONDS, seconds));
    }
    if on_the_minute || !is_all(&MINUTES, minutes) {
        parts.push(part(&MINUTES, minutes));
    }
    if !is_all(&HOURS, hours) {
        parts.push(part(&HOURS, hours));
    } else if !is_even(&MINUTES, minutes) {
        parts.push("every hour".to_owned());
    }
    let text = parts.join(" of ");
    if text.starts_with("every") { text } else { format!("at {text}") }
}

/// One field of a time: `every 15 minutes`, `minute 5`, `hours 9 to 17`.
fn part(unit: &Unit, field: &Field) -> String {
    let singular = unit.name.trim_end_matches('s');
    if is_all(unit, field) {
        return format!("every {singular}");
    }
    if is_even(unit, field) {
        let step = (unit.max + 1) / field.set.len() as u8;
        return format!("every {step} {}", unit.name);
    }
    match field.set.len() {
        1 => format!("{singular} {}", list(runs(field.set, |n| n.to_string()))),
        _ => format!("{} {}", unit.name, list(runs(field.set, |n| n.to_string()))),
    }
}

fn is_all(unit: &Unit, field: &Field) -> bool {
    field.set.len() == u32::from(unit.max - unit.min) + 1
}

/// Whether the numbers go round evenly: from the first, with a step that divides the whole.
fn is_even(unit: &Unit, field: &Field) -> bool {
    let (whole, count) = (u32::from(unit.max) + 1, field.set.len());
    count > 1
        && whole.is_multiple_of(count)
        && field.set.iter().all(|number| u32::from(number).is_multiple_of(whole / count))
}

fn days(cron: &Cron) -> String {
    let day = day_words(&cron.days);
    let weekday = weekday_words(&cron.weekdays);
    let both =
        if cron.days.field.star || cron.weekdays.field.star { " if it is " } else { " or on " };
    match (day, weekday) {
        (None, None) if cron.hours.set.len() == 24 => String::new(),
        (None, None) => " every day".to_owned(),
        (Some(one), None) | (None, Some(one)) => format!(" on {one}"),
        (Some(day), Some(weekday)) => format!(" on {day}{both}{weekday}"),
    }
}

fn day_words(days: &Days) -> Option<String> {
    if days.field.set.len() == 31 {
        return None;
    }
    let mut parts = Vec::new();
    match days.field.set.len() {
        0 => {}
        1 => parts.push(format!("day {}", list(runs(days.field.set, |n| n.to_string())))),
        _ => parts.push(format!("days {}", list(runs(days.field.set, |n| n.to_string())))),
    }
    parts.extend(days.from_end.iter().map(|before| match before {
        0 => "the last day".to_owned(),
        1 => "the day before the last".to_owned(),
        _ => format!("{before} days before the last"),
    }));
    Some(format!("{} of the month", list(parts)))
}

fn weekday_words(weekdays: &Weekdays) -> Option<String> {
    if weekdays.field.set.len() == 7 {
        return None;
    }
    // Sunday goes last, so that a weekend is one run.
    let set = weekdays.field.set;
    let week = Set(set.0 & !1 | (set.0 & 1) << 7);
    let mut parts = runs(week, |day| WEEKDAY_NAMES[usize::from(day) % 7].to_owned());
    for (at, set) in weekdays.nth.iter().enumerate() {
        parts.extend(set.iter().map(|day| {
            format!("the {} {} of the month", ORDINALS[at], WEEKDAY_NAMES[usize::from(day)])
        }));
    }
    parts.extend(
        weekdays
            .last
            .iter()
            .map(|day| format!("the last {} of the month", WEEKDAY_NAMES[usize::from(day)])),
    );
    Some(list(parts))
}

fn month(number: u8) -> String {
    MONTH_NAMES[usize::from(number) - 1].to_owned()
}

/// The numbers of a set, with three or more in a row as `a to b`.
fn runs(set: Set, name: impl Fn(u8) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(first) = set.at_least(at) {
        let mut last = first;
        while set.has(last + 1) {
            last += 1;
        }
        match last - first {
            0 => parts.push(name(first)),
            1 => parts.extend([name(first), name(last)]),
            _ => parts.push(format!("{} to {}", name(first), name(last))),
        }
        at = last + 1;
    }
    parts
}

fn list(mut parts: Vec<String>) -> String {
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_described_as_people_would() {
        for (text, expected) in [
            ("0 3 * * *", "at 03:00 every day"),
            ("30 8,17 * * MON-FRI", "at 08:30 and 17:30 on Monday to Friday"),
            ("* * * * *", "every minute"),
            ("* * * * * *", "every second"),
            ("*/15 * * * *", "every 15 minutes"),
            ("*/15 9-17 * * 1-5", "every 15 minutes of hours 9 to 17 on Monday to Friday"),
            ("@hourly", "at minute 0 of every hour"),
            ("0 */6 * * *", "at 00:00, 06:00, 12:00 and 18:00 every day"),
            ("0 */2 * * *", "at minute 0 of every 2 hours every day"),
            ("@weekly", "at 00:00 on Sunday"),
            ("@monthly", "at 00:00 on day 1 of the month"),
            ("@yearly", "at 00:00 on day 1 of the month in January"),
            ("0 0 L * *", "at 00:00 on the last day of the month"),
            ("0 0 L-1,15 * *", "at 00:00 on day 15 and the day before the last of the month"),
            ("0 12 * * FRI#2", "at 12:00 on the second Friday of the month"),
            ("0 12 * * SAT,SUN", "at 12:00 on Saturday and Sunday"),
            ("0 12 * 6-8 5L", "at 12:00 on the last Friday of the month in June to August"),
            ("0 0 13 * FRI", "at 00:00 on day 13 of the month or on Friday"),
            ("15 30 4 * * *", "at 04:30:15 every day"),
            ("10-12 * * * *", "at minutes 10 to 12 of every hour"),
            ("0/20 * * * * *", "every 20 seconds"),
            ("@every 90s", "every 90 seconds"),
            ("@every 1h", "every hour"),
        ] {
            let expression: Expression = text.parse().unwrap();
            assert_eq!(describe(&expression), expected, "{text}");
        }
    }
}
