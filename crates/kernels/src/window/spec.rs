//! Which windows there are, and when they say something.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The latest time of an event, and the earliest with a minus, in milliseconds since 1970: what JavaScript's dates can be.
pub const TIME_MS_MAX: i64 = 8_640_000_000_000_000;
/// The largest window: ten years of 366 days.
pub const WINDOW_MS_MAX: i64 = 10 * 366 * 86_400_000;
/// The longest lateness.
pub const LATENESS_MS_MAX: i64 = WINDOW_MS_MAX;
/// Sliding windows that one event may belong to.
pub const WINDOWS_PER_EVENT_MAX: i64 = 1_000;

/// How time is cut into windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spec {
    /// One after the other, from 1970 on.
    Tumbling {
        /// How long a window is.
        size_ms: i64,
    },
    /// Windows that begin every so often and may overlap.
    Sliding {
        /// How long a window is.
        size_ms: i64,
        /// How long after one window the next begins.
        slide_ms: i64,
    },
    /// Windows that end when a key is silent for this long.
    Session {
        /// How long.
        gap_ms: i64,
    },
}

/// When a window says something before it is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Never.
    #[default]
    Close,
    /// Whenever a key has so many further events in it.
    Events(u64),
    /// Whenever event time has come so much further, for keys with further events.
    EveryMs(i64),
}

/// A window that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} is {given_ms} ms; {cure}")]
pub struct SpecError {
    /// What is wrong.
    pub what: &'static str,
    /// How long it is.
    pub given_ms: i64,
    /// How long it may be.
    pub cure: String,
}

impl Spec {
    /// Whether these can be used.
    pub fn check(&self) -> Result<(), SpecError> {
        let limited = |what, given_ms| {
            let cure = format!("it is between 1 ms and {WINDOW_MS_MAX} ms, which is ten years");
            if (1..=WINDOW_MS_MAX).contains(&given_ms) {
                return Ok(());
            }
            Err(SpecError { what, given_ms, cure })
        };
        match *self {
            Self::Tumbling { size_ms } => limited("the window", size_ms),
            Self::Session { gap_ms } => limited("the gap of sessions", gap_ms),
            Self::Sliding { size_ms, slide_ms } => {
                limited("the window", size_ms)?;
                limited("the slide of windows", slide_ms)?;
                if slide_ms > size_ms {
                    let cure = format!(
                        "with windows of {size_ms} ms that would leave events out; take at most that"
                    );
                    return Err(SpecError {
                        what: "the slide of windows",
                        given_ms: slide_ms,
                        cure,
                    });
                }
                if (size_ms + slide_ms - 1) / slide_ms > WINDOWS_PER_EVENT_MAX {
                    let cure = format!(
                        "an event would be in more than {WINDOWS_PER_EVENT_MAX} windows of {size_ms} ms; take a longer slide"
                    );
                    return Err(SpecError {
                        what: "the slide of windows",
                        given_ms: slide_ms,
                        cure,
                    });
                }
                Ok(())
            }
        }
    }
}

impl Trigger {
    /// Whether it can be used.
    pub fn check(&self) -> Result<(), SpecError> {
        match *self {
            Self::EveryMs(every) if !(1..=WINDOW_MS_MAX).contains(&every) => Err(SpecError {
                what: "the trigger",
                given_ms: every,
                cure: format!("it is between 1 ms and {WINDOW_MS_MAX} ms, or a number of events"),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_huge_windows_are_refused_with_the_cure() {
        let good = [
            Spec::Tumbling { size_ms: 1 },
            Spec::Sliding { size_ms: 10_000, slide_ms: 10 },
            Spec::Session { gap_ms: WINDOW_MS_MAX },
        ];
        assert!(good.iter().all(|spec| spec.check().is_ok()));
        let bad = [
            Spec::Tumbling { size_ms: 0 },
            Spec::Tumbling { size_ms: -5 },
            Spec::Tumbling { size_ms: i64::MAX },
            Spec::Session { gap_ms: WINDOW_MS_MAX + 1 },
            Spec::Sliding { size_ms: 10, slide_ms: 20 },
            Spec::Sliding { size_ms: 10_000, slide_ms: 9 },
            Spec::Sliding { size_ms: 10, slide_ms: 0 },
        ];
        for spec in bad {
            assert!(spec.check().is_err(), "{spec:?}");
        }
        let said = Spec::Tumbling { size_ms: -5 }.check().unwrap_err().to_string();
        assert!(said.starts_with("the window is -5 ms; it is between 1 ms"), "{said}");
        assert!(Trigger::EveryMs(-1).check().is_err());
    }
}
