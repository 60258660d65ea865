//! What is kept of a group for one answer: it takes rows, is written, and takes in what others wrote.
//!
//! Sketches come from Apache DataSketches: HyperLogLog for distinct values, theta for those that two columns have in common,
//! frequent items (Misra-Gries) for the most frequent ones, t-digest for where quantiles are within their buckets.

use std::cmp::Ordering;

use datasketches::frequencies::FrequentItemsSketch;
use datasketches::hll::{HllSketch, HllType, HllUnion};

use super::bytes::{
    Damaged, put_bytes, put_float, put_number, take_bytes, take_float, take_number,
};
use super::different::Different;
use super::hash::hash;
use super::quantile::Buckets;
use super::rough::Rough;
use super::sample::Sample;
use super::sum::Sum;
use super::table::Table;
use crate::text::field::write_number;
use crate::text::{Field, Number};

/// Size of the sketch of distinct values: 4,096 registers, a standard error of 1.6 %.
const DISTINCT_LG: u8 = 12;
/// Size of the sketch of frequent values; its error is 3.5 of this share of all values.
pub(super) const FREQUENT_SIZE: usize = 1_024;
const SOUND: &str = "the size of the sketch is allowed";

/// What is kept, and of which column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateSpec {
    pub(super) keep: Keep,
    pub(super) column: Option<usize>,
}

impl StateSpec {
    /// Whether it tells what another one would; if it can, it becomes that. What counts each text tells as well how many
    /// different ones there are.
    pub(super) fn serves(&mut self, other: Self) -> bool {
        let of_texts = |keep| matches!(keep, Keep::Counts | Keep::Different);
        if self.column != other.column || !of_texts(self.keep) || !of_texts(other.keep) {
            return *self == other;
        }
        if other.keep == Keep::Counts {
            self.keep = Keep::Counts;
        }
        true
    }
}

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Rows,
    Present,
    Sum,
    Least,
    Most,
    Counts,
    Different,
    Frequent,
    DistinctSketch,
    Sample,
    Numbers,
    Rough,
    Histogram,
}

impl Keep {
    /// Whether anything but a number is wrong in its column.
    pub(super) fn needs_numbers(self) -> bool {
        matches!(self, Self::Sum | Self::Numbers | Self::Rough | Self::Histogram)
    }

    /// Whether it wants to know if something is a number.
    pub(super) fn reads_numbers(self) -> bool {
        self.needs_numbers() || matches!(self, Self::Least | Self::Most)
    }
}

/// What is kept of one group.
#[derive(Clone, Debug)]
pub(super) enum State {
    Count(u64),
    Sum(Sum),
    Least(Option<Value>),
    Most(Option<Value>),
    Counts(Table),
    Different(Different),
    Frequent(Box<FrequentItemsSketch<String>>),
    Distinct(Box<Registers>),
    Sample(Box<Sample>),
    Numbers(Vec<f64>),
    Rough(Box<Rough>),
    Histogram(Box<Buckets>),
}

/// A sketch of distinct values. Rows go into one, others into a union, whose bounds do not depend on their order.
#[derive(Clone, Debug)]
pub(super) enum Registers {
    Rows(HllSketch),
    Union(HllUnion),
}

/// The least or the greatest value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(Number),
    Text(Box<[u8]>),
}

impl State {
    pub(super) fn new(keep: Keep) -> Self {
        match keep {
            Keep::Rows | Keep::Present => Self::Count(0),
            Keep::Sum => Self::Sum(Sum::default()),
            Keep::Least => Self::Least(None),
            Keep::Most => Self::Most(None),
            Keep::Counts => Self::Counts(Table::new()),
            Keep::Different => Self::Different(Different::new()),
            Keep::Frequent => {
                Self::Frequent(Box::new(FrequentItemsSketch::new(FREQUENT_SIZE).expect(SOUND)))
            }
            Keep::DistinctSketch => {
                let sketch = HllSketch::new(DISTINCT_LG, HllType::Hll8).expect(SOUND);
                Self::Distinct(Box::new(Registers::Rows(sketch)))
            }
            Keep::Sample => Self::Sample(Box::new(Sample::new())),
            Keep::Numbers => Self::Numbers(Vec::new()),
            Keep::Rough => Self::Rough(Box::new(Rough::new())),
            Keep::Histogram => Self::Histogram(Box::new(Buckets::coarse())),
        }
    }

