//! What a crawl is asked to do: checked once, when it is started, and fixed from then on.
//!
//! The rules that a crawl can change are few and plain; what they mean is decided by the parts that apply them.

pub mod resolve;

use std::collections::BTreeMap;

use divvy_frontier::address::{self, Address, Reach, Scope};
use divvy_frontier::rules as frontier;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::net::UserAgent;
use crate::output::Format;
use crate::page;
use crate::render::Mode;

/// Seeds of one request.
pub const SEEDS_MAX: usize = 100_000;
/// Shards of a crawl.
const SHARDS_MAX: u32 = 1_024;
/// The longest gap that can be asked for.
const DELAY_MS_MAX: u64 = 24 * 3_600_000;
/// Requests of one host at once.
const PER_HOST_MAX: u16 = 16;
/// Rules of `extract`.
const EXTRACT_MAX: usize = 64;
/// Characters of a name.
const NAME_LEN_MAX: usize = 200;

/// How addresses that were seen are remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeenBy {
    /// A filter in memory before exact fingerprints on disk: nothing is lost.
    #[default]
    Exact,
    /// The filter alone: less disk, and a few pages are lost.
    Bloom,
}

/// How a crawl behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlRules")]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// How far from its seeds it goes.
    #[schemars(schema_with = "scopes")]
    pub scope: Reach,
    /// Pages in all.
    #[schemars(range(min = 1))]
    pub max_pages: Option<u64>,
    /// Pages per second in all, at most.
    #[schemars(range(min = 0.01, max = 1_000_000.0))]
    pub pages_per_second: Option<f64>,
    /// Links from a seed at most.
    #[schemars(range(max = 255))]
    pub max_depth: u8,
    /// The least gap between two requests of a host, in milliseconds.
    #[schemars(range(min = 1, max = DELAY_MS_MAX))]
    pub delay_ms: u64,
    /// Requests of a host at once.
    #[schemars(range(min = 1, max = PER_HOST_MAX))]
    pub per_host: u16,
    /// Addresses of a host that are ever queued.
    #[schemars(range(min = 1))]
    pub host_pages: u32,
    /// The first wait before something that failed is tried again, in milliseconds.
    #[schemars(range(min = 100, max = DELAY_MS_MAX))]
    pub retry_wait_ms: u64,
    /// Who crawls: a name, and where its owner can be reached. Needed for everything that is not on this machine.
    pub user_agent: Option<String>,
    /// Which pages a browser makes.
    #[schemars(schema_with = "modes")]
    pub render: Mode,
    /// What else is taken out of pages: CSS selectors by name.
    pub extract: BTreeMap<String, String>,
    /// What is written.
    #[schemars(schema_with = "formats")]
    pub formats: Vec<Format>,
    /// How addresses that were seen are remembered.
    pub seen: SeenBy,
    /// Into how many parts the hosts are divided.
    #[schemars(range(min = 1, max = SHARDS_MAX))]
    pub shards: u32,
    /// Look at pages again, the first time after so many milliseconds; the crawl does not end then.
    #[schemars(range(min = 1))]
    pub recrawl_ms: Option<u64>,
    /// Networks that are not public and may be reached all the same, if the worker allows private addresses.
    pub allow_private: Vec<String>,
    /// What names stand for, before anybody else is asked: `NAME=ADDRESS` or `*.ENDING=NETWORK`.
    pub resolve: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        let usual = frontier::Rules::default();
        Self {
            scope: Reach::default(),
            max_pages: None,
            pages_per_second: None,
            max_depth: usual.depth_max,
            delay_ms: usual.delay_ms,
            per_host: 1,
            host_pages: usual.host_budget,
            retry_wait_ms: usual.retry.base_ms,
            user_agent: None,
            render: Mode::Off,
            extract: BTreeMap::new(),
            formats: vec![Format::Jsonl],
            seen: SeenBy::Exact,
            shards: 4,
            recrawl_ms: None,
            allow_private: Vec::new(),
            resolve: Vec::new(),
        }
    }
}

fn scopes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["domain", "host", "prefix", "any"] })
}

fn modes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["off", "auto", "always"] })
}

fn formats(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "string", "enum": ["jsonl", "warc", "graph"] },
    })
}

/// A crawl to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCrawl {
    /// What people call it; the host of the first seed unless told otherwise.
    #[serde(default)]
    pub name: Option<String>,
    /// Where it begins.
    #[schemars(length(min = 1, max = SEEDS_MAX))]
    pub seeds: Vec<String>,
    /// How it behaves.
    #[serde(default)]
    pub rules: Rules,
}

/// A crawl as it was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Crawl")]
pub struct Spec {
    /// Its name for programs.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// When it was started, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// Where it began.
    pub seeds: Vec<String>,
    /// How it behaves.
    pub rules: Rules,
}

/// A field that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

fn wrong(field: impl Into<String>, problem: impl std::fmt::Display) -> Wrong {
    Wrong { field: field.into(), problem: problem.to_string() }
}

