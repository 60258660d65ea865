//! Decides how numbers are written for people: thousands apart, as many decimals as asked, short ticks on axes.

/// A number with this many decimals and its thousands apart: `12,345.6`.
pub fn decimal(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::with_capacity(text.len() + whole.len() / 3 + 1);
    // What rounds to zero has no sign.
    if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        grouped.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// A count with its thousands apart.
pub fn count(value: u64) -> String {
    decimal(value as f64, 0)
}

/// A count and its noun: `1 task`, `2,000 tasks`.
pub fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value))
}

/// A number with about three digits that count: `0.0123`, `4.56`, `78.9`, `1,235`.
pub fn brief(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => (2.0 - size.log10().floor()).clamp(0.0, 9.0) as usize,
    };
    decimal(value, decimals)
}

/// How a share is said: `12.5%`.
pub fn percent(share: f64) -> String {
    let decimals = if share == 0.0 || share.abs() >= 0.0995 { 0 } else { 1 };
    format!("{}%", decimal(share * 100.0, decimals))
}

/// A value at an axis, short and in step with the others there: `0.5`, `20`, `5k`, `10M`.
pub(crate) fn tick(value: f64, all: &[f64]) -> String {
    let largest = all.iter().map(|tick| tick.abs()).fold(0.0, f64::max);
    let rising = all.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let own = value.abs();
    let (divisor, suffix) = match largest {
        _ if value == 0.0 || largest < 10_000.0 => (1.0, ""),
        _ if own >= 1e9 => (1e9, "G"),
        _ if own >= 1e6 => (1e6, "M"),
        _ if own >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    // On a logarithmic axis the smallest distance says nothing about the decimals of the larger ticks.
    let needed = rising.min(own.max(f64::MIN_POSITIVE)) / divisor;
    let decimals = (0..9).find(|decimals| {
        let unit = 10f64.powi(*decimals);
        let shown = (value / divisor * unit).round() / unit;
        (shown - value / divisor).abs() < needed * 0.01
    });
    let decimals = decimals.unwrap_or(9) as usize;
    format!("{}{suffix}", decimal(value / divisor, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart_and_zero_has_no_sign() {
        let cases = [
            (1_234_567.891, 1, "1,234,567.9"),
            (999.96, 1, "1,000.0"),
            (-1_500.0, 0, "-1,500"),
            (-0.04, 1, "0.0"),
            (f64::NAN, 1, "–"),
        ];
        for (value, decimals, expected) in cases {
            assert_eq!(decimal(value, decimals), expected);
        }
        assert_eq!(
            (counted(1, "task"), counted(2_000, "task")),
            ("1 task".into(), "2,000 tasks".into())
        );
    }

    #[test]
    fn brief_numbers_keep_three_digits() {
        let shown = [0.0, 0.01234, 0.5, 4.556, 78.94, 99.96, 1_234.6].map(brief);
        assert_eq!(shown, ["0", "0.0123", "0.500", "4.56", "78.9", "100", "1,235"]);
        assert_eq!([0.0, 0.0123, 0.5, 1.0].map(percent), ["0%", "1.2%", "50%", "100%"]);
    }

    #[test]
    fn ticks_are_short_and_in_step() {
        let axis =
            |ticks: &[f64]| ticks.iter().map(|tick| super::tick(*tick, ticks)).collect::<Vec<_>>();
        assert_eq!(axis(&[0.0, 0.2, 0.4, 0.6000000000000001]), ["0", "0.2", "0.4", "0.6"]);
        assert_eq!(axis(&[0.0, 2.5, 5.0]), ["0", "2.5", "5"]);
        assert_eq!(axis(&[0.0, 25_000.0, 50_000.0]), ["0", "25k", "50k"]);
        assert_eq!(axis(&[0.1, 1.0, 100.0, 1e4, 1e6]), ["0.1", "1", "100", "10k", "1M"]);
    }
}
