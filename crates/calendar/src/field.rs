//! One field of a cron expression as a set of numbers.
//!
//! Decides what a list of values, ranges and steps selects. Does not know dates: what `L` and `#` mean is in
//! [`crate::cron`].

use crate::expression::InvalidExpression;

/// What a field is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What people call it.
    pub name: &'static str,
    /// The smallest number.
    pub min: u8,
    /// The greatest number.
    pub max: u8,
    /// Words for numbers; the first stands for `min`.
    pub words: &'static [&'static str],
}

/// Seconds of a minute.
pub const SECONDS: Unit = Unit { name: "seconds", min: 0, max: 59, words: &[] };
/// Minutes of an hour.
pub const MINUTES: Unit = Unit { name: "minutes", min: 0, max: 59, words: &[] };
/// Hours of a day.
pub const HOURS: Unit = Unit { name: "hours", min: 0, max: 23, words: &[] };
/// Days of a month.
pub const DAYS: Unit = Unit { name: "days of the month", min: 1, max: 31, words: &[] };
/// Months of a year.
pub const MONTHS: Unit = Unit {
    name: "months",
    min: 1,
    max: 12,
    words: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
/// Days of a week; 0 and 7 are Sunday.
pub const WEEKDAYS: Unit = Unit {
    name: "days of the week",
    min: 0,
    max: 7,
    words: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

/// A set of numbers up to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(pub u64);

impl Set {
    /// Whether it has this number.
    pub fn has(self, number: u8) -> bool {
        self.0 >> number & 1 == 1
    }

    /// Its smallest number that is at least `number`.
    pub fn at_least(self, number: u8) -> Option<u8> {
        let rest = self.0.checked_shr(u32::from(number)).unwrap_or(0);
        (rest != 0).then(|| number + rest.trailing_zeros() as u8)
    }

    /// Its numbers in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |number| self.has(*number))
    }

    /// How many numbers it has.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, number: u8) {
        self.0 |= 1 << number;
    }
}

/// What a field selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The numbers.
    pub set: Set,
    /// Whether it begins with `*` or `?`: it does not restrict, it only thins out.
    pub star: bool,
}

impl Field {
    /// Exactly this number.
    pub fn only(number: u8) -> Self {
        Self { set: Set(1 << number), star: false }
    }
}

/// Whether a field as written begins with a wildcard.
pub fn is_star(text: &str) -> bool {
    text.starts_with('*') || text == "?"
}

impl Unit {
    /// Reads a whole field: parts between commas.
    pub fn parse(&self, text: &str) -> Result<Field, InvalidExpression> {
        let mut set = Set::default();
        for part in text.split(',') {
            self.add_part(part, &mut set)?;
        }
        Ok(Field { set, star: is_star(text) })
    }

