//! Aggregation: 50 M rows of CSV with 10,000 skewed keys at full size, exact and approximate.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::Result;
use serde_json::json;

use super::peers;
use super::trial::{Bench, Outcome};
use crate::generate::{self, Amount, Data, Shape};
use crate::job::{InputFile, NewJob};

/// Name, whether it is approximate, and what others call the same work.
const TRIALS: [(&str, bool, &str); 2] =
    [("aggregate", false, "exact"), ("aggregate-approx", true, "approx")];
/// Rows at full size, and different keys.
const ROWS: u64 = 50_000_000;
const KEYS: u32 = 10_000;

/// Measures it.
pub(super) async fn run(bench: &Bench<'_>) -> Result<Vec<Outcome>> {
    if !TRIALS.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(Vec::new());
    }
    let path = bench.folder().join("rows.csv");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let amount = Amount { bytes: u64::MAX, rows: bench.scaled(ROWS) };
    generate::write(Data::Rows { shape: Shape::Csv, keys: KEYS, skew: 1.0 }, amount, 1, &mut file)?;
    file.flush()?;
    let mut outcomes = Vec::new();
    for (name, approx, work) in TRIALS {
        if !bench.wants(name) {
            continue;
        }
        let agg = "count, sum(x), distinct(u), p50(x), p99(x)";
        let new = NewJob {
            inputs: vec![InputFile::look(&path)?],
            options: json!({ "group_by": ["k"], "agg": agg, "approx": approx }),
            ..NewJob::new("aggregate")
        };
        let (mut outcome, _) = bench.job(name, &new).await?;
        outcome.others = peers::run(bench, work, &path)?;
        outcomes.push(outcome);
    }
    std::fs::remove_file(&path)?;
    Ok(outcomes)
}
