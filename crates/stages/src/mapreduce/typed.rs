//! MapReduce programs written in Rust: a [`Map`] and a [`Reduce`] with types of their own for keys and values.
//!
//! ```
//! use divvy_stages::mapreduce::{self, Counters, Emit, Map, Reduce};
//!
//! /// How often each status occurs in an access log.
//! struct Statuses;
//!
//! impl Map for Statuses {
//!     type Key = String;
//!     type Value = u64;
//!
//!     fn map(&self, line: &str, emit: &mut Emit<'_, String, u64>) -> Result<(), String> {
//!         let status = line.split(' ').nth(8).ok_or("the line has no status")?;
//!         emit.count("server errors", u64::from(status.starts_with('5')));
//!         emit.pair(&status.to_owned(), &1);
//!         Ok(())
//!     }
//! }
//!
//! impl Reduce for Statuses {
//!     type Key = String;
//!     type Value = u64;
//!     type Output = u64;
//!
//!     fn merge(&self) -> Option<mapreduce::Merging<u64>> {
//!         Some(|left, right| left + right)
//!     }
//!
//!     fn reduce(
//!         &self,
//!         _: &String,
//!         counts: &mut dyn Iterator<Item = u64>,
//!         _: &mut Counters<'_>,
//!     ) -> u64 {
//!         counts.sum()
//!     }
//! }
//!
//! // Before divvy starts, in server and workers: divvy flow mapreduce statuses --input 'logs/*.gz'
//! mapreduce::add("statuses", Statuses, Statuses);
//! ```

use std::fmt::Write as _;
use std::marker::PhantomData;

use divvy_kernels::aggregate::{Damaged, put_bytes, put_number, take_bytes, take_number};
use serde_json::Value as Json;

use super::command::COUNTERS_MAX;
use super::program::{Combining, Mapper, Program, Sink, Values, damaged, register};
use crate::input::{Faults, Lines};
use crate::job::{PartError, Report, Spec};

/// Maps lines to pairs.
pub trait Map: Send + Sync + 'static {
    /// What pairs are grouped by.
    type Key: Datum;
    /// What goes with it.
    type Value: Datum;

    /// Maps a line.
    ///
    /// # Errors
    /// Says what is wrong with the line; the job then fails, or leaves it out, as it was told.
    fn map(&self, line: &str, emit: &mut Emit<'_, Self::Key, Self::Value>) -> Result<(), String>;
}

/// How two values become one.
pub type Merging<V> = fn(V, V) -> V;

/// Makes a result of all values of a key.
pub trait Reduce: Send + Sync + 'static {
    /// What pairs are grouped by.
    type Key: Datum;
    /// What goes with it.
    type Value: Datum;
    /// What becomes of it: printed behind the key and a tab.
    type Output: Datum;

    /// How two values become one, if that may be done anywhere, in any grouping but in their order. Pairs are then
    /// combined where they are mapped, and a key that is much of all data is divided over several reducers.
    fn merge(&self) -> Option<Merging<Self::Value>> {
        None
    }

    /// What becomes of a key. The values are merged ones if [`merge`](Self::merge) says how.
    fn reduce(
        &self,
        key: &Self::Key,
        values: &mut dyn Iterator<Item = Self::Value>,
        counters: &mut Counters<'_>,
    ) -> Self::Output;
}

/// Adds a program under a name, in place of one that had it.
pub fn add<M, R>(name: &str, map: M, reduce: R)
where
    M: Map,
    R: Reduce<Key = M::Key, Value = M::Value>,
{
    register(name, Typed { map: std::sync::Arc::new(map), reduce });
}

/// Something that can be a key, a value or an output.
pub trait Datum: Sized + 'static {
    /// Appends it. Keys are grouped by these bytes, and sorted by them.
    fn write(&self, out: &mut Vec<u8>);
    /// Takes it from the front.
    ///
    /// # Errors
    /// If it is not there.
    fn read(from: &mut &[u8]) -> Result<Self, Damaged>;
    /// Appends what a person reads.
    fn show(&self, out: &mut String);
}

impl Datum for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        put_number(*self, out);
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        take_number(from)
    }

    fn show(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
}

impl Datum for i64 {
    fn write(&self, out: &mut Vec<u8>) {
        // Small numbers of both signs are short.
        put_number((*self << 1 ^ *self >> 63) as u64, out);
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        take_number(from).map(|number| (number >> 1) as Self ^ -((number & 1) as Self))
    }

    fn show(&self, out: &mut String) {
        let _ = write!(out, "{self}");
    }
}

impl Datum for f64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        let (bits, rest) = from.split_first_chunk::<8>().ok_or(Damaged)?;
        *from = rest;
        Ok(Self::from_bits(u64::from_le_bytes(*bits)))
    }

    fn show(&self, out: &mut String) {
        let _ = write!(out, "{self:?}");
    }
}

impl Datum for String {
    fn write(&self, out: &mut Vec<u8>) {
        put_bytes(self.as_bytes(), out);
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        Self::from_utf8(take_bytes(from)?.to_vec()).map_err(|_| Damaged)
    }

    fn show(&self, out: &mut String) {
        out.push_str(self);
    }
}

