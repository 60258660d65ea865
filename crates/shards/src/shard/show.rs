//! What a shard shows of itself, once a second.

use std::time::Duration;

use divvy_frontier::frontier::{Because, HostView, Park, RobotsView};
use divvy_workload::files::show_json;
use tokio::time::Instant;

use super::{Owner, ShardError};
use crate::folder::status::{
    HOSTS_SHOWN, HostRow, KEPT_AWAY_SHOWN, Seen, ShardState, ShardStatus, Waiting,
};

/// Over how long the rate is taken.
const RATE: Duration = Duration::from_secs(10);

impl Owner {
    /// Shows where it is.
    pub(super) fn show(&mut self, state: ShardState) -> Result<(), ShardError> {
        let status = self.status(state);
        show_json(&self.folder.status(self.place.shard), &status)?;
        Ok(())
    }

    fn status(&mut self, state: ShardState) -> ShardStatus {
        let now_ms = self.clock.now_ms();
        let counts = self.frontier.counts(now_ms);
        let queued: u64 = counts.queued.iter().sum();
        let waiting = Waiting {
            bands: counts.queued.to_vec(),
            spilled: queued.saturating_sub(counts.in_memory),
            in_flight: counts.in_flight,
            dead: self.dead,
            hosts: counts.hosts,
            hosts_ready: counts.hosts_ready,
            hosts_waiting: counts.hosts_waiting,
            hosts_blocked: counts.hosts_resting,
            hosts_parked: counts.hosts_parked,
        };
        let seen = self.frontier.seen();
        let seen = Seen {
            count: seen.len(),
            filter_bytes: seen.bytes(),
            false_positives: seen.rate(),
            lost: seen.losses(),
        };
        let mut totals = self.totals.clone();
        if counts.disallowed > 0 {
            totals.refused.insert("robots".to_owned(), counts.disallowed);
        }
        let shard = self.place.shard;
        let hosts = self.frontier.hosts(now_ms, HOSTS_SHOWN);
        let kept_away = self.frontier.kept_away(now_ms, KEPT_AWAY_SHOWN);
        ShardStatus {
            shard,
            state,
            at_ms: now_ms,
            process: std::process::id(),
            epoch: self.place.epoch,
            round: self.place.round,
            control: self.control.version,
            rate: self.rate(),
            is_full: self.is_full,
            totals,
            waiting,
            seen,
            sent: self.sent.clone(),
            received: self.received.clone(),
            outbox_lag_ms: if self.outbox.is_empty() {
                0
            } else {
                let since = self.batch_since.map_or(Duration::ZERO, |since| since.elapsed());
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            },
            outputs: self.outputs.clone(),
            hosts: hosts.into_iter().map(|host| row(host, shard, now_ms)).collect(),
            kept_away: kept_away.into_iter().map(|host| row(host, shard, now_ms)).collect(),
            pages: self.tail.iter().cloned().collect(),
        }
    }

    /// Pages per second of late.
    fn rate(&mut self) -> f64 {
        let now = Instant::now();
        while self.rates.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE) {
            self.rates.pop_front();
        }
        let span = self.rates.front().map_or(Duration::ZERO, |(at, _)| now.duration_since(*at));
        self.rates.len() as f64 / span.max(Duration::from_secs(1)).as_secs_f64()
    }
}

/// Why a host is parked, or rests because it failed or asked for it, in words.
pub fn why_kept_away(host: &HostView) -> Option<String> {
    let trouble = host.trouble.as_deref().unwrap_or_default();
    let text = match (host.parked, host.because) {
        (Some(Park::Blocked), _) => "it was blocked by hand".to_owned(),
        (Some(Park::CrawlDelay), _) => {
            "its robots.txt asks for a longer delay than the crawl grants".to_owned()
        }
        (Some(Park::Unreachable), _) if trouble.is_empty() => {
            "it failed too often in a row".to_owned()
        }
        (Some(Park::Unreachable), _) => {
            format!("its robots.txt could not be had too often in a row: {trouble}")
        }
        (Some(Park::Refused), _) => trouble.to_owned(),
        (None, Because::RobotsUnreachable) => format!("its robots.txt cannot be had: {trouble}"),
        (None, Because::Breaker) => format!("it failed {} times in a row", host.failures),
        (None, Because::Blocked) => "it asked to be left alone for a time".to_owned(),
        (None, _) => return None,
    };
    Some(text)
}

fn row(host: HostView, shard: u32, now_ms: u64) -> HostRow {
    let why = why_kept_away(&host);
    let state = match () {
        () if host.parked.is_some() => "parked",
        () if host.in_flight > 0 => "in_flight",
        () if host.queued == 0 => "empty",
        () if host.because.is_rest() => "blocked",
        () if host.next_at_ms <= now_ms => "ready",
        () => "waiting",
    };
    let name = host.name;
    HostRow {
        host: name.split_once("://").map_or(name.as_str(), |(_, key)| key).to_owned(),
        shard,
        queued: host.queued,
        pages: host.pages.into(),
        delay_ms: host.gap_ms,
        next_ms: host.next_at_ms,
        state: state.to_owned(),
        robots: match host.robots {
            RobotsView::Unknown => "unknown",
            RobotsView::Known => "known",
            RobotsView::Unreachable => "unreachable",
        }
        .to_owned(),
        breaker: host.breaker.to_owned(),
        why,
    }
}
