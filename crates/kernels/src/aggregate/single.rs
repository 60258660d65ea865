//! A group on its own, for those who keep groups elsewhere, such as in windows of a stream.

use super::answer::Answer;
use super::bytes::Damaged;
use super::groups::{RowError, no_number, read_key, wanted, write_key};
use super::query::Query;
use super::state::State;
use crate::text::{Field, Number};

/// What is kept of one group.
#[derive(Clone, Debug)]
pub struct Single {
    states: Box<[State]>,
}

/// Puts rows into groups that are kept elsewhere. First [`read`](Self::read), then [`add`](Self::add) as often as one likes.
#[derive(Debug)]
pub struct Reading {
    numbers: Vec<Option<Number>>,
    wanted: Vec<(bool, bool)>,
    text: Vec<u8>,
}

impl Reading {
    /// For rows of this query.
    pub fn new(query: &Query) -> Self {
        let wanted = wanted(query);
        Self { numbers: vec![None; wanted.len()], wanted, text: Vec::new() }
    }

    /// Looks at a row, which is the query's columns in their order, and writes the key of its group.
    ///
    /// # Errors
    /// If a column must be a number and is none.
    #[inline]
    pub fn read(
        &mut self,
        query: &Query,
        fields: &[Field<'_>],
        key: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        for (column, (asked, must)) in self.wanted.iter().enumerate() {
            if *asked {
                let number = fields[column].number();
                if number.is_none() && *must && !fields[column].is_nothing() {
                    return Err(no_number(query, column, &fields[column]));
                }
                self.numbers[column] = number;
            }
        }
        write_key(&fields[..query.keys()], key, &mut self.text);
        Ok(())
    }

    /// Puts the row that was read last into a group.
    #[inline]
    pub fn add(&mut self, query: &Query, fields: &[Field<'_>], group: &mut Single) {
        for (spec, state) in query.states().iter().zip(&mut group.states) {
            match spec.column {
                None => state.add(&Field::Nothing, None, &mut self.text),
                Some(column) if !fields[column].is_nothing() => {
                    state.add(&fields[column], self.numbers[column], &mut self.text);
                }
                Some(_) => {}
            }
        }
    }
}

impl Single {
    /// A group without rows.
    pub fn new(query: &Query) -> Self {
        Self { states: query.states().iter().map(|spec| State::new(spec.keep)).collect() }
    }

    /// Takes in what another one has kept.
    ///
    /// # Panics
    /// If the other one is of another query.
    pub fn merge(&mut self, other: &Self) {
        let mut written = Vec::new();
        other.write(&mut written);
        let mut rest = &written[..];
        for state in &mut self.states {
            state.merge(&mut rest).expect("it was written a moment ago by the same query");
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.states.iter().for_each(|state| state.write(out));
    }

    /// Takes it from the front.
    ///
    /// # Errors
    /// If that is not what was written.
    pub fn read(query: &Query, from: &mut &[u8]) -> Result<Self, Damaged> {
        let mut group = Self::new(query);
        for state in &mut group.states {
            state.merge(from)?;
        }
        Ok(group)
    }

    /// What is known of it.
    pub fn answer(&self, query: &Query, key: &[u8]) -> Answer {
        Answer::new(query, read_key(key), &mut self.states.clone())
    }
}
