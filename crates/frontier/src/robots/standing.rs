//! What is known of a host's robots.txt at a time, and what that permits: RFC 9309, 2.3.1 and 2.4.
//!
//! | what came | what it means |
//! |---|---|
//! | 2xx | its rules hold for 24 hours; asked for anew after 18, so that there is time to fail |
//! | 304 | the copy at hand holds for 24 hours more |
//! | a redirect, up to five in a row | it is at another place, which is asked within a day, or it is looked for from the start |
//! | 4xx, more than five redirects | there is none: all is allowed, for as long |
//! | 429 | the host is left alone: as long as it asks for, or longer and longer |
//! | 5xx, network errors, time-outs | nothing is allowed while it is tried again, longer and longer apart, up to 6 hours; a copy holds until it is 24 hours old; after 30 days without an answer there is none |
//!
//! Decides from the time that it is given; fetches nothing. Before the first answer nothing is permitted.

use serde::{Deserialize, Serialize};

use super::{Robots, Rule};

/// Redirects of robots.txt that are followed.
pub const REDIRECTS_MAX: u32 = 5;

const HOUR_MS: u64 = 60 * 60 * 1_000;
/// How long a copy holds.
const HOLDS_MS: u64 = 24 * HOUR_MS;
/// When a copy is asked for anew.
const REFRESH_MS: u64 = 18 * HOUR_MS;
/// How long a host may be without an answer before it counts as one without robots.txt.
const ABSENT_AFTER_MS: u64 = 30 * 24 * HOUR_MS;
/// The wait after the first failure; doubled with each.
const RETRY_MS_MIN: u64 = 60 * 1_000;
/// The longest wait between two tries.
const RETRY_MS_MAX: u64 = 6 * HOUR_MS;

/// What came when robots.txt was asked for, after redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A response that is no redirect.
    Status {
        /// Its status.
        status: u16,
        /// Its body, decoded.
        body: &'a [u8],
        /// How long it asks to wait, see [`super::retry_after_ms`].
        retry_after_ms: Option<u64>,
    },
    /// A redirect to this address.
    Redirect(&'a str),
    /// A redirect that leads nowhere.
    LostInRedirects,
    /// No response: a name that cannot be resolved, an address that may not be reached, a time-out, a broken connection.
    Unreachable,
}

/// What is known of a host's robots.txt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The last copy that came, and when. Without rules if the host has none.
    copy: Option<(Robots, u64)>,
    /// The first of the failures since then.
    failing_since_ms: Option<u64>,
    /// The failures since then.
    failures: u32,
    /// Not to be asked for before this.
    ask_after_ms: u64,
    /// The host is left alone until then.
    blocked_until_ms: u64,
    /// Where the last redirect leads.
    #[serde(default)]
    led: Option<Led>,
}

/// On the way to a robots.txt that is elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Led {
    url: String,
    /// Redirects so far.
    redirects: u32,
    since_ms: u64,
    /// When somebody else was last told to ask there.
    told_ms: Option<u64>,
}

