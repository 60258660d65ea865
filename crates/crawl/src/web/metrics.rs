//! Figures of all crawls of a server, as the shards show them: pages, bytes, queues, hosts, politeness.
//!
//! What a shard counts is durable with its state, so these counters do not fall when a worker is replaced.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use divvy_http::figures::Page;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::folder::status::{SLACK_MS, Seen, ShardState, ShardStatus, Totals, Waiting};

/// The figures; a clone shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Arc<Mutex<Sums>>);

#[derive(Clone, Debug, Default)]
struct Sums {
    crawls: u64,
    totals: Totals,
    waiting: Waiting,
    seen: Seen,
    rate: f64,
    /// Of each shard that has not ended: the crawl, its number, and how long its links wait.
    lags: Vec<(String, u32, u64)>,
}

impl Figures {
    /// Takes in what all shards of all crawls show.
    pub(crate) fn set(&self, shown: &[(String, Vec<ShardStatus>)]) {
        let mut sums = Sums { crawls: shown.len() as u64, ..Sums::default() };
        let statuses = shown.iter().flat_map(|(id, all)| all.iter().map(move |one| (id, one)));
        for (id, status) in statuses {
            sums.totals.add(&status.totals);
            sums.waiting.add(&status.waiting);
            sums.seen.add(&status.seen);
            sums.rate += status.rate;
            if !matches!(status.state, ShardState::New | ShardState::Done) {
                sums.lags.push((id.clone(), status.shard, status.outbox_lag_ms));
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sums;
    }

    /// Tells them beside the server's own.
    pub(crate) fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut page = Page::new(encoder);
        page.gauge("crawls", "Crawls that are there", sums.crawls as f64)?;
        page.gauge("pages_per_second", "Pages per second of late", sums.rate)?;
        pages(&mut page, &sums.totals)?;
        waiting(&mut page, &sums.waiting)?;
        page.gauge("seen", "Addresses that were seen", sums.seen.count as f64)?;
        let help = "Bytes of the filters before the exact fingerprints";
        page.gauge("seen_filter_bytes", help, sums.seen.filter_bytes as f64)?;
        let help = "The estimated share of new addresses that the fullest filter takes for known";
        page.gauge("seen_false_positives", help, sums.seen.false_positives)?;
        let help = "New addresses that filters took for known ones, estimated, in crawls with --seen bloom";
        page.gauge("seen_lost", help, sums.seen.lost)?;
        lags(&mut page, &sums.lags)?;
        slack(&mut page, &sums.totals)
    }
}

/// How long links of each shard wait.
fn lags(page: &mut Page<'_>, lags: &[(String, u32, u64)]) -> fmt::Result {
    let help = "How long the oldest link of a shard waits to be sent to another one";
    let mut family = page.gauges("outbox_lag_seconds", help)?;
    for (crawl, shard, ms) in lags {
        family.add(&[("crawl", crawl), ("shard", &shard.to_string())], *ms as f64 / 1e3)?;
    }
    Ok(())
}

fn pages(page: &mut Page<'_>, totals: &Totals) -> fmt::Result {
    let mut by_status = page.counters("pages", "Pages by the class of their status")?;
    for (word, count) in &totals.by_status {
        by_status.add(&[("status", word)], *count as f64)?;
    }
    page.counter("wire_bytes", "Bytes as they came", totals.wire_bytes as f64)?;
    page.counter("body_bytes", "Bytes after decoding", totals.body_bytes as f64)?;
    page.counter("links", "Links that were found", totals.links as f64)?;
    let mut refused = page.counters("links_refused", "Links that a rule did not let in")?;
    for (word, count) in &totals.refused {
        refused.add(&[("rule", word)], *count as f64)?;
    }
    page.counter("robots", "Fetches of robots.txt", totals.robots as f64)?;
    page.counter("robots_failed", "Those that failed", totals.robots_failed as f64)?;
    let help = "Pages whose content was there before";
    page.counter("duplicates", help, totals.duplicates as f64)?;
    let help = "Seconds that browsers spent";
    page.counter("render_seconds", help, totals.render_ms as f64 / 1e3)?;
    let help = "Requests that were sent before they were allowed; a fault if there is any";
    page.counter("impolite", help, totals.impolite as f64)
}

fn waiting(page: &mut Page<'_>, waiting: &Waiting) -> fmt::Result {
    const BANDS: [&str; 4] = ["0", "1", "2", "3"];
    let mut queued = page.gauges("queued", "Queued addresses by band")?;
    for (band, count) in BANDS.into_iter().zip(&waiting.bands) {
        queued.add(&[("band", band)], *count as f64)?;
    }
    let help = "Queued addresses that are on disk only";
    page.gauge("spilled", help, waiting.spilled as f64)?;
    page.gauge("in_flight", "Requests in flight", waiting.in_flight as f64)?;
    page.gauge("dead", "Addresses that failed for good", waiting.dead as f64)?;
    let mut hosts = page.gauges("hosts", "Hosts with work, by where they are")?;
    for (state, count) in [
        ("ready", waiting.hosts_ready),
        ("waiting", waiting.hosts_waiting),
        ("blocked", waiting.hosts_blocked),
        ("parked", waiting.hosts_parked),
    ] {
        hosts.add(&[("state", state)], count as f64)?;
    }
    Ok(())
}

/// How much later than allowed requests were sent; nothing is below zero, or [`Totals::impolite`] says so.
fn slack(page: &mut Page<'_>, totals: &Totals) -> fmt::Result {
    let bounds = SLACK_MS.iter().map(|ms| *ms as f64 / 1e3).chain([f64::INFINITY]);
    let counts = totals.slack.iter().copied().chain(std::iter::repeat(0));
    let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
    let help = "How much later than it was allowed a request was sent";
    page.histogram("politeness_slack_seconds", help, totals.slack_ms as f64 / 1e3, &buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shards_show_is_told_and_the_slack_adds_up() {
        let mut status = ShardStatus::default();
        status.totals.answered(Some(200));
        status.totals.answered(None);
        for slack in [0, 7, 500, 99_999] {
            status.totals.sent(slack);
        }
        status.waiting.bands = vec![1, 2, 3, 4];
        (status.state, status.seen.lost) = (ShardState::Working, 1.5);
        let late = ShardStatus { shard: 1, outbox_lag_ms: 250, ..status.clone() };
        let ended = ShardStatus { shard: 2, state: ShardState::Done, ..ShardStatus::default() };
        let figures = Figures::default();
        figures.set(&[("a".into(), vec![status, late, ended])]);
        let mut registry = Registry::default();
        figures.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "pages_total{status=\"2xx\"} 2",
            "pages_total{status=\"failed\"} 2",
            "queued{band=\"3\"} 8",
            "politeness_slack_seconds_bucket{le=\"0.0\"} 2",
            "politeness_slack_seconds_bucket{le=\"+Inf\"} 8",
            "politeness_slack_seconds_count 8",
            "impolite_total 0",
            "seen_lost 3.0",
            "outbox_lag_seconds{crawl=\"a\",shard=\"0\"} 0.0",
            "outbox_lag_seconds{crawl=\"a\",shard=\"1\"} 0.25",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("shard=\"2\""), "it has ended: {text}");
    }
}
