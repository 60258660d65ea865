//! Word count: 1 GB of Zipf text at full size.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use anyhow::Result;
use serde_json::json;

use super::peers;
use super::trial::{Bench, Outcome};
use crate::generate::{self, Amount, Data};
use crate::job::{InputFile, NewJob};

const NAME: &str = "wordcount";
/// Bytes of text at full size, and different words.
const BYTES: u64 = 1_000_000_000;
const WORDS: u32 = 500_000;

/// Measures it.
pub(super) async fn run(bench: &Bench<'_>) -> Result<Vec<Outcome>> {
    if !bench.wants(NAME) {
        return Ok(Vec::new());
    }
    let path = bench.folder().join("text.txt");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let amount = Amount { bytes: bench.scaled(BYTES), rows: u64::MAX };
    generate::write(Data::Text { words: WORDS, skew: 1.0 }, amount, 1, &mut file)?;
    file.flush()?;
    let new = NewJob {
        inputs: vec![InputFile::look(&path)?],
        options: json!({ "program": NAME }),
        ..NewJob::new("mapreduce")
    };
    let (mut outcome, _) = bench.job(NAME, &new).await?;
    outcome.others = peers::run(bench, "words", &path)?;
    std::fs::remove_file(&path)?;
    Ok(vec![outcome])
}
