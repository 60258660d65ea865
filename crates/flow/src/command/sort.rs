//! `divvy flow sort`: what it understands, and the job that it becomes.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;
use divvy_kernels::order::{Layout, Order, Tally};
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use serde_json::json;

use super::args::Common;
use super::start;
use crate::input;
use crate::job::NewJob;
use crate::jobs::state::Manifest;
use crate::sort::{Expected, Options};

const EXAMPLES: &str = "\
Examples:
  divvy flow sort --input 'logs/*.txt' --out sorted
  divvy flow sort --input a.csv --key 2 --separator , --numeric --single --out sorted
  divvy flow sort --input records --record 100 --record-key 0:10 --memory 512MB
  divvy flow sort --check --input sorted      in order, and all there";

/// Sort files that are larger than memory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SortArgs {
    /// Files, folders or quoted patterns
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    input: Vec<String>,
    /// Sort by this field of each line, from 1 [default: the whole line]
    #[arg(long, value_name = "N")]
    key: Option<u32>,
    /// What stands between fields; `\\t` is a tab [default: blanks and tabs]
    #[arg(long, requires = "key", value_name = "BYTE")]
    separator: Option<String>,
    /// Sort records of this many bytes instead of lines
    #[arg(long, conflicts_with = "key", value_name = "BYTES")]
    record: Option<u32>,
    /// The key of a record: its first byte, from 0, and its bytes
    /// [default: all of it]
    #[arg(long, requires = "record", value_name = "START:BYTES")]
    record_key: Option<String>,
    /// Keys are numbers: their longest beginning that is one, as `sort -g` has
    /// it; what is none comes first
    #[arg(long)]
    numeric: bool,
    /// The largest first
    #[arg(long)]
    reverse: bool,
    /// Make one file of the result instead of one for each range
    #[arg(long)]
    single: bool,
    /// Only look whether the files are in order, one after the other; of a
    /// folder with a manifest also whether all is there
    #[arg(long, conflicts_with = "single")]
    check: bool,
    /// What a check must find: the checksum that the sort has printed
    #[arg(long, requires = "check", value_name = "HEX")]
    checksum: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Starts the job.
pub(crate) async fn run(args: &SortArgs, context: &Context) -> Result<Code> {
    start::run(&job(args)?, &args.common(), context).await
}

impl SortArgs {
    /// A check is waited for: its verdict is all that it gives.
    fn common(&self) -> Common {
        Common { wait: self.common.wait || self.check, ..self.common.clone() }
    }

    fn order(&self) -> Result<Order> {
        let layout = match (self.key, self.record) {
            (Some(field), _) => {
                Layout::Fields { field, separator: separator(self.separator.as_deref())? }
            }
            (None, Some(bytes)) => {
                let (key_start, key_bytes) = match &self.record_key {
                    Some(text) => record_key(text)?,
                    None => (0, bytes),
                };
                Layout::Records { bytes, key_start, key_bytes }
            }
            (None, None) => Layout::Lines,
        };
        Ok(Order { layout, numeric: self.numeric, reverse: self.reverse })
    }
}

fn job(args: &SortArgs) -> Result<NewJob> {
    let mut expected = Some(Tally::default());
    let mut has_checksums = true;
    let mut paths = Vec::new();
    for path in &args.input {
        let Some(found) = manifest(path).filter(|_| args.check).transpose()? else {
            // Nobody knows what other files must hold.
            expected = None;
            paths.push(path.clone());
            continue;
        };
        let checksum = found.checksum.as_ref().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        has_checksums &= checksum.is_some();
        let tally = Tally { rows: found.rows, bytes: found.bytes, checksum: checksum.unwrap_or(0) };
        expected.iter_mut().for_each(|sum| sum.merge(&tally));
        paths.extend(found.files.iter().map(|file| format!("{path}/{}", file.name)));
    }
    let known = expected.filter(|_| has_checksums).map(|sum| format!("{:016x}", sum.checksum));
    let expected = Expected {
        rows: expected.map(|sum| sum.rows),
        bytes: expected.map(|sum| sum.bytes),
        checksum: args.checksum.clone().or(known),
    };
    let options =
        Options { order: args.order()?, single: args.single, check: args.check, expected };
    Ok(NewJob {
        inputs: input::expand(&paths)?,
        options: json!(options),
        ..args.common.job("sort")
    })
}

/// What a job has written about its result, if this is the folder of one.
fn manifest(folder: &str) -> Option<Result<Manifest>> {
    let path = Path::new(folder).join("manifest.json");
    path.is_file().then(|| {
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is no manifest of a job", path.display()))
    })
}

fn separator(text: Option<&str>) -> Result<Option<u8>> {
    match text.map(str::as_bytes) {
        None => Ok(None),
        Some(b"\\t") => Ok(Some(b'\t')),
        Some([byte]) => Ok(Some(*byte)),
        Some(_) => Err(Failure::usage("--separator is not one byte")
            .cure("give one, or \\t for a tab")
            .into()),
    }
}

fn record_key(text: &str) -> Result<(u32, u32)> {
    let numbers = text
        .split_once(':')
        .and_then(|(start, bytes)| Some((start.trim().parse().ok()?, bytes.trim().parse().ok()?)));
    numbers.ok_or_else(|| {
        Failure::usage(format!("--record-key `{text}` is not START:BYTES"))
            .cure("the first ten bytes are 0:10")
            .into()
    })
}
