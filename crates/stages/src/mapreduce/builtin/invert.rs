//! `invert`: an inverted index. For each word the files that hold it and how often, as `word<tab>file:count file:count`, in
//! the order of files. Words are those of `wordcount`, always folded.
//!
//! A value is a list of pairs, file and count, in the order of files, so two lists are merged as sorted lists are. A
//! frequent word has a long one: that is where keys get hot.

use divvy_kernels::aggregate::{Damaged, Table, put_number, take_number};
use divvy_kernels::text::words;
use serde_json::Value;

use crate::input::{Faults, Lines};
use crate::job::{PartError, Report, Spec};
use crate::mapreduce::program::{Combining, Mapper, Program, Sink, Values, damaged};

/// The program.
pub(super) struct Invert;

#[derive(Default)]
struct Postings {
    folded: Vec<u8>,
    counts: Table,
    value: Vec<u8>,
}

impl Program for Invert {
    fn combining(&self) -> Combining {
        Combining::Merge
    }

    fn mapper(&self, _: &Spec, settings: &Value) -> Result<Box<dyn Mapper>, String> {
        match settings {
            Value::Null => Ok(Box::new(Postings::default())),
            _ => Err("invert has no settings".to_owned()),
        }
    }

    fn merge(&self, into: &mut Vec<u8>, value: &[u8]) -> Result<(), Damaged> {
        merge(into, value)
    }

    fn reduce(
        &self,
        spec: &Spec,
        key: &[u8],
        values: &mut Values<'_>,
        out: &mut Vec<u8>,
        _: &mut Report,
    ) -> Result<u64, PartError> {
        let mut all = Vec::new();
        while let Some(value) = values.next()? {
            if all.is_empty() {
                all.extend_from_slice(value);
            } else {
                merge(&mut all, value).map_err(damaged)?;
            }
        }
        out.extend_from_slice(key);
        let mut rest = &all[..];
        let mut between = b'\t';
        while let Some((file, count)) = take(&mut rest).map_err(damaged)? {
            let input = usize::try_from(file).ok().and_then(|file| spec.inputs.get(file));
            let input = input.ok_or(Damaged).map_err(damaged)?;
            out.push(between);
            out.extend_from_slice(input.path.to_string_lossy().as_bytes());
            out.extend_from_slice(format!(":{count}").as_bytes());
            between = b' ';
        }
        out.push(b'\n');
        Ok(1)
    }
}

impl Mapper for Postings {
    fn map(
        &mut self,
        lines: Lines<'_>,
        out: &mut Sink<'_, '_>,
        _: &mut Faults<'_>,
    ) -> Result<(), PartError> {
        let (counts, folded) = (&mut self.counts, &mut self.folded);
        words::for_each(lines.block.bytes, |word| {
            let word = words::fold(word, folded);
            if !word.is_empty() {
                *counts.value(word) += 1;
            }
        });
        let mut result = Ok(());
        for (_, word, count) in self.counts.sorted(1).iter() {
            self.value.clear();
            put_number(lines.file.into(), &mut self.value);
            put_number(count, &mut self.value);
            if result.is_ok() {
                result = out.emit(word, &self.value);
            }
        }
        self.counts.clear();
        result
    }
}

/// The next pair of file and count.
fn take(from: &mut &[u8]) -> Result<Option<(u64, u64)>, Damaged> {
    if from.is_empty() {
        return Ok(None);
    }
    Ok(Some((take_number(from)?, take_number(from)?)))
}

fn merge(into: &mut Vec<u8>, value: &[u8]) -> Result<(), Damaged> {
    let old = std::mem::take(into);
    let (mut left, mut right) = (&old[..], value);
    let (mut one, mut other) = (take(&mut left)?, take(&mut right)?);
    let mut put = |file: u64, count: u64| {
        put_number(file, into);
        put_number(count, into);
    };
    loop {
        match (one, other) {
            (Some((file, count)), Some((same, more))) if file == same => {
                put(file, count + more);
                (one, other) = (take(&mut left)?, take(&mut right)?);
            }
            (Some((file, count)), Some((later, _))) if file < later => {
                put(file, count);
                one = take(&mut left)?;
            }
            (Some((file, count)), None) => {
                put(file, count);
                one = take(&mut left)?;
            }
            (_, Some((file, count))) => {
                put(file, count);
                other = take(&mut right)?;
            }
            (None, None) => return Ok(()),
        }
    }
}
