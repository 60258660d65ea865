//! The fields of a cron expression together: which days and which times of a day they select.
//!
//! Knows dates and times of a clock on a wall, without a zone. The rule for the two day fields is that of Vixie cron:
//! if both restrict, a day that fits either is selected; a field that begins with `*` or `?` does not restrict, and a
//! day must then fit both.

use jiff::civil::{Date, DateTime, Time, Weekday};

use crate::expression::InvalidExpression;
use crate::field::{DAYS, Field, HOURS, MINUTES, MONTHS, SECONDS, Set, WEEKDAYS, is_star};

/// Years that are searched for a match. The rarest that there is, a 29 February on a given day of the week, comes
/// within 40.
pub(crate) const YEARS_MAX: i16 = 60;
/// Where the search for any match at all begins.
const ANY_YEAR: i16 = 2000;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    /// Seconds of the minute; 0 unless given.
    pub seconds: Field,
    /// Minutes of the hour.
    pub minutes: Field,
    /// Hours of the day.
    pub hours: Field,
    /// Days of the month.
    pub days: Days,
    /// Months of the year.
    pub months: Field,
    /// Days of the week.
    pub weekdays: Weekdays,
}

/// Days of a month, from its start and from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days {
    /// Counted from the first.
    pub field: Field,
    /// Counted from the last: bit 0 is the last day, bit 1 the day before it.
    pub from_end: Set,
}

/// Days of a week, each time or only one of a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weekdays {
    /// Each time; bit 0 is Sunday.
    pub field: Field,
    /// The first to fifth of a month, each a set of weekdays.
    pub nth: [Set; 5],
    /// The last of a month.
    pub last: Set,
}

impl Cron {
    /// Reads five fields, or six of which the first is the seconds. Refuses one that never comes.
    pub fn parse(text: &str) -> Result<Self, InvalidExpression> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (seconds, rest) = match fields.as_slice() {
            rest @ [_, _, _, _, _] => (Field::only(0), rest),
            [seconds, rest @ ..] if rest.len() == 5 => (SECONDS.parse(seconds)?, rest),
            other => {
                let count = other.len();
                let problem = format!(
                    "has {count} fields, expected 5 (minutes hours days months weekdays), or 6 with seconds first"
                );
                return Err(InvalidExpression::Shape(problem));
            }
        };
        let cron = Self {
            seconds,
            minutes: MINUTES.parse(rest[0])?,
            hours: HOURS.parse(rest[1])?,
            days: Days::parse(rest[2])?,
            months: MONTHS.parse(rest[3])?,
            weekdays: Weekdays::parse(rest[4])?,
        };
        let any = DateTime::new(ANY_YEAR, 1, 1, 0, 0, 0, 0).ok().and_then(|from| cron.next(from));
        match any {
            Some(_) => Ok(cron),
            None => {
                let problem = "never comes in these months; choose a day that they have".to_owned();
                Err(DAYS.wrong(rest[2], problem))
            }
        }
    }

    /// The first time at or after `from` that every field selects.
    pub fn next(&self, from: DateTime) -> Option<DateTime> {
        let last_year = from.year().saturating_add(YEARS_MAX);
        let (mut year, mut month) = (from.year(), from.month());
        let mut first_day = from.day();
        let mut first_time = Some(from.time());
        while year <= last_year {
            if self.months.set.has(month as u8) {
                let days = self.days_of(year, month)?;
                let mut day = first_day as u8;
                while let Some(found) = days.at_least(day) {
                    if found as i8 != first_day {
                        first_time = None;
                    }
                    let date = Date::new(year, month, found as i8).ok()?;
                    if let Some(time) = self.time(first_time.unwrap_or_default()) {
                        return Some(DateTime::from_parts(date, time));
                    }
                    day = found + 1;
                }
            }
            (first_day, first_time) = (1, None);
            (year, month) = if month == 12 { (year.checked_add(1)?, 1) } else { (year, month + 1) };
        }
        None
    }

    /// Whether the hours go round the clock, so that a change of the clock is passed through.
    pub fn is_hourly(&self) -> bool {
        self.hours.star
    }

    /// Whether hours or minutes go round.
    pub fn goes_round(&self) -> bool {
        self.hours.star || self.minutes.star
    }

    /// The first time of day at or after `from`.
    fn time(&self, from: Time) -> Option<Time> {
        let (mut hour, mut minute, mut second) =
            (from.hour() as u8, from.minute() as u8, from.second() as u8);
        loop {
            let found = self.hours.set.at_least(hour)?;
            if found != hour {
                (hour, minute, second) = (found, 0, 0);
            }
            let Some(found) = self.minutes.set.at_least(minute) else {
                (hour, minute, second) = (hour + 1, 0, 0);
                continue;
            };
            if found != minute {
                (minute, second) = (found, 0);
            }
            match self.seconds.set.at_least(second) {
                Some(second) => {
                    return Time::new(hour as i8, minute as i8, second as i8, 0).ok();
                }
                None => (minute, second) = (minute + 1, 0),
            }
        }
    }

    /// The selected days of one month.
    fn days_of(&self, year: i16, month: i8) -> Option<Set> {
        let first = Date::new(year, month, 1).ok()?;
        let length = first.days_in_month() as u8;
        let by_day = self.days.of(length);
        let by_weekday = self.weekdays.of(first.weekday(), length);
        let both_restrict = !self.days.field.star && !self.weekdays.field.star;
        Some(Set(if both_restrict { by_day.0 | by_weekday.0 } else { by_day.0 & by_weekday.0 }))
    }
}

