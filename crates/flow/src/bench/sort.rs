//! Sorting records of 100 bytes beside GNU sort with the same memory and threads.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use divvy_kernels::order::{Layout, Order};
use serde_json::json;

use super::made::made;
use super::trial::{Bench, Outcome};
use crate::generate::Data;
use crate::job::{InputFile, NewJob};
use crate::sort::{Expected, Options};

/// Bytes to sort at full size, and the memory of all parts together.
const FULL: (u64, u64) = (4_000_000_000, 1_000_000_000);
/// Parts that work at a time.
const THREADS: u64 = 2;
/// The least memory that makes sense.
const MEMORY_MIN: u64 = 16_000_000;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Vec<Outcome>> {
    if !bench.wants("sort") {
        return Ok(Vec::new());
    }
    let path = made(bench, "records", Data::Records, bench.scaled(FULL.0), u64::MAX)?;
    let memory = bench.scaled(FULL.1).max(MEMORY_MIN);
    let layout = Layout::Records { bytes: 100, key_start: 0, key_bytes: 10 };
    let order = Order { layout, numeric: false, reverse: false };
    let options = Options { order, single: false, check: false, expected: Expected::default() };
    let new = NewJob {
        inputs: vec![InputFile::look(&path).context("the records are gone")?],
        memory_bytes: memory / THREADS,
        options: json!(options),
        ..NewJob::new("sort")
    };
    let (mut outcome, out) = bench.job("sort", &new).await?;
    let sorted = bench.folder().join("sorted");
    for (by, key) in [("GNU sort, ten bytes, stable", true), ("GNU sort, whole line", false)] {
        outcome.others.extend(bench.other(by, &mut gnu(&path, &sorted, memory, key))?);
        if key && sorted.exists() && !is_same(&out, &sorted)? {
            anyhow::bail!("the result is not that of GNU sort");
        }
    }
    Ok(vec![outcome])
}

fn gnu(input: &Path, output: &Path, memory: u64, by_key: bool) -> Command {
    let mut command = Command::new("sort");
    command.env("LC_ALL", "C").arg(format!("--buffer-size={memory}b"));
    command.arg(format!("--parallel={THREADS}")).arg("-T").arg(output.with_file_name(""));
    if by_key {
        // A separator that no record has, so that the key is the first ten bytes and nothing else.
        command.args(["-s", "-t", "\u{1}", "-k1.1,1.10"]);
    }
    command.arg("-o").arg(output).arg(input);
    command
}

/// Whether the files of a folder, one after the other, are a file.
fn is_same(parts: &Path, whole: &Path) -> Result<bool> {
    use std::io::Read as _;
    let mut names: Vec<_> = std::fs::read_dir(parts)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    names.retain(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-"))
    });
    names.sort();
    let mut whole = std::fs::File::open(whole)?;
    let (mut ours, mut theirs) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for name in names {
        let mut part = std::fs::File::open(name)?;
        loop {
            let count = part.read(&mut ours)?;
            if count == 0 {
                break;
            }
            if whole.read_exact(&mut theirs[..count]).is_err() || ours[..count] != theirs[..count] {
                return Ok(false);
            }
        }
    }
    Ok(whole.read(&mut theirs)? == 0)
}