    /// Takes a field that is not empty, and the number that it is if that was asked for.
    #[inline]
    pub(super) fn add(&mut self, field: &Field<'_>, number: Option<Number>, text: &mut Vec<u8>) {
        match (self, number) {
            (Self::Count(count), _) => *count += 1,
            (Self::Sum(sum), Some(number)) => sum.add(number),
            (Self::Numbers(numbers), Some(number)) => numbers.push(number.float()),
            (Self::Rough(rough), Some(number)) => rough.add(number.float()),
            (Self::Histogram(buckets), Some(number)) => buckets.add(number.float()),
            (Self::Sum(_) | Self::Numbers(_) | Self::Rough(_) | Self::Histogram(_), None) => {}
            (Self::Least(least), number) => {
                let new = match number {
                    Some(number) => Value::Number(number),
                    None => Value::Text(field.text(text).into()),
                };
                keep_least(least, new);
            }
            (Self::Most(most), number) => {
                let new = match number {
                    Some(number) => Value::Number(number),
                    None => Value::Text(field.text(text).into()),
                };
                keep_most(most, new);
            }
            (Self::Counts(counts), _) => *counts.value(field.text(text)) += 1,
            (Self::Different(different), _) => different.add(field.text(text)),
            (Self::Frequent(sketch), _) => {
                sketch.update_ref::<str>(&String::from_utf8_lossy(field.text(text)));
            }
            (Self::Distinct(registers), _) => registers.add(hash(field.text(text))),
            (Self::Sample(sample), _) => sample.add(hash(field.text(text))),
        }
    }

    /// Bytes of memory behind it.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Count(_) | Self::Sum(_) => 0,
            Self::Least(value) | Self::Most(value) => match value {
                Some(Value::Text(text)) => text.len(),
                _ => 0,
            },
            Self::Counts(table) => table.memory(),
            Self::Different(different) => different.memory(),
            // Texts are not in the estimate of the sketch.
            Self::Frequent(sketch) => sketch.estimated_size() + 32 * sketch.num_active_items(),
            Self::Distinct(registers) => match &**registers {
                Registers::Rows(sketch) => sketch.estimated_size(),
                Registers::Union(union) => union.estimated_size(),
            },
            Self::Sample(sample) => sample.memory(),
            Self::Numbers(numbers) => numbers.capacity() * size_of::<f64>(),
            Self::Rough(rough) => rough.memory(),
            Self::Histogram(buckets) => size_of::<Buckets>() + buckets.memory(),
        }
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Count(count) => put_number(*count, out),
            Self::Sum(sum) => sum.write(out),
            Self::Least(value) | Self::Most(value) => write_value(value.as_ref(), out),
            Self::Counts(table) => {
                put_number(table.len() as u64, out);
                for (_, text, count) in table.sorted(1).iter() {
                    put_bytes(text, out);
                    put_number(count, out);
                }
            }
            Self::Different(different) => different.write(out),
            Self::Frequent(sketch) => put_bytes(&sketch.serialize(), out),
            Self::Distinct(registers) => put_bytes(&registers.serialize(), out),
            Self::Sample(sample) => sample.write(out),
            Self::Numbers(numbers) => {
                put_number(numbers.len() as u64, out);
                for number in numbers {
                    put_float(*number, out);
                }
            }
            Self::Rough(rough) => rough.write(out),
            Self::Histogram(buckets) => buckets.write(out),
        }
    }

    /// Takes in what another of the same sort wrote, from the front of `from`.
    pub(super) fn merge(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        match self {
            Self::Count(count) => *count += take_number(from)?,
            Self::Sum(sum) => sum.merge(&Sum::read(from)?),
            Self::Least(least) => {
                if let Some(value) = read_value(from)? {
                    keep_least(least, value);
                }
            }
            Self::Most(most) => {
                if let Some(value) = read_value(from)? {
                    keep_most(most, value);
                }
            }
            Self::Counts(table) => {
                for _ in 0..take_number(from)? {
                    let text = take_bytes(from)?;
                    *table.value(text) += take_number(from)?;
                }
            }
            Self::Different(different) => different.merge(from)?,
            Self::Frequent(sketch) => {
                let other = FrequentItemsSketch::deserialize(take_bytes(from)?);
                sketch.merge(&other.map_err(|_| Damaged)?);
            }
            Self::Distinct(registers) => {
                let other = HllSketch::deserialize(take_bytes(from)?).map_err(|_| Damaged)?;
                registers.union().update(&other);
            }
            Self::Sample(sample) => sample.merge(from)?,
            Self::Numbers(numbers) => {
                let count = usize::try_from(take_number(from)?).map_err(|_| Damaged)?;
                if count > from.len() / size_of::<f64>() {
                    return Err(Damaged);
                }
                numbers.reserve(count);
                for _ in 0..count {
                    numbers.push(take_float(from)?);
                }
            }
            Self::Rough(rough) => rough.merge(from)?,
            Self::Histogram(buckets) => buckets.merge(from)?,
        }
        Ok(())
    }

    /// Of two states that hold texts, how many texts are in both.
    ///
    /// # Panics
    /// If one of them holds no texts.
    pub(super) fn common(&self, other: &Self) -> usize {
        let (few, many) = if self.texts() <= other.texts() { (self, other) } else { (other, self) };
        let mut common = 0;
        let look = |text: &[u8]| {
            common += usize::from(match many {
                Self::Counts(table) => table.has(text),
                Self::Different(different) => different.has(text),
                _ => unreachable!("{many:?} holds no texts"),
            });
        };
        match few {
            Self::Counts(table) => {
                let mut look = look;
                table.for_each(|text, _| look(text));
            }
            Self::Different(different) => different.for_each(look),
            _ => unreachable!("{few:?} holds no texts"),
        }
        common
    }

    fn texts(&self) -> usize {
        match self {
            Self::Counts(table) => table.len(),
            Self::Different(different) => different.len(),
            _ => unreachable!("{self:?} holds no texts"),
        }
    }
}

