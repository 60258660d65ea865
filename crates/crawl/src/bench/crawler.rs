//! The crawler as it is, without a server: its shards on threads of this process, on a folder of their own.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use divvy_workload::files::{read_json, show_json};
use divvy_workload::now_ms;
use tokio_util::sync::CancellationToken;

use super::{Cost, Web, cpu_s};
use crate::folder::Folder;
use crate::folder::control::Control;
use crate::folder::inbox::{self, SERVER, Travelling};
use crate::folder::status::ShardStatus;
use crate::place::Places;
use crate::settings::{NewCrawl, Rules};
use crate::shard::task::{Site, on_this_thread};
use crate::shard::{Place, TurnEnd};
use divvy_frontier::address::Reach;

/// What is to be crawled.
pub(super) struct Wish {
    max_pages: u64,
    delay_ms: u64,
    rate: Option<f64>,
}

impl Wish {
    /// So many pages, as fast as it goes.
    pub(super) fn all(pages: u64) -> Self {
        Self { max_pages: pages, delay_ms: 1, rate: None }
    }

    /// So many pages a second for so long, with a delay of a second.
    pub(super) fn at_rate(rate: f64, seconds: u64) -> Self {
        Self { max_pages: (rate * seconds as f64) as u64, delay_ms: 1_000, rate: Some(rate) }
    }
}

/// Crawls, and says what it cost.
pub(super) async fn run(folder: &Path, web: &Web, wish: &Wish) -> Result<Cost> {
    let rules = Rules {
        scope: Reach::Any,
        max_pages: Some(wish.max_pages),
        delay_ms: wish.delay_ms,
        pages_per_second: wish.rate,
        shards: 2,
        allow_private: vec![web.network.clone()],
        resolve: vec![web.resolve.clone()],
        ..Rules::default()
    };
    let new = NewCrawl { name: None, seeds: vec![web.start.clone()], rules };
    let (spec, seeds) = new
        .check("bench".to_owned(), now_ms())
        .map_err(|wrong| anyhow::anyhow!("{} {}", wrong.field, wrong.problem))?;
    let place = Folder::new(folder);
    for shard in 0..spec.rules.shards {
        std::fs::create_dir_all(place.inbox(shard))?;
    }
    let seed = seeds.first().context("a web has a beginning")?;
    let shard = Places::new(spec.rules.shards).of(seed);
    let link = Travelling::seed(seed.as_str());
    inbox::send(&place.inbox(shard), SERVER, 1, &[link])?;
    let sent = [(shard, 1)].into();
    let control = Control { version: 1, round: 1, sent, ..Control::default() };
    show_json(&place.control(), &control)?;
    show_json(&place.spec(), &spec)?;
    let (began, cpu) = (Instant::now(), cpu_s());
    let shards: Vec<_> = (0..spec.rules.shards)
        .map(|shard| {
            let site = Site { allow_private: true, ..Site::default() };
            let folder = folder.to_owned();
            tokio::task::spawn_blocking(move || {
                for epoch in 1.. {
                    let place = Place {
                        folder: folder.clone(),
                        shard,
                        round: 1,
                        epoch,
                        site: site.clone(),
                    };
                    let ended =
                        on_this_thread(place, CancellationToken::new(), Box::new(|_, _| ()));
                    match ended.map_err(|error| anyhow::anyhow!("a shard broke: {error}"))? {
                        TurnEnd::Done(_) => return Ok(()),
                        TurnEnd::Later(span, _) => std::thread::sleep(span),
                    }
                }
                bail!("a shard never ended")
            })
        })
        .collect();
    for shard in shards {
        shard.await??;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_s() - cpu);
    let mut pages = 0;
    for shard in 0..spec.rules.shards {
        let shown: Option<ShardStatus> = read_json(&place.status(shard))?;
        pages += shown.map_or(0, |status| status.totals.pages);
    }
    Ok(Cost::new(pages, seconds, cpu))
}
