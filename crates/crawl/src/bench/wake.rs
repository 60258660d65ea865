//! What a turn of a shard costs that has seen much and has nothing to do: the first one in a process, which reads the file
//! and the certificates of the system, and those after it.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use divvy_frontier::frontier::Changes;
use divvy_frontier::seen::Mode;
use divvy_workload::files::show_json;
use divvy_workload::now_ms;
use divvy_workload::private::rounded;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::cpu_s;
use crate::folder::Folder;
use crate::folder::control::Control;
use crate::settings::NewCrawl;
use crate::shard::Place;
use crate::shard::task::{Site, on_this_thread};
use crate::store::{Batch, Opening, ShardFile};

/// Addresses that the shard has seen.
const SEEN: u64 = 1_000_000;
/// Turns after the first one.
const TURNS: u32 = 20;

/// Processor time of one turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Turn {
    pub(super) seen: u64,
    pub(super) first_cpu_ms: f64,
    pub(super) next_cpu_ms: f64,
}

/// Measures both. Must come before anything else of this process that crawls.
pub(super) async fn turn(folder: PathBuf) -> Result<Turn> {
    tokio::task::spawn_blocking(move || measure(&folder)).await?
}

fn measure(folder: &Path) -> Result<Turn> {
    let place = Folder::new(folder);
    let new = NewCrawl { seeds: vec!["http://localhost/".to_owned()], ..NewCrawl::default() };
    let (spec, _) = new
        .check("wake".to_owned(), now_ms())
        .map_err(|wrong| anyhow!("{} {}", wrong.field, wrong.problem))?;
    std::fs::create_dir_all(place.inbox(0))?;
    show_json(&place.spec(), &spec)?;
    // A shard that is paused ends its turn at once.
    show_json(&place.control(), &Control { paused: true, ..Control::default() })?;
    let mut file = ShardFile::open(&place.shard_file(0), Opening { epoch: 1, seen: Mode::Exact })?;
    let mut random = fastrand::Rng::with_seed(1);
    let fingerprints = (0..SEEN).map(|_| random.u64(1..)).collect();
    let changes = Changes { fingerprints, ..Changes::default() };
    file.commit(&Batch { changes, ..Batch::default() })?;
    file.close()?;
    let mut cpu_ms = (2..=u64::from(TURNS) + 2).map(|epoch| one(folder, epoch));
    let first = cpu_ms.next().unwrap_or(Ok(0.0))?;
    let next: f64 = cpu_ms.sum::<Result<f64>>()?;
    let next_cpu_ms = rounded(next / f64::from(TURNS));
    Ok(Turn { seen: SEEN, first_cpu_ms: rounded(first), next_cpu_ms })
}

fn one(folder: &Path, epoch: u64) -> Result<f64> {
    let began = cpu_s();
    let folder = folder.to_owned();
    let place = Place { folder, shard: 0, round: 1, epoch, site: Site::default() };
    on_this_thread(place, CancellationToken::new(), Box::new(|_, _| ()))
        .map_err(|error| anyhow!("a shard broke: {error}"))?;
    Ok((cpu_s() - began) * 1e3)
}