/// Whether a path may be fetched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission<'a> {
    /// robots.txt has to be fetched first.
    Ask,
    /// It may; by that rule, or because none matches.
    Allowed(Option<&'a Rule>),
    /// It may not, by that rule.
    Disallowed(&'a Rule),
    /// Nothing may be fetched from the host before that time; then robots.txt is fetched.
    Wait {
        /// Milliseconds since the Unix epoch.
        until_ms: u64,
    },
}

impl Standing {
    /// Takes note of what came when robots.txt was asked for.
    pub fn answered(&mut self, now_ms: u64, answer: Answer<'_>, product: &str) {
        let is_on_its_way = self.leads_to(now_ms).is_some();
        let led = self.led.take().filter(|_| is_on_its_way);
        let redirects = led.map_or(0, |led| led.redirects);
        match answer {
            Answer::Redirect(url) if redirects < REDIRECTS_MAX => {
                let (url, redirects) = (url.to_owned(), redirects + 1);
                self.led = Some(Led { url, redirects, since_ms: now_ms, told_ms: None });
            }
            Answer::Status { status: 200..=299, body, .. } => {
                self.take(now_ms, Robots::parse(body, product))
            }
            Answer::Status { status: 304, .. } if self.copy.is_some() => {
                let copy = self.copy.take().map(|(robots, _)| robots).unwrap_or_default();
                self.take(now_ms, copy);
            }
            Answer::Status { status: 429, retry_after_ms, .. } => {
                self.fail(now_ms);
                self.ask_after_ms =
                    self.ask_after_ms.max(now_ms.saturating_add(retry_after_ms.unwrap_or(0)));
                self.blocked_until_ms = self.ask_after_ms;
            }
            Answer::Status { status: 400..=499, .. }
            | Answer::Redirect(_)
            | Answer::LostInRedirects => {
                self.take(now_ms, Robots::default());
            }
            Answer::Status { retry_after_ms, .. } => {
                self.fail(now_ms);
                self.ask_after_ms =
                    self.ask_after_ms.max(now_ms.saturating_add(retry_after_ms.unwrap_or(0)));
            }
            Answer::Unreachable => self.fail(now_ms),
        }
    }

    /// Whether a path with its query may be fetched now.
    pub fn permission(&self, now_ms: u64, path: &str) -> Permission<'_> {
        if now_ms < self.blocked_until_ms {
            return Permission::Wait { until_ms: self.blocked_until_ms };
        }
        if self.is_due(now_ms) {
            return Permission::Ask;
        }
        match self.robots(now_ms) {
            Some(robots) => match robots.deciding(path) {
                Some(rule) if !rule.allows => Permission::Disallowed(rule),
                rule => Permission::Allowed(rule),
            },
            None if self.is_absent(now_ms) => Permission::Allowed(None),
            None => Permission::Wait { until_ms: self.ask_after_ms },
        }
    }

    /// Whether robots.txt should be fetched before the next page.
    pub fn is_due(&self, now_ms: u64) -> bool {
        let is_stale =
            self.copy.as_ref().is_none_or(|(_, at)| now_ms.saturating_sub(*at) >= REFRESH_MS);
        is_stale && now_ms >= self.ask_after_ms
    }

    /// Where the last redirect leads, if that was not asked yet.
    pub fn leads_to(&self, now_ms: u64) -> Option<&str> {
        let led = self.led.as_ref()?;
        (now_ms.saturating_sub(led.since_ms) < HOLDS_MS).then_some(led.url.as_str())
    }

    /// When somebody else was last told to ask there.
    pub fn told_ms(&self) -> Option<u64> {
        self.led.as_ref()?.told_ms
    }

    /// Somebody else is told to ask there.
    pub fn told(&mut self, now_ms: u64) {
        if let Some(led) = &mut self.led {
            led.told_ms = Some(now_ms);
        }
    }

    /// The copy that holds.
    pub fn robots(&self, now_ms: u64) -> Option<&Robots> {
        let (robots, at) = self.copy.as_ref()?;
        (now_ms.saturating_sub(*at) < HOLDS_MS).then_some(robots)
    }

    /// Whether the host has failed to answer for so long that it counts as one without robots.txt.
    pub fn is_absent(&self, now_ms: u64) -> bool {
        self.failing_since_ms.is_some_and(|since| now_ms.saturating_sub(since) >= ABSENT_AFTER_MS)
    }

    /// The failures since robots.txt last came.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// It is asked for anew before the next page, as soon as the host does not want to be left alone. Since when it cannot
    /// be had is kept.
    pub fn ask_anew(&mut self) {
        self.ask_after_ms = self.blocked_until_ms;
        self.failures = 0;
        self.led = None;
    }

    fn take(&mut self, now_ms: u64, robots: Robots) {
        *self = Self { copy: Some((robots, now_ms)), ..Self::default() };
    }

    fn fail(&mut self, now_ms: u64) {
        let doubled = RETRY_MS_MIN.saturating_mul(1 << self.failures.min(32));
        self.ask_after_ms = now_ms.saturating_add(doubled.min(RETRY_MS_MAX));
        self.failing_since_ms.get_or_insert(now_ms);
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * HOUR_MS;
    /// A day of many, so that times before it can be told of.
    const T: u64 = 1_000 * DAY_MS;
    const RULES: Answer<'static> =
        Answer::Status { status: 200, body: b"user-agent: *\ndisallow: /x", retry_after_ms: None };

    fn status(status: u16) -> Answer<'static> {
        Answer::Status { status, body: b"user-agent: *\ndisallow: /", retry_after_ms: None }
    }

    fn after(answers: &[(u64, Answer<'_>)]) -> Standing {
        let mut standing = Standing::default();
        for (at_ms, answer) in answers {
            standing.answered(*at_ms, *answer, "bot");
        }
        standing
    }

    fn may(standing: &Standing, at_ms: u64, path: &str) -> &'static str {
        match standing.permission(at_ms, path) {
            Permission::Ask => "ask",
            Permission::Allowed(_) => "yes",
            Permission::Disallowed(_) => "no",
            Permission::Wait { .. } => "wait",
        }
    }

    #[test]
    fn nothing_is_fetched_before_robots_txt() {
        assert_eq!(may(&Standing::default(), T, "/"), "ask");
    }

    #[test]
    fn a_copy_holds_for_a_day_and_is_asked_for_anew_before() {
        let standing = after(&[(T, RULES)]);
        assert_eq!((may(&standing, T, "/x"), may(&standing, T, "/y")), ("no", "yes"));
        assert_eq!(may(&standing, T + REFRESH_MS - 1, "/x"), "no");
        assert_eq!(may(&standing, T + REFRESH_MS, "/y"), "ask");
        let again = after(&[(T, RULES), (T + REFRESH_MS, status(304))]);
        assert_eq!(may(&again, T + REFRESH_MS + HOLDS_MS / 2, "/x"), "no", "the copy holds on");
    }

    #[test]
    fn what_is_not_there_forbids_nothing() {
        for answer in [
            status(404),
            status(410),
            status(401),
            status(403),
            status(400),
            Answer::LostInRedirects,
        ] {
            assert_eq!(may(&after(&[(T, answer)]), T, "/x"), "yes", "{answer:?}");
        }
    }

    #[test]
    fn a_host_that_fails_forbids_all_and_is_tried_again_later_and_later() {
        for answer in [status(500), status(503), status(599), status(301), Answer::Unreachable] {
            let mut standing = after(&[(T, answer)]);
            let mut now = T;
            let mut waits = Vec::new();
            for _ in 0..12 {
                assert_eq!(may(&standing, now, "/"), "wait", "{answer:?}");
                let Permission::Wait { until_ms } = standing.permission(now, "/") else {
                    unreachable!()
                };
                waits.push((until_ms - now) / 60_000);
                assert_eq!(may(&standing, until_ms, "/"), "ask");
                now = until_ms;
                standing.answered(now, answer, "bot");
            }
            assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360], "{answer:?}");
            standing.answered(now, RULES, "bot");
            assert_eq!((may(&standing, now, "/y"), standing.failures()), ("yes", 0));
        }
    }

    #[test]
    fn a_copy_holds_until_it_is_a_day_old_while_the_host_fails() {
        let standing = after(&[(T, RULES), (T + DAY_MS - 30_000, Answer::Unreachable)]);
        assert_eq!(may(&standing, T + DAY_MS - 30_000, "/y"), "yes");
        assert_eq!(may(&standing, T + DAY_MS - 1, "/x"), "no");
        assert_eq!(may(&standing, T + DAY_MS, "/y"), "wait", "the copy is too old");
    }

    #[test]
    fn after_thirty_days_without_an_answer_there_is_none() {
        let mut standing = after(&[(T, Answer::Unreachable)]);
        let late = T + 30 * DAY_MS;
        standing.answered(late - HOUR_MS, Answer::Unreachable, "bot");
        assert_eq!(may(&standing, late - 2 * HOUR_MS, "/"), "wait");
        standing.answered(late, Answer::Unreachable, "bot");
        assert_eq!(may(&standing, late, "/"), "yes");
        assert_eq!(may(&standing, late + RETRY_MS_MAX, "/"), "ask", "it is tried on");
    }

    #[test]
    fn a_host_that_is_asked_too_much_is_left_alone() {
        let asks = |ms| Answer::Status { status: 429, body: b"", retry_after_ms: Some(ms) };
        let standing = after(&[(T, RULES), (T + REFRESH_MS, asks(HOUR_MS))]);
        let blocked = standing.permission(T + REFRESH_MS, "/y");
        assert_eq!(
            blocked,
            Permission::Wait { until_ms: T + REFRESH_MS + HOUR_MS },
            "though a copy holds"
        );
        assert_eq!(may(&standing, T + REFRESH_MS + HOUR_MS, "/y"), "ask");
        let modest = after(&[(T, asks(1))]);
        assert_eq!(modest.permission(T, "/"), Permission::Wait { until_ms: T + RETRY_MS_MIN });
        let failing =
            after(&[(T, Answer::Status { status: 503, body: b"", retry_after_ms: Some(HOUR_MS) })]);
        assert_eq!(failing.permission(T, "/"), Permission::Wait { until_ms: T + HOUR_MS });
    }

    #[test]
    fn who_asks_anew_waits_only_for_a_host_that_wants_to_be_left_alone() {
        let late = T + 30 * DAY_MS;
        let mut standing = after(&[(T, Answer::Unreachable), (T + HOUR_MS, Answer::Unreachable)]);
        standing.ask_anew();
        assert_eq!(may(&standing, T + HOUR_MS, "/"), "ask");
        standing.answered(late, Answer::Unreachable, "bot");
        assert_eq!(may(&standing, late, "/"), "yes", "thirty days count from the first failure");
        let asks = Answer::Status { status: 429, body: b"", retry_after_ms: Some(HOUR_MS) };
        let mut standing = after(&[(T, asks)]);
        standing.ask_anew();
        assert_eq!(standing.permission(T, "/"), Permission::Wait { until_ms: T + HOUR_MS });
    }

    #[test]
    fn redirects_lead_from_place_to_place_and_the_sixth_means_that_there_is_none() {
        let mut standing = after(&[(T, RULES)]);
        let later = T + REFRESH_MS;
        for place in ["1", "2", "3", "4", "5"] {
            assert_eq!(may(&standing, later, "/x"), "ask");
            standing.answered(later, Answer::Redirect(place), "bot");
            assert_eq!(standing.leads_to(later), Some(place));
        }
        assert_eq!(standing.leads_to(later + DAY_MS), None, "then it is looked for from the start");
        let mut at_the_end = standing.clone();
        at_the_end.answered(later, RULES, "bot");
        assert_eq!((at_the_end.leads_to(later), may(&at_the_end, later, "/x")), (None, "no"));
        let mut away = standing.clone();
        away.answered(later, Answer::Unreachable, "bot");
        assert_eq!((away.leads_to(later), may(&away, later, "/x")), (None, "no"), "the copy holds");
        standing.answered(later, Answer::Redirect("6"), "bot");
        assert_eq!((standing.leads_to(later), may(&standing, later, "/x")), (None, "yes"));
    }

    #[test]
    fn what_is_known_can_be_written_down() {
        let standing = after(&[(T, RULES), (T + REFRESH_MS, Answer::Unreachable)]);
        let text = serde_json::to_string(&standing).unwrap();
        assert_eq!(serde_json::from_str::<Standing>(&text).unwrap(), standing);
    }
}
