//! What is in a page: title, description, canonical address, language, what it asks of robots, links, and what the
//! crawl's own rules take out of it.
//!
//! It gets text, however that was fetched and decoded, and never fetches anything.
//!
//! Reading order: `extract` (one pass over the text), `entities` (what `&amp;` means), `directives` (what a page asks of
//! robots), `rules` (`--extract name=css`), `text`, `simhash` (pages that are almost the same), `signs` (pages
//! that their scripts make), `sitemap`.

mod directives;
mod entities;
mod extract;
mod rules;
mod signs;
mod simhash;
pub mod sitemap;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use divvy_frontier::address::{Address, Rules as AddressRules};
use serde::{Deserialize, Serialize};

pub use directives::Directives;
pub use extract::Extractor;
pub use rules::{Rule, RuleError};
pub use signs::Signs;
pub use simhash::{distance, simhash};

/// How pages are read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The name of the robot, as `robots.txt` calls it; tags that name another robot are not for us.
    pub robot: String,
    /// How addresses are spelt.
    pub addresses: AddressRules,
    /// What else is taken out of pages.
    pub rules: Vec<Rule>,
    /// Whether images and scripts count as links.
    pub with_resources: bool,
}

/// A page that was fetched.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Where it came from.
    pub address: &'a Address,
    /// Its text, decoded.
    pub html: &'a str,
    /// The values of its `X-Robots-Tag` headers.
    pub robots_tags: &'a [&'a str],
}

/// What was found in a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The text of the first `title`, its blanks folded.
    pub title: Option<String>,
    /// The content of `meta name=description`.
    pub description: Option<String>,
    /// Where the page says that it really lives.
    pub canonical: Option<Address>,
    /// The language that `html` is marked with.
    pub language: Option<String>,
    /// What the page asks of robots, in its text and its headers.
    pub directives: Directives,
    /// Where it leads, each address once, in the order of the page.
    pub links: Vec<Link>,
    /// Links that lead to no page: other schemes, and what cannot be read.
    pub links_refused: usize,
    /// Whether there were more links than are kept.
    pub links_cut: bool,
    /// What the rules found, by their names.
    pub extracted: BTreeMap<String, Vec<String>>,
    /// Words of the visible text.
    pub words: usize,
    /// The fingerprint of the visible text: alike for texts that are alike. Zero without text.
    pub simhash: u64,
    /// Signs that the page is made by its scripts.
    pub signs: Signs,
}

/// Where a page leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The address.
    pub url: Address,
    /// The words of `rel`, in lower case; empty for most.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rel: String,
}

impl Link {
    /// Whether the link asks not to be followed.
    pub fn is_nofollow(&self) -> bool {
        self.rel.split(' ').any(|word| word == "nofollow")
    }
}
