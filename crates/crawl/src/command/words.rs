//! Crawls in words for people: one line, a summary, tables.

use anyhow::Result;
use divvy::types::Timestamp;
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::{Cell, Table};
use divvy_workload::console::output::words::{bytes, now, relative};

use crate::crawls::view::CrawlView;
use crate::folder::control::CrawlState;
use crate::folder::status::{HostRow, PageRow};
use crate::settings::SeenBy;

/// How far a crawl is, on one line.
pub(super) fn line(crawl: &CrawlView) -> String {
    let waiting = &crawl.waiting;
    let statuses: Vec<String> =
        crawl.totals.by_status.iter().map(|(word, count)| format!("{word} {count}")).collect();
    let reason = crawl.kept_away.first().map(kept_away);
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let mut text = format!(
        "{} pages, {:.1}/s, {} queued; hosts: {} ready, {} waiting, {} blocked{reason}; {}",
        crawl.totals.pages,
        crawl.rate,
        waiting.queued(),
        waiting.hosts_ready,
        waiting.hosts_waiting,
        waiting.hosts_blocked + waiting.hosts_parked,
        statuses.join(", "),
    );
    if crawl.state != CrawlState::Running {
        text = format!("{}: {text}", crawl.state.as_str());
        if let Some(reason) = &crawl.reason {
            text.push_str(&format!(" ({reason})"));
        }
    }
    text
}

/// A host that is blocked or parked, and why.
fn kept_away(host: &HostRow) -> String {
    let why = host.why.as_deref().unwrap_or("it is kept away");
    Cell::from(format!("{}: {why}", host.host)).into_text()
}

fn color(state: CrawlState) -> &'static str {
    match state {
        CrawlState::Running => "34",
        CrawlState::Done => "32",
        CrawlState::Failed => "31",
        _ => "33",
    }
}

/// A table of crawls.
pub(super) fn table(crawls: &[CrawlView]) -> Table {
    let mut table = Table::new(&[
        "=ID", "NAME", "=STATE", ">PAGES", ">QUEUED", ">HOSTS", ">PAGES/S", "=STARTED",
    ]);
    for crawl in crawls {
        table.row([
            crawl.spec.id.as_str().into(),
            crawl.spec.name.as_str().into(),
            Cell::colored(crawl.state.as_str(), color(crawl.state)),
            crawl.totals.pages.to_string().into(),
            crawl.waiting.queued().to_string().into(),
            crawl.waiting.hosts.to_string().into(),
            format!("{:.1}", crawl.rate).into(),
            relative(Timestamp(crawl.spec.created_at_ms * 1_000), now()).into(),
        ]);
    }
    table
}

/// Everything about a crawl on one screen.
pub(super) fn summary(crawl: &CrawlView, output: &Output) -> Result<()> {
    let spec = &crawl.spec;
    let name = Cell::from(spec.name.as_str()).into_text();
    output.data(format_args!("{}  {}  {name}", spec.id, crawl.state.as_str()))?;
    let row = |key: &str, value: String| output.data(format_args!("  {key:<9} {value}"));
    if let Some(reason) = &crawl.reason {
        row("reason", Cell::from(reason.as_str()).into_text())?;
    }
    let took = crawl.ended_at_ms.map(|ended| ended.saturating_sub(spec.created_at_ms) as f64 / 1e3);
    let speed = match took {
        Some(took) => {
            format!("in {took:.1} s, {:.1}/s", crawl.totals.pages as f64 / took.max(0.001))
        }
        None => format!("{:.1}/s now", crawl.rate),
    };
    row("pages", format!("{} {speed}", crawl.totals.pages))?;
    let statuses: Vec<String> =
        crawl.totals.by_status.iter().map(|(word, count)| format!("{word} {count}")).collect();
    row("answers", if statuses.is_empty() { "none yet".to_owned() } else { statuses.join(", ") })?;
    row(
        "received",
        format!(
            "{}, {} on the wire",
            bytes(crawl.totals.body_bytes),
            bytes(crawl.totals.wire_bytes)
        ),
    )?;
    let waiting = &crawl.waiting;
    row(
        "queue",
        format!(
            "{} queued ({} on disk only), {} in flight, {} failed for good",
            waiting.queued(),
            waiting.spilled,
            waiting.in_flight,
            waiting.dead
        ),
    )?;
    row(
        "hosts",
        format!(
            "{} known: {} ready, {} waiting, {} blocked, {} parked",
            waiting.hosts,
            waiting.hosts_ready,
            waiting.hosts_waiting,
            waiting.hosts_blocked,
            waiting.hosts_parked
        ),
    )?;
    for host in &crawl.kept_away {
        row(&host.state, kept_away(host))?;
    }
    manners(crawl, output)
}

/// How polite it was, and what it left alone.
fn manners(crawl: &CrawlView, output: &Output) -> Result<()> {
    let row = |key: &str, value: String| output.data(format_args!("  {key:<9} {value}"));
    let sent: u64 = crawl.totals.slack.iter().sum();
    let late = if sent == 0 { 0.0 } else { crawl.totals.slack_ms as f64 / sent as f64 };
    row(
        "polite",
        format!(
            "{sent} requests, {} before their time, {late:.1} ms late on average; {} robots.txt",
            crawl.totals.impolite, crawl.totals.robots
        ),
    )?;
    let mut refused: Vec<_> = crawl.totals.refused.iter().collect();
    refused.sort_by(|a, b| b.1.cmp(a.1));
    let refused: Vec<String> =
        refused.iter().take(6).map(|(rule, count)| format!("{rule} {count}")).collect();
    row("links", format!("{} found; not followed: {}", crawl.totals.links, refused.join(", ")))?;
    if crawl.spec.rules.seen == SeenBy::Bloom {
        row(
            "seen",
            format!(
                "{} addresses by the filter alone ({}): about {:.1} pages lost",
                crawl.seen.count,
                bytes(crawl.seen.filter_bytes),
                crawl.seen.lost
            ),
        )?;
    }
    Ok(())
}

/// A table of hosts.
pub(super) fn hosts(hosts: &[HostRow]) -> Table {
    let mut table =
        Table::new(&["HOST", ">QUEUE", ">PAGES", ">DELAY", "=ROBOTS", "=BREAKER", "=STATE", "WHY"]);
    for host in hosts {
        table.row([
            host.host.as_str().into(),
            host.queued.to_string().into(),
            host.pages.to_string().into(),
            format!("{} ms", host.delay_ms).into(),
            host.robots.as_str().into(),
            host.breaker.as_str().into(),
            host.state.as_str().into(),
            host.why.as_deref().unwrap_or_default().into(),
        ]);
    }
    table
}

/// A table of pages.
pub(super) fn pages(pages: &[PageRow]) -> Table {
    let mut table = Table::new(&[">STATUS", "URL", ">BYTES", ">MS", "NOTE"]);
    for page in pages {
        table.row([
            page.status.to_string().into(),
            page.url.as_str().into(),
            page.bytes.to_string().into(),
            page.ms.to_string().into(),
            page.note.as_str().into(),
        ]);
    }
    table
}