impl Days {
    fn parse(text: &str) -> Result<Self, InvalidExpression> {
        let mut days = Self {
            field: Field { set: Set::default(), star: is_star(text) },
            from_end: Set::default(),
        };
        for part in text.split(',') {
            match part.strip_prefix(['L', 'l']) {
                None => DAYS.add_part(part, &mut days.field.set)?,
                Some("") => days.from_end.0 |= 1,
                Some(rest) => {
                    let before = rest.strip_prefix('-').and_then(|n| n.parse::<u8>().ok());
                    let Some(before) = before.filter(|n| (1..=30).contains(n)) else {
                        let problem = "expected L, or L-1 to L-30 for days before the last";
                        return Err(DAYS.wrong(part, problem.into()));
                    };
                    days.from_end.0 |= 1 << before;
                }
            }
        }
        Ok(days)
    }

    fn of(&self, length: u8) -> Set {
        let mut set = Set(self.field.set.0 & mask(length));
        for before in self.from_end.iter().filter(|before| *before < length) {
            set.0 |= 1 << (length - before);
        }
        set
    }
}

impl Weekdays {
    fn parse(text: &str) -> Result<Self, InvalidExpression> {
        let mut weekdays = Self {
            field: Field { set: Set::default(), star: is_star(text) },
            nth: [Set::default(); 5],
            last: Set::default(),
        };
        for part in text.split(',') {
            if let Some((day, nth)) = part.split_once('#') {
                let day = WEEKDAYS.number(day)? % 7;
                let at = nth.parse::<usize>().ok().and_then(|nth| nth.checked_sub(1));
                let Some(set) = at.and_then(|at| weekdays.nth.get_mut(at)) else {
                    let problem = "expected 1 to 5 after #, such as FRI#2 for the second Friday";
                    return Err(WEEKDAYS.wrong(part, problem.into()));
                };
                set.0 |= 1 << day;
            } else if part.eq_ignore_ascii_case("L") {
                let problem = "says not which day; write 5L or FRIL for the last Friday";
                return Err(WEEKDAYS.wrong(part, problem.into()));
            } else if let Some(day) = part.strip_suffix(['L', 'l']) {
                weekdays.last.0 |= 1 << (WEEKDAYS.number(day)? % 7);
            } else {
                WEEKDAYS.add_part(part, &mut weekdays.field.set)?;
            }
        }
        Ok(weekdays)
    }

    fn of(&self, first: Weekday, length: u8) -> Set {
        let first = first.to_sunday_zero_offset() as u8;
        let mut set = Set::default();
        for day in 1..=length {
            let weekday = (first + day - 1) % 7;
            let nth = self.nth[usize::from((day - 1) / 7)];
            let is_last = day + 7 > length;
            if self.field.set.has(weekday) || nth.has(weekday) || is_last && self.last.has(weekday)
            {
                set.0 |= 1 << day;
            }
        }
        set
    }
}

/// The days 1 to `length`.
fn mask(length: u8) -> u64 {
    ((1 << length) - 1) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(text: &str, year: i16, month: i8) -> Vec<u8> {
        Cron::parse(text).unwrap().days_of(year, month).unwrap().iter().collect()
    }

    #[test]
    fn days_are_counted_from_the_start_the_end_and_by_week() {
        // November 2026 begins on a Sunday.
        assert_eq!(days("0 0 L * *", 2026, 11), [30]);
        assert_eq!(days("0 0 L * *", 2028, 2), [29]);
        assert_eq!(days("0 0 L-2,1 * *", 2026, 11), [1, 28]);
        assert_eq!(days("0 0 * * FRI#2", 2026, 11), [13]);
        assert_eq!(days("0 0 * * 5L", 2026, 11), [27]);
        assert_eq!(days("0 0 ? * MON#1,monL", 2026, 11), [2, 30]);
        assert_eq!(days("0 0 * * 1#5", 2026, 11), [30]);
        assert_eq!(days("0 0 * * 1#5", 2026, 10), [0; 0]);
    }

    #[test]
    fn two_day_fields_that_restrict_select_what_fits_either() {
        assert_eq!(days("0 0 13 * FRI", 2026, 11), [6, 13, 20, 27]);
        assert_eq!(days("0 0 1,15 * 6L", 2026, 11), [1, 15, 28]);
        assert_eq!(days("0 0 */10 * SUN", 2026, 11), [1], "a field that begins with * only thins");
    }

    #[test]
    fn a_date_that_never_comes_is_refused_and_the_rarest_one_is_not() {
        for text in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30 2 ?"] {
            let error = Cron::parse(text).unwrap_err();
            assert_eq!(error.field_name(), Some("days of the month"), "{text}: {error}");
            assert!(error.to_string().contains("never comes"), "{error}");
        }
        assert!(Cron::parse("0 0 29 2 *").is_ok());
        assert!(Cron::parse("0 0 29 2 */6").is_ok(), "29 February on a weekend");
        assert!(Cron::parse("0 0 30 2 FRI").is_ok(), "Fridays of February come");
        assert!(Cron::parse("0 0 L-30 2 *").is_err());
    }

    #[test]
    fn the_special_signs_are_explained_when_they_are_wrong() {
        for (text, words) in [
            ("0 0 LW * *", "expected L, or L-1 to L-30"),
            ("0 0 15W * *", "days of the month `15W`: expected 1 to 31"),
            ("0 0 L-31 * *", "L-30"),
            ("0 0 * * L", "FRIL"),
            ("0 0 * * FRI#6", "second Friday"),
            ("0 0 * * FRI#0", "second Friday"),
            ("0 0 * * 9L", "0 to 7"),
            ("0 0 * L *", "months `L`"),
        ] {
            let error = Cron::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
