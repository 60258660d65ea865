//! What a page asks of robots, by `meta name=robots`, `meta name=<our robot>` and the header `X-Robots-Tag`.
//!
//! Requests add up: what one place forbids no other place allows again. What is addressed to another robot is not for us.
//! Words that are neither about keeping nor about following (`noarchive`, `max-snippet`) have no meaning here.

use serde::{Deserialize, Serialize};

/// Words of a header that end with a colon and yet name no robot.
const WORDS_WITH_VALUES: [&str; 4] =
    ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];

/// What a page asks of robots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// Its text is not to be kept.
    pub noindex: bool,
    /// Its links are not to be followed.
    pub nofollow: bool,
}

impl Directives {
    /// Adds a `meta` element with this name; most are about something else.
    pub(super) fn add_meta(&mut self, name: &str, content: &str, robot: &str) {
        if name.eq_ignore_ascii_case("robots") || is_us(name, robot) {
            content.split(',').for_each(|word| self.add(word));
        }
    }

    /// Adds the value of a header `X-Robots-Tag`, such as `noindex` or `otherbot: noindex, nofollow`.
    pub(super) fn add_header(&mut self, value: &str, robot: &str) {
        let mut is_for_us = true;
        for part in value.split(',') {
            let mut word = part;
            if let Some((name, rest)) = part.split_once(':')
                && !WORDS_WITH_VALUES.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
            {
                is_for_us = name.trim() == "*" || is_us(name, robot);
                word = rest;
            }
            if is_for_us {
                self.add(word);
            }
        }
    }

    fn add(&mut self, word: &str) {
        let word = word.trim();
        let is_none = word.eq_ignore_ascii_case("none");
        self.noindex |= is_none || word.eq_ignore_ascii_case("noindex");
        self.nofollow |= is_none || word.eq_ignore_ascii_case("nofollow");
    }
}

fn is_us(name: &str, robot: &str) -> bool {
    !robot.is_empty() && name.trim().eq_ignore_ascii_case(robot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(noindex: bool, nofollow: bool) -> Directives {
        Directives { noindex, nofollow }
    }

    #[test]
    fn headers_speak_to_all_or_to_one_robot() {
        let facts = [
            ("noindex", of(true, false)),
            ("NoFollow , NOINDEX", of(true, true)),
            ("none", of(true, true)),
            ("all", of(false, false)),
            ("noarchive, max-snippet: 5, nofollow", of(false, true)),
            ("unavailable_after: 25 Jun 2030 15:00:00 PST, noindex", of(true, false)),
            ("otherbot: noindex, nofollow", of(false, false)),
            ("divvybot: noindex", of(true, false)),
            ("otherbot: noindex, DivvyBot: nofollow", of(false, true)),
            ("noindexing", of(false, false)),
            ("", of(false, false)),
        ];
        for (value, expected) in facts {
            let mut found = Directives::default();
            found.add_header(value, "divvybot");
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn requests_add_up() {
        let mut found = Directives::default();
        found.add_meta("robots", "noindex", "divvybot");
        found.add_meta("DIVVYBOT", "nofollow, index", "divvybot");
        found.add_meta("description", "none", "divvybot");
        assert_eq!(found, of(true, true));
        let mut other = Directives::default();
        other.add_meta("googlebot", "none", "divvybot");
        other.add_meta("", "none", "");
        assert_eq!(other, of(false, false));
    }
}
