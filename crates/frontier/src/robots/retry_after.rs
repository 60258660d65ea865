//! How long a host asks to be left alone: Retry-After, as seconds or as a date (RFC 9110, 10.2.3).

use std::time::UNIX_EPOCH;

/// The longest that a Retry-After holds: a day.
pub const RETRY_AFTER_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How many milliseconds from `now_ms` a Retry-After asks to wait, at most a day; nothing if it cannot be read. A date that
/// has passed asks for nothing.
pub fn retry_after_ms(value: &str, now_ms: u64) -> Option<u64> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only numbers that are too large to read fail here.
        let seconds: u64 = value.parse().unwrap_or(u64::MAX);
        return Some(seconds.saturating_mul(1_000).min(RETRY_AFTER_MS_MAX));
    }
    let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let date_ms = u64::try_from(date.as_millis()).unwrap_or(u64::MAX);
    Some(date_ms.saturating_sub(now_ms).min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_capped() {
        // 1994-11-06 08:49:37 UTC, a minute before.
        let now = (784_111_777 - 60) * 1_000;
        let facts = [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("86401", Some(RETRY_AFTER_MS_MAX)),
            ("99999999999999999999999", Some(RETRY_AFTER_MS_MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60_000)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(60_000)),
            ("Sun Nov  6 08:49:37 1994", Some(60_000)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:40:00 GMT", Some(RETRY_AFTER_MS_MAX)),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
        ];
        for (value, wait) in facts {
            assert_eq!(retry_after_ms(value, now), wait, "{value}");
        }
    }
}
