//! Decides what a trace of arrivals says: lines of two columns, a second and how many came from then until the next line.
//!
//! The first line may be a heading. The last line lasts as long as the one before it.

use super::input::Count;

/// Lines at most.
const LINES_MAX: usize = 1_000_000;
/// A trace of one line lasts an hour.
const ALONE_SEC: f64 = 3_600.0;

/// The counts in `text`; `file` is named in errors.
///
/// # Errors
/// The first line that makes no sense, with its number.
pub fn read(file: &str, text: &str) -> Result<Vec<Count>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if points.len() == LINES_MAX {
            return Err(format!(
                "{file}: more than {LINES_MAX} lines; give fewer, longer intervals"
            ));
        }
        let bad = |what: String| format!("{file}:{}: {what}", number + 1);
        match columns(line) {
            Ok(point) => {
                let (before, now) = (points.last().map(|(second, _)| *second), point.0);
                if before.is_some_and(|before| before >= now) {
                    return Err(bad(format!("second {now} does not come after the line before")));
                }
                points.push(point);
            }
            Err(_) if number == 0 && is_heading(line) => {}
            Err(what) => return Err(bad(what)),
        }
    }
    if points.is_empty() {
        return Err(format!("{file}: the trace is empty; write lines such as 3600,417"));
    }
    Ok(counts(&points))
}

fn columns(line: &str) -> Result<(f64, f64), String> {
    let cells: Vec<&str> = line.split([',', ';', '\t']).map(str::trim).collect();
    let [second, items] = cells[..] else {
        let found = cells.len();
        return Err(format!("{found} columns; write two, a second and how many came, as 3600,417"));
    };
    let number = |cell: &str| match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("`{cell}` is not a number from 0 on")),
    };
    Ok((number(second)?, number(items)?))
}

fn is_heading(line: &str) -> bool {
    line.split([',', ';', '\t']).all(|cell| cell.trim().parse::<f64>().is_err())
}

fn counts(points: &[(f64, f64)]) -> Vec<Count> {
    let start = points[0].0;
    let last = match points {
        [.., before, last] => last.0 - before.0,
        _ => ALONE_SEC,
    };
    let one = |place: usize| {
        let (second, items) = points[place];
        let end = points.get(place + 1).map_or(second + last, |next| next.0);
        Count { from_sec: second - start, to_sec: end - start, items }
    };
    (0..points.len()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_intervals_up_to_the_next() {
        let counts = read("t.csv", "second,arrivals\n100, 5\n160;0\n\n# night\n280\t7\n").unwrap();
        let count = |from_sec, to_sec, items| Count { from_sec, to_sec, items };
        assert_eq!(
            counts,
            [count(0.0, 60.0, 5.0), count(60.0, 180.0, 0.0), count(180.0, 300.0, 7.0)]
        );
        assert_eq!(read("t.csv", "0,3").unwrap()[0].to_sec, 3_600.0);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, words) in [
            ("", "t.csv: the trace is empty"),
            ("second,arrivals\n", "t.csv: the trace is empty"),
            ("0,5\nten,6\n", "t.csv:2: `ten` is not a number"),
            ("0,5\n60,-1\n", "t.csv:2: `-1` is not a number from 0 on"),
            ("0,5\n60,NaN\n", "t.csv:2: `NaN`"),
            ("0,5\n60,1,2\n", "t.csv:2: 3 columns"),
            ("60,5\n60,6\n", "t.csv:2: second 60 does not come after"),
        ] {
            let error = read("t.csv", text).unwrap_err();
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }
}
