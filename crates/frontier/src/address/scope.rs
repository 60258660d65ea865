//! Which addresses belong to a crawl: those that are near enough to one of its seeds.
//!
//! Whether an address is `http` or `https` makes no difference. Robots, budgets and traps are decided elsewhere.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Address;

/// How far from its seeds a crawl goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The registrable domains of the seeds, with all their hosts.
    #[default]
    Domain,
    /// The hosts of the seeds.
    Host,
    /// The folders of the seeds and what is below them: `/docs/` for `/docs/`, `/docs` and `/docs/index.html`.
    Prefix,
    /// Everything.
    Any,
}

impl Reach {
    /// All of them, as people write them.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("domain", Self::Domain),
        ("host", Self::Host),
        ("prefix", Self::Prefix),
        ("any", Self::Any),
    ];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::Host => "host",
            Self::Prefix => "prefix",
            Self::Any => "any",
        }
    }
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, reach)| *reach).ok_or_else(|| {
            format!("the scope `{text}` is not known; it is one of domain, host, prefix, any")
        })
    }
}

/// The addresses that belong to a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    reach: Reach,
    /// What a seed stands for: a domain, a host, or a host and a folder.
    roots: BTreeSet<String>,
}

impl Scope {
    /// What is near enough to the seeds.
    pub fn new<'a>(reach: Reach, seeds: impl IntoIterator<Item = &'a Address>) -> Self {
        let mut scope = Self { reach, roots: BTreeSet::new() };
        for seed in seeds {
            scope.add(seed);
        }
        scope
    }

    /// Adds a seed.
    pub fn add(&mut self, seed: &Address) {
        let root = match self.reach {
            Reach::Domain => seed.registrable().to_owned(),
            Reach::Host => seed.host_key().to_owned(),
            Reach::Prefix => format!("{}{}", seed.host_key(), folder(seed.path())),
            Reach::Any => return,
        };
        self.roots.insert(root);
    }

    /// How far it goes.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether an address belongs to the crawl.
    pub fn contains(&self, address: &Address) -> bool {
        match self.reach {
            Reach::Domain => self.roots.contains(address.registrable()),
            Reach::Host => self.roots.contains(address.host_key()),
            Reach::Prefix => self.has_folder_of(address),
            Reach::Any => true,
        }
    }

    /// Asks for each folder above the page, of which there are few, rather than for each seed.
    fn has_folder_of(&self, address: &Address) -> bool {
        let path = address.path();
        let mut place = format!("{}{path}/", address.host_key());
        let host = address.host_key().len();
        loop {
            if self.roots.contains(&place) {
                return true;
            }
            let Some(slash) = place[host..place.len() - 1].rfind('/') else { return false };
            place.truncate(host + slash + 1);
        }
    }
}

/// The folder that a seed stands for. What has no dot in its name is taken for a folder, since people leave slashes out.
fn folder(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((_, "")) => path.to_owned(),
        Some((above, name)) if name.contains('.') => format!("{above}/"),
        _ => format!("{path}/"),
    }
}