impl NewCrawl {
    /// The crawl, if it makes sense.
    ///
    /// # Errors
    /// Names the field that does not.
    pub fn check(self, id: String, now_ms: u64) -> Result<(Spec, Vec<Address>), Wrong> {
        self.rules.check()?;
        let seeds = addresses(&self.seeds)?;
        let Some(first) = seeds.first() else {
            return Err(wrong("seeds", "is empty; give at least one address"));
        };
        let name = self.name.unwrap_or_else(|| first.host_key().to_owned());
        if name.is_empty() || name.chars().count() > NAME_LEN_MAX {
            return Err(wrong("name", format_args!("must have 1 to {NAME_LEN_MAX} characters")));
        }
        let texts = seeds.iter().map(|seed| seed.as_str().to_owned()).collect();
        let spec = Spec { id, name, created_at_ms: now_ms, seeds: texts, rules: self.rules };
        spec.check_agent_for(&seeds)?;
        Ok((spec, seeds))
    }
}

/// Seeds as they are kept.
///
/// # Errors
/// Names the one that is none.
pub fn addresses(seeds: &[String]) -> Result<Vec<Address>, Wrong> {
    if seeds.len() > SEEDS_MAX {
        return Err(wrong(
            "seeds",
            format_args!("has {} addresses, at most {SEEDS_MAX}", seeds.len()),
        ));
    }
    let rules = address::Rules::default();
    let read = |(at, seed): (usize, &String)| {
        Address::read(seed, &rules).map_err(|refusal| {
            wrong(format!("seeds[{at}]"), format_args!("is `{}`: {refusal}", shown(seed)))
        })
    };
    seeds.iter().enumerate().map(read).collect()
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

impl Rules {
    fn check(&self) -> Result<(), Wrong> {
        let within = |field: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let problem = format_args!("is {value}, expected {low} to {high}").to_string();
            Err(wrong(format!("rules.{field}"), problem))
        };
        within("delay_ms", self.delay_ms, 1, DELAY_MS_MAX)?;
        within("per_host", self.per_host.into(), 1, PER_HOST_MAX.into())?;
        within("host_pages", self.host_pages.into(), 1, u32::MAX.into())?;
        within("shards", self.shards.into(), 1, SHARDS_MAX.into())?;
        within("retry_wait_ms", self.retry_wait_ms, 100, DELAY_MS_MAX)?;
        within("max_pages", self.max_pages.unwrap_or(1), 1, u64::MAX)?;
        within("recrawl_ms", self.recrawl_ms.unwrap_or(1), 1, 90 * DELAY_MS_MAX)?;
        if let Some(rate) = self.pages_per_second.filter(|rate| !(0.01..=1e6).contains(rate)) {
            let problem = format!("is {rate}, expected 0.01 to 1000000");
            return Err(wrong("rules.pages_per_second", problem));
        }
        if let Some(agent) = &self.user_agent {
            check_agent(agent).map_err(|problem| wrong("rules.user_agent", problem))?;
        }
        if self.formats.is_empty() {
            return Err(wrong(
                "rules.formats",
                "is empty; name at least one of jsonl, warc, graph",
            ));
        }
        if self.extract.len() > EXTRACT_MAX {
            return Err(wrong("rules.extract", format_args!("has more than {EXTRACT_MAX} rules")));
        }
        self.extractions()?;
        resolve::Names::read(&self.resolve).map_err(|problem| wrong("rules.resolve", problem))?;
        resolve::networks(&self.allow_private)
            .map_err(|problem| wrong("rules.allow_private", problem))?;
        Ok(())
    }

    /// What else is taken out of pages.
    ///
    /// # Errors
    /// Names the rule that cannot be read.
    pub fn extractions(&self) -> Result<Vec<page::Rule>, Wrong> {
        let read = |(name, css): (&String, &String)| {
            let rule = format!("{name}={css}").parse();
            rule.map_err(|error| wrong(format!("rules.extract.{}", shown(name)), error))
        };
        self.extract.iter().map(read).collect()
    }

    /// The rules of the frontier that follow.
    pub fn frontier(&self) -> frontier::Rules {
        let usual = frontier::Rules::default();
        let retry = frontier::retry::Rules {
            base_ms: self.retry_wait_ms,
            name_wait_ms: usual.retry.name_wait_ms.min(self.retry_wait_ms.saturating_mul(60)),
            breaker_open_ms: self.retry_wait_ms,
            ..usual.retry
        };
        let recrawl = self.recrawl_ms.map(|first_ms| {
            let usual = frontier::recrawl::Rules::default();
            let interval_ms_min = usual.interval_ms_min.min(first_ms);
            frontier::recrawl::Rules { first_ms, interval_ms_min, ..usual }
        });
        frontier::Rules {
            delay_ms: self.delay_ms,
            // Checked before: at most 16.
            per_host: u8::try_from(self.per_host).unwrap_or(u8::MAX),
            depth_max: self.max_depth,
            host_budget: self.host_pages,
            retry,
            recrawl,
            ..usual
        }
    }

    /// The rules of addresses that follow.
    pub fn addresses(&self) -> address::Rules {
        address::Rules { depth_max: self.max_depth.into(), ..address::Rules::default() }
    }
}

