//! Rows with a key, a user and a number, as CSV or JSON lines.

use std::io::{self, Write};

use super::{Maker, Zipf, put};

/// Different users.
const USERS: u64 = 100_000;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// A header and commas
    Csv,
    /// A JSON object in each line
    Jsonl,
}

pub(super) fn write<W: Write>(
    shape: Shape,
    zipf: &Zipf,
    mut chance: fastrand::Rng,
    to: &mut Maker<'_, W>,
) -> io::Result<()> {
    if shape == Shape::Csv {
        to.header("k,u,x\n")?;
    }
    while to.wants_more() {
        let key = u64::from(zipf.choose(&mut chance));
        let user = chance.u64(0..USERS);
        // Hundredths, so that sums are the same in any order of reading.
        let hundredths = chance.u64(0..300_000);
        to.row(|line| {
            let parts: [&[u8]; 4] = match shape {
                Shape::Csv => [b"k", b",u", b",", b"\n"],
                Shape::Jsonl => [b"{\"k\":\"k", b"\",\"u\":\"u", b"\",\"x\":", b"}\n"],
            };
            line.extend_from_slice(parts[0]);
            put(key, line);
            line.extend_from_slice(parts[1]);
            put(user, line);
            line.extend_from_slice(parts[2]);
            put_hundredths(hundredths, line);
            line.extend_from_slice(parts[3]);
        })?;
    }
    Ok(())
}

pub(super) fn put_hundredths(hundredths: u64, line: &mut Vec<u8>) {
    put(hundredths / 100, line);
    line.push(b'.');
    line.push(b'0' + (hundredths / 10 % 10) as u8);
    line.push(b'0' + (hundredths % 10) as u8);
}
