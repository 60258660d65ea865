//! Groups: a key of one or more columns, and for each what the query keeps.
//!
//! The key of several columns is their texts with the byte 0 between them; a byte 0 inside of one is doubled with 255, so
//! that keys differ where columns do and are ordered as columns are. Whoever fills groups looks at [`Groups::memory`] and
//! takes them out with [`Groups::write_sorted`] when it is too much.

use super::answer::Answer;
use super::bytes::Damaged;
use super::different::word;
use super::query::Query;
use super::state::{Keep, State};
use super::table::Table;
use crate::text::{Field, Number};

const ESCAPE: [u8; 2] = [0, 255];
const BETWEEN: [u8; 2] = [0, 1];

/// Texts that wait for the lists of different ones in their groups, at most: their places fit in the nearest cache.
const WAITING_MAX: usize = 256;

/// A row that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} is `{text}`, not a number")]
pub struct RowError {
    column: String,
    text: String,
}

/// Groups and their states.
#[derive(Debug)]
pub struct Groups<'q> {
    query: &'q Query,
    table: Table,
    /// All states of the first group, then all of the second one, and so on.
    states: Vec<State>,
    /// States and the words of texts that they do not have yet; lists of different texts are too large for any cache, and to
    /// wait for one place after the other would take longer than all the rest of a row.
    waiting: Vec<(usize, u64)>,
    key: Vec<u8>,
    text: Vec<u8>,
    numbers: Vec<Option<Number>>,
    /// By column: whether its number is asked for, and whether it must be one.
    wanted: Vec<(bool, bool)>,
}

impl<'q> Groups<'q> {
    /// No groups yet.
    pub fn new(query: &'q Query) -> Self {
        let wanted = wanted(query);
        let numbers = vec![None; wanted.len()];
        let (table, states, waiting) = (Table::new(), Vec::new(), Vec::with_capacity(WAITING_MAX));
        let (key, text) = (Vec::new(), Vec::new());
        Self { query, table, states, waiting, key, text, numbers, wanted }
    }

