//! Which pages are rendered.
//!
//! A browser costs a hundred times what fetching does, so `auto` asks for it only where a page says almost nothing and
//! shows a sign of scripts that would say it. What was found of a host is remembered: its next pages are rendered without
//! another look, until one that was rendered says no more than it did before.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::page::Page;

/// Words below which a page says almost nothing.
const WORDS_FEW: usize = 50;
/// Hosts that are remembered; all are forgotten when there are more.
const HOSTS_MAX: usize = 100_000;

/// Which pages are rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// None.
    #[default]
    Off,
    /// Those of hosts whose pages are empty without their scripts.
    Auto,
    /// All.
    Always,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            _ => Err(format!(
                "the mode `{text}` of rendering is not known; it is one of off, auto, always"
            )),
        }
    }
}

/// Whether a page that was fetched looks as if its scripts made it: almost no text, and scripts with an element to be
/// filled, or a notice that scripts are needed, or nothing but scripts.
pub fn needs_rendering(page: &Page) -> bool {
    let signs = page.signs;
    page.words < WORDS_FEW
        && (signs.has_notice
            || (signs.scripts > 0
                && (signs.has_root || (page.words == 0 && page.links.is_empty()))))
}

/// What is known of hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    /// Whether its pages are rendered.
    known: BTreeMap<String, bool>,
}

impl Hosts {
    /// Whether a page of a host, as it was fetched, is to be rendered.
    pub fn decide(&mut self, mode: Mode, host: &str, page: &Page) -> bool {
        match mode {
            Mode::Off => false,
            Mode::Always => true,
            Mode::Auto => {
                let is_needed = needs_rendering(page);
                match self.known.get(host) {
                    // A host that was found to gain nothing is not tried again.
                    Some(is_rendered) => *is_rendered,
                    None if is_needed => self.remember(host, true),
                    None => false,
                }
            }
        }
    }

    /// Learns from a page of a host as it was before and after its scripts.
    pub fn learn(&mut self, host: &str, before: &Page, after: &Page) {
        let gains = after.words > before.words || after.links.len() > before.links.len();
        if !gains {
            self.remember(host, false);
        }
    }

    fn remember(&mut self, host: &str, is_rendered: bool) -> bool {
        if self.known.len() >= HOSTS_MAX {
            self.known.clear();
        }
        self.known.insert(host.to_owned(), is_rendered);
        is_rendered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Extractor, Options, Source};

    fn page(html: &str) -> Page {
        let address = "http://a.example/".parse().unwrap();
        Extractor::new(Options::default()).extract(Source {
            address: &address,
            html,
            robots_tags: &[],
        })
    }

    const EMPTY: &str = "<div id=app></div><script src=x.js></script>";

    #[test]
    fn a_page_that_its_scripts_make_is_told_from_a_short_one() {
        let words = "word ".repeat(60);
        let facts = [
            (EMPTY.to_owned(), true),
            ("<noscript>Please enable JavaScript</noscript>".to_owned(), true),
            ("<script>document.write('x')</script>".to_owned(), true),
            ("<p>Moved. <a href=/x>Here</a></p>".to_owned(), false),
            ("<p>Moved. <a href=/x>Here</a></p><script>count()</script>".to_owned(), false),
            ("<noscript><img src=count.gif></noscript><p>short</p>".to_owned(), false),
            (format!("<div id=root>{words}</div><script></script>"), false),
            (String::new(), false),
        ];
        for (html, expected) in facts {
            assert_eq!(needs_rendering(&page(&html)), expected, "{html}");
        }
    }

    #[test]
    fn a_host_is_remembered() {
        let mut hosts = Hosts::default();
        let (empty, full) = (page(EMPTY), page(&format!("<p>{}", "word ".repeat(60))));
        assert!(!hosts.decide(Mode::Off, "a.example", &empty));
        assert!(hosts.decide(Mode::Always, "a.example", &full));
        assert!(!hosts.decide(Mode::Auto, "a.example", &full), "nothing is known yet");
        assert!(hosts.decide(Mode::Auto, "a.example", &empty));
        assert!(hosts.decide(Mode::Auto, "a.example", &full), "what was found is remembered");
        assert!(!hosts.decide(Mode::Auto, "b.example", &full));
        hosts.learn("a.example", &empty, &full);
        assert!(hosts.decide(Mode::Auto, "a.example", &full));
        hosts.learn("a.example", &empty, &empty);
        assert!(!hosts.decide(Mode::Auto, "a.example", &empty), "rendering gained nothing");
    }

    #[test]
    fn modes_have_names() {
        assert_eq!("auto".parse(), Ok(Mode::Auto));
        assert!("on".parse::<Mode>().unwrap_err().contains("off, auto, always"));
    }
}
