//! Events with a time, a key and a number. Most come in order; a share of them comes late, by chance up to a bound.

use std::io::{self, Write};

use super::rows::{Shape, put_hundredths};
use super::{Maker, Zipf, put};

/// How times run, and how far they are out of order.
#[derive(Clone, Copy, Debug)]
pub struct Disorder {
    /// The time of the first event, in milliseconds since 1970.
    pub start_ms: u64,
    /// Between two events, in microseconds.
    pub step_us: u64,
    /// How late an event may be.
    pub late_ms: u64,
    /// The share of events that are late.
    pub share: f64,
}

pub(super) fn write<W: Write>(
    shape: Shape,
    zipf: &Zipf,
    disorder: Disorder,
    mut chance: fastrand::Rng,
    to: &mut Maker<'_, W>,
) -> io::Result<()> {
    if shape == Shape::Csv {
        to.header("at,k,x\n")?;
    }
    while to.wants_more() {
        let now = disorder.start_ms + to.made.rows * disorder.step_us / 1_000;
        let delay =
            if chance.f64() < disorder.share { chance.u64(0..=disorder.late_ms) } else { 0 };
        let at = now.saturating_sub(delay);
        let (key, hundredths) = (u64::from(zipf.choose(&mut chance)), chance.u64(0..10_000));
        to.row(|line| {
            let parts: [&[u8]; 4] = match shape {
                Shape::Csv => [b"", b",k", b",", b"\n"],
                Shape::Jsonl => [b"{\"at\":", b",\"k\":\"k", b"\",\"x\":", b"}\n"],
            };
            line.extend_from_slice(parts[0]);
            put(at, line);
            line.extend_from_slice(parts[1]);
            put(key, line);
            line.extend_from_slice(parts[2]);
            put_hundredths(hundredths, line);
            line.extend_from_slice(parts[3]);
        })?;
    }
    Ok(())
}
