//! Tumbling windows over events that come out of order, beside a plain loop that keeps nothing.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use divvy_kernels::window::{Spec, Trigger};
use divvy_workload::private::rounded;
use serde_json::json;

use super::made::{made, self_cpu_s};
use super::trial::{Bench, Cost, Outcome};
use crate::generate::{Data, Disorder, Shape};
use crate::job::NewJob;
use crate::stream::plain::{self, Plain};
use crate::stream::{Format, Options, Source, TimeUnit};

/// Events at full size.
const FULL: u64 = 10_000_000;
const WINDOW_MS: i64 = 10_000;
const LATENESS_MS: i64 = 20_000;
const KEYS: u32 = 1_000;
const DISORDER: Disorder =
    Disorder { start_ms: 1_800_000_000_000, step_us: 1_000, late_ms: 25_000, share: 0.25 };

pub(super) async fn run(bench: &Bench<'_>) -> Result<Vec<Outcome>> {
    if !bench.wants("windows") {
        return Ok(Vec::new());
    }
    let data = Data::Events { shape: Shape::Csv, keys: KEYS, skew: 1.0, disorder: DISORDER };
    let path = made(bench, "events.csv", data, u64::MAX, bench.scaled(FULL))?;
    let options = Options {
        sources: vec![Source::File { path: path.clone() }],
        format: Format::Csv,
        follow: false,
        end_after_idle_ms: None,
        time: "at".to_owned(),
        time_unit: TimeUnit::Ms,
        window: Spec::Tumbling { size_ms: WINDOW_MS },
        lateness_ms: LATENESS_MS,
        trigger: Trigger::Close,
        idle_after_ms: None,
        group_by: vec!["k".to_owned()],
        aggregates: "count, sum(x)".to_owned(),
        approximate: false,
    };
    let new = NewJob { options: json!(options), ..NewJob::new("stream") };
    let (mut outcome, out) = bench.job("windows", &new).await?;
    outcome.input_bytes = std::fs::metadata(&path)?.len();
    if !bench.args.alone {
        let (cost, rows) = plain_loop(&path)?;
        let ours = BufReader::new(File::open(out.join("part-00000"))?).lines().count();
        anyhow::ensure!(
            ours == rows,
            "the plain loop has {rows} lines of results, the stream {ours}"
        );
        outcome.others.push(cost);
    }
    Ok(vec![outcome])
}

/// The same without files, keys of all kinds, or anything that lasts; lines of results.
fn plain_loop(path: &Path) -> Result<(Cost, usize)> {
    let (began, cpu) = (Instant::now(), self_cpu_s());
    let Plain { rows, late } = plain::tumbling(File::open(path)?, WINDOW_MS, LATENESS_MS)?;
    let cost = Cost {
        by: format!("a plain loop, nothing kept ({late} late)"),
        seconds: rounded(began.elapsed().as_secs_f64()),
        cpu_s: Some(rounded(self_cpu_s() - cpu)),
        peak_mb: None,
    };
    Ok((cost, rows))
}
