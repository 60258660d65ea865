//! What a shard shows of itself, once a second.

use std::time::Duration;

use divvy_frontier::frontier::{HostView, Park, RobotsView};
use divvy_workload::files::show_json;
use tokio::time::Instant;

use super::{Owner, ShardError};
use crate::folder::status::{HOSTS_SHOWN, HostRow, Seen, ShardState, ShardStatus, Waiting};

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
        let hosts = self.frontier.hosts(HOSTS_SHOWN);
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

fn row(host: HostView, shard: u32, now_ms: u64) -> HostRow {
    let why = host.parked.map(|park| match park {
        Park::Blocked => "it was blocked by hand",
        Park::CrawlDelay => "its robots.txt asks for a longer delay than the crawl grants",
        Park::Unreachable => "it failed too often in a row",
    });
    let state = match () {
        () if host.parked.is_some() => "parked",
        () if host.in_flight > 0 => "in_flight",
        () if host.queued == 0 => "empty",
        () if host.breaker != "closed" || host.robots == RobotsView::Unreachable => "blocked",
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
        why: why.map(str::to_owned),
    }
}