impl Datum for () {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut &[u8]) -> Result<Self, Damaged> {
        Ok(())
    }

    fn show(&self, _: &mut String) {}
}

impl<A: Datum, B: Datum> Datum for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        Ok((A::read(from)?, B::read(from)?))
    }

    fn show(&self, out: &mut String) {
        self.0.show(out);
        out.push('\t');
        self.1.show(out);
    }
}

impl<T: Datum> Datum for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u64, out);
        self.iter().for_each(|one| one.write(out));
    }

    fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        (0..take_number(from)?).map(|_| T::read(from)).collect()
    }

    fn show(&self, out: &mut String) {
        for (at, one) in self.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            one.show(out);
        }
    }
}

/// Counters of a job, which `divvy flow status` and the page show.
pub struct Counters<'a>(&'a mut Report);

impl Counters<'_> {
    /// Adds to a counter; those of all parts are added up. A name that would be one too many is not counted.
    pub fn count(&mut self, name: &str, by: u64) {
        let counters = &self.0.counters;
        if counters.len() < COUNTERS_MAX || counters.contains_key(name) {
            self.0.count(name, by);
        }
    }
}

/// Where a [`Map`] puts its pairs, and what it counts.
pub struct Emit<'a, K, V> {
    take: &'a mut dyn FnMut(&[u8], &[u8]),
    counters: Counters<'a>,
    key: Vec<u8>,
    value: Vec<u8>,
    types: PhantomData<(K, V)>,
}

impl<'a, K: Datum, V: Datum> Emit<'a, K, V> {
    fn new(take: &'a mut dyn FnMut(&[u8], &[u8]), counters: Counters<'a>) -> Self {
        Self { take, counters, key: Vec::new(), value: Vec::new(), types: PhantomData }
    }

    /// Takes a pair.
    pub fn pair(&mut self, key: &K, value: &V) {
        self.key.clear();
        self.value.clear();
        key.write(&mut self.key);
        value.write(&mut self.value);
        (self.take)(&self.key, &self.value);
    }

    /// Adds to a counter, as [`Counters::count`] does.
    pub fn count(&mut self, name: &str, by: u64) {
        self.counters.count(name, by);
    }
}

struct Typed<M, R> {
    map: std::sync::Arc<M>,
    reduce: R,
}

struct TypedMapper<M>(std::sync::Arc<M>);

impl<M, R> Program for Typed<M, R>
where
    M: Map,
    R: Reduce<Key = M::Key, Value = M::Value>,
{
    fn combining(&self) -> Combining {
        if self.reduce.merge().is_some() { Combining::Merge } else { Combining::All }
    }

    fn mapper(&self, _: &Spec, _: &Json) -> Result<Box<dyn Mapper>, String> {
        Ok(Box::new(TypedMapper(std::sync::Arc::clone(&self.map))))
    }

    fn merge(&self, into: &mut Vec<u8>, value: &[u8]) -> Result<(), Damaged> {
        let merge = self.reduce.merge().ok_or(Damaged)?;
        let left = R::Value::read(&mut &into[..])?;
        let right = R::Value::read(&mut &*value)?;
        into.clear();
        merge(left, right).write(into);
        Ok(())
    }

    fn reduce(
        &self,
        _: &Spec,
        key: &[u8],
        values: &mut Values<'_>,
        out: &mut Vec<u8>,
        report: &mut Report,
    ) -> Result<u64, PartError> {
        let key = R::Key::read(&mut &*key).map_err(damaged)?;
        let mut trouble = None;
        let mut read = std::iter::from_fn(|| match values.next() {
            Ok(Some(mut value)) => match R::Value::read(&mut value) {
                Ok(value) => Some(value),
                Err(error) => {
                    trouble = Some(damaged(error));
                    None
                }
            },
            Ok(None) => None,
            Err(error) => {
                trouble = Some(error);
                None
            }
        });
        let output = self.reduce.reduce(&key, &mut read, &mut Counters(report));
        if let Some(error) = trouble {
            return Err(error);
        }
        let mut line = String::new();
        key.show(&mut line);
        line.push('\t');
        output.show(&mut line);
        // One pair is one line, whatever its texts hold.
        out.extend(line.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
        out.push(b'\n');
        Ok(1)
    }
}

impl<M: Map> Mapper for TypedMapper<M> {
    fn map(
        &mut self,
        lines: Lines<'_>,
        out: &mut Sink<'_, '_>,
        faults: &mut Faults<'_>,
    ) -> Result<(), PartError> {
        for (offset, line) in lines.block.lines() {
            let line = std::str::from_utf8(line)
                .map_err(|error| PartError::Broken(format!("a line is not UTF-8: {error}")))?;
            let mut written = Ok(());
            let mut take = |key: &[u8], value: &[u8]| {
                if written.is_ok() {
                    written = out.emit(key, value);
                }
            };
            let counters = Counters(faults.report());
            let mapped = self.0.map(line, &mut Emit::new(&mut take, counters));
            written?;
            if let Err(why) = mapped {
                faults.line(offset, why)?;
            }
        }
        Ok(())
    }
}