    /// Takes a row: the query's columns in their order.
    ///
    /// # Errors
    /// If a column must be a number and is none; nothing of the row is taken then.
    #[inline]
    pub fn add(&mut self, fields: &[Field<'_>]) -> Result<(), RowError> {
        for (column, (asked, must)) in self.wanted.iter().enumerate() {
            if *asked {
                let number = fields[column].number();
                if number.is_none() && *must && !fields[column].is_nothing() {
                    return Err(no_number(self.query, column, &fields[column]));
                }
                self.numbers[column] = number;
            }
        }
        write_key(&fields[..self.query.keys()], &mut self.key, &mut self.text);
        let start = start(&mut self.table, &mut self.states, self.query, &self.key);
        let specs = self.query.states();
        let states = &mut self.states[start..start + specs.len()];
        for (at, (spec, state)) in specs.iter().zip(states).enumerate() {
            match spec.column {
                None => state.add(&Field::Nothing, None, &mut self.text),
                Some(column)
                    if spec.keep == Keep::Different
                        && let Field::Text(text) = fields[column]
                        && let Some(word) = word(text) =>
                {
                    self.waiting.push((start + at, word));
                }
                Some(column) if !fields[column].is_nothing() => {
                    state.add(&fields[column], self.numbers[column], &mut self.text);
                }
                Some(_) => {}
            }
        }
        if self.waiting.len() + specs.len() > WAITING_MAX {
            self.add_waiting();
        }
        Ok(())
    }

    /// Adds the texts that wait.
    #[inline(never)]
    fn add_waiting(&mut self) {
        let mut seen = 0;
        for (at, word) in &self.waiting {
            if let State::Different(different) = &self.states[*at] {
                seen ^= different.look(*word);
            }
        }
        std::hint::black_box(seen);
        for (at, word) in self.waiting.drain(..) {
            if let State::Different(different) = &mut self.states[at] {
                different.add_word(word);
            }
        }
    }

    /// Takes in what another place kept of a group.
    ///
    /// # Errors
    /// If that is not what was written.
    pub fn merge(&mut self, key: &[u8], mut written: &[u8]) -> Result<(), Damaged> {
        let start = start(&mut self.table, &mut self.states, self.query, key);
        for state in &mut self.states[start..start + self.query.states().len()] {
            state.merge(&mut written)?;
        }
        if written.is_empty() { Ok(()) } else { Err(Damaged) }
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes of memory. Looks at every group: ask after as many rows as there are groups.
    pub fn memory(&self) -> usize {
        let behind: usize = self.states.iter().map(State::memory).sum();
        self.table.memory() + self.states.capacity() * size_of::<State>() + behind
    }

    /// Hands partition, key and what is kept of every group to `take`, in the order of partitions and keys, and forgets
    /// them.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn write_sorted<E>(
        &mut self,
        partitions: u32,
        mut take: impl FnMut(u32, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.add_waiting();
        let stride = self.query.states().len();
        let mut written = Vec::new();
        for (partition, key, number) in self.table.sorted(partitions).iter() {
            written.clear();
            let start = (number as usize - 1) * stride;
            for state in &self.states[start..start + stride] {
                state.write(&mut written);
            }
            take(partition, key, &written)?;
        }
        self.clear();
        Ok(())
    }

    /// Hands the answer of every group to `take`, in the order of keys, and forgets the groups.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn answers<E>(&mut self, mut take: impl FnMut(Answer) -> Result<(), E>) -> Result<(), E> {
        self.add_waiting();
        let stride = self.query.states().len();
        for (_, key, number) in self.table.sorted(1).iter() {
            let start = (number as usize - 1) * stride;
            let states = &mut self.states[start..start + stride];
            take(Answer::new(self.query, read_key(key), states))?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.table.clear();
        self.states.clear();
        self.waiting.clear();
    }
}

/// Where the states of a group begin; they are made if the group is new.
#[inline]
fn start(table: &mut Table, states: &mut Vec<State>, query: &Query, key: &[u8]) -> usize {
    let groups = table.len() as u64 + 1;
    let (number, new) = table.entry(key);
    if new {
        *number = groups;
        states.extend(query.states().iter().map(|spec| State::new(spec.keep)));
    }
    (*number as usize - 1) * query.states().len()
}

/// By column: whether its number is asked for, and whether it must be one.
pub(super) fn wanted(query: &Query) -> Vec<(bool, bool)> {
    let mut wanted = vec![(false, false); query.columns().len()];
    for spec in query.states() {
        if let Some(column) = spec.column {
            wanted[column].0 |= spec.keep.reads_numbers();
            wanted[column].1 |= spec.keep.needs_numbers();
        }
    }
    wanted
}

#[cold]
pub(super) fn no_number(query: &Query, column: usize, field: &Field<'_>) -> RowError {
    let text = field.text(&mut Vec::new()).to_vec();
    let text = String::from_utf8_lossy(&text).chars().take(60).collect();
    RowError { column: query.columns()[column].clone(), text }
}

#[inline]
pub(super) fn write_key(fields: &[Field<'_>], key: &mut Vec<u8>, text: &mut Vec<u8>) {
    key.clear();
    for (number, field) in fields.iter().enumerate() {
        if number > 0 {
            key.extend_from_slice(&BETWEEN);
        }
        let text = field.text(text);
        if memchr::memchr(0, text).is_none() {
            key.extend_from_slice(text);
            continue;
        }
        for byte in text {
            match byte {
                0 => key.extend_from_slice(&ESCAPE),
                byte => key.push(*byte),
            }
        }
    }
}

/// The columns of a key.
pub fn read_key(key: &[u8]) -> Vec<Vec<u8>> {
    let mut columns = vec![Vec::new()];
    let mut bytes = key.iter();
    while let Some(byte) = bytes.next() {
        let column = columns.last_mut().expect("there is always one");
        match byte {
            0 if bytes.next() == Some(&BETWEEN[1]) => columns.push(Vec::new()),
            byte => column.push(*byte),
        }
    }
    columns
}
