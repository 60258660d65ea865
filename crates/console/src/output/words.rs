//! Times, spans and states in words for people. Programs get RFC 3339 and numbers through `--json`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use divvy_types::{TaskState, Times, Timestamp, WaitReason};

/// The time by this machine's clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// A time as seen from `now`: `12s ago`, `in 5m`.
pub fn relative(time: Timestamp, now: Timestamp) -> String {
    if time > now {
        format!("in {}", span(time.since(now)))
    } else {
        format!("{} ago", span(now.since(time)))
    }
}

/// Why a task waits, with times as seen from `now`.
pub fn wait(reason: &WaitReason, now: Timestamp) -> String {
    reason.words(Times::From { now, span })
}

/// A span in its largest unit, or its two largest where the first is small: `850ms`, `12s`, `3m`, `2h`, `5d`.
pub fn span(span: Duration) -> String {
    let (ms, seconds) = (span.as_millis(), span.as_secs());
    match seconds {
        0 => format!("{ms}ms"),
        1..=9 => format!("{}.{}s", seconds, ms % 1_000 / 100),
        10..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Bytes in the largest binary unit.
pub fn bytes(count: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

/// `1 task`, `2 tasks`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// The SGR code of a state's colour. The word is always printed, so colour is never alone.
pub fn state_color(state: TaskState) -> &'static str {
    match state {
        TaskState::Blocked | TaskState::Scheduled => "90",
        TaskState::Ready => "36",
        TaskState::Leased => "34",
        TaskState::Done => "32",
        TaskState::Dead => "31",
        TaskState::Cancelled => "33",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_now() {
        let now = Timestamp(1_000_000_000_000);
        assert_eq!(relative(Timestamp(now.0 - 12_000_000), now), "12s ago");
        assert_eq!(relative(now.plus_ms(300_000), now), "in 5m");
        assert_eq!(span(Duration::from_millis(1_250)), "1.2s");
        assert_eq!(span(Duration::from_secs(3 * 86_400)), "3d");
        assert_eq!((bytes(512), bytes(1_536)), ("512 bytes".into(), "1.5 KiB".into()));
        assert_eq!((count(1, "task"), count(0, "task")), ("1 task".into(), "0 tasks".into()));
    }
}
