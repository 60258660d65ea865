//! Whether an address would be fetched, when, and which rule decides: the rules of the crawl first, then what the file of
//! its shard says, as of the last commit; what is in flight is not in it. An address that might be fetched is not if the
//! crawl is over.

use divvy_frontier::address::Address;
use divvy_frontier::frontier::{Because, Explanation, Frontier, Link, Park, Refusal};
use divvy_frontier::robots::{Permission, Standing};
use divvy_frontier::seen;
use divvy_workload::now_ms;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Crawls, CrawlsError};
use crate::folder::control::{Control, CrawlState};
use crate::place::Places;
use crate::render;
use crate::settings::{SeenBy, Spec, Wrong};
use crate::shard::show::why_kept_away;
use crate::store::{self, PageEnd, PageState, ShardFile};

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
        let pages = self.statuses(&spec).iter().map(|status| status.totals.pages).sum();
        let question = Question { spec, control, pages, address, now_ms: now_ms() };
        let file = self.folder(id).shard_file(question.shard());
        let looking = tokio::task::spawn_blocking(move || {
            let file = ShardFile::look(&file)?;
            question.answer(file.as_ref())
        });
        let broken = |problem: &dyn std::fmt::Display| CrawlsError::Broken(problem.to_string());
        let explained = looking.await.map_err(|error| broken(&error))?;
        explained.map_err(|error: store::Error| broken(&error))
    }
}

/// What is asked, and what is known of the crawl besides the file of the shard.
struct Question {
    spec: Spec,
    control: Control,
    /// Pages that all shards have fetched.
    pages: u64,
    address: Address,
    now_ms: u64,
}

impl Question {
    fn shard(&self) -> u32 {
        Places::new(self.spec.rules.shards).of(&self.address)
    }

    fn answer(&self, file: Option<&ShardFile>) -> Result<Explained, store::Error> {
        let mut explained = Explained {
            url: self.address.as_str().to_owned(),
            fetched: false,
            rule: String::new(),
            text: String::new(),
            not_before_ms: None,
            shard: self.shard(),
            details: Vec::new(),
        };
        if self.by_rules(&mut explained) {
            return Ok(explained);
        }
        match file {
            Some(file) => self.by_file(&mut explained, file)?,
            None => {
                explained.decide(true, "new", "it would be fetched: its shard has not begun yet");
            }
        }
        let is_to_come = explained.fetched && explained.rule != "done";
        if let Some((rule, text)) = self.over().filter(|_| is_to_come) {
            explained.not_before_ms = None;
            explained.decide(false, rule, text);
        }
        Ok(explained)
    }

