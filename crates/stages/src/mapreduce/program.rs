//! What a MapReduce program is, whoever wrote it: the built-in ones, those written in Rust ([`super::typed`]), and pairs of
//! commands (which are run by `command.rs` instead of through this trait).
//!
//! Programs are found by their names. A binary of its own adds its programs with [`register`] before it starts divvy;
//! server and workers must then be that binary.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use divvy_kernels::aggregate::{Damaged, Merge};
use serde_json::Value;

use super::builtin;
use super::collect::Collector;
use crate::input::{Faults, Lines};
use crate::job::{OutputWriter, PartError, Report, Spec};

/// A MapReduce program.
pub trait Program: Send + Sync + 'static {
    /// How what is mapped comes together.
    fn combining(&self) -> Combining;

    /// What a part maps with.
    ///
    /// # Errors
    /// Says which setting makes no sense.
    fn mapper(&self, spec: &Spec, settings: &Value) -> Result<Box<dyn Mapper>, String>;

    /// Makes one value of two with the same key, if values can be merged.
    ///
    /// # Errors
    /// If a value is not what was written.
    fn merge(&self, _into: &mut Vec<u8>, _value: &[u8]) -> Result<(), Damaged> {
        Err(Damaged)
    }

    /// Appends the lines of the result that all values of a key make; how many. Counters go into the report.
    ///
    /// # Errors
    /// If a value is not what was written, or cannot be read.
    fn reduce(
        &self,
        spec: &Spec,
        key: &[u8],
        values: &mut Values<'_>,
        out: &mut Vec<u8>,
        report: &mut Report,
    ) -> Result<u64, PartError>;
}

/// Maps blocks of lines.
pub trait Mapper {
    /// Maps some lines.
    ///
    /// # Errors
    /// If a line is wrong and that ends the job, or nothing more can be written.
    fn map(
        &mut self,
        lines: Lines<'_>,
        out: &mut Sink<'_, '_>,
        faults: &mut Faults<'_>,
    ) -> Result<(), PartError>;
}

/// How what is mapped comes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combining {
    /// It does not: what is mapped is the result, in the order of the input.
    MapOnly,
    /// Every value stays as it is until it is reduced.
    All,
    /// Two values with the same key can become one, anywhere and in any grouping.
    Merge,
    /// Values are counts, which are added.
    Add,
}

impl Combining {
    /// Whether the values of a key may be brought together in more than one step.
    pub fn is_mergeable(self) -> bool {
        matches!(self, Self::Merge | Self::Add)
    }
}

/// Where what is mapped goes.
pub enum Sink<'a, 'i> {
    /// To the shuffle.
    Shuffle(&'a mut Collector<'i>),
    /// Straight to the result.
    Result(&'a mut OutputWriter),
}

impl Sink<'_, '_> {
    /// A pair goes to the shuffle; in the result it is a line.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), PartError> {
        match self {
            Self::Shuffle(collector) => collector.emit(key, value),
            Self::Result(_) => {
                let mut line = key.to_vec();
                if !value.is_empty() {
                    line.push(b'\t');
                    line.extend_from_slice(value);
                }
                self.line(&line)
            }
        }
    }

    /// A line of the result. In the shuffle it is a key without a value.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn line(&mut self, line: &[u8]) -> Result<(), PartError> {
        use std::io::Write as _;
        match self {
            Self::Shuffle(collector) => collector.emit(line, b""),
            Self::Result(output) => {
                let path = output.path();
                let written = output.write_all(line).and_then(|()| output.write_all(b"\n"));
                output.add_rows(1);
                written.map_err(|error| PartError::io(&path, &error))
            }
        }
    }
}

/// All values of one key, one after the other.
pub struct Values<'m> {
    merge: &'m mut Merge<Box<dyn std::io::Read>>,
    key: &'m [u8],
    begun: bool,
    /// Whether the merge stands at a record of another key.
    ended: Option<bool>,
}

impl<'m> Values<'m> {
    /// Those of the key at which the merge stands.
    pub(super) fn new(merge: &'m mut Merge<Box<dyn std::io::Read>>, key: &'m [u8]) -> Self {
        Self { merge, key, begun: false, ended: None }
    }

    /// The next value.
    ///
    /// # Errors
    /// If the shuffle cannot be read.
    #[expect(clippy::should_implement_trait, reason = "a value borrows the buffer of the next")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, PartError> {
        if self.ended.is_some() {
            return Ok(None);
        }
        if self.begun {
            let more = self.merge.advance().map_err(|error| {
                PartError::Trouble(format!("the shuffle cannot be read: {error}"))
            })?;
            if !more || self.merge.record().0 != self.key {
                self.ended = Some(more);
                return Ok(None);
            }
        }
        self.begun = true;
        Ok(Some(self.merge.record().1))
    }

    /// Passes over what is left; whether there is another key.
    ///
    /// # Errors
    /// If the shuffle cannot be read.
    pub(super) fn finish(mut self) -> Result<bool, PartError> {
        while self.next()?.is_some() {}
        Ok(self.ended.unwrap_or(false))
    }
}

/// What was written to the shuffle is not there; the file was hurt, or another version wrote it.
pub(super) fn damaged(error: Damaged) -> PartError {
    PartError::Trouble(error.to_string())
}

type Programs = BTreeMap<String, Arc<dyn Program>>;

static REGISTERED: RwLock<Programs> = RwLock::new(BTreeMap::new());

/// Adds a program under a name, in place of one that had it.
pub fn register(name: &str, program: impl Program) {
    let mut programs = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    programs.insert(name.to_owned(), Arc::new(program));
}

/// The program with this name.
pub(crate) fn find(name: &str) -> Option<Arc<dyn Program>> {
    let programs = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    programs.get(name).cloned().or_else(|| builtin::find(name))
}

/// The names of all programs.
pub(crate) fn names() -> Vec<String> {
    let programs = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let mut names: Vec<String> = builtin::NAMES.iter().map(|name| (*name).to_owned()).collect();
    names.extend(programs.keys().cloned());
    names
}