impl Spec {
    /// Which addresses belong to it, with these seeds besides its own.
    pub fn scope(&self, more: &[String]) -> Scope {
        let seeds = self.seeds.iter().chain(more).filter_map(|seed| seed.parse::<Address>().ok());
        let seeds: Vec<Address> = seeds.collect();
        Scope::new(self.rules.scope, &seeds)
    }

    /// Whether these seeds may be asked by a crawl that says so much or so little of who it is. Without a user agent only
    /// this machine is asked: what a name that the crawl does not know stands for is not looked up here.
    ///
    /// # Errors
    /// Names the first that may not.
    pub fn check_agent_for(&self, seeds: &[Address]) -> Result<(), Wrong> {
        if self.agent().has_contact() {
            return Ok(());
        }
        let names = resolve::Names::read(&self.rules.resolve)
            .map_err(|problem| wrong("rules.resolve", problem))?;
        match seeds.iter().find(|seed| !names.is_loopback(seed.host())) {
            None => Ok(()),
            Some(seed) => Err(wrong(
                "rules.user_agent",
                format_args!(
                    "is missing, and `{}` is not on this machine: say who crawls with --user-agent 'name/1.0 (+https://…)'",
                    shown(seed.as_str())
                ),
            )),
        }
    }

    /// Who crawls; without a name of its own a crawl stays on this machine.
    pub fn agent(&self) -> UserAgent {
        self.rules.user_agent.as_ref().and_then(|agent| agent.parse().ok()).unwrap_or_default()
    }
}

/// A user agent that says who crawls and how to reach whoever does.
///
/// # Errors
/// Says what is missing.
pub fn check_agent(agent: &str) -> Result<(), String> {
    agent.parse::<UserAgent>().map(drop).map_err(|error| format!("cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(change: impl FnOnce(&mut NewCrawl)) -> Result<Spec, Wrong> {
        let mut new = NewCrawl { seeds: vec!["http://A.localhost".into()], ..NewCrawl::default() };
        change(&mut new);
        new.check("c".into(), 7).map(|(spec, _)| spec)
    }

    #[test]
    fn a_crawl_has_the_name_of_its_first_host_and_canonical_seeds() {
        let spec = new(|_| ()).unwrap();
        assert_eq!(
            (spec.name.as_str(), spec.seeds.as_slice()),
            ("a.localhost", &["http://a.localhost/".to_owned()][..])
        );
        assert!(!spec.agent().has_contact());
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    }

    #[test]
    fn a_crawl_that_does_not_say_who_it_is_begins_on_this_machine_only() {
        let begin = |seed: &str| {
            new(|new| {
                new.rules.resolve = vec!["*.test=127.0.0.0/8".into(), "b.example=192.0.2.7".into()];
                new.seeds.push(seed.into());
            })
        };
        for seed in
            ["http://127.8.0.1/", "http://[::1]:8080/", "http://localhost/", "http://a.test/"]
        {
            assert!(begin(seed).is_ok(), "{seed}");
        }
        for seed in
            ["http://a.example/", "http://b.example/", "http://192.0.2.7/", "http://notlocalhost/"]
        {
            let Wrong { field, problem } = begin(seed).unwrap_err();
            assert_eq!(field, "rules.user_agent");
            assert!(problem.contains(seed) && problem.contains("--user-agent"), "{problem}");
            let named = new(|new| {
                new.seeds = vec![seed.into()];
                new.rules.user_agent = Some("bot/1.0 (+https://bot.example/)".into());
            });
            assert!(named.is_ok());
        }
    }

    #[test]
    fn each_mistake_names_its_field() {
        type Change = fn(&mut NewCrawl);
        let cases: [(&str, Change); 9] = [
            ("seeds", |new| new.seeds.clear()),
            ("seeds[1]", |new| new.seeds.push("mailto:a@b.example".into())),
            ("name", |new| new.name = Some(String::new())),
            ("rules.delay_ms", |new| new.rules.delay_ms = 0),
            ("rules.shards", |new| new.rules.shards = 0),
            ("rules.user_agent", |new| new.rules.user_agent = Some("bot".into())),
            ("rules.formats", |new| new.rules.formats.clear()),
            ("rules.resolve", |new| new.rules.resolve.push("a.test=nowhere".into())),
            ("rules.allow_private", |new| new.rules.allow_private.push("10.0.0.0/99".into())),
        ];
        for (field, change) in cases {
            assert_eq!(new(change).unwrap_err().field, field);
        }
        assert!(check_agent("bot/1 (+https://a.example/bot)").is_ok());
        assert!(check_agent("bot\r\nX: y https://a").is_err());
    }
}
