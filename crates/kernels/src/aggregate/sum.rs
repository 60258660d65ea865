//! Sums: whole numbers exactly, floats with what rounding lost kept beside (Neumaier 1974).

use super::bytes::{Damaged, put_float, put_number, take_float, take_number};
use crate::text::Number;

/// A sum, and of how many numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sum {
    whole: i128,
    float: f64,
    lost: f64,
    floats: u64,
    numbers: u64,
}

impl Sum {
    /// Adds a number.
    #[inline]
    pub(super) fn add(&mut self, number: Number) {
        self.numbers += 1;
        match number {
            // 2^64 numbers of 63 bits fit.
            Number::Whole(value) => self.whole += i128::from(value),
            Number::Float(value) => {
                self.floats += 1;
                self.add_float(value);
            }
        }
    }

    #[inline]
    fn add_float(&mut self, value: f64) {
        let sum = self.float + value;
        self.lost += if self.float.abs() >= value.abs() {
            (self.float - sum) + value
        } else {
            (value - sum) + self.float
        };
        self.float = sum;
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: &Self) {
        self.whole += other.whole;
        self.numbers += other.numbers;
        self.floats += other.floats;
        self.add_float(other.float);
        self.lost += other.lost;
    }

    /// How many numbers were added.
    pub(super) fn numbers(&self) -> u64 {
        self.numbers
    }

    /// The sum, if all numbers were whole.
    pub(super) fn whole(&self) -> Option<i128> {
        (self.floats == 0).then_some(self.whole)
    }

    /// The sum as a float.
    pub(super) fn float(&self) -> f64 {
        if self.floats == 0 {
            self.whole as f64
        } else {
            self.whole as f64 + (self.float + self.lost)
        }
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_number(self.numbers, out);
        put_number(self.floats, out);
        if self.floats < self.numbers {
            out.extend_from_slice(&self.whole.to_le_bytes());
        }
        if self.floats > 0 {
            put_float(self.float, out);
            put_float(self.lost, out);
        }
    }

    /// Takes one from the front.
    pub(super) fn read(from: &mut &[u8]) -> Result<Self, Damaged> {
        let mut sum =
            Self { numbers: take_number(from)?, floats: take_number(from)?, ..Self::default() };
        if sum.floats < sum.numbers {
            let (bytes, rest) = from.split_first_chunk::<16>().ok_or(Damaged)?;
            sum.whole = i128::from_le_bytes(*bytes);
            *from = rest;
        }
        if sum.floats > 0 {
            sum.float = take_float(from)?;
            sum.lost = take_float(from)?;
        }
        Ok(sum)
    }
}
