//! Whether an address would be fetched, when, and which rule decides: the rules of the crawl first, then what the file of
//! its shard says, as of the last commit.

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{Because, Explanation, Link, Park, Refusal};
use divvy_frontier::robots::{Permission, Standing};
use divvy_frontier::seen;
use divvy_workload::now_ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Crawls, CrawlsError};
use crate::folder::control::Control;
use crate::place::Places;
use crate::render;
use crate::settings::{SeenBy, Spec, Wrong};
use crate::store::{PageEnd, PageState, ShardFile};

/// What would become of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlExplanation")]
pub(crate) struct Explained {
    /// The address in its canonical spelling.
    pub(crate) url: String,
    /// Whether it would be fetched, or was.
    pub(crate) fetched: bool,
    /// The rule that decides, in one word.
    pub(crate) rule: String,
    /// The same in a sentence.
    pub(crate) text: String,
    /// Not before this time, in milliseconds since 1970, if it waits.
    pub(crate) not_before_ms: Option<u64>,
    /// The shard that owns its host.
    pub(crate) shard: u32,
    /// What else is worth knowing.
    pub(crate) details: Vec<String>,
}

impl Crawls {
    /// What would become of an address.
    ///
    /// # Errors
    /// If there is no such crawl, or its file cannot be read.
    pub(crate) async fn explain(&self, id: &str, url: &str) -> Result<Explained, CrawlsError> {
        let (spec, control) = (self.spec(id)?, self.control(id)?);
        let address = Address::read(url, &spec.rules.addresses()).map_err(|refusal| Wrong {
            field: "url".into(),
            problem: format!("is no page: {refusal}"),
        })?;
        let shard = Places::new(spec.rules.shards).of(&address);
        let file = self.folder(id).shard_file(shard);
        let looking = tokio::task::spawn_blocking(move || {
            let mut explained = Explained {
                url: address.as_str().to_owned(),
                fetched: false,
                rule: String::new(),
                text: String::new(),
                not_before_ms: None,
                shard,
                details: Vec::new(),
            };
            if by_rules(&mut explained, &spec, &control, &address) {
                return Ok(explained);
            }
            let file =
                ShardFile::look(&file).map_err(|error| CrawlsError::Broken(error.to_string()))?;
            let Some(file) = file else {
                explained.decide(true, "new", "it would be fetched: its shard has not begun yet");
                return Ok(explained);
            };
            by_file(&mut explained, &spec, &file, &address)
                .map_err(|error| CrawlsError::Broken(error.to_string()))?;
            Ok(explained)
        });
        looking.await.map_err(|error| CrawlsError::Broken(error.to_string()))?
    }
}

impl Explained {
    fn decide(&mut self, fetched: bool, rule: &str, text: impl Into<String>) {
        (self.fetched, self.rule, self.text) = (fetched, rule.to_owned(), text.into());
    }
}

/// What the rules of the crawl say; whether they decide.
fn by_rules(explained: &mut Explained, spec: &Spec, control: &Control, address: &Address) -> bool {
    if !spec.scope(&control.added).contains(address) {
        let reach = spec.rules.scope.name();
        explained.decide(
            false,
            "scope",
            format!("no: it is outside of the scope `{reach}` of the seeds"),
        );
        return true;
    }
    if let Some(trap) = spec.rules.addresses().trap(address, 0) {
        explained.decide(false, trap.rule(), format!("no: {trap}"));
        return true;
    }
    if control.blocks(address.host_key()) {
        let text =
            format!("no: the host {} is blocked; divvy crawl block --undo", address.host_key());
        explained.decide(false, "blocked", text);
        return true;
    }
    if spec.rules.render != render::Mode::Off {
        let text = "its shard runs only on workers with the capability `chromium`";
        explained.details.push(text.to_owned());
    }
    if control.paused {
        explained.details.push("the crawl is paused".to_owned());
    }
    false
}

/// What the file of the shard says.
fn by_file(
    explained: &mut Explained,
    spec: &Spec,
    file: &ShardFile,
    address: &Address,
) -> Result<(), crate::store::Error> {
    let mode = match spec.rules.seen {
        SeenBy::Exact => seen::Mode::Exact,
        SeenBy::Bloom => seen::Mode::Bloom,
    };
    let now_ms = now_ms();
    let settings = seen::Settings { mode, ..seen::Settings::default() };
    let frontier = file.frontier(spec.rules.frontier(), file.seen(settings)?, 0, now_ms)?;
    let link = Link {
        host: address.origin(),
        domain: address.registrable(),
        path: address.path_and_query(),
        depth: 0,
        hops: 0,
        is_sitemap: false,
    };
    let print = frontier.fingerprint(&link);
    if let Some(host) = frontier.host(address.origin()) {
        explained.details.push(format!(
            "{}: {} pages, {} queued, at least {} ms between requests, breaker {}",
            address.host_key(),
            host.pages,
            host.queued,
            host.gap_ms,
            host.breaker
        ));
    }
    if let Some(page) = file.page(print)? {
        fetched_before(explained, &page);
        return Ok(());
    }
    if let Some(rule) = robots_rule(&frontier, file, address, now_ms)? {
        explained.decide(
            false,
            "robots",
            format!("no: robots.txt of {} forbids it with {rule}", address.origin()),
        );
        return Ok(());
    }
    let is_known = file.contains(&[print])?.first() == Some(&true);
    if is_known {
        explained.details.push("it was found and waits in its queue".to_owned());
    }
    tell(explained, &frontier.explain(now_ms, &link), now_ms);
    Ok(())
}

