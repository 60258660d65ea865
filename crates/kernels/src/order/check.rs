//! Whether a stream is in order, how much it holds, and where it begins and ends; so that pieces can be judged apart.

use std::cmp::Ordering;
use std::io::Read;

use serde::{Deserialize, Serialize};

use super::OrderError;
use super::layout::Order;
use super::run::{Filled, Run};
use super::tally::Tally;

/// Bytes of a record that are shown, at most.
const SHOWN_BYTES_MAX: usize = 80;

/// What was found in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// What it holds.
    pub tally: Tally,
    /// The key of its first record.
    pub first: Option<Vec<u8>>,
    /// The key of its last record.
    pub last: Option<Vec<u8>>,
    /// The first place where it is not in order.
    pub disorder: Option<Disorder>,
}

/// A record that comes before its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disorder {
    /// Which one, counted from 1.
    pub row: u64,
    /// Where it begins.
    pub offset: u64,
    /// Its key, as far as it is shown.
    pub key: String,
    /// The key before it.
    pub before: String,
}

impl Checked {
    /// Whether a stream that begins with this key may follow.
    pub fn may_be_followed_by(&self, order: &Order, next: &Self) -> bool {
        match (&self.last, &next.first) {
            (Some(last), Some(first)) => order.compare(last, first) != Ordering::Greater,
            _ => true,
        }
    }
}

/// Looks at a whole stream in about this much memory. `step` is told of the bytes that were read since it was last
/// called; its error ends the check.
pub fn check<E: From<OrderError>>(
    order: &Order,
    input: &mut impl Read,
    memory: usize,
    step: &mut dyn FnMut(u64) -> Result<(), E>,
) -> Result<Checked, E> {
    let mut found = Checked::default();
    let mut run = Run::new(*order, memory);
    let mut line = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        let filled = run.fill(input)?;
        let mut bytes = 0;
        let mut previous = last.as_deref();
        for (offset, record) in run.records() {
            let key = order.key(record);
            if order.is_lines() {
                line.clear();
                line.extend_from_slice(record);
                line.push(b'\n');
                found.tally.add(&line);
                bytes += line.len() as u64;
            } else {
                found.tally.add(record);
                bytes += record.len() as u64;
            }
            match previous {
                None => found.first = Some(key.to_vec()),
                Some(before) if order.compare(before, key) == Ordering::Greater => {
                    let row = found.tally.rows;
                    found.disorder.get_or_insert_with(|| Disorder {
                        row,
                        offset,
                        key: shown(key),
                        before: shown(before),
                    });
                }
                Some(_) => {}
            }
            previous = Some(key);
        }
        last = previous.map(<[u8]>::to_vec);
        step(bytes)?;
        if filled == Filled::End {
            found.last = last;
            return Ok(found);
        }
    }
}

fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[..key.len().min(SHOWN_BYTES_MAX)]).into_owned()
}
