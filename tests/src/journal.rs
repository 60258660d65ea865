//! What the recorders wrote: starts and ends of attempts, in the order in which they happened.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// Where in the file an attempt started and ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// The line of its start.
    pub start: Option<usize>,
    /// The line of its end.
    pub end: Option<usize>,
}

/// Attempts by task and token.
pub type Journal = BTreeMap<String, BTreeMap<u64, Span>>;

/// Reads a journal.
pub fn read(path: &Path) -> Result<Journal> {
    let mut journal = Journal::new();
    for (at, line) in fs::read_to_string(path)?.lines().enumerate() {
        let mut words = line.split(' ');
        let (event, task, token) = (words.next(), words.next(), words.next());
        let (Some(event), Some(task), Some(token)) = (event, task, token) else {
            bail!("line {at}: {line:?}")
        };
        let token: u64 = token.parse().with_context(|| format!("line {at}: {line:?}"))?;
        let span = journal.entry(task.to_owned()).or_default().entry(token).or_default();
        match event {
            "start" if span.start.is_none() => span.start = Some(at),
            "end" if span.end.is_none() => span.end = Some(at),
            _ => bail!("line {at}: {line:?} a second time: one token was run twice"),
        }
    }
    Ok(journal)
}