fn robots_rule(
    frontier: &divvy_frontier::frontier::Frontier,
    file: &ShardFile,
    address: &Address,
    now_ms: u64,
) -> Result<Option<String>, crate::store::Error> {
    let Some(number) = frontier.host_number(address.origin()) else { return Ok(None) };
    let Some(copy) = file.robots(number)? else { return Ok(None) };
    let standing: Standing = serde_json::from_str(&copy.about).unwrap_or_default();
    Ok(match standing.permission(now_ms, address.path_and_query()) {
        Permission::Disallowed(rule) => {
            Some(format!("`Disallow: {}` in line {}", rule.pattern, rule.line))
        }
        _ => None,
    })
}

fn fetched_before(explained: &mut Explained, page: &PageState) {
    let reason = page.reason.as_deref().unwrap_or("it answered so");
    match page.end {
        PageEnd::Done => {
            explained.decide(true, "done", format!("it was fetched, with status {}", page.status));
        }
        PageEnd::Failing => {
            let text =
                format!("it failed and is tried again (attempt {}): {reason}", page.attempts + 1);
            explained.decide(true, "retry", text);
        }
        PageEnd::Dead => {
            let text = format!(
                "no: it failed for good (status {}): {reason}; divvy crawl retry",
                page.status
            );
            explained.decide(false, "dead", text);
        }
    }
}

/// What the frontier says.
fn tell(explained: &mut Explained, explanation: &Explanation, now_ms: u64) {
    match explanation {
        Explanation::Refused { why } => {
            let (rule, text) = match why {
                Refusal::Seen => ("seen", "it was found before"),
                Refusal::TooDeep => ("depth_max", "it is too many links from a seed"),
                Refusal::TooManyHops => ("hops_max", "too many redirects lead to it"),
                Refusal::TooLong => ("bytes_max", "its path is too long"),
                Refusal::HostBudget => ("host_pages", "its host has used up its budget"),
                Refusal::DomainBudget => ("domain_budget", "its domain has used up its budget"),
                Refusal::TooManyHosts => ("hosts_max", "too many hosts are known"),
            };
            explained.decide(false, rule, format!("no: {text}"));
        }
        Explanation::Parked { why } => {
            let (rule, text) = match why {
                Park::Blocked => ("blocked", "its host was blocked by hand"),
                Park::CrawlDelay => {
                    ("crawl_delay", "its host asks for a longer delay than is granted")
                }
                Park::Unreachable => ("unreachable", "its host failed too often in a row"),
            };
            explained.decide(false, rule, format!("no: {text}"));
        }
        Explanation::Disallowed => explained.decide(false, "robots", "no: robots.txt forbids it"),
        Explanation::Enough => {
            explained.decide(false, "max_pages", "no: enough pages were fetched")
        }
        Explanation::InFlight => explained.decide(true, "in_flight", "it is being fetched"),
        Explanation::Fetched { not_before_ms, because, queued } => {
            let (rule, why) = match because {
                Because::Ready => ("ready", "nothing stands in its way"),
                Because::RobotsFirst => ("robots_first", "the robots.txt of its host comes first"),
                Because::RobotsUnreachable => {
                    ("robots_unreachable", "the robots.txt of its host cannot be had")
                }
                Because::Gap => ("delay", "the delay of its host is not over"),
                Because::DomainGap => ("domain_delay", "the delay of its domain is not over"),
                Because::Blocked => ("resting", "its host asked to be left alone for a time"),
                Because::Breaker => ("breaker", "the breaker of its host is open"),
                Because::HostInFlight => ("host_in_flight", "its host has a request in flight"),
            };
            let wait = not_before_ms.saturating_sub(now_ms);
            let when =
                if wait == 0 { "now".to_owned() } else { format!("in {wait} ms at the earliest") };
            explained.not_before_ms = Some(*not_before_ms);
            let text = format!(
                "it would be fetched {when}: {why}; {queued} addresses of its host are queued"
            );
            explained.decide(true, rule, text);
        }
    }
}
