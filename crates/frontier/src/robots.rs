//! What a host allows: its robots.txt, read for one crawler by RFC 9309 and, where that is silent, as Google's parser reads
//! it.
//!
//! A [`Robots`] holds only what concerns the crawler it was read for: its own group if the file has one, else the group of
//! `*`. The longest rule that matches decides, and between equal ones the one that allows. Knows neither how the file came
//! nor how old it is; that is in [`Standing`]. What a Crawl-delay means for the pace of a host is in
//! [`crate::rules::Rules::gap_ms`], and what a Retry-After means in [`retry_after_ms`].
//!
//! The caller gives paths percent-encoded, as `url` writes them. Where the RFC and Google's suite differ about encoded
//! letters (`/%7Ejoe` and `/~joe`) the stricter holds: a rule that disallows matches both spellings, one that allows only
//! its own.

#[cfg(test)]
mod facts;
mod lines;
mod pattern;
mod retry_after;
mod standing;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

pub use lines::BYTES_MAX;
use lines::{Field, Lines};
use pattern::{encoded, matches, plain, upper};
pub use retry_after::{RETRY_AFTER_MS_MAX, retry_after_ms};
pub use standing::{Answer, Permission, REDIRECTS_MAX, Standing};

/// Sitemaps of one file that are kept.
pub const SITEMAPS_MAX: usize = 1_000;
/// The longest Crawl-delay that is kept as it stands: a day.
const DELAY_MS_MAX: u64 = 86_400_000;

/// The rules of a robots.txt for one crawler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Robots {
    /// Longest first, and of the same length those that allow first, so that the first that matches decides.
    rules: Vec<Rule>,
    delay_ms: Option<u64>,
    sitemaps: Vec<Box<str>>,
}

/// One line that allows or disallows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whether it allows.
    pub allows: bool,
    /// What it matches, with `*` and `$`.
    pub pattern: Box<str>,
    /// The line in the file, counted from 1.
    pub line: u32,
}

impl Robots {
    /// Reads a robots.txt for the crawler with that product token, such as `divvybot`. Nothing in a file is an error.
    pub fn parse(text: &[u8], product: &str) -> Self {
        let mut own = Group::default();
        let mut all = Group::default();
        let mut sitemaps: Vec<Box<str>> = Vec::new();
        let mut reading = Reading::default();
        for line in Lines::new(text) {
            match line.field {
                Field::UserAgent => reading.agent(&text_of(line.value), product, &mut own.exists),
                Field::Allow | Field::Disallow => {
                    let allows = line.field == Field::Allow;
                    if let Some(group) = reading.rule(&mut own, &mut all) {
                        group.add(allows, line.value, line.number);
                    }
                }
                Field::CrawlDelay => {
                    if let Some(group) = reading.group(&mut own, &mut all) {
                        group.delay_ms = group.delay_ms.max(delay_ms(&text_of(line.value)));
                    }
                }
                Field::Sitemap if sitemaps.len() < SITEMAPS_MAX && !line.value.is_empty() => {
                    sitemaps.push(text_of(line.value).into());
                }
                Field::Sitemap | Field::Other => {}
            }
        }
        let mut group = if own.exists { own } else { all };
        // A stable sort, so that the first of two equal lines is the one that is named.
        group.rules.sort_by_key(|rule| (std::cmp::Reverse(rule.pattern.len()), !rule.allows));
        group.rules.dedup_by(|a, b| (a.allows, &a.pattern) == (b.allows, &b.pattern));
        Self { rules: group.rules, delay_ms: group.delay_ms, sitemaps }
    }

    /// Whether the crawler may fetch a path with its query, such as `/a/b?c=d`.
    pub fn allows(&self, path: &str) -> bool {
        self.deciding(path).is_none_or(|rule| rule.allows)
    }