impl Registers {
    fn add(&mut self, hash: u64) {
        match self {
            Self::Rows(sketch) => sketch.update(hash),
            Self::Union(union) => union.update_value(hash),
        }
    }

    /// Becomes a union if it is none.
    pub(super) fn union(&mut self) -> &mut HllUnion {
        if let Self::Rows(sketch) = self {
            let mut union = HllUnion::new(DISTINCT_LG).expect(SOUND);
            if !sketch.is_empty() {
                union.update(sketch);
            }
            *self = Self::Union(union);
        }
        match self {
            Self::Union(union) => union,
            Self::Rows(_) => unreachable!("it has just become a union"),
        }
    }

    fn serialize(&self) -> Vec<u8> {
        match self {
            Self::Rows(sketch) => sketch.serialize(),
            Self::Union(union) => union.to_sketch(HllType::Hll8).serialize(),
        }
    }
}

impl Value {
    /// Its text.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => write_number(*number, out),
            Self::Text(text) => out.extend_from_slice(text),
        }
    }

    /// Numbers come before texts.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => match (left, right) {
                (Number::Whole(left), Number::Whole(right)) => left.cmp(right),
                _ => left.float().total_cmp(&right.float()),
            },
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
        }
    }
}

fn keep_least(least: &mut Option<Value>, new: Value) {
    if least.as_ref().is_none_or(|old| new.order(old) == Ordering::Less) {
        *least = Some(new);
    }
}

fn keep_most(most: &mut Option<Value>, new: Value) {
    if most.as_ref().is_none_or(|old| new.order(old) == Ordering::Greater) {
        *most = Some(new);
    }
}

fn write_value(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        None => out.push(0),
        Some(Value::Number(Number::Whole(whole))) => {
            out.push(1);
            out.extend_from_slice(&whole.to_le_bytes());
        }
        Some(Value::Number(Number::Float(float))) => {
            out.push(2);
            put_float(*float, out);
        }
        Some(Value::Text(text)) => {
            out.push(3);
            put_bytes(text, out);
        }
    }
}

fn read_value(from: &mut &[u8]) -> Result<Option<Value>, Damaged> {
    let (tag, rest) = from.split_first().ok_or(Damaged)?;
    *from = rest;
    Ok(match tag {
        0 => None,
        1 => {
            let (bytes, rest) = from.split_first_chunk::<8>().ok_or(Damaged)?;
            *from = rest;
            Some(Value::Number(Number::Whole(i64::from_le_bytes(*bytes))))
        }
        2 => Some(Value::Number(Number::Float(take_float(from)?))),
        3 => Some(Value::Text(take_bytes(from)?.into())),
        _ => return Err(Damaged),
    })
}