    /// What the rules of the crawl say; whether they decide.
    fn by_rules(&self, explained: &mut Explained) -> bool {
        let Self { spec, control, address, .. } = self;
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
    fn by_file(&self, explained: &mut Explained, file: &ShardFile) -> Result<(), store::Error> {
        let (address, now_ms) = (&self.address, self.now_ms);
        let mode = match self.spec.rules.seen {
            SeenBy::Exact => seen::Mode::Exact,
            SeenBy::Bloom => seen::Mode::Bloom,
        };
        let settings = seen::Settings { mode, ..seen::Settings::default() };
        let rules = self.spec.rules.frontier();
        let frontier = file.frontier(rules, file.seen(settings)?, 0, now_ms)?;
        let link = Link {
            host: address.origin(),
            domain: address.registrable(),
            path: address.path_and_query(),
            depth: 0,
            hops: 0,
            is_sitemap: false,
        };
        let host = frontier.host(now_ms, address.origin());
        if let Some(host) = &host {
            explained.details.push(format!(
                "{}: {} pages, {} queued, at least {} ms between requests, breaker {}",
                address.host_key(),
                host.pages,
                host.queued,
                host.gap_ms,
                host.breaker
            ));
        }
        let print = frontier.fingerprint(&link);
        if let Some(page) = file.page(print)? {
            fetched_before(explained, &page, file.due_of(print)?, now_ms);
            return Ok(());
        }
        let standing = standing(&frontier, file, address)?;
        let permission = standing.as_ref().map(|known| known.permission(now_ms, link.path));
        if let Some(Permission::Disallowed(rule)) = permission {
            let line = format!("`Disallow: {}` in line {}", rule.pattern, rule.line);
            let text = format!("no: robots.txt of {} forbids it with {line}", address.origin());
            explained.decide(false, "robots", text);
            return Ok(());
        }
        if file.contains(&[print])?.first() == Some(&true) {
            explained.details.push("it was found and waits in its queue".to_owned());
        }
        let mut explanation = frontier.explain(now_ms, &link);
        // The copy of the robots.txt is in the file, and not in a frontier that was just made of it.
        if let Explanation::Fetched { because: because @ Because::RobotsFirst, .. } =
            &mut explanation
            && let Some(Permission::Allowed(_)) = permission
        {
            *because = Because::Ready;
        }
        if let Some(place) = standing.as_ref().and_then(|known| known.leads_to(now_ms)) {
            let text = "which is asked when the turn of its host comes";
            explained.details.push(format!("its robots.txt leads to {place}, {text}"));
            if let Explanation::Fetched { because: because @ Because::RobotsFirst, .. } =
                &mut explanation
            {
                *because = Because::RobotsElsewhere;
            }
        }
        let why = host.as_ref().and_then(why_kept_away);
        tell(explained, &explanation, why.as_deref(), now_ms);
        Ok(())
    }

    /// Why nothing more is fetched at all, if it is so: the rule, and the same in a sentence.
    fn over(&self) -> Option<(&'static str, String)> {
        let stopped = || ("stopped", "no: the crawl was stopped; divvy crawl resume".to_owned());
        if let Some(most) = self.spec.rules.max_pages.filter(|most| self.pages >= *most) {
            let text = format!("no: the crawl has fetched the {most} pages that it may fetch");
            return Some(("max_pages", text));
        }
        match &self.control.ended {
            Some(ended) if ended.state == CrawlState::Stopped => Some(stopped()),
            Some(ended) => {
                let state = ended.state.as_str();
                let text =
                    format!("no: the crawl has ended ({state}); divvy crawl add takes it in");
                Some(("ended", text))
            }
            None if self.control.stopped => Some(stopped()),
            None => None,
        }
    }
}

impl Explained {
    fn decide(&mut self, fetched: bool, rule: &str, text: impl Into<String>) {
        (self.fetched, self.rule, self.text) = (fetched, rule.to_owned(), text.into());
    }
}

/// What is known of the robots.txt of the host.
fn standing(
    frontier: &Frontier,
    file: &ShardFile,
    address: &Address,
) -> Result<Option<Standing>, store::Error> {
    let Some(number) = frontier.host_number(address.origin()) else { return Ok(None) };
    let Some(copy) = file.robots(number)? else { return Ok(None) };
    Ok(serde_json::from_str(&copy.about).ok())
}

/// What became of an address that was fetched before; it is due again at `due_ms`, if at all.
fn fetched_before(explained: &mut Explained, page: &PageState, due_ms: Option<u64>, now_ms: u64) {
    let reason = page.reason.as_deref().unwrap_or("it answered so");
    let status = page.status;
    // One that is not put off any more is in its queue.
    let when = due_ms.map_or_else(|| "when its turn comes".to_owned(), |due| wait(due, now_ms));
    explained.not_before_ms = due_ms.filter(|_| page.end != PageEnd::Dead);
    match page.end {
        PageEnd::Done if page.interval_ms.is_some() => {
            let text =
                format!("it was fetched, with status {status}, and is looked at again {when}");
            explained.decide(true, "done", text);
        }
        PageEnd::Done => {
            explained.decide(true, "done", format!("it was fetched, with status {status}"));
        }
        PageEnd::Failing => {
            let attempt = page.attempts + 1;
            let text = format!("it failed and is tried again {when} (attempt {attempt}): {reason}");
            explained.decide(true, "retry", text);
        }
        PageEnd::Dead => {
            let text =
                format!("no: it failed for good (status {status}): {reason}; divvy crawl retry");
            explained.decide(false, "dead", text);
        }
    }
}

/// What the frontier says; `why` is why the host is kept away, if it is.
fn tell(explained: &mut Explained, explanation: &Explanation, why: Option<&str>, now_ms: u64) {
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
        Explanation::Parked { why: park } => {
            let rule = match park {
                Park::Blocked => "blocked",
                Park::CrawlDelay => "crawl_delay",
                Park::Unreachable => "unreachable",
                Park::Refused => "refused",
            };
            let cure = match park {
                Park::Unreachable | Park::Refused => "; divvy crawl retry asks it again",
                Park::Blocked | Park::CrawlDelay => "",
            };
            let why = why.unwrap_or_default();
            explained.decide(false, rule, format!("no: its host is left alone: {why}{cure}"));
        }
        Explanation::Disallowed => explained.decide(false, "robots", "no: robots.txt forbids it"),
        Explanation::Enough => {
            explained.decide(false, "max_pages", "no: enough pages were fetched")
        }
        Explanation::InFlight => explained.decide(true, "in_flight", "it is being fetched"),
        Explanation::Fetched { not_before_ms, because, queued } => {
            let (rule, usual) = match because {
                Because::Ready => ("ready", "nothing stands in its way"),
                Because::RobotsFirst => ("robots_first", "the robots.txt of its host comes first"),
                Because::RobotsElsewhere => {
                    ("robots_elsewhere", "the robots.txt of its host leads to another place")
                }
                Because::RobotsUnreachable => ("robots_unreachable", "its robots.txt is missing"),
                Because::Gap => ("delay", "the delay of its host is not over"),
                Because::DomainGap => ("domain_delay", "the delay of its domain is not over"),
                Because::Blocked => ("resting", "its host rests"),
                Because::Breaker => ("breaker", "its breaker is open"),
                Because::HostInFlight => ("host_in_flight", "its host has a request in flight"),
            };
            let why = why.map_or_else(|| usual.to_owned(), |why| format!("of its host: {why}"));
            let when = wait(*not_before_ms, now_ms);
            explained.not_before_ms = Some(*not_before_ms);
            let text = format!(
                "it would be fetched {when}: {why}; {queued} addresses of its host are queued"
            );
            explained.decide(true, rule, text);
        }
    }
}

/// How long it is until then.
fn wait(until_ms: u64, now_ms: u64) -> String {
    match until_ms.saturating_sub(now_ms) {
        0 => "now".to_owned(),
        ms @ 1..10_000 => format!("in {ms} ms at the earliest"),
        ms @ 10_000..600_000 => format!("in {} s at the earliest", ms / 1_000),
        ms @ 600_000..36_000_000 => format!("in {} min at the earliest", ms / 60_000),
        ms => format!("in {} h at the earliest", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests;