    /// Reads one part: `*`, a number, a range, each with or without a step.
    pub fn add_part(&self, part: &str, set: &mut Set) -> Result<(), InvalidExpression> {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(self.step(part, step)?)),
        };
        let (from, to) = match (range, range.split_once('-')) {
            ("*" | "?", _) => (self.min, self.max_distinct()),
            (_, Some((from, to))) => self.range(part, from, to)?,
            (_, None) => {
                let from = self.number(range)?;
                (from, if step.is_some() { self.max_distinct() } else { from })
            }
        };
        for number in (from..=to).step_by(usize::from(step.unwrap_or(1))) {
            // Both 0 and 7 are Sunday.
            set.add(if self.is_weekday() { number % 7 } else { number });
        }
        Ok(())
    }

    /// Reads one number or word.
    pub fn number(&self, text: &str) -> Result<u8, InvalidExpression> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        if let Some(at) = word {
            return Ok(self.min + at as u8);
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u8>() {
            Ok(number) if digits && (self.min..=self.max).contains(&number) => Ok(number),
            _ => Err(self.wrong(text, format!("expected {}", self.expected()))),
        }
    }

    /// An error about this field.
    pub fn wrong(&self, value: &str, problem: String) -> InvalidExpression {
        InvalidExpression::field(self.name, value, problem)
    }

    fn range(&self, part: &str, from: &str, to: &str) -> Result<(u8, u8), InvalidExpression> {
        let (from, mut to) = (self.number(from)?, self.number(to)?);
        if self.is_weekday() && to == 0 && from > 0 {
            to = 7;
        }
        if from > to {
            let problem =
                "ends before it begins; write two ranges with a comma between them".to_owned();
            return Err(self.wrong(part, problem));
        }
        Ok((from, to))
    }

    fn step(&self, part: &str, step: &str) -> Result<u8, InvalidExpression> {
        let most = self.max_distinct() - self.min;
        let number = step.parse::<u8>().ok().filter(|_| step.bytes().all(|b| b.is_ascii_digit()));
        match number {
            Some(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(self.wrong(part, format!("has a step of `{step}`, expected 1 to {most}"))),
        }
    }

    fn is_weekday(&self) -> bool {
        *self == WEEKDAYS
    }

    fn max_distinct(&self) -> u8 {
        if self.is_weekday() { 6 } else { self.max }
    }

    fn expected(&self) -> String {
        let numbers = format!("{} to {}", self.min, self.max);
        match (self.words.first(), self.words.last()) {
            (Some(first), Some(last)) => format!("{numbers} or {first} to {last}"),
            _ => numbers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(unit: Unit, text: &str) -> Vec<u8> {
        unit.parse(text).unwrap().set.iter().collect()
    }

    #[test]
    fn values_ranges_steps_and_words_select_their_numbers() {
        assert_eq!(numbers(MINUTES, "5"), [5]);
        assert_eq!(numbers(MINUTES, "*/15"), [0, 15, 30, 45]);
        assert_eq!(numbers(MINUTES, "50/3"), [50, 53, 56, 59]);
        assert_eq!(numbers(HOURS, "9-17/4,23,0"), [0, 9, 13, 17, 23]);
        assert_eq!(numbers(MONTHS, "jan,Mar-MAY"), [1, 3, 4, 5]);
        assert_eq!(numbers(WEEKDAYS, "MON-FRI"), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(WEEKDAYS, "0,7"), [0]);
        assert_eq!(numbers(WEEKDAYS, "FRI-SUN"), [0, 5, 6]);
        assert_eq!(numbers(WEEKDAYS, "5-7"), [0, 5, 6]);
        assert_eq!(numbers(WEEKDAYS, "*/2"), [0, 2, 4, 6]);
        assert_eq!(numbers(DAYS, "?").len(), 31);
    }

    #[test]
    fn every_fault_names_the_field_the_value_and_the_cure() {
        for (unit, text, expected) in [
            (MINUTES, "61", "minutes `61`: expected 0 to 59"),
            (MINUTES, "", "minutes ``: expected 0 to 59"),
            (MINUTES, "+5", "minutes `+5`: expected 0 to 59"),
            (HOURS, "1,24", "hours `24`: expected 0 to 23"),
            (MONTHS, "0", "months `0`: expected 1 to 12 or JAN to DEC"),
            (MONTHS, "JANUARY", "months `JANUARY`: expected 1 to 12 or JAN to DEC"),
            (WEEKDAYS, "8", "days of the week `8`: expected 0 to 7 or SUN to SAT"),
            (MINUTES, "*/0", "minutes `*/0`: has a step of `0`, expected 1 to 59"),
            (MINUTES, "*/x", "minutes `*/x`: has a step of `x`, expected 1 to 59"),
            (
                HOURS,
                "22-2",
                "hours `22-2`: ends before it begins; write two ranges with a comma between them",
            ),
        ] {
            assert_eq!(unit.parse(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_next_number_of_a_set_is_found() {
        let set = Set(1 << 3 | 1 << 59);
        assert_eq!([0, 3, 4, 59].map(|n| set.at_least(n)), [Some(3), Some(3), Some(59), Some(59)]);
        assert_eq!(set.at_least(60), None);
        assert_eq!(set.at_least(64), None);
    }
}