    /// The rule that decides about a path, or nothing if none matches, which allows it.
    pub fn deciding(&self, path: &str) -> Option<&Rule> {
        let path =
            if path.starts_with('/') { Cow::Borrowed(path) } else { format!("/{path}").into() };
        let spelt = upper(&path);
        let plain = plain(&path);
        self.rules.iter().find(|rule| {
            matches(&rule.pattern, &spelt)
                || (!rule.allows && spelt != plain && matches(&rule.pattern, &plain))
        })
    }

    /// The Crawl-delay that the file asks of the crawler.
    pub fn delay_ms(&self) -> Option<u64> {
        self.delay_ms
    }

    /// The sitemaps that the file names, for everybody, as they are written.
    pub fn sitemaps(&self) -> &[Box<str>] {
        &self.sitemaps
    }

    /// The rules, those that decide first first.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

/// The product token of a user agent: `divvybot` of `divvybot/1.0 (+https://example.org/bot)`. Letters, `-` and `_` only,
/// because robots.txt files cannot name any other; nothing if there is none, or if it goes on with other characters.
pub fn product_token(user_agent: &str) -> Option<&str> {
    let end = user_agent.find(|c: char| !is_product_character(c)).unwrap_or(user_agent.len());
    let (token, rest) = user_agent.split_at(end);
    let ends = rest.is_empty() || rest.starts_with(['/', ' ']);
    (!token.is_empty() && ends).then_some(token)
}

fn is_product_character(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '-' || c == '_'
}

/// What was gathered for one sort of reader.
#[derive(Default)]
struct Group {
    /// Whether the file speaks to it at all.
    exists: bool,
    rules: Vec<Rule>,
    delay_ms: Option<u64>,
}

impl Group {
    fn add(&mut self, allows: bool, value: &[u8], line: u32) {
        let ascii = encoded(value);
        let pattern = upper(&ascii);
        // An empty rule matches nothing; that it was there has closed the list of agents.
        if pattern.is_empty() {
            return;
        }
        // Who allows the index page means the folder, too.
        if let Some(folder) = pattern.rfind('/').filter(|_| allows)
            && pattern[folder..].starts_with("/index.htm")
        {
            let pattern = format!("{}$", &pattern[..=folder]).into();
            self.rules.push(Rule { allows, pattern, line });
        }
        let decoded = plain(&pattern);
        if !allows && decoded != pattern {
            self.rules.push(Rule { allows, pattern: decoded.into(), line });
        }
        self.rules.push(Rule { allows, pattern: pattern.into(), line });
    }
}

/// Whom the lines at hand speak to.
#[derive(Default)]
struct Reading {
    own: bool,
    all: bool,
    /// A rule was read since the last user agent: the next one begins a new group. Lines of other sorts do not.
    closed: bool,
}

impl Reading {
    fn agent(&mut self, value: &str, product: &str, exists: &mut bool) {
        if self.closed {
            *self = Self::default();
        }
        let mut characters = value.chars();
        let is_star = characters.next() == Some('*');
        if is_star && characters.next().is_none_or(char::is_whitespace) {
            self.all = true;
            return;
        }
        let end = value.find(|c: char| !is_product_character(c)).unwrap_or(value.len());
        if !product.is_empty() && value[..end].eq_ignore_ascii_case(product) {
            self.own = true;
            *exists = true;
        }
    }

    fn rule<'a>(&mut self, own: &'a mut Group, all: &'a mut Group) -> Option<&'a mut Group> {
        // A group of others ends with its rules just the same.
        self.closed = true;
        self.group(own, all)
    }

    fn group<'a>(&self, own: &'a mut Group, all: &'a mut Group) -> Option<&'a mut Group> {
        match (self.own, self.all) {
            (true, _) => Some(own),
            (false, true) => Some(all),
            (false, false) => None,
        }
    }
}

fn text_of(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

/// `1.5` seconds in milliseconds; nothing if it is no number.
fn delay_ms(value: &str) -> Option<u64> {
    let seconds: f64 = value.trim().parse().ok()?;
    let ms = (seconds * 1_000.0).ceil();
    (ms > 0.0).then(|| (ms as u64).min(DELAY_MS_MAX))
}
